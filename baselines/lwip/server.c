/* Answers requests with lwIP over a device of DPDK's: one thread, the raw interface, no operating system below lwIP.
 *
 * Received frames are handed to lwIP where they lie. What lwIP sends is copied into a buffer of DPDK's, since lwIP keeps it until it is acknowledged. */

#define _GNU_SOURCE
#include "../common/bench.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_version.h>

/* Headers of DPDK's take in the C library's names for these; lwIP's mean the same. */
#undef IP_RF
#undef IP_DF
#undef IP_MF
#undef IP_OFFMASK

#include <lwip/etharp.h>
#include <lwip/init.h>
#include <lwip/netif.h>
#include <lwip/prot/ethernet.h>
#include <lwip/prot/ip4.h>
#include <lwip/tcp.h>
#include <lwip/timeouts.h>
#include <lwip/udp.h>
#include <netif/ethernet.h>

enum {
	BURST = 64,
	/* Frames that wait for the device at most; no more are received while any do. */
	WAITING = 4096,
	BUFFERS = 32768,
	BUFFERS_CACHE = 256,
	/* Bytes of a buffer besides the room that every driver wants before them. */
	DATA_ROOM = 2048,
	/* Memory of DPDK without huge pages, in MiB. */
	PLAIN_MIB = 512,
	/* Free huge pages that are worth it, in bytes. */
	HUGE_AT_LEAST = 64 << 20,
	/* How often one looks for a signal. */
	LOOK_EVERY_MS = 10,
};

/* Where a received frame's bytes are for lwIP; it lies in DPDK's buffer, before them. */
struct received {
	struct pbuf_custom pbuf;
	struct rte_mbuf *mbuf;
};

static struct {
	struct options options;
	struct counts counts;
	struct netif netif;
	struct rte_mempool *pool;
	uint16_t port;
	bool tx_sums;
	/* Committed and not yet taken by the device. */
	struct rte_mbuf *waiting[WAITING];
	unsigned waiting_count;
	uint64_t lost;
	u32_t now_ms;
} server;

u32_t sys_now(void)
{
	return server.now_ms;
}

unsigned short wide_sum(const void *data, int len)
{
	const uint8_t *at = data;
	uint64_t sum = 0, word;

	for (; len >= 8; len -= 8, at += 8) {
		memcpy(&word, at, 8);
		sum += word;
		sum += sum < word;
	}
	word = 0;
	memcpy(&word, at, (size_t)len);
	sum += word;
	sum += sum < word;
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (unsigned short)((sum & 0xffff) + (sum >> 16));
}

/* Memory of lwIP's, in sizes that are multiples of 64 bytes. It is taken by the slab, so that connections lie side by side and few pages hold what lwIP walks
 * over. What was freed is kept for the next of its size; nothing goes back. */
enum { STEP = 64, SIZES = 64, SLAB = 2 << 20 };

union chunk {
	struct {
		union chunk *next;
	} free;
	/* Before the bytes of one that is in use. */
	uint64_t size;
};

static struct {
	union chunk *free;
	uint8_t *slab, *slab_end;
} sizes[SIZES];

static void *slab_take(void)
{
	void *slab = aligned_alloc(SLAB, SLAB);

	if (slab != NULL)
		(void)madvise(slab, SLAB, MADV_HUGEPAGE);
	return slab;
}

void *chunk_take(size_t len)
{
	size_t size = (len + sizeof(union chunk) + STEP - 1) / STEP;
	union chunk *chunk;

	if (size >= SIZES) {
		chunk = aligned_alloc(STEP, size * STEP);
		if (chunk == NULL)
			return NULL;
	} else if (sizes[size].free != NULL) {
		chunk = sizes[size].free;
		sizes[size].free = chunk->free.next;
	} else {
		if ((size_t)(sizes[size].slab_end - sizes[size].slab) < size * STEP) {
			uint8_t *slab = slab_take();
			if (slab == NULL)
				return NULL;
			sizes[size].slab = slab;
			sizes[size].slab_end = slab + SLAB;
		}
		chunk = (union chunk *)sizes[size].slab;
		sizes[size].slab += size * STEP;
	}
	chunk->size = size;
	return chunk + 1;
}

