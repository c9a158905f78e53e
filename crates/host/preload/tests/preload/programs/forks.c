/* Processes that share sockets: a listener accepted from by several, a connection handed to a child, a vfork that closes, an exec. */
#include "common.h"
#include <sys/resource.h>

#define WORKERS 3
#define CLIENTS 12
#define QUESTIONS 200

/* Sends back what comes until the end. */
static void echo(int fd)
{
	char text[256];
	ssize_t len;

	while ((len = recv(fd, text, sizeof(text), 0)) > 0)
		if (send(fd, text, len, 0) != len)
			die("send in a child");
}

static void ask(int fd, int number)
{
	char text[32], back[32];
	int len = snprintf(text, sizeof(text), "question %d", number);

	if (send(fd, text, len, 0) != len)
		die("send");
	if (recv(fd, back, len, MSG_WAITALL) != len || memcmp(text, back, len))
		die("the answer");
}

static void reap(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	if (WIFEXITED(status))
		printf("a child ended with %d\n", WEXITSTATUS(status));
	else
		printf("a child ended by signal %d\n", WTERMSIG(status));
}

/* Every worker accepts from the listener that it inherited. */
static void workers(void)
{
	int fd = listener();
	pid_t pids[WORKERS];

	for (int i = 0; i < WORKERS; i++) {
		fflush(stdout);
		pids[i] = fork();
		if (pids[i] < 0)
			die("fork");
		if (pids[i] == 0) {
			int connection;

			while ((connection = accept(fd, NULL, NULL)) >= 0) {
				echo(connection);
				close(connection);
			}
			_exit(1);
		}
	}
	for (int i = 0; i < CLIENTS; i++) {
		int client = connected_to(fd);

		ask(client, i);
		close(client);
	}
	printf("%d were served by %d workers\n", CLIENTS, WORKERS);
	for (int i = 0; i < WORKERS; i++) {
		kill(pids[i], SIGKILL);
		reap(pids[i]);
	}
	close(fd);
}

/* The parent accepts, a child serves, as inetd and sshd do. */
static void child_for_each(void)
{
	int fd = listener();

	for (int i = 0; i < WORKERS; i++) {
		int client = connected_to(fd);
		int theirs = accept(fd, NULL, NULL);

		fflush(stdout);
		pid_t pid = fork();
		if (pid == 0) {
			close(fd);
			close(client);
			echo(theirs);
			_exit(0);
		}
		close(theirs);
		ask(client, i);
		shutdown(client, SHUT_WR);
		char byte;
		printf("the end: %zd\n", recv(client, &byte, 1, 0));
		close(client);
		reap(pid);
	}
	close(fd);
}

/* A child serves what its parent accepted and closed. The parent waits for the next one, and is not
 * woken for what comes over the first. */
static void parent_sleeps(void)
{
	int fd = listener();
	struct rusage before, after;

	fflush(stdout);
	pid_t asking = fork();
	if (asking == 0) {
		int client = connected_to(fd);

		for (int i = 0; i < QUESTIONS; i++)
			ask(client, i);
		close(client);
		close(connected_to(fd));
		_exit(0);
	}
	int theirs = accept(fd, NULL, NULL);
	pid_t serving = fork();
	if (serving == 0) {
		echo(theirs);
		_exit(0);
	}
	close(theirs);
	getrusage(RUSAGE_SELF, &before);
	int next = accept(fd, NULL, NULL);
	getrusage(RUSAGE_SELF, &after);
	printf("the parent slept on: %d\n", after.ru_nvcsw - before.ru_nvcsw < QUESTIONS / 4);
	close(next);
	close(fd);
	reap(asking);
	reap(serving);
}

/* A child makes connections of its own, and the parent's go on. */
static void child_connects(void)
{
	int fd = listener(), ends[2];

	pair(ends);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		int mine = connected_to(fd);

		ask(mine, 1);
		close(mine);
		_exit(0);
	}
	int theirs = accept(fd, NULL, NULL);
	echo(theirs);
	close(theirs);
	reap(pid);
	char text[4];
	send(ends[0], "more", 4, 0);
	printf("the parent's own goes on: %zd\n", recv(ends[1], text, 4, MSG_WAITALL));
	close(ends[0]);
	close(ends[1]);
	close(fd);
}

