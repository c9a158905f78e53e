/* Control messages beside datagrams, of sockets of one family and of both: what comes, what is cut, and what may be said. */
#include "common.h"

static const char *v4, *v6;

static const char *word(ssize_t result)
{
	static char text[16];

	snprintf(text, sizeof(text), "%zd", result);
	return result < 0 ? strerrorname_np(errno) : text;
}

/* The next datagram, and each message beside it. */
static void show(int fd, size_t room)
{
	char bytes[64], control[256];
	struct iovec vector = {bytes, sizeof(bytes)};
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = room ? control : NULL, .msg_controllen = room};

	await(fd, POLLIN);
	printf("  room %zu: %s", room, word(recvmsg(fd, &message, MSG_DONTWAIT)));
	printf(" flags %x, %zu bytes", message.msg_flags, message.msg_controllen);
	for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
		unsigned char *data = CMSG_DATA(head);
		char name[64] = "";

		printf(" [%d/%d of %zu:", head->cmsg_level, head->cmsg_type, head->cmsg_len);
		if (head->cmsg_level == IPPROTO_IP && head->cmsg_type == IP_PKTINFO && head->cmsg_len >= CMSG_LEN(12)) {
			struct in_pktinfo *info = (void *)data;

			inet_ntop(AF_INET, &info->ipi_addr, name, sizeof(name));
			printf(" %d %d %d", info->ipi_ifindex != 0, !strcmp(name, v4), info->ipi_addr.s_addr == info->ipi_spec_dst.s_addr);
		} else if (head->cmsg_level == IPPROTO_IPV6 && head->cmsg_type == IPV6_PKTINFO && head->cmsg_len >= CMSG_LEN(20)) {
			struct in6_pktinfo *info = (void *)data;

			inet_ntop(AF_INET6, &info->ipi6_addr, name, sizeof(name));
			printf(" %d %s", info->ipi6_ifindex != 0, strcmp(name, v6) ? strncmp(name, "::ffff:", 7) ? name : "mapped" : "v6");
		} else if (head->cmsg_type != IP_PKTINFO && head->cmsg_type != IPV6_PKTINFO) {
			for (size_t at = 0; at + CMSG_LEN(0) < head->cmsg_len; at++)
				printf(" %d", data[at]);
		}
		printf("]");
	}
	printf("\n");
}

struct said {
	int level, kind;
	int len;
	int value;
	const char *what;
};

static const struct said messages[] = {
	{IPPROTO_IP, IP_TOS, 4, 0x20, "IP_TOS"},
	{IPPROTO_IP, IP_TTL, 4, 7, "IP_TTL"},
	{IPPROTO_IP, IP_TTL, 4, 300, "IP_TTL 300"},
	{IPPROTO_IP, IP_TTL, 2, 7, "IP_TTL short"},
	{IPPROTO_IP, 99, 4, 1, "an unknown one of IP"},
	{IPPROTO_IPV6, IPV6_TCLASS, 4, 0x40, "IPV6_TCLASS"},
	{IPPROTO_IPV6, IPV6_HOPLIMIT, 4, 9, "IPV6_HOPLIMIT"},
	{IPPROTO_IPV6, IPV6_HOPLIMIT, 4, 300, "IPV6_HOPLIMIT 300"},
	{IPPROTO_IPV6, 200, 4, 1, "an unknown one of IPv6"},
	{9, 9, 4, 1, "an unknown level"},
	{IPPROTO_TCP, 1, 4, 1, "one of TCP"},
	{IPPROTO_UDP, 1, 4, 1, "an unknown one of UDP"},
	{SOL_SOCKET, SO_MARK, 4, 0, "SO_MARK 0"},
	{SOL_SOCKET, SO_MARK, 2, 0, "SO_MARK short"},
	{SOL_SOCKET, SO_TYPE, 4, 0, "an unknown one of the socket"},
};

static int say(int fd, struct sockaddr_storage *to, socklen_t len, int level, int kind, const void *data, int data_len)
{
	char control[128] = {0};
	struct iovec vector = {"abc", 3};
	struct msghdr message = {to, len, &vector, 1, control, CMSG_SPACE(data_len), 0};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	*head = (struct cmsghdr){CMSG_LEN(data_len), level, kind};
	memcpy(CMSG_DATA(head), data, data_len);
	return sendmsg(fd, &message, 0);
}

