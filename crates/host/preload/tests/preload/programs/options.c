/* Options that change what a socket does, seen by what it does. */
#include "common.h"

#include <linux/errqueue.h>
#include <linux/sockios.h>

static int readable(int fd)
{
	struct pollfd one = {.fd = fd, .events = POLLIN};

	return poll(&one, 1, 50);
}

static void low_water(void)
{
	int ends[2], lowat = 100, set = epoll_create1(0);
	socklen_t len = sizeof(lowat);
	struct epoll_event event = {.events = EPOLLIN};
	char text[200] = "";

	pair(ends);
	printf("SO_RCVLOWAT: %d\n", setsockopt(ends[1], SOL_SOCKET, SO_RCVLOWAT, &lowat, sizeof(lowat)));
	lowat = 0;
	getsockopt(ends[1], SOL_SOCKET, SO_RCVLOWAT, &lowat, &len);
	printf("is %d\n", lowat);
	epoll_ctl(set, EPOLL_CTL_ADD, ends[1], &event);
	if (write(ends[0], text, 60) != 60)
		die("write");
	printf("with 60: poll %d, epoll %d\n", readable(ends[1]), epoll_wait(set, &event, 1, 50));
	printf("without waiting: %zd\n", recv(ends[1], text, sizeof(text), MSG_DONTWAIT));
	if (write(ends[0], text, 60) != 60 || write(ends[0], text, 60) != 60)
		die("write");
	printf("with 120: poll %d, epoll %d\n", await(ends[1], POLLIN), epoll_wait(set, &event, 1, 5000));
	printf("recv: %zd\n", recv(ends[1], text, sizeof(text), 0));
	if (write(ends[0], text, 10) != 10)
		die("write");
	printf("a small one does not wait for more than it wants: %zd\n", recv(ends[1], text, 10, 0));
	if (write(ends[0], text, 10) != 10)
		die("write");
	close(ends[0]);
	printf("at the end: poll %d, recv %zd\n", await(ends[1], POLLIN), recv(ends[1], text, sizeof(text), 0));
	close(ends[1]);
	close(set);
}

/* A buffer that is made small after the connection was made: what it cannot hold is not taken. */
static void small_buffer(void)
{
	int ends[2], small = 4096;
	char text[16384] = "";
	size_t taken = 0, got = 0;
	ssize_t len;

	pair(ends);
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	printf("SO_SNDBUF: %d\n", setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)));
	/* The receiver's buffer takes part of it; on from there nothing is taken that the sender's cannot hold. */
	for (int still = 0; still < 20; still++)
		while ((len = write(ends[0], text, sizeof(text))) > 0 || (usleep(5000), 0)) {
			taken += len;
			still = 0;
		}
	printf("then: %s\n", strerrorname_np(errno));
	printf("less than a megabyte waits: %d\n", ioctl(ends[0], SIOCOUTQ, &small) == 0 && small < 1 << 20);
	while (got < taken && (len = recv(ends[1], text, sizeof(text), 0)) > 0)
		got += len;
	printf("all came: %d, writable again: %d\n", got == taken, await(ends[0], POLLOUT));
	printf("and again: %d\n", write(ends[0], text, 100) == 100 && recv(ends[1], text, 100, MSG_WAITALL) == 100);
	close(ends[0]);
	close(ends[1]);
}

/* Writes until nothing is taken any more. */
static size_t filled(int fd)
{
	char text[16384] = "";
	size_t taken = 0;
	ssize_t len;

	for (int still = 0; still < 20; still++)
		while ((len = write(fd, text, sizeof(text))) > 0 || (usleep(5000), 0)) {
			taken += len;
			still = 0;
		}
	return taken;
}

/* A receive buffer that is made small after the connection was made: what was offered before stays so, and no more is offered. */
static void small_receive_buffer(void)
{
	int ends[2], small = 8192, told = 0;
	char text[16384];
	socklen_t size = sizeof(told);

	pair(ends);
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	printf("SO_RCVBUF: %d\n", setsockopt(ends[1], SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)));
	getsockopt(ends[1], SOL_SOCKET, SO_RCVBUF, &told, &size);
	printf("is %d\n", told);
	for (int round = 0; round < 3; round++) {
		size_t taken = filled(ends[0]), got = 0;
		ssize_t len;

		while (got < taken && (len = recv(ends[1], text, sizeof(text), 0)) > 0)
			got += len;
		printf("all came: %d, and they are few: %d\n", got == taken, round == 0 || taken < 100000);
	}
	close(ends[0]);
	close(ends[1]);
}

