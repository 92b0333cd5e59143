#include "informer/credential.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "informer/secret.h"

enum { TOKEN_MAX_BYTES = 64 << 10 };

struct gq_credential {
	const struct gq_kubeconfig *config;

	struct gq_lock lock; /* of what follows */
	char *token;         /* as last read */
	uint64_t tokens;     /* how many different ones, one after the other */
	uint64_t requests;
	bool refused;
	uint64_t refused_token; /* 0: none that might still be shown */
	uint64_t refused_until; /* requests up to this one prove nothing against the refusal */
	uint64_t refusals;
	char unusable[GQ_ERR_MAX];
};

int gq_credential_new(const struct gq_kubeconfig *config, struct gq_credential **ret_credential,
		      struct gq_err *err)
{
	struct gq_credential *c = calloc(1, sizeof *c);

	if (!c)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	c->config = config;
	gq_lock_init(&c->lock, GQ_RANK_LEAF);
	*ret_credential = c;
	return 0;
}

void gq_credential_free(struct gq_credential *c)
{
	if (!c)
		return;
	gq_secret_free(c->token);
	gq_lock_done(&c->lock);
	free(c);
}

/* The file's token, or why it has none. */
static int read_file(const char *path, char **ret_token, struct gq_err *err)
{
	char *text = NULL;
	size_t len = 0;
	int code = gq_secret_read_file(path, TOKEN_MAX_BYTES, &text, &len, err);

	if (code)
		return code;
	/* one with a NUL inside is no text, and what stands before it no token */
	bool broken = memchr(text, '\0', len);
	char *token = broken ? NULL : gq_secret_trimmed(text, len);
	gq_secret_wipe(text, len);
	if (!token && !broken)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	/* halfway through a rotation it may be empty */
	if (broken || !*token || !gq_secret_is_header_value(token)) {
		gq_secret_free(token);
		return gq_fail(err, GQ_EIO, "%s holds no token", path);
	}
	*ret_token = token;
	return 0;
}

/* With the lock. Takes the token that was read, or notes why there is none. */
static void take(struct gq_credential *c, char *token, const struct gq_err *why)
{
	if (!token) {
		(void)snprintf(c->unusable, sizeof c->unusable, "%s", why->msg);
		return;
	}
	c->unusable[0] = '\0';
	if (c->token && strcmp(c->token, token) == 0) {
		gq_secret_free(token);
		return;
	}
	gq_secret_free(c->token);
	c->token = token;
	c->tokens++;
}

/* With the lock. What a request shows when its file can't be read. */
static bool may_show(const struct gq_credential *c)
{
	return c->token && c->tokens != c->refused_token;
}

int gq_credential_begin(struct gq_credential *c, struct gq_credential_use *use, char **ret_token,
			struct gq_err *err)
{
	const char *path = c->config->token_file;
	struct gq_err why = {0};
	char *token = NULL, *shown = NULL;
	int code = path ? read_file(path, &token, &why) : 0;

	gq_lock_take(&c->lock);
	if (path)
		take(c, token, &why);
	*use = (struct gq_credential_use){.token = c->tokens, .request = ++c->requests};
	const char *source = path ? c->token : c->config->token;
	if (code && may_show(c))
		code = 0;
	if (!code && source)
		shown = strdup(source);
	gq_lock_release(&c->lock);
	if (code)
		return gq_fail(err, code == GQ_ENOMEM ? code : GQ_EIO, "no token: %s", why.msg);
	if (source && !shown)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	*ret_token = shown;
	return 0;
}

/* An answer for which the API server must have known us; others may be a proxy's. */
static bool proves_acceptance(long status)
{
	return status >= 200 && status < 500 && status != 401 && status != 429;
}

void gq_credential_answered(struct gq_credential *c, const struct gq_credential_use *use,
			    long status)
{
	gq_lock_take(&c->lock);
	if (status == 401)
		c->refusals++;
	if (use->token != c->tokens) {
		/* of one that is shown no more */
	} else if (status == 401) {
		c->refused = true;
		c->refused_token = use->token;
		c->refused_until = c->requests;
	} else if (proves_acceptance(status) && use->request > c->refused_until) {
		c->refused = false;
		c->refused_token = 0;
	}
	gq_lock_release(&c->lock);
}

bool gq_credential_renewed(struct gq_credential *c, const struct gq_credential_use *use)
{
	struct gq_err why = {0};
	char *token = NULL;

	if (!c->config->token_file)
		return false;
	(void)read_file(c->config->token_file, &token, &why);
	gq_lock_take(&c->lock);
	take(c, token, &why);
	bool renewed = c->tokens != use->token;
	gq_lock_release(&c->lock);
	return renewed;
}

void gq_credential_state(struct gq_credential *c, struct gq_credential_state *ret_state)
{
	const struct gq_kubeconfig *config = c->config;
	struct gq_credential_state state = {0};

	if (config->token_file) {
		state.kind = GQ_CREDENTIAL_TOKEN_FILE;
		state.file = config->token_file;
	} else if (config->token) {
		state.kind = GQ_CREDENTIAL_TOKEN;
	} else if (config->username) {
		state.kind = GQ_CREDENTIAL_PASSWORD;
	} else if (config->client_cert_pem || config->client_cert_file) {
		state.kind = GQ_CREDENTIAL_CERTIFICATE;
		state.file = config->client_cert_pem ? NULL : config->client_cert_file;
	}
	gq_lock_take(&c->lock);
	state.refused = c->refused;
	state.refusals = c->refusals;
	state.has_token = config->token_file ? may_show(c) : config->token != NULL;
	memcpy(state.unusable, c->unusable, sizeof state.unusable);
	gq_lock_release(&c->lock);
	*ret_state = state;
}
