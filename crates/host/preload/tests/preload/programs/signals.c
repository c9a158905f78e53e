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

/* How a thread blocks in a call. */
enum { RECV, RECVFROM, READ, ACCEPT, POLL, SELECT, EPOLL, SEND, CALLS };

static const char *const names[CALLS] = {"recv", "recvfrom", "read", "accept", "poll", "select", "epoll_wait", "send"};

struct blocked {
	int call, fd, datagram, set;
	/* Not before this is 0. */
	volatile int gate;
	int disabled;
	volatile int in, out;
};

static void block_in(struct blocked *blocked)
{
	static char text[100000];
	char byte;
	int fd = blocked->fd;
	struct pollfd one = {.fd = fd, .events = POLLIN};
	struct epoll_event out;
	fd_set in;

	switch (blocked->call) {
	case RECV:
		recv(fd, &byte, 1, 0);
		break;
	case RECVFROM:
		recvfrom(blocked->datagram, &byte, 1, 0, NULL, NULL);
		break;
	case READ:
		read(fd, &byte, 1);
		break;
	case ACCEPT:
		accept(fd, NULL, NULL);
		break;
	case POLL:
		poll(&one, 1, -1);
		break;
	case SELECT:
		FD_ZERO(&in);
		FD_SET(fd, &in);
		select(fd + 1, &in, NULL, NULL, NULL);
		break;
	case EPOLL:
		epoll_wait(blocked->set, &out, 1, -1);
		break;
	case SEND:
		while (send(fd, text, sizeof(text), 0) > 0)
			;
		break;
	}
}

static void *blocks(void *given)
{
	struct blocked *blocked = given;

	if (blocked->disabled)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	blocked->in = 1;
	while (blocked->gate)
		;
	if (blocked->disabled) {
		/* Does not end by being cancelled, but by the byte that comes then. */
		block_in(blocked);
		blocked->out = 1;
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	}
	block_in(blocked);
	return NULL;
}

static int cancel_one(struct blocked *blocked, int wait_us)
{
	pthread_t thread;
	void *result;
	int gated = blocked->gate;

	blocked->in = blocked->out = 0;
	pthread_create(&thread, NULL, blocks, blocked);
	while (!blocked->in)
		sched_yield();
	usleep(wait_us);
	pthread_cancel(thread);
	if (gated)
		blocked->gate = 0;
	pthread_join(thread, &result);
	return result == PTHREAD_CANCELED;
}

static void cancelled(void)
{
	int ends[2], listening = listener(), set = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN};

	pair(ends);
	epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event);
	struct blocked blocked = {.fd = ends[0], .datagram = bound(SOCK_DGRAM), .set = set};
	for (blocked.call = 0; blocked.call < CALLS; blocked.call++) {
		int count = 0;

		blocked.fd = blocked.call == ACCEPT ? listening : ends[0];
		/* Cancelled while it blocks, on its way there, and before it calls. */
		count += cancel_one(&blocked, 50000);
		for (int i = 0; i < 30; i++)
			count += cancel_one(&blocked, i * 3);
		blocked.gate = 1;
		count += cancel_one(&blocked, 0);
		blocked.gate = 0;
		printf("cancelled in %s: %d times\n", names[blocked.call], count);
	}
	close(ends[0]);
	close(ends[1]);
	close(listening);
	close(blocked.datagram);
	close(set);

	/* A thread that does not want to be cancelled goes on waiting, and is cancelled when it lets itself. */
	pthread_t thread;
	void *result;
	pair(ends);
	handle(0);
	blocked = (struct blocked){.call = RECV, .fd = ends[0], .disabled = 1};
	pthread_create(&thread, NULL, blocks, &blocked);
	usleep(50000);
	pthread_cancel(thread);
	usleep(50000);
	printf("cancelled too early: %d\n", blocked.out);
	send(ends[1], "x", 1, 0);
	pthread_join(thread, &result);
	printf("cancelled in the end: %d after %d\n", result == PTHREAD_CANCELED, blocked.out);
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
