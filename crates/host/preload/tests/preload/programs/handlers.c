/* Handlers that do not come back, or that call what they interrupted; and what they see. */
#include "common.h"
#include <setjmp.h>
#include <time.h>

static sigjmp_buf back;
static volatile int seen, code, value, signals_masked, on_stack, is_up;
static struct sockaddr_storage server;
static char stack[64 * 1024];

/* A timer of this thread's, which sends a signal every so many microseconds, or once. */
static timer_t timer_of(int number)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = number};
	timer_t timer;

	if (timer_create(CLOCK_MONOTONIC, &event, &timer))
		die("timer_create");
	return timer;
}

static void start(timer_t timer, long us, int again)
{
	struct itimerspec time = {.it_value = {.tv_nsec = us * 1000}};

	if (again)
		time.it_interval = time.it_value;
	timer_settime(timer, 0, &time, NULL);
}

static void handle(int number, int flags, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO};

	sigaddset(&action.sa_mask, SIGWINCH);
	if (sigaction(number, &action, NULL))
		die("sigaction");
}

static void leaves(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info, (void)context;
	seen++;
	siglongjmp(back, 1);
}

static void notes(int number, siginfo_t *info, void *context)
{
	sigset_t now;
	char here;

	(void)context;
	pthread_sigmask(SIG_BLOCK, NULL, &now);
	signals_masked = sigismember(&now, number) + 2 * sigismember(&now, SIGWINCH) + 4 * sigismember(&now, SIGHUP);
	on_stack = &here >= stack && &here < stack + sizeof(stack);
	code = info->si_code;
	value = info->si_value.sival_int;
	seen++;
}

/* Opens a connection and closes it. */
static void connects(int number, siginfo_t *info, void *context)
{
	int error = errno;
	int fd = socket(server.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);

	(void)number, (void)info, (void)context;
	if (fd >= 0) {
		connect(fd, (void *)&server, self_len);
		close(fd);
	}
	seen++;
	errno = error;
}

/* As old programs end a call that takes too long. */
static void left_while_they_wait(void)
{
	timer_t timer = timer_of(SIGUSR1);
	int waits = 0, ends[2], listening = listener();
	struct pollfd one;
	char byte;

	handle(SIGUSR1, 0, leaves);
	for (volatile int round = 0; round < 40; round++) {
		pair(ends);
		one = (struct pollfd){.fd = ends[0], .events = POLLIN};
		if (!sigsetjmp(back, 1)) {
			start(timer, 3000, 0);
			switch (round % 4) {
			case 0:
				recv(ends[0], &byte, 1, 0);
				break;
			case 1:
				poll(&one, 1, -1);
				break;
			case 2:
				accept(listening, NULL, NULL);
				break;
			default:
				read(ends[0], &byte, 1);
			}
			puts("nothing waited");
		} else {
			waits++;
		}
		/* It is ours still, and ends when it is closed. */
		if (send(ends[1], "x", 1, 0) != 1 || recv(ends[0], &byte, 1, 0) != 1)
			puts("the connection is gone");
		close(ends[0]);
		if (recv(ends[1], &byte, 1, 0) != 0)
			puts("the other end was not told");
		close(ends[1]);
	}
	timer_delete(timer);
	close(listening);
	printf("left while they waited: %d\n", waits);
}

/* At any moment: nothing is held afterwards. */
static void left_anywhere(void)
{
	timer_t timer = timer_of(SIGUSR1);
	int ends[2];
	volatile int fd = -1, rounds = 0, lost = 0;
	volatile unsigned char sent = 0, expected = 0;
	unsigned char byte;

	pair(ends);
	handle(SIGUSR1, 0, leaves);
	seen = 0;
	sigset_t usr1;
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigsetjmp(back, 1);
	start(timer, 150 + seen % 200, 0);
	while (seen < 300) {
		rounds++;
		/* What a call that was left came to is not known; with the signal blocked it is. */
		fd = socket(self.ss_family, SOCK_STREAM, 0);
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
		bind(fd, (void *)&self, self_len);
		listen(fd, 5);
		close(fd);
		pthread_sigmask(SIG_BLOCK, &usr1, NULL);
		if (send(ends[1], (void *)&sent, 1, 0) == 1)
			sent++;
		if (recv(ends[0], &byte, 1, 0) == 1 && byte != expected++)
			lost++;
		pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
	}
	timer_delete(timer);
	printf("left anywhere: %d, lost bytes: %d\n", seen, lost);
	close(ends[0]);
	close(ends[1]);
	pair(ends);
	printf("and another connection: %zd\n", send(ends[0], "x", 1, 0));
	close(ends[0]);
	close(ends[1]);
}

