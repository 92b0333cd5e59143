#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "informer/kubeconfig.h"
#include "informer/kubeconfig_internal.h"

#define ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

static char root[] = "/tmp/gq-find-XXXXXX";

static void put(const char *name, const char *text)
{
	char path[512];

	(void)snprintf(path, sizeof path, "%s%s", root, name);
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		(void)mkdir(path, 0700);
		*slash = '/';
	}
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void drop(const char *name)
{
	char path[512];

	(void)snprintf(path, sizeof path, "%s%s", root, name);
	(void)unlink(path);
}

static void at_home(const char *host, const char *port, const char *kubeconfig)
{
	setenv("HOME", root, 1);
	unsetenv("KUBERNETES_SERVICE_HOST");
	unsetenv("KUBERNETES_SERVICE_PORT");
	unsetenv("KUBECONFIG");
	if (host)
		setenv("KUBERNETES_SERVICE_HOST", host, 1);
	if (port)
		setenv("KUBERNETES_SERVICE_PORT", port, 1);
	if (kubeconfig)
		setenv("KUBECONFIG", kubeconfig, 1);
}

static int make_root(void **state)
{
	(void)state;
	return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
	char command[64];
	(void)state;

	(void)snprintf(command, sizeof command, "rm -rf %s", root);
	return system(command);
}

static void test_in_cluster(void **state)
{
	static const char *const hosts[][3] = {
	    {"10.96.0.1", "443", "https://10.96.0.1:443"},
	    {"fd00::1", "6443", "https://[fd00::1]:6443"},
	    {"[fd00::1]", "6443", "https://[fd00::1]:6443"},
	};
	struct gq_kubeconfig *config = NULL;
	struct gq_err err = {0};
	char want[512];
	(void)state;

	put(ACCOUNT "/token", "tok\n");
	put(ACCOUNT "/ca.crt", "pem");
	put(ACCOUNT "/namespace", "gpuquota-system\n");
	for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
		at_home(hosts[i][0], hosts[i][1], NULL);
		assert_int_equal(gq_kubeconfig_in_cluster(root, &config, &err), 0);
		assert_string_equal(config->server, hosts[i][2]);
		(void)snprintf(want, sizeof want, "%s" ACCOUNT "/token", root);
		assert_string_equal(config->token_file, want);
		(void)snprintf(want, sizeof want, "%s" ACCOUNT "/ca.crt", root);
		assert_string_equal(config->ca_file, want);
		assert_string_equal(config->namespace_, "gpuquota-system");
		gq_kubeconfig_free(config);
		config = NULL;
	}
	drop(ACCOUNT "/namespace");
	assert_int_equal(gq_kubeconfig_in_cluster(root, &config, &err), 0);
	assert_null(config->namespace_);
	gq_kubeconfig_free(config);
	config = NULL;
	at_home("10.96.0.1", "sixty", NULL);
	assert_int_equal(gq_kubeconfig_in_cluster(root, &config, &err), GQ_EINVALID);
	at_home("10.96.0.1", "443", NULL);
	drop(ACCOUNT "/ca.crt");
	assert_int_equal(gq_kubeconfig_in_cluster(root, &config, &err), GQ_EIO);
	assert_non_null(strstr(err.msg, "ca.crt"));
	drop(ACCOUNT "/token");
	assert_int_equal(gq_kubeconfig_in_cluster(root, &config, &err), GQ_ENOTFOUND);
	at_home("10.96.0.1", NULL, NULL);
	assert_int_equal(gq_kubeconfig_in_cluster(root, &config, &err), GQ_ENOTFOUND);
	at_home(NULL, "443", NULL);
	assert_int_equal(gq_kubeconfig_in_cluster(root, &config, &err), GQ_ENOTFOUND);
	assert_null(config);
}

static const char one[] = "current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\n"
			  "clusters: [{name: k, cluster: {server: https://one}}]\n";
static const char two[] = "current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\n"
			  "clusters: [{name: k, cluster: {server: https://two}}]\n";