static void mtu(void)
{
	int fd = socket(AF_INET6, SOCK_DGRAM, 0), values[] = {1279, 1280, 65536};

	for (int i = 0; i < 3; i++)
		printf("IPV6_MTU %d: %s\n", values[i], setsockopt(fd, IPPROTO_IPV6, IPV6_MTU, &values[i], sizeof(values[i])) ? strerrorname_np(errno) : "set");
	close(fd);
	if (self.ss_family != AF_INET6)
		return;
	/* Set before the socket has an address, it goes along. */
	int to = bound(SOCK_DGRAM), least = 1280;
	struct sockaddr_storage name = name_of(to);
	char text[4000];

	fd = socket(AF_INET6, SOCK_DGRAM, 0);
	setsockopt(fd, IPPROTO_IPV6, IPV6_MTU, &least, sizeof(least));
	printf("sent: %zd\n", sendto(fd, text, sizeof(text), 0, (void *)&name, self_len));
	printf("received: %zd\n", recv(to, text, sizeof(text), 0));
	for (int i = 0; i < 3; i++)
		printf("then IPV6_MTU %d: %s\n", values[i], setsockopt(fd, IPPROTO_IPV6, IPV6_MTU, &values[i], sizeof(values[i])) ? strerrorname_np(errno) : "set");
	close(fd);
	close(to);
}

static int get(int fd, int level, int name)
{
	int value = -99;
	socklen_t len = sizeof(value);

	return getsockopt(fd, level, name, &value, &len) ? -errno : value;
}

static const char *set(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? strerrorname_np(errno) : "set";
}

/* What datagrams do where they are too long. */
static void discovery(void)
{
	int v6 = self.ss_family == AF_INET6, fd = bound(SOCK_DGRAM), to = bound(SOCK_DGRAM);
	int level = v6 ? IPPROTO_IPV6 : IPPROTO_IP, name = v6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER;
	struct sockaddr_storage at = name_of(to);
	char text[4000] = "";

	printf("at first: %d\n", get(fd, level, name));
	for (int how = -1; how <= 6; how++) {
		printf("discover %d: %s", how, set(fd, level, name, how));
		printf(", is %d", get(fd, level, name));
		printf(", sent %zd", sendto(fd, text, sizeof(text), 0, (void *)&at, self_len));
		printf(", came %zd\n", recv(to, text, sizeof(text), 0));
	}
	if (connect(fd, (void *)&at, self_len))
		die("connect");
	printf("the path's is known: %d\n", get(fd, level, v6 ? IPV6_MTU : IP_MTU) >= 1280);
	close(fd);
	fd = bound(SOCK_DGRAM);
	printf("not connected: %s\n", strerrorname_np(-get(fd, level, v6 ? IPV6_MTU : IP_MTU)));
	if (v6) {
		printf("IPV6_DONTFRAG: %d", get(fd, level, IPV6_DONTFRAG));
		printf(", %s", set(fd, level, IPV6_DONTFRAG, 1));
		printf(", %d\n", get(fd, level, IPV6_DONTFRAG));
		set(fd, level, IPV6_MTU, 1280);
		for (int len = 1232; len <= 1233; len++)
			printf("%d bytes: %s\n", len, sendto(fd, text, len, 0, (void *)&at, self_len) == len ? "sent" : strerrorname_np(errno));
		printf("IPV6_DONTFRAG: %s\n", set(fd, level, IPV6_DONTFRAG, 0));
		printf("cut: %zd\n", sendto(fd, text, 1233, 0, (void *)&at, self_len));
		/* What was said before the socket had an address goes along. */
		int later = socket(AF_INET6, SOCK_DGRAM, 0);
		printf("early: %s", set(later, level, IPV6_DONTFRAG, 1));
		printf(", %s\n", set(later, level, IPV6_MTU, 1280));
		printf("too long: %s\n", sendto(later, text, 2000, 0, (void *)&at, self_len) < 0 ? strerrorname_np(errno) : "sent");
		printf("is %d\n", get(later, level, IPV6_DONTFRAG));
		close(later);
	}
	close(fd);
	close(to);
}

