/* See shim.h. Every function is called by one thread at a time for one queue; cw_start, cw_probe, cw_open and cw_close under a lock of the caller's. */

#define _GNU_SOURCE
#include "gate.h"
#include "peers.h"
#include "shim.h"

#include <errno.h>
#include <net/if.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <rte_alarm.h>
#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_version.h>

/* The last lines that DPDK wrote, for the text of an error. */
static struct {
	pthread_mutex_t lock;
	char text[4096];
	size_t len;
} lines = { .lock = PTHREAD_MUTEX_INITIALIZER };

static ssize_t keep_line(void *cookie, const char *text, size_t len)
{
	size_t room = sizeof(lines.text);
	const char *tail = len > room ? text + (len - room) : text;
	size_t tail_len = len > room ? room : len;

	pthread_mutex_lock(&lines.lock);
	if (lines.len + tail_len > room) {
		size_t gone = lines.len + tail_len - room;
		memmove(lines.text, lines.text + gone, lines.len - gone);
		lines.len -= gone;
	}
	memcpy(lines.text + lines.len, tail, tail_len);
	lines.len += tail_len;
	pthread_mutex_unlock(&lines.lock);
	return (ssize_t)len;
}

uint32_t cw_log_take(char *to, uint32_t room)
{
	size_t len;

	pthread_mutex_lock(&lines.lock);
	len = lines.len < room ? lines.len : room;
	memcpy(to, lines.text + (lines.len - len), len);
	lines.len = 0;
	pthread_mutex_unlock(&lines.lock);
	return (uint32_t)len;
}

const char *cw_version(void)
{
	return rte_version();
}

int cw_start(int argc, char **argv)
{
	cookie_io_functions_t keep = { .write = keep_line };
	FILE *log = fopencookie(NULL, "w", keep);

	if (log != NULL) {
		setvbuf(log, NULL, _IONBF, 0);
		rte_openlog_stream(log);
	}
	if (rte_eal_init(argc, argv) < 0)
		return -rte_errno;
	return peers_start();
}

static int port_of(const char *name, uint16_t *port)
{
	uint16_t id;

	RTE_ETH_FOREACH_DEV(id) {
		struct rte_eth_dev_info info;
		if (rte_eth_dev_info_get(id, &info) == 0 && info.device != NULL && strcmp(rte_dev_name(info.device), name) == 0) {
			*port = id;
			return 0;
		}
	}
	return -ENODEV;
}

int cw_probe(const char *devargs, const char *name, uint16_t *port)
{
	int error;

	if (port_of(name, port) == 0)
		return -EBUSY;
	error = rte_dev_probe(devargs);
	if (error < 0)
		return error;
	return port_of(name, port);
}

#define TX_SUMS (RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM)
#define RX_SUMS (RTE_ETH_RX_OFFLOAD_TCP_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM)
#define RSS_FIELDS (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP)

static uint32_t abilities(const struct rte_eth_dev_info *info)
{
	uint64_t tx = info->tx_offload_capa, rx = info->rx_offload_capa;
	uint32_t can = 0;

	if ((tx & TX_SUMS) == TX_SUMS)
		can |= CW_TX_CHECKSUM;
	if (tx & RTE_ETH_TX_OFFLOAD_MULTI_SEGS)
		can |= CW_TX_CHAINS;
	/* A large packet is a chain here, so a driver that cuts must take chains, and the checksums of the pieces are its work too. */
	if ((tx & RTE_ETH_TX_OFFLOAD_TCP_TSO) && (can & CW_TX_CHAINS) && (can & CW_TX_CHECKSUM))
		can |= CW_TX_TSO;
	if ((tx & RTE_ETH_TX_OFFLOAD_UDP_TSO) && (can & CW_TX_CHAINS) && (can & CW_TX_CHECKSUM))
		can |= CW_TX_USO;
	if ((rx & RX_SUMS) == RX_SUMS)
		can |= CW_RX_CHECKSUM;
	if (rx & RTE_ETH_RX_OFFLOAD_TCP_LRO)
		can |= CW_RX_LRO;
	if (rx & RTE_ETH_RX_OFFLOAD_SCATTER)
		can |= CW_RX_CHAINS;
	if ((info->flow_type_rss_offloads & RSS_FIELDS) && info->reta_size > 0)
		can |= CW_RSS;
	return can;
}