/* What a vfork's child closes and duplicates is its own affair. */
static void vforked(void)
{
	int ends[2];
	char text[4];

	pair(ends);
	fflush(stdout);
	pid_t pid = vfork();
	if (pid == 0) {
		dup2(ends[0], 1);
		close(ends[0]);
		close(ends[1]);
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	reap(pid);
	send(ends[0], "on", 2, 0);
	printf("after the vfork: %zd\n", recv(ends[1], text, 2, MSG_WAITALL));
	printf("after the exec nobody else holds it: ");
	close(ends[0]);
	printf("%zd\n", recv(ends[1], text, 2, 0));
	close(ends[1]);
}

static void *reads_a_byte(void *fd)
{
	char byte;

	if (recv(*(int *)fd, &byte, 1, 0) != 1)
		die("recv in a thread");
	return NULL;
}

/* While a thread is in a call, the process forks: the thread is not in the child, which closes the socket and has it no more. */
static void thread_in_a_call(void)
{
	int ends[2], stays[2];
	pthread_t thread;
	char byte;

	pair(ends);
	if (pipe(stays) || pthread_create(&thread, NULL, reads_a_byte, &ends[1]))
		die("pipe");
	usleep(100000);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		close(ends[0]);
		close(ends[1]);
		close(stays[1]);
		/* Until the parent has seen the end. */
		_exit(read(stays[0], &byte, 1));
	}
	send(ends[0], "x", 1, 0);
	pthread_join(thread, NULL);
	close(ends[1]);
	printf("the end comes while the child is there: %d\n", await(ends[0], POLLIN) == POLLIN);
	printf("%zd\n", recv(ends[0], &byte, 1, MSG_DONTWAIT));
	close(stays[1]);
	reap(pid);
	close(stays[0]);
	close(ends[0]);
}

static volatile int is_over;

static void *makes_connections(void *unused)
{
	while (!is_over) {
		int ends[2];

		pair(ends);
		close(ends[0]);
		close(ends[1]);
	}
	return NULL;
}

/* Forks while threads open and close: each child is served at once. */
static void threads_that_close(void)
{
	pthread_t threads[3];
	int ended = 0;

	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, makes_connections, NULL);
	for (int i = 0; i < 30; i++) {
		int status;
		pid_t pid = fork();
		if (pid == 0) {
			/* What stands at these numbers is closed, as a daemon does. */
			for (int fd = 3; fd < 64; fd++)
				close(fd);
			int ends[2];

			pair(ends);
			_exit(send(ends[0], "x", 1, 0) != 1);
		}
		ended += waitpid(pid, &status, 0) == pid && status == 0;
	}
	is_over = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	printf("%d children were served\n", ended);
}

static int undecided = -1;
static volatile int over;

static void *sets_options(void *arg)
{
	int on = 1;

	while (!over)
		setsockopt(undecided, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	return arg;
}

/* A thread is inside of a call on a socket that has no address yet; a child, which does not have the thread, goes on with the socket. */
static void thread_in_a_call_on_an_undecided_socket(void)
{
	pthread_t thread;
	int status = 0, on = 1;

	undecided = socket(self.ss_family, SOCK_DGRAM, 0);
	if (pthread_create(&thread, NULL, sets_options, NULL))
		die("pthread_create");
	for (int fork_number = 0; fork_number < 60 && !status; fork_number++) {
		pid_t pid = fork();

		if (pid == 0) {
			alarm(20);
			if (setsockopt(undecided, SOL_SOCKET, SO_RCVBUF, &on, sizeof(on)) || bind(undecided, (void *)&self, self_len))
				_exit(1);
			_exit(name_of(undecided).ss_family != self.ss_family);
		}
		waitpid(pid, &status, 0);
		/* On Linux the child has bound it for both. */
		int next = socket(self.ss_family, SOCK_DGRAM, 0);
		dup2(next, undecided);
		close(next);
	}
	printf("children beside a call on an undecided socket: status %d\n", status);
	over = 1;
	pthread_join(thread, NULL);
	close(undecided);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	self_from(argv[1]);
	workers();
	child_for_each();
	parent_sleeps();
	child_connects();
	vforked();
	thread_in_a_call();
	threads_that_close();
	thread_in_a_call_on_an_undecided_socket();
	return 0;
}
