#include "webhook/certificate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "webhook_peer.h"

static size_t read_text(const char *name, char *text, size_t cap)
{
	FILE *file = fopen(peer_path(name), "re");

	assert_non_null(file);
	size_t n = fread(text, 1, cap - 1, file);
	text[n] = '\0';
	fclose(file);
	return n;
}

static void write_encrypted_key(void)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	FILE *file = fopen(peer_path("locked.key"), "we");

	assert_non_null(key);
	assert_non_null(file);
	assert_int_equal(PEM_write_PrivateKey(file, key, EVP_aes_128_cbc(),
					      (const unsigned char *)"secret", 6, NULL, NULL),
			 1);
	fclose(file);
	EVP_PKEY_free(key);
}

static int setup(void **state)
{
	char both[16384];

	(void)state;
	peer_make_pair("one", 0, 3600);
	peer_make_pair("two", 0, 7200);
	peer_make_pair("rsa", 2048, 3600);
	peer_make_pair("weak", 1024, 3600);
	write_encrypted_key();
	peer_write("empty", "", 0);
	peer_write("text", "hello\n", 6);
	char *large = calloc(1, (1 << 20) + 1);
	assert_non_null(large);
	peer_write("large", large, (1 << 20) + 1);
	free(large);
	size_t n = read_text("one.crt", both, sizeof both);
	n += read_text("two.crt", both + n, sizeof both - n);
	peer_write("chain.crt", both, n);
	/* the second certificate cut off in its middle */
	peer_write("cut.crt", both, n - 100);
	char *many = malloc(40 * 4096);
	assert_non_null(many);
	n = 0;
	for (int i = 0; i < 40; i++)
		n += read_text("one.crt", many + n, 4096);
	peer_write("many.crt", many, n);
	free(many);
	return 0;
}

static void takes_good_pairs(void **state)
{
	struct gq_certificate *certificate GQ_CLEANUP(gq_cleanup_certificate) =
	    gq_certificate_new();
	static const struct {
		const char *cert, *key;
		int64_t valid_s;
	} cases[] = {
	    {"one.crt", "one.key", 3600},
	    {"two.crt", "two.key", 7200},
	    {"rsa.crt", "rsa.key", 3600},
	    {"chain.crt", "one.key", 3600},
	};

	(void)state;
	assert_int_equal(gq_certificate_not_after_s(certificate), 0);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct gq_err err;
		if (gq_certificate_load(certificate, peer_path(cases[i].cert),
					peer_path(cases[i].key), &err))
			fail_msg("%s: %s", cases[i].cert, err.msg);
		int64_t left = gq_certificate_not_after_s(certificate) - (int64_t)time(NULL);
		assert_in_range(left, cases[i].valid_s - 300, cases[i].valid_s);
	}
}

static void keeps_out_bad_pairs(void **state)
{
	struct gq_certificate *certificate GQ_CLEANUP(gq_cleanup_certificate) =
	    gq_certificate_new();
	static const struct {
		const char *cert, *key;
		int code;
		const char *says;
	} cases[] = {
	    {"one.crt", "two.key", GQ_EINVALID, "two.key"},
	    {"chain.crt", "two.key", GQ_EINVALID, "two.key"},
	    {"rsa.crt", "one.key", GQ_EINVALID, "one.key"},
	    {"absent.crt", "one.key", GQ_EIO, "absent.crt"},
	    {"one.crt", "absent.key", GQ_EIO, "absent.key"},
	    {"empty", "one.key", GQ_EINVALID, "no PEM certificate"},
	    {"text", "one.key", GQ_EINVALID, "no PEM certificate"},
	    {"one.key", "one.key", GQ_EINVALID, "no PEM certificate"},
	    {"one.crt", "empty", GQ_EINVALID, "private key"},
	    {"one.crt", "one.crt", GQ_EINVALID, "private key"},
	    {"one.crt", "locked.key", GQ_EINVALID, "unencrypted"},
	    {"large", "one.key", GQ_ETOOBIG, "large"},
	    {"one.crt", "large", GQ_ETOOBIG, "large"},
	    {"cut.crt", "one.key", GQ_EINVALID, "certificate 2"},
	    {"many.crt", "one.key", GQ_ETOOBIG, "more than"},
	    {"weak.crt", "weak.key", GQ_EINVALID, "refuses"},
	    {".", "one.key", GQ_EIO, ""},
	};

	(void)state;
	assert_int_equal(
	    gq_certificate_load(certificate, peer_path("two.crt"), peer_path("two.key"), NULL), 0);
	int64_t end = gq_certificate_not_after_s(certificate);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct gq_err err = {0};
		int code = gq_certificate_load(certificate, peer_path(cases[i].cert),
					       peer_path(cases[i].key), &err);
		if (code != cases[i].code || !strstr(err.msg, cases[i].says))
			print_error("%s %s: %s\n", cases[i].cert, cases[i].key, err.msg);
		assert_int_equal(code, cases[i].code);
		assert_non_null(strstr(err.msg, cases[i].says));
		assert_int_equal(gq_certificate_not_after_s(certificate), end);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(takes_good_pairs),
	    cmocka_unit_test(keeps_out_bad_pairs),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
