/* Drives the adapter as packetdrill does: the same flags, the same struct, a second thread for calls that block. Each part is what a short script says. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/errqueue.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

/* The struct of functions, as its users know it. */
struct interface {
    void *data;
    void (*free)(void *);
    int (*socket)(void *, int, int, int);
    int (*bind)(void *, int, const struct sockaddr *, socklen_t);
    int (*listen)(void *, int, int);
    int (*accept)(void *, int, struct sockaddr *, socklen_t *);
    int (*connect)(void *, int, const struct sockaddr *, socklen_t);
    ssize_t (*read)(void *, int, void *, size_t);
    ssize_t (*readv)(void *, int, const struct iovec *, int);
    ssize_t (*recv)(void *, int, void *, size_t, int);
    ssize_t (*recvfrom)(void *, int, void *, size_t, int, struct sockaddr *, socklen_t *);
    ssize_t (*recvmsg)(void *, int, struct msghdr *, int);
    ssize_t (*write)(void *, int, const void *, size_t);
    ssize_t (*writev)(void *, int, const struct iovec *, int);
    ssize_t (*send)(void *, int, const void *, size_t, int);
    ssize_t (*sendto)(void *, int, const void *, size_t, int, const struct sockaddr *, socklen_t);
    ssize_t (*sendmsg)(void *, int, const struct msghdr *, int);
    int (*fcntl)(void *, int, int, ...);
    int (*ioctl)(void *, int, unsigned long, ...);
    int (*close)(void *, int);
    int (*shutdown)(void *, int, int);
    int (*getsockopt)(void *, int, int, int, void *, socklen_t *);
    int (*setsockopt)(void *, int, int, int, const void *, socklen_t);
    int (*poll)(void *, struct pollfd *, nfds_t, int);
    int (*netdev_send)(void *, const void *, size_t);
    int (*netdev_receive)(void *, void *, size_t *, long long *);
    int (*usleep)(void *, useconds_t);
    int (*gettimeofday)(void *, struct timeval *, struct timezone *);
    int (*epoll_create)(void *, int);
    int (*epoll_ctl)(void *, int, int, int, struct epoll_event *);
    int (*epoll_wait)(void *, int, struct epoll_event *, int, int);
    int (*pipe)(void *, int[2]);
    ssize_t (*splice)(void *, int, loff_t *, int, loff_t *, size_t, unsigned);
};

static struct interface d;
static int v6, mapped;
static struct sockaddr_storage local, remote;
static socklen_t addr_len;

static void fail(int line, const char *what)
{
    fprintf(stderr, "drive.c:%d: %s (errno %d: %s)\n", line, what, errno, strerror(errno));
    exit(1);
}
#define must(condition) ((condition) ? (void)0 : fail(__LINE__, #condition))

/* ---- packets */

enum { FIN = 1, SYN = 2, RST = 4, PSH = 8, ACK = 16 };

struct segment {
    uint16_t from, to;
    uint32_t seq, ack;
    int flags, len;
    long long at;
};

static uint32_t sum(const uint8_t *bytes, size_t len, uint32_t start)
{
    size_t i;
    for (i = 0; i + 1 < len; i += 2)
        start += (uint32_t)bytes[i] << 8 | bytes[i + 1];
    if (len % 2 == 1)
        start += (uint32_t)bytes[len - 1] << 8;
    return start;
}

static uint16_t folded(uint32_t total)
{
    while (total >> 16 != 0)
        total = (total & 0xffff) + (total >> 16);
    return (uint16_t)~total;
}

