#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "controller/file.h"
#include "tests/unit/app_testing.h"

static char folder[64];

static const char *in_folder(const char *name)
{
	static char paths[4][256];
	static unsigned next;
	char *path = paths[next++ % LEN(paths)];

	(void)snprintf(path, sizeof paths[0], "%s/%s", folder, name);
	return path;
}

static int setup(void **state)
{
	(void)state;
	(void)snprintf(folder, sizeof folder, "/tmp/gpuquota-file-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	(void)snprintf(command, sizeof command, "rm -r %s", folder);
	return system(command);
}

static void write_file(const char *path, const char *bytes, size_t len)
{
	FILE *file = fopen(path, "wb");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, len, file), len);
	assert_int_equal(fclose(file), 0);
}

static void reads(void **state)
{
	static const size_t sizes[] = {0, 1, 16383, 16384, 16385, 100000};
	char *bytes = malloc(100000);

	(void)state;
	assert_non_null(bytes);
	for (size_t i = 0; i < 100000; i++)
		bytes[i] = (char)(i * 31 >> 3);
	for (size_t i = 0; i < LEN(sizes); i++) {
		struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(100000);
		struct gq_err err = {0};
		write_file(in_folder("f"), bytes, sizes[i]);
		gq_buf_puts(&out, "");
		assert_int_equal(gq_file_read(in_folder("f"), &out, &err), 0);
		assert_int_equal(out.len, sizes[i]);
		assert_memory_equal(out.data, bytes, sizes[i]);
	}
	free(bytes);
}

static void appends(void **state)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(100);
	struct gq_err err = {0};

	(void)state;
	write_file(in_folder("f"), "two", 3);
	gq_buf_puts(&out, "one ");
	assert_int_equal(gq_file_read(in_folder("f"), &out, &err), 0);
	assert_string_equal(out.data, "one two");
}

static void caps(void **state)
{
	(void)state;
	write_file(in_folder("f"), "0123456789", 10);
	for (size_t max = 0; max < 12; max++) {
		struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(max);
		struct gq_err err = {0};
		int code = gq_file_read(in_folder("f"), &out, &err);
		assert_int_equal(code, max < 10 ? GQ_ETOOBIG : 0);
		if (code)
			assert_has(err.msg, in_folder("f"));
	}
	/* one without an end */
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(1u << 20);
	struct gq_err err = {0};
	assert_int_equal(gq_file_read("/dev/zero", &out, &err), GQ_ETOOBIG);
}

static void cannot(void **state)
{
	static const struct {
		const char *path, *message;
	} cases[] = {
	    {"/nonexistent/file", "No such file"},
	    {"/", "directory"},
	    {"", "No such file"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(100);
		struct gq_err err = {0};
		assert_int_equal(gq_file_read(cases[i].path, &out, &err), GQ_EIO);
		assert_has(err.msg, cases[i].message);
		assert_has(err.msg, cases[i].path);
	}
}

static void standard_input(void **state)
{
	struct gq_buf out GQ_BUF_CLEANUP = GQ_BUF_INIT(100);
	struct gq_err err = {0};
	int saved = dup(STDIN_FILENO);

	(void)state;
	write_file(in_folder("f"), "from a pipe", 11);
	assert_non_null(freopen(in_folder("f"), "rb", stdin));
	assert_int_equal(gq_file_read("-", &out, &err), 0);
	assert_string_equal(out.data, "from a pipe");
	assert_int_equal(dup2(saved, STDIN_FILENO), STDIN_FILENO);
	(void)close(saved);
}

static bool same(struct gq_file_stamp a, struct gq_file_stamp b)
{
	return gq_file_stamp_equal(&a, &b);
}

static void stamps(void **state)
{
	struct gq_file_stamp none = gq_file_stamp(in_folder("f"));

	(void)state;
	assert_true(same(none, (struct gq_file_stamp){0}));
	write_file(in_folder("f"), "one", 3);
	struct gq_file_stamp one = gq_file_stamp(in_folder("f"));
	assert_false(same(none, one));
	assert_true(same(one, gq_file_stamp(in_folder("f"))));
	/* another file of the same size in its place */
	write_file(in_folder("g"), "two", 3);
	assert_int_equal(rename(in_folder("g"), in_folder("f")), 0);
	assert_false(same(one, gq_file_stamp(in_folder("f"))));
	/* the same file, longer */
	one = gq_file_stamp(in_folder("f"));
	write_file(in_folder("f"), "three", 5);
	assert_false(same(one, gq_file_stamp(in_folder("f"))));
	assert_int_equal(unlink(in_folder("f")), 0);
	assert_true(same(none, gq_file_stamp(in_folder("f"))));
}

/* Each field alone tells two states apart. */
static void stamp_fields(void **state)
{
	const struct gq_file_stamp a = {1, 2, 3, 4};

	(void)state;
	assert_true(same(a, (struct gq_file_stamp){1, 2, 3, 4}));
	assert_false(same(a, (struct gq_file_stamp){9, 2, 3, 4}));
	assert_false(same(a, (struct gq_file_stamp){1, 9, 3, 4}));
	assert_false(same(a, (struct gq_file_stamp){1, 2, 9, 4}));
	assert_false(same(a, (struct gq_file_stamp){1, 2, 3, 9}));
}

/* How a kubelet changes a mounted Secret: tls.crt is a link to ..data/tls.crt, ..data one to a
 * folder of its own for each state, and only ..data is replaced. */
static void secret_mount(void **state)
{
	(void)state;
	assert_int_equal(mkdir(in_folder("..2026_1"), 0700), 0);
	assert_int_equal(mkdir(in_folder("..2026_2"), 0700), 0);
	write_file(in_folder("..2026_1/tls.crt"), "one", 3);
	write_file(in_folder("..2026_2/tls.crt"), "two", 3);
	assert_int_equal(symlink("..2026_1", in_folder("..data")), 0);
	assert_int_equal(symlink("..data/tls.crt", in_folder("tls.crt")), 0);
	struct gq_file_stamp before = gq_file_stamp(in_folder("tls.crt"));
	assert_true(same(before, gq_file_stamp(in_folder("..2026_1/tls.crt"))));
	assert_true(same(before, gq_file_stamp(in_folder("tls.crt"))));

	assert_int_equal(symlink("..2026_2", in_folder("..data_tmp")), 0);
	assert_int_equal(rename(in_folder("..data_tmp"), in_folder("..data")), 0);
	struct gq_file_stamp after = gq_file_stamp(in_folder("tls.crt"));
	assert_false(same(before, after));
	assert_true(same(after, gq_file_stamp(in_folder("tls.crt"))));

	/* the old state goes, which changes nothing */
	assert_int_equal(unlink(in_folder("..2026_1/tls.crt")), 0);
	assert_int_equal(rmdir(in_folder("..2026_1")), 0);
	assert_true(same(after, gq_file_stamp(in_folder("tls.crt"))));

	/* for a moment there may be no file */
	assert_int_equal(unlink(in_folder("..data")), 0);
	assert_true(same((struct gq_file_stamp){0}, gq_file_stamp(in_folder("tls.crt"))));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(reads),
	    TEST(appends),
	    TEST(caps),
	    cmocka_unit_test(cannot),
	    TEST(standard_input),
	    TEST(stamps),
	    cmocka_unit_test(stamp_fields),
	    TEST(secret_mount),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
