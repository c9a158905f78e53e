/* Pointers that lead nowhere. Over Clearway each call says what it says over the kernel, the program goes on, and what was not handed over is still there. */
#include "common.h"

#include <setjmp.h>
#include <sys/mman.h>

static char *none, *readable, *edge;
static long page;

static struct {
	const char *name;
	void *at;
} bad[] = {{"null"}, {"low"}, {"high"}, {"unmapped"}, {"read-only"}};

#define KINDS (sizeof(bad) / sizeof(*bad))

static void line(const char *what, const char *pointer, long result, int error)
{
	printf("%s, %s: ", what, pointer);
	if (result < 0)
		printf("%s\n", strerrorname_np(error));
	else
		printf("%ld\n", result);
	fflush(stdout);
}

/* A call with each pointer: `p` in it. */
#define EACH(what, call)                                                                                               \
	for (size_t kind_ = 0; kind_ < KINDS; kind_++) {                                                               \
		void *p = bad[kind_].at;                                                                               \
		errno = 0;                                                                                             \
		long result_ = (long)(call);                                                                           \
		line(what, bad[kind_].name, result_, errno);                                                           \
	}

/* The same without the page that may be read: for what is only read. */
#define EACH_READ(what, call)                                                                                          \
	for (size_t kind_ = 0; kind_ < KINDS - 1; kind_++) {                                                           \
		void *p = bad[kind_].at;                                                                               \
		errno = 0;                                                                                             \
		long result_ = (long)(call);                                                                           \
		line(what, bad[kind_].name, result_, errno);                                                           \
	}

#define ONCE(what, call)                                                                                               \
	do {                                                                                                           \
		errno = 0;                                                                                             \
		long result_ = (long)(call);                                                                           \
		line(what, "", result_, errno);                                                                        \
	} while (0)

static long message_of(int fd, struct iovec *iov, size_t parts, void *name, void *control, int receives)
{
	struct msghdr message = {.msg_name = name, .msg_namelen = name ? sizeof(self) : 0, .msg_iov = iov, .msg_iovlen = parts,
				 .msg_control = control, .msg_controllen = control ? 64 : 0};

	return receives ? recvmsg(fd, &message, MSG_DONTWAIT) : sendmsg(fd, &message, MSG_DONTWAIT);
}

/* Reads all that came, and comes within a moment: how much. */
static long rest(int fd)
{
	char bytes[8192];
	long all = 0, len;

	while (poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 300) == 1 && (len = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		all += len;
	return all;
}

static void names(const char *what, int fd)
{
	char text[64];
	socklen_t len = sizeof(self);

#define NAMED(of) (snprintf(text, sizeof(text), "%s %s", what, of), text)
	EACH_READ(NAMED("bind"), bind(fd, p, self_len));
	EACH_READ(NAMED("connect"), connect(fd, p, self_len));
	EACH(NAMED("getsockname"), getsockname(fd, p, &len));
	EACH(NAMED("getsockname length"), getsockname(fd, (void *)&(struct sockaddr_storage){0}, p));
	EACH(NAMED("getpeername"), getpeername(fd, p, &len));
	EACH(NAMED("getpeername length"), getpeername(fd, (void *)&(struct sockaddr_storage){0}, p));
	len = sizeof(int);
	EACH(NAMED("getsockopt"), getsockopt(fd, SOL_SOCKET, SO_TYPE, p, &len));
	EACH(NAMED("getsockopt SO_RCVBUF"), getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, p, &(socklen_t){sizeof(struct timeval)}));
	EACH(NAMED("getsockopt length"), getsockopt(fd, SOL_SOCKET, SO_TYPE, &(int){0}, p));
	EACH_READ(NAMED("setsockopt"), setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, p, sizeof(int)));
	EACH_READ(NAMED("setsockopt time"), setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, p, sizeof(struct timeval)));
	EACH(NAMED("FIONREAD"), ioctl(fd, FIONREAD, p));
	EACH_READ(NAMED("FIONBIO"), ioctl(fd, FIONBIO, p));
}

