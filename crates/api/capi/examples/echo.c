/* An echo server over a port: whatever anybody sends to port 7, over TCP or UDP, comes back. It ends with SIGINT or SIGTERM.
 *
 *   cc -I crates/api/capi crates/api/capi/examples/echo.c target/debug/libclearway.a -lpthread -ldl -lm -o echo
 *   ./echo tap:cw0 10.0.0.2/24        (root, or an interface that is yours)
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clearway.h"

static struct clw_host *host;

static void check(enum clw_status status, const char *what)
{
    if (status == CLW_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, status == CLW_DEVICE ? clw_host_error(host) : clw_status_text(status));
    exit(1);
}

/* Gives back what is there, as far as there is room: the rest stays with the stack, whose window then tells the peer to wait. */
static void echo(struct clw_host *on, uint64_t conn, void *ctx)
{
    unsigned long *bytes = ctx;
    const uint8_t *data;
    size_t len, sent;
    for (;;) {
        enum clw_status status = clw_host_peek(on, conn, &data, &len);
        if (status == CLW_END)
            clw_host_close(on, conn);
        if (status != CLW_OK)
            return;
        if (clw_host_send(on, conn, data, len, &sent) != CLW_OK)
            return;
        clw_host_consumed(on, conn, sent);
        *bytes += sent;
    }
}

static void accepted(struct clw_host *on, uint64_t conn, void *ctx)
{
    struct clw_conn_info info;
    char text[CLW_ADDR_TEXT];
    (void)ctx;
    if (clw_host_conn_info_get(on, conn, &info) == CLW_OK && clw_addr_format(&info.remote.addr, text, sizeof text) == CLW_OK)
        printf("connection from %s port %u\n", text, info.remote.port);
    fflush(stdout);
}

static void closed(struct clw_host *on, uint64_t conn, enum clw_status why, void *ctx)
{
    (void)on;
    (void)conn;
    (void)ctx;
    printf("connection ended: %s\n", clw_status_text(why));
    fflush(stdout);
}

static void echo_datagrams(struct clw_host *on, uint64_t socket, void *ctx)
{
    static uint8_t bytes[65536];
    struct clw_endpoint from;
    size_t len;
    unsigned long *count = ctx;
    while (clw_host_udp_recv(on, socket, bytes, sizeof bytes, &len, &from) == CLW_OK) {
        clw_host_udp_send(on, socket, &from, bytes, len);
        ++*count;
    }
}

static void on_signal(int number)
{
    (void)number;
    clw_host_stop(host);
}

int main(int argc, char **argv)
{
    struct clw_config config;
    struct clw_handlers streams, datagrams;
    struct clw_endpoint anywhere;
    unsigned long bytes = 0, count = 0;
    uint64_t listener, socket;
    uint16_t iface;
    int i;

    if (argc < 3) {
        fprintf(stderr, "usage: %s PORT ADDRESS/LENGTH...\n", argv[0]);
        return 2;
    }
    check(clw_config_init(&config), "configuration");
    config.connections = 1024;
    check(clw_host_new(&config, &host), "host");
    check(clw_host_add_port(host, argv[1], &iface), argv[1]);
    for (i = 2; i < argc; i++)
        check(clw_host_add_address(host, iface, argv[i]), argv[i]);

    memset(&anywhere, 0, sizeof anywhere);
    anywhere.port = 7;
    memset(&streams, 0, sizeof streams);
    streams.accepted = accepted;
    streams.readable = echo;
    streams.writable = echo;
    streams.closed = closed;
    streams.ctx = &bytes;
    check(clw_host_listen(host, &anywhere, 64, NULL, &streams, &listener), "listen");
    memset(&datagrams, 0, sizeof datagrams);
    datagrams.readable = echo_datagrams;
    datagrams.ctx = &count;
    check(clw_host_udp_bind(host, &anywhere, &datagrams, &socket), "bind");

    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    printf("ready\n");
    fflush(stdout);
    check(clw_host_run(host), "run");
    printf("echoed %lu bytes and %lu datagrams\n", bytes, count);
    check(clw_host_free(host), "free");
    return 0;
}
