/* Many connections, so that the process has descriptors ahead of need: nobody sees anything of that, not by their numbers, not in a child, and not when there are no more. */
#include "common.h"

#include <sys/resource.h>

#define MANY 80

static int listening, yields;

/* In place of the C library's: how often a thread gives up its turn. */
int sched_yield(void)
{
	yields++;
	return 0;
}

/* A connection, its server's end closed again; what the client then reads. */
static int answer(void)
{
	int ours = connected_to(listening), theirs = accept(listening, NULL, NULL);
	char byte;
	int got;

	if (theirs < 0)
		die("accept");
	close(theirs);
	got = read(ours, &byte, 1);
	close(ours);
	return got;
}

/* The numbers that descriptors get while there are some ahead. */
static void numbers(void)
{
	int first = dup(0), again;

	close(first);
	for (int i = 0; i < MANY; i++) {
		int ours = connected_to(listening), theirs = accept(listening, NULL, NULL);

		if (ours != first || theirs != first + 1)
			printf("connection %d: %d and %d after %d\n", i, ours, theirs, first);
		close(theirs);
		close(ours);
	}
	again = dup(0);
	printf("as before: %d\n", again == first);
	close(again);
}

/* Who closes waits for nobody: a descriptor is kept for the next connection meanwhile. */
static void alone(void)
{
	int before = yields;

	for (int i = 0; i < MANY; i++)
		answer();
	printf("turns given up: %d\n", yields - before);
}

/* A child that lives holds nothing that its parent takes later. */
static void child(void)
{
	int ends[2];
	pid_t pid;

	if (pipe(ends))
		die("pipe");
	pid = fork();
	if (pid == 0) {
		char byte;

		close(ends[1]);
		_exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
	}
	close(ends[0]);
	for (int i = 0; i < MANY; i++)
		if (answer() != 0)
			printf("connection %d of the parent's is open still\n", i);
	close(ends[1]);
	waitpid(pid, NULL, 0);
	printf("child: done\n");
}

/* The same for a program that is executed. */
static void executed(void)
{
	int ends[2], last = 0;
	pid_t pid;

	if (pipe(ends))
		die("pipe");
	pid = fork();
	if (pid == 0) {
		dup2(ends[0], 0);
		close(ends[1]);
		execl("/bin/cat", "cat", NULL);
		_exit(1);
	}
	close(ends[0]);
	for (int i = 0; i < MANY; i++)
		last += answer() == 0;
	printf("executed: %d\n", last);
	close(ends[1]);
	waitpid(pid, NULL, 0);
}

/* Several children take what one listener has, and each has some ahead when it is killed. */
static void killed(void)
{
	pid_t pids[3];
	int closed = 0;

	for (int i = 0; i < 3; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			for (;;)
				close(accept(listening, NULL, NULL));
	}
	for (int i = 0; i < 2 * MANY; i++) {
		int ours = connected_to(listening);
		char byte;

		closed += read(ours, &byte, 1) == 0;
		close(ours);
	}
	for (int i = 0; i < 3; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	printf("closed: %d\n", closed);
	printf("after them: %d\n", answer());
}

/* Without a number for it, a connection waits until there is one. */
static void full(void)
{
	struct rlimit limit, small;
	int held[256], count = 0, ours, theirs;

	ours = connected_to(listening);
	getrlimit(RLIMIT_NOFILE, &limit);
	small = limit;
	small.rlim_cur = 64;
	setrlimit(RLIMIT_NOFILE, &small);
	while (count < 256 && (held[count] = dup(0)) >= 0)
		count++;
	theirs = accept(listening, NULL, NULL);
	printf("full: %d %d\n", theirs, errno == EMFILE);
	while (count > 0)
		close(held[--count]);
	theirs = accept(listening, NULL, NULL);
	printf("not full: %d\n", theirs >= 0);
	setrlimit(RLIMIT_NOFILE, &limit);
	close(theirs);
	close(ours);
}

/* Sends a descriptor over a pair of sockets, and gives the other end, where it waits. */
static int on_its_way(int fd)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		die("socketpair");
	pass_fd(pair[0], fd);
	close(pair[0]);
	return pair[1];
}