/* The next error of the queue. */
static void next_error(int fd, const struct sockaddr_storage *to)
{
	char text[64] = "", space[256];
	struct sockaddr_storage name = {0};
	struct iovec vector = {text, sizeof(text) - 1};
	struct msghdr message = {.msg_name = &name, .msg_namelen = sizeof(name), .msg_iov = &vector, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)};
	ssize_t len = recvmsg(fd, &message, MSG_ERRQUEUE);

	if (len < 0) {
		printf("no error: %s\n", strerrorname_np(errno));
		return;
	}
	printf("an error: %zd bytes %s, flags %#x, name of %u is the peer's: %d\n", len, text, message.msg_flags, message.msg_namelen,
	       ((struct sockaddr_in *)&name)->sin_port == ((const struct sockaddr_in *)to)->sin_port && name.ss_family == to->ss_family);
	for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
		struct sock_extended_err *error = (void *)CMSG_DATA(head);
		struct sockaddr_in *v4 = (void *)SO_EE_OFFENDER(error);
		struct sockaddr_in6 *v6 = (void *)v4, *own6 = (void *)&self;
		int ours = v4->sin_family == AF_INET ? v4->sin_addr.s_addr == ((struct sockaddr_in *)&self)->sin_addr.s_addr
		                                     : !memcmp(&v6->sin6_addr, &own6->sin6_addr, 16);

		printf("level %d type %d len %zu: %s origin %d type %d code %d info %u data %u, offender's family %d, is us: %d\n", head->cmsg_level, head->cmsg_type,
		       (size_t)head->cmsg_len, strerrorname_np(error->ee_errno), error->ee_origin, error->ee_type, error->ee_code, error->ee_info, error->ee_data,
		       v4->sin_family, v4->sin_family ? ours : -1);
	}
}

/* A stream keeps what it was told, whatever becomes of its errors. */
static void errors_of_streams(void)
{
	int v6 = self.ss_family == AF_INET6, level = v6 ? IPPROTO_IPV6 : IPPROTO_IP, name = v6 ? IPV6_RECVERR : IP_RECVERR;
	int listening = listener(), before = socket(self.ss_family, SOCK_STREAM, 0), ends[2];
	struct sockaddr_storage to = name_of(listening);

	printf("RECVERR of a stream: %s", set(before, level, name, 1));
	if (connect(before, (void *)&to, self_len))
		die("connect");
	printf(", connected %d", get(before, level, name));
	pair(ends);
	for (int i = 0; i < 2; i++) {
		printf(", %d %s", get(ends[i], level, name), set(ends[i], level, name, 1));
		printf(" %d %s", get(ends[i], level, name), set(ends[i], level, name, 0));
	}
	printf("\n");
	close(before);
	close(listening);
	close(ends[0]);
	close(ends[1]);
}

