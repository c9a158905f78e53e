/* Options that change what a socket does, seen by what it does. */
#include "common.h"

#include <linux/sockios.h>

static int readable(int fd)
{
	struct pollfd one = {.fd = fd, .events = POLLIN};

	return poll(&one, 1, 50);
}

static void low_water(void)
{
	int ends[2], lowat = 100, set = epoll_create1(0);
	socklen_t len = sizeof(lowat);
	struct epoll_event event = {.events = EPOLLIN};
	char text[200] = "";

	pair(ends);
	printf("SO_RCVLOWAT: %d\n", setsockopt(ends[1], SOL_SOCKET, SO_RCVLOWAT, &lowat, sizeof(lowat)));
	lowat = 0;
	getsockopt(ends[1], SOL_SOCKET, SO_RCVLOWAT, &lowat, &len);
	printf("is %d\n", lowat);
	epoll_ctl(set, EPOLL_CTL_ADD, ends[1], &event);
	if (write(ends[0], text, 60) != 60)
		die("write");
	printf("with 60: poll %d, epoll %d\n", readable(ends[1]), epoll_wait(set, &event, 1, 50));
	printf("without waiting: %zd\n", recv(ends[1], text, sizeof(text), MSG_DONTWAIT));
	if (write(ends[0], text, 60) != 60 || write(ends[0], text, 60) != 60)
		die("write");
	printf("with 120: poll %d, epoll %d\n", await(ends[1], POLLIN), epoll_wait(set, &event, 1, 5000));
	printf("recv: %zd\n", recv(ends[1], text, sizeof(text), 0));
	if (write(ends[0], text, 10) != 10)
		die("write");
	printf("a small one does not wait for more than it wants: %zd\n", recv(ends[1], text, 10, 0));
	if (write(ends[0], text, 10) != 10)
		die("write");
	close(ends[0]);
	printf("at the end: poll %d, recv %zd\n", await(ends[1], POLLIN), recv(ends[1], text, sizeof(text), 0));
	close(ends[1]);
	close(set);
}

/* A buffer that is made small after the connection was made: what it cannot hold is not taken. */
static void small_buffer(void)
{
	int ends[2], small = 4096;
	char text[16384] = "";
	size_t taken = 0, got = 0;
	ssize_t len;

	pair(ends);
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	printf("SO_SNDBUF: %d\n", setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)));
	/* The receiver's buffer takes part of it; on from there nothing is taken that the sender's cannot hold. */
	for (int still = 0; still < 20; still++)
		while ((len = write(ends[0], text, sizeof(text))) > 0 || (usleep(5000), 0)) {
			taken += len;
			still = 0;
		}
	printf("then: %s\n", strerrorname_np(errno));
	printf("less than a megabyte waits: %d\n", ioctl(ends[0], SIOCOUTQ, &small) == 0 && small < 1 << 20);
	while (got < taken && (len = recv(ends[1], text, sizeof(text), 0)) > 0)
		got += len;
	printf("all came: %d, writable again: %d\n", got == taken, await(ends[0], POLLOUT));
	printf("and again: %d\n", write(ends[0], text, 100) == 100 && recv(ends[1], text, 100, MSG_WAITALL) == 100);
	close(ends[0]);
	close(ends[1]);
}

static void mtu(void)
{
	int fd = socket(AF_INET6, SOCK_DGRAM, 0), values[] = {1279, 1280, 65536};

	for (int i = 0; i < 3; i++)
		printf("IPV6_MTU %d: %s\n", values[i], setsockopt(fd, IPPROTO_IPV6, IPV6_MTU, &values[i], sizeof(values[i])) ? strerrorname_np(errno) : "set");
	close(fd);
	if (self.ss_family != AF_INET6)
		return;
	/* Set before the socket has an address, it goes along. */
	int to = bound(SOCK_DGRAM), least = 1280;
	struct sockaddr_storage name = name_of(to);
	char text[4000];

	fd = socket(AF_INET6, SOCK_DGRAM, 0);
	setsockopt(fd, IPPROTO_IPV6, IPV6_MTU, &least, sizeof(least));
	printf("sent: %zd\n", sendto(fd, text, sizeof(text), 0, (void *)&name, self_len));
	printf("received: %zd\n", recv(to, text, sizeof(text), 0));
	for (int i = 0; i < 3; i++)
		printf("then IPV6_MTU %d: %s\n", values[i], setsockopt(fd, IPPROTO_IPV6, IPV6_MTU, &values[i], sizeof(values[i])) ? strerrorname_np(errno) : "set");
	close(fd);
	close(to);
}

static volatile int told, told_of = -1;

static void on_signal(int signal, siginfo_t *info, void *context)
{
	told++;
	told_of = info->si_fd;
}

/* Waits until there was one more signal. */
static int next_signal(int before)
{
	for (int i = 0; i < 1000 && told == before; i++)
		usleep(5000);
	return told > before;
}

static void signals_of_arrivals(void)
{
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
	int ends[2], before, on = 1, to = bound(SOCK_DGRAM);
	struct sockaddr_storage name = name_of(to);
	char text[16];

	pair(ends);
	sigaction(SIGIO, &action, NULL);
	sigaction(SIGRTMIN + 3, &action, NULL);
	fcntl(ends[1], F_SETOWN, getpid());
	printf("O_ASYNC: %d\n", fcntl(ends[1], F_SETFL, O_ASYNC));
	printf("is set: %d, for us: %d\n", (fcntl(ends[1], F_GETFL) & O_ASYNC) != 0, fcntl(ends[1], F_GETOWN) == getpid());
	before = told;
	if (write(ends[0], "one", 3) != 3)
		die("write");
	printf("told: %d\n", next_signal(before));
	await(ends[1], POLLIN);
	recv(ends[1], text, sizeof(text), 0);
	fcntl(ends[1], F_SETSIG, SIGRTMIN + 3);
	before = told;
	if (write(ends[0], "two", 3) != 3)
		die("write");
	/* First the wait, then a look: who calls may work out arguments in any order. */
	int came = next_signal(before);
	printf("told: %d, of the descriptor: %d\n", came, told_of == ends[1]);
	fcntl(ends[1], F_SETFL, 0);
	usleep(100000);
	before = told;
	if (write(ends[0], "six", 3) != 3)
		die("write");
	usleep(300000);
	printf("told no more: %d\n", told == before);
	fcntl(to, F_SETOWN, getpid());
	printf("FIOASYNC: %d\n", ioctl(to, FIOASYNC, &on));
	before = told;
	printf("sent: %zd\n", sendto(to, "x", 1, 0, (void *)&name, self_len));
	printf("told: %d\n", next_signal(before));
	close(to);
	close(ends[0]);
	close(ends[1]);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	self_from(argv[1]);
	low_water();
	small_buffer();
	mtu();
	signals_of_arrivals();
	return 0;
}
