/* Programs that are executed while the effective user or group is not the real one, by which the loader takes them for such that get rights: squid executes its workers so. */
#include "common.h"

#include <spawn.h>
#include <sys/fsuid.h>

extern char **environ;

static char self_text[64];

/* Nobody's, and nogroup. */
enum { USER = 65534, GROUP = 65534 };

static void says(const char *who)
{
	uid_t users[3];
	gid_t groups[3];

	getresuid(&users[0], &users[1], &users[2]);
	getresgid(&groups[0], &groups[1], &groups[2]);
	printf("%s: users %d %d %d (files %d), groups %d %d %d\n", who, users[0], users[1], users[2], setfsuid(-1), groups[0], groups[1], groups[2]);
	fflush(stdout);
}

/* What is executed: whose it is, that it reaches the server, that files are the effective user's, and what it executes itself. */
static int executed(int port, int again)
{
	struct sockaddr_storage to = self;
	char text[16] = "";

	says("executed");
	((struct sockaddr_in *)&to)->sin_port = htons(port);
	int fd = socket(self.ss_family, SOCK_STREAM, 0);
	int done = connect(fd, (struct sockaddr *)&to, self_len) ? errno : 0;
	printf("connect %d, came %zd\n", done, recv(fd, text, 5, MSG_WAITALL));
	printf("root's file: %d\n", open("/etc/shadow", O_RDONLY) < 0 ? errno : 0);
	const char *told = getenv("CLEARWAY_EFFECTIVE");
	printf("said of it: %s\n", told ? told : "");
	fflush(stdout);
	if (again) {
		char number[16];

		/* With what it has now, and with the real user again. */
		if (again == 2 && seteuid(0))
			die("seteuid");
		snprintf(number, sizeof(number), "%d", port);
		execl("/proc/self/exe", "effective", self_text, number, "0", (char *)NULL);
		printf("execl: %d\n", errno);
	}
	return 0;
}

enum how { EXECV, SPAWN, HOWS };

/* The effective user, or, where it is negative, the real one; and the effective group. */
static void executes(const char *what, enum how how, int user, gid_t group, int again)
{
	int listening = listener(), status;
	struct sockaddr_storage at = name_of(listening);
	char number[16], more[8];
	pid_t pid;

	snprintf(number, sizeof(number), "%d", ntohs(((struct sockaddr_in *)&at)->sin_port));
	snprintf(more, sizeof(more), "%d", again);
	printf("== %s\n", what);
	fflush(stdout);
	char *words[] = {"effective", self_text, number, more, NULL};
	pid = fork();
	if (pid == 0) {
		if (setegid(group) || (user < 0 ? setresuid(-user, 0, 0) : seteuid(user)))
			die("seteuid");
		if (how == EXECV) {
			execv("/nowhere/at/all", words);
			printf("nowhere: %d\n", errno);
			says("still");
			execv("/proc/self/exe", words);
			die("execv");
		}
		pid_t child;
		int failed = posix_spawn(&child, "/proc/self/exe", NULL, NULL, words, environ);
		waitpid(child, &status, 0);
		says("who spawned");
		printf("spawned: %d %d\n", failed, status);
		fflush(stdout);
		_exit(0);
	}
	for (int at = 0; at < 1 + (again > 0); at++) {
		int one = accept(listening, NULL, NULL);
		if (send(one, "hello", 5, 0) != 5)
			die("send");
		close(one);
	}
	waitpid(pid, &status, 0);
	printf("status %d\n", status);
	close(listening);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	self_from(argv[1]);
	snprintf(self_text, sizeof(self_text), "%s", argv[1]);
	if (argc == 4)
		return executed(atoi(argv[2]), atoi(argv[3]));
	executes("effective user", EXECV, USER, 0, 0);
	executes("effective group", EXECV, 0, GROUP, 0);
	executes("both", EXECV, USER, GROUP, 0);
	executes("and again", EXECV, USER, GROUP, 1);
	executes("and again as real", EXECV, USER, 0, 2);
	executes("real user, as squid's master", EXECV, -USER, 0, 0);
	executes("real user and group", EXECV, -USER, GROUP, 1);
	executes("real user, spawned", SPAWN, -USER, 0, 0);
	executes("neither", EXECV, 0, 0, 0);
	executes("spawned", SPAWN, USER, GROUP, 0);
	return 0;
}
