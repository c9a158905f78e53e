/* Clearway: a TCP/IP host stack for C programs. This file is made from the Rust sources; do not edit it (docs/c.md).
 *
 * Two layers. The bare one (clw_stack) is driven by the program: clw_ingest takes packets, clw_expire looks at timers, clw_emit sends. It starts no thread, reads
 * no clock and calls nothing but memcpy and its kin on the way of a packet. The easy one (clw_host) runs the engine over ports that are named, and calls the
 * program back.
 *
 * Rules for every call:
 *
 * - It answers with a clw_status. Results go to where the last arguments point; when the answer is not CLW_OK they hold nothing of use, unless it says so.
 * - NULL is refused with CLW_NULL wherever nothing is said of it, and nothing is done. Any other pointer must lead to what its type says, and nobody may
 *   change that during the call.
 * - A handle (connection, listener, socket) is a number that is never 0 and never names another thing later: an old one is CLW_STALE.
 * - One thread at a time uses a stack or a host. A call on it out of one of its callbacks is CLW_BUSY, but for what the easy layer allows.
 * - Times are nanoseconds of any clock that does not run backwards; where it does, the stack takes the latest time that it was told.
 */


#ifndef CLEARWAY_H
#define CLEARWAY_H

#include <stddef.h>
#include <stdint.h>
typedef struct clw_stack clw_stack;
typedef struct clw_host clw_host;


/**
 * The device knows nothing of the transport checksum: the stack looks itself.
 */
#define CLW_CHECKSUM_UNKNOWN 0

/**
 * The device vouches for the transport checksum.
 */
#define CLW_CHECKSUM_GOOD 1

/**
 * The device found the transport checksum wrong.
 */
#define CLW_CHECKSUM_BAD 2

/**
 * The connection that has been idle longest of the source that has most makes room; the default.
 */
#define CLW_FULL_MAKE_ROOM 0

/**
 * The new connection is reset.
 */
#define CLW_FULL_RESET 1

/**
 * The SYN is dropped, and its sender tries again.
 */
#define CLW_FULL_DROP 2

/**
 * NewReno.
 */
#define CLW_CONGESTION_RENO 0

/**
 * CUBIC, the default.
 */
#define CLW_CONGESTION_CUBIC 1

/**
 * BBRv3, which paces its data.
 */
#define CLW_CONGESTION_BBR 2

/**
 * Prague, which heeds the marks of L4S queues, with a peer that agrees on AccECN; with others CUBIC.
 */
#define CLW_CONGESTION_PRAGUE 3

/**
 * BBR's first version, which takes no loss for a sign: what Linux names "bbr".
 */
#define CLW_CONGESTION_BBR1 4

/**
 * Frames begin with an Ethernet header.
 */
#define CLW_LINK_ETHERNET 0

/**
 * Frames begin with the IP header.
 */
#define CLW_LINK_RAW 1

/**
 * The device fills in TCP and UDP checksums as `clw_tx_meta` says.
 */
#define CLW_OFFLOAD_TX_CHECKSUM 1

/**
 * Packets never leave the memory of this machine: transport checksums are neither made nor looked
 * at.
 */
#define CLW_OFFLOAD_TRUSTED 2

/**
 * The device cuts large IPv4 TCP packets.
 */
#define CLW_OFFLOAD_TSO4 4

/**
 * The device cuts large IPv6 TCP packets.
 */
#define CLW_OFFLOAD_TSO6 8

/**
 * The device cuts large UDP packets.
 */
#define CLW_OFFLOAD_USO 16

/**
 * The listener `handle` has a finished handshake for `clw_accept`.
 */
#define CLW_EVENT_INCOMING 1

/**
 * Something happened to the connection `handle`: bits `CLW_CONN_…`.
 */
#define CLW_EVENT_CONN 2

/**
 * Something happened to the UDP socket `handle`: bits `CLW_UDP_…`.
 */
#define CLW_EVENT_UDP 3

/**
 * The handshake that the program began is done.
 */
#define CLW_CONN_CONNECTED 1

/**
 * Bytes can be read.
 */
#define CLW_CONN_READABLE 2

/**
 * Bytes can be written again after a write was cut short.
 */
#define CLW_CONN_WRITABLE 4

/**
 * The peer has finished; after the bytes that wait, there are no more.
 */
#define CLW_CONN_PEER_CLOSED 8

/**
 * The connection failed, `clw_failure` says why. Only `clw_close` is left to do.
 */
#define CLW_CONN_FAILED 16

/**
 * Both sides are done and everything was acknowledged. Only to read what waits, and `clw_close`,
 * are left to do.
 */
#define CLW_CONN_CLOSED 32

/**
 * Urgent data was announced.
 */
#define CLW_CONN_URGENT 64

/**
 * A datagram can be read.
 */
#define CLW_UDP_READABLE 1

/**
 * There is room for datagrams again after a send was refused.
 */
#define CLW_UDP_WRITABLE 2

/**
 * An ICMP error came back.
 */