int cw_info(uint16_t port, struct cw_info *to)
{
	struct rte_eth_dev_info info;
	struct rte_ether_addr mac;
	int error = rte_eth_dev_info_get(port, &info);

	if (error < 0)
		return error;
	memset(to, 0, sizeof(*to));
	snprintf(to->driver, sizeof(to->driver), "%s", info.driver_name ? info.driver_name : "");
	if (rte_eth_macaddr_get(port, &mac) == 0)
		memcpy(to->mac, mac.addr_bytes, sizeof(to->mac));
	to->max_rx_queues = info.max_rx_queues;
	to->max_tx_queues = info.max_tx_queues;
	to->min_mtu = info.min_mtu;
	to->max_mtu = info.max_mtu;
	to->reta_size = info.reta_size;
	to->socket = rte_eth_dev_socket_id(port);
	to->can = abilities(&info);
	return 0;
}

/* The same flow in both directions falls to the same queue: the key repeats every 16 bits, so swapping source and destination changes nothing. */
static uint8_t rss_key[64];

static int configure(uint16_t port, const struct cw_config *config, const struct rte_eth_dev_info *info, struct rte_eth_conf *conf,
		     struct cw_ready *ready)
{
	uint64_t tx = 0, rx = 0;
	uint32_t got = config->want & abilities(info);
	int error;

	memset(conf, 0, sizeof(*conf));
	if (got & CW_TX_CHECKSUM)
		tx |= TX_SUMS | (info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM);
	if (got & CW_TX_CHAINS)
		tx |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	if (got & CW_TX_TSO)
		tx |= RTE_ETH_TX_OFFLOAD_TCP_TSO;
	if (got & CW_TX_USO)
		tx |= RTE_ETH_TX_OFFLOAD_UDP_TSO;
	if (got & CW_RX_CHECKSUM)
		rx |= RX_SUMS | (info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_IPV4_CKSUM);
	if (got & CW_RX_CHAINS)
		rx |= RTE_ETH_RX_OFFLOAD_SCATTER;
	if (got & CW_RX_LRO) {
		rx |= RTE_ETH_RX_OFFLOAD_TCP_LRO;
		conf->rxmode.max_lro_pkt_size = info->max_lro_pkt_size;
	}
	conf->rxmode.offloads = rx;
	conf->txmode.offloads = tx;
	conf->rxmode.mtu = config->mtu;
	if ((got & CW_RSS) && config->queues > 1) {
		memset(rss_key, 0, sizeof(rss_key));
		for (size_t i = 0; i < sizeof(rss_key); i++)
			rss_key[i] = i % 2 ? 0x5a : 0x6d;
		conf->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf->rx_adv_conf.rss_conf.rss_hf = info->flow_type_rss_offloads & RSS_FIELDS;
		if (info->hash_key_size > 0 && info->hash_key_size <= sizeof(rss_key)) {
			conf->rx_adv_conf.rss_conf.rss_key = rss_key;
			conf->rx_adv_conf.rss_conf.rss_key_len = info->hash_key_size;
		}
		if (info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_RSS_HASH)
			conf->rxmode.offloads |= RTE_ETH_RX_OFFLOAD_RSS_HASH;
	} else {
		got &= ~CW_RSS;
	}
	if (config->want & CW_RX_INTERRUPT)
		conf->intr_conf.rxq = 1;
	error = rte_eth_dev_configure(port, ready->rx_queues, ready->tx_queues, conf);
	if (error < 0 && conf->intr_conf.rxq) {
		/* A driver without interrupts may refuse to hear of them. */
		conf->intr_conf.rxq = 0;
		error = rte_eth_dev_configure(port, ready->rx_queues, ready->tx_queues, conf);
	}
	if (error == 0 && conf->intr_conf.rxq)
		got |= CW_RX_INTERRUPT;
	ready->got = got;
	return error;
}

/* Turning the interrupt of a queue on or off is the one thing by which a thread of ours writes to a vhost peer's rings outside of a burst, and the driver's
 * thread, which unmaps them when the peer goes, waits for bursts only. Before it unmaps anything it takes the queues their peer's number away, and then
 * tells of the link: there it waits for whoever has found the number before. */
static pthread_mutex_t arming[RTE_MAX_ETHPORTS] = { [0 ... RTE_MAX_ETHPORTS - 1] = PTHREAD_MUTEX_INITIALIZER };

