/* Groups, on the interface that has the address of the command line. */
#include "common.h"

#include <net/if.h>

static int v6;
static unsigned own_index;

/* A socket that hears a port at all addresses. */
static int hearer(int port)
{
	struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	int fd = socket(self.ss_family, SOCK_DGRAM, 0);

	if (bind(fd, v6 ? (void *)&in6 : (void *)&in4, self_len))
		die("bind");
	return fd;
}

static void show(const char *what, int failed)
{
	printf("%s: %s\n", what, failed ? strerrorname_np(errno) : "done");
}

static int change(int fd, const char *group, int joins)
{
	if (v6) {
		struct ipv6_mreq mreq = {.ipv6mr_interface = own_index};

		inet_pton(AF_INET6, group, &mreq.ipv6mr_multiaddr);
		return setsockopt(fd, IPPROTO_IPV6, joins ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &mreq, sizeof(mreq));
	}
	struct ip_mreq mreq = {.imr_interface = ((struct sockaddr_in *)&self)->sin_addr};

	inet_pton(AF_INET, group, &mreq.imr_multiaddr);
	return setsockopt(fd, IPPROTO_IP, joins ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &mreq, sizeof(mreq));
}

/* Which interface it says that it sends by, or the address of it. */
static void told_interface(int fd)
{
	union {
		struct in_addr address;
		unsigned index;
	} told = {0};
	socklen_t len = sizeof(told);
	int failed = getsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MULTICAST_IF : IP_MULTICAST_IF, &told, &len);

	printf("told: %d, %u bytes, as set: %d\n", failed, len, v6 ? told.index == own_index : told.address.s_addr == ((struct sockaddr_in *)&self)->sin_addr.s_addr);
}

/* Sends to the group by the interface, from a socket that knows nothing else. */
static void send_to(const char *group, int port, const char *text)
{
	struct sockaddr_storage to = {.ss_family = self.ss_family};
	int fd = socket(self.ss_family, SOCK_DGRAM, 0);

	((struct sockaddr_in *)&to)->sin_port = htons(port);
	if (v6)
		inet_pton(AF_INET6, group, &((struct sockaddr_in6 *)&to)->sin6_addr);
	else
		inet_pton(AF_INET, group, &((struct sockaddr_in *)&to)->sin_addr);
	show("the interface", v6 ? setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &own_index, sizeof(own_index))
				 : setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &((struct sockaddr_in *)&self)->sin_addr, 4));
	told_interface(fd);
	show("sent", sendto(fd, text, strlen(text), 0, (void *)&to, self_len) < 0);
	told_interface(fd);
	close(fd);
}

static void heard(int fd)
{
	char text[64] = "";
	struct pollfd one = {.fd = fd, .events = POLLIN};

	if (poll(&one, 1, 300) == 1 && recv(fd, text, sizeof(text) - 1, 0) >= 0)
		printf("heard: %s\n", text);
	else
		printf("heard nothing\n");
}

static void how(int fd)
{
	int value = 9, level = v6 ? IPPROTO_IPV6 : IPPROTO_IP, ttl = v6 ? IPV6_MULTICAST_HOPS : IP_MULTICAST_TTL;
	int loop = v6 ? IPV6_MULTICAST_LOOP : IP_MULTICAST_LOOP;
	socklen_t len = sizeof(value);

	getsockopt(fd, level, ttl, &value, &len);
	printf("at first %d hops", value);
	value = 4;
	show(", four", setsockopt(fd, level, ttl, &value, sizeof(value)));
	value = 0;
	getsockopt(fd, level, ttl, &value, &len);
	printf("now %d hops\n", value);
	value = 256;
	show("too many", setsockopt(fd, level, ttl, &value, sizeof(value)));
	getsockopt(fd, level, loop, &value, &len);
	printf("loops: %d", value);
	value = 0;
	show(", not", setsockopt(fd, level, loop, &value, sizeof(value)));
	getsockopt(fd, level, loop, &value, &len);
	printf("loops: %d\n", value);
}

