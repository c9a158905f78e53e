/* One thread, one epoll set, edge-triggered: a listener, its connections, an event counter and a pipe of the kernel, and a set within a set. */
#include "common.h"

#include <sys/eventfd.h>

#define CLIENTS 20
#define BYTES 200000

struct client {
	int fd;
	size_t sent, got;
};

static struct client clients[CLIENTS];
static int set;

static unsigned char byte_at(int client, size_t at)
{
	return (unsigned char)(client * 31 + at * 7 + (at >> 9));
}

static void add(int fd, uint32_t events, uint64_t data)
{
	struct epoll_event event = {.events = events, .data.u64 = data};

	fcntl(fd, F_SETFL, O_NONBLOCK);
	if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event))
		die("epoll_ctl");
}

/* Words of the set: clients below 1000, the server's side above, then the others. */
enum { SERVER = 1000, LISTENER = 5000, COUNTER, PIPE };

struct queue {
	char bytes[4096];
	size_t len;
} queues[2000];

/* The server's side: sends back as much as goes, keeps the rest. */
static int serve(int fd)
{
	struct queue *queue = &queues[fd];

	for (;;) {
		while (queue->len) {
			ssize_t sent = send(fd, queue->bytes, queue->len, MSG_NOSIGNAL);
			if (sent < 0 && errno == EAGAIN)
				return 0;
			if (sent < 0)
				die("send back");
			memmove(queue->bytes, queue->bytes + sent, queue->len - sent);
			queue->len -= sent;
		}
		ssize_t len = recv(fd, queue->bytes, sizeof(queue->bytes), 0);
		if (len < 0 && errno == EAGAIN)
			return 0;
		if (len < 0)
			die("recv to send back");
		if (len == 0) {
			close(fd);
			return 1;
		}
		queue->len = len;
	}
}

static void write_more(int index)
{
	struct client *client = &clients[index];
	unsigned char text[3000];

	while (client->sent < BYTES) {
		size_t len = BYTES - client->sent < sizeof(text) ? BYTES - client->sent : sizeof(text);
		for (size_t i = 0; i < len; i++)
			text[i] = byte_at(index, client->sent + i);
		ssize_t sent = send(client->fd, text, len, 0);
		if (sent < 0 && errno == EAGAIN)
			return;
		if (sent < 0)
			die("send");
		client->sent += sent;
		if (client->sent == BYTES)
			shutdown(client->fd, SHUT_WR);
	}
}

static int read_more(int index)
{
	struct client *client = &clients[index];
	unsigned char text[5000];

	for (;;) {
		ssize_t len = recv(client->fd, text, sizeof(text), 0);
		if (len < 0 && errno == EAGAIN)
			return 0;
		if (len < 0)
			die("recv");
		if (len == 0)
			return 1;
		for (ssize_t i = 0; i < len; i++)
			if (text[i] != byte_at(index, client->got + i))
				die("a byte came back changed");
		client->got += len;
	}
}

