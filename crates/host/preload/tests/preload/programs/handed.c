/* Sockets that are handed over: to a program that is executed with an environment of its own, and to a process that gets the descriptor in a message. */
#include "common.h"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

extern char **environ;

static char self_text[64];

/* What the executed program does: sends back what comes on a descriptor. */
static int echoes(int fd)
{
	char text[64];
	ssize_t len;

	while ((len = recv(fd, text, sizeof(text), 0)) > 0)
		if (send(fd, text, len, 0) != len)
			return 11;
	close(fd);
	return len == 0 ? 7 : 12;
}

static void reap(const char *what, pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	printf("%s: %s %d\n", what, WIFEXITED(status) ? "exit" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

static void ask(int fd)
{
	char back[8] = "";

	if (send(fd, "hello", 5, 0) != 5)
		die("send");
	printf("the answer: %zd %s\n", recv(fd, back, 5, MSG_WAITALL), back);
	shutdown(fd, SHUT_WR);
	printf("the end: %zd\n", recv(fd, back, 1, 0));
}

enum way { EXECVE, EXECV, EXECVP, EXECVPE, FEXECVE, MEMORY, EXECVEAT, EXECL, EXECLP, EXECLE, VFORK, SPAWN, SPAWNP, WAYS };
static const char *names[] = {"execve", "execv", "execvp", "execvpe", "fexecve", "fexecve of memory", "execveat", "execl", "execlp", "execle", "vfork", "posix_spawn", "posix_spawnp"};

/* A file that has no name. */
static int copy_of(int file)
{
	int memory = memfd_create("copy", MFD_CLOEXEC);
	ssize_t len;

	while ((len = sendfile(memory, file, NULL, 1 << 20)) > 0)
		;
	if (len < 0)
		die("sendfile");
	return memory;
}

static void executed(enum way way)
{
	int ends[2];
	pid_t pid;
	char number[16], *empty[] = {"OTHER=1", NULL};

	pair(ends);
	snprintf(number, sizeof(number), "%d", way == SPAWN || way == VFORK ? 0 : ends[1]);
	char *argv[] = {"/proc/self/exe", self_text, "echoes", number, NULL};
	char path[256] = "";
	readlink("/proc/self/exe", path, sizeof(path) - 1);
	fflush(stdout);
	if (way == SPAWN || way == SPAWNP) {
		posix_spawn_file_actions_t actions;

		posix_spawn_file_actions_init(&actions);
		posix_spawn_file_actions_addclose(&actions, ends[0]);
		if (way == SPAWN)
			posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
		if ((way == SPAWN ? posix_spawn : posix_spawnp)(&pid, path, way == SPAWN ? &actions : NULL, NULL, argv, empty))
			die("spawn");
		posix_spawn_file_actions_destroy(&actions);
	} else if (way == VFORK) {
		if ((pid = vfork()) == 0) {
			dup2(ends[1], 0);
			close(ends[0]);
			close(ends[1]);
			execve(path, argv, empty);
			_exit(127);
		}
	} else if ((pid = fork()) == 0) {
		int exe = open(path, O_RDONLY | O_CLOEXEC);

		close(ends[0]);
		switch (way) {
		case EXECVE:
			execve(path, argv, empty);
			break;
		case EXECV:
			clearenv();
			execv(path, argv);
			break;
		case EXECVP:
			clearenv();
			execvp(path, argv);
			break;
		case EXECVPE:
			execvpe(path, argv, empty);
			break;
		case EXECL:
			clearenv();
			execl(path, argv[0], argv[1], argv[2], argv[3], (char *)NULL);
			break;
		case EXECLP:
			clearenv();
			/* More words than there are registers for them. */
			execlp(path, argv[0], argv[1], argv[2], argv[3], "4", "5", "6", "7", "8", "9", "10", (char *)NULL);
			break;
		case EXECLE:
			execle(path, argv[0], argv[1], argv[2], argv[3], "4", "5", "6", "7", (char *)NULL, empty);
			break;
		case MEMORY:
			exe = copy_of(exe);
			/* fall through */
		case FEXECVE:
			fexecve(exe, argv, empty);
			break;
		default:
			execveat(AT_FDCWD, path, argv, empty, 0);
		}
		_exit(127);
	}
	close(ends[1]);
	if (way == SPAWNP) {
		/* The other end went along too, so there is no end to be seen. */
		char back[8] = "";
		send(ends[0], "hello", 5, 0);
		printf("the answer: %zd %s\n", recv(ends[0], back, 5, MSG_WAITALL), back);
		kill(pid, SIGKILL);
	} else {
		ask(ends[0]);
	}
	reap(names[way], pid);
	close(ends[0]);
}

/* What an executed program does that nothing was handed over to: its sockets are its own. */
static int alone(void)
{
	int fd = listener();
	int client = connected_to(fd);
	int theirs = accept(fd, NULL, NULL);
	char text[8];

	if (send(client, "alone", 5, 0) != 5 || recv(theirs, text, 5, MSG_WAITALL) != 5)
		return 14;
	return memcmp(text, "alone", 5) ? 15 : 7;
}

/* Nothing of Clearway's goes along. An environment that was emptied, or in which another library was put, says nothing against this one; neither does a program that empties its own before its first socket. */
static void emptied(const char *what, char *given[], char *how)
{
	char *argv[] = {"/proc/self/exe", self_text, how, NULL};

	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		execve(argv[0], argv, given);
		_exit(127);
	}
	reap(what, pid);
}

/* What has other variables of Clearway's and not the library is as the program made it. */
static void left_alone(void)
{
	char *argv[] = {"env", NULL}, *given[] = {"OTHER=1", "CLEARWAY_RUN=1", NULL};

	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		execve("/usr/bin/env", argv, given);
		_exit(127);
	}
	reap("env", pid);
}

