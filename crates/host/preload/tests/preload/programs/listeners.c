/* Listeners: data that is waited for before a connection is accepted, a backlog that changes, and shutdown. */
#include "common.h"

/* A connect that does not wait. */
static int begun(int listening)
{
	struct sockaddr_storage to = name_of(listening);
	int fd = socket(self.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);

	if (fd < 0 || connect(fd, (void *)&to, self_len) && errno != EINPROGRESS)
		die("connect");
	return fd;
}

static int accepted(int listening, int wait_ms)
{
	struct pollfd one = {.fd = listening, .events = POLLIN};
	int count = 0, fd;

	while (poll(&one, 1, wait_ms) == 1 && (fd = accept(listening, NULL, NULL)) >= 0) {
		close(fd);
		count++;
	}
	return count;
}

static void deferred(void)
{
	int fd = listener(), seconds = 3;

	setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof(seconds));
	int silent = connected_to(fd), early = connected_to(fd), both;
	send(early, "GET", 3, 0);
	struct pollfd one = {.fd = fd, .events = POLLIN};
	printf("one has spoken: %d\n", poll(&one, 1, 10000));
	int theirs = accept(fd, NULL, NULL);
	char text[8];
	printf("it said %zd bytes\n", recv(theirs, text, sizeof(text), MSG_DONTWAIT));
	printf("the other is not there yet: %d\n", poll(&one, 1, 200));
	printf("when the time is over it is: %d\n", poll(&one, 1, 20000));
	close(theirs);
	theirs = accept(fd, NULL, NULL);
	printf("it said %zd bytes\n", recv(theirs, text, sizeof(text), MSG_DONTWAIT));
	close(theirs);
	close(silent);
	close(early);
	seconds = 0;
	setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof(seconds));
	silent = connected_to(fd);
	printf("without waiting: %d\n", poll(&one, 1, 10000));
	close(silent);
	close(fd);
}

static void changed(void)
{
	int fd = bound(SOCK_STREAM), clients[60];

	if (listen(fd, 1) || listen(fd, 100))
		die("listen");
	for (int i = 0; i < 60; i++)
		clients[i] = begun(fd);
	int now = accepted(fd, 300);
	printf("with a longer backlog %d of 60 come at once\n", now);
	for (int i = 0; i < 60; i++)
		close(clients[i]);
	close(fd);
}

static int listening;

static void *accepts(void *unused)
{
	int fd = accept(listening, NULL, NULL);

	(void)unused;
	printf("the thread that accepted: %s\n", fd < 0 ? strerrorname_np(errno) : "a connection");
	return NULL;
}

/* By shutdown, or by a connect to nobody. */
static void shut(int disconnects)
{
	const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
	pthread_t other;

	listening = listener();
	struct sockaddr_storage name = name_of(listening);
	pthread_create(&other, NULL, accepts, NULL);
	usleep(50000);
	int done = disconnects ? connect(listening, &nobody, sizeof(nobody)) : shutdown(listening, SHUT_RD);
	pthread_join(other, NULL);
	printf("shutdown: %d\n", done);
	struct pollfd one = {.fd = listening, .events = POLLIN | POLLOUT};
	usleep(50000);
	poll(&one, 1, 0);
	printf("it shows %x\n", one.revents);
	int fd = socket(self.ss_family, SOCK_STREAM, 0);
	if (disconnects)
		printf("connected to nobody: %d\n", connect(fd, &nobody, sizeof(nobody)));
	printf("connect: %s\n", connect(fd, (void *)&name, self_len) ? strerrorname_np(errno) : "done");
	close(fd);
	int value = -7;
	socklen_t len = sizeof(value);
	getsockopt(listening, SOL_SOCKET, SO_ACCEPTCONN, &value, &len);
	printf("it listens: %d\n", value);
	printf("listen again: %d\n", listen(listening, 5));
	fd = connected_to(listening);
	printf("%d accepted\n", accepted(listening, 300));
	close(fd);
	close(listening);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	self_from(argv[1]);
	deferred();
	changed();
	shut(0);
	shut(1);
	return 0;
}