void chunk_give(void *bytes)
{
	union chunk *chunk = (union chunk *)bytes - 1;
	size_t size = chunk->size;

	if (size >= SIZES) {
		free(chunk);
		return;
	}
	chunk->free.next = sizes[size].free;
	sizes[size].free = chunk;
}

void *chunk_take_zeros(size_t count, size_t len)
{
	void *bytes = chunk_take(count * len);

	return bytes == NULL ? NULL : memset(bytes, 0, count * len);
}

/* How far into its talk a connection is, in the word that lwIP keeps for its owner: how much of a request is there, bytes of answers that were not handed
 * over, and whether the peer has closed. */
struct talk {
	uint32_t partial;
	uint32_t owed;
	bool ends;
};

/* Bytes of answers that one connection may be owed; the rest of its requests waits. What arrives together may bring as much again. */
#define MOST_OWED (1u << 30)
#define ENDS (1ull << 63)

static struct talk talk_of(const void *word)
{
	uint64_t bits = (uintptr_t)word;

	return (struct talk){ .partial = (uint32_t)bits, .owed = (uint32_t)((bits & ~ENDS) >> 32), .ends = bits & ENDS };
}

static void *word_of(struct talk talk)
{
	return (void *)(uintptr_t)((uint64_t)talk.owed << 32 | talk.partial | (talk.ends ? ENDS : 0));
}

static err_t on_second(void *word, struct tcp_pcb *pcb);

/* Hands over what is owed, and closes what is over. */
static err_t go_on(struct tcp_pcb *pcb, struct talk *talk)
{
	bool stuck = false;

	while (talk->owed > 0 && !stuck) {
		uint32_t len, room = tcp_sndbuf(pcb);
		const uint8_t *bytes = next_answers(&server.options, talk->owed, &len);
		len = LWIP_MIN(LWIP_MIN(len, room), 0xffffu);
		/* Not copied: the answer stays where it is. */
		stuck = len == 0 || tcp_write(pcb, bytes, (u16_t)len, 0) != ERR_OK;
		if (!stuck) {
			talk->owed -= len;
			server.counts.bytes_out += len;
		}
	}
	/* A full queue is told of when it empties; pools that are empty are not. */
	if (stuck)
		tcp_poll(pcb, on_second, 2);
	if (talk->owed > 0 || !talk->ends)
		return ERR_OK;
	tcp_arg(pcb, NULL);
	tcp_recv(pcb, NULL);
	tcp_err(pcb, NULL);
	tcp_sent(pcb, NULL);
	tcp_poll(pcb, NULL, 0);
	server.counts.open--;
	if (tcp_close(pcb) == ERR_OK)
		return ERR_OK;
	tcp_abort(pcb);
	return ERR_ABRT;
}

static err_t on_second(void *word, struct tcp_pcb *pcb)
{
	struct talk talk = talk_of(word);

	tcp_poll(pcb, NULL, 0);
	err_t error = go_on(pcb, &talk);
	if (error == ERR_OK && !(talk.ends && talk.owed == 0)) {
		tcp_arg(pcb, word_of(talk));
		tcp_output(pcb);
	}
	return error;
}

static err_t on_sent(void *word, struct tcp_pcb *pcb, u16_t len)
{
	struct talk talk = talk_of(word);

	(void)len;
	/* What is usual. */
	if (talk.owed == 0)
		return ERR_OK;
	err_t error = go_on(pcb, &talk);
	if (error == ERR_OK && !(talk.ends && talk.owed == 0))
		tcp_arg(pcb, word_of(talk));
	return error;
}

static err_t on_received(void *word, struct tcp_pcb *pcb, struct pbuf *bytes, err_t error)
{
	struct talk talk = talk_of(word);
	uint32_t ended = 0;

	(void)error;
	if (talk.owed > MOST_OWED)
		return ERR_MEM;
	if (bytes == NULL) {
		talk.ends = true;
	} else {
		for (const struct pbuf *piece = bytes; piece != NULL; piece = piece->next)
			ended += requests_in(&server.options, &talk.partial, piece->payload, piece->len);
		u16_t len = bytes->tot_len;
		server.counts.bytes_in += len;
		server.counts.requests += ended;
		tcp_recved(pcb, len);
		pbuf_free(bytes);
		if (!server.options.burst) {
			server.counts.answers += ended;
			talk.owed += ended * server.options.answer_len;
		}
	}
	if (talk.owed > 0 || talk.ends) {
		error = go_on(pcb, &talk);
		if (error != ERR_OK || (talk.ends && talk.owed == 0))
			return error;
	}
	tcp_arg(pcb, word_of(talk));
	return ERR_OK;
}