static void error_queue(void)
{
	int v6 = self.ss_family == AF_INET6, fd = bound(SOCK_DGRAM), gone = bound(SOCK_DGRAM);
	int level = v6 ? IPPROTO_IPV6 : IPPROTO_IP, name = v6 ? IPV6_RECVERR : IP_RECVERR;
	struct sockaddr_storage at = name_of(gone);
	char text[64];

	close(gone);
	next_error(fd, &at);
	printf("RECVERR: %s", set(fd, level, name, 1));
	printf(", %d\n", get(fd, level, name));
	printf("sent: %zd\n", sendto(fd, "lost", 4, 0, (void *)&at, self_len));
	printf("poll: %#x\n", await(fd, POLLIN));
	next_error(fd, &at);
	printf("SO_ERROR after the queue: %d\n", get(fd, SOL_SOCKET, SO_ERROR));
	struct pollfd one = {.fd = fd, .events = POLLIN};
	printf("poll then: %d\n", poll(&one, 1, 0));
	next_error(fd, &at);
	/* The error of the call first, and the queue stays. */
	printf("sent: %zd\n", sendto(fd, "again", 5, 0, (void *)&at, self_len));
	printf("poll: %#x\n", await(fd, POLLIN));
	printf("recv: %s\n", recv(fd, text, sizeof(text), MSG_DONTWAIT) < 0 ? strerrorname_np(errno) : "something");
	printf("poll: %#x\n", await(fd, POLLIN));
	printf("recvfrom: %zd\n", recvfrom(fd, text, sizeof(text), MSG_ERRQUEUE, NULL, NULL));
	if (v6) {
		set(fd, level, IPV6_MTU, 1280);
		set(fd, level, IPV6_DONTFRAG, 1);
		char much[2000] = "";
		printf("too long: %s\n", sendto(fd, much, sizeof(much), 0, (void *)&at, self_len) < 0 ? strerrorname_np(errno) : "sent");
		printf("poll: %#x\n", await(fd, POLLIN));
		next_error(fd, &at);
	}
	printf("off: %s", set(fd, level, name, 0));
	printf(", %d\n", get(fd, level, name));
	close(fd);
}

/* A socket that is bound to no device says so. */
static void device(void)
{
	int ends[2];
	char name[16] = "unchanged";
	socklen_t len = sizeof(name);

	pair(ends);
	printf("SO_BINDTODEVICE: %d", getsockopt(ends[0], SOL_SOCKET, SO_BINDTODEVICE, name, &len));
	printf(", %u bytes\n", len);
	printf("to none: %d\n", setsockopt(ends[0], SOL_SOCKET, SO_BINDTODEVICE, "", 0));
	close(ends[0]);
	close(ends[1]);
}

/* Sends that ask for no copy: each has a number, and those that are done are told on the error queue. */
static void zero_copy(int kind)
{
	int ends[2], level = self.ss_family == AF_INET6 ? IPPROTO_IPV6 : IPPROTO_IP;
	int type = level == IPPROTO_IPV6 ? IPV6_RECVERR : IP_RECVERR;
	char text[3000] = "", space[256];
	unsigned done = 0;

	if (kind == SOCK_STREAM) {
		pair(ends);
	} else {
		ends[0] = bound(kind);
		ends[1] = bound(kind);
		struct sockaddr_storage at = name_of(ends[1]);
		if (connect(ends[0], (void *)&at, self_len))
			die("connect");
	}
	printf("SO_ZEROCOPY: %d, %s", get(ends[0], SOL_SOCKET, SO_ZEROCOPY), set(ends[0], SOL_SOCKET, SO_ZEROCOPY, 2));
	printf(", without it: %zd", send(ends[0], text, sizeof(text), MSG_ZEROCOPY));
	printf(", %s", set(ends[0], SOL_SOCKET, SO_ZEROCOPY, 1));
	printf(", %d\n", get(ends[0], SOL_SOCKET, SO_ZEROCOPY));
	printf("nothing is told: %s\n", recv(ends[0], text, 1, MSG_ERRQUEUE) < 0 ? strerrorname_np(errno) : "something");
	for (int i = 0; i < 3; i++)
		if (send(ends[0], text, sizeof(text), MSG_ZEROCOPY) != sizeof(text))
			die("send");
	for (size_t got = 0; got < 4 * sizeof(text);)
		got += recv(ends[1], text, sizeof(text), 0);
	while (done < 3) {
		struct iovec vector = {text, sizeof(text)};
		struct sockaddr_storage name;
		struct msghdr message = {.msg_name = &name, .msg_namelen = sizeof(name), .msg_iov = &vector, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)};

		if (!(await(ends[0], 0) & POLLERR))
			die("nothing is told");
		ssize_t len = recvmsg(ends[0], &message, MSG_ERRQUEUE);
		struct cmsghdr *head = CMSG_FIRSTHDR(&message);
		struct sock_extended_err *error = (void *)CMSG_DATA(head);
		if (!done)
			printf("told: %d", len == 0 && message.msg_flags == MSG_ERRQUEUE && message.msg_namelen == 0 && head->cmsg_level == level && head->cmsg_type == type);
		if (done)
			goto next;
		/* Whether they were copied after all (SO_EE_CODE_ZEROCOPY_COPIED) too. */
		printf(" %u %u %u %d in order %d", error->ee_errno, error->ee_origin, error->ee_type, error->ee_code <= 1, error->ee_info == done);
		/* How many are told of at once, everybody decides. */
	next:
		done = error->ee_data + 1;
	}
	printf("\nSO_ERROR %d, events %d\n", get(ends[0], SOL_SOCKET, SO_ERROR), poll(&(struct pollfd){.fd = ends[0]}, 1, 0));
	close(ends[0]);
	close(ends[1]);
}

