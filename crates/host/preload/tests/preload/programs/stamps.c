/* When data came and when it left: SO_TIMESTAMP, SO_TIMESTAMPNS, SO_TIMESTAMPING by both of their numbers, and SIOCGSTAMP. What is printed is the
 * order and the kinds of stamps, their numbers, and whether each lies between two readings of the clock; no duration. */
#include "common.h"
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <linux/sockios.h>
#include <sys/syscall.h>
#include <time.h>

#define OLD_NUMBERS {SO_TIMESTAMP, SO_TIMESTAMPNS, SO_TIMESTAMPING}
#define NEW_NUMBERS {63, 64, 65}
#define OPT_ID_TCP (1 << 16)

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int get(int fd, int name)
{
	int value[2] = {-99, 0};
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, name, value, &len) ? -errno : value[0];
}

static const char *set(int fd, int name, int value)
{
	return setsockopt(fd, SOL_SOCKET, name, &value, sizeof(value)) ? strerrorname_np(errno) : "set";
}

static void told(int fd)
{
	int names[] = {29, 35, 37, 63, 64, 65};

	for (int i = 0; i < 6; i++)
		printf(" %d", get(fd, names[i]));
	printf("\n");
}

/* What is told of what was set, and what is refused. */
static void values(int kind)
{
	int fd = bound(kind), names[] = {29, 63, 35, 64};
	int flags[] = {0, SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_RX_SOFTWARE, 0x7f, 1 << 19, 1 << 30, -1, SOF_TIMESTAMPING_OPT_STATS,
		       OPT_ID_TCP, SOF_TIMESTAMPING_OPT_ID, SOF_TIMESTAMPING_TX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE | SOF_TIMESTAMPING_RX_HARDWARE};
	char few[3] = {0};
	socklen_t len = sizeof(few);
	struct so_timestamping both = {.flags = SOF_TIMESTAMPING_SOFTWARE};
	struct so_timestamping out;

	told(fd);
	for (int i = 0; i < 4; i++) {
		printf("%d: %s", names[i], set(fd, names[i], 5));
		told(fd);
	}
	printf("off: %s", set(fd, 29, 0));
	told(fd);
	for (int i = 0; i < 10; i++)
		for (int name = 37; name <= 65; name += 28) {
			printf("%d to %#x: %s", name, flags[i], set(fd, name, flags[i]));
			told(fd);
		}
	printf("both parts: %d", setsockopt(fd, SOL_SOCKET, 37, &both, sizeof(both)));
	len = sizeof(out);
	printf(", %d", getsockopt(fd, SOL_SOCKET, 37, &out, &len));
	printf(", %u bytes, %#x, %d\n", len, out.flags, out.bind_phc);
	len = sizeof(few);
	printf("three bytes: %d", getsockopt(fd, SOL_SOCKET, 37, few, &len));
	printf(", %u\n", len);
	printf("too short: %d", setsockopt(fd, SOL_SOCKET, 37, few, 3));
	printf(" %s, %d", strerrorname_np(errno), setsockopt(fd, SOL_SOCKET, 29, few, 3));
	printf(" %s\n", strerrorname_np(errno));
	close(fd);
}

/* The time in a control message of the program's; 0: it has none. Says of what kind it is. */
static int64_t stamp_of(struct cmsghdr *head)
{
	int64_t *parts = (int64_t *)CMSG_DATA(head);

	if (head->cmsg_level != SOL_SOCKET)
		return 0;
	switch (head->cmsg_type) {
	case 29:
	case 63:
		return parts[0] * 1000000000 + parts[1] * 1000;
	case 35:
	case 64:
		return parts[0] * 1000000000 + parts[1];
	case 37:
	case 65:
		printf(" (others %d)", parts[2] || parts[3] || parts[4] || parts[5]);
		return parts[0] * 1000000000 + parts[1];
	}
	return 0;
}