/* The connection is gone already. */
static void on_error(void *word, err_t error)
{
	(void)word;
	(void)error;
	server.counts.open--;
	server.counts.reset++;
}

static err_t on_accepted(void *word, struct tcp_pcb *pcb, err_t error)
{
	(void)word;
	if (pcb == NULL || error != ERR_OK || server.counts.open >= server.options.connections) {
		server.counts.refused++;
		if (pcb == NULL)
			return ERR_VAL;
		tcp_abort(pcb);
		return ERR_ABRT;
	}
	server.counts.accepted++;
	server.counts.open++;
	tcp_nagle_disable(pcb);
	tcp_arg(pcb, word_of((struct talk){ 0 }));
	tcp_recv(pcb, on_received);
	tcp_sent(pcb, on_sent);
	tcp_err(pcb, on_error);
	return ERR_OK;
}

static void on_datagram(void *word, struct udp_pcb *pcb, struct pbuf *bytes, const ip_addr_t *from, u16_t from_port)
{
	(void)word;
	server.counts.requests++;
	server.counts.bytes_in += bytes->tot_len;
	pbuf_free(bytes);
	if (server.options.burst || server.options.answer_len > 0xffff)
		return;
	struct pbuf *answer = pbuf_alloc_reference(server.options.answers, (u16_t)server.options.answer_len, PBUF_ROM);
	if (answer == NULL)
		return;
	if (udp_sendto(pcb, answer, from, from_port) == ERR_OK) {
		server.counts.answers++;
		server.counts.bytes_out += server.options.answer_len;
	}
	pbuf_free(answer);
}

static void listen_on_port(void)
{
	struct tcp_pcb *pcb = tcp_new();
	struct udp_pcb *socket = udp_new();

	if (pcb == NULL || socket == NULL || tcp_bind(pcb, IP_ANY_TYPE, server.options.port) != ERR_OK ||
	    udp_bind(socket, IP_ANY_TYPE, server.options.port) != ERR_OK || (pcb = tcp_listen(pcb)) == NULL)
		die(FAILED, "lwIP cannot listen on port %u: choose another with -p", server.options.port);
	tcp_accept(pcb, on_accepted);
	udp_recv(socket, on_datagram, NULL);
}

/* What lwIP sends: copied behind what waits already. */
static err_t on_link_output(struct netif *netif, struct pbuf *frame)
{
	struct rte_mbuf *mbuf = server.waiting_count < WAITING ? rte_pktmbuf_alloc(server.pool) : NULL;

	(void)netif;
	if (mbuf == NULL || frame->tot_len > rte_pktmbuf_tailroom(mbuf)) {
		rte_pktmbuf_free(mbuf);
		server.lost++;
		return ERR_MEM;
	}
	uint8_t *to = rte_pktmbuf_mtod(mbuf, uint8_t *);
	for (const struct pbuf *piece = frame; piece != NULL; piece = piece->next) {
		memcpy(to, piece->payload, piece->len);
		to += piece->len;
	}
	mbuf->data_len = frame->tot_len;
	mbuf->pkt_len = frame->tot_len;
	if (server.tx_sums) {
		const struct eth_hdr *ether = rte_pktmbuf_mtod(mbuf, const struct eth_hdr *);
		const struct ip_hdr *ip = (const void *)(ether + 1);
		if (ether->type == PP_HTONS(ETHTYPE_IP) && IPH_PROTO(ip) == IP_PROTO_TCP) {
			mbuf->l2_len = SIZEOF_ETH_HDR;
			mbuf->l3_len = IPH_HL_BYTES(ip);
			mbuf->ol_flags |= RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_TCP_CKSUM;
		}
	}
	server.waiting[server.waiting_count++] = mbuf;
	return ERR_OK;
}

