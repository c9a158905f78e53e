/* Descriptors that are closed past the library, by an instruction, and whose numbers are given out anew: what is written there goes there. */
#include "common.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>

/* Seen by nobody. */
static int close_unseen(int fd)
{
	long answer;
#ifdef __x86_64__
	__asm__ volatile("syscall" : "=a"(answer) : "a"(3L), "D"((long)fd) : "rcx", "r11", "memory");
#else
	register long number __asm__("x8") = 57, word __asm__("x0") = fd;
	__asm__ volatile("svc 0" : "+r"(word) : "r"(number) : "memory");
	answer = word;
#endif
	return (int)answer;
}

enum maker { FILE_OPENED, FILE_CREATED, STREAM, PIPE, PIPE2, UNIX_PAIR, UNIX_SOCKET, EVENT, MEMORY, TIMER, OTHER, COPY, HIGHER_COPY, ACCEPTED, NAMELESS, UNNAMED_STREAM, CALLED, MAKERS };
static const char *makers[] = {"open", "creat", "fopen", "pipe", "pipe2", "socketpair", "socket", "eventfd", "memfd_create", "timerfd_create", "a socket", "dup", "F_DUPFD", "accept", "mkstemp", "tmpfile", "syscall"};

static FILE *stream;
static int file, unix_listener;
static struct sockaddr_un name = {.sun_family = AF_UNIX};
static char path[] = "/tmp/clearway-reused-XXXXXX";

static void make(enum maker maker, int made[2])
{
	made[1] = -1;
	switch (maker) {
	case FILE_OPENED:
		made[0] = open(path, O_RDWR | O_TRUNC);
		break;
	case FILE_CREATED:
		made[0] = creat(path, 0600);
		break;
	case STREAM:
		stream = fopen(path, "w+");
		made[0] = fileno(stream);
		break;
	case PIPE:
		pipe(made);
		break;
	case PIPE2:
		pipe2(made, O_CLOEXEC);
		break;
	case UNIX_PAIR:
		socketpair(AF_UNIX, SOCK_STREAM, 0, made);
		break;
	case UNIX_SOCKET:
		made[0] = socket(AF_UNIX, SOCK_STREAM, 0);
		break;
	case EVENT:
		made[0] = eventfd(0, EFD_NONBLOCK);
		break;
	case MEMORY:
		made[0] = memfd_create("reused", 0);
		break;
	case TIMER:
		made[0] = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
		break;
	case COPY:
		made[0] = dup(file);
		break;
	case HIGHER_COPY:
		made[0] = fcntl(file, F_DUPFD_CLOEXEC, 0);
		break;
	case ACCEPTED:
		made[0] = accept(unix_listener, NULL, NULL);
		break;
	case NAMELESS: {
		char path[] = "/tmp/clearway-reused-XXXXXX";
		made[0] = mkstemp(path);
		unlink(path);
		break;
	}
	case UNNAMED_STREAM:
		stream = tmpfile();
		made[0] = fileno(stream);
		break;
	case CALLED:
		made[0] = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_TRUNC);
		break;
	default:
		made[0] = socket(self.ss_family, SOCK_STREAM, 0);
	}
}