static int on_link_change(uint16_t port, enum rte_eth_event_type event, void *ours, void *theirs)
{
	(void)event, (void)ours, (void)theirs;
	pthread_mutex_lock(&arming[port]);
	pthread_mutex_unlock(&arming[port]);
	return 0;
}

/* Whether the driver said that the device was taken out, and the number of the kernel's interface that it works on: drivers of such do not notice that it
 * is removed. A card whose interface is moved to another network namespace goes on. */
static struct {
	atomic_bool removed;
	unsigned int interface;
} presence[RTE_MAX_ETHPORTS];

static int on_removal(uint16_t port, enum rte_eth_event_type event, void *ours, void *theirs)
{
	(void)event, (void)ours, (void)theirs;
	atomic_store(&presence[port].removed, true);
	return 0;
}

static void on_device_event(const char *name, enum rte_dev_event_type event, void *port)
{
	(void)name;
	if (event == RTE_DEV_EVENT_REMOVE)
		atomic_store(&presence[(uintptr_t)port].removed, true);
}

static int is_on_bus(const struct rte_device *device, const char *bus)
{
	return device != NULL && strcmp(rte_bus_name(rte_dev_bus(device)), bus) == 0;
}

/* Neither of the two has to be known to the driver, or to be possible here. */
static void watch_presence(uint16_t port, const struct rte_eth_dev_info *info)
{
	atomic_store(&presence[port].removed, false);
	presence[port].interface = is_on_bus(info->device, "vdev") ? info->if_index : 0;
	(void)rte_eth_dev_callback_register(port, RTE_ETH_EVENT_INTR_RMV, on_removal, NULL);
	if (is_on_bus(info->device, "pci"))
		(void)rte_dev_event_callback_register(rte_dev_name(info->device), on_device_event, (void *)(uintptr_t)port);
}

static void unwatch_presence(uint16_t port, const struct rte_device *device)
{
	(void)rte_eth_dev_callback_unregister(port, RTE_ETH_EVENT_INTR_RMV, on_removal, NULL);
	if (is_on_bus(device, "pci"))
		(void)rte_dev_event_callback_unregister(rte_dev_name(device), on_device_event, (void *)(uintptr_t)port);
}

int cw_is_gone(uint16_t port)
{
	char name[IF_NAMESIZE];
	unsigned int interface = presence[port].interface;

	if (atomic_load(&presence[port].removed))
		return CW_DEVICE_GONE;
	if (interface != 0 && if_indextoname(interface, name) == NULL && (errno == ENXIO || errno == ENODEV))
		return CW_INTERFACE_GONE;
	return 0;
}

static int set_up_queues(uint16_t port, const struct cw_config *config, const struct rte_eth_dev_info *info, const struct rte_eth_conf *conf,
			 void **pools, struct cw_ready *ready)
{
	int socket = rte_eth_dev_socket_id(port);
	uint32_t buffers = config->buffers + ready->rx_ring + ready->tx_ring;
	int error;

	for (uint16_t queue = 0; queue < ready->rx_queues || queue < ready->tx_queues; queue++) {
		char name[RTE_MEMPOOL_NAMESIZE];
		snprintf(name, sizeof(name), "clearway-%u-%u", port, queue);
		ready->failed = "rte_pktmbuf_pool_create";
		pools[queue] = rte_pktmbuf_pool_create(name, buffers, 256, 0, RTE_PKTMBUF_HEADROOM + config->data_room, socket);
		if (pools[queue] == NULL)
			return -rte_errno;
	}
	for (uint16_t queue = 0; queue < ready->rx_queues; queue++) {
		struct rte_eth_rxconf rx = info->default_rxconf;
		rx.offloads = conf->rxmode.offloads;
		ready->failed = "rte_eth_rx_queue_setup";
		error = rte_eth_rx_queue_setup(port, queue, ready->rx_ring, socket, &rx, pools[queue]);
		if (error < 0)
			return error;
	}
	for (uint16_t queue = 0; queue < ready->tx_queues; queue++) {
		struct rte_eth_txconf tx = info->default_txconf;
		tx.offloads = conf->txmode.offloads;
		ready->failed = "rte_eth_tx_queue_setup";
		error = rte_eth_tx_queue_setup(port, queue, ready->tx_ring, socket, &tx);
		if (error < 0)
			return error;
	}
	return 0;
}