/* Reads, and says of each stamp whether it lies between these times. */
static void read_stamped(int fd, size_t most, int flags, int64_t from, int64_t to)
{
	char text[4000], space[400];
	struct iovec vector = {text, most};
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)};
	ssize_t len = recvmsg(fd, &message, flags);

	printf("  %zd bytes, flags %#x", len, message.msg_flags);
	for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
		printf("; level %d, type %d, %zu bytes", head->cmsg_level, head->cmsg_type, (size_t)head->cmsg_len);
		int64_t at = stamp_of(head);

		if (at)
			printf(", in time: %d", at >= from - from % 1000 && at <= to);
	}
	printf("\n");
}

static void wait_a_second(void)
{
	/* A stamp that is made when the program reads lies behind what it is compared with. */
	usleep(1000000);
}

static void arrivals(int kind)
{
	int names[2][3] = {OLD_NUMBERS, NEW_NUMBERS};
	char text[100] = "";

	for (int number = 0; number < 2; number++)
		for (int i = 0; i < 3; i++) {
			int ends[2];

			if (kind == SOCK_STREAM) {
				pair(ends);
			} else {
				ends[1] = bound(kind);
				struct sockaddr_storage to = name_of(ends[1]);

				ends[0] = socket(self.ss_family, kind, 0);
				if (connect(ends[0], (void *)&to, self_len))
					die("connect");
			}
			int value = i == 2 ? SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE : 1;

			printf("%d: %s\n", names[number][i], set(ends[1], names[number][i], value));
			int64_t before = now();

			send(ends[0], text, 40, 0);
			await(ends[1], POLLIN);
			int64_t between = now();

			if (number == 0)
				wait_a_second();
			read_stamped(ends[1], 10, MSG_PEEK, before, between);
			read_stamped(ends[1], 40, 0, before, between);
			before = now();
			send(ends[0], text, 50, 0);
			await(ends[1], POLLIN);
			between = now();
			read_stamped(ends[1], 30, 0, before, between);
			if (kind == SOCK_STREAM)
				read_stamped(ends[1], 30, 0, before, between);
			printf("off: %s\n", set(ends[1], names[number][i], 0));
			send(ends[0], text, 5, 0);
			read_stamped(ends[1], 40, 0, 0, 0);
			close(ends[0]);
			close(ends[1]);
		}
}

/* Two at once, each with its own time; those of a connection that was accepted, from the first byte on. */
static void more_arrivals(void)
{
	int to = bound(SOCK_DGRAM), from = bound(SOCK_DGRAM), listening = listener();
	struct sockaddr_storage name = name_of(to);
	int64_t times[4];
	char text[10] = "";

	set(to, SO_TIMESTAMP, 1);
	set(to, SO_TIMESTAMPING, SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE);
	times[0] = now();
	sendto(from, text, 1, 0, (void *)&name, self_len);
	await(to, POLLIN);
	times[1] = now();
	usleep(10000);
	times[2] = now();
	sendto(from, text, 2, 0, (void *)&name, self_len);
	usleep(300000);
	times[3] = now();
	usleep(10000);
	read_stamped(to, 10, 0, times[0], times[1]);
	read_stamped(to, 10, 0, times[2], times[3]);

	printf("a listener: %s, %s\n", set(listening, SO_TIMESTAMPNS, 1), set(listening, SO_TIMESTAMPING, SOF_TIMESTAMPING_OPT_ID));
	times[0] = now();
	int out = connected_to(listening);

	send(out, text, 5, 0);
	int in = accept(listening, NULL, NULL);

	await(in, POLLIN);
	times[1] = now();
	usleep(300000);
	told(in);
	read_stamped(in, 10, 0, times[0], times[1]);
	close(out);
	close(in);
	close(listening);
	close(to);
	close(from);
}

