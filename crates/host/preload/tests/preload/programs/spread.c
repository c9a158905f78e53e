/* Four processes wait for the connections of one listener, which the parent holds too: how many each of them has, for each way to wait. */
#include "common.h"

#include <sys/mman.h>

#define PROCESSES 4
#define CONNECTIONS 400

enum { ACCEPT, POLL, LEVEL, EXCLUSIVE, WAYS };

static const char *const names[WAYS] = { "accept", "poll", "epoll", "exclusive" };

/* What the processes share: how many connections each has had, and whether it is about to wait. */
static volatile struct {
	int count[PROCESSES];
	int ready[PROCESSES];
} *shared;

static void serve(int way, int listener, int me)
{
	struct epoll_event event = { .events = EPOLLIN | (way == EXCLUSIVE ? EPOLLEXCLUSIVE : 0) };
	struct pollfd one = { .fd = listener, .events = POLLIN };
	int set = epoll_create1(0);

	if (way != ACCEPT)
		fcntl(listener, F_SETFL, O_NONBLOCK);
	if (way >= LEVEL && epoll_ctl(set, EPOLL_CTL_ADD, listener, &event) != 0)
		die("epoll_ctl");
	shared->ready[me] = 1;
	for (;;) {
		int fd;

		if (way == POLL)
			poll(&one, 1, -1);
		if (way >= LEVEL)
			epoll_wait(set, &event, 1, -1);
		fd = accept(listener, NULL, NULL);
		if (fd < 0)
			continue;
		shared->count[me]++;
		if (write(fd, "x", 1) != 1)
			die("write");
		close(fd);
	}
}

static void spread(int way)
{
	struct sockaddr_storage at;
	socklen_t len = sizeof(at);
	pid_t children[PROCESSES];
	int failed = 0;
	int listener = bound(SOCK_STREAM);

	memset((void *)shared, 0, sizeof(*shared));
	if (listen(listener, 64) != 0 || getsockname(listener, (void *)&at, &len) != 0)
		die("listen");
	for (int i = 0; i < PROCESSES; i++) {
		children[i] = fork();
		if (children[i] == 0)
			serve(way, listener, i);
		while (!shared->ready[i])
			usleep(1000);
	}
	/* They are about to wait. */
	usleep(200000);
	for (int i = 0; i < CONNECTIONS; i++) {
		int fd = socket(self.ss_family, SOCK_STREAM, 0);
		char byte;

		if (connect(fd, (void *)&at, len) != 0 || read(fd, &byte, 1) != 1)
			failed++;
		close(fd);
	}
	printf("%s failed %d:", names[way], failed);
	for (int i = 0; i < PROCESSES; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
		printf(" %d", shared->count[i]);
	}
	printf("\n");
	fflush(stdout);
	close(listener);
}

int main(int argc, char **argv)
{
	self_from(argc > 1 ? argv[1] : "127.0.0.1");
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int way = 0; way < WAYS; way++)
		spread(way);
	return 0;
}