static bool link_is_up(void)
{
	struct rte_eth_link link;

	return rte_eth_link_get_nowait(server.port, &link) < 0 || link.link_status == RTE_ETH_LINK_UP;
}

/* Hands the device what waits. What it does not take waits on, unless there is nobody at the other end. */
static void flush(void)
{
	unsigned done = 0, count = server.waiting_count;

	while (done < count) {
		uint16_t part = (uint16_t)RTE_MIN(count - done, (unsigned)BURST), ready = part;
		if (server.tx_sums)
			ready = rte_eth_tx_prepare(server.port, 0, server.waiting + done, part);
		uint16_t sent = rte_eth_tx_burst(server.port, 0, server.waiting + done, ready);
		done += sent;
		if (sent == ready && ready < part) {
			/* The driver refuses this frame, and would again. */
			rte_pktmbuf_free(server.waiting[done++]);
			server.lost++;
		} else if (sent < part) {
			break;
		}
	}
	if (done < count && !link_is_up()) {
		rte_pktmbuf_free_bulk(server.waiting + done, count - done);
		server.lost += count - done;
		done = count;
	}
	server.waiting_count = count - done;
	memmove(server.waiting, server.waiting + done, server.waiting_count * sizeof(server.waiting[0]));
}

static void give_back(struct pbuf *pbuf)
{
	rte_pktmbuf_free_seg(((struct received *)pbuf)->mbuf);
}

/* A received frame as lwIP has it: a piece for each buffer of its chain. */
static struct pbuf *take(struct rte_mbuf *mbuf)
{
	struct pbuf *whole = NULL;

	while (mbuf != NULL) {
		struct rte_mbuf *next = mbuf->next;
		struct received *received = rte_mbuf_to_priv(mbuf);
		u16_t len = rte_pktmbuf_data_len(mbuf);

		mbuf->next = NULL;
		mbuf->nb_segs = 1;
		received->mbuf = mbuf;
		received->pbuf.custom_free_function = give_back;
		struct pbuf *piece = pbuf_alloced_custom(PBUF_RAW, len, PBUF_REF, &received->pbuf, rte_pktmbuf_mtod(mbuf, void *), len);
		if (whole == NULL)
			whole = piece;
		else
			pbuf_cat(whole, piece);
		mbuf = next;
	}
	return whole;
}

static unsigned receive(void)
{
	struct rte_mbuf *mbufs[BURST];
	uint16_t count = rte_eth_rx_burst(server.port, 0, mbufs, BURST);

	for (uint16_t i = 0; i < count && i < 4; i++)
		rte_prefetch0(rte_pktmbuf_mtod(mbufs[i], void *));
	for (uint16_t i = 0; i < count; i++) {
		if (i + 4 < count)
			rte_prefetch0(rte_pktmbuf_mtod(mbufs[i + 4], void *));
		uint64_t sum = mbufs[i]->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;
		bool sound = sum == RTE_MBUF_F_RX_L4_CKSUM_GOOD || sum == RTE_MBUF_F_RX_L4_CKSUM_NONE;
		u16_t checks = sound ? 0 : NETIF_CHECKSUM_CHECK_TCP | NETIF_CHECKSUM_CHECK_UDP;
		server.netif.chksum_flags = (u16_t)((server.netif.chksum_flags & ~(NETIF_CHECKSUM_CHECK_TCP | NETIF_CHECKSUM_CHECK_UDP)) | checks);
		struct pbuf *frame = take(mbufs[i]);
		if (ethernet_input(frame, &server.netif) != ERR_OK)
			pbuf_free(frame);
	}
	return count;
}

/* DPDK's own thread unmaps memif's rings as soon as the peer has gone, also while they are read here. It has marked the device as gone before, so once a turn
 * has passed nobody looks at them any more: its call for that comes here, and waits so long. */
static struct {
	_Atomic uint64_t number;
	_Atomic bool go_on;
	pthread_t thread;
} turns;

/* How often and for how long it looks whether a turn has passed. */
enum { GRACE_LOOKS = 20000, GRACE_PAUSE_US = 50 };