#define CLW_UDP_ERROR 4

/**
 * The longest text that an address or an address with a prefix length can be, its zero byte
 * counted.
 */
#define CLW_ADDR_TEXT 52

/**
 * What a function answers. `clw_status_text` makes a sentence of it.
 */
typedef enum clw_status {
    /**
     * Done.
     */
    CLW_OK = 0,
    /**
     * Nothing is there now, or nothing is taken now; an event will tell.
     */
    CLW_AGAIN = 1,
    /**
     * The peer has finished, and everything was read.
     */
    CLW_END = 2,
    /**
     * A pointer that must not be NULL was.
     */
    CLW_NULL = 3,
    /**
     * The call came out of a callback of a call on the same object. Nothing was done.
     */
    CLW_BUSY = 4,
    /**
     * An argument is none that is known, or a text is not what it should be.
     */
    CLW_INVALID = 5,
    /**
     * A number of the configuration is too large or too small.
     */
    CLW_RANGE = 6,
    /**
     * The secret of the configuration is all zero.
     */
    CLW_SECRET = 7,
    /**
     * The handle names nothing, or nothing any more.
     */
    CLW_STALE = 8,
    /**
     * This side of the connection was shut down before.
     */
    CLW_CLOSED = 9,
    /**
     * Somebody else has this address and port.
     */
    CLW_IN_USE = 10,
    /**
     * All places for such things are taken.
     */
    CLW_FULL = 11,
    /**
     * No ephemeral port is free.
     */
    CLW_NO_PORTS = 12,
    /**
     * The address cannot be used for this.
     */
    CLW_BAD_ADDRESS = 13,
    /**
     * No route or no source address leads there.
     */
    CLW_NO_ROUTE = 14,
    /**
     * There is no memory for one more.
     */
    CLW_NO_MEMORY = 15,
    /**
     * There is no interface of this number.
     */
    CLW_NO_INTERFACE = 16,
    /**
     * It is there already.
     */
    CLW_EXISTS = 17,
    /**
     * The MTU is not from 576 to 65535, or below 1280 with IPv6.
     */
    CLW_BAD_MTU = 18,
    /**
     * Longer than can be.
     */
    CLW_TOO_LONG = 19,
    /**
     * Not there in this version.
     */
    CLW_NOT_SUPPORTED = 20,
    /**
     * The peer reset the connection.
     */
    CLW_RESET = 21,
    /**
     * Nobody listens there.
     */
    CLW_REFUSED = 22,
    /**
     * The peer does not answer.
     */
    CLW_TIMED_OUT = 23,
    /**
     * Data stayed unacknowledged for longer than the user timeout.
     */
    CLW_USER_TIMEOUT = 24,
    /**
     * Keepalive probes stayed without an answer.
     */
    CLW_KEEPALIVE = 25,
    /**
     * The network says that the peer cannot be reached.
     */
    CLW_UNREACHABLE = 26,
    /**
     * The stack found its own state impossible and gave the connection up. A bug.
     */
    CLW_BROKEN = 27,
    /**
     * A port cannot be opened or is of no more use; `clw_host_error` says why.
     */
    CLW_DEVICE = 28,
    /**
     * The host was stopped.
     */
    CLW_STOPPED = 29,
    /**
     * The host runs in another call.
     */
    CLW_RUNNING = 30,
} clw_status;

/**
 * The states of RFC 9293.
 */
typedef enum clw_state {
    /**
     * No connection.
     */
    CLW_STATE_CLOSED = 0,
    /**
     * Waiting for anybody.
     */
    CLW_STATE_LISTEN = 1,
    /**
     * Our SYN is out.
     */
    CLW_STATE_SYN_SENT = 2,
    /**
     * Both SYNs are out; ours is not acknowledged.
     */
    CLW_STATE_SYN_RECEIVED = 3,
    /**
     * Data flows both ways.
     */
    CLW_STATE_ESTABLISHED = 4,
    /**
     * Our FIN is out and not acknowledged.
     */
    CLW_STATE_FIN_WAIT_1 = 5,
    /**
     * Our FIN is acknowledged.
     */
    CLW_STATE_FIN_WAIT_2 = 6,
    /**
     * The peer has finished.
     */
    CLW_STATE_CLOSE_WAIT = 7,
    /**
     * Both FINs are out, ours first.
     */
    CLW_STATE_CLOSING = 8,
    /**
     * Both FINs are out, the peer's first.
     */
    CLW_STATE_LAST_ACK = 9,
    /**
     * Old segments must die first.
     */
    CLW_STATE_TIME_WAIT = 10,
} clw_state;

/**
 * How many of each thing, and the settings of TCP. All memory is taken when the stack is made;
 * pages that were never used cost nothing.
 */
