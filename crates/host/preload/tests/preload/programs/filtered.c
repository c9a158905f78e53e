/* Descriptors that come to processes which have confined themselves: one whose filter tells it of each call that it did not expect, getsockopt among them, and one that lets everything pass. */
#include "common.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void on_call(int signal)
{
	static const char said[] = "a call that was not expected\n";

	(void)signal;
	syscall(SYS_write, 1, said, sizeof(said) - 1);
	_exit(9);
}

/* From now on getsockopt, and nothing else, is told by SIGSYS; or nothing at all. */
static void confine(int told)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, told ? SYS_getsockopt : 100000, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(*code), .filter = code};

	if (told)
		signal(SIGSYS, on_call);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		die("prctl");
}

static int take(int channel)
{
	char byte, room[CMSG_SPACE(sizeof(int))];
	struct iovec part = {.iov_base = &byte, .iov_len = 1};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
	int fd = -1;

	if (recvmsg(channel, &message, 0) == 1 && CMSG_FIRSTHDR(&message))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	return fd;
}

/* A child that is confined reads what comes by a descriptor that it is given. */
static void given(const char *what, int told, int from, int to)
{
	int channel[2], status;
	char byte = '-';

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, channel))
		die("socketpair");
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		close(from);
		confine(told);
		int fd = take(channel[1]);
		ssize_t len = read(fd, &byte, 1);
		printf("%s: read %zd %c\n", what, len, byte);
		fflush(stdout);
		_exit(0);
	}
	pass_fd(channel[0], from);
	if (write(to, "x", 1) != 1)
		die("write");
	waitpid(child, &status, 0);
	printf("%s: ended by %d\n", what, status);
	close(channel[0]);
	close(channel[1]);
}

int main(int argc, char **argv)
{
	int ends[2], pipe_[2];

	(void)argc;
	self_from(argv[1]);
	pair(ends);
	if (pipe(pipe_))
		die("pipe");
	given("a pipe, told", 1, pipe_[0], pipe_[1]);
	given("a pipe, not told", 0, pipe_[0], pipe_[1]);
	given("a connection, not told", 0, ends[0], ends[1]);
	return 0;
}