/* Bound to the group itself before it is joined, as most receivers do on Linux. */
static void bound_first(const char *group, int port)
{
	struct sockaddr_storage to = {.ss_family = self.ss_family}, name;
	socklen_t len = sizeof(name);
	int fd = socket(self.ss_family, SOCK_DGRAM, 0), on = 1;

	((struct sockaddr_in *)&to)->sin_port = htons(port);
	if (v6)
		inet_pton(AF_INET6, group, &((struct sockaddr_in6 *)&to)->sin6_addr);
	else
		inet_pton(AF_INET, group, &((struct sockaddr_in *)&to)->sin_addr);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	show("bind to the group", bind(fd, (void *)&to, self_len));
	show("join after", change(fd, group, 1));
	getsockname(fd, (void *)&name, &len);
	printf("its name is the group's: %d\n", !memcmp(&name, &to, self_len));
	send_to(group, port, "bound first");
	heard(fd);
	close(fd);
}

/* No interface is named, neither to join on nor to send by: as the route to the group leads. */
static void by_route(const char *group, int port, int binds_first, int to_the_group)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)}, name = to;
	struct ip_mreq mreq = {};
	int fd = socket(AF_INET, SOCK_DGRAM, 0), sends = socket(AF_INET, SOCK_DGRAM, 0);

	inet_pton(AF_INET, group, &to.sin_addr);
	mreq.imr_multiaddr = to.sin_addr;
	if (to_the_group)
		name = to;
	if (binds_first)
		show("bind", bind(fd, (void *)&name, sizeof(name)));
	show("join on none", setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &mreq, sizeof(mreq)));
	if (!binds_first)
		show("bind", bind(fd, (void *)&name, sizeof(name)));
	show("sent", sendto(sends, "by the route", 12, 0, (void *)&to, sizeof(to)) < 0);
	heard(fd);
	close(sends);
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	self_from(argv[1]);
	v6 = self.ss_family == AF_INET6;
	own_index = if_nametoindex("loop0");
	if (!own_index)
		own_index = if_nametoindex("lo");
	const char *group = v6 ? "ff15::4:7" : "239.4.7.1", *other = v6 ? "ff15::4:8" : "239.4.7.2";
	int port = 20000 + getpid() % 20000, fd = hearer(port);

	show("join", change(fd, group, 1));
	show("join again", change(fd, group, 1));
	show("no group", change(fd, argv[1], 1));
	show("leave another", change(fd, other, 0));
	send_to(group, port, "to the group");
	heard(fd);
	how(fd);
	show("leave", change(fd, group, 0));
	show("leave again", change(fd, group, 0));
	struct group_req request = {.gr_interface = own_index};
	struct sockaddr_storage *named = &request.gr_group;

	named->ss_family = self.ss_family;
	if (v6)
		inet_pton(AF_INET6, other, &((struct sockaddr_in6 *)named)->sin6_addr);
	else
		inet_pton(AF_INET, other, &((struct sockaddr_in *)named)->sin_addr);
	show("MCAST_JOIN_GROUP", setsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, MCAST_JOIN_GROUP, &request, sizeof(request)));
	send_to(other, port, "to another");
	heard(fd);
	close(fd);
	/* Joined before the socket has an address. */
	fd = socket(self.ss_family, SOCK_DGRAM, 0);
	show("join before bind", change(fd, group, 1));
	struct sockaddr_storage any = {.ss_family = self.ss_family};

	((struct sockaddr_in *)&any)->sin_port = htons(port + 1);
	show("bind", bind(fd, (void *)&any, self_len));
	send_to(group, port + 1, "joined before");
	heard(fd);
	bound_first(group, port + 2);
	if (getenv("GROUPS_ROUTED"))
		for (int way = 0; way < 4; way++)
			by_route(group, port + 3 + way, way & 1, way & 2);
	return 0;
}
