/* Two stacks in one program, coupled in memory by a bad wire: every tenth packet or so is lost. Each side sends a stream to the other and checks every byte
 * of what it gets. The program owns the packets, the clock and the loop; nothing here waits, so it takes as long as it computes.
 *
 *   cc -I crates/api/capi crates/api/capi/examples/pair.c target/debug/libclearway.a -lpthread -ldl -lm -o pair && ./pair
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clearway.h"

enum { FRAME = 2048, DEPTH = 256, LENGTH = 1 << 20, LOST_OF_100 = 10 };

static unsigned long live_frames; /* Frames that somebody holds: a leak would show here. */

static void check_at(enum clw_status status, const char *what, int line)
{
    if (status != CLW_OK) {
        fprintf(stderr, "pair.c:%d: %s: %s\n", line, what, clw_status_text(status));
        exit(1);
    }
}
#define check(call) check_at(call, #call, __LINE__)

/* One direction of the wire: a ring of frames that the program allocates and the receiving stack releases. */
struct frame {
    uint32_t len;
    uint8_t bytes[FRAME];
};

struct wire {
    struct frame *queue[DEPTH];
    unsigned first, count;
    struct frame *room; /* Given to the stack by reserve, not committed yet. */
    unsigned long sent, lost;
    uint32_t luck;
};

static uint8_t *wire_reserve(void *ctx, uint16_t iface, uint32_t len)
{
    struct wire *wire = ctx;
    (void)iface;
    if (len > FRAME || wire->count == DEPTH)
        return NULL;
    if (wire->room == NULL) {
        wire->room = calloc(1, sizeof *wire->room);
        if (wire->room == NULL)
            return NULL;
        live_frames++;
    }
    return wire->room->bytes;
}

static void wire_commit(void *ctx, uint16_t iface, uint32_t len, const struct clw_tx_meta *meta)
{
    struct wire *wire = ctx;
    (void)iface;
    (void)meta;
    wire->sent++;
    wire->luck = wire->luck * 1664525u + 1013904223u;
    if ((wire->luck >> 16) % 100 < LOST_OF_100) {
        wire->lost++;
        return; /* The room stays and is given again. */
    }
    wire->room->len = len;
    wire->queue[(wire->first + wire->count++) % DEPTH] = wire->room;
    wire->room = NULL;
}

static void frame_release(void *owner)
{
    live_frames--;
    free(owner);
}

/* Hands everything that waits on the wire to a stack, which takes the frames over. */
static void wire_deliver(struct wire *wire, struct clw_stack *stack, uint64_t now)
{
    struct clw_packet packets[32];
    while (wire->count > 0) {
        size_t n = 0;
        for (; wire->count > 0 && n < 32; n++, wire->count--) {
            struct frame *frame = wire->queue[wire->first];
            wire->first = (wire->first + 1) % DEPTH;
            memset(&packets[n], 0, sizeof packets[n]);
            packets[n].data = frame->bytes;
            packets[n].len = frame->len;
            packets[n].footprint = sizeof *frame;
            packets[n].release = frame_release;
            packets[n].owner = frame;
        }
        check(clw_ingest(stack, now, packets, n));
    }
}

/* What byte `at` of the stream of side `side` is. */
static uint8_t byte_at(unsigned side, size_t at)
{
    uint32_t x = (uint32_t)at * 2654435761u + side * 97u;
    return (uint8_t)(x >> 24 ^ x >> 7);
}

struct side {
    unsigned number;
    struct clw_stack *stack;
    struct wire out;
    uint64_t listener, conn;
    size_t sent, received;
    int shut, ended;
};

static void side_open(struct side *side, unsigned number, struct clw_addr addr)
{
    struct clw_config config;
    struct clw_interface interface;
    uint16_t iface;
    memset(side, 0, sizeof *side);
    side->number = number;
    side->out.luck = 12345 + number;
    check(clw_config_init(&config));
    config.connections = 16;
    config.half_open = 16;
    config.time_wait = 16;
    config.send_chunks = 256;
    config.receive_packets = 1024;
    config.copy_buffers = 16;
    memset(config.secret, 7 + (int)number, sizeof config.secret); /* A test may; a program takes 32 bytes of /dev/urandom. */
    check(clw_stack_new(&config, &side->stack));
    memset(&interface, 0, sizeof interface);
    interface.link = CLW_LINK_RAW;
    interface.mtu = 1500;
    check(clw_add_interface(side->stack, &interface, &iface));
    check(clw_add_address(side->stack, 0, iface, addr, 24));
}