/* What the error queue says, until it says nothing for a while. Of which only the payload's end is shown: before it are headers. */
static void told_of_sent(int fd, int count, int64_t from, size_t tail)
{
	int64_t last = 0;

	for (int i = 0; i < count; i++) {
		char text[4000], space[400];
		struct sockaddr_storage name;
		struct iovec vector = {text, sizeof(text)};
		struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space),
					 .msg_name = &name, .msg_namelen = sizeof(name)};

		printf("  POLLERR: %d", await(fd, 0) & POLLERR);
		ssize_t len = recvmsg(fd, &message, MSG_ERRQUEUE);

		if (len < 0) {
			printf(" %s\n", strerrorname_np(errno));
			return;
		}
		printf(", %zd bytes, flags %#x, name %u", len, message.msg_flags, message.msg_namelen);
		if (tail && len >= (ssize_t)tail)
			printf(", ends with %.*s", (int)tail, text + len - tail);
		for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
			printf("; level %d, type %d, %zu bytes", head->cmsg_level, head->cmsg_type, (size_t)head->cmsg_len);
			int64_t at = stamp_of(head);

			if (at) {
				printf(", in time: %d, in order: %d", at >= from - from % 1000 && at <= now(), at >= last - last % 1000);
				last = at;
			} else if (head->cmsg_type == IP_RECVERR || head->cmsg_type == IPV6_RECVERR) {
				struct sock_extended_err *error = (void *)CMSG_DATA(head);

				printf(": %s, origin %d, type %d, code %d, info %d, data %d", strerrorname_np(error->ee_errno), error->ee_origin,
				       error->ee_type, error->ee_code, error->ee_info, error->ee_data);
				printf(", by %d", SO_EE_OFFENDER(error)->sa_family);
			} else if (head->cmsg_type == IP_PKTINFO) {
				struct in_pktinfo *info = (void *)CMSG_DATA(head);

				printf(": by one %d, from %d, to %d", info->ipi_ifindex > 0, info->ipi_spec_dst.s_addr == ((struct sockaddr_in *)&self)->sin_addr.s_addr,
				       info->ipi_addr.s_addr == ((struct sockaddr_in *)&self)->sin_addr.s_addr);
			} else if (head->cmsg_type == IPV6_PKTINFO) {
				struct in6_pktinfo *info = (void *)CMSG_DATA(head);

				printf(": by one %d, to %d", info->ipi6_ifindex > 0, !memcmp(&info->ipi6_addr, &((struct sockaddr_in6 *)&self)->sin6_addr, 16));
			}
		}
		printf("\n");
	}
}

static void nothing_more(int fd)
{
	char text[1];

	printf("  nothing more: %s\n", recv(fd, text, 1, MSG_ERRQUEUE) < 0 ? strerrorname_np(errno) : "something");
}

/* A send with control messages beside it: two numbers at most. */
static void send_with(int fd, const char *text, int type, uint32_t value, int other, uint32_t value2)
{
	union {
		char space[2 * CMSG_SPACE(4)];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec vector = {(char *)text, strlen(text)};
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = CMSG_SPACE(4)};
	struct cmsghdr *head;

	if (other)
		message.msg_controllen = sizeof(control.space);
	head = CMSG_FIRSTHDR(&message);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = type;
	head->cmsg_len = CMSG_LEN(4);
	memcpy(CMSG_DATA(head), &value, 4);
	if (other) {
		head = CMSG_NXTHDR(&message, head);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = other;
		head->cmsg_len = CMSG_LEN(4);
		memcpy(CMSG_DATA(head), &value2, 4);
	}
	printf("  sent beside %d: %zd", type, sendmsg(fd, &message, 0));
	printf("\n");
}

