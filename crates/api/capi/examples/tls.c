/* HTTP over TLS: OpenSSL turns the stack's bytes into the conversation's and back, by two BIOs in memory for each connection. It ends with SIGINT or
 * SIGTERM.
 *
 *   openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=cw -keyout key.pem -out cert.pem
 *   cc -I crates/api/capi crates/api/capi/examples/tls.c target/debug/libclearway.a -lssl -lcrypto -lpthread -ldl -lm -o tls
 *   ./tls cert.pem key.pem tap:cw0 10.0.0.2/24        (root, or an interface that is yours)
 *   curl -k https://10.0.0.2/
 */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clearway.h"

/* The longest request that is read. */
#define LONGEST_HEAD 8192

static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 33\r\nConnection: close\r\n\r\nover TLS by OpenSSL in memory :)\n";

/* What is known of a connection; it is the `ctx` of its functions, and goes with it. */
struct talk {
    SSL *ssl;
    BIO *in;  /* what came and OpenSSL has not read   */
    BIO *out; /* what OpenSSL made and nobody sent yet */
    char head[LONGEST_HEAD + 1];
    size_t len;
    int answered;
};

static struct clw_host *host;
static SSL_CTX *tls;
static unsigned long answers;

static void check(enum clw_status status, const char *what)
{
    if (status == CLW_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, status == CLW_DEVICE ? clw_host_error(host) : clw_status_text(status));
    exit(1);
}

static void forget(struct talk *talk)
{
    /* Frees the BIOs as well. */
    SSL_free(talk->ssl);
    free(talk);
}

/* Hands what OpenSSL has made to the stack, as far as there is room; whether all of it found some. */
static int flush(struct clw_host *on, uint64_t conn, struct talk *talk)
{
    char *data;
    long len;
    while ((len = BIO_get_mem_data(talk->out, &data)) > 0) {
        size_t sent = 0;
        static char gone[65536];
        if (clw_host_send(on, conn, (const uint8_t *)data, (size_t)len, &sent) != CLW_OK || sent == 0)
            return 0;
        /* Reading is how bytes leave such a BIO. */
        while (sent > 0) {
            int n = BIO_read(talk->out, gone, (int)(sent < sizeof gone ? sent : sizeof gone));
            if (n <= 0)
                return 0;
            sent -= (size_t)n;
        }
    }
    return 1;
}

/* Reads the request as far as it came, and answers a whole one. */
static void converse(struct talk *talk)
{
    int n;
    while (talk->len < LONGEST_HEAD && (n = SSL_read(talk->ssl, talk->head + talk->len, (int)(LONGEST_HEAD - talk->len))) > 0)
        talk->len += (size_t)n;
    talk->head[talk->len] = 0;
    if (talk->answered || (!strstr(talk->head, "\r\n\r\n") && talk->len < LONGEST_HEAD))
        return;
    talk->answered = 1;
    answers++;
    SSL_write(talk->ssl, answer, (int)strlen(answer));
    SSL_shutdown(talk->ssl);
}

static void step(struct clw_host *on, uint64_t conn, void *ctx)
{
    struct talk *talk = ctx;
    const uint8_t *data;
    enum clw_status status;
    size_t len;
    int failed;

    while ((status = clw_host_peek(on, conn, &data, &len)) == CLW_OK) {
        int n = BIO_write(talk->in, data, (int)(len < 65536 ? len : 65536));
        if (n <= 0)
            break;
        clw_host_consumed(on, conn, (size_t)n);
        converse(talk);
    }
    if (status == CLW_OK || status == CLW_AGAIN)
        converse(talk);
    /* What went wrong may have left an alert in `out` (RFC 8446 6). */
    failed = ERR_peek_error() != 0;
    ERR_clear_error();
    if ((flush(on, conn, talk) && talk->answered) || status == CLW_END || failed) {
        /* Nothing is called for the connection after this. What was written still goes out. */
        clw_host_close(on, conn);
        forget(talk);
    }
}

static void accepted(struct clw_host *on, uint64_t conn, void *ctx)
{
    struct talk *talk = calloc(1, sizeof *talk);
    (void)ctx;
    if (talk == NULL || (talk->ssl = SSL_new(tls)) == NULL || clw_host_set_ctx(on, conn, talk) != CLW_OK) {
        if (talk != NULL)
            forget(talk);
        clw_host_close(on, conn);
        return;
    }
    talk->in = BIO_new(BIO_s_mem());
    talk->out = BIO_new(BIO_s_mem());
    SSL_set_bio(talk->ssl, talk->in, talk->out);
    SSL_set_accept_state(talk->ssl);
}

static void closed(struct clw_host *on, uint64_t conn, enum clw_status why, void *ctx)
{
    (void)on;
    (void)conn;
    (void)why;
    forget(ctx);
}

static void on_signal(int number)
{
    (void)number;
    clw_host_stop(host);
}

int main(int argc, char **argv)
{
    struct clw_config config;
    struct clw_handlers handlers;
    struct clw_endpoint anywhere;
    uint64_t listener;
    uint16_t iface;
    int i;

    if (argc < 5) {
        fprintf(stderr, "usage: %s CERTIFICATE KEY PORT ADDRESS/LENGTH...\n", argv[0]);
        return 2;
    }
    tls = SSL_CTX_new(TLS_server_method());
    if (!tls || SSL_CTX_use_certificate_chain_file(tls, argv[1]) != 1 || SSL_CTX_use_PrivateKey_file(tls, argv[2], SSL_FILETYPE_PEM) != 1) {
        ERR_print_errors_fp(stderr);
        return 1;
    }
    check(clw_config_init(&config), "configuration");
    config.connections = 1024;
    check(clw_host_new(&config, &host), "host");
    check(clw_host_add_port(host, argv[3], &iface), argv[3]);
    for (i = 4; i < argc; i++)
        check(clw_host_add_address(host, iface, argv[i]), argv[i]);
    memset(&anywhere, 0, sizeof anywhere);
    anywhere.port = 443;
    memset(&handlers, 0, sizeof handlers);
    handlers.accepted = accepted;
    handlers.readable = step;
    handlers.writable = step;
    handlers.closed = closed;
    check(clw_host_listen(host, &anywhere, 64, NULL, &handlers, &listener), "listen");

    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    printf("ready\n");
    fflush(stdout);
    check(clw_host_run(host), "run");
    printf("answered %lu requests\n", answers);
    check(clw_host_free(host), "free");
    SSL_CTX_free(tls);
    return 0;
}
