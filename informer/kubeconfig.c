#include "informer/kubeconfig.h"

#include <libfyaml.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/yaml_guard.h"
#include "informer/base64.h"
#include "informer/kubeconfig_internal.h"
#include "informer/secret.h"

enum { FILE_MAX_BYTES = 1 << 20 };

/* The mapping of one cluster, user or context: where it stands and what it is called. */
struct section {
	const char *name;
	size_t name_len;
	struct fy_node *entry; /* {name: …, cluster: {…}} */
	struct fy_node *map;   /* the inner mapping */
};

struct reader {
	const char *path;
	struct gq_kubeconfig *config;
};

static bool position_of(struct fy_node *node, int *ret_line, int *ret_column)
{
	/* a collection has no token of its own: it stands where its first scalar stands */
	while (node && !fy_node_is_scalar(node)) {
		void *at = NULL;
		if (fy_node_is_sequence(node)) {
			node = fy_node_sequence_iterate(node, &at);
			continue;
		}
		struct fy_node_pair *pair = fy_node_mapping_iterate(node, &at);
		node = pair ? fy_node_pair_key(pair) : NULL;
	}
	struct fy_token *token = node ? fy_node_get_scalar_token(node) : NULL;
	const struct fy_mark *mark = token ? fy_token_start_mark(token) : NULL;
	if (!mark)
		return false;
	enum fy_node_style style = fy_node_get_style(node);
	/* of these, the mark stands behind the quote or the asterisk */
	bool behind =
	    style == FYNS_SINGLE_QUOTED || style == FYNS_DOUBLE_QUOTED || style == FYNS_ALIAS;
	*ret_line = mark->line + 1;
	*ret_column = mark->column + !behind;
	return true;
}

static int fail_at(const struct reader *r, struct fy_node *at, struct gq_err *err, const char *fmt,
		   ...) __attribute__((format(printf, 4, 5)));

