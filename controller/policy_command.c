#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "controller/commands.h"
#include "controller/file.h"
#include "controller/hash.h"
#include "quota/policy.h"

/* The most common mistake: the file that is applied, with the policy inside. */
static bool is_config_map(const struct gq_buf *bytes)
{
	static const char line[] = "kind: ConfigMap";
	const char *at = bytes->data;

	for (; at && (at = strstr(at, line)); at++)
		if ((at == bytes->data || at[-1] == '\n') &&
		    strchr("\r\n", at[sizeof line - 1]) != NULL)
			return true;
	return false;
}

static int lint(const char *path)
{
	struct gq_policy_problems problems GQ_CLEANUP(gq_policy_problems_done) = {0};
	struct gq_policy *policy GQ_CLEANUP(gq_cleanup_policy) = NULL;
	struct gq_buf bytes GQ_BUF_CLEANUP = GQ_BUF_INIT(GQ_POLICY_MAX_BYTES);
	struct gq_buf list GQ_BUF_CLEANUP = GQ_BUF_INIT(64u << 10);
	char hash[GQ_HASH_TEXT_BYTES];
	struct gq_err err;

	int code = gq_file_read(path, &bytes, &err);
	if (!code && gq_hash_text(bytes.data ? bytes.data : "", bytes.len, hash))
		code = gq_fail(&err, GQ_ENOMEM, "out of memory");
	if (code) {
		fprintf(stderr, "gpuquota: %s\n", err.msg);
		return 2;
	}
	if (is_config_map(&bytes)) {
		fprintf(stderr,
			"gpuquota policy lint: %s is a ConfigMap; what is checked is the policy in "
			"it:\n"
			"  kubectl label --local -f %s x=y -o jsonpath='{.data.policy\\.yaml}' | "
			"gpuquota policy lint -\n",
			path, path);
		return 2;
	}
	code = gq_policy_parse(bytes.data ? bytes.data : "", bytes.len, hash, &policy, &problems,
			       &err);
	if (code && problems.n_items) {
		gq_policy_problems_print(&problems, path, &list);
		fputs(list.data ? list.data : "", stderr);
		return 1;
	}
	if (code) {
		fprintf(stderr, "gpuquota: %s: %s\n", path, err.msg);
		return 1;
	}
	printf("%s: good, %zu tenant%s, sha256 %s\n", path, policy->n_tenants,
	       policy->n_tenants == 1 ? "" : "s", policy->hash);
	return 0;
}

int gq_command_policy(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "lint") == 0)
		return lint(argv[2]);
	fputs("usage: gpuquota policy lint FILE\n", stderr);
	return 2;
}
