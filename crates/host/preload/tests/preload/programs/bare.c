/* What Chromium's sandbox does: a child by a bare clone, in its parent's memory, with zeros where a thread's variables are, makes system calls by the C library's functions. */
#include "common.h"

#include <sys/syscall.h>

static const char *what;
static int ends_of_pipe[2];

static int child(void *unused)
{
	(void)unused;
	int done = 1;
	struct pollfd one = {.fd = 0};
	char byte = 'w';
	struct iovec part = {.iov_base = &byte, .iov_len = 1};

	/* None of them fails: that would set errno, which is not there. */
	if (!strcmp(what, "chroot"))
		done = chroot("/proc/self/fdinfo/") || chdir("/");
	else if (!strcmp(what, "close"))
		done = close(ends_of_pipe[0]);
	else if (!strcmp(what, "setuid"))
		done = setuid(0);
	else if (!strcmp(what, "write"))
		done = write(ends_of_pipe[1], "w", 1) != 1;
	else if (!strcmp(what, "writev"))
		done = writev(ends_of_pipe[1], &part, 1) != 1;
	else if (!strcmp(what, "read"))
		done = read(ends_of_pipe[0], &byte, 1) != 1;
	else if (!strcmp(what, "dup2"))
		done = dup2(0, 778) != 778;
	else if (!strcmp(what, "fcntl"))
		done = fcntl(0, F_GETFD) != 0;
	else if (!strcmp(what, "socket"))
		done = socket(AF_UNIX, SOCK_STREAM, 0) < 0;
	else if (!strcmp(what, "socket of the internet"))
		done = socket(self.ss_family, SOCK_STREAM, 0) < 0;
	else if (!strcmp(what, "syscall"))
		done = syscall(SYS_getppid) < 0;
	else if (!strcmp(what, "execve"))
		done = execve("/bin/true", (char *[]){"true", NULL}, (char *[]){NULL});
	else if (!strcmp(what, "poll"))
		done = poll(&one, 1, 0) < 0;
	else if (!strcmp(what, "unshare"))
		done = unshare(CLONE_FILES);
	else if (!strcmp(what, "fault"))
		*(volatile char *)1 = 1;
	_exit(done);
}

int main(int argc, char **argv)
{
	static char stack[1 << 16] __attribute__((aligned(16))), zeros[1 << 16] __attribute__((aligned(64)));
	const char *calls[] = {"chroot", "close", "setuid", "write", "writev", "read", "dup2", "fcntl", "socket", "socket of the internet", "syscall", "execve", "poll", "unshare", "fault"};

	(void)argc;
	self_from(argv[1]);
	if (pipe(ends_of_pipe) || write(ends_of_pipe[1], "abcdef", 6) != 6)
		die("pipe");
	for (int round = 0; round < 4; round++) {
		for (size_t call = 0; call < sizeof(calls) / sizeof(*calls); call++) {
			int status = 0;

			what = calls[call];
			/* Without and with the address that the processor's segment begins with. */
			*(void **)(zeros + sizeof(zeros) / 2) = round & 1 ? zeros + sizeof(zeros) / 2 : NULL;
			fflush(stdout);
			pid_t pid = clone(child, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | CLONE_SETTLS | SIGCHLD, NULL, NULL,
					  zeros + sizeof(zeros) / 2, NULL);
			if (pid < 0 || waitpid(pid, &status, 0) != pid)
				die("clone");
			if (WIFSIGNALED(status))
				printf("%s: %s\n", what, strsignal(WTERMSIG(status)));
			else
				printf("%s: %d\n", what, WEXITSTATUS(status));
		}
		/* And the same with a socket of the internet. */
		if (round > 0)
			close(listener());
	}
	int ends[2];
	char byte;
	pair(ends);
	printf("written: %zd\n", write(ends[0], "x", 1));
	printf("read: %zd\n", read(ends[1], &byte, 1));
	return 0;
}
