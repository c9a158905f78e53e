/* Sockets that are bound to the wildcard address and port 0, whose port the program tells others: servers that only receive, clients that wait before they ask, and such as are handed to another process. */
#include "common.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

static char self_text[64];

static struct sockaddr_storage wildcard(void)
{
	struct sockaddr_storage any = {.ss_family = self.ss_family};

	return any;
}

static int undecided(int kind)
{
	struct sockaddr_storage any = wildcard();
	int fd = socket(self.ss_family, kind, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&any, self_len))
		die("bind to nothing");
	return fd;
}

static void set_port(struct sockaddr_storage *name, const struct sockaddr_storage *from)
{
	/* At the same place in both families. */
	((struct sockaddr_in *)name)->sin_port = ((const struct sockaddr_in *)from)->sin_port;
}

/* Where a socket of the wildcard address is found. */
static struct sockaddr_storage address_of(int fd)
{
	struct sockaddr_storage at = self, name = name_of(fd);

	set_port(&at, &name);
	return at;
}

static int asker(void)
{
	int fd = bound(SOCK_DGRAM);
	struct timeval limit = {20, 0};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	return fd;
}

static void ask(int from, const struct sockaddr_storage *to)
{
	if (sendto(from, "question", 8, 0, (const struct sockaddr *)to, self_len) != 8)
		die("sendto");
}

static void answer(int fd, const char *how, int from)
{
	char text[16] = "";
	struct sockaddr_storage peer = {0};
	socklen_t len = sizeof(peer);
	ssize_t got = recvfrom(fd, text, sizeof(text), MSG_DONTWAIT, (struct sockaddr *)&peer, &len);

	if (got != 8 || sendto(fd, "answer", 6, 0, (struct sockaddr *)&peer, len) != 6)
		printf("%s: got %zd errno %d\n", how, got, errno);
	else
		printf("%s: answered %zd\n", how, recv(from, text, sizeof(text), 0));
}

/* Each way of waiting, which begins before anything came. */
enum way { POLL, SELECT, EPOLL_AFTER, EPOLL_BEFORE, PEEK, RECV, RECVFROM, RECVMSG, RECVMMSG, READ, READV, WAYS };
static const char *names[] = {"poll", "select", "epoll", "epoll before the port is asked for", "peek", "recv", "recvfrom", "recvmsg", "recvmmsg", "read", "readv"};

static void served(enum way way)
{
	int fd = undecided(SOCK_DGRAM), from = asker(), set = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
	struct pollfd entry = {fd, POLLIN, 0};
	struct timeval none = {0, 0};
	char text[16];
	struct iovec vector = {text, sizeof(text)};
	struct mmsghdr message = {.msg_hdr = {.msg_iov = &vector, .msg_iovlen = 1}};
	fd_set readable;

	if (way == EPOLL_BEFORE)
		epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
	struct sockaddr_storage at = address_of(fd);
	FD_ZERO(&readable);
	FD_SET(fd, &readable);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	int found = -1;
	switch (way) {
	case POLL:
		found = poll(&entry, 1, 0);
		break;
	case SELECT:
		found = select(fd + 1, &readable, NULL, NULL, &none);
		break;
	case EPOLL_AFTER:
		epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
		/* fall through */
	case EPOLL_BEFORE:
		found = epoll_wait(set, &event, 1, 0);
		break;
	case PEEK:
		found = recv(fd, text, 1, MSG_PEEK);
		break;
	case RECV:
		found = recv(fd, text, sizeof(text), 0);
		break;
	case RECVFROM:
		found = recvfrom(fd, text, sizeof(text), 0, NULL, NULL);
		break;
	case RECVMSG:
		found = recvmsg(fd, &message.msg_hdr, 0);
		break;
	case RECVMMSG:
		found = recvmmsg(fd, &message, 1, 0, NULL);
		break;
	case READ:
		found = read(fd, text, sizeof(text));
		break;
	default:
		found = readv(fd, &vector, 1);
	}
	struct sockaddr_storage now = address_of(fd);
	printf("%s: nothing yet %d, the port stays %d\n", names[way], found, !memcmp(&at, &now, sizeof(at)));
	ask(from, &at);
	if (way == EPOLL_AFTER || way == EPOLL_BEFORE)
		printf("epoll: %d\n", epoll_wait(set, &event, 1, 20000));
	else
		await(fd, POLLIN);
	answer(fd, names[way], from);
	close(set);
	close(fd);
	close(from);
}