/* Writes as much as is taken, reads what is there and compares it. */
static void side_move(struct side *side)
{
    uint8_t bytes[4096];
    size_t n, i, len;
    enum clw_status status;
    while (side->sent < LENGTH) {
        n = LENGTH - side->sent < sizeof bytes ? LENGTH - side->sent : sizeof bytes;
        for (i = 0; i < n; i++)
            bytes[i] = byte_at(side->number, side->sent + i);
        status = clw_send(side->stack, side->conn, bytes, n, &len);
        side->sent += len;
        if (status == CLW_AGAIN || len < n)
            break;
        check(status);
    }
    if (side->sent == LENGTH && !side->shut) {
        check(clw_shutdown(side->stack, side->conn));
        side->shut = 1;
    }
    while (!side->ended) {
        /* One side reads where the packet lies, the other one into memory of its own. */
        const uint8_t *data = bytes;
        status = side->number == 0 ? clw_peek(side->stack, side->conn, &data, &len)
                                   : clw_recv(side->stack, side->conn, bytes, sizeof bytes, &len);
        if (status == CLW_AGAIN)
            return;
        if (status == CLW_END) {
            side->ended = 1;
            return; /* It may still have something to send. */
        }
        check(status);
        for (i = 0; i < len; i++) {
            if (data[i] != byte_at(1 - side->number, side->received + i)) {
                fprintf(stderr, "side %u: byte %zu is wrong\n", side->number, side->received + i);
                exit(1);
            }
        }
        side->received += len;
        if (side->number == 0)
            check(clw_consumed(side->stack, side->conn, len));
    }
}

static void side_events(struct side *side)
{
    struct clw_event event;
    while (clw_next_event(side->stack, &event) == CLW_OK) {
        if (event.kind == CLW_EVENT_INCOMING && side->conn == 0)
            check(clw_accept(side->stack, event.handle, 0, &side->conn));
        if (event.kind == CLW_EVENT_CONN && (event.what & CLW_CONN_FAILED) != 0)
            check(clw_failure(side->stack, event.handle));
    }
    if (side->conn != 0)
        side_move(side);
}

int main(void)
{
    struct side sides[2];
    struct clw_endpoint server;
    struct clw_counters counters;
    uint64_t now = 1000000000, due, turns = 0;
    struct clw_addr addrs[2];
    int i;

    addrs[0] = clw_ipv4(10, 0, 0, 1);
    check(clw_addr_parse("10.0.0.2", &addrs[1]));
    for (i = 0; i < 2; i++)
        side_open(&sides[i], (unsigned)i, addrs[i]);
    server.addr = addrs[1];
    server.port = 7;
    check(clw_listen(sides[1].stack, &server, 8, 0, NULL, &sides[1].listener));
    check(clw_connect(sides[0].stack, now, NULL, &server, 0, NULL, &sides[0].conn));

    while (!(sides[0].ended && sides[1].ended && sides[0].sent == LENGTH && sides[1].sent == LENGTH)) {
        uint64_t next = UINT64_MAX;
        int busy = 0;
        if (++turns > 1000000) {
            fprintf(stderr, "it does not end: %zu and %zu bytes came\n", sides[0].received, sides[1].received);
            return 1;
        }
        for (i = 0; i < 2; i++) {
            struct side *side = &sides[i];
            struct clw_sink sink = {&side->out, wire_reserve, wire_commit};
            enum clw_status status;
            wire_deliver(&sides[1 - i].out, side->stack, now);
            check(clw_expire(side->stack, now));
            side_events(side);
            status = clw_emit(side->stack, now, &sink);
            busy |= status == CLW_AGAIN || side->out.count > 0;
            if (status != CLW_AGAIN)
                check(status);
        }
        busy |= sides[0].out.count > 0;
        for (i = 0; i < 2; i++) {
            check(clw_next_deadline(sides[i].stack, &due));
            next = due < next ? due : next;
        }
        /* The clock is the program's: a packet takes 100 microseconds, and silence none at all. */
        now = busy || next == UINT64_MAX || next <= now ? now + 100000 : next;
    }

    for (i = 0; i < 2; i++) {
        check(clw_counters_get(sides[i].stack, &counters));
        printf("side %d: sent %zu received %zu, packets sent %lu lost %lu, sent again %llu\n", i, sides[i].sent,
               sides[i].received, sides[i].out.sent, sides[i].out.lost, (unsigned long long)counters.retransmitted);
        if (sides[i].received != LENGTH || sides[i].out.lost == 0 || counters.retransmitted == 0)
            return 1;
    }
    for (i = 0; i < 2; i++) {
        struct wire *wire = &sides[i].out;
        check(clw_stack_free(sides[i].stack));
        for (; wire->count > 0; wire->count--, wire->first = (wire->first + 1) % DEPTH)
            frame_release(wire->queue[wire->first]);
        if (wire->room != NULL)
            frame_release(wire->room);
    }
    printf("frames held at the end: %lu\n", live_frames);
    return live_frames == 0 ? 0 : 1;
}