typedef struct clw_config {
    /**
     * `sizeof(clw_config)` of the header that the program was compiled with.
     */
    uint32_t size;
    /**
     * Connections that the program opened or accepted.
     */
    uint32_t connections;
    /**
     * Handshakes that strangers began; beyond this, SYN cookies.
     */
    uint32_t half_open;
    /**
     * Connections in TIME-WAIT; beyond this the oldest ends early.
     */
    uint32_t time_wait;
    /**
     * Connections that were closed and still wait for the peer.
     */
    uint32_t orphans;
    /**
     * Listeners.
     */
    uint32_t listeners;
    /**
     * UDP sockets.
     */
    uint32_t udp_sockets;
    /**
     * Bytes that wait in one UDP socket, each way.
     */
    uint32_t udp_queue_bytes;
    /**
     * Interfaces.
     */
    uint32_t interfaces;
    /**
     * Addresses over all interfaces.
     */
    uint32_t addresses;
    /**
     * Routes.
     */
    uint32_t routes;
    /**
     * Neighbours (ARP and NDP).
     */
    uint32_t neighbours;
    /**
     * Packets whose bytes wait to be read, over all connections.
     */
    uint32_t receive_packets;
    /**
     * Bytes of memory that the unread packets of one connection may hold on to. Windows grow up to
     * half of it, as far as the connection is worth it.
     */
    uint32_t receive_limit;
    /**
     * Pieces of memory for bytes that were sent and not acknowledged, over all connections.
     */
    uint32_t send_chunks;
    /**
     * Bytes of each of them.
     */
    uint32_t send_chunk_len;
    /**
     * Bytes that one connection may have sent and not acknowledged, at most. It may have twice its
     * congestion window.
     */
    uint32_t send_limit;
    /**
     * Buffers of the stack's own: for packets that are handed in to be copied, and for what
     * arrives in fragments.
     */
    uint32_t copy_buffers;
    /**
     * Bytes of each of them.
     */
    uint32_t copy_buffer_len;
    /**
     * Milliseconds that a connection stays in TIME-WAIT.
     */
    uint32_t time_wait_ms;
    /**
     * Lower bound of the retransmission timeout in milliseconds.
     */
    uint32_t rto_min_ms;
    /**
     * Milliseconds that an acknowledgement may wait for company.
     */
    uint32_t delayed_ack_ms;
    /**
     * First port of those that are chosen for connections.
     */
    uint16_t first_port;
    /**
     * Last one.
     */
    uint16_t last_port;
    /**
     * 0: no timestamps (RFC 7323).
     */
    uint8_t timestamps;
    /**
     * 0: no selective acknowledgements (RFC 2018).
     */
    uint8_t sack;
    /**
     * 0: no window scaling (RFC 7323).
     */
    uint8_t window_scaling;
    /**
     * 0: no SYN cookies (RFC 4987).
     */
    uint8_t syn_cookies;
    /**
     * What becomes of a new connection when every place is taken: one of `CLW_FULL_…`.
     */
    uint8_t when_full;
    /**
     * The key of sequence numbers, ports and tables: 32 bytes from the system's random source. All
     * zero is refused by the bare layer; the easy layer fills it.
     */
    uint8_t secret[32];
} clw_config;

/**
 * Options of one connection.
 */
typedef struct clw_options {
    /**
     * 1: small segments do not wait for acknowledgements.
     */
    uint8_t nodelay;
    /**
     * 1: only full segments leave until this is taken back.
     */
    uint8_t cork;
    /**
     * One of `CLW_CONGESTION_…`.
     */
    uint8_t congestion;
    /**
     * IPv4 TOS or IPv6 traffic class.
     */
    uint8_t tos;
    /**
     * IPv4 TTL or IPv6 hop limit, not 0.
     */
    uint8_t ttl;
    /**
     * Probes without answer before the connection fails.
     */
    uint8_t keepalive_count;
    /**
     * Upper bound of the segment size in payload bytes; 0: the link decides.
     */
    uint16_t max_segment;
    /**
     * Milliseconds of silence before the first probe; 0: none.
     */
    uint32_t keepalive_idle_ms;
    /**
     * Milliseconds between probes.
     */
    uint32_t keepalive_interval_ms;
    /**
     * Explicit congestion notification, by the numbers of Linux's tcp_ecn: 0 none, 1 asked for and
     * accepted, 2 accepted (the default), 3 AccECN asked for and accepted, 4 AccECN accepted and
     * ECN asked for, 5 AccECN accepted.
     */
    uint32_t ecn;
    /**
     * Give up when data stays unacknowledged for so many milliseconds; 0: the count of
     * retransmissions decides.
     */
    uint32_t user_timeout_ms;
    /**
     * Bytes in a second that leave at most; 0: as fast as windows and congestion control let them.
     */
    uint64_t max_pacing_rate;
} clw_options;

/**
 * Numbers that only grow.
 */
typedef struct clw_counters {
    /**
     * Packets handed in.
     */
    uint64_t packets_in;
    /**
     * Their bytes.
     */
    uint64_t bytes_in;
    /**
     * Packets handed to the sink.
     */
    uint64_t packets_out;
    /**
     * Their bytes.
     */
    uint64_t bytes_out;
    /**
     * Packets that a protocol took.
     */
    uint64_t delivered;
    /**
     * Packets dropped; `clw_drop_reason` says why.
     */
    uint64_t dropped;
    /**
     * Packets that were to be copied and found no buffer (`copy_buffers`, `copy_buffer_len`). They
     * never reached the stack.
     */
    uint64_t not_copied;
    /**
     * TCP segments sent again.
     */
    uint64_t retransmitted;
} clw_counters;

