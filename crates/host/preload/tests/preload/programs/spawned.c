/* Children that have their parent's memory until they execute something: those whose execution fails and that end as Go's do, by the system call that ends a thread, while threads come and go; and rights that a process of several threads gives up. */
#include "common.h"

#include <dirent.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>

enum { SPAWNERS = 6, TURNS = 40, THREADS = 4 };

static int failed_right, wrong_bytes;

static void *come_and_go(void *turns)
{
	for (int at = 0; at < (int)(long)turns; at++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, come_and_go, (void *)0) == 0)
			pthread_join(thread, NULL);
	}
	return NULL;
}

/* The child says what went wrong by a pipe, and ends its only thread. */
static __attribute__((noinline)) int spawn(const char *path, int *pipe_ends)
{
	char *argv[] = {"nothing", NULL}, *environment[] = {NULL};
	pid_t pid = vfork();

	if (pid == 0) {
		int errno_of_child;

		execve(path, argv, environment);
		errno_of_child = errno;
		syscall(SYS_write, pipe_ends[1], &errno_of_child, sizeof(errno_of_child));
		syscall(SYS_exit, 253);
	}
	return pid;
}

static void *spawner(void *path)
{
	for (int at = 0; at < TURNS; at++) {
		int ends[2], said = 0, status = 0;

		if (pipe(ends))
			die("pipe");
		pid_t pid = spawn(path, ends);
		close(ends[1]);
		ssize_t len = read(ends[0], &said, sizeof(said));
		close(ends[0]);
		if (waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 253 && len == sizeof(said) && (said == ENOENT || said == EACCES))
			__sync_fetch_and_add(&failed_right, 1);
		else
			__sync_fetch_and_add(&wrong_bytes, 1);
		come_and_go((void *)1);
	}
	return NULL;
}

static int stop[2];

static void *sleeper(void *unused)
{
	char byte;

	if (read(stop[0], &byte, 1) < 0)
		die("read");
	return unused;
}