int munmap(void *addr, size_t len)
{
	if (atomic_load(&turns.go_on) && !pthread_equal(pthread_self(), turns.thread)) {
		uint64_t before = atomic_load(&turns.number);
		for (int i = 0; i < GRACE_LOOKS && atomic_load(&turns.go_on) && atomic_load(&turns.number) < before + 2; i++)
			usleep(GRACE_PAUSE_US);
	}
	return (int)syscall(SYS_munmap, addr, len);
}

static void serve(void)
{
	uint64_t cycles_per_ms = rte_get_tsc_hz() / 1000, began = cycles_now(), busy = 0, before = began;
	u32_t looked_at = 0;
	bool worked = false;

	turns.thread = pthread_self();
	atomic_store(&turns.go_on, true);
	say_ready(&server.options);
	for (uint64_t turn = 1;; turn++) {
		atomic_store_explicit(&turns.number, turn, memory_order_release);
		/* One reading of the counter ends a turn and begins the next; only turns that found something to do count. */
		uint64_t now = cycles_now();
		busy += worked ? now - before : 0;
		before = now;
		server.now_ms = (u32_t)((now - began) / cycles_per_ms);
		if (server.now_ms - looked_at >= LOOK_EVERY_MS) {
			looked_at = server.now_ms;
			if (signals_came(&server.options))
				break;
			before = cycles_now();
		}
		worked = server.waiting_count == 0 && receive() > 0;
		if (sys_timeouts_sleeptime() == 0) {
			sys_check_timeouts();
			worked = true;
		}
		if (server.waiting_count > 0) {
			worked = true;
			flush();
		}
	}
	atomic_store(&turns.go_on, false);
	server.counts.busy_s = (double)busy * seconds_per_cycle();
}

/* The device as DPDK has it, without our own words. */
static struct {
	char device[512];
	struct rte_ether_addr mac;
	bool has_mac, offload;
	uint16_t mtu;
} wanted = { .offload = true };

static void read_port(const char *name)
{
	char words[sizeof(wanted.device)], *rest = words, *word;

	if (strncmp(name, "dpdk:", 5) != 0)
		die(WRONG_USE, "`%s` is no port for lwIP here: write dpdk:DEVICE, such as dpdk:net_memif0,role=server", name);
	if (strlen(name + 5) >= sizeof(words))
		die(WRONG_USE, "the name of the port is longer than %zu bytes", sizeof(words));
	strcpy(words, name + 5);
	while ((word = strsep(&rest, ",")) != NULL) {
		if (strncmp(word, "mac=", 4) == 0) {
			if (rte_ether_unformat_addr(word + 4, &wanted.mac) != 0)
				die(WRONG_USE, "`%s` is no Ethernet address", word + 4);
			wanted.has_mac = true;
		} else if (strncmp(word, "mtu=", 4) == 0) {
			wanted.mtu = (uint16_t)strtoul(word + 4, NULL, 10);
			if (wanted.mtu < 576 || wanted.mtu > RTE_ETHER_MTU)
				die(WRONG_USE, "`%s` is no MTU for lwIP here: give 576 to 1500", word + 4);
		} else if (strcmp(word, "offload=on") == 0 || strcmp(word, "offload=off") == 0) {
			wanted.offload = word[9] == 'n';
		} else {
			if (wanted.device[0] != '\0')
				strcat(wanted.device, ",");
			strcat(wanted.device, word);
		}
	}
}

static bool is_pci(void)
{
	unsigned numbers[4];

	return sscanf(wanted.device, "%x:%x:%x.%x", &numbers[0], &numbers[1], &numbers[2], &numbers[3]) == 4;
}

static bool has_huge_pages(void)
{
	const char *variable = getenv("CLEARWAY_DPDK_HUGE");
	unsigned long pages = 0;
	FILE *file;

	if (variable != NULL && strcmp(variable, "off") == 0)
		return false;
	file = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "r");
	if (file == NULL)
		return false;
	if (fscanf(file, "%lu", &pages) != 1)
		pages = 0;
	fclose(file);
	return pages * (2ul << 20) >= HUGE_AT_LEAST;
}