/* What is left to be read is told with each receive. */
static void left_to_read(void)
{
	int ends[2];
	char text[1000] = "", space[256];

	pair(ends);
	printf("TCP_INQ: %d, %s", get(ends[1], IPPROTO_TCP, TCP_INQ), set(ends[1], IPPROTO_TCP, TCP_INQ, 2));
	printf(", %s", set(ends[1], IPPROTO_TCP, TCP_INQ, 1));
	printf(", %d\n", get(ends[1], IPPROTO_TCP, TCP_INQ));
	if (write(ends[0], text, sizeof(text)) != sizeof(text))
		die("write");
	shutdown(ends[0], SHUT_WR);
	/* All of it, and the end. */
	await(ends[1], POLLRDHUP);
	for (int i = 0; i < 4; i++) {
		struct iovec vector = {text, 400};
		struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)};
		ssize_t len = recvmsg(ends[1], &message, 0);
		struct cmsghdr *head = CMSG_FIRSTHDR(&message);

		printf("%zd bytes, flags %d, controls %zu", len, message.msg_flags, (size_t)message.msg_controllen);
		if (head)
			printf(", level %d, type %d: %d", head->cmsg_level, head->cmsg_type, *(int *)CMSG_DATA(head));
		printf("\n");
	}
	close(ends[0]);
	close(ends[1]);
}

static void facts(void)
{
	int ends[2];
	char text[5000] = "";
	uint32_t memory[12] = {0};
	char info[400], congestion[64];
	socklen_t len = sizeof(memory);

	pair(ends);
	if (write(ends[0], text, sizeof(text)) != sizeof(text))
		die("write");
	await(ends[1], POLLIN);
	printf("SO_MEMINFO: %d", getsockopt(ends[1], SOL_SOCKET, SO_MEMINFO, memory, &len));
	printf(", %u bytes, received %d, within %d, drops %u\n", len, memory[0] >= 5000, memory[0] <= memory[1] && memory[5] <= memory[3], memory[8]);
	printf("the bounds are told twice: %d\n", memory[1] == (uint32_t)get(ends[1], SOL_SOCKET, SO_RCVBUF) && memory[3] == (uint32_t)get(ends[1], SOL_SOCKET, SO_SNDBUF));
	printf("set: %s\n", set(ends[0], SOL_SOCKET, SO_MEMINFO, 1));
	len = 10;
	printf("ten bytes: %d", getsockopt(ends[1], SOL_SOCKET, SO_MEMINFO, memory, &len));
	printf(", %u\n", len);
	for (int i = 0; i < 2; i++) {
		const char *name = i ? "reno" : "cubic";

		setsockopt(ends[0], IPPROTO_TCP, TCP_CONGESTION, name, strlen(name));
		len = sizeof(congestion);
		printf("TCP_CC_INFO of %s: %d", name, getsockopt(ends[0], IPPROTO_TCP, TCP_CC_INFO, congestion, &len));
		printf(", %u bytes\n", len);
	}
	len = sizeof(info);
	printf("TCP_INFO: %d", getsockopt(ends[0], IPPROTO_TCP, TCP_INFO, info, &len));
	printf(", %u bytes\n", len);
	close(ends[0]);
	close(ends[1]);
}

