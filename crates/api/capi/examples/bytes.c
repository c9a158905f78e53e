/* A server that answers `GET /random/N` over HTTP/1.0 with N bytes, and so long ones too: it gives the stack what there is room for, and goes on when there is
 * room again. It ends with SIGINT or SIGTERM.
 *
 *   cc -I crates/api/capi crates/api/capi/examples/bytes.c target/debug/libclearway.a -lpthread -ldl -lm -o bytes
 *   ./bytes tap:cw0 10.0.0.2/24 fd00::2/64 10.0.0.1        (root, or an interface that is yours)
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clearway.h"

/* A request whose head is longer is none. */
enum { LONGEST_HEAD = 8192, CONNECTIONS = 65536 };

/* What is known of a connection; it is the `ctx` of its functions, and goes with it. */
struct answer {
    unsigned long long left;
    size_t have;
    int begun;
    char head[LONGEST_HEAD + 1];
};

static struct clw_host *host;

static void check(enum clw_status status, const char *what)
{
    if (status == CLW_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, status == CLW_DEVICE ? clw_host_error(host) : clw_status_text(status));
    exit(1);
}

/* Nothing is called for the connection after this. What was written still goes out. */
static void end(struct clw_host *on, uint64_t conn, struct answer *answer)
{
    clw_host_close(on, conn);
    free(answer);
}

/* Reads the head, piece by piece as it comes. CLW_OK: it is whole, and was answered. */
static enum clw_status begin(struct clw_host *on, uint64_t conn, struct answer *answer)
{
    static const char *start = "GET /random/", *absent = "HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    char line[96];
    size_t len;
    while (strstr(answer->head, "\r\n\r\n") == NULL && answer->have < LONGEST_HEAD) {
        uint8_t *to = (uint8_t *)answer->head + answer->have;
        enum clw_status status = clw_host_recv(on, conn, to, LONGEST_HEAD - answer->have, &len);
        if (status != CLW_OK)
            return status;
        answer->have += len;
    }
    if (strncmp(answer->head, start, strlen(start)) == 0) {
        answer->left = strtoull(answer->head + strlen(start), NULL, 10);
        snprintf(line, sizeof line, "HTTP/1.0 200 OK\r\nContent-Length: %llu\r\n\r\n", answer->left);
    } else {
        snprintf(line, sizeof line, "%s", absent);
    }
    answer->begun = 1;
    return clw_host_send(on, conn, (const uint8_t *)line, strlen(line), &len);
}

static void step(struct clw_host *on, uint64_t conn, void *ctx)
{
    static uint8_t piece[16384];
    struct answer *answer = ctx;
    size_t len, sent;
    if (!answer->begun) {
        enum clw_status status = begin(on, conn, answer);
        if (status == CLW_END)
            end(on, conn, answer);
        if (status != CLW_OK)
            return;
    }
    while (answer->left > 0) {
        len = answer->left < sizeof piece ? (size_t)answer->left : sizeof piece;
        /* Called again when there is room. */
        if (clw_host_send(on, conn, piece, len, &sent) != CLW_OK || sent == 0)
            return;
        answer->left -= sent;
    }
    end(on, conn, answer);
}

static void accepted(struct clw_host *on, uint64_t conn, void *ctx)
{
    struct answer *answer = calloc(1, sizeof *answer);
    (void)ctx;
    if (answer == NULL || clw_host_set_ctx(on, conn, answer) != CLW_OK)
        end(on, conn, answer);
}

static void closed(struct clw_host *on, uint64_t conn, enum clw_status why, void *ctx)
{
    (void)on;
    (void)conn;
    (void)why;
    free(ctx);
}

static void on_signal(int number)
{
    (void)number;
    clw_host_stop(host);
}

int main(int argc, char **argv)
{
    struct clw_config config;
    struct clw_handlers streams;
    struct clw_endpoint anywhere;
    uint64_t listener;
    uint16_t iface;
    int i;

    if (argc < 3) {
        fprintf(stderr, "usage: %s PORT ADDRESS/LENGTH... [GATEWAY]...\n", argv[0]);
        return 2;
    }
    check(clw_config_init(&config), "configuration");
    config.connections = CONNECTIONS;
    check(clw_host_new(&config, &host), "host");
    check(clw_host_add_port(host, argv[1], &iface), argv[1]);
    for (i = 2; i < argc; i++) {
        if (strchr(argv[i], '/') != NULL)
            check(clw_host_add_address(host, iface, argv[i]), argv[i]);
        else
            check(clw_host_add_route(host, strchr(argv[i], ':') != NULL ? "::/0" : "0.0.0.0/0", argv[i]), argv[i]);
    }

    memset(&anywhere, 0, sizeof anywhere);
    anywhere.port = 80;
    memset(&streams, 0, sizeof streams);
    streams.accepted = accepted;
    streams.readable = step;
    streams.writable = step;
    streams.closed = closed;
    check(clw_host_listen(host, &anywhere, 1024, NULL, &streams, &listener), "listen");

    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    printf("ready\n");
    fflush(stdout);
    check(clw_host_run(host), "run");
    check(clw_host_free(host), "free");
    return 0;
}