/* The cores that this process may run on, as DPDK writes a list. */
static void list_cores(char *to, size_t room)
{
	cpu_set_t set;
	size_t len = (size_t)snprintf(to, room, "0@(");
	const char *comma = "";

	CPU_ZERO(&set);
	if (server.options.pinned)
		CPU_SET(server.options.cores[0], &set);
	else
		(void)sched_getaffinity(0, sizeof(set), &set);
	for (int core = 0; core < CPU_SETSIZE && len + 8 < room; core++) {
		if (CPU_ISSET(core, &set)) {
			len += (size_t)snprintf(to + len, room - len, "%s%d", comma, core);
			comma = ",";
		}
	}
	snprintf(to + len, room - len, ")");
}

static void start_dpdk(void)
{
	char prefix[64], cores[4096], memory[16], level[] = "*:error";
	char *words[24];
	int count = 0;

	snprintf(prefix, sizeof(prefix), "lwip-dpdk-%d", getpid());
	snprintf(memory, sizeof(memory), "%d", PLAIN_MIB);
	list_cores(cores, sizeof(cores));
#define SAY(word) words[count++] = (char *)(uintptr_t)(word)
	SAY("lwip-dpdk"), SAY("--no-telemetry"), SAY("--file-prefix"), SAY(prefix), SAY("--lcores"), SAY(cores), SAY("--log-level"), SAY(level);
	/* No memory gets a name in the file system, so nothing can be left behind, even by kill -9. */
	if (has_huge_pages())
		SAY("--in-memory"), SAY("--single-file-segments");
	else
		SAY("--no-shconf"), SAY("--no-huge"), SAY("-m"), SAY(memory);
	if (is_pci())
		SAY("--allow"), SAY(wanted.device);
	else
		SAY("--no-pci"), SAY("--iova-mode"), SAY("va"), SAY("--vdev"), SAY(wanted.device);
	words[count] = NULL;
#undef SAY
	if (rte_eal_init(count, words) < 0)
		die(FAILED, "DPDK does not start with the device %s: %s; docs/ports.md has words that work", wanted.device, rte_strerror(rte_errno));
	(void)rmdir(rte_eal_get_runtime_dir());
	if (rte_eth_dev_count_avail() == 0)
		die(FAILED, "DPDK knows no device %s: docs/ports.md has words that work", wanted.device);
	RTE_ETH_FOREACH_DEV(server.port)
		break;
}

/* DPDK's answer to a call, or the end. */
static int must(const char *call, int answer)
{
	if (answer < 0)
		die(FAILED, "%s fails for the device %s: %s; docs/ports.md has words that work", call, wanted.device, rte_strerror(-answer));
	return answer;
}

static void open_device(void)
{
	struct rte_eth_conf conf = { 0 };
	struct rte_eth_dev_info info;

	must("rte_eth_dev_info_get", rte_eth_dev_info_get(server.port, &info));
	if (wanted.offload) {
		server.tx_sums = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_TCP_CKSUM;
		conf.txmode.offloads = info.tx_offload_capa & (RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_MULTI_SEGS);
		conf.rxmode.offloads = info.rx_offload_capa & (RTE_ETH_RX_OFFLOAD_TCP_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM);
	}
	conf.rxmode.offloads |= info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER;
	uint16_t rx_ring = info.default_rxportconf.ring_size ? info.default_rxportconf.ring_size : 1024;
	uint16_t tx_ring = info.default_txportconf.ring_size ? info.default_txportconf.ring_size : 1024;
	int socket = rte_eth_dev_socket_id(server.port);
	must("rte_eth_dev_configure", rte_eth_dev_configure(server.port, 1, 1, &conf));
	must("rte_eth_dev_adjust_nb_rx_tx_desc", rte_eth_dev_adjust_nb_rx_tx_desc(server.port, &rx_ring, &tx_ring));
	uint16_t before = RTE_ALIGN(sizeof(struct received), RTE_MBUF_PRIV_ALIGN);
	server.pool = rte_pktmbuf_pool_create("frames", BUFFERS, BUFFERS_CACHE, before, RTE_PKTMBUF_HEADROOM + DATA_ROOM, socket);
	if (server.pool == NULL)
		die(FAILED, "no memory for %d buffers: as root run sysctl vm.nr_hugepages=256, or set CLEARWAY_DPDK_HUGE=off", BUFFERS);
	must("rte_eth_rx_queue_setup", rte_eth_rx_queue_setup(server.port, 0, rx_ring, socket, NULL, server.pool));
	must("rte_eth_tx_queue_setup", rte_eth_tx_queue_setup(server.port, 0, tx_ring, socket, NULL));
	must("rte_eth_dev_start", rte_eth_dev_start(server.port));
	if (wanted.has_mac)
		must("rte_eth_dev_default_mac_addr_set", rte_eth_dev_default_mac_addr_set(server.port, &wanted.mac));
	(void)rte_eth_allmulticast_enable(server.port);
}

