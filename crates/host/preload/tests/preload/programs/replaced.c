/* Threads that wait at a datagram socket before another thread says where it sends or is bound: clients with a thread that receives. */
#include "common.h"

static struct sockaddr_storage kernels;

enum way { POLL, PPOLL, SELECT, RECV, RECVFROM, RECVMSG, RECVMMSG, READ, READV, WAYS };
static const char *names[] = {"poll", "ppoll", "select", "recv", "recvfrom", "recvmsg", "recvmmsg", "read", "readv"};

struct reader {
	int fd;
	enum way way;
	int result, error;
	volatile int begun;
};

static int waits(struct reader *reader)
{
	int fd = reader->fd;
	struct pollfd entries[2] = {{-1, POLLIN, 0}, {fd, POLLIN, 0}};
	struct timespec limit = {20, 0};
	struct timeval select_limit = {20, 0};
	char text[16];
	struct iovec vector = {text, sizeof(text)};
	struct mmsghdr message = {.msg_hdr = {.msg_iov = &vector, .msg_iovlen = 1}};
	fd_set readable;

	FD_ZERO(&readable);
	FD_SET(fd, &readable);
	switch (reader->way) {
	case POLL:
		return poll(entries, 2, 20000) + 10 * entries[1].revents;
	case PPOLL:
		return ppoll(entries, 2, &limit, NULL) + 10 * entries[1].revents;
	case SELECT:
		return select(fd + 1, &readable, NULL, NULL, &select_limit) + 10 * !!FD_ISSET(fd, &readable);
	case RECV:
		return recv(fd, text, sizeof(text), 0);
	case RECVFROM:
		return recvfrom(fd, text, sizeof(text), 0, NULL, NULL);
	case RECVMSG:
		return recvmsg(fd, &message.msg_hdr, 0);
	case RECVMMSG:
		return recvmmsg(fd, &message, 1, 0, NULL);
	case READ:
		return read(fd, text, sizeof(text));
	default:
		return readv(fd, &vector, 1);
	}
}

static void *run(void *argument)
{
	struct reader *reader = argument;

	reader->begun = 1;
	reader->result = waits(reader);
	reader->error = reader->result < 0 ? errno : 0;
	return NULL;
}

static pthread_t begin(struct reader *reader)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, reader))
		die("thread");
	while (!reader->begun)
		sched_yield();
	/* Most often it sleeps by then. */
	usleep(3000);
	return thread;
}

static struct sockaddr_storage wildcard(void)
{
	struct sockaddr_storage any = {.ss_family = self.ss_family};

	return any;
}

/* What the other thread does: it asks somebody, or is asked. */
enum deed { ASKS, BOUND_ASKS, TOLD_ASKS, CONNECTS, BINDS, ASKS_KERNEL, TOLD_ASKS_KERNEL, DEEDS };
static const char *deeds[] = {"asks", "asks, bound to nothing", "asks, after it told its port", "connects", "binds", "asks the kernel's", "asks the kernel's, after it told its port"};