/**
 * An IPv4 or IPv6 address. IPv4 stands in its mapped form, `::ffff:a.b.c.d`; all zero is `::`.
 */
typedef struct clw_addr {
    /**
     * In the order in which they are sent.
     */
    uint8_t bytes[16];
} clw_addr;

/**
 * An address and a port.
 */
typedef struct clw_endpoint {
    /**
     * The address.
     */
    struct clw_addr addr;
    /**
     * The port, in the byte order of the machine.
     */
    uint16_t port;
} clw_endpoint;

/**
 * The program's functions for a listener and what it accepts, for a connection, or for a UDP
 * socket. Any of them may be NULL. All of them may use the host they are given, but for
 * `clw_host_step`, `clw_host_run`, `clw_host_free` and `clw_host_add_port`.
 */
typedef struct clw_handlers {
    /**
     * Somebody has connected; `conn` names the connection from now on, with the functions and the
     * `ctx` of its listener.
     */
    void (*accepted)(clw_host *host, uint64_t conn, void *ctx);
    /**
     * The connection that the program began is there.
     */
    void (*connected)(clw_host *host, uint64_t conn, void *ctx);
    /**
     * Bytes are there to be read, or the end of them (`CLW_END`); for a UDP socket, datagrams. It
     * is called again while it reads a part of the bytes.
     */
    void (*readable)(clw_host *host, uint64_t handle, void *ctx);
    /**
     * There is room again after a send was cut short.
     */
    void (*writable)(clw_host *host, uint64_t handle, void *ctx);
    /**
     * The connection has ended, and the program did not end it: `CLW_OK` when both sides were done
     * and, where there is a `readable`, all bytes were read; until then it waits. It is called
     * once. Bytes that were not read can be read in it; afterwards they are lost and the handle is
     * dead.
     */
    void (*closed)(clw_host *host, uint64_t conn, enum clw_status why, void *ctx);
    /**
     * Handed to all of them.
     */
    void *ctx;
} clw_handlers;

/**
 * Inner values of a connection.
 */
typedef struct clw_conn_info {
    /**
     * Its state.
     */
    enum clw_state state;
    /**
     * Why it failed; `CLW_OK` when it did not.
     */
    enum clw_status failure;
    /**
     * Our side.
     */
    struct clw_endpoint local;
    /**
     * The peer's side.
     */
    struct clw_endpoint remote;
    /**
     * 1 when the peer has finished.
     */
    uint8_t peer_closed;
    /**
     * Bytes that wait to be read.
     */
    uint32_t unread;
    /**
     * Bytes written and not acknowledged.
     */
    uint32_t queued;
    /**
     * Bytes written and not sent.
     */
    uint32_t unsent;
    /**
     * Bytes that a send would take now.
     */
    uint32_t send_room;
    /**
     * Smoothed round-trip time in microseconds; 0 before the first sample.
     */
    uint64_t rtt_us;
    /**
     * Retransmission timeout in microseconds.
     */
    uint64_t rto_us;
    /**
     * Congestion window in bytes.
     */
    uint32_t cwnd;
    /**
     * Slow start threshold in bytes.
     */
    uint32_t ssthresh;
    /**
     * The peer's window in bytes.
     */
    uint32_t send_window;
    /**
     * Our window in bytes.
     */
    uint32_t receive_window;
    /**
     * Payload bytes of a full segment.
     */
    uint32_t segment_size;
    /**
     * Segments sent again.
     */
    uint32_t retransmitted;
    /**
     * Bytes that the peer has acknowledged.
     */
    uint64_t bytes_acked;
    /**
     * Bytes received in order.
     */
    uint64_t bytes_received;
} clw_conn_info;

/**
 * An interface to be added.
 */
typedef struct clw_interface {
    /**
     * One of `CLW_LINK_…`.
     */
    uint32_t link;
    /**
     * The longest IP packet in bytes: 576 to 65535, and at least 1280 for IPv6.
     */
    uint32_t mtu;
    /**
     * What the device does so that the stack need not: bits `CLW_OFFLOAD_…`.
     */
    uint32_t offloads;
    /**
     * The longest frame with all headers that the device cuts; 0 when it cuts none.
     */
    uint32_t max_segmented_frame;
    /**
     * The Ethernet address; not looked at without Ethernet.
     */
    uint8_t mac[6];
} clw_interface;

/**
 * A received packet in memory of the caller's.
 *
 * With `release` the stack takes the memory over, reads it where it lies, may write to it, and
 * calls `release(owner)` exactly once when it needs it no more: at once, or when the bytes were
 * read, or when the stack is freed. Without `release` the bytes are copied before `clw_ingest`
 * returns.
 */