static void datagrams_that_left(void)
{
	int v6 = self.ss_family == AF_INET6, to = bound(SOCK_DGRAM), from = bound(SOCK_DGRAM), on = 1;
	int tx = SOF_TIMESTAMPING_TX_SCHED | SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
	struct sockaddr_storage name = name_of(to);
	int64_t before;

	connect(from, (void *)&name, self_len);
	printf("numbers, without the packet: %s\n", set(from, SO_TIMESTAMPING, tx | SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_TSONLY));
	for (int i = 0; i < 3; i++) {
		before = now();
		send(from, "hello", 5, 0);
		told_of_sent(from, 2, before, 0);
	}
	nothing_more(from);
	printf("several at once\n");
	before = now();
	for (int i = 0; i < 20; i++)
		send(from, "hello", 5, 0);
	told_of_sent(from, 40, before, 0);
	printf("begun anew: %s, %s\n", set(from, SO_TIMESTAMPING, tx), set(from, SO_TIMESTAMPING, tx | SOF_TIMESTAMPING_OPT_ID));
	before = now();
	send(from, "hello", 5, 0);
	told_of_sent(from, 2, before, 5);
	printf("without numbers: %s\n", set(from, SO_TIMESTAMPING, SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE));
	send(from, "hello", 5, 0);
	told_of_sent(from, 1, before, 5);
	printf("nobody wants times: %s\n", set(from, SO_TIMESTAMPING, SOF_TIMESTAMPING_TX_SOFTWARE));
	send(from, "hello", 5, 0);
	told_of_sent(from, 1, before, 5);
	setsockopt(from, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_RECVPKTINFO : IP_PKTINFO, &on, sizeof(on));
	printf("by which way: %s\n", set(from, 65, tx | SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_CMSG));
	set(from, 64, 1);
	before = now();
	send(from, "hello", 5, 0);
	told_of_sent(from, 2, before, 5);
	set(from, 64, 0);
	printf("beside one send: %s\n", set(from, SO_TIMESTAMPING, SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_TSONLY));
	send(from, "hello", 5, 0);
	send_with(from, "hello", SO_TIMESTAMPING, SOF_TIMESTAMPING_TX_SOFTWARE, 0, 0);
	told_of_sent(from, 1, before, 0);
	send_with(from, "hello", 65, SOF_TIMESTAMPING_TX_SCHED, 81, 77);
	told_of_sent(from, 1, before, 0);
	send_with(from, "hello", SO_TIMESTAMPING, SOF_TIMESTAMPING_SOFTWARE, 0, 0);
	send_with(from, "hello", SO_TIMESTAMPING, 0, 0, 0);
	nothing_more(from);
	set(from, SO_TIMESTAMPING, 0);
	send_with(from, "hello", 81, 5, 0, 0);
	nothing_more(from);
	close(to);
	close(from);
}

static void bytes_that_left(void)
{
	int tx = SOF_TIMESTAMPING_TX_SCHED | SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_TX_ACK | SOF_TIMESTAMPING_SOFTWARE;
	char text[3000] = "";
	int64_t before = now();

	for (int tcp = 0; tcp < 2; tcp++) {
		int ends[2], flags = tx | SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_TSONLY | (tcp ? OPT_ID_TCP : 0);

		pair(ends);
		send(ends[0], text, 100, 0);
		recv(ends[1], text, 100, MSG_WAITALL);
		/* Acknowledged, so that it counts for neither. */
		for (int waits = 1; waits; usleep(1000))
			if (ioctl(ends[0], SIOCOUTQ, &waits))
				die("SIOCOUTQ");
		printf("a stream: %s\n", set(ends[0], SO_TIMESTAMPING, flags));
		for (int i = 0; i < 3; i++) {
			before = now();
			send(ends[0], text, 1000 * i + 1, 0);
			told_of_sent(ends[0], 3, before, 0);
			recv(ends[1], text, 1000 * i + 1, MSG_WAITALL);
		}
		nothing_more(ends[0]);
		printf("again: %s\n", set(ends[0], SO_TIMESTAMPING, flags & ~(SOF_TIMESTAMPING_TX_SCHED | SOF_TIMESTAMPING_TX_SOFTWARE)));
		send(ends[0], text, 7, 0);
		told_of_sent(ends[0], 1, before, 0);
		printf("beside one send: %s\n", set(ends[0], SO_TIMESTAMPING, flags & ~(tx & ~SOF_TIMESTAMPING_SOFTWARE)));
		send(ends[0], text, 7, 0);
		send_with(ends[0], "hello", SO_TIMESTAMPING, SOF_TIMESTAMPING_TX_ACK, 0, 0);
		told_of_sent(ends[0], 1, before, 0);
		send_with(ends[0], "hello", 81, 5, 0, 0);
		send_with(ends[0], "hello", 77, 5, 0, 0);
		nothing_more(ends[0]);
		printf("without numbers: %s\n", set(ends[0], SO_TIMESTAMPING, SOF_TIMESTAMPING_TX_ACK | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_TSONLY));
		send(ends[0], text, 7, 0);
		told_of_sent(ends[0], 1, before, 0);
		close(ends[0]);
		close(ends[1]);
	}
}

