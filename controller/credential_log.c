#include "controller/credential_log.h"

#include "base/clock.h"
#include "base/log.h"

#define REPEAT_NS (60 * GQ_NS_PER_S)
/* One of several API servers may refuse what the others take. */
#define ACCEPTED_NS (2 * GQ_NS_PER_S)

static const struct {
	const char *what, *advice;
} kinds[] = {
    [GQ_CREDENTIAL_NONE] = {"none", "give it a kubeconfig with credentials, and start again"},
    [GQ_CREDENTIAL_TOKEN_FILE] = {"token",
				  "see that the file gets a good token, which is taken up within a "
				  "second; in a pod that is its kubelet's task: delete the pod if "
				  "its ServiceAccount was made anew"},
    [GQ_CREDENTIAL_TOKEN] = {"token", "put a good token into the kubeconfig, and start again"},
    [GQ_CREDENTIAL_PASSWORD] = {"password",
				"put a good password into the kubeconfig, and start again"},
    [GQ_CREDENTIAL_CERTIFICATE] = {"client certificate",
				   "renew it; one in the kubeconfig needs a new start"},
};

static void tell_refused(const struct gq_credential_state *state, int64_t for_ns)
{
	gq_log(GQ_LOG_ERROR,
	       "the API server refuses our credentials (401), so new GPU pods wait or are refused",
	       GQ_S("credentials", kinds[state->kind].what),
	       GQ_S("file", state->file ? state->file : "the kubeconfig"),
	       GQ_S("do", kinds[state->kind].advice), GQ_I("for_s", for_ns / GQ_NS_PER_S),
	       GQ_I("times", state->refusals));
}

static void follow_refusal(struct gq_credential_log *log, const struct gq_credential_state *state,
			   int64_t now_ns)
{
	if (state->refused) {
		log->accepted_ns = 0;
		if (log->refused_ns && now_ns - log->told_ns < REPEAT_NS)
			return;
		if (!log->refused_ns)
			log->refused_ns = now_ns;
		log->told_ns = now_ns;
		tell_refused(state, now_ns - log->refused_ns);
	} else if (log->refused_ns) {
		if (!log->accepted_ns)
			log->accepted_ns = now_ns;
		if (now_ns - log->accepted_ns < ACCEPTED_NS)
			return;
		gq_log(GQ_LOG_INFO, "the API server takes our credentials again",
		       GQ_I("after_s", (log->accepted_ns - log->refused_ns) / GQ_NS_PER_S));
		log->refused_ns = log->accepted_ns = 0;
	}
}

static void follow_file(struct gq_credential_log *log, const struct gq_credential_state *state)
{
	bool unusable = state->unusable[0];

	if (unusable && (!log->unusable_told || log->had_token != state->has_token))
		gq_log(state->has_token ? GQ_LOG_WARN : GQ_LOG_ERROR, "the token file is of no use",
		       GQ_S("problem", state->unusable),
		       GQ_S("then", state->has_token ? "the last token that was in it serves"
						     : "there is no token to show"));
	else if (!unusable && log->unusable_told)
		gq_log(GQ_LOG_INFO, "the token file is of use again", GQ_S("file", state->file));
	log->unusable_told = unusable;
	log->had_token = state->has_token;
}

void gq_credential_log(struct gq_credential_log *log, const struct gq_credential_state *state,
		       int64_t now_ns)
{
	follow_refusal(log, state, now_ns);
	follow_file(log, state);
}

bool gq_credential_log_covers(const struct gq_credential_state *state, int code)
{
	if (code == GQ_EDENIED)
		return state->refused;
	return code == GQ_EIO && state->unusable[0] && !state->has_token;
}
