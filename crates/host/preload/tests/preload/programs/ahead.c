/* Many connections, so that the process has descriptors ahead of need: nobody sees anything of that, not by their numbers, not in a child, and not when there are no more. */
#include "common.h"

#include <sys/resource.h>

#define MANY 80

static int listening;

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

int main(int argc, char **argv)
{
	self_from(argc > 1 ? argv[1] : "127.0.0.1");
	listening = listener();
	numbers();
	child();
	executed();
	killed();
	full();
	return 0;
}
