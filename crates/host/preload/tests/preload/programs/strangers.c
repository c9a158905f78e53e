/* Sockets that are handed to processes of other programs: executed ones, which have sockets of their own by then, as a worker has that asked a database before it gets its first connection. */
#include "common.h"

#include <sys/epoll.h>

enum { MANY = 20 };

static char self_text[64];

static void send_back(int fd, const char *who)
{
	char text[64], answer[80];
	ssize_t len = recv(fd, text, sizeof(text) - 1, 0);

	if (len <= 0) {
		printf("%s: recv %zd errno %d\n", who, len, len ? errno : 0);
		return;
	}
	text[len] = 0;
	snprintf(answer, sizeof(answer), "%s: %s", who, text);
	if (send(fd, answer, strlen(answer), 0) < 0)
		printf("%s: send errno %d\n", who, errno);
}

/* Executes this program anew with a task and the end of a channel. */
static pid_t execute(const char *task, int channel)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", channel);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		execl("/proc/self/exe", "strangers", self_text, task, number, (char *)NULL);
		_exit(127);
	}
	return pid;
}

static void reap(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		printf("status %x\n", status);
}

/* Sockets of its own, that work. */
static void own_sockets(int ends[2])
{
	char text[8] = "";

	pair(ends);
	if (send(ends[0], "own", 3, 0) != 3 || recv(ends[1], text, 3, MSG_WAITALL) != 3)
		die("own");
}

/* What the executed ones do. */
static int work(const char *task, int channel)
{
	int own[2], fd;

	own_sockets(own);
	if (write(channel, "r", 1) != 1)
		die("ready");
	if (!strcmp(task, "connection")) {
		fd = receive_fd(channel);
		send_back(fd, "in another program");
		/* A child of it, one that was executed, and what is waited for beside its own. */
		fflush(stdout);
		pid_t pid = fork();
		if (pid == 0) {
			send_back(fd, "in its child");
			_exit(0);
		}
		reap(pid);
		pid = execute("handed on", fd);
		reap(pid);
		int set = epoll_create1(0);
		struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
		epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
		event.data.fd = own[1];
		epoll_ctl(set, EPOLL_CTL_ADD, own[1], &event);
		for (int at = 0; at < 2; at++) {
			if (epoll_wait(set, &event, 1, -1) != 1)
				die("epoll_wait");
			send_back(event.data.fd, event.data.fd == fd ? "the handed one" : "its own");
			if (event.data.fd == fd && send(own[0], "own", 3, 0) != 3)
				die("own");
		}
		struct sockaddr_storage peer;
		socklen_t len = sizeof(peer);
		printf("names: %d %d\n", name_of(fd).ss_family == self.ss_family, getpeername(fd, (struct sockaddr *)&peer, &len));
		printf("shutdown: %d\n", shutdown(fd, SHUT_WR));
		char rest[8];
		printf("to the end: %zd\n", recv(fd, rest, sizeof(rest), 0));
		close(fd);
	} else if (!strcmp(task, "listener")) {
		fd = receive_fd(channel);
		for (int at = 0; at < 3; at++) {
			int one = accept(fd, NULL, NULL);
			send_back(one, "accepted elsewhere");
			if (at == 1) {
				/* And on, to a third program. */
				int on[2];
				char byte;
				if (socketpair(AF_UNIX, SOCK_STREAM, 0, on))
					die("socketpair");
				pid_t pid = execute("third", on[1]);
				if (read(on[0], &byte, 1) != 1)
					die("ready");
				pass_fd(on[0], one);
				reap(pid);
				close(on[0]);
				close(on[1]);
			}
			close(one);
		}
		int value = -1;
		socklen_t len = sizeof(value);
		int told = getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &len);
		printf("SO_ACCEPTCONN: %d %d\n", told, value);
	} else if (!strcmp(task, "third")) {
		send_back(receive_fd(channel), "in a third program");
	} else if (!strcmp(task, "bound")) {
		fd = receive_fd(channel);
		printf("listen: %d\n", listen(fd, 5));
		if (write(channel, "l", 1) != 1)
			die("ready");
		int one = accept(fd, NULL, NULL);
		send_back(one, "who listened");
	} else if (!strcmp(task, "datagrams")) {
		struct sockaddr_storage from;
		socklen_t len = sizeof(from);
		char text[16];
		fd = receive_fd(channel);
		ssize_t got = recvfrom(fd, text, sizeof(text), 0, (struct sockaddr *)&from, &len);
		printf("datagram: %zd, answer %zd\n", got, sendto(fd, text, got, 0, (struct sockaddr *)&from, len));
	} else if (!strcmp(task, "giver")) {
		/* Hands its own, and is gone. */
		pass_fd(channel, own[1]);
		send(own[0], "left behind", 11, 0);
		char byte;
		if (read(channel, &byte, 1) != 1)
			die("taken");
	}
	close(own[0]);
	close(own[1]);
	return 0;
}