typedef struct clw_packet {
    /**
     * The first byte: of the Ethernet header, or of the IP header on links without one.
     */
    uint8_t *data;
    /**
     * How many bytes the packet has.
     */
    uint32_t len;
    /**
     * How many bytes of memory it holds on to, for honest receive windows; less than `len` counts
     * as `len`.
     */
    uint32_t footprint;
    /**
     * Gives the memory back; NULL: copy.
     */
    void (*release)(void *owner);
    /**
     * What `release` is called with.
     */
    void *owner;
    /**
     * The interface that it arrived on.
     */
    uint16_t iface;
    /**
     * The size of the segments when the device joined several into this packet; 0 otherwise.
     */
    uint16_t segment_size;
    /**
     * One of `CLW_CHECKSUM_…`.
     */
    uint8_t checksum;
    /**
     * The device's hash over the flow; 0 when there is none.
     */
    uint32_t rss_hash;
} clw_packet;

/**
 * What goes with a packet to be sent, for devices that do some of the work. All zero for those
 * that do not.
 */
typedef struct clw_tx_meta {
    /**
     * When not 0: the device makes the transport checksum, summing from this offset of the frame.
     * The field holds the pseudo-header's sum.
     */
    uint16_t checksum_start;
    /**
     * Where the sum goes, counted from `checksum_start`.
     */
    uint16_t checksum_offset;
    /**
     * When not 0: the device cuts the TCP payload into segments of so many bytes.
     */
    uint16_t tcp_segment_size;
    /**
     * When not 0: the device cuts the UDP payload into datagrams of so many bytes.
     */
    uint16_t udp_segment_size;
    /**
     * Length of all headers in bytes, for a device that cuts.
     */
    uint16_t header_len;
    /**
     * The flow's hash, for a device that chooses a queue by it; 0 when there is none.
     */
    uint32_t flow_hash;
} clw_tx_meta;

/**
 * Where the stack puts packets that it sends. It asks for room before it changes any state; room
 * that is not committed is as if it had never been asked for.
 */
typedef struct clw_sink {
    /**
     * Handed to both functions.
     */
    void *ctx;
    /**
     * Room for a frame of at least `len` bytes on `iface`, whatever the bytes hold; NULL while no
     * more is taken. It stays good until the next call of either function.
     */
    uint8_t *(*reserve)(void *ctx, uint16_t iface, uint32_t len);
    /**
     * Sends the first `len` bytes of the room that was given last.
     */
    void (*commit)(void *ctx, uint16_t iface, uint32_t len, const struct clw_tx_meta *meta);
} clw_sink;

/**
 * Something for the program to look at. Events are marks: however often a thing happens before the
 * program looks, it is told once.
 */
typedef struct clw_event {
    /**
     * One of `CLW_EVENT_…`.
     */
    uint32_t kind;
    /**
     * What happened, as bits; 0 for `CLW_EVENT_INCOMING`.
     */
    uint32_t what;
    /**
     * The listener, connection or socket.
     */
    uint64_t handle;
    /**
     * The word that the program gave with it.
     */
    uint64_t token;
} clw_event;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Only without the easy layer, where the program defines it: memory of `size` bytes at a
 * multiple of `align`; NULL when there is none.
 */
extern void *clw_need_memory(size_t size, size_t align);

/**
 * Only without the easy layer, where the program defines it: takes back what `clw_need_memory`
 * gave.
 */
extern void clw_give_memory(void *memory, size_t size, size_t align);

/**
 * Only without the easy layer, where the program defines it: the stack has found a mistake in
 * itself, or no memory; `text` has `len` bytes. Does not return.
 */
extern void clw_panic(const uint8_t *text, size_t len);

/**
 * Fills a configuration with the defaults, the secret with zeros. Set what you want otherwise,
 * then make the stack.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_config_init(struct clw_config *config);

/**
 * Fills options with the defaults.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_options_init(struct clw_options *options);

/**
 * Everything that was counted.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_counters_get(clw_stack *stack, struct clw_counters *counters);

/**
 * One reason to drop a packet, counted from 0: its name, which does not end with a zero byte, and
 * how often it happened. `CLW_END` behind the last.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_drop_reason(clw_stack *stack, uint32_t index, const char **name, size_t *name_len, uint64_t *count);

/**
 * Makes a host without ports. NULL `config`: the defaults. A secret of all zero is filled from the
 * system's random source. `copy_buffers` and `copy_buffer_len` mean nothing here. `clw_host_free`
 * ends it.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_host_new(const struct clw_config *config, clw_host **host);

/**
 * Ends a host: the `closed` callbacks of all connections are called with `CLW_STOPPED`, goodbyes
 * are sent, ports are closed. NULL will do.
 *
 * # Safety
 * Pointers as the rules at the top say; the host is not used any more, by no thread.
 */
enum clw_status clw_host_free(clw_host *host);

