/* Where a connection or a datagram goes that is for no address at all (0.0.0.0, ::). */
#include "common.h"

static const char *shown(const struct sockaddr_storage *name)
{
	static char text[INET6_ADDRSTRLEN];

	if (name->ss_family == AF_INET)
		inet_ntop(AF_INET, &((struct sockaddr_in *)name)->sin_addr, text, sizeof(text));
	else
		inet_ntop(AF_INET6, &((struct sockaddr_in6 *)name)->sin6_addr, text, sizeof(text));
	return text;
}

static socklen_t address(struct sockaddr_storage *name, const char *text, in_port_t port)
{
	struct sockaddr_in *v4 = (void *)name;
	struct sockaddr_in6 *v6 = (void *)name;

	memset(name, 0, sizeof(*name));
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = port;
		return sizeof(*v4);
	}
	inet_pton(AF_INET6, text, &v6->sin6_addr);
	v6->sin6_family = AF_INET6;
	v6->sin6_port = port;
	return sizeof(*v6);
}

static in_port_t port_of(int fd)
{
	struct sockaddr_storage name = name_of(fd);

	return ((struct sockaddr_in *)&name)->sin_port;
}

static void both_names(int fd)
{
	struct sockaddr_storage name;
	socklen_t len = sizeof(name);

	if (getpeername(fd, (void *)&name, &len))
		printf(" no peer: %s", strerror(errno));
	else
		printf(" to %s", shown(&name));
	name = name_of(fd);
	printf(" from %s\n", shown(&name));
}

/* One bound to a port by its number: one that is free at the loopback, and, if others leave it so, at the address too. */
static int server_at(int kind, const char *at, in_port_t *port)
{
	for (int tries = 0; tries < 1000; tries++) {
		struct sockaddr_storage name;
		socklen_t len = address(&name, strchr(at, ':') ? "::1" : "127.0.0.1", 0);
		int server = socket(name.ss_family, kind, 0);

		if (server < 0 || bind(server, (void *)&name, len))
			die("bind");
		*port = port_of(server);
		close(server);
		server = socket(name.ss_family, kind, 0);
		len = address(&name, at, *port);
		if (bind(server, (void *)&name, len) == 0 && (kind == SOCK_DGRAM || listen(server, 1) == 0))
			return server;
		close(server);
	}
	die("server");
}

/* One that listens at `at`, and one that is bound to `from`, if to anything, and connects to `to`. */
static void one(int kind, const char *at, const char *from, const char *to)
{
	struct sockaddr_storage name;
	socklen_t len;
	in_port_t port;
	int server = server_at(kind, at, &port);

	printf("%s at %s, from %s to %s:", kind == SOCK_STREAM ? "stream" : "datagram", at, from ? from : "anywhere", to);
	address(&name, to, 0);
	int client = socket(name.ss_family, kind, 0);
	if (from) {
		len = address(&name, from, 0);
		if (bind(client, (void *)&name, len))
			die("bind");
	}
	len = address(&name, to, port);
	if (kind == SOCK_DGRAM) {
		char byte;
		struct sockaddr_storage sender = {0};
		socklen_t room = sizeof(sender);

		int sent = sendto(client, "x", 1, 0, (void *)&name, len);
		printf(" sent %d", sent);
		if (sent == 1 && await(server, POLLIN) == POLLIN) {
			printf(" received %zd", recvfrom(server, &byte, 1, 0, (void *)&sender, &room));
			printf(" from %s;", shown(&sender));
		}
	}
	if (connect(client, (void *)&name, len)) {
		printf(" %s\n", strerror(errno));
	} else {
		both_names(client);
		if (kind == SOCK_STREAM) {
			int accepted = accept(server, NULL, NULL);
			printf("  accepted");
			both_names(accepted);
			close(accepted);
		}
	}
	close(client);
	close(server);
}

int main(void)
{
	alarm(TIME_LIMIT_S);
	for (int at = 0; at < 2; at++) {
		int kind = at ? SOCK_DGRAM : SOCK_STREAM;

		one(kind, "127.0.0.1", NULL, "0.0.0.0");
		one(kind, "0.0.0.0", NULL, "0.0.0.0");
		one(kind, "0.0.0.0", "127.0.0.1", "0.0.0.0");
		one(kind, "0.0.0.0", "0.0.0.0", "0.0.0.0");
		one(kind, "::1", NULL, "::");
		one(kind, "::", NULL, "::");
		one(kind, "::", "::1", "::");
		one(kind, "::", "::", "::");
		one(kind, "::", NULL, "0.0.0.0");
		one(kind, "127.0.0.1", NULL, "::ffff:0.0.0.0");
		one(kind, "::", NULL, "::ffff:0.0.0.0");
		one(kind, "127.0.0.1", "::ffff:127.0.0.1", "::");
		one(kind, "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0");
		/* All of 127.0.0.0/8 is this machine; a machine's own name is 127.0.1.1 on Debian. */
		one(kind, "0.0.0.0", NULL, "127.0.1.1");
		one(kind, "127.0.1.1", NULL, "127.0.1.1");
		one(kind, "127.0.0.2", "127.0.0.3", "127.0.0.2");
		one(kind, "127.0.0.1", "127.0.0.2", "127.0.0.1");
		one(kind, "::", NULL, "::ffff:127.9.9.9");
	}
	/* Nobody listens. */
	struct sockaddr_storage name;
	socklen_t len = address(&name, "127.0.0.1", 0);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(fd, (void *)&name, len))
		die("bind");
	len = address(&name, "0.0.0.0", port_of(fd));
	int client = socket(AF_INET, SOCK_STREAM, 0);
	int done = connect(client, (void *)&name, len);
	printf("nobody: %d %s\n", done, strerror(errno));
	return 0;
}
