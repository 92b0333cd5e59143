#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "informer/kubeconfig.h"
#include "informer/kubeconfig_internal.h"

/* A kubeconfig of one cluster, user and context out of the lines of each. */
static void render(char *to, size_t size, const char *cluster, const char *user)
{
	(void)snprintf(to, size,
		       "apiVersion: v1\n"
		       "kind: Config\n"
		       "current-context: here\n"
		       "contexts:\n"
		       "- name: elsewhere\n"
		       "  context: {cluster: nowhere, user: nobody}\n"
		       "- name: here\n"
		       "  context: {cluster: lab, user: robot, namespace: gpu-jobs}\n"
		       "clusters:\n"
		       "- name: lab\n"
		       "  cluster:\n%s"
		       "users:\n"
		       "- name: robot\n"
		       "  user:\n%s",
		       cluster, user);
}

static struct gq_kubeconfig *parse(const char *text)
{
	struct gq_kubeconfig *config = NULL;
	struct gq_err err = {0};

	if (gq_kubeconfig_parse("/etc/kube/config", text, strlen(text), NULL, &config, &err))
		fail_msg("%s", err.msg);
	return config;
}

static struct gq_kubeconfig *parse_parts(const char *cluster, const char *user)
{
	char text[4096];

	render(text, sizeof text, cluster, user);
	return parse(text);
}

#define SERVER "    server: https://10.0.0.1:6443\n"

static void test_credentials(void **state)
{
	(void)state;
	struct gq_kubeconfig *c = parse_parts(
	    "    server: https://10.0.0.1:6443/\n    certificate-authority: pki/ca.crt\n"
	    "    tls-server-name: api.lab\n    proxy-url: socks5://127.0.0.1:1080\n",
	    "    token: abc.def\n    as: system:serviceaccount:a:b\n    as-uid: \"17\"\n"
	    "    as-groups: [g1, \"g 2\"]\n");
	assert_string_equal(c->server, "https://10.0.0.1:6443");
	assert_string_equal(c->ca_file, "/etc/kube/pki/ca.crt");
	assert_string_equal(c->tls_server_name, "api.lab");
	assert_string_equal(c->proxy_url, "socks5://127.0.0.1:1080");
	assert_string_equal(c->token, "abc.def");
	assert_string_equal(c->impersonate_user, "system:serviceaccount:a:b");
	assert_string_equal(c->impersonate_uid, "17");
	assert_string_equal(c->impersonate_groups[0], "g1");
	assert_string_equal(c->impersonate_groups[1], "g 2");
	assert_null(c->impersonate_groups[2]);
	assert_string_equal(c->namespace_, "gpu-jobs");
	assert_false(c->insecure_skip_tls_verify);
	gq_kubeconfig_free(c);

	c = parse_parts(SERVER "    certificate-authority: gone\n"
			       "    certificate-authority-data: Z3F1b3Rh\n",
			"    client-certificate: /abs/c.pem\n    client-certificate-data: Zw==\n"
			"    client-key: k.pem\n    client-key-data: Z3E=\n");
	assert_string_equal(c->ca_pem, "gquota");
	assert_string_equal(c->client_cert_pem, "g");
	assert_string_equal(c->client_cert_file, "/abs/c.pem");
	assert_string_equal(c->client_key_pem, "gq");
	assert_string_equal(c->client_key_file, "/etc/kube/k.pem");
	gq_kubeconfig_free(c);

	c = parse_parts(SERVER "    insecure-skip-tls-verify: true\n",
			"    token: old\n    tokenFile: run/token\n");
	assert_true(c->insecure_skip_tls_verify);
	assert_string_equal(c->token_file, "/etc/kube/run/token");
	gq_kubeconfig_free(c);

	c = parse_parts(SERVER, "    username: bob\n    password: \"s3:cret\"\n");
	assert_string_equal(c->username, "bob");
	assert_string_equal(c->password, "s3:cret");
	gq_kubeconfig_free(c);

	/* empty and null are absent */
	c = parse_parts(SERVER "    certificate-authority: \"\"\n    proxy-url: null\n",
			"    token: ~\n    exec: null\n    as-groups: []\n");
	assert_null(c->ca_file);
	assert_null(c->proxy_url);
	assert_null(c->token);
	assert_null(c->impersonate_groups);
	gq_kubeconfig_free(c);
}

