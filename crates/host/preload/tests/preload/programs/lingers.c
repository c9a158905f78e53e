/* close with SO_LINGER waits until the peer has it all, for so many seconds, or until a signal comes. */
#include "common.h"
#include <time.h>

/* Never waited for. */
#define LONG_S 50

static volatile int seen, is_reading;

static void note(int number)
{
	(void)number;
	seen++;
}

/* Fills the way to the peer, which takes little. */
static void full(int ends[2])
{
	static char bytes[1 << 14];
	int listening = bound(SOCK_STREAM);

	setsockopt(listening, SOL_SOCKET, SO_RCVBUF, &(int){4096}, sizeof(int));
	listen(listening, 5);
	ends[0] = connected_to(listening);
	ends[1] = accept(listening, NULL, NULL);
	close(listening);
	while (send(ends[0], bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

static void linger(int fd, int seconds)
{
	struct linger linger = {1, seconds};

	if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)))
		die("SO_LINGER");
}

static void *reads(void *given)
{
	char bytes[1 << 16];

	usleep(200000);
	is_reading = 1;
	while (recv(*(int *)given, bytes, sizeof(bytes), 0) > 0)
		;
	return NULL;
}

static void *disturbs(void *given)
{
	usleep(200000);
	pthread_kill(*(pthread_t *)given, SIGUSR1);
	return NULL;
}

static void *resets(void *given)
{
	usleep(200000);
	is_reading = 1;
	linger(*(int *)given, 0);
	close(*(int *)given);
	return NULL;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
	pthread_t other, us = pthread_self();
	int ends[2];
	double start;

	self_from(argc > 1 ? argv[1] : "127.0.0.1");
	sigaction(SIGUSR1, &action, NULL);

	full(ends);
	linger(ends[0], LONG_S);
	pthread_create(&other, NULL, reads, &ends[1]);
	printf("until it is read: %d", close(ends[0]));
	printf(", the peer reads: %d\n", is_reading);
	pthread_join(other, NULL);
	close(ends[1]);

	full(ends);
	linger(ends[0], 1);
	start = now();
	printf("a second: %d", close(ends[0]));
	printf(", waited for it: %d\n", now() - start > 0.9);
	close(ends[1]);

	full(ends);
	linger(ends[0], LONG_S);
	pthread_create(&other, NULL, disturbs, &us);
	printf("a signal: %d", close(ends[0]));
	printf(", a handler ran: %d, the descriptor is free: %d\n", seen, fcntl(ends[0], F_GETFD) == -1);
	pthread_join(other, NULL);
	close(ends[1]);

	is_reading = 0;
	full(ends);
	linger(ends[0], LONG_S);
	pthread_create(&other, NULL, resets, &ends[1]);
	printf("a reset: %d", close(ends[0]));
	printf(", it had come: %d\n", is_reading);
	pthread_join(other, NULL);

	/* Somebody else has it, so this is not its end. */
	full(ends);
	linger(ends[0], LONG_S);
	pid_t child = fork();
	if (!child) {
		pause();
		_exit(0);
	}
	printf("a child has it: %d\n", close(ends[0]));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(ends[1]);

	/* Bytes that nobody read end it by a reset, at once. */
	full(ends);
	linger(ends[0], LONG_S);
	send(ends[1], "x", 1, 0);
	await(ends[0], POLLIN);
	start = now();
	printf("something unread: %d", close(ends[0]));
	printf(", waited: %d", now() - start > LONG_S / 2);
	while (recv(ends[1], (char[1 << 14]){0}, 1 << 14, 0) > 0)
		;
	printf(", and the peer: %s\n", strerrorname_np(errno));
	close(ends[1]);

	/* Read, or without anything to send, it is as it was. */
	full(ends);
	linger(ends[0], 1);
	send(ends[1], "x", 1, 0);
	await(ends[0], POLLIN);
	recv(ends[0], &(char){0}, 1, 0);
	start = now();
	printf("all read: %d", close(ends[0]));
	printf(", waited: %d\n", now() - start > 0.9);
	close(ends[1]);
	pair(ends);
	linger(ends[0], LONG_S);
	send(ends[1], "x", 1, 0);
	await(ends[0], POLLIN);
	start = now();
	printf("unread and nothing written: %d", close(ends[0]));
	printf(", waited: %d\n", now() - start > LONG_S / 2);
	close(ends[1]);

	/* Nothing to wait for. */
	pair(ends);
	linger(ends[0], LONG_S);
	printf("nothing written: %d\n", close(ends[0]));
	close(ends[1]);
	int fd = listener();
	linger(fd, LONG_S);
	printf("a listener: %d\n", close(fd));
	return 0;
}