/**
 * What went wrong last with a port, as a sentence that ends with a zero byte; it stays until the
 * next call that fails with `CLW_DEVICE`.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
const char *clw_host_error(const clw_host *host);

/**
 * Opens a port and makes it an interface, whose number goes to `iface`. Ports: `tap:NAME`,
 * `tun:NAME`, `loop`, `pcap:FILE` (docs/ports.md).
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_host_add_port(clw_host *host, const char *port, uint16_t *iface);

/**
 * Gives an interface an address with its prefix length, such as `10.0.0.2/24`.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_host_add_address(clw_host *host, uint16_t iface, const char *cidr);

/**
 * Adds a route to a prefix, such as `0.0.0.0/0`, over a gateway.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_host_add_route(clw_host *host, const char *cidr, const char *gateway);

/**
 * One round: packets in, timers, callbacks, packets out, and a sleep of at most `wait_ms`
 * milliseconds when there was nothing to do. `CLW_STOPPED` after `clw_host_stop`: every connection
 * has heard `closed`, whatever would begin something answers `CLW_STOPPED`, and only
 * `clw_host_free` is left to do.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_host_step(clw_host *host, uint32_t wait_ms);

/**
 * Runs until `clw_host_stop` is called, and then answers `CLW_OK`. Every connection has heard
 * `closed` then, and only `clw_host_free` is left to do.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_host_run(clw_host *host);

/**
 * Makes `clw_host_run` and `clw_host_step` come back, for good. May be called out of a callback,
 * by any thread, and by a signal handler.
 *
 * # Safety
 * Pointers as the rules at the top say; the host is not being freed.
 */
enum clw_status clw_host_stop(const clw_host *host);

/**
 * Everything that was counted.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_host_counters_get(clw_host *host, struct clw_counters *counters);

/**
 * Listens. What it accepts gets the same functions and the same `ctx`; `clw_host_set_ctx` changes
 * that. NULL `options` are the defaults.
 *
 * # Safety
 * Pointers as the rules at the top say; so the functions in `handlers`.
 */
enum clw_status clw_host_listen(clw_host *host,
                                const struct clw_endpoint *local,
                                uint32_t backlog,
                                const struct clw_options *options,
                                const struct clw_handlers *handlers,
                                uint64_t *listener);

/**
 * Stops listening. Connections that were accepted stay.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_host_unlisten(clw_host *host, uint64_t listener);

/**
 * Begins a connection; `connected` or `closed` tells how it went, always. `CLW_STOPPED` when the
 * host was stopped. NULL `options` are the defaults.
 *
 * # Safety
 * Pointers as the rules at the top say; so the functions in `handlers`.
 */
enum clw_status clw_host_connect(clw_host *host,
                                 const struct clw_endpoint *local,
                                 const struct clw_endpoint *remote,
                                 const struct clw_options *options,
                                 const struct clw_handlers *handlers,
                                 uint64_t *conn);

/**
 * Gives a connection a `ctx` of its own for its functions.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_host_set_ctx(clw_host *host, uint64_t conn, void *ctx);

/**
 * As `clw_send`; `writable` is called when there is room again.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_host_send(clw_host *host, uint64_t conn, const uint8_t *data, size_t len, size_t *sent);

/**
 * As `clw_send_more`.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_host_send_more(clw_host *host, uint64_t conn, const uint8_t *data, size_t len, size_t *sent);

/**
 * As `clw_recv`.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_host_recv(clw_host *host, uint64_t conn, uint8_t *out, size_t capacity, size_t *len);

/**
 * As `clw_peek`.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_host_peek(clw_host *host, uint64_t conn, const uint8_t **data, size_t *len);

/**
 * As `clw_consumed`.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_host_consumed(clw_host *host, uint64_t conn, size_t len);

/**
 * As `clw_shutdown`.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_host_shutdown(clw_host *host, uint64_t conn);

/**
 * Lets go; the handle is dead, and `closed` is not called. What was written still goes out.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_host_close(clw_host *host, uint64_t conn);

/**
 * Resets the connection; the handle is dead, and `closed` is not called.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_host_abort(clw_host *host, uint64_t conn);

/**
 * As `clw_set_options`.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_host_set_options(clw_host *host, uint64_t conn, const struct clw_options *options);

/**
 * As `clw_conn_info_get`.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_host_conn_info_get(clw_host *host, uint64_t conn, struct clw_conn_info *info);

/**
 * Makes a UDP socket; of its functions `readable` and `writable` are called.
 *
 * # Safety
 * Pointers as the rules at the top say; so the functions in `handlers`.
 */
enum clw_status clw_host_udp_bind(clw_host *host,
                                  const struct clw_endpoint *local,
                                  const struct clw_handlers *handlers,
                                  uint64_t *socket);

