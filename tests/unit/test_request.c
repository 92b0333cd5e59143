#include "webhook/request.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct gq_work *work;

static int setup(void **state)
{
	(void)state;
	work = gq_work_new(
	    &(struct gq_work_options){.max_body_bytes = 1 << 20, .max_bytes_in_flight = 2 << 20});
	return work ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	gq_work_unref(work);
	return 0;
}

static struct gq_request *new_request(const struct gq_http_head *head)
{
	struct gq_request *request = gq_request_new(work);

	assert_non_null(request);
	if (head)
		assert_int_equal(gq_request_take_head(request, head, 42), 0);
	return request;
}

static const struct gq_http_head post = {
    .method = "POST", .path = "/validate", .query = "timeout=10s", .content_length = 5};

static const char *text_of(const struct gq_request *request)
{
	return request->answer.data + GQ_ANSWER_PRE;
}

static void shows_what_the_head_said(void **state)
{
	struct gq_request *request = new_request(&post);
	struct gq_http_head bare = {.method = "GET", .path = "/", .query = ""};
	size_t len = 7;

	(void)state;
	assert_string_equal(request->method, "POST");
	assert_string_equal(gq_request_path(request), "/validate");
	assert_string_equal(gq_request_query(request), "timeout=10s");
	assert_int_equal(gq_request_received_ns(request), 42);
	assert_string_equal(gq_request_body(request, &len), "");
	assert_int_equal(len, 0);
	assert_int_equal(gq_request_take_body(request, "ab", 2), 0);
	assert_int_equal(gq_request_take_body(request, "cde", 3), 0);
	assert_string_equal(gq_request_body(request, &len), "abcde");
	assert_int_equal(len, 5);

	gq_request_reset(request);
	assert_int_equal(gq_request_take_head(request, &bare, 43), 0);
	assert_string_equal(gq_request_query(request), "");
	assert_string_equal(gq_request_body(request, &len), "");
	assert_int_equal(len, 0);
	gq_request_free(request);
}

static void accounts_for_bodies(void **state)
{
	struct gq_http_head head = post;
	char *bytes = calloc(1, 1 << 20);

	(void)state;
	assert_non_null(bytes);
	/* memory comes with the bytes, not with the announcement */
	head.content_length = 1 << 20;
	struct gq_request *first = new_request(&head);
	assert_int_equal(gq_request_take_body(first, bytes, 10), 0);
	assert_true(first->body_cap <= 64u << 10);
	assert_int_equal(gq_request_take_body(first, bytes, (1 << 20) - 10), 0);
	assert_int_equal(first->body_cap, (1 << 20) + 1);
	assert_false(gq_work_has_room(work, 1 << 20));

	/* announced, and known to be too much by now */
	struct gq_request *second = gq_request_new(work);
	assert_int_equal(gq_request_take_head(second, &head, 1), 503);
	/* not announced (chunked): found out on the way */
	head.content_length = 0;
	assert_int_equal(gq_request_take_head(second, &head, 1), 0);
	int status = 0;
	for (int i = 0; i < 1024 && !status; i++)
		status = gq_request_take_body(second, bytes, 1024);
	assert_int_equal(status, 503);

	gq_request_reset(second);
	gq_request_free(first);
	assert_true(gq_work_has_room(work, 2 << 20));
	gq_request_free(second);
	free(bytes);
}

static void renders_answers(void **state)
{
	struct gq_request *request = new_request(&post);

	(void)state;
	request->keep_alive = true;
	gq_request_render(request, &(struct gq_answer){.status = 200,
						       .content_type = "application/json",
						       .body = "{}",
						       .len = 2});
	assert_string_equal(text_of(request),
			    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
			    "Content-Length: 2\r\n\r\n{}");
	assert_false(request->close);
	gq_request_render(request,
			  &(struct gq_answer){.status = 503, .retry_after_s = 1, .close = true});
	assert_string_equal(text_of(request),
			    "HTTP/1.1 503 Service Unavailable\r\n"
			    "Content-Type: text/plain; charset=utf-8\r\nContent-Length: 0\r\n"
			    "Retry-After: 1\r\nConnection: close\r\n\r\n");
	assert_true(request->close);
	gq_request_render(request, &(struct gq_answer){.status = 42});
	assert_int_equal(request->status, 500);
	gq_request_refuse(request, 413, true);
	assert_non_null(strstr(text_of(request), "\r\n\r\n413 Content Too Large\n"));
	assert_null(strstr(text_of(request), "Retry-After"));
	gq_request_refuse(request, 503, false);
	assert_non_null(strstr(text_of(request), "\r\nRetry-After: 1\r\n"));
	assert_false(request->close);
	/* a client that wants to go */
	request->keep_alive = false;
	gq_request_refuse(request, 404, false);
	assert_true(request->close);
	gq_request_free(request);
}

static void answers_head_without_body(void **state)
{
	struct gq_http_head head = post;

	(void)state;
	head.method = "HEAD";
	struct gq_request *request = new_request(&head);
	request->keep_alive = true;
	gq_request_render(request, &(struct gq_answer){.status = 200, .body = "12345", .len = 5});
	assert_non_null(strstr(text_of(request), "Content-Length: 5\r\n\r\n"));
	assert_null(strstr(text_of(request), "12345"));
	gq_request_free(request);
}

static void count_free(void *state)
{
	++*(int *)state;
}

static void frees_its_state_once(void **state)
{
	struct gq_request *request = new_request(&post);
	int freed = 0;

	(void)state;
	gq_request_set_state(request, &freed, count_free);
	assert_ptr_equal(gq_request_state(request), &freed);
	gq_request_reset(request);
	assert_int_equal(freed, 1);
	assert_null(gq_request_state(request));
	gq_request_set_state(request, &freed, count_free);
	gq_request_free(request);
	assert_int_equal(freed, 2);
	/* a state that nobody has to free */
	request = new_request(&post);
	gq_request_set_state(request, &freed, NULL);
	gq_request_free(request);
	assert_int_equal(freed, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(shows_what_the_head_said, setup, teardown),
	    cmocka_unit_test_setup_teardown(accounts_for_bodies, setup, teardown),
	    cmocka_unit_test_setup_teardown(renders_answers, setup, teardown),
	    cmocka_unit_test_setup_teardown(answers_head_without_body, setup, teardown),
	    cmocka_unit_test_setup_teardown(frees_its_state_once, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