/* Who was told the port sends before the server waits. */
static void served_early(int connects)
{
	int fd = undecided(SOCK_DGRAM), from = asker();
	struct sockaddr_storage at = address_of(fd);
	struct timeval limit = {20, 0};
	char text[16];

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (connects && connect(from, (struct sockaddr *)&at, self_len))
		die("connect");
	for (int count = 0; count < 2; count++) {
		ssize_t sent = connects ? send(from, "question", 8, 0) : sendto(from, "question", 8, 0, (struct sockaddr *)&at, self_len);
		printf("sent %zd\n", sent);
	}
	for (int count = 0; count < 2; count++)
		printf("came %zd\n", recv(fd, text, sizeof(text), 0));
	close(fd);
	close(from);
}

/* The port is taken as soon as it is told, and the socket may still be told what is the kernel's alone. */
static void taken(int kind)
{
	int fd = undecided(kind), other = socket(self.ss_family, kind, 0), mark = 7, found = -1;
	struct sockaddr_storage any = name_of(fd);
	socklen_t len = sizeof(found);

	printf("bind of another %d", bind(other, (struct sockaddr *)&any, self_len) ? errno : 0);
	printf(", mark %d", setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)));
	printf(" %d", getsockopt(fd, SOL_SOCKET, SO_MARK, &found, &len));
	printf(" %d\n", found);
	struct sockaddr_storage now = name_of(fd);
	printf("the port stays %d\n", ((struct sockaddr_in *)&any)->sin_port == ((struct sockaddr_in *)&now)->sin_port);
	close(fd);
	close(other);
}

/* One without an address that is not the first to be given it: an executed program that has it for a moment gives it none. */
static void still_without(void)
{
	int first = bound(SOCK_DGRAM), fd = socket(self.ss_family, SOCK_DGRAM, 0);
	struct sockaddr_storage name = name_of(first);

	printf("taken: %d\n", bind(fd, (struct sockaddr *)&name, self_len) ? errno : 0);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
	name = name_of(fd);
	printf("port %d, ", ((struct sockaddr_in *)&name)->sin_port);
	printf("bind %d\n", bind(fd, (struct sockaddr *)&self, self_len) ? errno : 0);
	close(fd);
	close(first);
}

/* Processes that serve at the same socket, which their parent bound to nothing. */
static void forked(int kind)
{
	enum { SERVERS = 2 };
	int fd = undecided(kind), ready[2];
	struct sockaddr_storage at = address_of(fd);
	pid_t pids[SERVERS];
	char text[16] = "";

	if (pipe(ready))
		die("pipe");
	fflush(stdout);
	for (int server = 0; server < SERVERS; server++) {
		pids[server] = fork();
		if (pids[server])
			continue;
		struct sockaddr_storage peer;
		socklen_t len = sizeof(peer);
		int failed = kind == SOCK_STREAM && listen(fd, 5);
		if (failed || write(ready[1], "r", 1) != 1)
			die("listen");
		if (kind == SOCK_STREAM) {
			int one = accept(fd, NULL, NULL);
			if (send(one, "hello", 5, 0) != 5)
				die("send");
		} else {
			ssize_t got = recvfrom(fd, text, sizeof(text), 0, (struct sockaddr *)&peer, &len);
			if (sendto(fd, "hello", 5, 0, (struct sockaddr *)&peer, len) != 5 || got != 8)
				die("sendto");
		}
		_exit(0);
	}
	for (int server = 0; server < SERVERS; server++)
		if (read(ready[0], text, 1) != 1)
			die("ready");
	for (int server = 0; server < SERVERS; server++) {
		int one = kind == SOCK_STREAM ? socket(self.ss_family, kind, 0) : asker();
		int done = connect(one, (struct sockaddr *)&at, self_len);
		if (kind == SOCK_DGRAM)
			ask(one, &at);
		printf("connect %d, forked servers say %zd\n", done, recv(one, text, 5, MSG_WAITALL));
		close(one);
	}
	for (int server = 0; server < SERVERS; server++) {
		int status;
		waitpid(pids[server], &status, 0);
		printf("status %d\n", status);
	}
	close(fd);
	close(ready[0]);
	close(ready[1]);
}

