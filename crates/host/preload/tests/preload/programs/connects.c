/* Connections of a process that makes many, of which no host is asked any more: nothing of that is seen, not by their names, not when they fail, not by who waits. */
#include "common.h"

#define MANY 40

static int listening;

static in_port_t port_of(const struct sockaddr_storage *name)
{
	return ((const struct sockaddr_in *)name)->sin_port;
}

static int is_same(const struct sockaddr_storage *one, const struct sockaddr_storage *other)
{
	return memcmp(one, other, self_len) == 0;
}

static int fresh(int flags)
{
	int fd = socket(self.ss_family, SOCK_STREAM | flags, 0);

	if (fd < 0)
		die("socket");
	return fd;
}

static int begin(int fd, const struct sockaddr_storage *to)
{
	return connect(fd, (const void *)to, self_len) ? errno : 0;
}

static int error_of(int fd)
{
	int error = -1;
	socklen_t len = sizeof(error);

	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
	return error;
}

static int taken(struct sockaddr_storage *peer)
{
	socklen_t len = sizeof(*peer);
	int fd;

	memset(peer, 0, sizeof(*peer));
	fd = accept(listening, (void *)peer, &len);
	if (fd < 0)
		die("accept");
	return fd;
}

/* Who does not wait, and asks at once how the socket is called. */
static void names(void)
{
	struct sockaddr_storage to = name_of(listening), peer, own, far;
	int wrong = 0, begun = 0, again = 0;

	for (int i = 0; i < MANY; i++) {
		int ours = fresh(SOCK_NONBLOCK), theirs, error;
		socklen_t len = sizeof(far);

		memset(&own, 0, sizeof(own));
		begun += begin(ours, &to) == EINPROGRESS;
		own = name_of(ours);
		theirs = taken(&peer);
		wrong += !is_same(&own, &peer) || port_of(&own) == 0;
		if (await(ours, POLLOUT) != POLLOUT)
			printf("%d is not writable\n", i);
		memset(&far, 0, sizeof(far));
		wrong += getpeername(ours, (void *)&far, &len) || !is_same(&far, &to);
		error = begin(ours, &to);
		again += error == 0 && begin(ours, &to) == EISCONN;
		own = name_of(ours);
		wrong += !is_same(&own, &peer);
		close(theirs);
		close(ours);
	}
	printf("names: %d begun, %d wrong, %d again\n", begun, wrong, again);
}

/* The server speaks first, and the client only waits for that; by turns with poll, epoll by edges, and a read that blocks. */
static void first_words(void)
{
	struct sockaddr_storage to = name_of(listening), peer;
	int got = 0, edges = 0;

	for (int i = 0; i < MANY; i++) {
		int how = i % 3, ours = fresh(how == 2 ? 0 : SOCK_NONBLOCK), set = epoll_create1(0), theirs;
		struct epoll_event one = {.events = EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, .data.fd = ours};
		char byte = 0;

		if (how == 1)
			epoll_ctl(set, EPOLL_CTL_ADD, ours, &one);
		begin(ours, &to);
		theirs = taken(&peer);
		if (write(theirs, "x", 1) != 1)
			die("write");
		if (how == 0 && !(await(ours, POLLIN) & POLLIN))
			printf("%d is not readable\n", i);
		if (how == 1) {
			int seen = 0;

			while (!(seen & EPOLLIN) && epoll_wait(set, &one, 1, 10000) == 1)
				seen |= one.events;
			edges += (seen & (EPOLLIN | EPOLLOUT)) == (EPOLLIN | EPOLLOUT);
		}
		got += read(ours, &byte, 1) == 1 && byte == 'x';
		close(set);
		close(theirs);
		close(ours);
	}
	printf("first words: %d, by edges %d\n", got, edges);
}

/* Nobody listens there: told as ever, and the same socket connects elsewhere. */
static void refused(void)
{
	struct sockaddr_storage to = name_of(listening), nowhere, peer;
	int gone = bound(SOCK_STREAM), refusals = 0, shown = 0, later = 0, ready = 0;

	nowhere = name_of(gone);
	close(gone);
	for (int i = 0; i < MANY; i++) {
		int waits = i % 2, ours = fresh(waits ? 0 : SOCK_NONBLOCK), error = begin(ours, &nowhere), theirs;
		struct sockaddr_storage own;

		if (!waits) {
			int all = POLLIN | POLLOUT | POLLERR | POLLHUP | POLLRDHUP;

			ready += await(ours, POLLIN | POLLOUT | POLLRDHUP) == all;
			error = error_of(ours);
		}
		refusals += error == ECONNREFUSED;
		own = name_of(ours);
		shown += port_of(&own) != 0;
		if (waits)
			fcntl(ours, F_SETFL, O_NONBLOCK);
		error = begin(ours, &to);
		if (error == ECONNABORTED)
			error = begin(ours, &to);
		if (error != EINPROGRESS && error != 0)
			printf("%d: %s\n", i, strerror(error));
		theirs = taken(&peer);
		own = name_of(ours);
		later += is_same(&own, &peer) && await(ours, POLLOUT) == POLLOUT;
		close(theirs);
		close(ours);
	}
	printf("refused: %d, ready %d, port shown %d, connected later %d\n", refusals, ready, shown, later);
}