static int compare_lines(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* What the kernel says of all threads of this process, each different answer once. */
static void tell_rights(const char *key)
{
	char answers[64][256];
	int count = 0;
	DIR *folder = opendir("/proc/self/task");
	struct dirent *entry;

	while ((entry = readdir(folder))) {
		char path[300], line[256];
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
		FILE *file = fopen(path, "r");
		while (file && fgets(line, sizeof(line), file)) {
			if (strncmp(line, key, strlen(key)))
				continue;
			int is_new = 1;
			for (int at = 0; at < count; at++)
				is_new &= strcmp(answers[at], line) != 0;
			if (is_new && count < 64)
				strcpy(answers[count++], line);
		}
		if (file)
			fclose(file);
	}
	closedir(folder);
	qsort(answers, count, sizeof(answers[0]), compare_lines);
	for (int at = 0; at < count; at++)
		printf("%s", answers[at]);
}

/* Signal 33 is what C libraries use for it; a program may, too. */
static volatile int came;

static void hear(int signal)
{
	came += signal;
}

#ifndef CLONE_CLEAR_SIGHAND
#define CLONE_CLEAR_SIGHAND 0x100000000ULL
#endif

struct to_clone {
	unsigned long long flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
};

/* By an instruction: a child in its parent's memory must not return from a function. */
static inline __attribute__((always_inline)) long clone3_here(struct to_clone *args)
{
	long answer;
#ifdef __x86_64__
	__asm__ volatile("syscall" : "=a"(answer) : "a"(435L), "D"(args), "S"(sizeof(*args)) : "rcx", "r11", "memory");
#else
	register long number __asm__("x8") = 435, word __asm__("x0") = (long)args, size __asm__("x1") = sizeof(*args);
	__asm__ volatile("svc 0" : "+r"(word) : "r"(number), "r"(size) : "memory");
	answer = word;
#endif
	return answer;
}

static void ended(const char *what, pid_t pid)
{
	int status = 0;

	waitpid(pid, &status, 0);
	printf("%s: %s %d\n", what, WIFEXITED(status) ? "exit" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

static const char *handler_of(int signal)
{
	struct sigaction action;

	sigaction(signal, NULL, &action);
	return action.sa_handler == SIG_DFL ? "none" : action.sa_handler == SIG_IGN ? "ignored" : "one";
}

/* As posix_spawn does since glibc 2.38. */
static __attribute__((noinline)) void spawned_without_handlers(void)
{
	struct to_clone args = {.flags = CLONE_CLEAR_SIGHAND | CLONE_VM | CLONE_VFORK, .exit_signal = SIGCHLD};
	long pid = clone3_here(&args);

	if (pid == -EINVAL) {
		args.flags &= ~CLONE_CLEAR_SIGHAND;
		pid = clone3_here(&args);
	}
	if (pid == 0)
		_exit(7);
	ended("spawned", pid);
}

static void without_handlers(int ends[2])
{
	struct sigaction action = {.sa_handler = hear};

	spawned_without_handlers();
	sigaction(SIGUSR1, &action, NULL);
	signal(SIGUSR2, SIG_IGN);
	fflush(stdout);
	struct to_clone args = {.flags = CLONE_CLEAR_SIGHAND, .exit_signal = SIGCHLD};
	pid_t pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0) {
		printf("in a child without handlers: %s, %s", handler_of(SIGUSR1), handler_of(SIGUSR2));
		printf(", send %zd\n", send(ends[0], "x", 1, 0));
		fflush(stdout);
		raise(SIGUSR1);
		_exit(8);
	}
	ended("without handlers", pid);
	char byte;
	printf("its parent: %s, %s, recv %zd\n", handler_of(SIGUSR1), handler_of(SIGUSR2), recv(ends[1], &byte, 1, 0));
	char *argv[] = {"sh", "-c", "exit 9", NULL}, *environment[] = {NULL};
	posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environment);
	ended("posix_spawn", pid);
}

int main(int argc, char **argv)
{
	pthread_t threads[SPAWNERS], sleepers[THREADS];
	char self_path[] = "/proc/self/status";

	if (argc < 2)
		return 2;
	alarm(TIME_LIMIT_S);
	self_from(argv[1]);
	/* A socket, so that the library is at work. */
	int ends[2];
	pair(ends);
	without_handlers(ends);
	for (int at = 0; at < SPAWNERS; at++)
		if (pthread_create(&threads[at], NULL, spawner, at % 2 ? "/nonexistent" : self_path))
			die("pthread_create");
	for (int at = 0; at < SPAWNERS; at++)
		pthread_join(threads[at], NULL);
	printf("children that failed as they should: %d, and not: %d\n", failed_right, wrong_bytes);

	if (pipe(stop))
		die("pipe");
	for (int at = 0; at < THREADS; at++)
		if (pthread_create(&sleepers[at], NULL, sleeper, NULL))
			die("pthread_create");
	struct sigaction action = {.sa_handler = hear};
	printf("a handler of 34: %d\n", sigaction(34, &action, NULL));
	for (int at = 0; at < 3; at++)
		syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), 34);
	printf("it came: %d\n", came);
	if (geteuid() == 0) {
		gid_t groups[] = {4242, 4243};
		printf("setgroups: %d\n", setgroups(2, groups));
		printf("setgid: %d\n", setgid(4241));
		printf("setuid: %d\n", setuid(4240));
		tell_rights("Uid:");
		tell_rights("Gid:");
		tell_rights("Groups:");
		tell_rights("CapEff:");
		int back = setuid(0);
		printf("back: %d %s\n", back, strerror(errno));
	}
	close(stop[1]);
	for (int at = 0; at < THREADS; at++)
		pthread_join(sleepers[at], NULL);
	char text[8] = "";
	ssize_t sent = send(ends[0], "hello", 5, 0);
	printf("the socket: %zd %zd\n", sent, recv(ends[1], text, 5, MSG_WAITALL));
	return 0;
}
