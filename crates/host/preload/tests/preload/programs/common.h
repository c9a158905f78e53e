/* What the test programs share: an address from the command line, sockets bound to it, and connected pairs. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef TCP_INQ
#define TCP_INQ 36
#endif
#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif
#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY 60
#endif

/* Longer than anything takes here; only what hangs reaches it. */
#define TIME_LIMIT_S 60

static struct sockaddr_storage self;
static socklen_t self_len;

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(3);
}

/* Reads the address of the command line, with port 0. */
static void self_from(const char *text)
{
	struct sockaddr_in *v4 = (void *)&self;
	struct sockaddr_in6 *v6 = (void *)&self;

	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		self_len = sizeof(*v4);
	} else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		self_len = sizeof(*v6);
	} else {
		fprintf(stderr, "no address: %s\n", text);
		exit(2);
	}
	alarm(TIME_LIMIT_S);
}

/* A socket of this kind, bound to the address and a free port. */
static __attribute__((unused)) int bound(int kind)
{
	int fd = socket(self.ss_family, kind, 0);

	if (fd < 0 || bind(fd, (void *)&self, self_len))
		die("bind");
	return fd;
}

static __attribute__((unused)) int listener(void)
{
	int fd = bound(SOCK_STREAM);

	if (listen(fd, 16))
		die("listen");
	return fd;
}

/* Where a socket is bound. */
static __attribute__((unused)) struct sockaddr_storage name_of(int fd)
{
	struct sockaddr_storage name;
	socklen_t len = sizeof(name);

	if (getsockname(fd, (void *)&name, &len))
		die("getsockname");
	return name;
}

static __attribute__((unused)) int connected_to(int listening)
{
	struct sockaddr_storage to = name_of(listening);
	int fd = socket(self.ss_family, SOCK_STREAM, 0);

	if (fd < 0 || connect(fd, (void *)&to, self_len))
		die("connect");
	return fd;
}

/* A connection: both ends. */
static __attribute__((unused)) void pair(int ends[2])
{
	int listening = listener();

	ends[0] = connected_to(listening);
	ends[1] = accept(listening, NULL, NULL);
	if (ends[1] < 0)
		die("accept");
	close(listening);
}

/* Waits until a socket shows one of these events, for at most ten seconds; what it shows. */
static __attribute__((unused)) int await(int fd, int events)
{
	struct pollfd one = {.fd = fd, .events = events};

	return poll(&one, 1, 10000) == 1 ? one.revents : -1;
}

/* Sends a descriptor along (SCM_RIGHTS). */
static __attribute__((unused)) void pass_fd(int channel, int fd)
{
	char byte = 'f', space[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec vector = {&byte, 1};
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &fd, sizeof(int));
	if (sendmsg(channel, &message, 0) != 1)
		die("sendmsg");
}

/* The descriptor of the next message. */
static __attribute__((unused)) int receive_fd(int channel)
{
	char byte, space[CMSG_SPACE(4 * sizeof(int))];
	struct iovec vector = {&byte, 1};
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)};
	struct cmsghdr *head;
	int fd = -1;

	if (recvmsg(channel, &message, 0) != 1)
		die("recvmsg");
	head = CMSG_FIRSTHDR(&message);
	if (head && head->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(head), sizeof(int));
	if (message.msg_flags)
		printf("flags %x\n", message.msg_flags);
	return fd;
}
