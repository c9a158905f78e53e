/* Sockets that go to another process before anything decided whose they are: executed with it, sent to it, and sent back to who made them. */
#include "common.h"

#include <netinet/ip.h>

static char self_text[64];

enum way { BY_EXEC, BY_MESSAGE, BACK, WAYS };
static const char *ways[] = {"executed with", "sent", "sent back"};

enum deed { CONNECT, BIND_AND_CONNECT, BIND_AND_LISTEN, LISTEN, BOUND_LISTEN, SENDTO, CONNECT_AND_SEND, RECEIVE, DEEDS };
static const char *deeds[] = {"connect", "bind, connect", "bind, listen", "listen", "bound to nothing, listen", "sendto", "connect, send", "bind, receive"};

static int is_stream(enum deed deed)
{
	return deed < SENDTO;
}

static void set(int fd, int level, int name, int value)
{
	if (setsockopt(fd, level, name, &value, sizeof(value)))
		die("setsockopt");
}

/* What it was told before it went. */
static void tell(int fd, enum deed deed)
{
	struct linger linger = {1, 3};
	struct timeval limit = {7, 0};

	set(fd, SOL_SOCKET, SO_RCVBUF, 100000);
	set(fd, SOL_SOCKET, SO_SNDBUF, 50000);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (self.ss_family == AF_INET)
		set(fd, IPPROTO_IP, IP_TOS, IPTOS_LOWDELAY);
	else
		set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (!is_stream(deed)) {
		set(fd, SOL_SOCKET, SO_BROADCAST, 1);
		return;
	}
	set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 77);
	set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 12345);
	setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

static void say(int fd, const char *what, int level, int name)
{
	int value[4] = {-1};
	socklen_t len = sizeof(value);
	int got = getsockopt(fd, level, name, value, &len);

	printf(" %s %d", what, got ? -errno : value[0]);
	if (len > 4)
		printf("/%d", value[1]);
}

static void told(int fd, enum deed deed)
{
	say(fd, "rcvbuf", SOL_SOCKET, SO_RCVBUF);
	say(fd, "sndbuf", SOL_SOCKET, SO_SNDBUF);
	say(fd, "rcvtimeo", SOL_SOCKET, SO_RCVTIMEO);
	say(fd, "linger", SOL_SOCKET, SO_LINGER);
	say(fd, "reuseaddr", SOL_SOCKET, SO_REUSEADDR);
	say(fd, "broadcast", SOL_SOCKET, SO_BROADCAST);
	if (self.ss_family == AF_INET)
		say(fd, "tos", IPPROTO_IP, IP_TOS);
	else
		say(fd, "v6only", IPPROTO_IPV6, IPV6_V6ONLY);
	if (is_stream(deed)) {
		char text[16] = "";
		socklen_t len = sizeof(text);

		say(fd, "keepalive", SOL_SOCKET, SO_KEEPALIVE);
		say(fd, "nodelay", IPPROTO_TCP, TCP_NODELAY);
		say(fd, "keepidle", IPPROTO_TCP, TCP_KEEPIDLE);
		say(fd, "user timeout", IPPROTO_TCP, TCP_USER_TIMEOUT);
		getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, text, &len);
		printf(" %s", text);
	}
	printf(", flags %x\n", fcntl(fd, F_GETFL) & O_NONBLOCK);
}

static void set_port(struct sockaddr_storage *name, unsigned port)
{
	/* At the same place in both families. */
	((struct sockaddr_in *)name)->sin_port = htons(port);
}

/* What its new process does with it, and tells on the channel that it is done. */
static void use(int fd, enum deed deed, unsigned port, int channel)
{
	struct sockaddr_storage to = self;
	char text[16] = "";
	int one = -1;

	set_port(&to, port);
	if (deed == BIND_AND_CONNECT || deed == BIND_AND_LISTEN || deed == RECEIVE)
		printf("bind %d", bind(fd, (void *)&self, self_len) ? errno : 0);
	if (deed == CONNECT || deed == BIND_AND_CONNECT || deed == CONNECT_AND_SEND)
		printf(" connect %d", connect(fd, (void *)&to, self_len) ? errno : 0);
	if (deed == BIND_AND_LISTEN || deed == LISTEN || deed == BOUND_LISTEN)
		printf(" listen %d", listen(fd, 5) ? errno : 0);
	if (deed == CONNECT_AND_SEND)
		printf(" send %zd", send(fd, "datagram", 8, 0));
	if (deed == SENDTO)
		printf(" sendto %zd", sendto(fd, "datagram", 8, 0, (void *)&to, self_len));
	printf(",");
	told(fd, deed);
	fflush(stdout);
	struct sockaddr_storage name = name_of(fd);
	if (write(channel, &name, sizeof(name)) != sizeof(name))
		die("write");
	if (deed == BIND_AND_LISTEN || deed == LISTEN || deed == BOUND_LISTEN) {
		fcntl(fd, F_SETFL, 0);
		one = accept(fd, NULL, NULL);
	} else if (deed != SENDTO) {
		fcntl(fd, F_SETFL, 0);
		one = dup(fd);
	}
	if (one >= 0)
		printf("%s: %zd bytes\n", deeds[deed], recv(one, text, sizeof(text), 0));
	fflush(stdout);
	close(one);
	close(fd);
}