static void meets(enum deed deed, enum way way)
{
	int fd = socket(self.ss_family, SOCK_DGRAM, 0), other = socket(self.ss_family, SOCK_DGRAM, 0);
	int is_kernels = deed == ASKS_KERNEL || deed == TOLD_ASKS_KERNEL;
	struct sockaddr_storage any = wildcard(), at = is_kernels ? kernels : self, peer = {0};
	socklen_t len = sizeof(peer);
	struct timeval limit = {20, 0};
	struct reader reader = {.fd = fd, .way = way};
	char text[16] = "";

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(other, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (bind(other, (struct sockaddr *)&at, self_len))
		die("bind");
	at = name_of(other);
	if (deed == BOUND_ASKS || deed == TOLD_ASKS || deed == TOLD_ASKS_KERNEL)
		if (bind(fd, (struct sockaddr *)&any, self_len))
			die("bind to nothing");
	if (deed == TOLD_ASKS || deed == TOLD_ASKS_KERNEL)
		name_of(fd);
	pthread_t thread = begin(&reader);
	if (deed == BINDS) {
		if (bind(fd, (struct sockaddr *)&self, self_len))
			die("bind to the address");
		peer = name_of(fd);
	} else if (deed == CONNECTS) {
		if (connect(fd, (struct sockaddr *)&at, self_len))
			die("connect");
		peer = name_of(fd);
	} else {
		if (sendto(fd, "question", 8, 0, (struct sockaddr *)&at, self_len) != 8)
			die("sendto");
		if (recvfrom(other, text, sizeof(text), 0, (struct sockaddr *)&peer, &len) != 8)
			die("question");
	}
	if (sendto(other, "answer", 6, 0, (struct sockaddr *)&peer, self_len) != 6)
		die("answer");
	pthread_join(thread, NULL);
	printf("%s, %s: %d %d\n", names[way], deeds[deed], reader.result, reader.error);
	close(fd);
	close(other);
}

/* Without anybody who does anything: limits, and what does not wait. */
static void alone(int told)
{
	int fd = socket(self.ss_family, SOCK_DGRAM, 0);
	struct sockaddr_storage any = wildcard();
	struct timeval limit = {0, 20000};
	struct pollfd entry = {fd, POLLIN, 0};
	char text[16];

	if (bind(fd, (struct sockaddr *)&any, self_len))
		die("bind to nothing");
	if (told)
		name_of(fd);
	printf("no bytes: %zd", read(fd, text, 0));
	printf(", not to wait: %zd", recv(fd, text, sizeof(text), MSG_DONTWAIT));
	printf(" %d", errno);
	printf(", poll: %d", poll(&entry, 1, 20));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	printf(", limited: %zd", recv(fd, text, sizeof(text), 0));
	printf(" %d", errno);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	printf(", nonblocking: %zd", recv(fd, text, sizeof(text), 0));
	printf(" %d\n", errno);
	close(fd);
}

static void nothing(int number)
{
	(void)number;
}

/* A signal comes to who waits. */
static void interrupted(int restarts, int limited)
{
	struct sigaction action = {.sa_handler = nothing, .sa_flags = restarts ? SA_RESTART : 0};
	struct timeval limit = {20, 0};
	int fd = socket(self.ss_family, SOCK_DGRAM, 0);
	struct reader reader = {.fd = fd, .way = RECV};
	struct sockaddr_storage to;

	sigaction(SIGUSR1, &action, NULL);
	if (limited)
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	pthread_t thread = begin(&reader);
	usleep(100000);
	pthread_kill(thread, SIGUSR1);
	if (restarts && !limited) {
		usleep(3000);
		if (bind(fd, (struct sockaddr *)&self, self_len))
			die("bind to the address");
		to = name_of(fd);
		int from = bound(SOCK_DGRAM);
		if (sendto(from, "late", 4, 0, (struct sockaddr *)&to, self_len) != 4)
			die("sendto");
		close(from);
	}
	pthread_join(thread, NULL);
	printf("signal, restart %d, limit %d: %d %d\n", restarts, limited, reader.result, reader.error);
	close(fd);
}

static void cancelled(void)
{
	int fd = socket(self.ss_family, SOCK_DGRAM, 0);
	struct reader reader = {.fd = fd, .way = RECV};
	pthread_t thread = begin(&reader);
	void *ended = NULL;

	pthread_cancel(thread);
	pthread_join(thread, &ended);
	printf("cancelled: %d\n", ended == PTHREAD_CANCELED);
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	self_from(argv[1]);
	kernels.ss_family = self.ss_family;
	if (self.ss_family == AF_INET)
		((struct sockaddr_in *)&kernels)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		((struct sockaddr_in6 *)&kernels)->sin6_addr = in6addr_loopback;
	for (enum deed deed = 0; deed < DEEDS; deed++)
		for (enum way way = 0; way < WAYS; way++)
			meets(deed, way);
	alone(0);
	alone(1);
	for (int restarts = 0; restarts < 2; restarts++)
		for (int limited = 0; limited < 2; limited++)
			interrupted(restarts, limited);
	cancelled();
	return 0;
}
