/* Our server without anything behind it: each review is allowed, and all that is read of it is its
 * UID, by the first "uid" in the text. What decoding and deciding cost is the difference.
 *   echo CERT KEY   prints its port */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "webhook/server.h"

#define INLINE_BELOW_BYTES (16u << 10) /* as gpuquota serve */
#define UID_BYTES 36

static int route(void *arg, bool metrics, const char *method, const char *path)
{
	(void)arg;
	(void)metrics;
	if (strcmp(path, "/validate") != 0)
		return 404;
	return strcmp(method, "POST") == 0 ? 0 : 405;
}

static void handle(void *arg, struct gq_request *request)
{
	static const char key[] = "\"uid\":\"";
	struct gq_buf body GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
	size_t len;
	const char *text = gq_request_body(request, &len);
	const char *uid = text ? memmem(text, len, key, sizeof key - 1) : NULL;
	struct gq_answer answer = {.status = 400, .content_type = "application/json", .body = ""};

	(void)arg;
	if (uid && (size_t)(text + len - uid) >= sizeof key - 1 + UID_BYTES) {
		gq_buf_puts(&body, "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":"
				   "\"AdmissionReview\",\"response\":{\"uid\":\"");
		gq_buf_append(&body, uid + sizeof key - 1, UID_BYTES);
		gq_buf_puts(&body, "\",\"allowed\":true}}");
		answer.status = body.code ? 503 : 200;
		answer.body = body.data ? body.data : "";
		answer.len = body.len;
	}
	gq_request_answer(request, &answer);
}

int main(int argc, char **argv)
{
	struct gq_server *server GQ_CLEANUP(gq_cleanup_server) = NULL;
	struct gq_err err = {0};
	unsigned port;

	if (argc != 3) {
		fprintf(stderr, "usage: echo CERT KEY\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	const struct gq_server_options options = {
	    .listen = "127.0.0.1:0",
	    .tls_cert = argv[1],
	    .tls_key = argv[2],
	    .inline_below_bytes = INLINE_BELOW_BYTES,
	    .handle = handle,
	    .route = route,
	};
	int code = gq_server_new(&options, &server, &err);
	if (!code) {
		gq_server_ports(server, &port, NULL);
		printf("%u\n", port);
		fflush(stdout);
		code = gq_server_run(server, &err);
	}
	if (code)
		fprintf(stderr, "%s\n", err.msg);
	return code ? 1 : 0;
}