static void transfers(void)
{
	int fd = listener(), counter = eventfd(0, 0), pipes[2];
	int done = 0, served = 0, counted = 0, piped = 0;
	struct epoll_event out[7];

	if (pipe(pipes))
		die("pipe");
	add(fd, EPOLLIN | EPOLLET, LISTENER);
	add(counter, EPOLLIN, COUNTER);
	add(pipes[0], EPOLLIN | EPOLLET, PIPE);
	struct sockaddr_storage to = name_of(fd);
	for (int i = 0; i < CLIENTS; i++) {
		clients[i].fd = socket(self.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
		if (connect(clients[i].fd, (void *)&to, self_len) && errno != EINPROGRESS)
			die("connect");
		add(clients[i].fd, EPOLLIN | EPOLLOUT | EPOLLET, i);
	}
	while (done < CLIENTS || served < CLIENTS || !counted || !piped) {
		int found = epoll_wait(set, out, 7, 20000);
		if (found <= 0)
			die("nothing more happens");
		for (int i = 0; i < found; i++) {
			uint64_t data = out[i].data.u64;
			uint64_t number;

			if (data == LISTENER) {
				int theirs;
				while ((theirs = accept4(fd, NULL, NULL, SOCK_NONBLOCK)) >= 0)
					add(theirs, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, SERVER + theirs);
			} else if (data == COUNTER) {
				counted += read(counter, &number, 8) == 8;
			} else if (data == PIPE) {
				char byte;
				piped += read(pipes[0], &byte, 1) == 1;
			} else if (data >= SERVER) {
				served += serve(data - SERVER);
				if (served == CLIENTS / 2) {
					uint64_t one = 1;
					if (write(counter, &one, 8) != 8 || write(pipes[1], "x", 1) != 1)
						die("write");
				}
			} else {
				write_more(data);
				if (clients[data].fd >= 0 && read_more(data)) {
					if (clients[data].got != BYTES)
						die("too few bytes");
					close(clients[data].fd);
					clients[data].fd = -1;
					done++;
				}
			}
		}
	}
	printf("%d clients got all back, the counter and the pipe were seen\n", CLIENTS);
	close(fd);
	close(counter);
	close(pipes[0]);
	close(pipes[1]);
}

static void nested(void)
{
	int inner = epoll_create1(0), ends[2];
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = 7}, out[4];

	pair(ends);
	if (epoll_ctl(inner, EPOLL_CTL_ADD, ends[0], &event))
		die("inner");
	event.data.u64 = 8;
	if (epoll_ctl(set, EPOLL_CTL_ADD, inner, &event))
		die("outer");
	printf("nothing yet: %d\n", epoll_wait(set, out, 4, 0));
	send(ends[1], "x", 1, 0);
	int found = epoll_wait(set, out, 4, 10000);
	printf("outer: %d with %lu\n", found, (unsigned long)out[0].data.u64);
	found = epoll_wait(inner, out, 4, 10000);
	printf("inner: %d with %lu\n", found, (unsigned long)out[0].data.u64);
	struct pollfd one = {.fd = inner, .events = POLLIN};
	found = poll(&one, 1, 10000);
	printf("poll of the inner: %d, %x\n", found, one.revents & POLLIN);
	close(inner);
	close(ends[0]);
	close(ends[1]);
}

/* Sets that stand in each other before the innermost has its first socket: as one loop of events is put into another. */
static void nested_first(uint32_t how, int levels)
{
	int sets[4], ends[2];
	struct epoll_event event = {.events = EPOLLIN | how}, out[4];
	fd_set readable;
	struct timeval limit = {20, 0};

	for (int at = 0; at <= levels; at++)
		sets[at] = epoll_create1(0);
	for (int at = 0; at < levels; at++) {
		event.data.u64 = 100 + at;
		if (epoll_ctl(sets[at], EPOLL_CTL_ADD, sets[at + 1], &event))
			die("set in a set");
	}
	pair(ends);
	event.data.u64 = 200;
	if (epoll_ctl(sets[levels], EPOLL_CTL_ADD, ends[0], &event))
		die("socket");
	printf("%d levels, how %x, nothing yet: %d\n", levels, how, epoll_wait(sets[0], out, 4, 0));
	send(ends[1], "x", 1, 0);
	struct pollfd one = {.fd = sets[0], .events = POLLIN};
	FD_ZERO(&readable);
	FD_SET(sets[0], &readable);
	printf("poll %d, select %d", poll(&one, 1, 20000), select(sets[0] + 1, &readable, NULL, NULL, &limit));
	for (int at = 0; at <= levels; at++) {
		int found = epoll_wait(sets[at], out, 4, 20000);
		printf(", %d: %d with %lu", at, found, found > 0 ? (unsigned long)out[0].data.u64 : 0);
	}
	event.data.u64 = 300;
	int changed = epoll_ctl(sets[0], EPOLL_CTL_MOD, sets[1], &event);
	int twice = epoll_ctl(sets[0], EPOLL_CTL_ADD, sets[1], &event);
	printf("; changed %d, once more %s", changed, twice ? strerrorname_np(errno) : "0");
	int out_again = epoll_ctl(sets[0], EPOLL_CTL_DEL, sets[1], NULL);
	printf(", taken out %d, %d then\n", out_again, epoll_wait(sets[0], out, 4, 0));
	for (int at = 0; at <= levels; at++)
		close(sets[at]);
	close(ends[0]);
	close(ends[1]);
}

