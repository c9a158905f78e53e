/* Processes that give up rights after a fork, as servers do: another user and another root, a filter of system calls, a child by a bare system call. Run as root. */
#include "common.h"

#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define NOBODY 65534

static void reap(const char *what, pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	if (WIFEXITED(status))
		printf("%s ended with %d\n", what, WEXITSTATUS(status));
	else
		printf("%s ended by signal %d\n", what, WTERMSIG(status));
}

static void ask(int fd, const char *text)
{
	char back[64] = "";
	size_t len = strlen(text);

	if (send(fd, text, len, 0) != (ssize_t)len)
		die("send");
	ssize_t got = recv(fd, back, len, MSG_WAITALL);
	printf("the answer: %zd %s\n", got, back);
}

static int become_nobody(void)
{
	return chroot("/proc/self/fdinfo") || chdir("/") || setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
	       setresuid(NOBODY, NOBODY, NOBODY);
}

/* The listener is the parent's; the child accepts from it as nobody, below another root, and opens a socket of its own there. */
static void another_user(pid_t (*make)(void), const char *what)
{
	int fd = listener();

	fflush(stdout);
	pid_t pid = make();
	if (pid == 0) {
		char text[64];

		if (become_nobody())
			_exit(20);
		int theirs = accept(fd, NULL, NULL);
		if (theirs < 0)
			_exit(21);
		ssize_t len = recv(theirs, text, sizeof(text), 0);
		if (send(theirs, text, len, 0) != len)
			_exit(22);
		struct sockaddr_storage to = name_of(fd);
		int own = socket(self.ss_family, SOCK_STREAM, 0);
		if (connect(own, (void *)&to, self_len))
			_exit(23);
		_exit(send(own, "x", 1, 0) == 1 ? 7 : 24);
	}
	int client = connected_to(fd);
	ask(client, "as nobody");
	int own = accept(fd, NULL, NULL);
	char byte;
	printf("the child's own: %zd\n", recv(own, &byte, 1, 0));
	reap(what, pid);
	close(own);
	close(client);
	close(fd);
}

static pid_t by_fork(void)
{
	return fork();
}

static pid_t by_clone(void)
{
	return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static pid_t by_clone3(void)
{
	struct clone_args args = {.exit_signal = SIGCHLD};

	return syscall(SYS_clone3, &args, sizeof(args));
}

/* A child that sees another network and another root, as another user, forks: as an rsync daemon's does for each client. What it inherited works on in its own child. */
static void a_child_of_a_child(void)
{
	int fd = listener();

	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		char text[64];
		int status;

		if (unshare(CLONE_NEWNET) || become_nobody())
			_exit(20);
		pid_t inner = fork();
		if (inner == 0) {
			int theirs = accept(fd, NULL, NULL);
			if (theirs < 0)
				_exit(21);
			ssize_t len = recv(theirs, text, sizeof(text), 0);
			_exit(send(theirs, text, len, 0) == len ? 7 : 22);
		}
		if (waitpid(inner, &status, 0) != inner || !WIFEXITED(status))
			_exit(23);
		_exit(WEXITSTATUS(status));
	}
	int client = connected_to(fd);
	ask(client, "elsewhere");
	reap("a child of a child elsewhere", pid);
	close(client);
	close(fd);
}

/* The calls that a filter for a server's helper lets pass: it opens nothing, and asks nothing by messages. All others end it; opening fails. */
#define PASS(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define FAIL(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES)

enum filter { BY_PRCTL, BY_SECCOMP };

static int confine(enum filter by)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		FAIL(open), FAIL(openat), FAIL(newfstatat), FAIL(fstat), FAIL(stat), FAIL(lstat),
		PASS(brk), PASS(clock_gettime), PASS(close), PASS(exit), PASS(exit_group), PASS(futex), PASS(getpid),
		PASS(gettid), PASS(gettimeofday), PASS(getrandom), PASS(madvise), PASS(mmap), PASS(mprotect), PASS(mremap),
		PASS(munmap), PASS(nanosleep), PASS(clock_nanosleep), PASS(poll), PASS(ppoll), PASS(pselect6), PASS(select),
		PASS(read), PASS(write), PASS(writev), PASS(rt_sigprocmask), PASS(shutdown), PASS(rt_sigreturn),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};

	/* One, for `poll` to be allowed. */
	struct rlimit one = {1, 1};

	/* Root needs no PR_SET_NO_NEW_PRIVS, and the C library has no function of this system call's name. */
	if (by == BY_SECCOMP)
		return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
	return setrlimit(RLIMIT_NOFILE, &one) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* What systemd's SystemCallFilter=@system-service leaves to a service, as far as such a one calls it; all others end it. */