/**
 * As `clw_udp_send`; `to` must be there.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_host_udp_send(clw_host *host,
                                  uint64_t socket,
                                  const struct clw_endpoint *to,
                                  const uint8_t *data,
                                  size_t len);

/**
 * As `clw_udp_recv`.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_host_udp_recv(clw_host *host,
                                  uint64_t socket,
                                  uint8_t *out,
                                  size_t capacity,
                                  size_t *len,
                                  struct clw_endpoint *from);

/**
 * As `clw_udp_close`.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_host_udp_close(clw_host *host, uint64_t socket);

/**
 * Adds an interface and tells its number; it is up. An Ethernet interface gets an IPv6 link-local
 * address when its MTU allows IPv6.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_add_interface(clw_stack *stack, const struct clw_interface *interface, uint16_t *iface);

/**
 * Sets an interface up (1) or down (0). While it is down nothing goes in or out.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_set_up(clw_stack *stack, uint16_t iface, uint8_t up);

/**
 * Gives an interface an address; the subnet is reached over it from now on.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_add_address(clw_stack *stack,
                                uint64_t now_ns,
                                uint16_t iface,
                                struct clw_addr addr,
                                uint8_t prefix_len);

/**
 * Takes an address away.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_remove_address(clw_stack *stack, uint16_t iface, struct clw_addr addr);

/**
 * Adds a route to a prefix. With a gateway it leads there, over `iface` if that is not negative
 * (needed for link-local gateways); with a NULL gateway the prefix is on the link of `iface`.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_add_route(clw_stack *stack,
                              struct clw_addr dst,
                              uint8_t prefix_len,
                              const struct clw_addr *gateway,
                              int32_t iface);

/**
 * Takes a route away.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_remove_route(clw_stack *stack, struct clw_addr dst, uint8_t prefix_len);

/**
 * Sets a neighbour's Ethernet address for good: it is never asked for and never changes by itself.
 * `mac` leads to 6 bytes.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_add_neighbour(clw_stack *stack,
                                  uint64_t now_ns,
                                  uint16_t iface,
                                  struct clw_addr addr,
                                  const uint8_t *mac);

/**
 * Makes a stack; all its memory is taken now. `clw_stack_free` ends it.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_stack_new(const struct clw_config *config, clw_stack **stack);

/**
 * Ends a stack: nothing more is sent, and every packet that it holds is released. NULL will do.
 *
 * # Safety
 * Pointers as the rules at the top say; the stack is not used any more.
 */
enum clw_status clw_stack_free(clw_stack *stack);

/**
 * Takes packets in, all of them or none: none when the answer is not `CLW_OK`. What they ask for
 * is only marked; `clw_emit` sends.
 *
 * # Safety
 * Pointers as the rules at the top say, and the packets as `clw_packet` says.
 */
enum clw_status clw_ingest(clw_stack *stack, uint64_t now_ns, const struct clw_packet *packets, size_t count);

/**
 * Looks at all timers that are due. What they ask for is only marked; `clw_emit` sends.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_expire(clw_stack *stack, uint64_t now_ns);

/**
 * Sends what is marked. `CLW_AGAIN`: something is left that could not leave, because the sink has
 * no room or others had their turn first; call again soon.
 *
 * # Safety
 * Pointers as the rules at the top say, and the functions of `sink` do what `clw_sink` says.
 */
enum clw_status clw_emit(clw_stack *stack, uint64_t now_ns, const struct clw_sink *sink);

/**
 * When `clw_expire` must be called next, on the clock of `now_ns`; UINT64_MAX when no timer runs.
 * May be early, never late.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_next_deadline(clw_stack *stack, uint64_t *deadline_ns);

/**
 * Whether `clw_emit` has something to send: `CLW_OK` when it has, `CLW_AGAIN` when not.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_wants_emit(clw_stack *stack);

/**
 * The next thing for the program to look at; `CLW_AGAIN` when there is none.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_next_event(clw_stack *stack, struct clw_event *event);

/**
 * A sentence for people about a status; a constant text that ends with a zero byte, for any
 * number.
 */
const char *clw_status_text(uint32_t status);