static err_t set_up_netif(struct netif *netif)
{
	struct rte_ether_addr mac;
	uint16_t mtu;

	must("rte_eth_macaddr_get", rte_eth_macaddr_get(server.port, &mac));
	must("rte_eth_dev_get_mtu", rte_eth_dev_get_mtu(server.port, &mtu));
	netif->name[0] = 'd';
	netif->name[1] = 'p';
	netif->output = etharp_output;
	netif->linkoutput = on_link_output;
	netif->mtu = wanted.mtu ? wanted.mtu : LWIP_MIN(mtu, RTE_ETHER_MTU);
	netif->hwaddr_len = ETH_HWADDR_LEN;
	memcpy(netif->hwaddr, mac.addr_bytes, ETH_HWADDR_LEN);
	netif->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET | NETIF_FLAG_LINK_UP;
	if (server.tx_sums)
		NETIF_SET_CHECKSUM_CTRL(netif, NETIF_CHECKSUM_ENABLE_ALL & ~NETIF_CHECKSUM_GEN_TCP);
	return ERR_OK;
}

static void start_lwip(void)
{
	const struct address *address = &server.options.addresses[0];
	ip4_addr_t ip = { address->ip.v4.s_addr }, gateway = { server.options.gateway.s_addr };
	ip4_addr_t mask = { address->prefix_len ? lwip_htonl(~0u << (32 - address->prefix_len)) : 0 };

	srandom((unsigned)rte_rdtsc());
	lwip_init();
	if (netif_add(&server.netif, &ip, &mask, &gateway, NULL, set_up_netif, ethernet_input) == NULL)
		die(FAILED, "lwIP takes no interface with the address %s", address->text);
	netif_set_default(&server.netif);
	netif_set_up(&server.netif);
	listen_on_port();
}

static void check_options(void)
{
	const struct options *options = &server.options;

	if (options->address_count > 1)
		die(WRONG_USE, "an interface of lwIP's has one IPv4 address: give one -a");
	if (options->addresses[0].v6)
		die(WRONG_USE, "lwIP is built without IPv6 here: give an IPv4 address with -a");
	/* As many requests as fit what lwIP hands over together. */
	uint32_t shortest = options->framing == FIXED ? options->request_len : options->framing == HTTP ? 4 : 536;
	if ((0xffffu / shortest + 1) * (uint64_t)options->answer_len > MOST_OWED)
		die(WRONG_USE, "answers of %u bytes to requests that short are more than one connection may be owed: give a smaller -l", options->answer_len);
}

int main(int argc, char **argv)
{
	static char version[128];
	static const struct program program = {
		.name = "lwip-dpdk",
		.over = "lwip",
		.version = version,
		.about = "Answers requests with lwIP over a device of DPDK's: the requests of `clearway bench client`.",
		.has_port = true,
		.connections = 1 << 20,
		.most_connections = 1 << 24,
		.most_cores = 1,
	};

	snprintf(version, sizeof(version), "lwIP %s, %s", LWIP_VERSION_STRING, rte_version());
	options_read(&server.options, &program, argc, argv);
	check_options();
	read_port(server.options.port_name);
	signals_take();
	start_dpdk();
	open_device();
	start_lwip();
	serve();
	say_summary(&server.options, &server.counts, 1);
	if (server.lost > 0)
		fprintf(stderr, "lwip-dpdk: %llu frames were lost for want of room or of a peer\n", (unsigned long long)server.lost);
	(void)rte_eth_dev_stop(server.port);
	(void)rte_eth_dev_close(server.port);
	return ENDED;
}
