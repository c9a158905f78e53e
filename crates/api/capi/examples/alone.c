/* The bare layer without an operating system and without a C library: memory is an array, the clock is a counter, and the five functions that any compiler may
 * call stand below. One stack sends a kilobyte to another. The status of the program is 0, or the line in which something went wrong (modulo 256).
 *
 *   cargo rustc -p clearway-capi --lib --no-default-features --profile bare --crate-type staticlib
 *   cc -ffreestanding -nostdlib -static -I crates/api/capi crates/api/capi/examples/alone.c target/bare/libclearway.a -o alone
 */
#include "clearway.h"

/* What the library asks of the program. */
static _Alignas(64) unsigned char memory[80 << 20];
static size_t used;

void *clw_need_memory(size_t size, size_t align)
{
    size_t at = (used + align - 1) / align * align;
    if (at + size > sizeof memory)
        return NULL;
    used = at + size;
    return memory + at;
}

void clw_give_memory(void *given, size_t size, size_t align)
{
    /* The last piece can be had again; a program that makes more than one stack wants a real allocator. */
    (void)align;
    if ((unsigned char *)given + size == memory + used)
        used -= size;
}

static void leave(int status)
{
    __asm__ volatile("syscall" : : "a"(231), "D"(status) : "rcx", "r11", "memory");
    for (;;)
        ;
}

void clw_panic(const uint8_t *text, size_t len)
{
    (void)text;
    (void)len;
    leave(255);
}

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    unsigned char *t = to;
    const unsigned char *f = from;
    while (n-- > 0)
        *t++ = *f++;
    return to;
}

void *memmove(void *to, const void *from, size_t n)
{
    unsigned char *t = to;
    const unsigned char *f = from;
    if (t < f)
        return memcpy(to, from, n);
    while (n-- > 0)
        t[n] = f[n];
    return to;
}

void *memset(void *at, int byte, size_t n)
{
    unsigned char *t = at;
    while (n-- > 0)
        *t++ = (unsigned char)byte;
    return at;
}

int memcmp(const void *a, const void *b, size_t n)
{
    const unsigned char *x = a, *y = b;
    for (; n-- > 0; x++, y++)
        if (*x != *y)
            return *x < *y ? -1 : 1;
    return 0;
}

int bcmp(const void *a, const void *b, size_t n)
{
    return memcmp(a, b, n);
}

size_t strlen(const char *text)
{
    size_t n = 0;
    while (text[n] != 0)
        n++;
    return n;
}

#define must(condition) \
    do \
        if (!(condition)) \
            leave(__LINE__ % 256 != 0 ? __LINE__ % 256 : 1); \
    while (0)

/* A wire that holds one frame: the stack copies it on arrival, so no release function is needed. */
struct wire {
    uint8_t frame[1500];
    uint32_t len;
};

static uint8_t *reserve(void *ctx, uint16_t iface, uint32_t len)
{
    struct wire *wire = ctx;
    (void)iface;
    return wire->len > 0 || len > sizeof wire->frame ? NULL : wire->frame;
}

static void commit(void *ctx, uint16_t iface, uint32_t len, const struct clw_tx_meta *meta)
{
    (void)iface;
    (void)meta;
    ((struct wire *)ctx)->len = len;
}

static struct wire wires[2];
static struct clw_stack *stacks[2];

static void make(int i)
{
    struct clw_config config;
    struct clw_interface interface = {.link = CLW_LINK_RAW, .mtu = 1500};
    uint16_t iface;
    must(clw_config_init(&config) == CLW_OK);
    config.connections = config.half_open = config.time_wait = 8;
    config.send_chunks = config.receive_packets = config.copy_buffers = 32;
    config.udp_sockets = config.listeners = 4;
    memset(config.secret, i + 1, sizeof config.secret);
    must(clw_stack_new(&config, &stacks[i]) == CLW_OK);
    must(clw_add_interface(stacks[i], &interface, &iface) == CLW_OK);
    must(clw_add_address(stacks[i], 0, iface, clw_ipv4(10, 0, 0, (uint8_t)(i + 1)), 24) == CLW_OK);
}

static void turn(int i, uint64_t now)
{
    struct clw_sink sink = {&wires[i], reserve, commit};
    struct wire *in = &wires[1 - i];
    enum clw_status status;
    if (in->len > 0) {
        struct clw_packet packet = {.data = in->frame, .len = in->len};
        must(clw_ingest(stacks[i], now, &packet, 1) == CLW_OK);
        in->len = 0;
    }
    must(clw_expire(stacks[i], now) == CLW_OK);
    status = clw_emit(stacks[i], now, &sink);
    must(status == CLW_OK || status == CLW_AGAIN);
}

static void run(void)
{
    struct clw_endpoint there = {clw_ipv4(10, 0, 0, 2), 7};
    uint64_t now = 0, listener, ours, theirs = 0;
    uint8_t sent[1000], came[1000];
    size_t n, have = 0;
    int i;
    for (i = 0; i < 1000; i++)
        sent[i] = (uint8_t)(i * 7);
    make(0);
    make(1);
    must(clw_listen(stacks[1], &there, 4, 0, NULL, &listener) == CLW_OK);
    must(clw_connect(stacks[0], now, NULL, &there, 0, NULL, &ours) == CLW_OK);
    must(clw_send(stacks[0], ours, sent, sizeof sent, &n) == CLW_OK && n == sizeof sent);
    for (i = 0; i < 1000 && have < sizeof sent; i++) {
        now += 1000000;
        turn(0, now);
        turn(1, now);
        if (theirs == 0 && clw_accept(stacks[1], listener, 0, &theirs) != CLW_OK)
            continue;
        if (clw_recv(stacks[1], theirs, came + have, sizeof came - have, &n) == CLW_OK)
            have += n;
    }
    must(have == sizeof sent && memcmp(sent, came, sizeof sent) == 0);
    must(clw_stack_free(stacks[0]) == CLW_OK && clw_stack_free(stacks[1]) == CLW_OK);
    leave(0);
}

/* The system leaves the stack aligned to 16 bytes here, and functions want it so before they are called. */
__attribute__((naked, used)) void _start(void)
{
    __asm__ volatile("call run_from_start");
}

__attribute__((used)) void run_from_start(void)
{
    run();
}