/**
 * Listens at an address of ours, or at all of a family: `::` stands for IPv4 too. Port 0 asks for
 * any free one. `backlog` bounds handshakes in progress, and again finished ones that were not
 * accepted. `token` comes with its events; NULL `options` are the defaults.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_listen(clw_stack *stack,
                           const struct clw_endpoint *local,
                           uint32_t backlog,
                           uint64_t token,
                           const struct clw_options *options,
                           uint64_t *listener);

/**
 * Where a listener listens: the port that was chosen, say.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_listener_local(clw_stack *stack, uint64_t listener, struct clw_endpoint *local);

/**
 * Stops listening. Connections that were not accepted are reset.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_unlisten(clw_stack *stack, uint64_t listener);

/**
 * Takes the oldest finished handshake; `CLW_AGAIN` when there is none. `token` comes with its
 * events.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_accept(clw_stack *stack, uint64_t listener, uint64_t token, uint64_t *conn);

/**
 * Begins a connection; `CLW_CONN_CONNECTED` or `CLW_CONN_FAILED` tells how it went. NULL `local`,
 * an address of all zero and port 0 leave the choice to the stack. Bytes may be sent into it
 * before.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_connect(clw_stack *stack,
                            uint64_t now_ns,
                            const struct clw_endpoint *local,
                            const struct clw_endpoint *remote,
                            uint64_t token,
                            const struct clw_options *options,
                            uint64_t *conn);

/**
 * Gives a connection another word that comes with its events.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_set_token(clw_stack *stack, uint64_t conn, uint64_t token);

/**
 * Changes a connection's options; they hold from the next segment on.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_set_options(clw_stack *stack, uint64_t conn, const struct clw_options *options);

/**
 * Writes bytes to be sent; they are copied. `sent` tells how many were taken; fewer than all:
 * `CLW_CONN_WRITABLE` will tell when there is room again. `CLW_AGAIN`: none was.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_send(clw_stack *stack, uint64_t conn, const uint8_t *data, size_t len, size_t *sent);

/**
 * As `clw_send`, and more follows soon: what does not fill a segment waits for it, for 200 ms at
 * most (`MSG_MORE`).
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_send_more(clw_stack *stack, uint64_t conn, const uint8_t *data, size_t len, size_t *sent);

/**
 * Reads bytes into the caller's memory. `CLW_AGAIN`: nothing is there now. `CLW_END`: nothing will
 * come any more.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_recv(clw_stack *stack, uint64_t conn, uint8_t *out, size_t capacity, size_t *len);

/**
 * Shows the oldest unread bytes that lie together, in the packet that brought them: nothing is
 * copied. They stay until `clw_consumed`, and can be read until the stack is used again. Otherwise
 * as `clw_recv`.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_peek(clw_stack *stack, uint64_t conn, const uint8_t **data, size_t *len);

/**
 * The program is done with the oldest `len` unread bytes; `CLW_RANGE` when there are not so many.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_consumed(clw_stack *stack, uint64_t conn, size_t len);

/**
 * Ends our side behind all bytes written so far; the peer may go on sending.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_shutdown(clw_stack *stack, uint64_t conn);

/**
 * Lets go; the handle is dead. What was written still goes out, then our FIN. A peer that sends
 * more is answered with a reset.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_close(clw_stack *stack, uint64_t conn);

/**
 * Resets the connection; the handle is dead.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_abort(clw_stack *stack, uint64_t conn);

/**
 * Why a connection failed; `CLW_OK` when it did not.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_failure(clw_stack *stack, uint64_t conn);

/**
 * A connection's inner values.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_conn_info_get(clw_stack *stack, uint64_t conn, struct clw_conn_info *info);

/**
 * The IPv4 address `a.b.c.d`.
 */
struct clw_addr clw_ipv4(uint8_t a, uint8_t b, uint8_t c, uint8_t d);

/**
 * Reads an address, such as `10.0.0.2` or `2001:db8::2`, from a text that ends with a zero byte.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_addr_parse(const char *from, struct clw_addr *addr);

/**
 * Reads an address and a port, such as `10.0.0.2:80` or `[2001:db8::2]:80`, from a text that ends
 * with a zero byte.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_endpoint_parse(const char *from, struct clw_endpoint *endpoint);

/**
 * Writes an address as text with a zero byte at its end; `CLW_ADDR_TEXT` bytes are always enough.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_addr_format(const struct clw_addr *addr, char *out, size_t capacity);

/**
 * Makes a socket at an address of ours, or at all of a family: `::` takes IPv4 too. Port 0 asks
 * for any free one. `token` comes with its events.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_udp_bind(clw_stack *stack, const struct clw_endpoint *local, uint64_t token, uint64_t *socket);

/**
 * Gives a socket one peer: it sends there, and hears nobody else.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_udp_connect(clw_stack *stack, uint64_t socket, const struct clw_endpoint *remote);

/**
 * Our side of a socket.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_udp_local(clw_stack *stack, uint64_t socket, struct clw_endpoint *local);

/**
 * Queues a datagram, which the next `clw_emit` sends. NULL `to`: the connected peer. `CLW_AGAIN`:
 * the queue is full; `CLW_UDP_WRITABLE` will tell.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_udp_send(clw_stack *stack,
                             uint64_t socket,
                             const struct clw_endpoint *to,
                             const uint8_t *data,
                             size_t len);

/**
 * Takes the oldest datagram; `CLW_AGAIN` when there is none. `len` tells its true length: when
 * that is more than `capacity`, the rest is lost, and the answer is `CLW_TOO_LONG`. NULL `from`
 * will do.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_udp_recv(clw_stack *stack,
                             uint64_t socket,
                             uint8_t *out,
                             size_t capacity,
                             size_t *len,
                             struct clw_endpoint *from);

/**
 * Takes the last ICMP error that came back to a connected socket: `CLW_UNREACHABLE`, or `CLW_OK`
 * when there is none.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_udp_error(clw_stack *stack, uint64_t socket);

/**
 * Closes a socket. Datagrams that wait are dropped, both ways.
 *
 * # Safety
 * Pointers as the rules at the top say.
 */
enum clw_status clw_udp_close(clw_stack *stack, uint64_t socket);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CLEARWAY_H */
