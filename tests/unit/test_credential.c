#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "informer/credential.h"
#include "informer/secret.h"

struct fixture {
	char path[64];
	struct gq_kubeconfig config;
	struct gq_credential *credential;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	if (!f)
		return -1;
	(void)snprintf(f->path, sizeof f->path, "/tmp/gq-credential-XXXXXX");
	int fd = mkstemp(f->path);
	if (fd < 0)
		return -1;
	close(fd);
	f->config.token_file = f->path;
	*state = f;
	return gq_credential_new(&f->config, &f->credential, NULL);
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	gq_credential_free(f->credential);
	(void)unlink(f->path);
	free(f);
	return 0;
}

/* text: NULL removes the file. */
static void put(struct fixture *f, const char *text)
{
	(void)unlink(f->path);
	if (!text)
		return;
	FILE *file = fopen(f->path, "w");
	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

/* Begins a request that has to show that token. */
static struct gq_credential_use show(struct fixture *f, const char *token)
{
	GQ_CLEANUP(gq_cleanup_secret) char *shown = NULL;
	struct gq_credential_use use = {0};
	struct gq_err err = {0};

	if (gq_credential_begin(f->credential, &use, &shown, &err))
		fail_msg("%s", err.msg);
	if (token)
		assert_string_equal(shown, token);
	else
		assert_null(shown);
	return use;
}

/* Begins one for which there is no token. */
static struct gq_credential_use show_none(struct fixture *f, const char *why)
{
	struct gq_credential_use use = {99, 99};
	struct gq_err err = {0};
	char *shown = NULL;

	assert_int_equal(gq_credential_begin(f->credential, &use, &shown, &err), GQ_EIO);
	assert_null(shown);
	assert_memory_equal(err.msg, "no token: ", 10);
	assert_non_null(strstr(err.msg, why));
	return use;
}

static struct gq_credential_state state_of(struct fixture *f)
{
	struct gq_credential_state state;

	gq_credential_state(f->credential, &state);
	return state;
}

static void file_that_changes(void **state)
{
	struct fixture *f = *state;

	put(f, " one\n");
	struct gq_credential_use first = show(f, "one");
	struct gq_credential_use second = show(f, "one");
	assert_int_equal(first.token, second.token);
	assert_true(first.request < second.request);
	assert_false(gq_credential_renewed(f->credential, &first));
	put(f, "one"); /* another file, the same token */
	assert_false(gq_credential_renewed(f->credential, &first));
	put(f, "two\n");
	assert_true(gq_credential_renewed(f->credential, &first));
	first = show(f, "two");
	assert_false(gq_credential_renewed(f->credential, &first));
	put(f, "three");
	(void)show(f, "three");
	assert_true(gq_credential_renewed(f->credential, &first));
}

static void file_that_is_of_no_use(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
	    {NULL, "No such file"},
	    {"", "holds no token"},
	    {" \n\t", "holds no token"},
	    {"a\r\nX-Evil: 1", "holds no token"},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		put(f, cases[i].text);
		struct gq_credential_use none = show_none(f, cases[i].why);
		assert_int_equal(none.token, 0);
		assert_false(gq_credential_renewed(f->credential, &none));
		assert_false(state_of(f).has_token);
		assert_non_null(strstr(state_of(f).unusable, cases[i].why));
	}
	put(f, "one");
	assert_true(gq_credential_renewed(f->credential, &(struct gq_credential_use){0}));
	(void)show(f, "one");
	/* now there is one that serves meanwhile */
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		put(f, cases[i].text);
		(void)show(f, "one");
		assert_true(state_of(f).has_token);
		assert_non_null(strstr(state_of(f).unusable, cases[i].why));
		assert_non_null(strstr(state_of(f).unusable, f->path));
	}
	put(f, "two");
	(void)show(f, "two");
	assert_string_equal(state_of(f).unusable, "");
}