static void waits(const char *what, int fd)
{
	char text[64];
	struct epoll_event event = {.events = EPOLLOUT};
	int set = epoll_create1(0);

	EACH(NAMED("poll"), poll(p, 1, 0));
	EACH_READ(NAMED("epoll_ctl"), epoll_ctl(set, EPOLL_CTL_ADD, fd, p));
	if (epoll_ctl(set, EPOLL_CTL_MOD, fd, &event) && epoll_ctl(set, EPOLL_CTL_ADD, fd, &event))
		die("epoll_ctl");
	EACH_READ(NAMED("epoll_ctl MOD"), epoll_ctl(set, EPOLL_CTL_MOD, fd, p));
	EACH(NAMED("epoll_wait"), epoll_wait(set, p, 1, 0));
	ONCE(NAMED("epoll_wait after it"), epoll_wait(set, &event, 1, 0));
	for (size_t kind = 1; kind < KINDS; kind++) {
		struct timeval none_ = {0};
		errno = 0;
		long result = select(fd + 1, NULL, bad[kind].at, NULL, &none_);
		line(NAMED("select"), bad[kind].name, result, errno);
	}
	close(set);
}

static void sending(const char *what, int fd, int peer)
{
	char text[64];
	struct iovec two[2] = {{.iov_base = "0123456789", .iov_len = 10}, {.iov_len = 10}};

	EACH_READ(NAMED("send"), send(fd, p, 100, MSG_DONTWAIT));
	EACH_READ(NAMED("write"), write(fd, p, 100));
	EACH_READ(NAMED("send of nothing"), what[0] == 'd' ? -1 : send(fd, p, 0, MSG_DONTWAIT));
	EACH_READ(NAMED("writev"), writev(fd, p, 1));
	EACH_READ(NAMED("second part"), (two[1].iov_base = p, writev(fd, two, 2)));
	EACH_READ(NAMED("sendmsg"), sendmsg(fd, p, MSG_DONTWAIT));
	EACH_READ(NAMED("sendmsg parts"), message_of(fd, p, 1, NULL, NULL, 0));
	EACH_READ(NAMED("sendmsg part"), (two[1].iov_base = p, message_of(fd, two, 2, NULL, NULL, 0)));
	EACH_READ(NAMED("sendmmsg"), sendmmsg(fd, p, 1, MSG_DONTWAIT));
	ONCE(NAMED("send over the edge"), send(fd, edge, 100, MSG_DONTWAIT));
	ONCE(NAMED("send up to the edge"), send(fd, edge, 50, MSG_DONTWAIT));
	if (poll(&(struct pollfd){.fd = peer, .events = POLLIN}, 1, 10000) != 1)
		die("nothing came");
	ONCE(NAMED("what came"), rest(peer));
}

static void receiving(const char *what, int fd, int peer)
{
	char text[64], bytes[200];
	struct iovec two[2] = {{.iov_base = bytes, .iov_len = 10}, {.iov_len = 190}};
	struct sockaddr_storage from;
	socklen_t len;

#define GIVEN(call)                                                                                                    \
	(send(peer, "0123456789012345678901234567890123456789", 40, 0),                                                \
	 poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 10000), call)
	EACH(NAMED("peek"), GIVEN(recv(fd, p, 100, MSG_DONTWAIT | MSG_PEEK)));
	ONCE(NAMED("left"), rest(fd));
	EACH(NAMED("recv"), GIVEN(recv(fd, p, 100, MSG_DONTWAIT)));
	ONCE(NAMED("left"), rest(fd));
	EACH(NAMED("read"), GIVEN(read(fd, p, 30)));
	ONCE(NAMED("left"), rest(fd));
	EACH(NAMED("readv"), GIVEN(readv(fd, p, 1)));
	ONCE(NAMED("left"), rest(fd));
	EACH(NAMED("second part"), (two[1].iov_base = p, GIVEN(readv(fd, two, 2))));
	ONCE(NAMED("left"), rest(fd));
	EACH(NAMED("recvmsg"), GIVEN(recvmsg(fd, p, MSG_DONTWAIT)));
	ONCE(NAMED("left"), rest(fd));
	EACH(NAMED("recvmsg parts"), GIVEN(message_of(fd, p, 1, NULL, NULL, 1)));
	ONCE(NAMED("left"), rest(fd));
	EACH(NAMED("recvmsg name"), GIVEN(message_of(fd, two, 1, p, NULL, 1)));
	ONCE(NAMED("left"), rest(fd));
	EACH(NAMED("recvfrom name"), (len = sizeof(from), GIVEN(recvfrom(fd, bytes, 5, MSG_DONTWAIT, p, &len))));
	ONCE(NAMED("left"), rest(fd));
	EACH(NAMED("recvfrom length"), GIVEN(recvfrom(fd, bytes, 5, MSG_DONTWAIT, (void *)&from, p)));
	ONCE(NAMED("left"), rest(fd));
	EACH(NAMED("recvmmsg"), GIVEN(recvmmsg(fd, p, 1, MSG_DONTWAIT, NULL)));
	ONCE(NAMED("left"), rest(fd));
	ONCE(NAMED("recv over the edge"), GIVEN(recv(fd, edge + 30, 100, MSG_DONTWAIT)));
	ONCE(NAMED("left"), rest(fd));
	ONCE(NAMED("recv up to the edge"), GIVEN(recv(fd, edge, 50, MSG_DONTWAIT)));
	ONCE(NAMED("left"), rest(fd));
}