/* Takes it there. */
static int arrived(int end)
{
	int fd;
	char byte, room[CMSG_SPACE(sizeof(fd))];
	struct iovec part = {.iov_base = &byte, .iov_len = 1};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};

	if (recvmsg(end, &message, 0) != 1 || !CMSG_FIRSTHDR(&message))
		die("recvmsg");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	close(end);
	return fd;
}

/* A child that writes when nobody holds the other end of the pipe any more: forked, or a program that was executed behind vfork or by the C library. */
static pid_t writes_late(int way, int fd, int ends[2])
{
	char script[64];
	pid_t pid;

	snprintf(script, sizeof(script), "read x; printf late >&%d", fd);
	pid = way == 0 ? fork() : vfork();
	if (pid != 0)
		return pid;
	if (way == 0) {
		char byte;

		close(ends[1]);
		if (read(ends[0], &byte, 1) == 0 && write(fd, "late", 4) == 4)
			_exit(0);
		_exit(1);
	}
	dup2(ends[0], 0);
	execl("/bin/sh", "sh", "-c", script, NULL);
	_exit(1);
}

/* A connection that somebody else has too goes on when its descriptor here is closed, and is none of those that come next. */
static void handed(void)
{
	int right = 0;

	for (int i = 0; i < MANY; i++) {
		int ours = connected_to(listening), theirs = accept(listening, NULL, NULL), other = -1, ends[2] = {-1, -1};
		pid_t pid = 0;
		char text[8];

		if (i % 4 == 0) {
			other = dup(theirs);
		} else if (i % 4 == 1) {
			other = on_its_way(theirs);
		} else {
			if (pipe(ends))
				die("pipe");
			fcntl(ends[1], F_SETFD, FD_CLOEXEC);
			pid = writes_late(i % 4 - 2, theirs, ends);
			close(ends[0]);
		}
		close(theirs);
		for (int j = 0; j < 3; j++)
			if (answer() != 0)
				printf("a connection behind number %d\n", i);
		if (i % 4 == 1)
			other = arrived(other);
		if (pid == 0 && (write(other, "late", 4) != 4 || close(other)))
			printf("way %d: %s\n", i % 4, strerror(errno));
		close(ends[1]);
		right += recv(ours, text, 4, MSG_WAITALL) == 4 && !memcmp(text, "late", 4) && recv(ours, text, 1, 0) == 0;
		close(ours);
		if (pid > 0)
			waitpid(pid, NULL, 0);
	}
	printf("handed: %d\n", right);
}

/* What was set on one connection does not hold for the next. */
static void fresh(void)
{
	int same = 0;

	for (int i = 0; i < MANY; i++) {
		int ours = connected_to(listening), on = 1, got = -1;
		int theirs = accept4(listening, NULL, NULL, i % 3 == 0 ? SOCK_NONBLOCK | SOCK_CLOEXEC : 0);
		socklen_t len = sizeof(got);

		getsockopt(theirs, IPPROTO_TCP, TCP_NODELAY, &got, &len);
		same += got == 0 && !!(fcntl(theirs, F_GETFL) & O_NONBLOCK) == (i % 3 == 0) && fcntl(theirs, F_GETFD) == (i % 3 == 0);
		setsockopt(theirs, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		if (i % 5 == 0)
			fcntl(theirs, F_SETFL, O_NONBLOCK | O_ASYNC);
		if (i % 7 == 0)
			fcntl(theirs, F_SETFL, 0);
		close(theirs);
		same += !(fcntl(ours, F_GETFL) & O_NONBLOCK);
		if (i % 4 == 0)
			fcntl(ours, F_SETFL, O_NONBLOCK);
		close(ours);
	}
	printf("fresh: %d\n", same);
}

int main(int argc, char **argv)
{
	self_from(argc > 1 ? argv[1] : "127.0.0.1");
	listening = listener();
	numbers();
	alone();
	child();
	executed();
	handed();
	fresh();
	killed();
	full();
	return 0;
}
