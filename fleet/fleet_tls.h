/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLEET_TLS_H
#define FLEET_TLS_H

/* TLS of the connections to the store and to sentinels: TLS 1.2 or newer, and the server's
 * certificate is always verified, with its name. */

#include <openssl/ssl.h>

#include "ctl.h"

typedef struct fleet_tls_options_t {
    const char *ca;                 /* file with certificates; NULL: those of the system */
    const char *cert, *key;         /* files of the client's certificate, or NULL */
    const char *name;               /* name in the server's certificate; NULL: the host */
} fleet_tls_options_t;

typedef struct fleet_tls_t fleet_tls_t;

/* Reads the files. Returns NULL and fills in *error if one of them is not valid. */
fleet_tls_t *fleet_tls_new(const fleet_tls_options_t *options, ctl_error_t *error);

/* Returns the state of a new connection to the host, for SSL_connect(); NULL if memory is
 * short or the name cannot be one of a certificate. */
SSL *fleet_tls_begin(const fleet_tls_t *tls, int fd, const char *host);

/* Writes why the last operation of OpenSSL failed. */
void fleet_tls_why(const SSL *ssl, char *why, size_t size);

#endif