static void streams(void)
{
	const char *what = "stream";
	char text[64];
	int ends[2];
	off_t offset = 0;

	pair(ends);
	names("connected", ends[0]);
	waits("connected", ends[0]);
	sending("stream", ends[0], ends[1]);
	receiving("stream", ends[1], ends[0]);
	int file = open("/proc/self/exe", O_RDONLY);
	for (size_t kind = 1; kind < KINDS; kind++) {
		errno = 0;
		long result = sendfile(ends[0], file, bad[kind].at, 10);
		line(NAMED("sendfile offset"), bad[kind].name, result, errno);
	}
	ONCE(NAMED("sendfile"), sendfile(ends[0], file, &offset, 10));
	close(file);
	send(ends[0], "u", 1, MSG_OOB);
	usleep(200000);
	EACH(NAMED("urgent"), recv(ends[1], p, 1, MSG_OOB | MSG_PEEK));
	close(ends[0]);
	close(ends[1]);
}

static void listeners(void)
{
	int listening = listener();
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);

	fcntl(listening, F_SETFL, O_NONBLOCK);
	names("listener", listening);
	EACH("accept of nobody", accept(listening, p, &len));
	EACH("accept of nobody, length", accept(listening, (void *)&from, p));
	for (size_t kind = 1; kind < KINDS; kind++) {
		int peer = connected_to(listening);
		if (await(listening, POLLIN) != POLLIN)
			die("nobody came");
		errno = 0;
		len = sizeof(from);
		long result = accept(listening, bad[kind].at, &len);
		line("accept", bad[kind].name, result < 0 ? result : 0, errno);
		if (result >= 0)
			close(result);
		close(peer);
		peer = connected_to(listening);
		if (await(listening, POLLIN) != POLLIN)
			die("nobody came");
		errno = 0;
		result = accept4(listening, (void *)&from, bad[kind].at, SOCK_CLOEXEC);
		line("accept4 length", bad[kind].name, result < 0 ? result : 0, errno);
		if (result >= 0)
			close(result);
		close(peer);
	}
	ONCE("accept then", accept(listening, NULL, NULL));
	close(listening);
}