/* Who listened has closed that, or was a process that is gone: refused at once. */
static void gone(void)
{
	int closed = 0, killed = 0;

	for (int i = 0; i < MANY; i++) {
		int one = listener(), ours;
		struct sockaddr_storage to = name_of(one);
		pid_t pid = fork();

		if (pid == 0)
			for (;;)
				pause();
		/* The child's alone. */
		close(one);
		ours = fresh(0);
		if (begin(ours, &to))
			printf("%d: nobody listens\n", i);
		close(ours);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		ours = fresh(0);
		killed += begin(ours, &to) == ECONNREFUSED;
		close(ours);
		one = listener();
		to = name_of(one);
		ours = fresh(0);
		begin(ours, &to);
		close(one);
		close(ours);
		ours = fresh(0);
		closed += begin(ours, &to) == ECONNREFUSED;
		close(ours);
	}
	printf("closed: %d, killed: %d\n", closed, killed);
}

/* A child has the connection that its parent has just begun. */
static void inherited(void)
{
	struct sockaddr_storage to = name_of(listening), peer, own;
	int done = 0;

	for (int i = 0; i < 8; i++) {
		int ours = fresh(SOCK_NONBLOCK), theirs;
		char text[8] = "";
		pid_t pid;

		begin(ours, &to);
		pid = fork();
		if (pid == 0) {
			own = name_of(ours);
			_exit(await(ours, POLLOUT) == POLLOUT && write(ours, &((struct sockaddr_in *)&own)->sin_port, 2) == 2 ? 0 : 1);
		}
		theirs = taken(&peer);
		close(ours);
		done += read(theirs, text, 2) == 2 && memcmp(text, &((struct sockaddr_in *)&peer)->sin_port, 2) == 0;
		close(theirs);
		waitpid(pid, NULL, 0);
	}
	printf("inherited: %d\n", done);
}

/* Options that are set before hold for the connection. */
static void options(void)
{
	struct sockaddr_storage to = name_of(listening), peer;
	int on = 1, bytes = 20000, right = 0;

	for (int i = 0; i < MANY; i++) {
		int ours = fresh(0), theirs, value = 0;
		socklen_t len = sizeof(value);
		char text[32768];
		ssize_t sent = 0, got;

		setsockopt(ours, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		if (i % 2)
			setsockopt(ours, SOL_SOCKET, i % 4 == 1 ? SO_SNDBUF : SO_RCVBUF, &bytes, sizeof(bytes));
		begin(ours, &to);
		theirs = taken(&peer);
		getsockopt(ours, IPPROTO_TCP, TCP_NODELAY, &value, &len);
		memset(text, i, sizeof(text));
		while (sent < 10000)
			sent += write(ours, text + sent, 10000 - sent);
		for (sent = 0; sent < 10000; sent += got)
			if ((got = read(theirs, text, sizeof(text))) <= 0)
				die("read");
		if (i % 2) {
			int set = 0;

			len = sizeof(set);
			getsockopt(ours, SOL_SOCKET, i % 4 == 1 ? SO_SNDBUF : SO_RCVBUF, &set, &len);
			right += set == 2 * bytes && value == 1;
		} else
			right += value == 1;
		close(theirs);
		close(ours);
	}
	printf("options: %d\n", right);
}

/* Many at a time, each for a question and its answer, while a thread serves. */
static void *serves(void *all)
{
	for (int i = 0; i < *(int *)all; i++) {
		struct sockaddr_storage peer;
		int fd = taken(&peer);
		char byte;

		if (read(fd, &byte, 1) == 1 && write(fd, &byte, 1) != 1)
			die("write");
		close(fd);
	}
	return NULL;
}

static void crowd(void)
{
	struct sockaddr_storage to = name_of(listening);
	int set = epoll_create1(0), all = 600, begun = 0, done = 0, good = 0;
	struct epoll_event found[16], one = {.events = EPOLLIN | EPOLLOUT | EPOLLET};
	pthread_t server;

	if (pthread_create(&server, NULL, serves, &all))
		die("pthread_create");
	while (done < all) {
		int count;

		while (begun < all && begun - done < 12) {
			one.data.fd = fresh(SOCK_NONBLOCK);
			begin(one.data.fd, &to);
			epoll_ctl(set, EPOLL_CTL_ADD, one.data.fd, &one);
			begun++;
		}
		count = epoll_wait(set, found, 16, 10000);
		if (count <= 0) {
			printf("nothing for ten seconds, %d of %d done\n", done, all);
			break;
		}
		for (int i = 0; i < count; i++) {
			int fd = found[i].data.fd;
			char byte;

			if (found[i].events & EPOLLIN) {
				good += read(fd, &byte, 1) == 1 && byte == 'q';
				close(fd);
				done++;
			} else if (found[i].events & EPOLLOUT && write(fd, "q", 1) != 1)
				die("write");
		}
	}
	pthread_join(server, NULL);
	close(set);
	printf("crowd: %d of %d\n", good, all);
}

int main(int argc, char **argv)
{
	(void)argc;
	self_from(argv[1]);
	listening = listener();
	names();
	first_words();
	refused();
	gone();
	inherited();
	options();
	crowd();
	return 0;
}
