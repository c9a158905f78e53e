/* Processes that fork at once while their threads open their first sockets, wait in their first sets and write to their first streams: the children use sockets as if nothing was. */
#include "common.h"

#define PROCESSES 40
#define THREADS 3
#define CHILDREN 4
/* What hangs reaches it. */
#define CHILD_S 20

static pthread_barrier_t begun;

/* What a process does first with sockets. Returns 0 where all went well. */
static int first_steps(int number)
{
	int fd = socket(self.ss_family, number % 2 ? SOCK_DGRAM : SOCK_STREAM, 0), set = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
	struct sockaddr_storage name;
	socklen_t len = sizeof(name);
	char byte;

	if (fd < 0 || set < 0)
		return 1;
	if (number % 3 == 0 && epoll_ctl(set, EPOLL_CTL_ADD, fd, &event))
		return 2;
	if (bind(fd, (struct sockaddr *)&self, self_len))
		return 3;
	if (getsockname(fd, (struct sockaddr *)&name, &len))
		return 4;
	if (number % 2) {
		int copy = dup(fd);
		if (sendto(fd, "x", 1, 0, (struct sockaddr *)&name, self_len) != 1 || recv(copy, &byte, 1, 0) != 1)
			return 5;
		close(copy);
	} else {
		int from = socket(self.ss_family, SOCK_STREAM, 0);
		if (listen(fd, 5) || connect(from, (struct sockaddr *)&name, self_len))
			return 6;
		int one = accept(fd, NULL, NULL);
		FILE *stream = fdopen(from, "w");
		if (one < 0 || !stream || fputc('x', stream) == EOF || fclose(stream))
			return 7;
		if (recv(one, &byte, 1, 0) != 1)
			return 8;
		close(one);
	}
	close(set);
	close(fd);
	return 0;
}

static void *thread(void *number)
{
	pthread_barrier_wait(&begun);
	return (void *)(intptr_t)first_steps((int)(intptr_t)number);
}

/* One process, whose threads and whose children begin at the same time. */
static int process(int number)
{
	pthread_t threads[THREADS];
	pid_t children[CHILDREN];
	int failed = 0;

	pthread_barrier_init(&begun, NULL, THREADS + 1);
	for (int at = 0; at < THREADS; at++)
		pthread_create(&threads[at], NULL, thread, (void *)(intptr_t)(number + at));
	pthread_barrier_wait(&begun);
	for (int at = 0; at < CHILDREN; at++) {
		children[at] = fork();
		if (children[at] == 0) {
			alarm(CHILD_S);
			_exit(first_steps(number + at));
		}
	}
	for (int at = 0; at < CHILDREN; at++) {
		int status = -1;
		waitpid(children[at], &status, 0);
		failed = failed ? failed : WIFSIGNALED(status) ? 100 + WTERMSIG(status) : WEXITSTATUS(status);
	}
	for (int at = 0; at < THREADS; at++) {
		void *status = NULL;
		pthread_join(threads[at], &status);
		failed = failed ? failed : status ? 50 + (int)(intptr_t)status : 0;
	}
	return failed;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	self_from(argv[1]);
	if (argc == 3)
		return process(atoi(argv[2]));
	for (int number = 0; number < PROCESSES; number++) {
		char text[16];
		int status = -1;
		snprintf(text, sizeof(text), "%d", number);
		pid_t pid = fork();
		if (pid == 0) {
			execl("/proc/self/exe", "beginnings", argv[1], text, (char *)NULL);
			_exit(127);
		}
		waitpid(pid, &status, 0);
		if (status)
			printf("process %d: %#x\n", number, status);
	}
	printf("done\n");
	return 0;
}