/* Numbers that are taken, and what they are then. */
static void numbers(void)
{
	static const struct { const char *text; int name, values[7]; } options[] = {
		{"TCP_SYNCNT", TCP_SYNCNT, {0, 1, 127, 128, -1, 4, 9}},
		{"TCP_LINGER2", TCP_LINGER2, {0, 1, 60, 120, 121, 100000, -1}},
		{"TCP_WINDOW_CLAMP", TCP_WINDOW_CLAMP, {8192, 1, 1152, 1153, -1, 65536, 4096}},
		{"TCP_THIN_LINEAR_TIMEOUTS", TCP_THIN_LINEAR_TIMEOUTS, {0, 1, 2, -1}},
		{"TCP_NOTSENT_LOWAT", TCP_NOTSENT_LOWAT, {0, 1, 16384, -1, 2147483647}},
		{"TCP_THIN_DUPACK", TCP_THIN_DUPACK, {0, 1, 2, -1}},
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		int fd = socket(self.ss_family, SOCK_STREAM, 0), ends[2];

		pair(ends);
		printf("%s: %d\n", options[i].text, get(fd, IPPROTO_TCP, options[i].name));
		for (int at = 0; at < 7; at++) {
			printf("%d: %s", options[i].values[at], set(fd, IPPROTO_TCP, options[i].name, options[i].values[at]));
			printf(" %d", get(fd, IPPROTO_TCP, options[i].name));
			printf(", connected: %s", set(ends[0], IPPROTO_TCP, options[i].name, options[i].values[at]));
			printf(" %d\n", get(ends[0], IPPROTO_TCP, options[i].name));
		}
		close(fd);
		close(ends[0]);
		close(ends[1]);
	}
}

/* No more is taken than may wait to be sent, however much room there is. */
static void not_sent(void)
{
	int ends[2];
	char text[16384];
	struct { char rest[144]; uint32_t bytes; } info;

	pair(ends);
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	printf("TCP_NOTSENT_LOWAT: %s\n", set(ends[0], IPPROTO_TCP, TCP_NOTSENT_LOWAT, 32768));
	for (int round = 0; round < 3; round++) {
		socklen_t len = sizeof(info);
		size_t taken = filled(ends[0]), got = 0;
		struct pollfd one = {.fd = ends[0], .events = POLLOUT};
		ssize_t bytes;

		if (getsockopt(ends[0], IPPROTO_TCP, TCP_INFO, &info, &len))
			die("TCP_INFO");
		/* Linux may be a large segment beyond. */
		printf("waits to be sent: some %d, little %d, writable %d\n", info.bytes > 0, info.bytes <= 32768 + 65536, poll(&one, 1, 0));
		while (got < taken && (bytes = recv(ends[1], text, sizeof(text), 0)) > 0)
			got += bytes;
		printf("all came %d, writable %d\n", got == taken, await(ends[0], POLLOUT));
	}
	fcntl(ends[0], F_SETFL, 0);
	/* A blocked writer goes on as its bytes leave. */
	if (!fork()) {
		for (int i = 0; i < 64; i++)
			if (write(ends[0], text, sizeof(text)) != sizeof(text))
				_exit(1);
		_exit(0);
	}
	for (size_t got = 0; got < 64 * sizeof(text);) {
		ssize_t bytes = recv(ends[1], text, sizeof(text), 0);

		if (bytes <= 0)
			die("recv");
		got += bytes;
	}
	int status;
	wait(&status);
	printf("a blocked writer: %d\n", status);
	close(ends[0]);
	close(ends[1]);
}

/* The segment size that is asked for before the connection, or by the listener. */
static void segment_sizes(void)
{
	for (int who = 0; who < 3; who++) {
		int listening = listener(), fd = socket(self.ss_family, SOCK_STREAM, 0), small = 600, on;
		struct sockaddr_storage to = name_of(listening);
		char text[100];

		if (who == 0)
			printf("TCP_MAXSEG: %s\n", set(fd, IPPROTO_TCP, TCP_MAXSEG, small));
		if (who == 1)
			printf("of a listener: %s\n", set(listening, IPPROTO_TCP, TCP_MAXSEG, small));
		if (who < 2)
			printf("is %d\n", get(who ? listening : fd, IPPROTO_TCP, TCP_MAXSEG));
		if (connect(fd, (void *)&to, self_len))
			die("connect");
		on = accept(listening, NULL, NULL);
		if (who == 2)
			printf("of a connection: %s\n", set(fd, IPPROTO_TCP, TCP_MAXSEG, small));
		else
			printf("then %d and %d\n", get(fd, IPPROTO_TCP, TCP_MAXSEG), get(on, IPPROTO_TCP, TCP_MAXSEG));
		if (write(fd, text, 100) != 100 || recv(on, text, 100, MSG_WAITALL) != 100)
			die("the connection");
		close(listening);
		close(fd);
		close(on);
	}
}

