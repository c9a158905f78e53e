/* Handlers that run while a call looks, before it sleeps: the test has it look for a minute. And what handlers are, seen by the program. */
#include "common.h"

/* Signals to a thread in a call; after so many it is given up. */
#define EVERY_US 20000
#define MOST 200

static volatile int seen, in_handler_found = -2;
static int handler_fd = -1;

static void note(int number)
{
	(void)number;
	seen++;
}

static void note_with_info(int number, siginfo_t *info, void *context)
{
	if (number == info->si_signo && context)
		seen++;
}

/* A handler that makes calls itself: what it interrupted is interrupted nevertheless. */
static void looks(int number)
{
	struct pollfd one = {.fd = handler_fd, .events = POLLIN};
	char byte;
	int before = errno;

	(void)number;
	in_handler_found = poll(&one, 1, 0);
	if (recv(handler_fd, &byte, 1, MSG_DONTWAIT) != -1 || errno != EAGAIN)
		in_handler_found = -3;
	seen++;
	errno = before;
}

static void handle(int number, int flags, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

	sigaction(number, &action, NULL);
}

struct task {
	pthread_t target;
	int number;
	/* After so many signals a byte is sent here. */
	int most, fd;
	volatile int over;
};

static void *disturbs(void *given)
{
	struct task *task = given;

	for (int sent = 0; sent < task->most; sent++) {
		usleep(EVERY_US);
		if (task->over)
			return NULL;
		pthread_kill(task->target, task->number);
	}
	usleep(EVERY_US);
	if (!task->over && send(task->fd, "x", 1, 0) != 1)
		die("send");
	return NULL;
}

enum { RECV, READ, POLL, SELECT, EPOLL, CALLS };

static const char *const names[CALLS] = {"recv", "read", "poll", "select", "epoll_wait"};

static int blocks(int call, int fd, int set)
{
	struct pollfd one = {.fd = fd, .events = POLLIN};
	struct epoll_event out;
	fd_set in;
	char byte;

	switch (call) {
	case RECV:
		return recv(fd, &byte, 1, 0);
	case READ:
		return read(fd, &byte, 1);
	case POLL:
		return poll(&one, 1, -1);
	case SELECT:
		FD_ZERO(&in);
		FD_SET(fd, &in);
		return select(fd + 1, &in, NULL, NULL, NULL);
	default:
		return epoll_wait(set, &out, 1, -1);
	}
}

/* One call, and signals meanwhile. */
static void disturbed(const char *what, int number, int most, int call)
{
	int ends[2], set = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN};
	pthread_t other;

	pair(ends);
	epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event);
	handler_fd = ends[0];
	seen = 0;
	struct task task = {pthread_self(), number, most, ends[1], 0};
	pthread_create(&other, NULL, disturbs, &task);
	int found = blocks(call, ends[0], set);
	int error = errno;
	task.over = 1;
	printf("%s, %s: %d %s, a handler ran: %d\n", what, names[call], found, found < 0 ? strerrorname_np(error) : "", seen > 0);
	pthread_join(other, NULL);
	close(set);
	close(ends[0]);
	close(ends[1]);
}

/* A call in accept, which nobody connects to. */
static void accepts(void)
{
	int fd = listener();
	struct sockaddr_storage where;
	socklen_t len = sizeof(where);
	pthread_t other;

	getsockname(fd, (void *)&where, &len);
	int third = socket(where.ss_family, SOCK_STREAM, 0);
	if (connect(third, (void *)&where, len))
		die("connect");
	close(accept(fd, NULL, NULL));
	seen = 0;
	struct task task = {pthread_self(), SIGUSR2, MOST, third, 0};
	pthread_create(&other, NULL, disturbs, &task);
	int found = accept(fd, NULL, NULL);
	int error = errno;
	task.over = 1;
	printf("accept: %d %s, a handler ran: %d\n", found, found < 0 ? strerrorname_np(error) : "", seen > 0);
	pthread_join(other, NULL);
	close(third);
	close(fd);
}

/* Calls that begin again: the handler runs meanwhile, and does what they wait for. */
enum { BY_RECV, BY_READ, BY_RECVFROM, BY_DATAGRAM, BY_ACCEPT, BY_SEND, BY_ALL };

static const char *const waits[BY_ALL] = {"recv", "read", "recvfrom", "recv of a datagram", "accept", "send"};
static volatile int acts_for, acted;
static int other_end;
static struct sockaddr_storage where_to;