/* How often a set is told of, and what by the last event, when it is asked so often. */
static void told(const char *what, int outer, int calls)
{
	struct epoll_event out[4];
	struct pollfd one = {.fd = outer, .events = POLLIN};
	int sum = 0;

	usleep(20000);
	for (int call = 0; call < calls; call++)
		sum += epoll_wait(outer, out, 4, 0);
	printf("  %s: %d of %d, poll %d\n", what, sum, calls, poll(&one, 1, 0));
}

static void *sends_twice(void *fd)
{
	for (int at = 0; at < 2; at++) {
		usleep(100000);
		send(*(int *)fd, "x", 1, 0);
	}
	return NULL;
}

/* A set by its edges in another: told once for each arrival, whatever stays unread. */
static void nested_edges(uint32_t how, int kernels)
{
	int outer = epoll_create1(0), inner = epoll_create1(0), ends[2], local[2], *arrives = kernels ? local : ends;
	struct epoll_event event = {.events = EPOLLIN | how, .data.u64 = 1}, out[4];
	pthread_t sender;
	char bytes[16];

	printf("a set by its edges, its members %x, what comes is %s\n", how, kernels ? "the kernel's" : "not the kernel's");
	pair(ends);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, local))
		die("socketpair");
	epoll_ctl(inner, EPOLL_CTL_ADD, ends[0], &event);
	epoll_ctl(inner, EPOLL_CTL_ADD, local[0], &event);
	event.events = EPOLLIN | EPOLLET;
	if (epoll_ctl(outer, EPOLL_CTL_ADD, inner, &event))
		die("outer");
	told("nothing", outer, 100);
	send(arrives[1], "x", 1, 0);
	told("something", outer, 100);
	send(arrives[1], "x", 1, 0);
	told("more", outer, 100);
	pthread_create(&sender, NULL, sends_twice, &arrives[1]);
	for (int at = 0; at < 2; at++)
		printf("  slept: %d", epoll_wait(outer, out, 4, 10000));
	pthread_join(sender, NULL);
	printf(", then %d\n", epoll_wait(outer, out, 4, 0));
	recv(arrives[0], bytes, sizeof(bytes), 0);
	told("read", outer, 100);
	send(arrives[1], "x", 1, 0);
	told("and again", outer, 100);
	event.events = EPOLLIN;
	epoll_ctl(outer, EPOLL_CTL_MOD, inner, &event);
	told("by its level", outer, how ? 1 : 100);
	event.events = EPOLLIN | EPOLLET;
	epoll_ctl(outer, EPOLL_CTL_MOD, inner, &event);
	told("by its edges", outer, 100);
	printf("  inner %d\n", epoll_wait(inner, out, 4, 0));
	close(outer);
	close(inner);
	close(ends[0]);
	close(ends[1]);
	close(local[0]);
	close(local[1]);
}

static void *sends_late(void *fd)
{
	usleep(20000);
	send(*(int *)fd, "x", 1, 0);
	return NULL;
}

static int waiting_set;

static void *waits(void *unused)
{
	struct epoll_event out[4];
	int found = epoll_wait(waiting_set, out, 4, 20000);

	(void)unused;
	printf("a thread that waited already: %d with %lu\n", found, found > 0 ? (unsigned long)out[0].data.u64 : 0);
	return NULL;
}

/* A socket joins a set on which a thread sleeps already. */
static void joined_late(void)
{
	pthread_t waiter, sender;
	int ends[2];
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = 77};

	waiting_set = epoll_create1(0);
	pair(ends);
	pthread_create(&waiter, NULL, waits, NULL);
	usleep(20000);
	if (epoll_ctl(waiting_set, EPOLL_CTL_ADD, ends[0], &event))
		die("join");
	pthread_create(&sender, NULL, sends_late, &ends[1]);
	pthread_join(waiter, NULL);
	pthread_join(sender, NULL);
	close(ends[0]);
	close(ends[1]);
	close(waiting_set);
}