static int confine_as_a_service(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		/* @default */
		PASS(brk), PASS(clock_getres), PASS(clock_gettime), PASS(clock_nanosleep), PASS(execve), PASS(exit),
		PASS(exit_group), PASS(futex), PASS(get_robust_list), PASS(getegid), PASS(geteuid), PASS(getgid),
		PASS(getgroups), PASS(getpgid), PASS(getpid), PASS(getppid), PASS(getrandom), PASS(getrlimit), PASS(gettid),
		PASS(gettimeofday), PASS(getuid), PASS(madvise), PASS(membarrier), PASS(mmap), PASS(mprotect), PASS(munmap),
		PASS(nanosleep), PASS(prlimit64), PASS(restart_syscall), PASS(rseq), PASS(rt_sigreturn),
		PASS(sched_getaffinity), PASS(sched_yield), PASS(set_robust_list), PASS(set_tid_address),
		PASS(sigaltstack), PASS(rt_sigaction), PASS(rt_sigprocmask),
		/* @basic-io, @file-system */
		PASS(close), PASS(close_range), PASS(dup), PASS(dup3), PASS(lseek), PASS(pread64), PASS(pwrite64), PASS(read),
		PASS(readv), PASS(write), PASS(writev), PASS(fcntl), PASS(fstat), PASS(newfstatat), PASS(openat), PASS(statx),
		PASS(getdents64), PASS(memfd_create), PASS(ftruncate), PASS(mremap),
		/* @io-event */
		PASS(epoll_create1), PASS(epoll_ctl), PASS(epoll_pwait), PASS(eventfd2), PASS(ppoll), PASS(pselect6),
#ifdef SYS_poll
		PASS(poll), PASS(select), PASS(epoll_wait), PASS(dup2), PASS(time), PASS(fork), PASS(vfork), PASS(open), PASS(stat), PASS(lstat), PASS(access), PASS(readlink),
#endif
		/* @network-io */
		PASS(accept), PASS(accept4), PASS(bind), PASS(connect), PASS(getpeername), PASS(getsockname),
		PASS(getsockopt), PASS(listen), PASS(recvfrom), PASS(recvmmsg), PASS(recvmsg), PASS(sendmmsg), PASS(sendmsg),
		PASS(sendto), PASS(setsockopt), PASS(shutdown), PASS(socket), PASS(socketpair),
		/* @process, @signal, @sync */
		PASS(clone), PASS(clone3), PASS(kill), PASS(tgkill), PASS(wait4), PASS(waitid), PASS(prctl), PASS(pipe2),
		PASS(ioctl), PASS(fsync), PASS(umask), PASS(uname), PASS(sched_getparam), PASS(sched_getscheduler),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

/* Under such a filter from its beginning on: it listens, accepts, forks, waits in all ways, and opens connections of its own. */
static void a_service(void)
{
	int channel[2], status;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, channel))
		die("socketpair");
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		if (confine_as_a_service())
			_exit(60);
		int fd = listener(), set = epoll_create1(0);
		struct sockaddr_storage at = name_of(fd);
		struct epoll_event event = {.events = EPOLLIN};
		char text[64];

		if (write(channel[1], &at, sizeof(at)) != sizeof(at))
			_exit(61);
		for (int round = 0; round < 3; round++) {
			if (await(fd, POLLIN) != POLLIN)
				_exit(62);
			int theirs = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
			if (theirs < 0 || epoll_ctl(set, EPOLL_CTL_ADD, theirs, &event))
				_exit(63);
			if (epoll_wait(set, &event, 1, -1) != 1)
				_exit(64);
			pid_t worker = fork();
			if (worker == 0) {
				ssize_t len = recv(theirs, text, sizeof(text), 0);
				_exit(send(theirs, text, len, 0) == len ? 0 : 65);
			}
			if (waitpid(worker, &status, 0) != worker || status)
				_exit(66);
			close(theirs);
		}
		int own = connected_to(fd), to = bound(SOCK_DGRAM);
		struct sockaddr_storage name = name_of(to);
		if (sendto(to, "x", 1, 0, (void *)&name, self_len) != 1 || recv(to, text, 1, 0) != 1)
			_exit(67);
		close(own);
		_exit(6);
	}
	struct sockaddr_storage at;
	if (read(channel[0], &at, sizeof(at)) == sizeof(at))
		for (int round = 0; round < 3; round++) {
			int fd = socket(self.ss_family, SOCK_STREAM, 0);

			if (connect(fd, (void *)&at, self_len))
				die("connect");
			ask(fd, "service");
			close(fd);
		}
	reap("a service", pid);
	close(channel[0]);
	close(channel[1]);
}