static void acts(int number)
{
	int before = errno;
	char bytes[65536];

	(void)number;
	acted++;
	if (acts_for == BY_SEND) {
		while (recv(other_end, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
			;
	} else if (acts_for == BY_ACCEPT) {
		if (acted == 1 && connect(other_end, (void *)&where_to, self_len))
			die("connect in a handler");
	} else if (acted == 1 && send(other_end, "x", 1, 0) != 1) {
		die("send in a handler");
	}
	errno = before;
}

static void begun_again(int call)
{
	static char block[1 << 20];
	int ends[2] = {-1, -1}, listening = -1, found = -1;
	char byte;
	pthread_t other;

	acts_for = call;
	acted = 0;
	if (call == BY_ACCEPT) {
		listening = listener();
		where_to = name_of(listening);
		ends[1] = socket(self.ss_family, SOCK_STREAM, 0);
	} else if (call == BY_DATAGRAM) {
		ends[0] = bound(SOCK_DGRAM);
		ends[1] = bound(SOCK_DGRAM);
		where_to = name_of(ends[0]);
		if (connect(ends[1], (void *)&where_to, self_len))
			die("connect");
	} else {
		pair(ends);
	}
	other_end = ends[1];
	/* Until nothing moves any more. */
	for (int idle = 0; call == BY_SEND && idle < 5; idle++) {
		for (size_t size = sizeof(block); size; size /= 2)
			while (send(ends[0], block, size, MSG_DONTWAIT) > 0)
				idle = 0;
		usleep(EVERY_US);
	}
	struct task task = {pthread_self(), SIGUSR1, MOST, call == BY_SEND ? -1 : ends[1], 0};
	pthread_create(&other, NULL, disturbs, &task);
	switch (call) {
	case BY_READ:
		found = read(ends[0], &byte, 1);
		break;
	case BY_RECVFROM:
		found = recvfrom(ends[0], &byte, 1, 0, NULL, NULL);
		break;
	case BY_ACCEPT:
		found = accept(listening, NULL, NULL);
		close(found);
		found = found >= 0;
		break;
	case BY_SEND:
		found = send(ends[0], "y", 1, 0);
		break;
	default:
		found = recv(ends[0], &byte, 1, 0);
	}
	int error = errno;
	task.over = 1;
	printf("%s that a handler serves: %d %s, it ran: %d\n", waits[call], found, found < 0 ? strerrorname_np(error) : "", acted > 0);
	pthread_join(other, NULL);
	close(ends[0]);
	close(ends[1]);
	close(listening);
}

/* A call ends for no signal without a handler: stopped and continued, and a child ends of which nobody wants to hear. Nor do handlers that did not run count. */
static void *sends_later(void *given)
{
	struct task *task = given;

	waitpid(task->number, NULL, 0);
	usleep(EVERY_US);
	if (!task->over && send(task->fd, "x", 1, 0) != 1)
		die("send");
	return NULL;
}

static void stopped(int call)
{
	int ends[2];
	pthread_t other;
	pid_t us = getpid(), child;

	pair(ends);
	child = fork();
	if (!child) {
		for (int times = 0; times < 5; times++) {
			usleep(EVERY_US);
			kill(us, SIGSTOP);
			usleep(EVERY_US);
			kill(us, SIGCONT);
		}
		_exit(0);
	}
	seen = 0;
	struct task task = {pthread_self(), child, 0, ends[1], 0};
	pthread_create(&other, NULL, sends_later, &task);
	int found = blocks(call, ends[0], -1);
	int error = errno;
	task.over = 1;
	printf("stopped, %s: %d %s, a handler ran: %d\n", names[call], found, found < 0 ? strerrorname_np(error) : "", seen > 0);
	pthread_join(other, NULL);
	close(ends[0]);
	close(ends[1]);
}

static const char *is(void *handler)
{
	return handler == (void *)note ? "note" : handler == (void *)note_with_info ? "note with info" :
		handler == (void *)SIG_DFL ? "default" : handler == (void *)SIG_IGN ? "ignored" : "another";
}

static void shown(const char *what, int number)
{
	struct sigaction old;

	sigaction(number, NULL, &old);
	printf("%s: %s, flags %x, USR1 masked: %d\n", what, is((void *)old.sa_sigaction), old.sa_flags & ~0x04000000, sigismember(&old.sa_mask, SIGUSR1));
}

static void handlers_as_the_program_sees_them(void)
{
	struct sigaction action = {.sa_sigaction = note_with_info, .sa_flags = SA_SIGINFO | SA_ONSTACK}, old;

	handle(SIGHUP, 0, note);
	shown("plain", SIGHUP);
	sigaddset(&action.sa_mask, SIGUSR1);
	sigaction(SIGHUP, &action, &action);
	printf("before, in the same place: %s\n", is((void *)action.sa_handler));
	shown("with info", SIGHUP);
	seen = 0;
	raise(SIGHUP);
	printf("ran: %d\n", seen);
	printf("signal: %s\n", is((void *)signal(SIGHUP, note)));
	shown("by signal", SIGHUP);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	printf("sigset: %s\n", is((void *)sigset(SIGHUP, note)));
	shown("by sigset", SIGHUP);
	printf("held: %s\n", is((void *)sigset(SIGHUP, SIG_HOLD)));
	seen = 0;
	raise(SIGHUP);
	printf("ran: %d\n", seen);
	printf("was held: %d\n", sigset(SIGHUP, note) == SIG_HOLD);
	printf("ran: %d\n", seen);
	for (int number = 0; number <= 65; number += 65) {
		int failed = sigset(number, number ? SIG_HOLD : note) == SIG_ERR;
		printf("sigset of %d: %d %s\n", number, failed, strerrorname_np(errno));
	}
	signal(SIGHUP, note);
#pragma GCC diagnostic pop
	printf("siginterrupt: %d\n", siginterrupt(SIGHUP, 1));
	shown("ends calls", SIGHUP);
	printf("signal again: %s\n", is((void *)signal(SIGHUP, note)));
	shown("still", SIGHUP);
	printf("siginterrupt: %d\n", siginterrupt(SIGHUP, 0));
	shown("restarts", SIGHUP);
	printf("ignore: %s\n", is((void *)signal(SIGHUP, SIG_IGN)));
	printf("default: %s\n", is((void *)signal(SIGHUP, SIG_DFL)));
	printf("once: %s\n", is((void *)sysv_signal(SIGHUP, note)));
	shown("once", SIGHUP);
	seen = 0;
	raise(SIGHUP);
	printf("ran: %d\n", seen);
	shown("after once", SIGHUP);
	handle(SIGHUP, SA_RESETHAND, note);
	raise(SIGHUP);
	shown("after its only time", SIGHUP);
	for (int number = -1; number <= 66; number++) {
		errno = 0;
		action.sa_handler = note;
		int answer = sigaction(number, &action, &old);
		if (answer)
			printf("sigaction of %d: %s\n", number, strerrorname_np(errno));
		else
			sigaction(number, &old, NULL);
	}
	printf("signal of 0: %d %s\n", signal(0, note) == SIG_ERR, strerrorname_np(errno));
	printf("signal with an error: %d %s\n", signal(SIGHUP, SIG_ERR) == SIG_ERR, strerrorname_np(errno));
	pid_t child = vfork();
	if (!child) {
		/* In the parent's memory. */
		signal(SIGUSR1, SIG_DFL);
		signal(SIGUSR2, SIG_IGN);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	shown("after a child by vfork", SIGUSR1);
	seen = 0;
	raise(SIGUSR1);
	raise(SIGUSR2);
	printf("ran: %d\n", seen);
}

int main(int argc, char **argv)
{
	alarm(2 * TIME_LIMIT_S);
	self_from(argc > 1 ? argv[1] : "127.0.0.1");
	handle(SIGUSR1, SA_RESTART, note);
	handle(SIGUSR2, 0, note);
	for (int call = 0; call < CALLS; call++)
		disturbed("ended", SIGUSR2, MOST, call);
	/* Which handler it was decides, whatever else is installed. */
	disturbed("begun again", SIGUSR1, 5, RECV);
	disturbed("begun again", SIGUSR1, 5, READ);
	disturbed("never begun again", SIGUSR1, MOST, POLL);
	disturbed("never begun again", SIGUSR1, MOST, SELECT);
	disturbed("never begun again", SIGUSR1, MOST, EPOLL);
	handle(SIGUSR2, 0, looks);
	disturbed("a handler that looks", SIGUSR2, MOST, RECV);
	printf("it found %d\n", in_handler_found);
	disturbed("a handler that looks", SIGUSR2, MOST, EPOLL);
	handle(SIGUSR2, 0, note);
	accepts();
	handle(SIGUSR1, SA_RESTART, acts);
	for (int call = 0; call < BY_ALL; call++)
		begun_again(call);
	/* As a runtime of Rust's has it. */
	handle(SIGSEGV, 0, note);
	for (int call = 0; call < EPOLL; call++)
		stopped(call);
	handlers_as_the_program_sees_them();
	return 0;
}
