#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/err.h"
#include "quota/match_condition.h"

#define EXPRESSION_MAX_BYTES (64u << 10)

/* gq-match-condition ENTRY: prints the matchCondition of an entry of the registrations, for
 * hack/generate-manifests.sh. */
int main(int argc, char **argv)
{
	GQ_BUF_CLEANUP struct gq_buf out = GQ_BUF_INIT(EXPRESSION_MAX_BYTES);
	int code = argc == 2 ? gq_match_condition_print(&out, argv[1]) : GQ_EINVALID;

	if (code == GQ_EINVALID) {
		fputs(
		    "usage: gq-match-condition quota|rules|references|user-namespaces|workloads\n",
		    stderr);
		return EXIT_FAILURE;
	}
	if (code || gq_buf_putc(&out, '\n') < 0) {
		fprintf(stderr, "gq-match-condition: no memory, or an expression over %u bytes\n",
			EXPRESSION_MAX_BYTES);
		return EXIT_FAILURE;
	}
	if (fputs(out.data, stdout) == EOF || fflush(stdout) == EOF) {
		perror("gq-match-condition: stdout");
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