static volatile int told, told_of = -1;

static void on_signal(int signal, siginfo_t *info, void *context)
{
	told++;
	told_of = info->si_fd;
}

/* Waits until there was one more signal. */
static int next_signal(int before)
{
	for (int i = 0; i < 1000 && told == before; i++)
		usleep(5000);
	return told > before;
}

static void signals_of_arrivals(void)
{
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
	int ends[2], before, on = 1, to = bound(SOCK_DGRAM);
	struct sockaddr_storage name = name_of(to);
	char text[16];

	pair(ends);
	sigaction(SIGIO, &action, NULL);
	sigaction(SIGRTMIN + 3, &action, NULL);
	fcntl(ends[1], F_SETOWN, getpid());
	printf("O_ASYNC: %d\n", fcntl(ends[1], F_SETFL, O_ASYNC));
	printf("is set: %d, for us: %d\n", (fcntl(ends[1], F_GETFL) & O_ASYNC) != 0, fcntl(ends[1], F_GETOWN) == getpid());
	before = told;
	if (write(ends[0], "one", 3) != 3)
		die("write");
	printf("told: %d\n", next_signal(before));
	await(ends[1], POLLIN);
	recv(ends[1], text, sizeof(text), 0);
	fcntl(ends[1], F_SETSIG, SIGRTMIN + 3);
	before = told;
	if (write(ends[0], "two", 3) != 3)
		die("write");
	/* First the wait, then a look: who calls may work out arguments in any order. */
	int came = next_signal(before);
	printf("told: %d, of the descriptor: %d\n", came, told_of == ends[1]);
	fcntl(ends[1], F_SETFL, 0);
	usleep(100000);
	before = told;
	if (write(ends[0], "six", 3) != 3)
		die("write");
	usleep(300000);
	printf("told no more: %d\n", told == before);
	fcntl(to, F_SETOWN, getpid());
	printf("FIOASYNC: %d\n", ioctl(to, FIOASYNC, &on));
	before = told;
	printf("sent: %zd\n", sendto(to, "x", 1, 0, (void *)&name, self_len));
	printf("told: %d\n", next_signal(before));
	close(to);
	close(ends[0]);
	close(ends[1]);
}

/* What nobody has set is told, also of sockets that have an address. */
static void untouched(int kind)
{
	static const struct {
		const char *name;
		int number;
	} options[] = {
		{"SO_INCOMING_NAPI_ID", 56}, {"SO_PEEK_OFF", 42}, {"SO_LOCK_FILTER", 44}, {"SO_SELECT_ERR_QUEUE", 45},
		{"SO_BINDTOIFINDEX", 62}, {"SO_PREFER_BUSY_POLL", 69}, {"SO_BUF_LOCK", 72}, {"SO_RESERVE_MEM", 73}, {"SO_RCVMARK", 75},
		{"SO_INCOMING_CPU", 49},
	};
	int fd = bound(kind);

	for (size_t at = 0; at < sizeof(options) / sizeof(*options); at++) {
		int value = 7;
		socklen_t len = sizeof(value);
		int result = getsockopt(fd, SOL_SOCKET, options[at].number, &value, &len);
		printf("%s: %d, %d, %u bytes\n", options[at].name, result, value, len);
	}
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	self_from(argv[1]);
	low_water();
	small_buffer();
	small_receive_buffer();
	mtu();
	discovery();
	errors_of_streams();
	error_queue();
	device();
	zero_copy(SOCK_STREAM);
	zero_copy(SOCK_DGRAM);
	left_to_read();
	facts();
	numbers();
	not_sent();
	segment_sizes();
	signals_of_arrivals();
	untouched(SOCK_STREAM);
	untouched(SOCK_DGRAM);
	return 0;
}