/* A handler that calls what it interrupted. */
static void called_again(void)
{
	timer_t timer = timer_of(SIGUSR1);
	int listening = listener(), failed = 0, fd, other;

	server = name_of(listening);
	handle(SIGUSR1, SA_RESTART, connects);
	seen = 0;
	start(timer, 500, 1);
	while (seen < 300) {
		fd = socket(self.ss_family, SOCK_STREAM, 0);
		if (fd < 0 || bind(fd, (void *)&self, self_len) || listen(fd, 5))
			failed++;
		struct sockaddr_storage name = name_of(fd);
		other = socket(self.ss_family, SOCK_STREAM, 0);
		if (connect(other, (void *)&name, self_len))
			failed++;
		close(other);
		close(fd);
		/* Those of the handler. */
		fcntl(listening, F_SETFL, O_NONBLOCK);
		while ((fd = accept(listening, NULL, NULL)) >= 0)
			close(fd);
	}
	timer_delete(timer);
	close(listening);
	printf("called again, failed: %d\n", failed);
}

/* A thread that ends in a handler. */
static void ends(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info, (void)context;
	pthread_exit(&server);
}

static void cleans_up(void *given)
{
	(void)given;
	seen++;
}

static void *lives(void *given)
{
	char byte;

	pthread_cleanup_push(cleans_up, NULL);
	is_up = 1;
	if (given)
		recv(*(int *)given, &byte, 1, 0);
	for (;;)
		close(bound(SOCK_STREAM));
	pthread_cleanup_pop(0);
	return NULL;
}

static void ended_in_a_handler(void)
{
	int ends_of[2], ended = 0;
	pthread_t other;
	void *came;

	pair(ends_of);
	handle(SIGUSR2, 0, ends);
	seen = 0;
	for (int round = 0; round < 20; round++) {
		is_up = 0;
		pthread_create(&other, NULL, lives, round % 2 ? &ends_of[0] : NULL);
		while (!is_up)
			usleep(100);
		usleep(3000);
		pthread_kill(other, SIGUSR2);
		pthread_join(other, &came);
		ended += came == &server;
	}
	close(ends_of[0]);
	close(ends_of[1]);
	printf("threads that ended in a handler: %d, cleaned up: %d\n", ended, seen);
}

/* A child of a handler's. */
static void forks(int number, siginfo_t *info, void *context)
{
	pid_t child = fork();
	sigset_t now;

	(void)number, (void)info, (void)context;
	if (!child) {
		pthread_sigmask(SIG_BLOCK, NULL, &now);
		int fd = socket(self.ss_family, SOCK_STREAM, 0);
		_exit(fd < 0 || bind(fd, (void *)&self, self_len) || sigismember(&now, SIGHUP));
	}
	int status;
	while (waitpid(child, &status, 0) < 0)
		;
	if (status)
		value++;
	seen++;
}

static void forked_in_a_handler(void)
{
	timer_t timer = timer_of(SIGUSR1);

	handle(SIGUSR1, SA_RESTART, forks);
	seen = value = 0;
	start(timer, 2000, 1);
	while (seen < 30)
		close(bound(SOCK_STREAM));
	timer_delete(timer);
	printf("children of handlers that failed: %d\n", value);
}

static void *sends_a_value(void *given)
{
	usleep(30000);
	pthread_sigqueue(*(pthread_t *)given, SIGUSR2, (union sigval){.sival_int = 4711});
	return NULL;
}

