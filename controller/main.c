#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "controller/commands.h"
#include "controller/version.h"

static const char usage_text[] =
    "gpuquota " GQ_VERSION ": quotas of GPU models for tenants of a Kubernetes cluster\n"
    "\n"
    "  gpuquota serve --tls-cert FILE --tls-key FILE [--leader-elect=BOOL]\n"
    "      [--kubeconfig FILE] [--namespace NS] [--listen ADDR:PORT]\n"
    "      [--metrics-listen ADDR:PORT] [--identity NAME] [--reservation-ttl SECONDS]\n"
    "      [--log-level debug|info|warn|error] [--log-format text|json]\n"
    "                             run the webhook and its controller\n"
    "  gpuquota usage [--kubeconfig FILE] [-n NAMESPACE] [--recount | --url URL] [-o text|json]\n"
    "                             who holds what; --recount: counted anew first\n"
    "  gpuquota policy lint FILE  check a policy: the text under policy.yaml, - for stdin\n"
    "  gpuquota version\n"
    "  gpuquota help\n"
    "\n"
    "Defaults: namespace gpuquota-system, :9443, metrics on :9402, leader election on (identity:\n"
    "$HOSTNAME, the pod's name), reservations 60 s, info, text.\n"
    "The API server is that of --kubeconfig, else $KUBECONFIG, else of the pod it runs in; for\n"
    "usage, else of ~/.kube/config.\n";

static int later(const char *command)
{
	fprintf(stderr, "gpuquota: %s is not supported by this version\n", command);
	return 2;
}

static bool wants_help(const char *argument)
{
	return strcmp(argument, "help") == 0 || strcmp(argument, "--help") == 0 ||
	       strcmp(argument, "-h") == 0;
}

static int run(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";

	if (wants_help(command) || (argc == 3 && wants_help(argv[2]))) {
		fputs(usage_text, stdout);
		return 0;
	}
	if (strcmp(command, "serve") == 0)
		return gq_command_serve(argc - 1, argv + 1);
	if (strcmp(command, "usage") == 0)
		return gq_command_usage(argc - 1, argv + 1);
	if (strcmp(command, "policy") == 0)
		return gq_command_policy(argc - 1, argv + 1);
	if (strcmp(command, "version") == 0 || strcmp(command, "--version") == 0) {
		puts("gpuquota " GQ_VERSION);
		return 0;
	}
	if (strcmp(command, "check") == 0 || strcmp(command, "nodes") == 0 ||
	    strcmp(command, "explain") == 0 || strcmp(command, "simulate") == 0)
		return later(command);
	if (command[0])
		fprintf(stderr, "gpuquota: unknown command %s\n\n", command);
	fputs(usage_text, stderr);
	return 2;
}

int main(int argc, char **argv)
{
	int status = run(argc, argv);

	/* a table that the disk had no room for is no success */
	if (fflush(stdout) == EOF && status == 0) {
		fprintf(stderr, "gpuquota: standard output: %s\n", strerror(errno));
		status = 1;
	}
	return status;
}