static void test_order(void **state)
{
	struct gq_kubeconfig *config = NULL;
	struct gq_err err = {0};
	char path[256], many[600];
	(void)state;

	put("/.kube/config", one);
	put("/two", two);
	(void)snprintf(path, sizeof path, "%s/two", root);

	at_home(NULL, NULL, NULL);
	assert_int_equal(gq_kubeconfig_find(NULL, true, &config, &err), 0);
	assert_string_equal(config->server, "https://one");
	gq_kubeconfig_free(config);
	config = NULL;
	assert_int_equal(gq_kubeconfig_find(NULL, false, &config, &err), GQ_ENOTFOUND);

	at_home(NULL, NULL, path);
	assert_int_equal(gq_kubeconfig_find(NULL, false, &config, &err), 0);
	assert_string_equal(config->server, "https://two");
	gq_kubeconfig_free(config);
	config = NULL;

	at_home(NULL, NULL, "/nonexistent");
	assert_int_equal(gq_kubeconfig_find(path, true, &config, &err), 0);
	assert_string_equal(config->server, "https://two");
	gq_kubeconfig_free(config);
	config = NULL;
	assert_int_equal(gq_kubeconfig_find(NULL, true, &config, &err), GQ_EIO);

	(void)snprintf(many, sizeof many, "%s:%s", path, path);
	at_home(NULL, NULL, many);
	assert_int_equal(gq_kubeconfig_find(NULL, true, &config, &err), GQ_EINVALID);
	assert_string_equal(
	    err.msg, "$KUBECONFIG names several files, which is not supported: make one with "
		     "kubectl config view --flatten --minify");

	drop("/.kube/config");
	at_home(NULL, NULL, "");
	assert_int_equal(gq_kubeconfig_find(NULL, true, &config, &err), GQ_ENOTFOUND);
	assert_null(config);
}

static void test_servers(void **state)
{
	static const struct {
		const char *text, *server;
	} cases[] = {
	    {"https://h", "https://h"},
	    {"https://h:6443/", "https://h:6443"},
	    {"HTTPS://h//", "HTTPS://h"},
	    {"https://[::1]:6443", "https://[::1]:6443"},
	    {"https://rancher.lab/k8s/clusters/c-1", "https://rancher.lab/k8s/clusters/c-1"},
	    {"http://localhost:8001", "http://localhost:8001"},
	    {"http://127.1.2.3", "http://127.1.2.3"},
	    {"http://[::1]:1", "http://[::1]:1"},
	    {"http://localhost.evil.test", NULL},
	    {"http://128.0.0.1", NULL},
	    {"http://0.0.0.0", NULL},
	    {"ftp://h", NULL},
	    {"unix:///run/x", NULL},
	    {"https://h?x=1", NULL},
	    {"https://h#f", NULL},
	    {"https://h#", NULL},
	    {"https://u@h", NULL},
	    {"https://h:99999", NULL},
	    {"https://h h", NULL},
	    {"https://h\r\n", NULL},
	    {"https:///path", NULL},
	    {"", NULL},
	};
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *server = NULL;
		int code = gq_kubeconfig_server(cases[i].text, &server, NULL);
		if (cases[i].server) {
			assert_int_equal(code, 0);
			assert_string_equal(server, cases[i].server);
			free(server);
		} else if (code != GQ_EINVALID) {
			fail_msg("%s was taken", cases[i].text);
		}
	}
}

static void test_proxies(void **state)
{
	static const char *const good[] = {"http://p:3128", "https://u:p@p",
					   "socks5://10.0.0.1:1080"};
	static const char *const bad[] = {"p:3128", "socks4://p", "socks5h://p",
					  "",       "://",        "file:///x"};
	struct gq_err err;
	(void)state;

	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		assert_int_equal(gq_kubeconfig_proxy(good[i], NULL), 0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(gq_kubeconfig_proxy(bad[i], NULL), GQ_EINVALID);
	assert_int_equal(gq_kubeconfig_proxy("ftp://user:hunter2@p", &err), GQ_EINVALID);
	assert_null(strstr(err.msg, "hunter2"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_in_cluster),
	    cmocka_unit_test(test_order),
	    cmocka_unit_test(test_servers),
	    cmocka_unit_test(test_proxies),
	};
	return cmocka_run_group_tests(tests, make_root, remove_root);
}