int cw_open(uint16_t port, const struct cw_config *config, void **pools, struct cw_ready *ready)
{
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf;
	int error;

	memset(ready, 0, sizeof(*ready));
	ready->failed = "rte_eth_dev_info_get";
	error = rte_eth_dev_info_get(port, &info);
	if (error < 0)
		return error;
	ready->rx_queues = RTE_MIN(config->queues, info.max_rx_queues);
	ready->tx_queues = RTE_MIN(config->queues, info.max_tx_queues);
	/* Zero takes what the driver likes best. */
	ready->rx_ring = info.default_rxportconf.ring_size ? info.default_rxportconf.ring_size : 1024;
	ready->tx_ring = info.default_txportconf.ring_size ? info.default_txportconf.ring_size : 1024;
	ready->failed = "rte_eth_dev_configure";
	error = configure(port, config, &info, &conf, ready);
	if (error < 0)
		return error;
	ready->failed = "rte_eth_dev_adjust_nb_rx_tx_desc";
	error = rte_eth_dev_adjust_nb_rx_tx_desc(port, &ready->rx_ring, &ready->tx_ring);
	if (error < 0)
		return error;
	error = set_up_queues(port, config, &info, &conf, pools, ready);
	if (error < 0)
		return error;
	ready->failed = "aligned_alloc";
	error = gates_open(port, info.driver_name, RTE_MAX(ready->rx_queues, ready->tx_queues));
	if (error < 0)
		return error;
	ready->failed = "rte_eth_dev_callback_register";
	if (info.driver_name != NULL && strcmp(info.driver_name, "net_vhost") == 0)
		error = rte_eth_dev_callback_register(port, RTE_ETH_EVENT_INTR_LSC, on_link_change, NULL);
	if (error < 0)
		return error;
	watch_presence(port, &info);
	ready->failed = "rte_eth_dev_start";
	error = rte_eth_dev_start(port);
	if (error < 0 && !config->may_wait)
		return error;
	ready->started = error == 0;
	/* A device that has neither filter takes everything, or nothing else ever comes. */
	if (config->promiscuous)
		(void)rte_eth_promiscuous_enable(port);
	else
		(void)rte_eth_allmulticast_enable(port);
	if (rte_eth_dev_get_mtu(port, &ready->mtu) < 0)
		ready->mtu = config->mtu;
	ready->failed = NULL;
	return 0;
}

static void note_passed(void *passed)
{
	sem_post(passed);
}

/* A driver whose peer has just gone tidies up in DPDK's own thread: in a handler that stays registered when it is at work while the device is
 * stopped, and in a deferred call that is not taken back. Both would use the device after it is closed. They are due within microseconds; a call
 * of ours that is due later comes after them. */
static void await_deferred(void)
{
	sem_t passed;

	sem_init(&passed, 0, 0);
	if (rte_eal_alarm_set(2000, note_passed, &passed) == 0)
		while (sem_wait(&passed) < 0 && errno == EINTR)
			;
	sem_destroy(&passed);
}

/* For a device that connects to its peer only when it is started; `ran` says that it has had one. */
int cw_restart(uint16_t port, int ran)
{
	if (ran)
		await_deferred();
	(void)rte_eth_dev_stop(port);
	if (ran)
		await_deferred();
	return rte_eth_dev_start(port);
}

void cw_close(uint16_t port, void **pools, uint16_t count)
{
	struct rte_eth_dev_info info;
	struct rte_device *device = NULL;

	if (rte_eth_dev_info_get(port, &info) == 0)
		device = (struct rte_device *)(uintptr_t)info.device;
	await_deferred();
	(void)rte_eth_dev_stop(port);
	await_deferred();
	(void)rte_eth_dev_callback_unregister(port, RTE_ETH_EVENT_INTR_LSC, on_link_change, NULL);
	unwatch_presence(port, device);
	(void)rte_eth_dev_close(port);
	gates_close(port);
	peers_close(port);
	if (device != NULL)
		(void)rte_dev_remove(device);
	for (uint16_t i = 0; i < count; i++)
		rte_mempool_free(pools[i]);
}

void cw_peers_at(uint16_t port, const char *socket)
{
	peers_open(port, socket);
}

uint32_t cw_peers_cut_off(uint16_t port)
{
	return peers_cut_off(port);
}