/* The other end of it. */
static void meet(int channel, enum deed deed, int target)
{
	struct sockaddr_storage at;
	char text[16];
	int end;

	if (read(channel, &at, sizeof(at)) != sizeof(at))
		die("read");
	if (deed == LISTEN || deed == BOUND_LISTEN) {
		struct sockaddr_storage there = self;
		set_port(&there, ntohs(((struct sockaddr_in *)&at)->sin_port));
		at = there;
	}
	if (deed == SENDTO) {
		if (recv(target, text, sizeof(text), 0) != 8)
			die("recv");
		return;
	}
	if (deed == CONNECT || deed == BIND_AND_CONNECT) {
		end = accept(target, NULL, NULL);
	} else {
		end = socket(self.ss_family, is_stream(deed) ? SOCK_STREAM : SOCK_DGRAM, 0);
		if (deed == CONNECT_AND_SEND) {
			socklen_t len = sizeof(at);
			close(end);
			if (recvfrom(target, text, sizeof(text), 0, (void *)&at, &len) != 8)
				die("recvfrom");
			end = dup(target);
		}
		if (connect(end, (void *)&at, self_len))
			printf("connect to it: %d\n", errno);
	}
	if (send(end, "greeting", 8, 0) != 8)
		printf("send to it: %d\n", errno);
	close(end);
}

static void *meets(void *arg)
{
	int *all = arg;

	meet(all[0], all[1], all[2]);
	return NULL;
}

static void hand(enum way way, enum deed deed)
{
	int channel[2], target = -1, fd = socket(self.ss_family, (is_stream(deed) ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK * (deed == SENDTO), 0);
	char texts[4][16];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, channel))
		die("socketpair");
	if (deed == CONNECT || deed == BIND_AND_CONNECT)
		target = listener();
	else if (!is_stream(deed) && deed != RECEIVE)
		target = bound(SOCK_DGRAM);
	tell(fd, deed);
	if (deed == BOUND_LISTEN) {
		struct sockaddr_storage any = {.ss_family = self.ss_family};
		if (bind(fd, (void *)&any, self_len))
			die("bind to nothing");
	}
	unsigned port = 0;
	if (target >= 0) {
		struct sockaddr_storage at = name_of(target);
		port = ntohs(((struct sockaddr_in *)&at)->sin_port);
	}
	printf("%s, %s: ", deeds[deed], ways[way]);
	fflush(stdout);
	if (way == BACK) {
		int all[] = {channel[1], deed, target};
		pthread_t thread;

		pass_fd(channel[0], fd);
		int again = receive_fd(channel[1]);
		if (deed % 2)
			close(fd);
		if (pthread_create(&thread, NULL, meets, all))
			die("pthread_create");
		use(again, deed, port, channel[0]);
		pthread_join(thread, NULL);
		if (deed % 2 == 0)
			close(fd);
	} else {
		int numbers[] = {way == BY_EXEC ? fd : -1, deed, port, channel[1]};
		pid_t pid = fork();

		if (pid == 0) {
			for (int at = 0; at < 4; at++)
				snprintf(texts[at], sizeof(texts[at]), "%d", numbers[at]);
			execl("/proc/self/exe", "undecided", self_text, texts[0], texts[1], texts[2], texts[3], (char *)NULL);
			_exit(127);
		}
		if (way == BY_MESSAGE)
			pass_fd(channel[0], fd);
		close(fd);
		meet(channel[0], deed, target);
		int status;
		if (waitpid(pid, &status, 0) != pid || status)
			printf("status %x\n", status);
	}
	close(channel[0]);
	close(channel[1]);
	close(target);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	setvbuf(stdout, NULL, _IOFBF, BUFSIZ);
	snprintf(self_text, sizeof(self_text), "%s", argv[1]);
	self_from(self_text);
	if (argc == 6) {
		int fd = atoi(argv[2]), channel = atoi(argv[5]);
		use(fd < 0 ? receive_fd(channel) : fd, atoi(argv[3]), atoi(argv[4]), channel);
		return 0;
	}
	for (int way = 0; way < WAYS; way++)
		for (int deed = 0; deed < DEEDS; deed++)
			hand(way, deed);
	return 0;
}