static int begin(const char *task, pid_t *pid)
{
	int channel[2];
	char byte;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, channel))
		die("socketpair");
	*pid = execute(task, channel[1]);
	close(channel[1]);
	if (read(channel[0], &byte, 1) != 1)
		die("ready");
	return channel[0];
}

static void ask(int fd, const char *text)
{
	char answer[80] = "";

	if (send(fd, text, strlen(text), 0) < 0) {
		printf("send errno %d\n", errno);
		return;
	}
	ssize_t len = recv(fd, answer, sizeof(answer) - 1, 0);
	printf("%zd \"%s\"\n", len, answer);
}

static int joined_to(int listening)
{
	struct sockaddr_storage name = name_of(listening);
	int fd = socket(self.ss_family, SOCK_STREAM, 0);

	if (connect(fd, (struct sockaddr *)&name, self_len))
		die("connect");
	return fd;
}

static void connection(void)
{
	int ends[2];
	pid_t pid;
	int channel = begin("connection", &pid);

	pair(ends);
	pass_fd(channel, ends[1]);
	close(ends[1]);
	for (int at = 0; at < 4; at++)
		ask(ends[0], "question");
	char rest[8];
	printf("the end: %zd\n", recv(ends[0], rest, sizeof(rest), 0));
	shutdown(ends[0], SHUT_WR);
	reap(pid);
	close(ends[0]);
	close(channel);
}

static void listening(void)
{
	pid_t pid;
	int channel = begin("listener", &pid), fd = listener();

	pass_fd(channel, fd);
	for (int at = 0; at < 3; at++) {
		int one = joined_to(fd);
		ask(one, "question");
		if (at == 1)
			ask(one, "once more");
		close(one);
	}
	reap(pid);
	/* It is this one's still. */
	int one = joined_to(fd), other = accept(fd, NULL, NULL);
	printf("accepted here: %d\n", other >= 0);
	close(one);
	close(other);
	close(fd);
	close(channel);
}

static void listened_there(void)
{
	pid_t pid;
	int channel = begin("bound", &pid), fd = bound(SOCK_STREAM);
	char byte;

	pass_fd(channel, fd);
	if (read(channel, &byte, 1) != 1)
		die("listens");
	int one = joined_to(fd);
	ask(one, "question");
	reap(pid);
	close(one);
	close(fd);
	close(channel);
}

static void datagrams(void)
{
	pid_t pid;
	int channel = begin("datagrams", &pid), fd = bound(SOCK_DGRAM), mine = bound(SOCK_DGRAM);
	struct sockaddr_storage name = name_of(fd);
	char text[8];

	pass_fd(channel, fd);
	sendto(mine, "hello", 5, 0, (struct sockaddr *)&name, self_len);
	printf("answered: %zd\n", recv(mine, text, sizeof(text), 0));
	reap(pid);
	close(fd);
	close(mine);
	close(channel);
}

/* One that has sockets of many programs, which are gone by then. */
static void of_many(void)
{
	int fds[MANY], own[2], right = 0;

	own_sockets(own);
	for (int at = 0; at < MANY; at++) {
		pid_t pid;
		int channel = begin("giver", &pid);

		fds[at] = receive_fd(channel);
		if (write(channel, "t", 1) != 1)
			die("taken");
		reap(pid);
		close(channel);
		if (at % 3 == 0) {
			close(fds[at]);
			fds[at] = -1;
		}
	}
	for (int at = 0; at < MANY; at++) {
		char text[16] = "";

		if (fds[at] < 0)
			continue;
		ssize_t len = recv(fds[at], text, sizeof(text), MSG_WAITALL);
		right += len == 11 && !memcmp(text, "left behind", 11);
		close(fds[at]);
	}
	printf("of programs that are gone: %d\n", right);
	close(own[0]);
	close(own[1]);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	alarm(TIME_LIMIT_S);
	self_from(argv[1]);
	snprintf(self_text, sizeof(self_text), "%s", argv[1]);
	if (argc == 4 && !strcmp(argv[2], "handed on")) {
		send_back(atoi(argv[3]), "in what it executed");
		return 0;
	}
	if (argc == 4)
		return work(argv[2], atoi(argv[3]));
	connection();
	listening();
	listened_there();
	datagrams();
	of_many();
	return 0;
}