static void family(const char *what, int domain, int mapped, int connected)
{
	struct sockaddr_storage addr = {.ss_family = domain}, *to = connected ? NULL : &addr;
	struct sockaddr_in *in = (void *)&addr;
	struct sockaddr_in6 *in6 = (void *)&addr;
	socklen_t len = domain == AF_INET ? sizeof(*in) : sizeof(*in6), to_len = connected ? 0 : len;
	int receiver = socket(domain, SOCK_DGRAM, 0), sender = socket(domain, SOCK_DGRAM, 0), on = 1;
	int ip[] = {IP_PKTINFO, IP_RECVTOS, IP_RECVTTL}, ipv6[] = {IPV6_RECVPKTINFO, IPV6_RECVTCLASS, IPV6_RECVHOPLIMIT};
	char text[64];

	printf("%s%s\n", what, connected ? ", connected" : "");
	if (domain == AF_INET)
		inet_pton(AF_INET, v4, &in->sin_addr);
	else {
		snprintf(text, sizeof(text), "%s%s", mapped ? "::ffff:" : "", mapped ? v4 : v6);
		inet_pton(AF_INET6, text, &in6->sin6_addr);
	}
	if (bind(receiver, (void *)&addr, len) || bind(sender, (void *)&addr, len))
		die("bind");
	getsockname(receiver, (void *)&addr, &len);
	if (connected)
		connect(sender, (void *)&addr, len);
	for (int at = 0; at < 3; at++) {
		if (setsockopt(receiver, IPPROTO_IP, ip[at], &on, sizeof(on)))
			die("setsockopt");
		sendto(sender, "x", 1, 0, (void *)to, to_len);
		show(receiver, 256);
	}
	for (int at = 0; domain == AF_INET6 && at < 3; at++) {
		if (setsockopt(receiver, IPPROTO_IPV6, ipv6[at], &on, sizeof(on)))
			die("setsockopt");
		sendto(sender, "x", 1, 0, (void *)to, to_len);
		show(receiver, 256);
	}
	for (size_t room = 0; room < 120; room += room % 8 == 4 ? 4 : 6 + room % 3) {
		sendto(sender, "x", 1, 0, (void *)to, to_len);
		show(receiver, room);
	}
	for (size_t at = 0; at < sizeof(messages) / sizeof(*messages); at++) {
		const struct said *said = &messages[at];
		int sent = say(sender, to, to_len, said->level, said->kind, &said->value, said->len);

		printf(" %s: %s\n", said->what, word(sent));
		if (sent > 0)
			show(receiver, 256);
	}
	struct in_pktinfo info = {0};
	struct in6_pktinfo info6 = {0};
	printf(" IP_PKTINFO of nothing: %s\n", word(say(sender, to, to_len, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info))));
	inet_pton(AF_INET, v4, &info.ipi_spec_dst);
	printf(" IP_PKTINFO of ours: %s\n", word(say(sender, to, to_len, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info))));
	printf(" IPV6_PKTINFO of nothing: %s\n", word(say(sender, to, to_len, IPPROTO_IPV6, IPV6_PKTINFO, &info6, sizeof(info6))));
	inet_pton(AF_INET6, domain == AF_INET6 && !mapped ? v6 : (snprintf(text, sizeof(text), "::ffff:%s", v4), text), &info6.ipi6_addr);
	printf(" IPV6_PKTINFO of ours: %s\n", word(say(sender, to, to_len, IPPROTO_IPV6, IPV6_PKTINFO, &info6, sizeof(info6))));
	close(receiver);
	close(sender);
}

int main(int argc, char **argv)
{
	const char *addr = argc > 1 ? argv[1] : "127.0.0.1";
	int kernels = !strcmp(addr, "127.0.0.1") || !strcmp(addr, "::1");

	v4 = kernels ? "127.0.0.1" : "172.16.1.1";
	v6 = kernels ? "::1" : "fd00:1::1";
	setvbuf(stdout, NULL, _IOLBF, 0);
	self_from(addr);
	for (int connected = 0; connected < 2; connected++) {
		family("IPv4", AF_INET, 0, connected);
		family("IPv6", AF_INET6, 0, connected);
		family("IPv6 over IPv4", AF_INET6, 1, connected);
	}
	return 0;
}
