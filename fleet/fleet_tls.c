/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet_tls.h"

#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

struct fleet_tls_t {
    SSL_CTX *context;
    const char *name;
};

static void *fail(fleet_tls_t *tls, ctl_error_t *error, const char *keyword, const char *file)
{
    unsigned long code = ERR_get_error();
    const char *why = ERR_reason_error_string(code);

    /* OpenSSL 3 has no text for an error of the system. */
    ctl_error_set(error, CTL_USAGE, "%s%s%s cannot be used: %s", keyword, file ? " " : "",
                  file ? file : "", why ? why : strerror(ERR_GET_REASON(code)));
    ERR_clear_error();
    SSL_CTX_free(tls->context);
    free(tls);
    return NULL;
}

fleet_tls_t *fleet_tls_new(const fleet_tls_options_t *options, ctl_error_t *error)
{
    fleet_tls_t *tls = ctl_alloc(sizeof(*tls));
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());

    tls->context = context;
    tls->name = options->name;
    if (!context || !SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION))
        return fail(tls, error, "tls", NULL);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE
                              | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    if (options->ca ? !SSL_CTX_load_verify_locations(context, options->ca, NULL)
                    : !SSL_CTX_set_default_verify_paths(context))
        return fail(tls, error, "tls-ca", options->ca);
    if (options->cert && SSL_CTX_use_certificate_chain_file(context, options->cert) != 1)
        return fail(tls, error, "tls-cert", options->cert);
    if (options->key && (SSL_CTX_use_PrivateKey_file(context, options->key,
                                                     SSL_FILETYPE_PEM) != 1
                         || SSL_CTX_check_private_key(context) != 1))
        return fail(tls, error, "tls-key", options->key);
    return tls;
}

/* Sets the name that the certificate must have. An IP address is not sent as SNI. Returns 1,
 * or 0. */
static int set_name(SSL *ssl, const char *name)
{
    unsigned char address[16];

    if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name);
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, name) && SSL_set_tlsext_host_name(ssl, name);
}

SSL *fleet_tls_begin(const fleet_tls_t *tls, int fd, const char *host)
{
    SSL *ssl = SSL_new(tls->context);

    if (ssl && (!SSL_set_fd(ssl, fd) || !set_name(ssl, tls->name ? tls->name : host))) {
        SSL_free(ssl);
        ssl = NULL;
    }
    ERR_clear_error();
    return ssl;
}

void fleet_tls_why(const SSL *ssl, char *why, size_t size)
{
    unsigned long code = ERR_get_error();
    const char *reason = ERR_reason_error_string(code);
    long verified = SSL_get_verify_result(ssl);

    if (verified != X509_V_OK)
        reason = X509_verify_cert_error_string(verified);
    snprintf(why, size, "TLS: %s", reason ? reason : "the connection was closed");
    ERR_clear_error();
}
