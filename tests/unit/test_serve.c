/* The wiring: what stops a start, and a whole run without an API server, from first line to last.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "app_testing.h"
#include "controller/commands.h"
#include "testpki.h"

#define PATH_BYTES 512

static char dir[] = "/tmp/gpuquota-serve-XXXXXX";
static char cert[PATH_BYTES], key[PATH_BYTES], other[PATH_BYTES], config[PATH_BYTES];

static void write_file(char path[PATH_BYTES], const char *name, const char *text)
{
	(void)snprintf(path, PATH_BYTES, "%s/%s", dir, name);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
	struct testpki pki;

	(void)state;
	assert_non_null(mkdtemp(dir));
	testpki_make(&pki);
	write_file(cert, "tls.crt", pki.server_cert);
	write_file(key, "tls.key", pki.server_key);
	write_file(other, "other.key", pki.other_key);
	/* nobody listens on port 1 */
	write_file(config, "kubeconfig",
		   "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
		   "clusters: [{name: c, cluster: {server: \"http://127.0.0.1:1\"}}]\n"
		   "users: [{name: u, user: {token: t}}]\n"
		   "contexts: [{name: c, context: {cluster: c, user: u}}]\n");
	testpki_done(&pki);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	(void)unlink(cert);
	(void)unlink(key);
	(void)unlink(other);
	(void)unlink(config);
	return rmdir(dir);
}

/* Starts the command in a process of its own. Its log comes by ret_log. */
static pid_t start(const char *key_file, const char *kubeconfig, const char *listen, FILE **ret_log)
{
	char *argv[] = {
	    "serve",        "--leader-elect=false", "--kubeconfig", (char *)kubeconfig, "--listen",
	    (char *)listen, "--metrics-listen",     "127.0.0.1:0",  "--tls-cert",       cert,
	    "--tls-key",    (char *)key_file};
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		(void)dup2(fds[1], STDERR_FILENO);
		(void)close(fds[0]);
		(void)close(fds[1]);
		exit(gq_command_serve((int)LEN(argv), argv));
	}
	(void)close(fds[1]);
	*ret_log = fdopen(fds[0], "r");
	assert_non_null(*ret_log);
	return child;
}

static int wait_for(pid_t child)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void what_stops_a_start(void **state)
{
	const struct {
		const char *key, *config, *listen, *told;
	} cases[] = {
	    {key, "/nowhere/kubeconfig", "127.0.0.1:0", "/nowhere/kubeconfig"},
	    {other, config, "127.0.0.1:0", "is not that of the certificate"},
	    {"/nowhere/tls.key", config, "127.0.0.1:0", "/nowhere/tls.key"},
	    {key, config, "nonsense", "nonsense"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		FILE *log;
		char text[8192];
		pid_t child = start(cases[i].key, cases[i].config, cases[i].listen, &log);
		size_t n = fread(text, 1, sizeof text - 1, log);
		text[n] = '\0';
		(void)fclose(log);
		assert_int_equal(wait_for(child), 1);
		assert_has(text, cases[i].told);
	}
}

/* Reads the log up to a line that has `word`, and returns the number behind it. */
static unsigned port_of(FILE *log, const char *word)
{
	char line[2048];

	while (fgets(line, sizeof line, log)) {
		const char *at = strstr(line, word);
		if (at)
			return (unsigned)strtoul(at + strlen(word), NULL, 10);
	}
	fail_msg("the log ended without %s", word);
	return 0;
}

static void get(unsigned port, const char *path, char *answer, size_t max)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	char request[256];
	size_t n = 0;
	ssize_t got;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
	int len = snprintf(request, sizeof request,
			   "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path);
	assert_int_equal(write(fd, request, (size_t)len), len);
	while (n + 1 < max && (got = read(fd, answer + n, max - 1 - n)) > 0)
		n += (size_t)got;
	answer[n] = '\0';
	(void)close(fd);
}

static void a_run_without_an_api_server(void **state)
{
	char answer[65536];
	FILE *log;
	pid_t child = start(key, config, "127.0.0.1:0", &log);
	unsigned port = port_of(log, "metrics_port=");

	(void)state;
	get(port, "/healthz", answer, sizeof answer);
	assert_has(answer, "HTTP/1.1 200 ");
	get(port, "/readyz", answer, sizeof answer);
	assert_has(answer, "HTTP/1.1 503 ");
	assert_has(answer, "[-] pods listed");
	assert_has(answer, "[-] policy in force");
	get(port, "/usage", answer, sizeof answer);
	assert_has(answer, "\"synced\":false");
	get(port, "/metrics", answer, sizeof answer);
	assert_has(answer, "gpuquota_build_info{version=");
	assert_has(answer, "gpuquota_policy_last_reload_successful 0");
	assert_has(answer, "gpuquota_watch_synced{resource=\"pods\"} 0");
	assert_has(answer, "\ngpuquota_leader 0\n");
	assert_has(answer, "\ngpuquota_journal_epoch 0\n");
	get(port, "/nowhere", answer, sizeof answer);
	assert_has(answer, "HTTP/1.1 404 ");
	assert_int_equal(kill(child, SIGHUP), 0); /* reads the certificate again, and goes on */
	(void)port_of(log, "certificate loaded");
	assert_int_equal(kill(child, SIGTERM), 0);
	while (fgets(answer, sizeof answer, log))
		;
	(void)fclose(log);
	assert_int_equal(wait_for(child), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_stops_a_start),
	    cmocka_unit_test(a_run_without_an_api_server),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
