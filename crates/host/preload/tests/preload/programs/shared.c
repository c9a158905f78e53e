/* One address and port for many: streams that connect from it to peers of their own, beside a listener too, and datagram sockets with a peer each. */
#include "common.h"

#define MANY 300

static const char *told(int result)
{
	return result < 0 ? strerrorname_np(errno) : "done";
}

static int sharing(int kind, int how)
{
	int fd = socket(self.ss_family, kind, 0), on = 1;

	if (fd < 0 || (how & 1 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on))) ||
	    (how & 2 && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on))))
		die("socket");
	return fd;
}

/* Of three sockets with one name the first listens, before or after, or not at all; the others connect. */
static void streams(int how, int order, const struct sockaddr_storage servers[2])
{
	int one = sharing(SOCK_STREAM, how), other = sharing(SOCK_STREAM, how), third = sharing(SOCK_STREAM, how);
	struct sockaddr_storage name = self, near, far;
	socklen_t len = sizeof(near);

	printf("sharing %d, order %d:", how, order);
	printf(" bind %s", told(bind(one, (void *)&name, self_len)));
	name = name_of(one);
	if (order == 2)
		printf(" listen %s", told(listen(one, 5)));
	printf(" bind %s", told(bind(other, (void *)&name, self_len)));
	printf(" bind %s", told(bind(third, (void *)&name, self_len)));
	if (order == 1)
		printf(" listen %s", told(listen(one, 5)));
	printf(" connect %s", told(connect(other, (void *)&servers[0], self_len)));
	printf(" to the same %s", told(connect(third, (void *)&servers[0], self_len)));
	printf(" to another %s", told(connect(third, (void *)&servers[1], self_len)));
	if (order == 0)
		printf(" listen %s", told(listen(one, 5)));
	if (!getsockname(other, (void *)&near, &len) && !getsockname(third, (void *)&far, &len))
		printf(" one name %d", !memcmp(&near, &name, self_len) && !memcmp(&far, &name, self_len));
	printf("\n");
	close(one);
	close(other);
	close(third);
}

static void datagrams(int how)
{
	int peers[MANY], ours[MANY], right = 0;
	struct sockaddr_storage name = self;
	char byte;

	for (int i = 0; i < MANY; i++) {
		struct sockaddr_storage to = name_of(peers[i] = bound(SOCK_DGRAM));
		ours[i] = sharing(SOCK_DGRAM, how);
		if (bind(ours[i], (void *)&name, self_len) || connect(ours[i], (void *)&to, self_len))
			die("a socket with a peer");
		name = name_of(ours[i]);
	}
	for (int i = 0; i < MANY; i++)
		if (sendto(peers[i], "x", 1, 0, (void *)&name, self_len) != 1)
			die("sendto");
	for (int i = 0; i < MANY; i++)
		right += await(ours[i], POLLIN) == POLLIN && recv(ours[i], &byte, 1, 0) == 1 && recv(ours[i], &byte, 1, MSG_DONTWAIT) == -1;
	printf("sharing %d: %d of %d datagram sockets have what their peers sent\n", how, right, MANY);
	for (int i = 0; i < MANY; i++) {
		close(peers[i]);
		close(ours[i]);
	}
}

/* Which address of ours leads to a peer, as programs ask: by a port that nobody has. */
static void asked(void)
{
	int fd = socket(self.ss_family, SOCK_DGRAM, 0);
	struct sockaddr_storage name;
	socklen_t len = sizeof(name);

	printf("connect to port 0: %s", told(connect(fd, (void *)&self, self_len)));
	name = name_of(fd);
	((struct sockaddr_in *)&name)->sin_port = 0;
	printf(", it is the peer's own %d", !memcmp(&name, &self, self_len));
	printf(", its peer %s\n", told(getpeername(fd, (void *)&name, &len)));
	close(fd);
}

int main(int argc, char **argv)
{
	(void)argc;
	self_from(argv[1]);
	int servers[2] = {listener(), listener()};
	struct sockaddr_storage names[2] = {name_of(servers[0]), name_of(servers[1])};

	for (int how = 1; how <= 3; how++)
		for (int order = 0; order < 4; order++)
			streams(how, order, names);
	for (int how = 1; how <= 3; how++)
		datagrams(how);
	asked();
	return 0;
}
