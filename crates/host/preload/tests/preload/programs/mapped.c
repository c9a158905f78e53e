/* IPv6 sockets that are bound to addresses of IPv4: to the wildcard one (::ffff:0.0.0.0) they are for IPv4 only. */
#include "common.h"

static const char *v4, *v6;

static const char *word(int result)
{
	return result < 0 ? strerrorname_np(errno) : "0";
}

static struct sockaddr_in6 in6(const char *text, unsigned short port)
{
	struct sockaddr_in6 addr = {.sin6_family = AF_INET6, .sin6_port = port};

	if (inet_pton(AF_INET6, text, &addr.sin6_addr) != 1)
		die(text);
	return addr;
}

/* The address without the port, which is another each time. */
static const char *name(struct sockaddr_in6 addr)
{
	static char texts[4][64];
	static int next;
	char *text = texts[next++ % 4];

	inet_ntop(AF_INET6, &addr.sin6_addr, text, 64);
	return !strcmp(text, v6) ? "v6" : !strncmp(text, "::ffff:", 7) && !strcmp(text + 7, v4) ? "::ffff:v4" : text;
}

static struct sockaddr_in6 name6(int fd)
{
	struct sockaddr_in6 addr = {0};
	socklen_t len = sizeof(addr);

	getsockname(fd, (void *)&addr, &len);
	return addr;
}

/* One that nobody has, over either family. */
static unsigned short free_port(int kind)
{
	int fd = socket(AF_INET6, kind, 0), off = 0;
	struct sockaddr_in6 any = in6("::", 0);

	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, (void *)&any, sizeof(any)))
		die("bind");
	any = name6(fd);
	close(fd);
	return any.sin6_port;
}

enum way { BY_NUMBER, BY_ZERO, ASKED, HANDED, WAYS };
static const char *ways[] = {"by its number", "by 0", "by 0 and asked", "by 0 and handed over"};

static int make(int kind, const char *where, enum way way, int v6_only)
{
	struct sockaddr_in6 addr;
	int fd, result;

	addr = in6(where, way == BY_NUMBER ? free_port(kind) : 0);
	fd = socket(AF_INET6, kind, 0);
	if (v6_only >= 0)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof(v6_only));
	while ((result = bind(fd, (void *)&addr, sizeof(addr))) && errno == EADDRINUSE)
		addr.sin6_port = free_port(kind);
	printf("%s %s %s v6only %d: bind %s", kind == SOCK_STREAM ? "stream" : "datagrams", where == v4 ? "v4" : where, ways[way], v6_only, word(result));
	if (way == ASKED)
		name6(fd);
	if (way == HANDED) {
		int channel[2];

		socketpair(AF_UNIX, SOCK_STREAM, 0, channel);
		pass_fd(channel[0], fd);
		close(fd);
		fd = receive_fd(channel[1]);
		close(channel[0]);
		close(channel[1]);
	}
	return fd;
}

static void serve(int kind, const char *where, enum way way, int v6_only)
{
	const char *to[] = {v4, v6, "::"};
	int fd = make(kind, where, way, v6_only), only = -1;
	socklen_t len = sizeof(only);
	char bytes[8];

	if (kind == SOCK_STREAM)
		printf(", listen %s", word(listen(fd, 4)));
	else {
		struct timeval soon = {0, 1000};

		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon));
		printf(", recv %s", word(recv(fd, bytes, sizeof(bytes), 0)));
	}
	printf(", name %s", name(name6(fd)));
	getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, &len);
	printf(", v6only %d\n", only);
	for (int i = 0; i < 3; i++) {
		char mapped[64];
		struct sockaddr_in6 peer;
		int client = socket(AF_INET6, kind, 0), result;

		snprintf(mapped, sizeof(mapped), "%s%s", i ? "" : "::ffff:", to[i]);
		peer = in6(mapped, name6(fd).sin6_port);
		result = connect(client, (void *)&peer, sizeof(peer));
		printf("  connect to %s: %s", i == 2 ? ":: " : name(peer), word(result));
		if (kind == SOCK_DGRAM && result == 0) {
			printf(", send %s", word(send(client, "x", 1, 0)));
			printf(", comes %d", i == 2 ? 0 : await(i == 0 ? fd : client, POLLIN));
			if (i == 1)
				printf(", recv %s", word(recv(client, bytes, sizeof(bytes), 0)));
		}
		printf("\n");
		close(client);
	}
	/* IPv6's part of the port is another's. */
	{
		struct sockaddr_in6 beside = in6("::", name6(fd).sin6_port);
		int other = socket(AF_INET6, kind, 0), on = 1;

		setsockopt(other, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
		printf("  beside it :: %s\n", word(bind(other, (void *)&beside, sizeof(beside))));
		close(other);
	}
	close(fd);
}