static void pass(int channel, int fd, int many)
{
	char byte = 'f', space[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec vector = {&byte, 1};
	struct mmsghdr one = {.msg_hdr = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)}};
	struct cmsghdr *head = CMSG_FIRSTHDR(&one.msg_hdr);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &fd, sizeof(fd));
	if (many ? sendmmsg(channel, &one, 1, 0) != 1 : sendmsg(channel, &one.msg_hdr, 0) != 1)
		die("sendmsg");
}

static int receive(int channel, int many)
{
	char byte, space[CMSG_SPACE(sizeof(int))];
	int fd = -1;
	struct iovec vector = {&byte, 1};
	struct mmsghdr one = {.msg_hdr = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)}};

	if (many ? recvmmsg(channel, &one, 1, 0, NULL) != 1 : recvmsg(channel, &one.msg_hdr, MSG_CMSG_CLOEXEC) != 1)
		return -1;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&one.msg_hdr)), sizeof(fd));
	return fd;
}

/* A child that was there before gets a connection, then a listener. */
static void sent(int many)
{
	int channel[2], ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, channel))
		die("socketpair");
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		close(channel[0]);
		int status = echoes(receive(channel[1], many));
		int theirs = accept(receive(channel[1], many), NULL, NULL);
		_exit(theirs < 0 ? 13 : status + echoes(theirs));
	}
	pair(ends);
	pass(channel[0], ends[1], many);
	close(ends[1]);
	ask(ends[0]);
	int fd = listener();
	pass(channel[0], fd, many);
	int client = connected_to(fd);
	close(fd);
	ask(client);
	reap(many ? "sendmmsg" : "sendmsg", pid);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	self_from(argv[1]);
	snprintf(self_text, sizeof(self_text), "%s", argv[1]);
	if (argc == 3) {
		if (!strcmp(argv[2], "bare")) {
			/* As programs do that write a title where their environment was. */
			for (char **line = environ; *line; line++)
				memset(*line, 0, strlen(*line));
			clearenv();
		}
		return alone();
	}
	if (argc >= 4)
		return echoes(atoi(argv[3]));
	for (enum way way = 0; way < WAYS; way++)
		executed(way);
	emptied("an empty environment", (char *[]){"OTHER=1", NULL}, "alone");
	emptied("another library", (char *[]){"LD_PRELOAD=libm.so.6", "PATH=/usr/bin:/bin", NULL}, "alone");
	emptied("its own emptied", environ, "bare");
	emptied("both", (char *[]){"OTHER=1", NULL}, "bare");
	left_alone();
	sent(0);
	sent(1);
	return 0;
}