static void test_json_and_other_contexts(void **state)
{
	static const char text[] =
	    "{\"kind\":\"Config\",\"apiVersion\":\"v1\",\"current-context\":\"a\",\"preferences\":{"
	    "},"
	    "\"contexts\":[{\"name\":\"a\",\"context\":{\"cluster\":\"c1\",\"user\":\"\"}},"
	    "{\"name\":\"b\",\"context\":{\"cluster\":\"c2\"}}],"
	    "\"clusters\":[{\"name\":\"c1\",\"cluster\":{\"server\":\"https://one\"}},"
	    "{\"name\":\"c2\",\"cluster\":{\"server\":\"http://127.0.0.1:8001\"}}],"
	    "\"users\":null}";
	struct gq_kubeconfig *c = parse(text);
	(void)state;

	assert_string_equal(c->server, "https://one");
	gq_kubeconfig_free(c);
	assert_int_equal(gq_kubeconfig_parse("f", text, strlen(text), "b", &c, NULL), 0);
	assert_string_equal(c->server, "http://127.0.0.1:8001");
	assert_null(c->namespace_);
	gq_kubeconfig_free(c);
}

static void test_refuses_with_position(void **state)
{
	static const struct {
		const char *cluster, *user, *message;
	} cases[] = {
	    {SERVER, "    exec: {command: aws}\n",
	     "/etc/kube/config:16:12: user \"robot\" gets its credentials from a program (exec), "
	     "which "
	     "is not supported: use a tokenFile, a token (kubectl create token) or a client "
	     "certificate"},
	    {SERVER, "    auth-provider:\n      name: gcp\n",
	     "/etc/kube/config:17:7: user \"robot\" gets its credentials from an auth-provider, "
	     "which "
	     "is not supported: use a tokenFile, a token (kubectl create token) or a client "
	     "certificate"},
	    {SERVER, "    as: x\n    as-user-extra: {a: [b]}\n",
	     "/etc/kube/config:17:21: user \"robot\" sets as-user-extra, which is not supported: "
	     "use "
	     "as, as-uid and as-groups"},
	    {"    server: http://10.0.0.1:8080\n", "    token: t\n",
	     "/etc/kube/config:12:13: the server \"http://10.0.0.1:8080\" must begin with "
	     "https://: "
	     "plain http is for loopback"},
	    {"    server: 10.0.0.1:6443\n", "    token: t\n",
	     "/etc/kube/config:12:13: the server \"10.0.0.1:6443\" must begin with https://"},
	    {"    server: https://u:p@h\n", "    token: t\n",
	     "/etc/kube/config:12:13: the server's URL may hold a host, a port and a path, nothing "
	     "else"},
	    {"    server: \"https://\"\n", "    token: t\n",
	     "/etc/kube/config:12:13: the server is not a URL"},
	    {"    proxy-url: http://p\n", "    token: t\n",
	     "/etc/kube/config:10:3: cluster \"lab\" has no server"},
	    {SERVER "    certificate-authority-data: \"%%%\"\n", "    token: t\n",
	     "/etc/kube/config:13:33: certificate-authority-data is not base64"},
	    {SERVER "    certificate-authority-data: AGE=\n", "    token: t\n",
	     "/etc/kube/config:13:33: certificate-authority-data is not PEM"},
	    {SERVER "    insecure-skip-tls-verify: maybe\n", "    token: t\n",
	     "/etc/kube/config:13:31: insecure-skip-tls-verify must be true or false"},
	    {SERVER "    insecure-skip-tls-verify: true\n    certificate-authority: x\n",
	     "    token: t\n",
	     "/etc/kube/config:13:31: insecure-skip-tls-verify and a certificate authority exclude "
	     "each other"},
	    {SERVER "    proxy-url: ftp://p\n", "    token: t\n",
	     "/etc/kube/config:13:16: proxy-url must begin with http://, https:// or socks5://"},
	    {"    server: http://localhost:1\n    proxy-url: http://p\n", "    token: t\n",
	     "/etc/kube/config:13:16: proxy-url needs an https:// server: the proxy would see the "
	     "token"},
	    {SERVER, "    client-certificate: c\n",
	     "/etc/kube/config:14:3: user \"robot\" has a client certificate but no client key"},
	    {SERVER, "    client-key: k\n",
	     "/etc/kube/config:14:3: user \"robot\" has a client key but no client certificate"},
	    {SERVER, "    token: t\n    username: u\n",
	     "/etc/kube/config:14:3: user \"robot\" has both a token and a username: only one can "
	     "be "
	     "used"},
	    {SERVER, "    password: p\n",
	     "/etc/kube/config:14:3: user \"robot\" has a password but no username"},
	    {SERVER, "    username: \"a:b\"\n",
	     "/etc/kube/config:16:15: a username can't hold a colon"},
	    {SERVER, "    as-groups: [g]\n",
	     "/etc/kube/config:14:3: user \"robot\" sets as-uid or as-groups without as"},
	    {SERVER, "    as: u\n    as-groups: g\n",
	     "/etc/kube/config:17:16: as-groups must be a list"},
	    {SERVER, "    as: u\n    as-groups: [[g]]\n",
	     "/etc/kube/config:17:18: a group must be a string"},
	    {SERVER, "    as: u\n    as-groups: [\"a\\nb\"]\n",
	     "/etc/kube/config:17:17: a group holds a control character"},
	    {SERVER, "    token: \"a\\r\\nX: y\"\n",
	     "/etc/kube/config:16:12: token holds a control character"},
	    {SERVER, "    token: \"a\\0b\"\n",
	     "/etc/kube/config:16:12: token holds a NUL character"},
	    {SERVER, "    token: [t]\n", "/etc/kube/config:16:13: token must be a string"},
	    {SERVER, "    token: &t x\n    password: *t\n",
	     "/etc/kube/config:17:15: password is a YAML alias, which is not supported here"},
	    {SERVER, "    token: t\n- name: robot\n  user: {}\n",
	     "/etc/kube/config:17:3: users names \"robot\" twice"},
	};
	char text[4096];
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct gq_kubeconfig *config = NULL;
		struct gq_err err = {0};
		render(text, sizeof text, cases[i].cluster, cases[i].user);
		assert_int_equal(gq_kubeconfig_parse("/etc/kube/config", text, strlen(text), NULL,
						     &config, &err),
				 GQ_EINVALID);
		assert_null(config);
		assert_string_equal(err.msg, cases[i].message);
	}
}

