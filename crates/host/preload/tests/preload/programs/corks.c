/* What is held back leaves after a while: under TCP_CORK, and behind MSG_MORE. */
#include "common.h"

static void heard(const char *what, int fd)
{
	char room[64];
	ssize_t got = recv(fd, room, sizeof(room), 0);

	printf("%s: %s\n", what, got < 0 ? strerror(errno) : got == 0 ? "the end" : "bytes");
	for (ssize_t i = 0; i < got; i++)
		putchar(room[i]);
	putchar('\n');
}

static void on(int fd, int option, int value)
{
	if (setsockopt(fd, IPPROTO_TCP, option, &value, sizeof(value)))
		die("setsockopt");
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	self_from(argv[1]);
	int ends[2];
	struct timeval timeout = {60, 0};

	pair(ends);
	setsockopt(ends[1], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	printf("more: %zd\n", send(ends[0], "more", 4, MSG_MORE));
	heard("with MSG_MORE", ends[1]);
	on(ends[0], TCP_CORK, 1);
	printf("corked: %zd\n", send(ends[0], "cork", 4, 0));
	heard("under a cork", ends[1]);
	for (int i = 0; i < 2; i++) {
		printf("corked: %zd\n", send(ends[0], "push", 4, 0));
		on(ends[0], TCP_NODELAY, 1);
		heard("without delay", ends[1]);
	}
	printf("corked: %zd\n", send(ends[0], "pull", 4, MSG_MORE));
	on(ends[0], TCP_CORK, 0);
	heard("without a cork", ends[1]);
	printf("more: %zd\n", send(ends[0], "last", 4, MSG_MORE));
	shutdown(ends[0], SHUT_WR);
	heard("at the end", ends[1]);
	heard("behind it", ends[1]);
	return 0;
}
