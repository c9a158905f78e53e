/* Blocked calls and signals: interrupted, begun again, timed out, cancelled, and SIGPIPE. */
#include "common.h"

static volatile int seen;

static void note(int number)
{
	(void)number;
	seen++;
}

static void handle(int flags)
{
	struct sigaction action = {.sa_handler = note, .sa_flags = flags};

	sigaction(SIGUSR1, &action, NULL);
	seen = 0;
}

struct task {
	pthread_t target;
	int fd;
};

/* A signal to the other thread, and after a while a byte. */
static void *disturbs(void *given)
{
	struct task *task = given;

	usleep(50000);
	pthread_kill(task->target, SIGUSR1);
	usleep(50000);
	send(task->fd, "x", 1, 0);
	return NULL;
}

static void interrupted(const char *what, int flags, int timed)
{
	int ends[2];
	char byte;
	pthread_t other;

	pair(ends);
	handle(flags);
	if (timed) {
		struct timeval time = {.tv_sec = 20};
		setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
	}
	struct task task = {pthread_self(), ends[1]};
	pthread_create(&other, NULL, disturbs, &task);
	ssize_t len = recv(ends[0], &byte, 1, 0);
	printf("%s: %zd %s\n", what, len, len < 0 ? strerrorname_np(errno) : "");
	pthread_join(other, NULL);
	printf("the handler ran %d times\n", seen);
	close(ends[0]);
	close(ends[1]);
}

static void waits(const char *what, int flags)
{
	int ends[2], set = epoll_create1(0);
	pthread_t other;
	struct epoll_event event = {.events = EPOLLIN}, out[2];

	pair(ends);
	handle(flags);
	epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event);
	struct task task = {pthread_self(), ends[1]};
	pthread_create(&other, NULL, disturbs, &task);
	int found = epoll_wait(set, out, 2, 20000);
	printf("epoll, %s: %d %s\n", what, found, found < 0 ? strerrorname_np(errno) : "");
	pthread_join(other, NULL);
	char byte;
	recv(ends[0], &byte, 1, 0);
	pthread_create(&other, NULL, disturbs, &task);
	struct pollfd one = {.fd = ends[0], .events = POLLIN};
	found = poll(&one, 1, 20000);
	printf("poll, %s: %d %s\n", what, found, found < 0 ? strerrorname_np(errno) : "");
	pthread_join(other, NULL);
	recv(ends[0], &byte, 1, 0);
	pthread_create(&other, NULL, disturbs, &task);
	fd_set in;
	FD_ZERO(&in);
	FD_SET(ends[0], &in);
	struct timeval time = {.tv_sec = 20};
	found = select(ends[0] + 1, &in, NULL, NULL, &time);
	printf("select, %s: %d %s\n", what, found, found < 0 ? strerrorname_np(errno) : "");
	pthread_join(other, NULL);
	close(set);
	close(ends[0]);
	close(ends[1]);
}

/* The signal is let through only while ppoll waits. */
static void masked(void)
{
	int ends[2];
	sigset_t blocked, open;
	struct timespec time = {.tv_sec = 20};

	pair(ends);
	handle(0);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &blocked, &open);
	sigdelset(&open, SIGUSR1);
	raise(SIGUSR1);
	printf("blocked: %d\n", seen);
	struct pollfd one = {.fd = ends[0], .events = POLLIN};
	int found = ppoll(&one, 1, &time, &open);
	printf("ppoll: %d %s, %d\n", found, found < 0 ? strerrorname_np(errno) : "", seen);
	pthread_sigmask(SIG_UNBLOCK, &blocked, NULL);
	close(ends[0]);
	close(ends[1]);
}

static void *blocks(void *fd)
{
	char byte;

	recv(*(int *)fd, &byte, 1, 0);
	return NULL;
}

static void cancelled(void)
{
	int ends[2];
	pthread_t reader;
	void *result;

	pair(ends);
	pthread_create(&reader, NULL, blocks, &ends[0]);
	usleep(50000);
	pthread_cancel(reader);
	pthread_join(reader, &result);
	printf("cancelled: %d\n", result == PTHREAD_CANCELED);
	close(ends[0]);
	close(ends[1]);
}

/* The default of SIGPIPE ends the process. */
static void broken_pipe(const char *what, int flags, int ignored)
{
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		int ends[2];

		if (ignored)
			signal(SIGPIPE, SIG_IGN);
		pair(ends);
		shutdown(ends[0], SHUT_WR);
		if (flags < 0)
			write(ends[0], "x", 1);
		else
			send(ends[0], "x", 1, flags);
		_exit(errno == EPIPE ? 0 : 1);
	}
	int status;
	waitpid(pid, &status, 0);
	printf("%s: %s %d\n", what, WIFEXITED(status) ? "exit" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	self_from(argv[1]);
	interrupted("without SA_RESTART", 0, 0);
	interrupted("with SA_RESTART", SA_RESTART, 0);
	interrupted("with SA_RESTART and a time limit", SA_RESTART, 1);
	waits("without SA_RESTART", 0);
	waits("with SA_RESTART", SA_RESTART);
	masked();
	broken_pipe("send", 0, 0);
	broken_pipe("write", -1, 0);
	broken_pipe("send with MSG_NOSIGNAL", MSG_NOSIGNAL, 0);
	broken_pipe("send, ignored", 0, 1);
	cancelled();
	return 0;
}