/* Where it goes from such an address. */
static void go(int kind, const char *where, enum way way)
{
	const char *to[] = {v4, v6};

	for (int i = 0; i < 2; i++) {
		int fd = make(kind, where, way, -1), server = socket(AF_INET6, kind, 0);
		char mapped[64];
		struct sockaddr_in6 peer;

		snprintf(mapped, sizeof(mapped), "%s%s", i ? "" : "::ffff:", to[i]);
		peer = in6(mapped, 0);
		if (bind(server, (void *)&peer, sizeof(peer)) || kind == SOCK_STREAM && listen(server, 4))
			die("server");
		peer = name6(server);
		if (kind == SOCK_DGRAM && i == 0)
			printf(", sendto %s %s", name(peer), word(sendto(fd, "x", 1, 0, (void *)&peer, sizeof(peer))));
		printf(", connect to %s %s", name(peer), word(connect(fd, (void *)&peer, sizeof(peer))));
		printf(", name %s\n", name(name6(fd)));
		close(fd);
		close(server);
	}
}

/* The longest datagrams are those of the family that they go over. */
static void longest(const char *where)
{
	static const size_t sizes[] = {65507, 65508, 65519, 65520, 65526, 65527, 65528};
	static char bytes[70000];
	struct sockaddr_in6 at = in6(where, 0);
	int to = socket(AF_INET6, SOCK_DGRAM, 0), from = socket(AF_INET6, SOCK_DGRAM, 0), off = 0;
	struct timeval limit = {20, 0};

	setsockopt(to, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	setsockopt(to, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (bind(to, (void *)&at, sizeof(at)))
		die("bind");
	at = name6(to);
	for (int connects = 0; connects < 2; connects++) {
		printf("%s, connected %d:", name(at), connects);
		if (connects && connect(from, (void *)&at, sizeof(at)))
			die("connect");
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			ssize_t sent = connects ? send(from, bytes, sizes[i], 0) : sendto(from, bytes, sizes[i], 0, (void *)&at, sizeof(at));
			printf(" %zu %s", sizes[i], word(sent < 0 ? -1 : 0));
			if (sent >= 0)
				printf(" got %zd", recv(to, bytes, sizeof(bytes), 0));
		}
		printf("\n");
	}
	close(to);
	close(from);
}

int main(int argc, char **argv)
{
	const char *addr = argc > 1 ? argv[1] : "127.0.0.1";
	int kernels = !strcmp(addr, "127.0.0.1") || !strcmp(addr, "::1");

	v4 = kernels ? "127.0.0.1" : "172.16.1.1";
	v6 = kernels ? "::1" : "fd00:1::1";
	self_from(v6);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int kind = SOCK_STREAM; kind <= SOCK_DGRAM; kind++) {
		for (int way = 0; way < WAYS; way++) {
			serve(kind, "::ffff:0.0.0.0", way, 0);
			go(kind, "::ffff:0.0.0.0", way);
		}
		serve(kind, "::ffff:0.0.0.0", BY_NUMBER, -1);
		make(kind, "::ffff:0.0.0.0", BY_NUMBER, 1);
		printf("\n");
		make(kind, "::ffff:0.0.0.0", BY_ZERO, 1);
		printf("\n");
	}
	char mapped[64];

	snprintf(mapped, sizeof(mapped), "::ffff:%s", v4);
	longest(mapped);
	longest(v6);
	return 0;
}
