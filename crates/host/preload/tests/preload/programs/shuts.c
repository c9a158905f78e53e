/* shutdown by one process of a socket that another one waits for: the side that is shut is the socket's, so whoever waits is woken. */
#include "common.h"
#include <time.h>

/* Long enough for the other process to be asleep by then. */
#define ASLEEP_US 100000
/* Longer than anything takes here; what is not woken reaches it. */
#define WAIT_S 8

static const char *const SIDES[] = {"reading", "writing", "both"};
static const char *const WAITS[] = {"recv", "poll", "epoll", "epoll, edges"};

/* Waits for the socket's end, and says what of it was seen. */
static void waited(int fd, int wait)
{
	struct pollfd one = {.fd = fd, .events = POLLIN | POLLRDHUP};
	struct epoll_event wanted = {.events = EPOLLIN | EPOLLRDHUP | (wait == 3 ? EPOLLET : 0)}, seen = {0};
	struct timeval limit = {.tv_sec = WAIT_S};
	struct timespec before, after;
	char byte;
	int set, count;

	clock_gettime(CLOCK_MONOTONIC, &before);

	switch (wait) {
	case 0:
		if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)))
			die("SO_RCVTIMEO");
		count = recv(fd, &byte, 1, 0);
		printf("%d %s", count, count < 0 ? strerrorname_np(errno) : "");
		break;
	case 1:
		count = poll(&one, 1, WAIT_S * 1000);
		printf("%d, %#x", count, one.revents);
		break;
	default:
		set = epoll_create1(0);
		if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &wanted))
			die("epoll_ctl");
		count = epoll_wait(set, &seen, 1, WAIT_S * 1000);
		printf("%d, %#x", count, seen.events);
		close(set);
	}
	/* Who was not woken may see it all the same when he looks at his end. */
	clock_gettime(CLOCK_MONOTONIC, &after);
	after.tv_sec -= before.tv_sec + (after.tv_nsec < before.tv_nsec);
	printf("%s\n", after.tv_sec >= WAIT_S ? ", too late" : "");
}

/* The parent waits and the child shuts, or the other way round. */
static void shut(const char *what, int fd, int side, int wait, int child_waits)
{
	fflush(stdout);
	pid_t child = fork();

	if (child < 0)
		die("fork");
	if ((child == 0) == child_waits) {
		printf("%s, the %s waits, %s is shut, %s: ", what, child_waits ? "child" : "parent", SIDES[side], WAITS[wait]);
		waited(fd, wait);
		fflush(stdout);
	} else {
		usleep(ASLEEP_US);
		shutdown(fd, side);
	}
	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
}

static void streams(int side, int wait, int child_waits)
{
	int ends[2];

	pair(ends);
	shut("a stream", ends[0], side, wait, child_waits);
	close(ends[0]);
	close(ends[1]);
}

static void datagrams(int side, int wait, int child_waits, int has_peer)
{
	int fd = bound(SOCK_DGRAM), peer = bound(SOCK_DGRAM);
	struct sockaddr_storage to = name_of(peer);

	if (has_peer && connect(fd, (void *)&to, self_len))
		die("connect");
	shut(has_peer ? "datagrams" : "datagrams of anybody", fd, side, wait, child_waits);
	close(fd);
	close(peer);
}

/* A writer that waits for room hears that there is no writing any more. */
static void writer(void)
{
	static char many[65536];
	int ends[2];
	ssize_t sent;

	pair(ends);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		usleep(ASLEEP_US);
		shutdown(ends[0], SHUT_WR);
		_exit(0);
	}
	while ((sent = send(ends[0], many, sizeof(many), MSG_NOSIGNAL)) > 0)
		;
	printf("a writer that waits for room: %s\n", strerrorname_np(errno));
	waitpid(child, NULL, 0);
	close(ends[0]);
	close(ends[1]);
}

/* Who has shut both sides and keeps the descriptor hears nobody: the other end is told so, and does not send for ever. */
static void late_bytes(int order, int unread)
{
	static char many[1 << 16];
	struct timeval limit = {.tv_sec = WAIT_S};
	int ends[2];

	pair(ends);
	/* The other end still has something to send that nobody has read. */
	if (unread && send(ends[1], "before", 6, 0) != 6)
		die("send");
	if (unread)
		await(ends[0], POLLIN);
	switch (order) {
	case 0:
		shutdown(ends[0], SHUT_RDWR);
		break;
	case 1:
		shutdown(ends[0], SHUT_RD);
		shutdown(ends[0], SHUT_WR);
		break;
	default:
		shutdown(ends[0], SHUT_WR);
		shutdown(ends[0], SHUT_RD);
	}
	setsockopt(ends[1], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	while (send(ends[1], many, sizeof(many), MSG_NOSIGNAL) > 0)
		;
	printf("shut in order %d, the sender hears %s", order, strerrorname_np(errno));
	/* What came before is there; of what came later nothing is. */
	for (int count = 0; count < 3; count++) {
		ssize_t got = recv(ends[0], many, sizeof(many), 0);
		printf(", recv %zd %s", got, got < 0 ? strerrorname_np(errno) : "");
	}
	printf(", ends show %#x %#x\n", await(ends[0], POLLIN | POLLOUT | POLLRDHUP), await(ends[1], POLLIN | POLLOUT | POLLRDHUP));
	close(ends[0]);
	close(ends[1]);
}

int main(int argc, char **argv)
{
	(void)argc;
	self_from(argv[1]);
	for (int child_waits = 0; child_waits < 2; child_waits++)
		for (int side = SHUT_RD; side <= SHUT_RDWR; side++)
			for (int wait = 0; wait < 4; wait++) {
				/* Shut for writing alone, nothing is to be read, for ever. */
				if (side == SHUT_WR)
					continue;
				streams(side, wait, child_waits);
				datagrams(side, wait, child_waits, 1);
				datagrams(side, wait, child_waits, 0);
			}
	writer();
	for (int order = 0; order < 3; order++)
		for (int unread = 0; unread < 2; unread++)
			late_bytes(order, unread);
	return 0;
}
