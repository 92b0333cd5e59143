#ifndef GQ_TESTS_TESTPKI_H
#define GQ_TESTS_TESTPKI_H

/* Certificates made anew for each run. Strings are PEM, to be freed with free(). */
struct testpki {
	char *ca;
	char *server_cert; /* of 127.0.0.1 and gpuquota.test, signed by ca */
	char *server_key;
	char *client_cert; /* CN=tester, signed by ca */
	char *client_key;
	char *other_ca; /* has signed nothing here */
	char *other_key;
};

void testpki_make(struct testpki *ret_pki);
void testpki_done(struct testpki *pki);

#endif