/* One that waits before it asks somebody of the kernel's. */
static void asks_the_kernel(int waits, int connects)
{
	struct sockaddr_storage kernels = {.ss_family = self.ss_family};
	int fd = undecided(SOCK_DGRAM), set = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
	char text[16];

	if (self.ss_family == AF_INET)
		((struct sockaddr_in *)&kernels)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		((struct sockaddr_in6 *)&kernels)->sin6_addr = in6addr_loopback;
	int other = socket(self.ss_family, SOCK_DGRAM, 0);
	if (bind(other, (struct sockaddr *)&kernels, self_len))
		die("bind to the kernel's");
	kernels = name_of(other);
	struct sockaddr_storage before = name_of(fd);
	if (waits) {
		epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
		printf("nothing yet: %d\n", epoll_wait(set, &event, 1, 0));
	}
	int mark = 7;
	/* The kernel's alone. */
	if (waits != connects)
		printf("mark: %d\n", setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)));
	if (connects)
		printf("connect: %d\n", connect(fd, (struct sockaddr *)&kernels, self_len));
	ssize_t sent = connects ? send(fd, "question", 8, 0) : sendto(fd, "question", 8, 0, (struct sockaddr *)&kernels, self_len);
	struct sockaddr_storage peer = {0}, after = name_of(fd);
	socklen_t len = sizeof(peer);
	printf("sent %zd, came %zd", sent, recvfrom(other, text, sizeof(text), 0, (struct sockaddr *)&peer, &len));
	sendto(other, "answer", 6, 0, (struct sockaddr *)&peer, len);
	if (waits)
		printf(", epoll %d", epoll_wait(set, &event, 1, 20000));
	printf(", answer %zd", recv(fd, text, sizeof(text), 0));
	printf(", the port stays %d\n", ((struct sockaddr_in *)&before)->sin_port == ((struct sockaddr_in *)&after)->sin_port);
	close(set);
	close(fd);
	close(other);
}

/* What is handed over, to an executed process. */
static int other(const char *task, int channel)
{
	int fd = receive_fd(channel);
	char byte, text[16];

	if (!strcmp(task, "datagrams")) {
		struct sockaddr_storage peer;
		socklen_t len = sizeof(peer);
		ssize_t got = recvfrom(fd, text, sizeof(text), 0, (struct sockaddr *)&peer, &len);
		sendto(fd, text, got, 0, (struct sockaddr *)&peer, len);
		return 0;
	}
	printf("listen there: %d\n", listen(fd, 3));
	fflush(stdout);
	if (write(channel, "l", 1) != 1)
		die("ready");
	int one = accept(fd, NULL, NULL);
	printf("accepted there: %d\n", one >= 0);
	fflush(stdout);
	if (write(one, "hello", 5) != 5 || read(channel, &byte, 1) != 1)
		die("hello");
	return 0;
}

static void handed(const char *task, int asks_first)
{
	int channel[2], kind = strcmp(task, "datagrams") ? SOCK_STREAM : SOCK_DGRAM, fd = undecided(kind);
	char number[16], text[16] = "";

	if (asks_first)
		name_of(fd);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, channel))
		die("socketpair");
	snprintf(number, sizeof(number), "%d", channel[1]);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		close(fd);
		execl("/proc/self/exe", "waited", self_text, task, number, (char *)NULL);
		_exit(127);
	}
	pass_fd(channel[0], fd);
	struct sockaddr_storage at = address_of(fd);
	close(fd);
	if (kind == SOCK_DGRAM) {
		int from = asker();
		ask(from, &at);
		printf("answered from there: %zd\n", recv(from, text, sizeof(text), 0));
		close(from);
	} else {
		if (read(channel[0], text, 1) != 1)
			die("listens");
		int one = socket(self.ss_family, SOCK_STREAM, 0);
		printf("connect: %d\n", connect(one, (struct sockaddr *)&at, self_len));
		printf("said there: %zd\n", recv(one, text, 5, MSG_WAITALL));
		if (write(channel[0], "d", 1) != 1)
			die("done");
		close(one);
	}
	waitpid(pid, NULL, 0);
	close(channel[0]);
	close(channel[1]);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	alarm(TIME_LIMIT_S);
	self_from(argv[1]);
	snprintf(self_text, sizeof(self_text), "%s", argv[1]);
	if (argc == 4)
		return other(argv[2], atoi(argv[3]));
	for (enum way way = 0; way < WAYS; way++)
		served(way);
	for (int connects = 0; connects < 2; connects++)
		served_early(connects);
	taken(SOCK_STREAM);
	taken(SOCK_DGRAM);
	still_without();
	forked(SOCK_STREAM);
	forked(SOCK_DGRAM);
	for (int at = 0; at < 4; at++)
		asks_the_kernel(at & 1, at >> 1);
	for (int at = 0; at < 2; at++) {
		handed("datagrams", at);
		handed("streams", at);
	}
	return 0;
}
