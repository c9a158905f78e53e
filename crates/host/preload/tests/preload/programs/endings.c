/* Every way in which a process can part from a socket that it has just written to. What its calls took comes to the peer, and then an end. */
#include "common.h"

#include <sys/resource.h>

/* The most that one writes before it goes. */
#define MOST (1 << 20)

#define DATAGRAMS 20

static const char *ways[] = {"close", "shutdown", "exit", "_exit", "SIGKILL", "abort", "exec with it", "exec without it", "fork", "dup", "reset"};
enum way { CLOSE, SHUTDOWN, EXIT, UNDERSCORE_EXIT, KILLED, ABORT, EXEC_WITH, EXEC_WITHOUT, FORK, DUP, RESET, WAYS };

/* Writes what is taken without waiting, or so many datagrams; how many bytes that was. */
static long fill(int fd, int stream)
{
	static char bytes[1 << 14];
	long taken = 0;

	if (!stream) {
		for (int i = 0; i < DATAGRAMS; i++)
			taken += send(fd, bytes, 1000, 0);
		return taken;
	}
	while (taken < MOST) {
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (taken + i) % 251;
		ssize_t len = send(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (len <= 0)
			break;
		taken += len;
	}
	return taken;
}

/* Parts from the socket. Those that live on wait until `go_on` ends. */
static void part(enum way way, int fd, int go_on)
{
	struct rlimit none = {0, 0};
	struct linger at_once = {1, 0};
	char byte;

	switch (way) {
	case CLOSE:
		close(fd);
		break;
	case RESET:
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
		close(fd);
		break;
	case SHUTDOWN:
		shutdown(fd, SHUT_WR);
		break;
	case EXIT:
		exit(0);
	case UNDERSCORE_EXIT:
		_exit(0);
	case KILLED:
		kill(getpid(), SIGKILL);
		break;
	case ABORT:
		setrlimit(RLIMIT_CORE, &none);
		abort();
	case EXEC_WITH:
		execl("/bin/true", "true", (char *)NULL);
		_exit(127);
	case EXEC_WITHOUT:
		fcntl(fd, F_SETFD, FD_CLOEXEC);
		dup2(go_on, 0);
		execl("/bin/cat", "cat", (char *)NULL);
		_exit(127);
	case FORK:
		/* The one that is left is the last to hold it. */
		if (fork() == 0)
			usleep(50000);
		_exit(0);
	case DUP:
		dup2(go_on, fd);
		break;
	default:
		break;
	}
	read(go_on, &byte, 1);
	_exit(0);
}

static int is_right(const char *bytes, long from, ssize_t len)
{
	for (ssize_t i = 0; i < len; i++)
		if (bytes[i] != (char)((from + i) % 251))
			return 0;
	return 1;
}

static void ended(enum way way, int stream)
{
	int ends[2], told[2], go_on[2];
	long taken = -1, got = 0;
	static char bytes[1 << 16];
	ssize_t len;

	if (pipe2(told, O_CLOEXEC) || pipe2(go_on, O_CLOEXEC))
		die("pipe");
	if (stream) {
		pair(ends);
	} else {
		ends[0] = bound(SOCK_DGRAM);
		ends[1] = bound(SOCK_DGRAM);
		struct sockaddr_storage to = name_of(ends[1]);
		if (connect(ends[0], (void *)&to, self_len))
			die("connect");
	}
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		close(ends[1]);
		close(go_on[1]);
		taken = fill(ends[0], stream);
		if (write(told[1], &taken, sizeof(taken)) != sizeof(taken))
			_exit(11);
		part(way, ends[0], go_on[0]);
	}
	close(ends[0]);
	close(go_on[0]);
	if (read(told[0], &taken, sizeof(taken)) != sizeof(taken))
		die("read");
	if (stream) {
		int right = 1;

		/* By now it is gone, or has parted; what it wrote is still there. */
		usleep(100000);
		while ((len = recv(ends[1], bytes, sizeof(bytes), 0)) > 0) {
			right &= is_right(bytes, got, len);
			got += len;
		}
		const char *how = len == 0 ? "the end" : strerrorname_np(errno);
		if (way == RESET)
			printf("%s: told by %s, right as far as it came: %d\n", ways[way], how, right && got <= taken);
		else
			printf("%s: all came: %d, right: %d, then %s\n", ways[way], taken > 0 && got == taken, right, how);
	} else {
		for (int i = 0; i < DATAGRAMS && await(ends[1], POLLIN) == POLLIN; i++)
			got += recv(ends[1], bytes, sizeof(bytes), 0);
		printf("%s, datagrams: %ld of %ld\n", ways[way], got, taken);
	}
	close(go_on[1]);
	close(ends[1]);
	close(told[0]);
	close(told[1]);
	if (waitpid(pid, NULL, 0) != pid)
		die("waitpid");
}

/* The peer answers, ends, and is sent more: its reset is no error to who reads, and EPIPE to who writes. */
static void reset_behind_the_end(int reads_before)
{
	int ends[2], error;
	socklen_t len = sizeof(error);
	char bytes[16];

	pair(ends);
	if (write(ends[1], "answer", 6) != 6)
		die("write");
	if (reads_before && read(ends[0], bytes, 6) != 6)
		die("read");
	close(ends[1]);
	while (!(await(ends[0], POLLRDHUP) & POLLRDHUP))
		;
	if (write(ends[0], "late", 4) != 4)
		die("write");
	while (!(await(ends[0], POLLERR | POLLHUP) & POLLHUP))
		;
	printf("reset behind the end, read before %d:", reads_before);
	for (int i = 0; i < 3; i++) {
		ssize_t read_ = read(ends[0], bytes, sizeof(bytes));
		printf(" read %zd %s", read_, read_ < 0 ? strerrorname_np(errno) : "");
	}
	printf(" poll %x", await(ends[0], POLLIN | POLLOUT | POLLRDHUP));
	if (getsockopt(ends[0], SOL_SOCKET, SO_ERROR, &error, &len))
		die("SO_ERROR");
	printf(" error %s then", error ? strerrorname_np(error) : "none");
	for (int i = 0; i < 2; i++)
		printf(" send %s", send(ends[0], "x", 1, MSG_NOSIGNAL) < 0 ? strerrorname_np(errno) : "taken");
	printf("\n");
	close(ends[0]);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	self_from(argv[1]);
	for (enum way way = 0; way < WAYS; way++) {
		ended(way, 1);
		if (way != SHUTDOWN)
			ended(way, 0);
	}
	reset_behind_the_end(0);
	reset_behind_the_end(1);
	return 0;
}
