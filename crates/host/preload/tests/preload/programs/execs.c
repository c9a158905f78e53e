/* Programs that get their sockets from the one that executed them: a shell and a cat between a connection's ends, one that accepts, one that uses the C library's streams. */
#include "common.h"

#include <spawn.h>

extern char **environ;

static char self_text[64];

/* The connection stands at 0 and 1 of a program that is executed; what it says to `text`. */
static void talk(const char *what, char *const argv[], const char *text, int spawned)
{
	int ends[2], status;
	char back[256] = "";
	size_t got = 0;
	ssize_t len;
	pid_t pid;

	pair(ends);
	fflush(stdout);
	if (spawned) {
		posix_spawn_file_actions_t actions;

		posix_spawn_file_actions_init(&actions);
		posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
		posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
		posix_spawn_file_actions_addclose(&actions, ends[0]);
		posix_spawn_file_actions_addclose(&actions, ends[1]);
		if (posix_spawn(&pid, argv[0], &actions, NULL, argv, environ))
			die("posix_spawn");
		posix_spawn_file_actions_destroy(&actions);
	} else if ((pid = fork()) == 0) {
		dup2(ends[1], 0);
		dup2(ends[1], 1);
		close(ends[0]);
		close(ends[1]);
		execv(argv[0], argv);
		_exit(127);
	}
	close(ends[1]);
	if (send(ends[0], text, strlen(text), 0) < 0 || shutdown(ends[0], SHUT_WR))
		die("send");
	while (got < sizeof(back) - 1 && (len = recv(ends[0], back + got, sizeof(back) - 1 - got, 0)) > 0)
		got += len;
	waitpid(pid, &status, 0);
	printf("%s: exit %d, it said:\n%s--\n", what, WIFEXITED(status) ? WEXITSTATUS(status) : -1, back);
	close(ends[0]);
}

/* What the program does that was executed. */
static int streams(void)
{
	char line[64];

	while (fgets(line, sizeof(line), stdin))
		printf("a line: %s", line);
	printf("the end: %d\n", feof(stdin) != 0);
	return 7;
}

/* Accepts from the listener that it finds, as many as it is told. */
static int serves(int fd, int count)
{
	char text[64];

	for (int i = 0; i < count; i++) {
		int theirs = accept(fd, NULL, NULL);
		if (theirs < 0)
			return 8;
		ssize_t len = recv(theirs, text, sizeof(text), 0);
		send(theirs, text, len, 0);
		close(theirs);
	}
	return 9;
}

/* What a connection is after it was handed over. */
static int looks(int fd)
{
	struct sockaddr_storage name;
	socklen_t len = sizeof(name);
	int value = -7;

	int known = getpeername(fd, (void *)&name, &len);
	printf("peer: %d, %d\n", known, len == self_len);
	len = sizeof(value);
	getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &len);
	printf("TCP_NODELAY %d\n", value);
	value = 1;
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, sizeof(value));
	getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &len);
	printf("TCP_NODELAY then %d\n", value);
	printf("flags %x\n", fcntl(fd, F_GETFL) & O_NONBLOCK);
	char byte;
	ssize_t got = recv(fd, &byte, 1, 0);
	printf("recv: %zd %s\n", got, got < 0 ? strerrorname_np(errno) : "");
	fcntl(fd, F_SETFL, 0);
	printf("it reads %zd\n", recv(fd, &byte, 1, 0));
	printf("closed on exec: %s\n", fcntl(42, F_GETFD) < 0 ? strerrorname_np(errno) : "no");
	return 0;
}

static void servers(void)
{
	int fd = listener(), status;
	pid_t pids[3];
	char number[16];

	snprintf(number, sizeof(number), "%d", fd);
	char *argv[] = {"/proc/self/exe", self_text, "serves", number, NULL};
	fflush(stdout);
	for (int i = 0; i < 3; i++)
		if ((pids[i] = fork()) == 0) {
			execv(argv[0], argv);
			_exit(127);
		}
	int answered = 0;
	for (int i = 0; i < 12; i++) {
		int ours = connected_to(fd);
		char byte = 'a' + i, back = 0;
		send(ours, &byte, 1, 0);
		answered += recv(ours, &back, 1, 0) == 1 && back == byte;
		close(ours);
	}
	for (int i = 0; i < 3; i++) {
		waitpid(pids[i], &status, 0);
		printf("a server ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	}
	printf("%d were answered\n", answered);
	close(fd);
}

static void looked_at(void)
{
	int ends[2], on = 1, status;
	char number[16];

	pair(ends);
	setsockopt(ends[1], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	fcntl(ends[0], F_DUPFD_CLOEXEC, 42);
	snprintf(number, sizeof(number), "%d", ends[1]);
	char *argv[] = {"/proc/self/exe", self_text, "looks", number, NULL};
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		close(ends[0]);
		execv(argv[0], argv);
		_exit(127);
	}
	usleep(100000);
	send(ends[0], "x", 1, 0);
	waitpid(pid, &status, 0);
	close(42);
	close(ends[0]);
	close(ends[1]);
}

/* A datagram to all on the link. */
static int tells_all(int fd)
{
	struct sockaddr_in all = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = INADDR_BROADCAST};

	ssize_t sent = sendto(fd, "x", 1, 0, (void *)&all, sizeof(all));
	printf("to all: %zd %s\n", sent, sent < 0 ? strerror(errno) : "");
	return 0;
}

static void broadcasts(void)
{
	int on = 1, fd = bound(SOCK_DGRAM);
	char number[16];

	tells_all(fd);
	setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on));
	snprintf(number, sizeof(number), "%d", fd);
	char *argv[] = {"/proc/self/exe", self_text, "tells", number, NULL};
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		execv(argv[0], argv);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	self_from(argv[1]);
	if (argc > 2 && !strcmp(argv[2], "streams"))
		return streams();
	if (argc > 3 && !strcmp(argv[2], "serves"))
		return serves(atoi(argv[3]), 4);
	if (argc > 3 && !strcmp(argv[2], "looks"))
		return looks(atoi(argv[3]));
	if (argc > 3 && !strcmp(argv[2], "tells"))
		return tells_all(atoi(argv[3]));
	snprintf(self_text, sizeof(self_text), "%s", argv[1]);
	char *cat[] = {"/bin/cat", NULL};
	char *shell[] = {"/bin/sh", "-c", "while read word; do echo \"heard $word\"; done", NULL};
	char *piped[] = {"/bin/sh", "-c", "cat | cat", NULL};
	char *own[] = {"/proc/self/exe", NULL, "streams", NULL};
	own[1] = argv[1];
	talk("cat", cat, "one\ntwo\n", 0);
	talk("a cat that was spawned", cat, "three\n", 1);
	talk("a shell", shell, "four\nfive\n", 0);
	talk("a pipe between cats", piped, "six\n", 0);
	talk("streams", own, "seven\neight\n", 0);
	servers();
	looked_at();
	if (self.ss_family == AF_INET)
		broadcasts();
	return 0;
}
