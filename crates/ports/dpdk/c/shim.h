/* What Rust sees of DPDK: plain structs, filled and read by the burst. No layout of DPDK's own is known on the other side. */

#ifndef CLEARWAY_SHIM_H
#define CLEARWAY_SHIM_H

#include <stdint.h>

#define CW_BURST 64

/* What a port can do, or is asked to do. */
enum {
	CW_TX_CHECKSUM = 1 << 0,
	CW_TX_TSO = 1 << 1,
	CW_TX_USO = 1 << 2,
	CW_TX_CHAINS = 1 << 3,
	CW_RX_CHECKSUM = 1 << 4,
	CW_RX_LRO = 1 << 5,
	CW_RX_CHAINS = 1 << 6,
	CW_RSS = 1 << 7,
	CW_RX_INTERRUPT = 1 << 8,
};

/* What a driver says of its port. */
struct cw_info {
	char driver[64];
	uint8_t mac[6];
	uint16_t max_rx_queues;
	uint16_t max_tx_queues;
	uint16_t min_mtu;
	uint16_t max_mtu;
	uint16_t reta_size;
	int32_t socket;
	uint32_t can;
};

/* How a port shall be set up. */
struct cw_config {
	uint16_t queues;
	uint16_t mtu;
	uint32_t want;
	uint32_t data_room;
	uint32_t buffers;
	uint8_t promiscuous;
	/* Nobody may listen yet where the device connects to; it is started again until somebody does. */
	uint8_t may_wait;
};

/* What became of it. */
struct cw_ready {
	uint16_t rx_queues;
	uint16_t tx_queues;
	uint16_t rx_ring;
	uint16_t tx_ring;
	uint16_t mtu;
	uint32_t got;
	uint8_t started;
	/* The call that failed, when one did. */
	const char *failed;
};

/* One received frame. */
struct cw_in {
	void *mbuf;
	uint8_t *data;
	/* Bytes of all pieces, and from bit 32 those of the first. */
	uint64_t lens;
	/* The hash; from bit 32 the size of the segments that were joined; from bit 48 what is known of the checksum: 0 nothing, 1 good, 2 bad. */
	uint64_t seen;
};

/* Room for one frame. */
struct cw_room {
	void *mbuf;
	uint8_t *data;
	uint32_t len;
};

/* One frame to be sent. Lengths of headers are only looked at when something is asked of the device. */
struct cw_out {
	void *mbuf;
	uint32_t len;
	uint16_t segment_size;
	uint8_t l2_len;
	uint8_t l3_len;
	uint8_t l4_len;
	uint8_t flags;
};

enum {
	CW_OUT_IPV4 = 1 << 0,
	CW_OUT_UDP = 1 << 1,
	CW_OUT_CHECKSUM = 1 << 2,
	CW_OUT_CUT = 1 << 3,
	/* The mbuf is a chain that is complete already; its length stands. */
	CW_OUT_CHAIN = 1 << 4,
};

/* What is gone of a device. */
enum {
	CW_DEVICE_GONE = 1,
	CW_INTERFACE_GONE = 2,
};

/* The port's own counters. */
struct cw_stats {
	uint64_t missed;
	uint64_t rx_errors;
	uint64_t rx_no_buffer;
	uint64_t tx_errors;
};

struct cw_xstat {
	char name[64];
	uint64_t value;
};

int cw_start(int argc, char **argv);
uint32_t cw_log_take(char *to, uint32_t room);
const char *cw_version(void);

int cw_probe(const char *devargs, const char *name, uint16_t *port);
int cw_info(uint16_t port, struct cw_info *info);
/* The socket at which the device meets peers that share memory with it; said before it is opened. */
void cw_peers_at(uint16_t port, const char *socket);
uint32_t cw_peers_cut_off(uint16_t port);
int cw_open(uint16_t port, const struct cw_config *config, void **pools, struct cw_ready *ready);
void cw_close(uint16_t port, void **pools, uint16_t count);
int cw_restart(uint16_t port, int ran);
int cw_set_mtu(uint16_t port, uint16_t mtu);
int cw_set_mac(uint16_t port, const uint8_t *mac);
int cw_set_rss(uint16_t port, uint16_t reta_size, uint16_t queues);
int cw_link(uint16_t port);
/* 0: the device is there. */
int cw_is_gone(uint16_t port);
int cw_stats(uint16_t port, struct cw_stats *stats);
int cw_xstats(uint16_t port, struct cw_xstat *out, uint32_t room);

int cw_wait_fd(uint16_t port, uint16_t queue);
int cw_interrupt(uint16_t port, uint16_t queue, int on);

int cw_thread_enter(void);
void cw_thread_leave(void);

uint32_t cw_rx(uint16_t port, uint16_t queue, struct cw_in *in, uint32_t room);
uint32_t cw_gather(const void *chain, uint8_t *to, uint32_t room);
void cw_release(const struct cw_in *in, uint32_t count);
void cw_drop(void *mbuf);
uint32_t cw_rooms(void *pool, struct cw_room *rooms, uint32_t count);
void *cw_chain(void *pool, const uint8_t *from, uint32_t len);
uint32_t cw_tx(uint16_t port, uint16_t queue, const struct cw_out *out, uint32_t count, uint32_t *bad);
void cw_memory(uint64_t *bytes, uint64_t *free);
uint32_t cw_buffers(const void *pool);
uint32_t cw_free_buffers(const void *pool);

void *cw_box_make(const char *name, uint32_t slots, int socket);
void cw_box_free(void *box);
uint32_t cw_box_put(void *box, const struct cw_in *in, uint32_t count);
uint32_t cw_box_take(void *box, struct cw_in *in, uint32_t room);

#endif