/* Sends back what comes until the end, waiting in all ways that are left. */
static void echo_confined(int fd)
{
	char text[1 << 16];
	struct pollfd one = {.fd = fd, .events = POLLIN};

	for (int round = 0;; round++) {
		if (round % 3 == 1 && poll(&one, 1, -1) != 1)
			_exit(31);
		if (round % 3 == 2) {
			fd_set set;

			FD_ZERO(&set);
			FD_SET(fd, &set);
			if (select(fd + 1, &set, NULL, NULL, NULL) != 1)
				_exit(32);
		}
		ssize_t len = read(fd, text, sizeof(text));
		if (len == 0)
			break;
		if (len < 0)
			_exit(33);
		for (ssize_t done = 0, sent; done < len; done += sent)
			if ((sent = write(fd, text + done, len - done)) <= 0)
				_exit(34);
	}
	close(fd);
	_exit(9);
}

static void confined(enum filter by)
{
	int ends[2];
	static char out[1 << 20], back[1 << 20];
	size_t got = 0;

	pair(ends);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		close(ends[0]);
		if ((by == BY_PRCTL && become_nobody()) || confine(by))
			_exit(30);
		echo_confined(ends[1]);
	}
	close(ends[1]);
	ask(ends[0], "one");
	usleep(100000);
	ask(ends[0], "two");
	usleep(100000);
	ask(ends[0], "three");
	/* More than any buffer holds, both ways at once. */
	memset(out, 'x', sizeof(out));
	pid_t writer = fork();
	if (writer == 0) {
		for (size_t done = 0; done < sizeof(out);) {
			ssize_t sent = send(ends[0], out + done, sizeof(out) - done, 0);
			if (sent <= 0)
				_exit(41);
			done += sent;
		}
		shutdown(ends[0], SHUT_WR);
		_exit(0);
	}
	for (ssize_t len; (len = recv(ends[0], back + got, sizeof(back) - got, 0)) > 0;)
		got += len;
	printf("%zu came back, %s\n", got, memcmp(out, back, got) ? "others" : "the same");
	reap("the writer", writer);
	reap("the confined one", pid);
	close(ends[0]);
}

/* No descriptor more, not even to poll: only blocking calls work. */
static void without_descriptors(void)
{
	int ends[2];

	pair(ends);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		struct rlimit none = {0, 0};
		char text[64];
		ssize_t len;

		close(ends[0]);
		if (setrlimit(RLIMIT_NOFILE, &none) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
			_exit(50);
		while ((len = recv(ends[1], text, 1, MSG_PEEK)) > 0 && (len = read(ends[1], text, sizeof(text))) > 0)
			if (write(ends[1], text, len) != len)
				_exit(51);
		_exit(len ? 52 : 5);
	}
	close(ends[1]);
	ask(ends[0], "one");
	usleep(100000);
	ask(ends[0], "two");
	shutdown(ends[0], SHUT_WR);
	reap("the one without descriptors", pid);
	close(ends[0]);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	self_from(argv[1]);
	another_user(by_fork, "fork");
	another_user(by_clone, "clone");
	another_user(by_clone3, "clone3");
	a_child_of_a_child();
	confined(BY_PRCTL);
	confined(BY_SECCOMP);
	a_service();
	without_descriptors();
	return 0;
}
