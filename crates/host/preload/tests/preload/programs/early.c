/* Fast Open: TCP_FASTOPEN, TCP_FASTOPEN_CONNECT and MSG_FASTOPEN, with and without cookies. */
#include "common.h"

#ifndef TCP_FASTOPEN_CONNECT
#define TCP_FASTOPEN_CONNECT 30
#endif

static int set(int fd, int name, int value)
{
	return setsockopt(fd, IPPROTO_TCP, name, &value, sizeof(value)) ? errno : 0;
}

static int get(int fd, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	if (getsockopt(fd, IPPROTO_TCP, name, &value, &len))
		return -errno;
	return value;
}

static void options(void)
{
	int listening = listener(), fd = bound(SOCK_STREAM);
	int values[] = { 1, 16, 5000, 0, -1, 2 };

	for (unsigned i = 0; i < sizeof(values) / sizeof(*values); i++) {
		int done = set(listening, TCP_FASTOPEN, values[i]);

		printf("TCP_FASTOPEN of a listener %d: %d, told %d\n", values[i], done, get(listening, TCP_FASTOPEN));
	}
	for (unsigned i = 0; i < sizeof(values) / sizeof(*values); i++) {
		int done = set(fd, TCP_FASTOPEN_CONNECT, values[i]);

		printf("TCP_FASTOPEN_CONNECT %d: %d, told %d\n", values[i], done, get(fd, TCP_FASTOPEN_CONNECT));
	}
	printf("TCP_FASTOPEN_CONNECT of a listener: %d\n", set(listening, TCP_FASTOPEN_CONNECT, 1));
	int client = connected_to(listening), server = accept(listening, NULL, NULL);

	printf("of a connection: %d %d %d %d\n", set(client, TCP_FASTOPEN, 1), set(server, TCP_FASTOPEN, 1),
	       set(client, TCP_FASTOPEN_CONNECT, 1), get(server, TCP_FASTOPEN));
	close(client);
	close(server);
	close(fd);
	close(listening);
}

/* What came, and its answer; the server has read all that the client wrote. */
static void exchange(int listening, int client, const char *name, size_t len)
{
	char there[64] = "", back[8] = "";
	size_t got = 0;
	int server = accept(listening, NULL, NULL);

	if (server < 0)
		die("accept");
	while (got < len) {
		ssize_t n = read(server, there + got, sizeof(there) - 1 - got);

		if (n <= 0)
			die("read");
		got += n;
	}
	if (write(server, "answer", 6) != 6 || recv(client, back, 6, MSG_WAITALL) != 6)
		die("answer");
	printf("%s: %s, %s\n", name, there, back);
	close(server);
}

static void with_flag(int listening)
{
	struct sockaddr_storage to = name_of(listening);

	for (int i = 0; i < 3; i++) {
		int fd = socket(self.ss_family, SOCK_STREAM, 0);

		printf("MSG_FASTOPEN: %zd\n", sendto(fd, "question", 8, MSG_FASTOPEN, (void *)&to, self_len));
		exchange(listening, fd, "asked", 8);
		printf("once more: %zd", sendto(fd, "x", 1, MSG_FASTOPEN, (void *)&to, self_len));
		printf(" %d\n", errno);
		printf("TCP_FASTOPEN_CONNECT is %d\n", get(fd, TCP_FASTOPEN_CONNECT));
		close(fd);
	}
	for (int i = 0; i < 2; i++) {
		int fd = socket(self.ss_family, SOCK_STREAM, 0);
		struct iovec parts[2] = { { "quest", 5 }, { "ion", 3 } };
		struct msghdr message = { .msg_name = &to, .msg_namelen = self_len, .msg_iov = parts, .msg_iovlen = 2 };

		printf("sendmsg: %zd\n", sendmsg(fd, &message, MSG_FASTOPEN));
		exchange(listening, fd, "asked", 8);
		close(fd);
	}
}

static void with_option(int listening)
{
	struct sockaddr_storage to = name_of(listening);

	for (int i = 0; i < 3; i++) {
		int fd = socket(self.ss_family, SOCK_STREAM, 0);

		printf("option %d", set(fd, TCP_FASTOPEN_CONNECT, 1));
		printf(", connect %d", connect(fd, (void *)&to, self_len));
		printf(", write %zd\n", write(fd, "early bytes", 11));
		exchange(listening, fd, "wrote", 11);
		close(fd);
	}
}

static void refused(void)
{
	int listening = listener();
	struct sockaddr_storage to = name_of(listening);
	struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
	int fd = socket(self.ss_family, SOCK_STREAM, 0);

	close(listening);
	printf("nobody listens: %zd", sendto(fd, "question", 8, MSG_FASTOPEN, (void *)&to, self_len));
	printf(" %d\n", errno);
	close(fd);
	fd = bound(SOCK_STREAM);
	printf("to nowhere: %zd", sendto(fd, "question", 8, MSG_FASTOPEN, &nowhere, sizeof(nowhere)));
	printf(" %d\n", errno);
	close(fd);
}

int main(int argc, char **argv)
{
	int listening;

	if (argc < 2)
		return 2;
	self_from(argv[1]);
	/* Before there is a cookie: with one, Clearway tells of the refusal later. */
	refused();
	options();
	listening = listener();
	set(listening, TCP_FASTOPEN, 16);
	with_flag(listening);
	with_option(listening);
	close(listening);
	return 0;
}