static void datagrams(void)
{
	const char *what = "datagram";
	char text[64];
	int one = bound(SOCK_DGRAM), other = bound(SOCK_DGRAM), pending = socket(self.ss_family, SOCK_DGRAM, 0);
	struct sockaddr_storage to = name_of(other);
	struct iovec part = {.iov_base = "abc", .iov_len = 3};

	names("pending", pending);
	EACH_READ("pending sendto", sendto(pending, p, 3, 0, (void *)&to, self_len));
	EACH_READ("pending sendto name", sendto(pending, "abc", 3, 0, p, self_len));
	EACH_READ("pending sendmsg", sendmsg(pending, p, 0));
	waits("pending", pending);
	EACH_READ(NAMED("sendto name"), sendto(one, "abc", 3, 0, p, p ? self_len : 0));
	EACH_READ(NAMED("sendto"), sendto(one, p, 3, 0, (void *)&to, self_len));
	EACH_READ(NAMED("sendmsg name"), message_of(one, &part, 1, p, NULL, 0));
	ONCE(NAMED("left"), rest(other));
	if (connect(one, (void *)&to, self_len) || (to = name_of(one), connect(other, (void *)&to, self_len)))
		die("connect");
	EACH_READ(NAMED("sendmsg control"), message_of(one, &part, 1, NULL, p, 0));
	EACH_READ(NAMED("more"), send(one, p, 10, MSG_MORE));
	ONCE(NAMED("left"), (usleep(100000), rest(other)));
	names("datagram", one);
	sending("datagram", one, other);
	receiving("datagram", other, one);
	int on = 1;
	setsockopt(other, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof(on));
	part = (struct iovec){.iov_base = text, .iov_len = 3};
	for (size_t kind = 1; kind < KINDS; kind++) {
		send(one, "abc", 3, 0);
		await(other, POLLIN);
		errno = 0;
		long result = message_of(other, &part, 1, NULL, bad[kind].at, 1);
		line("datagram control", bad[kind].name, result, errno);
	}
	ONCE("datagram left", rest(other));
	close(one);
	close(other);
	close(pending);
}

#ifdef HANDLED
static void end_by_fault(int signal)
{
	(void)signal;
	puts("a fault");
	fflush(stdout);
	_exit(9);
}
#else
/* A handler of the program's is still called for what is not a call of a socket, and what is told of it is right. */
static sigjmp_buf back;
static void *volatile faulted;

static void on_fault(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	faulted = info->si_addr;
	siglongjmp(back, 1);
}

static void handlers(void)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER}, old;
	int ends[2];

	pair(ends);
	sigaction(SIGSEGV, NULL, &old);
	printf("a handler before: %d\n", old.sa_handler != SIG_DFL);
	sigaction(SIGSEGV, &action, &old);
	printf("before it: %d, flags %x\n", old.sa_handler != SIG_DFL, old.sa_flags);
	sigaction(SIGSEGV, NULL, &old);
	printf("it is told: %d, flags %x\n", old.sa_sigaction == on_fault, old.sa_flags & ~0x04000000);
	if (sigsetjmp(back, 1) == 0) {
		*(volatile char *)(none + 5) = 1;
		printf("no fault\n");
	}
	printf("a fault at 5: %d\n", faulted == none + 5);
	ONCE("send with a handler", send(ends[0], none, 10, 0));
	signal(SIGSEGV, SIG_IGN);
	ONCE("send with the signal ignored", send(ends[0], none, 10, 0));
	raise(SIGSEGV);
	printf("ignored\n");
	signal(SIGSEGV, SIG_DFL);
	ONCE("send with none", send(ends[0], none, 10, 0));
	fflush(stdout);
	for (int how = 0; how < 2; how++) {
		pid_t child = fork();
		if (child == 0) {
			if (how == 0)
				*(volatile char *)none = 1;
			else
				raise(SIGSEGV);
			_exit(0);
		}
		int status;
		waitpid(child, &status, 0);
		printf("a child ends: %s\n", WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "by itself");
	}
	close(ends[0]);
	close(ends[1]);
}

#endif

int main(int argc, char **argv)
{
	(void)argc;
	self_from(argv[1]);
	page = sysconf(_SC_PAGESIZE);
	char *three = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	readable = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (three == MAP_FAILED || readable == MAP_FAILED)
		die("mmap");
	none = three + page;
	edge = none - 50;
	if (mprotect(none, 2 * page, PROT_NONE))
		die("mprotect");
	bad[1].at = (void *)1;
	bad[2].at = (void *)-1;
	bad[3].at = none;
	bad[4].at = readable;
	int channel[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, channel))
		die("socketpair");
	/* Before there is a socket of the internet nothing of this process is looked at. */
	ONCE("sendmsg of the kernel's", sendmsg(channel[0], (void *)none, 0));
	close(channel[0]);
	close(channel[1]);
#ifdef HANDLED
	signal(SIGSEGV, end_by_fault);
#endif
	streams();
	listeners();
	datagrams();
#ifndef HANDLED
	handlers();
#endif
	return 0;
}
