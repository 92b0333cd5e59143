#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "informer/kubeconfig_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever the bytes are: an error with a message, or a kubeconfig that keeps its promises. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gq_kubeconfig *config = NULL;
	struct gq_err err = {0};

	int code = gq_kubeconfig_parse("fuzz", (const char *)data, size, NULL, &config, &err);
	if (code) {
		if (config || code != err.code || !err.msg[0])
			abort();
		return 0;
	}
	if (!config->server || strncasecmp(config->server, "http", 4) != 0 ||
	    strpbrk(config->server, " \r\n") || (config->token && strpbrk(config->token, "\r\n")) ||
	    (config->impersonate_groups && !config->impersonate_user))
		abort();
	gq_kubeconfig_free(config);
	return 0;
}
