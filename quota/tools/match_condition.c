#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "quota/gpu_names.h"

#define EXPRESSION_MAX_BYTES (64u << 10)

/* Prints the matchCondition of the registration `quota`; for hack/generate-manifests.sh. */
int main(void)
{
	GQ_BUF_CLEANUP struct gq_buf out = GQ_BUF_INIT(EXPRESSION_MAX_BYTES);

	if (gq_gpu_names_print_match_condition(&out) < 0 || gq_buf_putc(&out, '\n') < 0) {
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
