/* A stream with an address that one process connects after the fork: it is one socket, so the other one reads, writes, waits and asks for its names. */
#include "common.h"

static const char *const USES[] = {"recv", "send", "poll", "epoll", "epoll from before", "getpeername", "getsockname"};

/* Uses the socket in a process that has not connected it. */
static void use(int fd, int peer, int set, int how)
{
	struct pollfd one = {.fd = fd, .events = POLLIN | POLLOUT};
	struct epoll_event wanted = {.events = EPOLLIN | EPOLLOUT}, seen = {0};
	struct sockaddr_storage name, near, far;
	struct timeval limit = {.tv_sec = 10};
	socklen_t len = sizeof(name);
	char text[16] = {0};
	int count;

	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)))
		die("SO_RCVTIMEO");
	switch (how) {
	case 1:
		count = send(fd, "from here", 9, MSG_NOSIGNAL);
		printf(" %d %s,", count, count < 0 ? strerrorname_np(errno) : "");
		count = recv(peer, text, sizeof(text), 0);
		printf(" %d %s", count, text);
		return;
	case 2:
		printf(" %d,", poll(&one, 1, 10000));
		printf(" %#x", one.revents);
		break;
	case 3:
		set = epoll_create1(0);
		if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &wanted))
			die("epoll_ctl");
		printf(" %d,", epoll_wait(set, &seen, 1, 10000));
		printf(" %#x", seen.events);
		close(set);
		break;
	case 4:
		printf(" %d,", epoll_wait(set, &seen, 1, 10000));
		printf(" %#x", seen.events);
		break;
	case 5:
		count = getpeername(fd, (void *)&name, &len);
		far = name_of(peer);
		printf(" %d %s, its peer %d", count, count ? strerrorname_np(errno) : "", !count && !memcmp(&name, &far, self_len));
		break;
	case 6:
		near = name_of(fd);
		len = sizeof(far);
		printf(" its name %d", !getpeername(peer, (void *)&far, &len) && !memcmp(&near, &far, self_len));
		break;
	}
	count = recv(fd, text, sizeof(text), 0);
	printf(" %d %s", count, count < 0 ? strerrorname_np(errno) : text);
}

static void shared(int how, int child_connects)
{
	int listening = listener(), fd = bound(SOCK_STREAM), set = epoll_create1(0), told[2], peer;
	struct sockaddr_storage to = name_of(listening);
	struct epoll_event wanted = {.events = EPOLLIN};
	char byte;

	if (pipe(told))
		die("pipe");
	if (how == 4 && epoll_ctl(set, EPOLL_CTL_ADD, fd, &wanted))
		die("epoll_ctl");
	fflush(stdout);
	pid_t child = fork();
	if (child < 0)
		die("fork");
	if ((child == 0) == child_connects) {
		if (connect(fd, (void *)&to, self_len))
			die("connect");
		if (write(told[1], "c", 1) != 1)
			die("write");
	} else {
		if (read(told[0], &byte, 1) != 1)
			die("read");
		peer = accept(listening, NULL, NULL);
		if (send(peer, "hello", 5, 0) != 5 || await(peer, POLLOUT) < 0)
			die("send");
		/* So that what was sent is there before anybody looks. */
		usleep(100000);
		printf("the %s connects, %s:", child_connects ? "child" : "parent", USES[how]);
		use(fd, peer, set, how);
		printf("\n");
		fflush(stdout);
		close(peer);
	}
	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
	close(told[0]);
	close(told[1]);
	close(set);
	close(fd);
	close(listening);
}

int main(int argc, char **argv)
{
	(void)argc;
	self_from(argv[1]);
	for (int child_connects = 0; child_connects < 2; child_connects++)
		for (int how = 0; how < 7; how++)
			shared(how, child_connects);
	return 0;
}