static void put16(uint8_t *at, unsigned value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static void put32(uint8_t *at, uint32_t value)
{
    put16(at, value >> 16);
    put16(at + 2, value & 0xffff);
}

static uint32_t get32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static const uint8_t local4[4] = {192, 168, 0, 1}, remote4[4] = {192, 0, 2, 1};

/* Sends the stack a segment from the peer. */
static void inject(uint16_t from, uint16_t to, int flags, uint32_t seq, uint32_t ack, int len)
{
    static uint8_t packet[70000];
    size_t ip = v6 ? 40 : 20, total = ip + 20 + (size_t)len;
    uint8_t *tcp = packet + ip;
    uint32_t pseudo;
    memset(packet, 'd', total);
    memset(packet, 0, ip + 20);
    put16(tcp, from);
    put16(tcp + 2, to);
    put32(tcp + 4, seq);
    put32(tcp + 8, ack);
    tcp[12] = 5 << 4;
    tcp[13] = (uint8_t)flags;
    put16(tcp + 14, 65000);
    if (v6) {
        packet[0] = 0x60;
        put16(packet + 4, (unsigned)(total - ip));
        packet[6] = IPPROTO_TCP;
        packet[7] = 64;
        memcpy(packet + 8, &((struct sockaddr_in6 *)&remote)->sin6_addr, 16);
        memcpy(packet + 24, &((struct sockaddr_in6 *)&local)->sin6_addr, 16);
        pseudo = sum(packet + 8, 32, 0);
    } else {
        packet[0] = 0x45;
        put16(packet + 2, (unsigned)total);
        packet[8] = 64;
        packet[9] = IPPROTO_TCP;
        memcpy(packet + 12, remote4, 4);
        memcpy(packet + 16, local4, 4);
        put16(packet + 10, folded(sum(packet, 20, 0)));
        pseudo = sum(packet + 12, 8, 0);
    }
    put16(tcp + 16, folded(sum(tcp, total - ip, pseudo + IPPROTO_TCP + (uint32_t)(total - ip))));
    must(d.netdev_send(d.data, packet, total) == 0);
}

/* The next segment that the stack sends. Its checksum must hold, as packetdrill's own would. */
static struct segment sniff(void)
{
    static uint8_t packet[70000];
    size_t count = sizeof packet, ip = v6 ? 40 : 20;
    struct segment s;
    const uint8_t *tcp = packet + ip;
    memset(&s, 0, sizeof s);
    must(d.netdev_receive(d.data, packet, &count, &s.at) == 0);
    must(count >= ip + 20);
    must(packet[0] >> 4 == (v6 ? 6 : 4));
    must(folded(sum(tcp, count - ip, sum(packet + (v6 ? 8 : 12), v6 ? 32 : 8, IPPROTO_TCP + (uint32_t)(count - ip)))) == 0);
    s.from = (uint16_t)(tcp[0] << 8 | tcp[1]);
    s.to = (uint16_t)(tcp[2] << 8 | tcp[3]);
    s.seq = get32(tcp + 4);
    s.ack = get32(tcp + 8);
    s.flags = tcp[13];
    s.len = (int)(count - ip) - (tcp[12] >> 4) * 4;
    return s;
}

static long long now(void)
{
    struct timeval tv;
    must(d.gettimeofday(d.data, &tv, NULL) == 0);
    return (long long)tv.tv_sec * 1000000 + tv.tv_usec;
}

/* ---- sockets */

static struct sockaddr *with_port(const struct sockaddr_storage *addr, uint16_t port)
{
    static struct sockaddr_storage made;
    made = *addr;
    ((struct sockaddr_in *)&made)->sin_port = htons(port); /* It lies at the same place in both families. */
    return (struct sockaddr *)&made;
}

static int stream(void)
{
    int fd = d.socket(d.data, local.ss_family, SOCK_STREAM, IPPROTO_TCP), on = 1;
    must(fd > 2);
    must(d.setsockopt(d.data, fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    return fd;
}

static int listener(uint16_t port)
{
    int fd = stream();
    must(d.bind(d.data, fd, with_port(&local, port), addr_len) == 0);
    must(d.listen(d.data, fd, 1) == 0);
    return fd;
}

/* The peer connects from a port; the connection and our first sequence number. */
static int accepted(int fd, uint16_t from, uint16_t to, uint32_t *ours)
{
    struct segment s;
    struct sockaddr_storage who;
    socklen_t len = sizeof who;
    int conn;
    inject(from, to, SYN, 1000, 0, 0);
    s = sniff();
    must(s.flags == (SYN | ACK) && s.ack == 1001 && s.from == to && s.to == from);
    inject(from, to, ACK, 1001, s.seq + 1, 0);
    conn = d.accept(d.data, fd, (struct sockaddr *)&who, &len);
    must(conn > 2 && conn != fd && len == addr_len);
    must(((struct sockaddr_in *)&who)->sin_port == htons(from) && who.ss_family == local.ss_family);
    *ours = s.seq + 1;
    return conn;
}

/* ---- the scripts */

/* A handshake from outside, data both ways, a retransmission after the timeout in virtual time, and the close. */
static void passive(void)
{
    char bytes[4000];
    uint32_t ours;
    int fd = listener(8080), conn = accepted(fd, 45000, 8080, &ours), queued = 0;
    struct segment s, again, third;
    struct tcp_info info;
    socklen_t len = sizeof info;
    long long before;

    inject(45000, 8080, ACK | PSH, 1001, ours, 1000);
    must(d.ioctl(d.data, conn, FIONREAD, &queued) == 0 && queued == 1000);
    must(d.recv(d.data, conn, bytes, sizeof bytes, MSG_PEEK) == 1000);
    must(d.read(d.data, conn, bytes, sizeof bytes) == 1000 && bytes[999] == 'd');
    s = sniff();
    must(s.flags == ACK && s.ack == 2001 && s.len == 0);

    before = now();
    must(d.write(d.data, conn, bytes, 500) == 500);
    s = sniff();
    must(s.len == 500 && s.seq == ours && s.at >= before && s.at < before + 1000);
    again = sniff();
    must(again.seq == ours && again.len == 500);
    third = sniff();
    must(third.seq == ours && third.len == 500);
    must(again.at - s.at >= 200000 && again.at - s.at < 1500000); /* RFC 6298: not below the lower bound, and the first one is a second without a sample. */
    must(third.at - again.at > (again.at - s.at) * 19 / 10 && third.at - again.at < (again.at - s.at) * 21 / 10);
    must(now() >= third.at);
    must(d.getsockopt(d.data, conn, IPPROTO_TCP, TCP_INFO, &info, &len) == 0);
    must(info.tcpi_state == TCP_ESTABLISHED && info.tcpi_unacked == 1 && info.tcpi_total_retrans == 2);
    inject(45000, 8080, ACK, 2001, ours + 500, 0);
    must(d.getsockopt(d.data, conn, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 && info.tcpi_unacked == 0);

    must(d.close(d.data, conn) == 0);
    s = sniff();
    must((s.flags & FIN) != 0 && s.seq == ours + 500);
    inject(45000, 8080, FIN | ACK, 2001, ours + 501, 0);
    s = sniff();
    must(s.flags == ACK && s.ack == 2002);
    must(d.read(d.data, conn, bytes, 1) == -1 && errno == EBADF);
    must(d.close(d.data, fd) == 0);
}

struct blocked {
    pthread_t thread;
    int fd;
    ssize_t result;
    int error;
    long long ended;
};

static void *block_in_connect(void *arg)
{
    struct blocked *b = arg;
    struct sockaddr_storage to;
    memcpy(&to, with_port(&remote, 8080), sizeof to);
    b->result = d.connect(d.data, b->fd, (struct sockaddr *)&to, addr_len);
    b->error = errno;
    b->ended = now();
    return NULL;
}

static void *block_in_read(void *arg)
{
    struct blocked *b = arg;
    char bytes[100];
    b->result = d.read(d.data, b->fd, bytes, sizeof bytes);
    b->error = errno;
    b->ended = now();
    return NULL;
}

/* A connect that blocks on a second thread while the first one injects the answer; then a read that does. */
static void active(void)
{
    struct blocked b = {.fd = stream()};
    struct segment syn, s;
    long long injected;
    must(pthread_create(&b.thread, NULL, block_in_connect, &b) == 0);
    syn = sniff();
    must(syn.flags == SYN && syn.to == 8080);
    must(d.usleep(d.data, 50000) == 0);
    injected = now();
    must(injected >= syn.at + 50000);
    inject(8080, syn.from, SYN | ACK, 7000, syn.seq + 1, 0);
    /* Time goes on before the other thread looks at its clock, which must show when its call was over all the same. */
    must(d.usleep(d.data, 300000) == 0);
    must(pthread_join(b.thread, NULL) == 0);
    must(b.result == 0 && b.ended >= injected && b.ended < injected + 1000);
    s = sniff();
    must(s.flags == ACK && s.ack == 7001);

    must(pthread_create(&b.thread, NULL, block_in_read, &b) == 0);
    must(d.usleep(d.data, 10000) == 0);
    inject(8080, syn.from, ACK | PSH, 7001, syn.seq + 1, 60);
    must(pthread_join(b.thread, NULL) == 0);
    must(b.result == 60);
    s = sniff();
    must(s.flags == ACK && s.ack == 7061);
    inject(8080, syn.from, RST | ACK, 7061, syn.seq + 1, 0);
    must(d.write(d.data, b.fd, "x", 1) == -1 && errno == ECONNRESET);
    must(d.close(d.data, b.fd) == 0);
}

/* Calls that do not block, poll, epoll, options, pipes, and what is refused. */
static void others(void)
{
    int fd = stream(), value = 0, ends[2], epoll, listening = listener(9090), conn;
    socklen_t len = sizeof value;
    uint32_t ours;
    struct pollfd polled = {.fd = fd, .events = POLLOUT | POLLIN};
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 77}, got;
    struct iovec two[2] = {{"ab", 2}, {"cde", 3}};
    struct msghdr msg = {.msg_iov = two, .msg_iovlen = 2};
    struct segment s;
    char room[16];
    long long before;

    /* Refused. */
    must(d.fcntl(d.data, fd, F_SETFL, O_RDWR | O_NONBLOCK) == 0);
    must((d.fcntl(d.data, fd, F_GETFL, 0) & O_NONBLOCK) != 0);
    must(d.connect(d.data, fd, with_port(&remote, 81), addr_len) == -1 && errno == EINPROGRESS);
    s = sniff();
    must(s.flags == SYN);
    inject(81, s.from, RST | ACK, 0, s.seq + 1, 0);
    must(d.poll(d.data, &polled, 1, 0) == 1 && (polled.revents & (POLLERR | POLLHUP)) != 0);
    must(d.getsockopt(d.data, fd, SOL_SOCKET, SO_ERROR, &value, &len) == 0 && value == ECONNREFUSED);
    must(d.getsockopt(d.data, fd, SOL_SOCKET, SO_ERROR, &value, &len) == 0 && value == 0);
    must(d.close(d.data, fd) == 0);

    conn = accepted(listening, 45001, 9090, &ours);
    value = 1;
    must(d.setsockopt(d.data, conn, IPPROTO_TCP, TCP_NODELAY, &value, sizeof value) == 0);
    value = 0;
    must(d.getsockopt(d.data, conn, IPPROTO_TCP, TCP_NODELAY, &value, &len) == 0 && value == 1);
    must(d.setsockopt(d.data, conn, IPPROTO_TCP, TCP_FASTOPEN, &value, sizeof value) == -1 && errno == EINVAL);

    /* A poll with a time ends when that is over, on the stack's clock. */
    must(d.fcntl(d.data, conn, F_SETFL, O_NONBLOCK) == 0);
    must(d.read(d.data, conn, room, sizeof room) == -1 && errno == EAGAIN);
    polled = (struct pollfd){.fd = conn, .events = POLLIN};
    before = now();
    must(d.poll(d.data, &polled, 1, 250) == 0);
    must(now() >= before + 250000);

    epoll = d.epoll_create(d.data, 1);
    must(epoll > 2);
    must(d.epoll_ctl(d.data, epoll, EPOLL_CTL_ADD, conn, &event) == 0);
    must(d.epoll_ctl(d.data, epoll, EPOLL_CTL_ADD, conn, &event) == -1 && errno == EEXIST);
    must(d.epoll_wait(d.data, epoll, &got, 1, 0) == 0);
    inject(45001, 9090, ACK | PSH, 1001, ours, 10);
    must(d.epoll_wait(d.data, epoll, &got, 1, -1) == 1 && got.events == EPOLLIN && got.data.u64 == 77);
    must(d.close(d.data, epoll) == 0);

    /* Socket to pipe, pipe to socket. */
    must(d.pipe(d.data, ends) == 0);
    must(d.splice(d.data, conn, NULL, ends[1], NULL, 10, 0) == 10);
    must(d.splice(d.data, ends[0], NULL, conn, NULL, 10, 0) == 10);
    s = sniff();
    must(s.flags == ACK && s.ack == 1011 && s.len == 0);
    s = sniff();
    must(s.len == 10 && s.ack == 1011);
    must(d.writev(d.data, conn, two, 2) == 5);
    must(sniff().len == 5);
    must(d.sendmsg(d.data, conn, &msg, 0) == 5);
    must(sniff().len == 5);
    must(d.sendto(d.data, conn, "xyz", 3, MSG_CONFIRM, NULL, 0) == -1 && errno == EOPNOTSUPP);
    must(d.shutdown(d.data, conn, SHUT_WR) == 0);
    must((sniff().flags & FIN) != 0);
    must(d.close(d.data, ends[0]) == 0 && d.close(d.data, ends[1]) == 0);

    /* packetdrill itself closes numbers at the end: whoever gets the number next gets a new socket. */
    must(close(conn) == 0);
    fd = stream();
    must(d.read(d.data, fd, room, 1) == -1 && errno == ENOTCONN);
    must(d.close(d.data, fd) == 0);

    must(d.socket(d.data, AF_UNIX, SOCK_STREAM, 0) == -1 && errno == EAFNOSUPPORT);
    must(d.bind(d.data, 0, with_port(&local, 1), addr_len) == -1 && errno == EBADF);
    must(d.bind(d.data, listening, NULL, 0) == -1 && errno == EFAULT);
    must(d.close(d.data, listening) == 0);
}

/* What packetdrill asks the C library about a number of ours is answered by the stack. */
static void asked(void)
{
    int listening = listener(9191), value, ends[2];
    uint32_t ours;
    int conn = accepted(listening, 45101, 9191, &ours);
    struct tcp_info info = {0};
    unsigned memory[9];
    uint8_t whole[400];
    socklen_t len = sizeof info;

    must(d.write(d.data, conn, "12345", 5) == 5);
    must(sniff().len == 5);
    must(getsockopt(conn, IPPROTO_TCP, TCP_INFO, &info, &len) == 0);
    must(info.tcpi_state == TCP_ESTABLISHED && info.tcpi_unacked == 1 && info.tcpi_snd_cwnd == 10);
    inject(45101, 9191, ACK, 1001, ours + 5, 0);
    len = sizeof info;
    must(getsockopt(conn, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 && info.tcpi_unacked == 0);
    len = sizeof whole;
    must(getsockopt(conn, IPPROTO_TCP, TCP_INFO, whole, &len) == 0 && len >= 248);
    len = sizeof whole;
    /* Whatever the system's default is. */
    must(d.setsockopt(d.data, conn, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5) == 0);
    must(getsockopt(conn, IPPROTO_TCP, TCP_CC_INFO, whole, &len) == 0 && len == 0);
    len = sizeof memory;
    must(getsockopt(conn, SOL_SOCKET, SO_MEMINFO, memory, &len) == 0 && len == sizeof memory);
    /* Other numbers are the C library's matter. */
    len = sizeof value;
    must(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
    must(getsockopt(ends[0], SOL_SOCKET, SO_TYPE, &value, &len) == 0 && value == SOCK_DGRAM);
    must(close(ends[0]) == 0 && close(ends[1]) == 0);
    must(getsockopt(ends[0], SOL_SOCKET, SO_TYPE, &value, &len) == -1 && errno == EBADF);
    must(d.close(d.data, conn) == 0 && d.close(d.data, listening) == 0);
    must((sniff().flags & FIN) != 0);
}

/* EPOLLET tells of each thing once, and EPOLLEXCLUSIVE cannot be changed. */
static void edges(void)
{
    int listening = listener(9292), epoll = d.epoll_create(d.data, 1), conn;
    uint32_t ours;
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.u64 = 5}, got;
    char room[100];

    conn = accepted(listening, 45102, 9292, &ours);
    must(d.fcntl(d.data, conn, F_SETFL, O_NONBLOCK) == 0);
    must(d.epoll_ctl(d.data, epoll, EPOLL_CTL_ADD, conn, &event) == 0);
    must(d.epoll_wait(d.data, epoll, &got, 1, 0) == 1 && got.events == EPOLLOUT && got.data.u64 == 5);
    must(d.epoll_wait(d.data, epoll, &got, 1, 0) == 0);
    inject(45102, 9292, ACK | PSH, 1001, ours, 10);
    must(d.epoll_wait(d.data, epoll, &got, 1, 0) == 1 && got.events == (EPOLLIN | EPOLLOUT));
    must(d.epoll_wait(d.data, epoll, &got, 1, 20) == 0);
    must(d.read(d.data, conn, room, 4) == 4);
    must(d.epoll_wait(d.data, epoll, &got, 1, 0) == 0);
    inject(45102, 9292, ACK | PSH, 1011, ours, 10);
    must(d.epoll_wait(d.data, epoll, &got, 1, -1) == 1 && (got.events & EPOLLIN) != 0);
    while (sniff().ack != 1021)
        ;
    must(d.epoll_ctl(d.data, epoll, EPOLL_CTL_DEL, conn, NULL) == 0);

    event.events = EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT;
    must(d.epoll_ctl(d.data, epoll, EPOLL_CTL_ADD, conn, &event) == -1 && errno == EINVAL);
    event.events = EPOLLIN | EPOLLEXCLUSIVE;
    must(d.epoll_ctl(d.data, epoll, EPOLL_CTL_ADD, conn, &event) == 0);
    must(d.epoll_wait(d.data, epoll, &got, 1, 0) == 1 && got.events == EPOLLIN);
    must(d.epoll_ctl(d.data, epoll, EPOLL_CTL_MOD, conn, &event) == -1 && errno == EINVAL);
    must(d.close(d.data, epoll) == 0 && d.close(d.data, listening) == 0);
    must(d.read(d.data, conn, room, sizeof room) == 16);
    must(d.close(d.data, conn) == 0);
    must((sniff().flags & FIN) != 0);
}

/* What a stamp says: when, and of what. */
static int64_t stamped(int conn, uint32_t info, uint32_t data)
{
    char control[200];
    struct msghdr msg = {.msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *head;
    struct sock_extended_err error;
    int64_t times[6];

    must(d.recvmsg(d.data, conn, &msg, MSG_ERRQUEUE) == 0 && msg.msg_flags == (MSG_ERRQUEUE | MSG_TRUNC));
    head = CMSG_FIRSTHDR(&msg);
    must(head != NULL && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SO_TIMESTAMPING && head->cmsg_len == CMSG_LEN(48));
    memcpy(times, CMSG_DATA(head), sizeof times);
    must(times[2] == 0 && times[3] == 0 && times[4] == 0 && times[5] == 0);
    head = CMSG_NXTHDR(&msg, head);
    must(head != NULL && head->cmsg_type == (v6 && !mapped ? IPV6_RECVERR : IP_RECVERR));
    memcpy(&error, CMSG_DATA(head), sizeof error);
    must(error.ee_errno == ENOMSG && error.ee_origin == SO_EE_ORIGIN_TIMESTAMPING);
    must(error.ee_info == info && error.ee_data == data);
    return times[0] * 1000000 + times[1] / 1000;
}

static int64_t clock_now(void)
{
    struct timeval now;

    must(d.gettimeofday(d.data, &now, NULL) == 0);
    return now.tv_sec * 1000000LL + now.tv_usec;
}

/* SO_TIMESTAMPING: when bytes left and were acknowledged, and when others came, however late that is asked. Not so late that the FINs of earlier connections leave again. */
static void stamps(int conn, uint32_t *ours)
{
    int wrong = 1 << 30, rx = (1 << 3) | (1 << 4), off = 0;
    int tx = (1 << 1) | (1 << 8) | (1 << 9) | (1 << 4) | (1 << 7), told[2];
    socklen_t len = sizeof told;
    char room[100], control[100];
    struct iovec into = {room, 20};
    struct msghdr msg = {.msg_iov = &into, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct pollfd polled = {.fd = conn, .events = POLLIN};
    int64_t before, sent, acked, times[2];

    must(d.setsockopt(d.data, conn, SOL_SOCKET, SO_TIMESTAMPING, &wrong, sizeof wrong) == -1 && errno == EINVAL);
    must(d.setsockopt(d.data, conn, SOL_SOCKET, SO_TIMESTAMPING, &tx, sizeof tx) == 0);
    must(d.getsockopt(d.data, conn, SOL_SOCKET, SO_TIMESTAMPING, told, &len) == 0 && len == 8 && told[0] == tx && told[1] == 0);
    before = clock_now();
    must(d.send(d.data, conn, "hello", 5, 0) == 5 && sniff().len == 5);
    d.usleep(d.data, 20000);
    inject(45103, 9393, ACK, 1001, *ours + 9 + 5, 0);
    d.usleep(d.data, 50000);
    must(d.poll(d.data, &polled, 1, 0) == 1 && polled.revents == POLLERR);
    must(stamped(conn, 1, 4) >= before);
    sent = stamped(conn, 0, 4);
    acked = stamped(conn, 2, 4);
    must(sent < before + 1000 && acked >= before + 20000 && acked < before + 30000);
    must(d.poll(d.data, &polled, 1, 0) == 0);
    must(d.setsockopt(d.data, conn, SOL_SOCKET, SO_TIMESTAMPING, &rx, sizeof rx) == 0);
    before = clock_now();
    inject(45103, 9393, ACK | PSH, 1001, *ours + 9 + 5, 10);
    d.usleep(d.data, 50000);
    must(d.recvmsg(d.data, conn, &msg, 0) == 10);
    must(CMSG_FIRSTHDR(&msg) != NULL && CMSG_FIRSTHDR(&msg)->cmsg_type == SO_TIMESTAMPING);
    memcpy(times, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof times);
    sent = times[0] * 1000000 + times[1] / 1000;
    must(sent >= before && sent < before + 1000);
    must(d.setsockopt(d.data, conn, SOL_SOCKET, SO_TIMESTAMPING, &off, sizeof off) == 0);
    must(sniff().ack == 1011);
    *ours += 5;
}

/* MSG_ZEROCOPY copies, and says so when the bytes were acknowledged; TCP_INQ tells what waits. */
static void controls(void)
{
    int listening = listener(9393), one = 1, conn;
    uint32_t ours;
    struct pollfd polled = {.events = POLLIN};
    char room[100], control[100];
    struct iovec into = {room, 4};
    struct msghdr msg = {.msg_control = control, .msg_controllen = sizeof control};
    struct sock_extended_err error;

    conn = polled.fd = accepted(listening, 45103, 9393, &ours);
    /* Without the option the flag means nothing. */
    must(d.send(d.data, conn, "xyz", 3, MSG_ZEROCOPY) == 3 && sniff().len == 3);
    must(d.recvmsg(d.data, conn, &msg, MSG_ERRQUEUE) == -1 && errno == EAGAIN);
    must(d.setsockopt(d.data, conn, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof one) == 0);
    inject(45103, 9393, ACK, 1001, ours + 3, 0);
    must(d.send(d.data, conn, "xyz", 3, MSG_ZEROCOPY) == 3 && sniff().len == 3);
    inject(45103, 9393, ACK, 1001, ours + 6, 0);
    must(d.send(d.data, conn, "xyz", 3, MSG_ZEROCOPY) == 3 && sniff().len == 3);
    must(d.poll(d.data, &polled, 1, 0) == 1 && polled.revents == POLLERR);
    inject(45103, 9393, ACK, 1001, ours + 9, 0);
    msg.msg_controllen = sizeof control;
    must(d.recvmsg(d.data, conn, &msg, MSG_ERRQUEUE) == 0 && (msg.msg_flags & MSG_ERRQUEUE) != 0);
    must(CMSG_FIRSTHDR(&msg)->cmsg_type == (v6 && !mapped ? IPV6_RECVERR : IP_RECVERR));
    memcpy(&error, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof error);
    must(error.ee_origin == SO_EE_ORIGIN_ZEROCOPY && error.ee_code == SO_EE_CODE_ZEROCOPY_COPIED);
    must(error.ee_errno == 0 && error.ee_info == 0 && error.ee_data <= 1);

    stamps(conn, &ours);
    must(d.setsockopt(d.data, conn, IPPROTO_TCP, TCP_INQ, &one, sizeof one) == 0);
    inject(45103, 9393, ACK | PSH, 1011, ours + 9, 10);
    msg = (struct msghdr){.msg_iov = &into, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    must(d.recvmsg(d.data, conn, &msg, 0) == 4);
    must(CMSG_FIRSTHDR(&msg)->cmsg_level == IPPROTO_TCP && CMSG_FIRSTHDR(&msg)->cmsg_type == TCP_INQ);
    must(*(int *)CMSG_DATA(CMSG_FIRSTHDR(&msg)) == 6);
    must(sniff().ack == 1021);
    must(d.read(d.data, conn, room, sizeof room) == 6);
    must(d.close(d.data, conn) == 0 && d.close(d.data, listening) == 0);
    must((sniff().flags & FIN) != 0);
}

/* Fast Open: options are checked and told, a listener takes data without a cookie, and a message that connects leaves with its SYN, where the kernel's knob lets them. */
static void early(void)
{
    FILE *knob = fopen("/proc/sys/net/ipv4/tcp_fastopen", "r");
    int fd, listening, conn, many = 5, one = 1, mode = 0, said;
    unsigned char key[32], told[40];
    char room[100];
    socklen_t len;
    struct segment s;
    struct iovec from = {"question", 8};
    struct msghdr msg = {.msg_iov = &from, .msg_iovlen = 1};

    must(knob != NULL && fscanf(knob, "%d", &mode) == 1);
    fclose(knob);
    for (int i = 0; i < 32; i++)
        key[i] = (unsigned char)i;
    fd = stream();
    must(d.setsockopt(d.data, fd, IPPROTO_TCP, 33 /* TCP_FASTOPEN_KEY */, key, 15) == -1 && errno == EINVAL);
    for (size_t n = 16; n <= 32; n += 16) {
        must(d.setsockopt(d.data, fd, IPPROTO_TCP, 33, key, (socklen_t)n) == 0);
        len = sizeof told;
        must(d.getsockopt(d.data, fd, IPPROTO_TCP, 33, told, &len) == 0 && len == n && memcmp(told, key, n) == 0);
    }
    must(d.setsockopt(d.data, fd, IPPROTO_TCP, 30 /* TCP_FASTOPEN_CONNECT */, &many, sizeof many) == -1 && errno == EINVAL);
    must(d.setsockopt(d.data, fd, IPPROTO_TCP, TCP_FASTOPEN, &many, sizeof many) == 0);
    len = sizeof said;
    must(d.getsockopt(d.data, fd, IPPROTO_TCP, TCP_FASTOPEN, &said, &len) == 0 && said == many);
    must(d.close(d.data, fd) == 0);

    listening = listener(9494);
    must(d.setsockopt(d.data, listening, IPPROTO_TCP, TCP_FASTOPEN, &many, sizeof many) == 0);
    must(d.setsockopt(d.data, listening, IPPROTO_TCP, 34 /* TCP_FASTOPEN_NO_COOKIE */, &one, sizeof one) == 0);
    inject(45104, 9494, SYN, 1000, 0, 10);
    s = sniff();
    must(s.flags == (SYN | ACK) && s.ack == (mode & 2 ? 1011 : 1001));
    if (mode & 2) {
        conn = d.accept(d.data, listening, NULL, NULL);
        must(conn > 2 && d.read(d.data, conn, room, sizeof room) == 10);
        must(d.close(d.data, conn) == 0);
    }
    inject(45104, 9494, RST, s.ack, 0, 0);
    must(d.close(d.data, listening) == 0);

    fd = stream();
    must(d.fcntl(d.data, fd, F_SETFL, O_RDWR | O_NONBLOCK) == 0);
    must(d.setsockopt(d.data, fd, IPPROTO_TCP, 34, &one, sizeof one) == 0);
    msg.msg_name = with_port(&remote, 8080);
    msg.msg_namelen = addr_len;
    if (mode & 1)
        must(d.sendmsg(d.data, fd, &msg, MSG_FASTOPEN) == 8);
    else
        must(d.sendmsg(d.data, fd, &msg, MSG_FASTOPEN) == -1 && errno == EINPROGRESS);
    s = sniff();
    must(s.flags == SYN && s.len == (mode & 1 ? 8 : 0));
    inject(8080, s.from, RST | ACK, 0, s.seq + 1, 0);
    must(d.close(d.data, fd) == 0);
}

/* What waits for what never comes ends: no packet after the time limit, and a call that blocks everybody after a day of the stack's own time. */
static void silence(void)
{
    char room[2000];
    size_t count = sizeof room;
    long long at = 0, before = now();
    int fd = listener(7070);
    do {
        count = sizeof room; /* What is left of the scripts before, a FIN that nobody acknowledged. */
        must(d.netdev_receive(d.data, room, &count, &at) == 0);
    } while (count > 0);
    must(now() >= before + 5000000);
    must(d.accept(d.data, fd, NULL, NULL) == -1 && errno == EINTR);
    must(now() - before >= 86400000000LL);
    must(d.close(d.data, fd) == 0);
}

int main(int argc, char **argv)
{
    void (*init)(const char *, struct interface *);
    void *library;
    must(argc == 3);
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    *(void **)&init = dlsym(library, "packetdrill_interface_init");
    must(init != NULL);
    v6 = strstr(argv[2], "ip_version=ipv6") != NULL;
    mapped = strstr(argv[2], "mapped") != NULL;
    if (v6 || mapped) {
        struct sockaddr_in6 *l = (struct sockaddr_in6 *)&local, *r = (struct sockaddr_in6 *)&remote;
        l->sin6_family = r->sin6_family = AF_INET6;
        inet_pton(AF_INET6, mapped ? "::ffff:192.168.0.1" : "fd00::1", &l->sin6_addr);
        inet_pton(AF_INET6, mapped ? "::ffff:192.0.2.1" : "fd01::1", &r->sin6_addr);
        addr_len = sizeof *l;
    } else {
        struct sockaddr_in *l = (struct sockaddr_in *)&local, *r = (struct sockaddr_in *)&remote;
        l->sin_family = r->sin_family = AF_INET;
        memcpy(&l->sin_addr, local4, 4);
        memcpy(&r->sin_addr, remote4, 4);
        addr_len = sizeof *l;
    }
    init(argv[2], &d);
    passive();
    active();
    others();
    asked();
    edges();
    controls();
    early();
    silence();
    d.free(d.data);
    printf("all scripts hold: %s\n", argv[2]);
    return 0;
}
