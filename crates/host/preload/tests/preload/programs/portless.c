/* Streams bound to an address without a port (IP_BIND_ADDRESS_NO_PORT), as proxies have them that connect from one address to many: the port comes with the connection, and one may be used towards several peers. */
#include "common.h"

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

#define SERVERS 4
#define CLIENTS 64

static const char *word(int result)
{
	return result < 0 ? strerrorname_np(errno) : "0";
}

static int port_of(int fd)
{
	struct sockaddr_storage name = name_of(fd);

	return ((struct sockaddr_in *)&name)->sin_port;
}

/* The address is the one that was bound. */
static int is_self(int fd)
{
	struct sockaddr_storage name = name_of(fd), other = self;

	((struct sockaddr_in *)&name)->sin_port = ((struct sockaddr_in *)&other)->sin_port;
	if (name.ss_family == AF_INET)
		return !memcmp(&((struct sockaddr_in *)&name)->sin_addr, &((struct sockaddr_in *)&other)->sin_addr, 4);
	return !memcmp(&((struct sockaddr_in6 *)&name)->sin6_addr, &((struct sockaddr_in6 *)&other)->sin6_addr, 16);
}

static int portless(int kind, int is_any, int asks)
{
	struct sockaddr_storage at = is_any ? (struct sockaddr_storage){.ss_family = self.ss_family} : self;
	int fd = socket(self.ss_family, kind, 0), on = 1, told = -1;
	socklen_t len = sizeof(told);

	printf("%s, set %s", is_any ? "any" : "address", word(setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on))));
	printf(", bind %s", word(bind(fd, (struct sockaddr *)&at, self_len)));
	if (asks)
		printf(", port %d", port_of(fd));
	getsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &told, &len);
	printf(", told %d, bind again %s", told, word(bind(fd, (struct sockaddr *)&at, self_len)));
	return fd;
}

static void connects(int is_any, int asks)
{
	int listening = listener(), fd = portless(SOCK_STREAM, is_any, asks);
	struct sockaddr_storage to = name_of(listening);

	printf(", connect %s", word(connect(fd, (struct sockaddr *)&to, self_len)));
	printf(", port %d, from there %d", port_of(fd) != 0, is_self(fd));
	int one = accept(listening, NULL, NULL);
	char byte = 0;
	printf(", sent %zd", send(fd, "x", 1, 0));
	printf(", got %zd\n", recv(one, &byte, 1, 0));
	close(one);
	close(fd);
	close(listening);
}

static void listens(int is_any, int asks)
{
	int fd = portless(SOCK_STREAM, is_any, asks), one;

	printf(", listen %s", word(listen(fd, 5)));
	printf(", port %d, there %d", port_of(fd) != 0, is_self(fd));
	if (!is_any) {
		one = connected_to(fd);
		printf(", accepted %d", accept(fd, NULL, NULL) >= 0);
		close(one);
	}
	printf("\n");
	close(fd);
}

/* Nobody is there; then somebody is. */
static void tries_again(void)
{
	int listening = listener(), fd = portless(SOCK_STREAM, 0, 1);
	struct sockaddr_storage to = name_of(listening), again;

	close(listening);
	printf(", refused %s", word(connect(fd, (struct sockaddr *)&to, self_len)));
	listening = listener();
	again = name_of(listening);
	printf(", again %s", word(connect(fd, (struct sockaddr *)&again, self_len)));
	printf(", from there %d\n", is_self(fd));
	close(fd);
	close(listening);
}

/* Off again it is as for others, and with a port it changes nothing. */
static void with_a_port(void)
{
	int fd = socket(self.ss_family, SOCK_STREAM, 0), off = 0, on = 1, first = bound(SOCK_STREAM);
	struct sockaddr_storage name = name_of(first);

	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	printf("taken: %s", word(bind(fd, (struct sockaddr *)&name, self_len)));
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &off, sizeof(off));
	printf(", off: %s", word(bind(fd, (struct sockaddr *)&self, self_len)));
	printf(", port %d\n", port_of(fd) != 0);
	close(fd);
	close(first);
}

/* From one address to several servers, as many as are open at once. */
static void many(void)
{
	int servers[SERVERS], clients[CLIENTS], accepted[CLIENTS], failed = 0, on = 1;

	for (int at = 0; at < SERVERS; at++)
		servers[at] = listener();
	for (int at = 0; at < CLIENTS; at++) {
		struct sockaddr_storage to = name_of(servers[at % SERVERS]);
		clients[at] = socket(self.ss_family, SOCK_STREAM, 0);
		setsockopt(clients[at], IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
		failed += bind(clients[at], (struct sockaddr *)&self, self_len) || connect(clients[at], (struct sockaddr *)&to, self_len);
		accepted[at] = accept(servers[at % SERVERS], NULL, NULL);
		failed += accepted[at] < 0;
	}
	printf("many: %d failed\n", failed);
	for (int at = 0; at < CLIENTS; at++) {
		close(clients[at]);
		close(accepted[at]);
	}
	for (int at = 0; at < SERVERS; at++)
		close(servers[at]);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	self_from(argv[1]);
	for (int is_any = 0; is_any < 2; is_any++)
		for (int asks = 0; asks < 2; asks++) {
			connects(is_any, asks);
			listens(is_any, asks);
		}
	tries_again();
	with_a_port();
	many();
	return 0;
}