static int fail_at(const struct reader *r, struct fy_node *at, struct gq_err *err, const char *fmt,
		   ...)
{
	char msg[GQ_ERR_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(msg, sizeof msg, fmt, ap);
	va_end(ap);
	int line, column;
	if (!position_of(at, &line, &column))
		return gq_fail(err, GQ_EINVALID, "%s: %s", r->path, msg);
	return gq_fail(err, GQ_EINVALID, "%s:%d:%d: %s", r->path, line, column, msg);
}

static struct fy_node *lookup(struct fy_node *map, const char *key)
{
	if (!map || !fy_node_is_mapping(map))
		return NULL;
	return fy_node_mapping_lookup_value_by_simple_key(map, key, strlen(key));
}

static bool is_null(struct fy_node *node)
{
	size_t len;

	if (!node)
		return true;
	if (!fy_node_is_scalar(node))
		return false;
	const char *text = fy_node_get_scalar(node, &len);
	if (!text)
		return true;
	if (fy_node_get_style(node) != FYNS_PLAIN)
		return false;
	return len == 0 || (len == 1 && *text == '~') || (len == 4 && memcmp(text, "null", 4) == 0);
}

/* The scalar's text, not NUL-terminated; *ret_text is NULL when it is absent or null. */
static int scalar(const struct reader *r, struct fy_node *map, const char *key,
		  const char **ret_text, size_t *ret_len, struct gq_err *err)
{
	struct fy_node *node = lookup(map, key);
	size_t len = 0;

	if (is_null(node)) {
		*ret_text = NULL;
		*ret_len = 0;
		return 0;
	}
	if (fy_node_is_alias(node))
		return fail_at(r, node, err, "%s is a YAML alias, which is not supported here",
			       key);
	if (!fy_node_is_scalar(node))
		return fail_at(r, node, err, "%s must be a string", key);
	const char *text = fy_node_get_scalar(node, &len);
	if (memchr(text, '\0', len))
		return fail_at(r, node, err, "%s holds a NUL character", key);
	*ret_text = text;
	*ret_len = len;
	return 0;
}

/* ret_text is NULL when the key is absent, null or "". */
static int get_string(const struct reader *r, struct fy_node *map, const char *key, char **ret_text,
		      struct gq_err *err)
{
	const char *text = NULL;
	size_t len = 0;

	int code = scalar(r, map, key, &text, &len, err);
	if (code)
		return code;
	char *copy = NULL;
	if (len && !(copy = strndup(text, len)))
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	*ret_text = copy;
	return 0;
}

/* A string that will be sent in a header. */
static int get_header(const struct reader *r, struct fy_node *map, const char *key, char **ret_text,
		      struct gq_err *err)
{
	int code = get_string(r, map, key, ret_text, err);
	if (code)
		return code;
	if (*ret_text && !gq_secret_is_header_value(*ret_text))
		return fail_at(r, lookup(map, key), err, "%s holds a control character", key);
	return 0;
}

static int get_bool(const struct reader *r, struct fy_node *map, const char *key, bool *ret_value,
		    struct gq_err *err)
{
	const char *text = NULL;
	size_t len = 0;

	int code = scalar(r, map, key, &text, &len, err);
	if (code)
		return code;
	if (text && len == 4 && strncasecmp(text, "true", 4) == 0)
		*ret_value = true;
	else if (!text || (len == 5 && strncasecmp(text, "false", 5) == 0))
		*ret_value = false;
	else
		return fail_at(r, lookup(map, key), err, "%s must be true or false", key);
	return 0;
}

static int get_path(const struct reader *r, struct fy_node *map, const char *key, char **ret_path,
		    struct gq_err *err)
{
	GQ_AUTOFREE char *text = NULL;

	int code = get_string(r, map, key, &text, err);
	if (code)
		return code;
	const char *slash = strrchr(r->path, '/');
	if (text && text[0] != '/' && slash) {
		char *joined = NULL;
		if (asprintf(&joined, "%.*s/%s", (int)(slash - r->path), r->path, text) < 0)
			return gq_fail(err, GQ_ENOMEM, "out of memory");
		free(text);
		text = joined;
	}
	*ret_path = GQ_STEAL(text);
	return 0;
}

/* The bytes of a …-data key, which are text (PEM). */
static int get_data(const struct reader *r, struct fy_node *map, const char *key, char **ret_text,
		    struct gq_err *err)
{
	const char *text = NULL;
	size_t len = 0, n = 0;
	char *bytes = NULL;

	int code = scalar(r, map, key, &text, &len, err);
	if (code || !len)
		return code;
	code = gq_base64_decode(text, len, &bytes, &n, err);
	if (code == GQ_EINVALID)
		return fail_at(r, lookup(map, key), err, "%s is not base64", key);
	if (code)
		return code;
	if (strlen(bytes) != n) {
		gq_secret_free(bytes);
		return fail_at(r, lookup(map, key), err, "%s is not PEM", key);
	}
	*ret_text = bytes;
	return 0;
}

/* Finds the entry called name in the list `list` (clusters, users, contexts). */
static int find_section(const struct reader *r, struct fy_node *root, const char *list,
			const char *key, const char *name, struct section *ret, struct gq_err *err)
{
	struct fy_node *entries = lookup(root, list);
	struct section found = {0};
	void *at = NULL;

	if (entries && !is_null(entries) && !fy_node_is_sequence(entries))
		return fail_at(r, entries, err, "%s must be a list", list);
	while (entries && fy_node_is_sequence(entries)) {
		struct fy_node *entry = fy_node_sequence_iterate(entries, &at);
		struct section section = {.entry = entry};
		if (!entry)
			break;
		if (!fy_node_is_mapping(entry))
			return fail_at(r, entry, err, "an entry of %s must be a mapping", list);
		int code = scalar(r, entry, "name", &section.name, &section.name_len, err);
		if (code)
			return code;
		if (section.name_len != strlen(name) ||
		    memcmp(section.name, name, section.name_len) != 0)
			continue;
		if (found.entry)
			return fail_at(r, entry, err, "%s names \"%s\" twice", list, name);
		section.map = lookup(entry, key);
		if (section.map && is_null(section.map))
			section.map = NULL;
		if (section.map && !fy_node_is_mapping(section.map))
			return fail_at(r, section.map, err, "%s must be a mapping", key);
		found = section;
	}
	if (!found.entry)
		return fail_at(r, entries, err, "no %s is called \"%s\"", key, name);
	*ret = found;
	return 0;
}

static int read_cluster(const struct reader *r, struct fy_node *root, const char *name,
			struct gq_err *err)
{
	struct gq_kubeconfig *config = r->config;
	GQ_AUTOFREE char *server = NULL;
	struct gq_err why = {0};
	struct section cluster;
	int code;

	if ((code = find_section(r, root, "clusters", "cluster", name, &cluster, err)) ||
	    (code = get_string(r, cluster.map, "server", &server, err)) ||
	    (code = get_path(r, cluster.map, "certificate-authority", &config->ca_file, err)) ||
	    (code = get_data(r, cluster.map, "certificate-authority-data", &config->ca_pem, err)) ||
	    (code = get_bool(r, cluster.map, "insecure-skip-tls-verify",
			     &config->insecure_skip_tls_verify, err)) ||
	    (code = get_header(r, cluster.map, "tls-server-name", &config->tls_server_name, err)) ||
	    (code = get_header(r, cluster.map, "proxy-url", &config->proxy_url, err)))
		return code;
	if (!server)
		return fail_at(r, cluster.entry, err, "cluster \"%s\" has no server", name);
	code = gq_kubeconfig_server(server, &config->server, &why);
	if (code == GQ_ENOMEM)
		return gq_fail(err, code, "%s", why.msg);
	if (code)
		return fail_at(r, lookup(cluster.map, "server"), err, "%s", why.msg);
	if (config->insecure_skip_tls_verify && (config->ca_file || config->ca_pem))
		return fail_at(r, lookup(cluster.map, "insecure-skip-tls-verify"), err,
			       "insecure-skip-tls-verify and a certificate authority exclude each "
			       "other");
	if (!config->proxy_url)
		return 0;
	code = gq_kubeconfig_proxy(config->proxy_url, &why);
	if (code == GQ_ENOMEM)
		return gq_fail(err, code, "%s", why.msg);
	if (code)
		return fail_at(r, lookup(cluster.map, "proxy-url"), err, "%s", why.msg);
	if (strncmp(config->server, "http://", 7) == 0)
		return fail_at(r, lookup(cluster.map, "proxy-url"), err,
			       "proxy-url needs an https:// server: the proxy would see the token");
	return 0;
}

static int read_groups(const struct reader *r, struct fy_node *user, struct gq_err *err)
{
	struct fy_node *list = lookup(user, "as-groups");
	void *at = NULL;

	if (is_null(list))
		return 0;
	if (!fy_node_is_sequence(list))
		return fail_at(r, list, err, "as-groups must be a list");
	size_t n = (size_t)fy_node_sequence_item_count(list), i = 0;
	if (n == 0)
		return 0;
	char **groups = calloc(n + 1, sizeof *groups);
	if (!groups)
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	r->config->impersonate_groups = groups;
	for (struct fy_node *item; i < n && (item = fy_node_sequence_iterate(list, &at)); i++) {
		size_t len = 0;
		const char *text = fy_node_is_scalar(item) && !fy_node_is_alias(item)
				       ? fy_node_get_scalar(item, &len)
				       : NULL;
		if (!text || !len || memchr(text, '\0', len))
			return fail_at(r, item, err, "a group must be a string");
		groups[i] = strndup(text, len);
		if (!groups[i])
			return gq_fail(err, GQ_ENOMEM, "out of memory");
		if (!gq_secret_is_header_value(groups[i]))
			return fail_at(r, item, err, "a group holds a control character");
	}
	return 0;
}

/* Credentials that need a program or a library of their own. */
static int refuse_foreign(const struct reader *r, const struct section *user, const char *name,
			  struct gq_err *err)
{
	static const struct {
		const char *key, *what;
	} refused[] = {
	    {"exec", "gets its credentials from a program (exec)"},
	    {"auth-provider", "gets its credentials from an auth-provider"},
	};

	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
		if (!is_null(lookup(user->map, refused[i].key)))
			return fail_at(r, lookup(user->map, refused[i].key), err,
				       "user \"%s\" %s, which is not supported: use a tokenFile, a "
				       "token (kubectl create token) or a client certificate",
				       name, refused[i].what);
	if (!is_null(lookup(user->map, "as-user-extra")))
		return fail_at(r, lookup(user->map, "as-user-extra"), err,
			       "user \"%s\" sets as-user-extra, which is not supported: use as, "
			       "as-uid and as-groups",
			       name);
	return 0;
}

static int check_user(const struct reader *r, const struct section *user, const char *name,
		      struct gq_err *err)
{
	const struct gq_kubeconfig *config = r->config;
	bool cert = config->client_cert_file || config->client_cert_pem;
	bool key = config->client_key_file || config->client_key_pem;

	if (cert != key)
		return fail_at(r, user->entry, err, "user \"%s\" has a client %s but no client %s",
			       name, cert ? "certificate" : "key", cert ? "key" : "certificate");
	if (config->password && !config->username)
		return fail_at(r, user->entry, err, "user \"%s\" has a password but no username",
			       name);
	if (config->username && (config->token || config->token_file))
		return fail_at(r, user->entry, err,
			       "user \"%s\" has both a token and a username: only one can be used",
			       name);
	if (config->username && strchr(config->username, ':'))
		return fail_at(r, lookup(user->map, "username"), err,
			       "a username can't hold a colon");
	if (!config->impersonate_user && (config->impersonate_uid || config->impersonate_groups))
		return fail_at(r, user->entry, err,
			       "user \"%s\" sets as-uid or as-groups without as", name);
	return 0;
}

static int read_user(const struct reader *r, struct fy_node *root, const char *name,
		     struct gq_err *err)
{
	struct gq_kubeconfig *config = r->config;
	struct section user;
	int code;

	if ((code = find_section(r, root, "users", "user", name, &user, err)) ||
	    (code = refuse_foreign(r, &user, name, err)) ||
	    (code = get_path(r, user.map, "client-certificate", &config->client_cert_file, err)) ||
	    (code =
		 get_data(r, user.map, "client-certificate-data", &config->client_cert_pem, err)) ||
	    (code = get_path(r, user.map, "client-key", &config->client_key_file, err)) ||
	    (code = get_data(r, user.map, "client-key-data", &config->client_key_pem, err)) ||
	    (code = get_header(r, user.map, "token", &config->token, err)) ||
	    (code = get_path(r, user.map, "tokenFile", &config->token_file, err)) ||
	    (code = get_header(r, user.map, "username", &config->username, err)) ||
	    (code = get_header(r, user.map, "password", &config->password, err)) ||
	    (code = get_header(r, user.map, "as", &config->impersonate_user, err)) ||
	    (code = get_header(r, user.map, "as-uid", &config->impersonate_uid, err)) ||
	    (code = read_groups(r, user.map, err)))
		return code;
	return check_user(r, &user, name, err);
}

static int read_context(const struct reader *r, struct fy_node *root, const char *wanted,
			struct gq_err *err)
{
	GQ_AUTOFREE char *current = NULL, *kind = NULL, *cluster = NULL, *user = NULL;
	struct section context;
	int code;

	if (!root || !fy_node_is_mapping(root))
		return fail_at(r, root, err, "not a kubeconfig: a mapping is expected");
	if ((code = get_string(r, root, "kind", &kind, err)) ||
	    (code = get_string(r, root, "current-context", &current, err)))
		return code;
	if (kind && strcmp(kind, "Config") != 0)
		return fail_at(r, lookup(root, "kind"), err, "not a kubeconfig: its kind is %s",
			       kind);
	const char *name = wanted ? wanted : current;
	if (!name)
		return fail_at(r, NULL, err, "current-context is not set and no context was named");
	if ((code = find_section(r, root, "contexts", "context", name, &context, err)) ||
	    (code = get_string(r, context.map, "cluster", &cluster, err)) ||
	    (code = get_string(r, context.map, "user", &user, err)) ||
	    (code = get_string(r, context.map, "namespace", &r->config->namespace_, err)))
		return code;
	if (!cluster)
		return fail_at(r, context.entry, err, "context \"%s\" names no cluster", name);
	code = read_cluster(r, root, cluster, err);
	/* no user at all is a server that asks for none, such as kubectl proxy */
	return code || !user ? code : read_user(r, root, user, err);
}

static void no_output(struct fy_diag *diag, void *user, const char *bytes, size_t len)
{
	(void)diag;
	(void)user;
	(void)bytes;
	(void)len;
}

static int syntax_error(const char *path, struct fy_diag *diag, struct gq_err *err)
{
	void *at = NULL;
	struct fy_diag_error *first = fy_diag_errors_iterate(diag, &at);

	if (!first)
		return gq_fail(err, GQ_EINVALID, "%s: not YAML, or empty", path);
	return gq_fail(err, GQ_EINVALID, "%s:%d:%d: %s", path, first->line, first->column,
		       first->msg);
}

/* Refuses what libfyaml must not be given. */
static int check_bytes(const char *path, const char *text, size_t len, struct gq_err *err)
{
	struct gq_yaml_place at = {0};

	switch (gq_yaml_guard(text, len, &at)) {
	case GQ_YAML_FAULT_NONE:
		return 0;
	case GQ_YAML_FAULT_NOT_UTF8:
		return gq_fail(err, GQ_EINVALID, "%s:%u: not text in UTF-8", path, at.line);
	case GQ_YAML_FAULT_CONTROL:
		return gq_fail(err, GQ_EINVALID, "%s:%u:%u: control character 0x%02x", path,
			       at.line, at.column, (unsigned char)text[at.offset]);
	case GQ_YAML_FAULT_DIRECTIVE:
		return gq_fail(err, GQ_EINVALID, "%s:%u:1: a YAML directive is not supported here",
			       path, at.line);
	case GQ_YAML_FAULT_EMPTY_LINES:
		return gq_fail(err, GQ_EINVALID, "%s:%u:%u: too many empty lines", path, at.line,
			       at.column);
	case GQ_YAML_FAULT_KEY_AND_TAB:
		return gq_fail(err, GQ_EINVALID,
			       "%s:%u:%u: a \"?\" before white space and a tab further on could be "
			       "read as an explicit key, which is not supported here",
			       path, at.line, at.column);
	}
	return gq_fail(err, GQ_EINVALID, "%s: not YAML", path);
}

int gq_kubeconfig_parse(const char *path, const char *text, size_t len, const char *context,
			struct gq_kubeconfig **ret_config, struct gq_err *err)
{
	struct fy_diag_cfg quiet;
	int code = check_bytes(path, text, len, err);

	if (code)
		return code;
	GQ_CLEANUP(gq_cleanup_kubeconfig) struct gq_kubeconfig *config = calloc(1, sizeof *config);
	fy_diag_cfg_default(&quiet);
	quiet.fp = NULL;
	quiet.output_fn = no_output;
	quiet.colorize = false;
	/* libfyaml reads memory that it never set when a block scalar ends without a line end */
	size_t ended_len = len + (len && text[len - 1] != '\n');
	char *ended = malloc(ended_len + 1);
	struct fy_diag *diag = config && ended ? fy_diag_create(&quiet) : NULL;
	if (!diag) {
		free(ended);
		return gq_fail(err, GQ_ENOMEM, "out of memory");
	}
	if (len)
		memcpy(ended, text, len);
	if (ended_len > len)
		ended[len] = '\n';
	ended[ended_len] = '\0';
	fy_diag_set_collect_errors(diag, true);
	const struct fy_parse_cfg parse = {.diag = diag, .flags = FYPCF_QUIET};
	struct fy_document *doc = fy_document_build_from_string(&parse, ended, ended_len);
	const struct reader reader = {.path = path, .config = config};
	code = doc ? read_context(&reader, fy_document_root(doc), context, err)
		   : syntax_error(path, diag, err);
	fy_document_destroy(doc);
	fy_diag_destroy(diag);
	gq_secret_wipe(ended, ended_len);
	if (code)
		return code;
	*ret_config = GQ_STEAL(config);
	return 0;
}

int gq_kubeconfig_load(const char *path, const char *context, struct gq_kubeconfig **ret_config,
		       struct gq_err *err)
{
	char *text = NULL;
	size_t len = 0;

	int code = gq_secret_read_file(path, FILE_MAX_BYTES, &text, &len, err);
	if (code)
		return code;
	code = gq_kubeconfig_parse(path, text, len, context, ret_config, err);
	gq_secret_wipe(text, len);
	return code;
}

void gq_kubeconfig_free(struct gq_kubeconfig *config)
{
	if (!config)
		return;
	free(config->server);
	free(config->ca_file);
	free(config->ca_pem);
	free(config->tls_server_name);
	gq_secret_free(config->proxy_url); /* may hold a password */
	free(config->client_cert_file);
	free(config->client_cert_pem);
	free(config->client_key_file);
	gq_secret_free(config->client_key_pem);
	gq_secret_free(config->token);
	free(config->token_file);
	free(config->username);
	gq_secret_free(config->password);
	free(config->impersonate_user);
	free(config->impersonate_uid);
	for (char **group = config->impersonate_groups; group && *group; group++)
		free(*group);
	free(config->impersonate_groups);
	free(config->namespace_);
	free(config);
}