static void test_refuses_other_documents(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
	    {"", "f: not YAML, or empty"},
	    {"%x \xff\na: b\n", "f:1:1: a YAML directive is not supported here"},
	    {"\xef\xbb\xbf%x \xff\n", "f:1:1: a YAML directive is not supported here"},
	    {"a: b\n%x \xff\n", "f:2:1: a YAML directive is not supported here"},
	    {"a: b\nc: \xff\n", "f:2: not text in UTF-8"},
	    {"a: b\nc: \x1b[0m\n", "f:2:4: control character 0x1b"},
	    {"a:\n? t:\t>",
	     "f:2:1: a \"?\" before white space and a tab further on could be read as an explicit "
	     "key, which is not supported here"},
	    {"just words", "f:1:1: not a kubeconfig: a mapping is expected"},
	    {"a: b: c\n", "f:1:"},
	    {"a: [1, 2\n", "f:2:1"},
	    {"a: 1\na: 2\n", "f:2:1"},
	    {"kind: Pod\n", "f:1:7: not a kubeconfig: its kind is Pod"},
	    {"kind: Config\n", "f: current-context is not set and no context was named"},
	    {"current-context: x\n", "f: no context is called \"x\""},
	    {"current-context: x\ncontexts: 7\n", "f:2:11: contexts must be a list"},
	    {"current-context: x\ncontexts: [7]\n",
	     "f:2:12: an entry of contexts must be a mapping"},
	    {"current-context: x\ncontexts: [{name: x, context: 5}]\n",
	     "f:2:31: context must be a mapping"},
	    {"current-context: x\ncontexts: [{name: x}]\n",
	     "f:2:13: context \"x\" names no cluster"},
	    {"current-context: x\ncontexts: [{name: x, context: {cluster: y}}]\n",
	     "f: no cluster is called \"y\""},
	    {"current-context: x\ncontexts: [{name: x, context: {cluster: y, user: z}}]\n"
	     "clusters: [{name: y, cluster: {server: https://h}}]\nusers: [{name: other}]\n",
	     "f:4:10: no user is called \"z\""},
	};
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct gq_kubeconfig *config = NULL;
		struct gq_err err = {0};
		assert_int_equal(gq_kubeconfig_parse("f", cases[i].text, strlen(cases[i].text),
						     NULL, &config, &err),
				 GQ_EINVALID);
		assert_null(config);
		assert_memory_equal(err.msg, cases[i].message, strlen(cases[i].message));
	}
}