static void asked(void)
{
	int to = bound(SOCK_DGRAM), from = bound(SOCK_DGRAM), ends[2];
	struct sockaddr_storage name = name_of(to);
	struct timeval time;
	struct timespec fine;
	char text[10] = "";
	int64_t times[2];

	printf("SIOCGSTAMP: %d", ioctl(to, SIOCGSTAMP, &time));
	printf(" %s, %d", strerrorname_np(errno), ioctl(to, SIOCGSTAMPNS, &fine));
	printf(" %s\n", strerrorname_np(errno));
	for (int i = 0; i < 2; i++) {
		times[0] = now();
		sendto(from, text, 5, 0, (void *)&name, self_len);
		await(to, POLLIN);
		times[1] = now();
		usleep(300000);
		recv(to, text, 10, 0);
		printf("%d, %d\n", ioctl(to, SIOCGSTAMP, &time), ioctl(to, SIOCGSTAMPNS, &fine));
		int64_t at = fine.tv_sec * 1000000000LL + fine.tv_nsec;

		printf("in time: %d, the same: %d\n", at >= times[0] && at <= times[1], fine.tv_sec == time.tv_sec && fine.tv_nsec / 1000 == time.tv_usec);
	}
	printf("by the new number: %d", ioctl(to, 0x80108907, &fine));
	/* Of a number the kernel reads 32 bits. musl says it as an int. */
	printf(", as an int: %d, %d", ioctl(to, (int)0x80108907, &fine), (int)syscall(SYS_ioctl, to, (long)(int)0x80108907, &fine));
	printf(", to nowhere: %d", ioctl(to, SIOCGSTAMP, NULL));
	printf(" %s\n", strerrorname_np(errno));
	pair(ends);
	printf("of a stream: %d", ioctl(ends[0], SIOCGSTAMP, &time));
	printf(" %s\n", strerrorname_np(errno));
	close(ends[0]);
	close(ends[1]);
	close(to);
	close(from);
}

/* Linux begins to note when packets come some time after somebody asks, and until then gives the time of reading: so somebody does, and waits for a
 * stamp that is earlier than the reading. */
static void await_stamps(void)
{
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(name);
	int keeps = socket(AF_INET, SOCK_DGRAM, 0), from = socket(AF_INET, SOCK_DGRAM, 0);
	char text[10], space[400];
	struct iovec vector = {text, sizeof(text)};

	set(keeps, SO_TIMESTAMP, 1);
	if (bind(keeps, (void *)&name, len) || getsockname(keeps, (void *)&name, &len))
		return;
	for (int i = 0; i < 200; i++) {
		struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)};

		if (sendto(from, "x", 1, 0, (void *)&name, len) != 1)
			break;
		usleep(50000);
		int64_t reading = now();

		if (recvmsg(keeps, &message, MSG_DONTWAIT) != 1)
			continue;
		struct cmsghdr *head = CMSG_FIRSTHDR(&message);

		if (head && stamp_of(head) < reading)
			break;
	}
	close(from);
}

int main(int count, char **words)
{
	self_from(words[1]);
	await_stamps();
	values(SOCK_DGRAM);
	values(SOCK_STREAM);
	arrivals(SOCK_DGRAM);
	arrivals(SOCK_STREAM);
	more_arrivals();
	datagrams_that_left();
	bytes_that_left();
	asked();
	return 0;
}