static void refused_and_accepted(void **state)
{
	struct fixture *f = *state;

	put(f, "one");
	struct gq_credential_use use = show(f, "one");
	assert_false(state_of(f).refused);
	gq_credential_answered(f->credential, &use, 401);
	assert_true(state_of(f).refused);
	assert_int_equal(state_of(f).refusals, 1);
	/* the same one is tried again: it may be known by now */
	struct gq_credential_use again = show(f, "one");
	assert_false(gq_credential_renewed(f->credential, &again));
	static const long proves_nothing[] = {0, 100, 429, 500, 503};
	for (size_t i = 0; i < sizeof proves_nothing / sizeof *proves_nothing; i++) {
		gq_credential_answered(f->credential, &again, proves_nothing[i]);
		assert_true(state_of(f).refused);
	}
	gq_credential_answered(f->credential, &again, 403);
	assert_false(state_of(f).refused);
	/* but not once its file is gone */
	use = show(f, "one");
	gq_credential_answered(f->credential, &use, 401);
	put(f, NULL);
	use = show_none(f, "No such file");
	assert_false(state_of(f).has_token);
	assert_false(gq_credential_renewed(f->credential, &use));
	put(f, "two");
	assert_true(gq_credential_renewed(f->credential, &use));
	use = show(f, "two");
	assert_true(state_of(f).refused); /* as far as is known */
	gq_credential_answered(f->credential, &use, 200);
	assert_false(state_of(f).refused);
	assert_int_equal(state_of(f).refusals, 2);
}

/* Answers come in any order. */
static void answers_of_older_requests(void **state)
{
	struct fixture *f = *state;

	put(f, "one");
	struct gq_credential_use old = show(f, "one"), other = show(f, "one");
	gq_credential_answered(f->credential, &old, 401);
	/* it began before the token was refused, so it may have been let in before */
	gq_credential_answered(f->credential, &other, 200);
	assert_true(state_of(f).refused);
	put(f, "two");
	struct gq_credential_use fresh = show(f, "two");
	gq_credential_answered(f->credential, &other, 200);
	assert_true(state_of(f).refused);
	gq_credential_answered(f->credential, &fresh, 200);
	assert_false(state_of(f).refused);
	/* that the old one is refused is no news of the new one */
	gq_credential_answered(f->credential, &other, 401);
	assert_false(state_of(f).refused);
	put(f, NULL);
	(void)show(f, "two");
}

static void what_is_in_the_kubeconfig(void **state)
{
	const struct {
		struct gq_kubeconfig config;
		enum gq_credential_kind kind;
		const char *token, *file;
	} cases[] = {
	    {{0}, GQ_CREDENTIAL_NONE, NULL, NULL},
	    {{.token = (char[]){"t"}}, GQ_CREDENTIAL_TOKEN, "t", NULL},
	    {{.username = (char[]){"u"}}, GQ_CREDENTIAL_PASSWORD, NULL, NULL},
	    {{.client_cert_file = (char[]){"/c"}}, GQ_CREDENTIAL_CERTIFICATE, NULL, "/c"},
	    {{.client_cert_file = (char[]){"/c"}, .client_cert_pem = (char[]){"p"}},
	     GQ_CREDENTIAL_CERTIFICATE,
	     NULL,
	     NULL},
	};
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct fixture f = {0};
		assert_int_equal(gq_credential_new(&cases[i].config, &f.credential, NULL), 0);
		struct gq_credential_use use = show(&f, cases[i].token);
		assert_int_equal(state_of(&f).kind, cases[i].kind);
		if (cases[i].file)
			assert_string_equal(state_of(&f).file, cases[i].file);
		else
			assert_null(state_of(&f).file);
		gq_credential_answered(f.credential, &use, 401);
		assert_true(state_of(&f).refused);
		assert_false(gq_credential_renewed(f.credential, &use));
		use = show(&f, cases[i].token);
		gq_credential_answered(f.credential, &use, 200);
		assert_false(state_of(&f).refused);
		gq_credential_free(f.credential);
	}
	gq_credential_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(file_that_changes, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(file_that_is_of_no_use, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(refused_and_accepted, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(answers_of_older_requests, set_up, tear_down),
	    cmocka_unit_test(what_is_in_the_kubeconfig),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
