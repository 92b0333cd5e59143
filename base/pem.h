#ifndef GQ_BASE_PEM_H
#define GQ_BASE_PEM_H

/* The pem_password_cb of OpenSSL for a program that nobody watches: a key with a passphrase can't
 * be used. Without one, OpenSSL would ask on the terminal. */
int gq_pem_no_passphrase(char *buf, int size, int writing, void *arg);

#endif
