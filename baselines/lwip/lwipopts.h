/* How lwIP is built here. docs/baselines.md says why; what is not named has lwIP's default. */

#ifndef BASELINES_LWIPOPTS_H
#define BASELINES_LWIPOPTS_H

/* One thread that calls the raw interface. */
#define NO_SYS 1
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_NETCONN 0
#define LWIP_SOCKET 0
#define LWIP_RAW 0
#define LWIP_STATS 0
#define LWIP_NETIF_API 0

#define LWIP_DONT_PROVIDE_BYTEORDER_FUNCTIONS 1
#define LWIP_IPV4 1
#define LWIP_IPV6 0
#define LWIP_UDP 1
#define LWIP_TCP 1
#define IP_REASSEMBLY 1
#define IP_FRAG 1

/* lwIP's own heap is searched from its beginning, and its pools have 65,535 places at most. So all memory is asked of the program, which keeps what is
 * free by its size: a few instructions, and as many connections as there is memory for. */
#define MEM_ALIGNMENT 8
#define MEM_LIBC_MALLOC 1
#define MEMP_MEM_MALLOC 1
#define mem_clib_malloc chunk_take
#define mem_clib_calloc chunk_take_zeros
#define mem_clib_free chunk_give
#define MEMP_NUM_REASSDATA 32
#define IP_REASS_MAX_PBUFS 256

/* Received frames stay in DPDK's buffers, so lwIP's own pool of them is hardly used. */
#define PBUF_POOL_SIZE 64
#define LWIP_SUPPORT_CUSTOM_PBUF 1
#define LWIP_DISABLE_TCP_SANITY_CHECKS 1

#define TCP_MSS 1460
#define LWIP_WND_SCALE 1
#define TCP_RCV_SCALE 4
#define TCP_WND (512 * 1024)
#define TCP_SND_BUF (512 * 1024)
#define TCP_SND_QUEUELEN 4096
#define TCP_QUEUE_OOSEQ 1
#define LWIP_TCP_SACK_OUT 0
#define LWIP_TCP_TIMESTAMPS 0
/* Its limit would be 255 handshakes at a time, and the client makes 1,024: only the table of connections limits them. */
#define TCP_LISTEN_BACKLOG 0

/* Clients have ranges of addresses; each connection remembers where in the table its own is. */
#define ARP_TABLE_SIZE 1024
#define ARP_QUEUEING 1
#define ARP_QUEUE_LEN 1024
#define LWIP_NETIF_HWADDRHINT 1

/* Left to the driver where it can. */
#define LWIP_CHECKSUM_CTRL_PER_NETIF 1

#endif