/* libfyaml takes some of its stack for each line end behind a block scalar. */
static void test_empty_lines(void **state)
{
	static char text[500000 + 16] = "a: |\n  b\n";
	struct gq_kubeconfig *config = NULL;
	struct gq_err err = {0};
	size_t len = strlen(text);
	(void)state;

	memset(text + len, '\n', 500000);
	assert_int_equal(gq_kubeconfig_parse("f", text, len + 500000, NULL, &config, &err),
			 GQ_EINVALID);
	assert_null(config);
	assert_string_equal(err.msg, "f:1002:1: too many empty lines");
}

static void test_says_nothing_on_stderr(void **state)
{
	static const char broken[] = "a: [1, 2\nb: }{";
	struct gq_kubeconfig *config = NULL;
	char seen[64] = "";
	(void)state;

	FILE *catch = tmpfile();
	int saved = dup(STDERR_FILENO);
	assert_non_null(catch);
	fflush(stderr);
	dup2(fileno(catch), STDERR_FILENO);
	int code = gq_kubeconfig_parse("f", broken, strlen(broken), NULL, &config, NULL);
	fflush(stderr);
	dup2(saved, STDERR_FILENO);
	close(saved);
	rewind(catch);
	size_t n = fread(seen, 1, sizeof seen - 1, catch);
	fclose(catch);
	assert_int_equal(code, GQ_EINVALID);
	assert_int_equal(n, 0);
}

static void test_loads_files(void **state)
{
	char dir[] = "/tmp/gq-kubeconfig-XXXXXX", path[128], text[4096];
	struct gq_kubeconfig *config = NULL;
	struct gq_err err = {0};
	(void)state;

	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof path, "%s/config", dir);
	render(text, sizeof text, SERVER "    certificate-authority: ca.crt\n", "    token: t\n");
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	assert_int_equal(gq_kubeconfig_load(path, "here", &config, &err), 0);
	assert_memory_equal(config->ca_file, dir, strlen(dir));
	assert_string_equal(config->ca_file + strlen(dir), "/ca.crt");
	gq_kubeconfig_free(config);
	config = NULL;
	assert_int_equal(gq_kubeconfig_load(path, "absent", &config, &err), GQ_EINVALID);
	file = fopen(path, "w");
	assert_non_null(file);
	for (int i = 0; i <= 1 << 20; i++)
		fputc('#', file);
	fclose(file);
	assert_int_equal(gq_kubeconfig_load(path, NULL, &config, &err), GQ_ETOOBIG);
	unlink(path);
	assert_int_equal(gq_kubeconfig_load(path, NULL, &config, &err), GQ_EIO);
	assert_null(config);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_credentials),
	    cmocka_unit_test(test_json_and_other_contexts),
	    cmocka_unit_test(test_refuses_with_position),
	    cmocka_unit_test(test_refuses_other_documents),
	    cmocka_unit_test(test_empty_lines),
	    cmocka_unit_test(test_says_nothing_on_stderr),
	    cmocka_unit_test(test_loads_files),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