/* One call that waits, and a signal with a value meanwhile. */
static void told(const char *what, int flags, int is_let_in)
{
	pthread_t us = pthread_self(), other;
	sigset_t usr2, none, before;
	stack_t place = {.ss_sp = stack, .ss_size = sizeof(stack)};
	int ends[2], found = 0;
	char byte;

	pair(ends);
	sigaltstack(&place, NULL);
	sigemptyset(&none);
	sigemptyset(&usr2);
	sigaddset(&usr2, SIGUSR2);
	handle(SIGUSR2, flags, notes);
	if (is_let_in)
		pthread_sigmask(SIG_BLOCK, &usr2, NULL);
	seen = 0;
	pthread_create(&other, NULL, sends_a_value, &us);
	struct pollfd one = {.fd = ends[0], .events = POLLIN};
	struct epoll_event event = {.events = EPOLLIN};
	int set = epoll_create1(0);
	epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event);
	switch (is_let_in) {
	case 0:
		found = recv(ends[0], &byte, 1, 0);
		break;
	case 1:
		found = ppoll(&one, 1, NULL, &none);
		break;
	default:
		found = epoll_pwait(set, &event, 1, -1, &none);
	}
	int error = errno;
	pthread_join(other, NULL);
	pthread_sigmask(SIG_UNBLOCK, &usr2, &before);
	struct sigaction now;
	sigaction(SIGUSR2, NULL, &now);
	printf("%s: %d %s, ran %d times, code %d, value %d, masked %d, on its stack %d, blocked afterwards %d, HUP too %d, installed still %d\n", what, found, found < 0 ? strerrorname_np(error) : "", seen,
	       code, value, signals_masked, on_stack, sigismember(&before, SIGUSR2), sigismember(&before, SIGHUP), now.sa_handler != SIG_DFL);
	close(set);
	close(ends[0]);
	close(ends[1]);
}

/* Bytes and descriptors from a socket of the kernel's. */
static void left_in_a_call_of_the_kernels(void)
{
	timer_t timer = timer_of(SIGUSR1);
	char room[CMSG_SPACE(sizeof(int))], byte;
	struct iovec part = {&byte, 1};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
	int ends[2];

	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	handle(SIGUSR1, SA_RESTART, leaves);
	if (!sigsetjmp(back, 1)) {
		start(timer, 5000, 0);
		recvmsg(ends[0], &message, 0);
		puts("nothing waited");
	}
	timer_delete(timer);
	int fd = bound(SOCK_STREAM);
	printf("afterwards: %d", listen(fd, 5));
	printf(" %d\n", close(fd));
}

/* Two signals at once, again and again, to a thread that waits in a call. */
#define PAIRS 300

static volatile int firsts, seconds;

static void counts(int number)
{
	if (number == SIGUSR1)
		firsts++;
	else
		seconds++;
}

static void *sends_pairs(void *target)
{
	for (int sent = 0; sent < PAIRS; sent++) {
		usleep(2000);
		pthread_kill(*(pthread_t *)target, SIGUSR1);
		pthread_kill(*(pthread_t *)target, SIGUSR2);
	}
	return NULL;
}

static void at_once(void)
{
	struct sigaction action = {.sa_handler = counts}, before[2];
	pthread_t other, us = pthread_self();
	sigset_t mask;
	char byte;
	int ends[2];

	pair(ends);
	sigaction(SIGUSR1, &action, &before[0]);
	sigaction(SIGUSR2, &action, &before[1]);
	pthread_create(&other, NULL, sends_pairs, &us);
	struct pollfd one = {.fd = ends[0], .events = POLLIN};
	for (int round = 0; round < 2 * PAIRS; round++) {
		poll(&one, 1, 5);
		send(ends[1], "x", 1, 0);
		recv(ends[0], &byte, 1, 0);
	}
	pthread_join(other, NULL);
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	/* Some may come while the one before waits. */
	printf("two at once: all of the first %d, of the second %d", firsts > PAIRS * 3 / 4, seconds > PAIRS * 3 / 4);
	printf(", blocked %d %d\n", sigismember(&mask, SIGUSR1), sigismember(&mask, SIGUSR2));
	sigaction(SIGUSR1, &before[0], NULL);
	sigaction(SIGUSR2, &before[1], NULL);
	close(ends[0]);
	close(ends[1]);
}

int main(int argc, char **argv)
{
	self_from(argc > 1 ? argv[1] : "127.0.0.1");
	left_while_they_wait();
	left_anywhere();
	called_again();
	ended_in_a_handler();
	forked_in_a_handler();
	told("recv", 0, 0);
	told("recv, once", SA_RESETHAND, 0);
	told("recv, on its stack", SA_ONSTACK, 0);
	told("ppoll", 0, 1);
	told("epoll_pwait", 0, 2);
	left_in_a_call_of_the_kernels();
	at_once();
	return 0;
}