/* A socket that joined before it was connected is still a member after. */
static void joined_early(void)
{
	int fd = listener(), early = socket(self.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct sockaddr_storage to = name_of(fd);
	struct epoll_event event = {.events = EPOLLOUT, .data.u64 = 5}, out[4];

	if (epoll_ctl(set, EPOLL_CTL_ADD, early, &event))
		die("early");
	if (connect(early, (void *)&to, self_len) && errno != EINPROGRESS)
		die("connect");
	int found = epoll_wait(set, out, 4, 10000);
	printf("early: %d with %lu, events %x\n", found, (unsigned long)out[0].data.u64, out[0].events);
	event.events = EPOLLIN;
	printf("changed: %d\n", epoll_ctl(set, EPOLL_CTL_MOD, early, &event));
	printf("taken out: %d\n", epoll_ctl(set, EPOLL_CTL_DEL, early, &event));
	close(early);
	close(fd);
}

/* What a thread polls that sleeps already: a set without members, and perhaps a socket to which nothing comes. */
static struct pollfd polled[2];

static void *polls(void *count)
{
	int found = poll(polled, *(nfds_t *)count, 20000);

	printf("a thread that polled already: %d, %x\n", found, polled[0].revents & POLLIN);
	return NULL;
}

/* A socket joins a set that a thread polls, alone or beside a socket. */
static void polled_early(int beside)
{
	pthread_t waiter, sender;
	int ends[2], others[2];
	nfds_t count = 1 + beside;
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = 78}, out[2];
	int own = epoll_create1(0);

	pair(ends);
	pair(others);
	polled[0] = (struct pollfd){.fd = own, .events = POLLIN};
	polled[1] = (struct pollfd){.fd = others[0], .events = POLLIN};
	pthread_create(&waiter, NULL, polls, &count);
	usleep(20000);
	if (epoll_ctl(own, EPOLL_CTL_ADD, ends[0], &event))
		die("join");
	pthread_create(&sender, NULL, sends_late, &ends[1]);
	pthread_join(waiter, NULL);
	pthread_join(sender, NULL);
	int found = epoll_wait(own, out, 2, 10000);
	printf("and then: %d with %lu\n", found, (unsigned long)out[0].data.u64);
	close(ends[0]);
	close(ends[1]);
	close(others[0]);
	close(others[1]);
	close(own);
}

/* As many sockets are ready all the time as the program has room for: what else is ready is told too, sooner or later. */
static void fair(int room)
{
	int ends[2][2], counter = eventfd(1, EFD_CLOEXEC), one = epoll_create1(EPOLL_CLOEXEC), told[3] = {0};
	struct epoll_event events[4], event = {.events = EPOLLIN};

	for (int i = 0; i < 2; i++) {
		pair(ends[i]);
		event.data.u64 = i;
		epoll_ctl(one, EPOLL_CTL_ADD, ends[i][0], &event);
		send(ends[i][1], "x", 1, 0);
		await(ends[i][0], POLLIN);
	}
	event.data.u64 = 2;
	epoll_ctl(one, EPOLL_CTL_ADD, counter, &event);
	for (int call = 0; call < 100; call++)
		for (int i = epoll_wait(one, events, room, -1); i > 0; i--)
			told[events[i - 1].data.u64]++;
	printf("room for %d: both sockets %s, the counter %s\n", room, told[0] && told[1] ? "told" : "not told", told[2] ? "told" : "not told");
	close(one);
	close(counter);
	for (int i = 0; i < 4; i++)
		close(ends[i / 2][i % 2]);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	self_from(argv[1]);
	set = epoll_create1(EPOLL_CLOEXEC);
	transfers();
	nested();
	nested_first(0, 1);
	nested_first(0, 3);
	nested_first(EPOLLET, 1);
	nested_first(EPOLLET, 2);
	nested_edges(0, 0);
	nested_edges(0, 1);
	nested_edges(EPOLLET, 0);
	nested_edges(EPOLLET, 1);
	joined_late();
	joined_early();
	polled_early(0);
	polled_early(1);
	for (int room = 1; room <= 4; room++)
		fair(room);
	return 0;
}