/* Both numbers of what is made in twos were sockets. */
static void reused(enum maker maker)
{
	int first[2], second[2], made[2], set = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN};
	char text[16] = "";
	ssize_t wrote = -1, got = -1;

	int unix_client = -1;
	if (maker == ACCEPTED) {
		unix_client = socket(AF_UNIX, SOCK_STREAM, 0);
		connect(unix_client, (struct sockaddr *)&name, sizeof(name));
	}
	pair(first);
	pair(second);
	epoll_ctl(set, EPOLL_CTL_ADD, first[0], &event);
	int lower = first[0] < second[0] ? first[0] : second[0];
	/* So that the next number is one of theirs. */
	int filled[64], fills = 0, next;
	while ((next = dup(0)) < lower)
		filled[fills++] = next;
	close(next);
	close_unseen(first[0]);
	close_unseen(second[0]);
	make(maker, made);
	int low = made[1] >= 0 && made[1] < made[0] ? made[1] : made[0];
	printf("%s: the same number %d", makers[maker], low == lower);
	switch (maker) {
	case PIPE:
	case PIPE2:
		wrote = write(made[1], "hello", 5);
		got = read(made[0], text, sizeof(text));
		break;
	case UNIX_PAIR:
		wrote = write(made[0], "hello", 5);
		got = read(made[1], text, sizeof(text));
		break;
	case EVENT:
		wrote = write(made[0], "\1\0\0\0\0\0\0\0", 8);
		got = read(made[0], text, 8);
		break;
	case ACCEPTED:
		wrote = write(made[0], "hello", 5);
		got = read(unix_client, text, sizeof(text));
		close(unix_client);
		break;
	case UNIX_SOCKET:
	case TIMER:
	case OTHER:
		wrote = write(made[0], "hello", 5);
		wrote = wrote < 0 ? -errno : wrote;
		got = 0;
		break;
	case STREAM:
	case UNNAMED_STREAM:
		wrote = fputs("hello", stream) >= 0 && fflush(stream) == 0;
		got = pread(made[0], text, sizeof(text), 0);
		break;
	case FILE_CREATED:
		wrote = write(made[0], "hello", 5);
		close(made[0]);
		made[0] = open(path, O_RDONLY);
		got = read(made[0], text, sizeof(text));
		break;
	case COPY:
	case HIGHER_COPY:
		ftruncate(file, 0);
		wrote = pwrite(made[0], "hello", 5, 0);
		got = pread(made[0], text, sizeof(text), 0);
		break;
	default:
		wrote = write(made[0], "hello", 5);
		got = pread(made[0], text, sizeof(text), 0);
	}
	printf(", wrote %zd, got %zd", wrote, got);
	/* The peers hear of the end, and of nothing else. */
	printf(", peers %zd", recv(first[1], text, sizeof(text), 0));
	printf(" %zd\n", recv(second[1], text, sizeof(text), 0));
	if (maker == STREAM || maker == UNNAMED_STREAM)
		fclose(stream);
	else
		close(made[0]);
	if (made[1] >= 0)
		close(made[1]);
	while (fills > 0)
		close(filled[--fills]);
	close(set);
	close(first[1]);
	close(second[1]);
}

/* What is made next, by the library for itself too, has numbers of sockets that were. */
static void many(void)
{
	enum { COUNT = 40, NEXT = 10 };
	int ends[COUNT][2], next[NEXT][2], told = 0, right = 0;
	char text[16];

	for (int at = 0; at < COUNT; at++)
		pair(ends[at]);
	for (int at = 0; at < COUNT; at++)
		for (int end = 0; end < 2; end++)
			close_unseen(ends[at][end]);
	for (int at = 0; at < NEXT; at++)
		pair(next[at]);
	int set = epoll_create1(0);
	for (int at = 0; at < NEXT; at++) {
		struct epoll_event event = {.events = EPOLLIN, .data.fd = at};
		epoll_ctl(set, EPOLL_CTL_ADD, next[at][0], &event);
		send(next[at][1], "hello", 5, 0);
		struct epoll_event came;
		if (epoll_wait(set, &came, 1, 10000) == 1 && came.data.fd == at)
			told++;
		struct pollfd polled = {.fd = next[at][0], .events = POLLIN};
		right += poll(&polled, 1, 10000) == 1 && recv(next[at][0], text, sizeof(text), 0) == 5;
	}
	printf("many: told %d, right %d\n", told, right);
	for (int at = 0; at < NEXT; at++) {
		close(next[at][0]);
		ssize_t end = recv(next[at][1], text, sizeof(text), 0);
		right += end == 0 && close(next[at][1]) == 0;
	}
	printf("many: ended %d\n", right);
	close(set);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	self_from(argv[1]);
	signal(SIGPIPE, SIG_IGN);
	file = mkstemp(path);
	unix_listener = socket(AF_UNIX, SOCK_STREAM, 0);
	snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "clearway-reused-%d", (int)getpid());
	bind(unix_listener, (struct sockaddr *)&name, sizeof(name));
	listen(unix_listener, 5);
	for (enum maker maker = 0; maker < MAKERS; maker++)
		reused(maker);
	many();
	unlink(path);
	return 0;
}