int cw_set_mtu(uint16_t port, uint16_t mtu)
{
	return rte_eth_dev_set_mtu(port, mtu);
}

int cw_set_mac(uint16_t port, const uint8_t *mac)
{
	struct rte_ether_addr address;

	memcpy(address.addr_bytes, mac, sizeof(address.addr_bytes));
	return rte_eth_dev_default_mac_addr_set(port, &address);
}

/* Spreads the hashes evenly over the queues. */
int cw_set_rss(uint16_t port, uint16_t reta_size, uint16_t queues)
{
	struct rte_eth_rss_reta_entry64 reta[RTE_ETH_RSS_RETA_SIZE_512 / RTE_ETH_RETA_GROUP_SIZE];

	if (queues == 0 || reta_size == 0 || reta_size > RTE_ETH_RSS_RETA_SIZE_512)
		return -EINVAL;
	memset(reta, 0, sizeof(reta));
	for (uint16_t i = 0; i < reta_size; i++) {
		struct rte_eth_rss_reta_entry64 *group = &reta[i / RTE_ETH_RETA_GROUP_SIZE];
		group->mask |= UINT64_C(1) << (i % RTE_ETH_RETA_GROUP_SIZE);
		group->reta[i % RTE_ETH_RETA_GROUP_SIZE] = i % queues;
	}
	return rte_eth_dev_rss_reta_update(port, reta, reta_size);
}

int cw_link(uint16_t port)
{
	struct rte_eth_link link;

	/* A driver that says nothing of its link is taken for up. */
	if (rte_eth_link_get_nowait(port, &link) < 0)
		return 1;
	return link.link_status == RTE_ETH_LINK_UP;
}

int cw_stats(uint16_t port, struct cw_stats *to)
{
	struct rte_eth_stats stats;
	int error = rte_eth_stats_get(port, &stats);

	if (error < 0)
		return error;
	to->missed = stats.imissed;
	to->rx_errors = stats.ierrors;
	to->rx_no_buffer = stats.rx_nombuf;
	to->tx_errors = stats.oerrors;
	return 0;
}

int cw_xstats(uint16_t port, struct cw_xstat *out, uint32_t room)
{
	int count = rte_eth_xstats_get(port, NULL, 0);

	if (count <= 0)
		return count;
	struct rte_eth_xstat values[count];
	struct rte_eth_xstat_name names[count];
	int named = rte_eth_xstats_get_names(port, names, (unsigned int)count);
	count = rte_eth_xstats_get(port, values, (unsigned int)count);
	int written = 0;
	for (int i = 0; i < count && (uint32_t)written < room; i++) {
		if (values[i].id >= (uint64_t)(named < 0 ? 0 : named))
			continue;
		snprintf(out[written].name, sizeof(out[written].name), "%s", names[values[i].id].name);
		out[written++].value = values[i].value;
	}
	return written;
}

int cw_wait_fd(uint16_t port, uint16_t queue)
{
	return rte_eth_dev_rx_intr_ctl_q_get_fd(port, queue);
}

int cw_interrupt(uint16_t port, uint16_t queue, int on)
{
	int error;

	pthread_mutex_lock(&arming[port]);
	error = on ? rte_eth_dev_rx_intr_enable(port, queue) : rte_eth_dev_rx_intr_disable(port, queue);
	pthread_mutex_unlock(&arming[port]);
	return error;
}

/* Gives the calling thread a number, without which pools have no cache for it. One more thread than DPDK counts works too, only slower. */
int cw_thread_enter(void)
{
	if (rte_lcore_id() != LCORE_ID_ANY)
		return 0;
	return rte_thread_register() < 0 ? -rte_errno : 1;
}

void cw_thread_leave(void)
{
	rte_thread_unregister();
}

/* A driver has just written to a ring that its peer is reading, and until the peer's core lets go of that line every later store waits in this one's
 * store buffer, which is full after a few dozen: so a frame is described in as few stores as can be, and none is made that changes nothing. */
static inline void describe(struct rte_mbuf *mbuf, struct cw_in *in)
{
	uint64_t flags = mbuf->ol_flags, sum = flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;
	uint64_t hash = 0, segment_size = 0, checksum = 0;

	in->mbuf = mbuf;
	in->data = rte_pktmbuf_mtod(mbuf, uint8_t *);
	in->lens = rte_pktmbuf_pkt_len(mbuf) | (uint64_t)rte_pktmbuf_data_len(mbuf) << 32;
	if (flags & RTE_MBUF_F_RX_RSS_HASH)
		hash = mbuf->hash.rss;
	if (flags & RTE_MBUF_F_RX_LRO)
		segment_size = mbuf->tso_segsz;
	/* "None" is said of a frame whose sum was never made because it never left memory: the data is sound. */
	if (sum == RTE_MBUF_F_RX_L4_CKSUM_GOOD || sum == RTE_MBUF_F_RX_L4_CKSUM_NONE)
		checksum = 1;
	else if (sum == RTE_MBUF_F_RX_L4_CKSUM_BAD)
		checksum = 2;
	in->seen = hash | segment_size << 32 | checksum << 48;
}

static uint32_t describe_all(struct rte_mbuf **mbufs, struct cw_in *in, uint32_t count)
{
	for (uint32_t i = 0; i < count && i < 4; i++)
		rte_prefetch0(rte_pktmbuf_mtod(mbufs[i], void *));
	for (uint32_t i = 0; i < count; i++) {
		if (i + 4 < count)
			rte_prefetch0(rte_pktmbuf_mtod(mbufs[i + 4], void *));
		describe(mbufs[i], &in[i]);
	}
	return count;
}

uint32_t cw_rx(uint16_t port, uint16_t queue, struct cw_in *in, uint32_t room)
{
	struct rte_mbuf *mbufs[CW_BURST];
	struct gate *gate = gate_enter(port, queue, GATE_RX);
	uint16_t count = rte_eth_rx_burst(port, queue, mbufs, (uint16_t)RTE_MIN(room, (uint32_t)CW_BURST));

	gate_leave(gate);
	return describe_all(mbufs, in, count);
}

/* Never writes more than there is room, whatever the lengths in the chain say: a peer may have had its hand in them. */
uint32_t cw_gather(const void *chain, uint8_t *to, uint32_t room)
{
	uint32_t done = 0;

	for (const struct rte_mbuf *mbuf = chain; mbuf != NULL; mbuf = mbuf->next) {
		uint32_t part = rte_pktmbuf_data_len(mbuf);
		if (part > room - done)
			break;
		memcpy(to + done, rte_pktmbuf_mtod(mbuf, const uint8_t *), part);
		done += part;
	}
	return done;
}

void cw_release(const struct cw_in *in, uint32_t count)
{
	struct rte_mbuf *mbufs[CW_BURST];

	for (uint32_t i = 0; i < count; i++)
		mbufs[i] = in[i].mbuf;
	rte_pktmbuf_free_bulk(mbufs, count);
}

void cw_drop(void *mbuf)
{
	rte_pktmbuf_free(mbuf);
}

uint32_t cw_rooms(void *pool, struct cw_room *rooms, uint32_t count)
{
	struct rte_mbuf *mbufs[CW_BURST];

	count = RTE_MIN(count, (uint32_t)CW_BURST);
	/* All or nothing; near the end of a pool a few are better than none. */
	while (count > 0 && rte_pktmbuf_alloc_bulk(pool, mbufs, count) < 0)
		count /= 2;
	for (uint32_t i = 0; i < count; i++) {
		rooms[i].mbuf = mbufs[i];
		rooms[i].data = rte_pktmbuf_mtod(mbufs[i], uint8_t *);
		rooms[i].len = rte_pktmbuf_tailroom(mbufs[i]);
	}
	return count;
}

void *cw_chain(void *pool, const uint8_t *from, uint32_t len)
{
	struct rte_mbuf *head = rte_pktmbuf_alloc(pool), *last = head;

	if (head == NULL)
		return NULL;
	for (;;) {
		uint32_t part = RTE_MIN(len, (uint32_t)rte_pktmbuf_tailroom(last));
		memcpy(rte_pktmbuf_mtod(last, uint8_t *), from, part);
		last->data_len = (uint16_t)part;
		head->pkt_len += part;
		from += part;
		len -= part;
		if (len == 0)
			return head;
		last->next = rte_pktmbuf_alloc(pool);
		if (last->next == NULL) {
			rte_pktmbuf_free(head);
			return NULL;
		}
		last = last->next;
		head->nb_segs++;
	}
}

static inline int prepare(const struct cw_out *out)
{
	struct rte_mbuf *mbuf = out->mbuf;
	uint64_t where = mbuf->ol_flags & (RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL);

	if (!(out->flags & CW_OUT_CHAIN)) {
		mbuf->data_len = (uint16_t)out->len;
		mbuf->pkt_len = out->len;
	}
	/* What it was when it came does not matter to those who send it; whose memory it is in does. */
	if (mbuf->ol_flags != where)
		mbuf->ol_flags = where;
	if (!(out->flags & (CW_OUT_CHECKSUM | CW_OUT_CUT)))
		return 0;
	mbuf->l2_len = out->l2_len;
	mbuf->l3_len = out->l3_len;
	mbuf->l4_len = out->l4_len;
	mbuf->ol_flags |= out->flags & CW_OUT_IPV4 ? RTE_MBUF_F_TX_IPV4 : RTE_MBUF_F_TX_IPV6;
	mbuf->ol_flags |= out->flags & CW_OUT_UDP ? RTE_MBUF_F_TX_UDP_CKSUM : RTE_MBUF_F_TX_TCP_CKSUM;
	if (out->flags & CW_OUT_CUT) {
		mbuf->tso_segsz = out->segment_size;
		mbuf->ol_flags |= out->flags & CW_OUT_UDP ? RTE_MBUF_F_TX_UDP_SEG : RTE_MBUF_F_TX_TCP_SEG;
		/* Each piece is an IPv4 packet of its own. */
		if (out->flags & CW_OUT_IPV4)
			mbuf->ol_flags |= RTE_MBUF_F_TX_IP_CKSUM;
	}
	return 1;
}

uint32_t cw_tx(uint16_t port, uint16_t queue, const struct cw_out *out, uint32_t count, uint32_t *bad)
{
	struct rte_mbuf *mbufs[CW_BURST];
	uint16_t ready, sent;
	struct gate *gate;
	int asks = 0;

	*bad = 0;
	count = RTE_MIN(count, (uint32_t)CW_BURST);
	for (uint32_t i = 0; i < count; i++) {
		asks |= prepare(&out[i]);
		mbufs[i] = out[i].mbuf;
	}
	ready = (uint16_t)count;
	if (asks)
		ready = rte_eth_tx_prepare(port, queue, mbufs, (uint16_t)count);
	gate = gate_enter(port, queue, GATE_TX);
	sent = rte_eth_tx_burst(port, queue, mbufs, ready);
	gate_leave(gate);
	/* The frame behind the last good one is refused by the driver, and would be again. */
	if (sent == ready && ready < count) {
		rte_pktmbuf_free(mbufs[ready]);
		*bad = 1;
	}
	return sent;
}

void cw_memory(uint64_t *bytes, uint64_t *free)
{
	struct rte_malloc_socket_stats stats;

	for (unsigned int i = 0; i < rte_socket_count(); i++) {
		if (rte_malloc_get_socket_stats(rte_socket_id_by_idx(i), &stats) == 0) {
			*bytes += stats.heap_totalsz_bytes;
			*free += stats.heap_freesz_bytes;
		}
	}
}

uint32_t cw_buffers(const void *pool)
{
	return ((const struct rte_mempool *)pool)->size;
}

uint32_t cw_free_buffers(const void *pool)
{
	return rte_mempool_avail_count(pool);
}

void *cw_box_make(const char *name, uint32_t slots, int socket)
{
	/* Full at a power of two, one less than which a ring holds. */
	return rte_ring_create(name, slots, socket, 0);
}

void cw_box_free(void *box)
{
	void *mbuf;

	while (rte_ring_dequeue(box, &mbuf) == 0)
		rte_pktmbuf_free(mbuf);
	rte_ring_free(box);
}

uint32_t cw_box_put(void *box, const struct cw_in *in, uint32_t count)
{
	void *mbufs[CW_BURST];

	count = RTE_MIN(count, (uint32_t)CW_BURST);
	for (uint32_t i = 0; i < count; i++)
		mbufs[i] = in[i].mbuf;
	return rte_ring_enqueue_burst(box, mbufs, count, NULL);
}

uint32_t cw_box_take(void *box, struct cw_in *in, uint32_t room)
{
	struct rte_mbuf *mbufs[CW_BURST];
	uint32_t count = rte_ring_dequeue_burst(box, (void **)mbufs, RTE_MIN(room, (uint32_t)CW_BURST), NULL);

	return describe_all(mbufs, in, count);
}
