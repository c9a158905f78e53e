/* Threads with connections of their own, two that share one, and a close while another thread reads. */
#include "common.h"
#include <sys/mman.h>

#define THREADS 4
#define BYTES 3000000

static unsigned char byte_at(size_t at)
{
	return (unsigned char)(at * 13 + (at >> 8));
}

static void *sends(void *fd)
{
	static __thread unsigned char text[10000];
	size_t at = 0;

	while (at < BYTES) {
		size_t len = BYTES - at < sizeof(text) ? BYTES - at : sizeof(text);
		for (size_t i = 0; i < len; i++)
			text[i] = byte_at(at + i);
		ssize_t sent = send(*(int *)fd, text, len, 0);
		if (sent <= 0)
			die("send");
		at += sent;
	}
	shutdown(*(int *)fd, SHUT_WR);
	return NULL;
}

static void *receives(void *fd)
{
	static __thread unsigned char text[17000];
	size_t at = 0;
	ssize_t len;

	while ((len = recv(*(int *)fd, text, sizeof(text), 0)) > 0) {
		for (ssize_t i = 0; i < len; i++)
			if (text[i] != byte_at(at + i))
				die("a byte is wrong");
		at += len;
	}
	if (len < 0 || at != BYTES)
		die("recv");
	return NULL;
}

/* Each thread has a connection of its own; both ends of each are used at once, both ways. */
static void all_at_once(void)
{
	int ends[THREADS][2];
	pthread_t threads[THREADS][4];

	for (int i = 0; i < THREADS; i++) {
		pair(ends[i]);
		pthread_create(&threads[i][0], NULL, sends, &ends[i][0]);
		pthread_create(&threads[i][1], NULL, receives, &ends[i][1]);
		pthread_create(&threads[i][2], NULL, sends, &ends[i][1]);
		pthread_create(&threads[i][3], NULL, receives, &ends[i][0]);
	}
	for (int i = 0; i < THREADS; i++) {
		for (int j = 0; j < 4; j++)
			pthread_join(threads[i][j], NULL);
		close(ends[i][0]);
		close(ends[i][1]);
	}
	printf("%d connections carried %d bytes both ways\n", THREADS, BYTES);
}

static int accepting;

static void *accepts(void *count)
{
	for (int i = 0; i < 5; i++) {
		int fd = accept(accepting, NULL, NULL);
		if (fd < 0)
			die("accept");
		char byte;
		if (recv(fd, &byte, 1, 0) != 1 || send(fd, &byte, 1, 0) != 1)
			die("a byte");
		close(fd);
		__sync_add_and_fetch((int *)count, 1);
	}
	return NULL;
}

/* Several threads accept from one listener. */
static void one_listener(void)
{
	pthread_t threads[THREADS];
	int count = 0;

	accepting = listener();
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, accepts, &count);
	for (int i = 0; i < THREADS * 5; i++) {
		int fd = connected_to(accepting);
		char byte = 'a';
		if (send(fd, &byte, 1, 0) != 1 || recv(fd, &byte, 1, 0) != 1)
			die("a byte of the client's");
		close(fd);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%d accepted\n", count);
	close(accepting);
}

/* Waits until the reader sleeps in its call: for a few looks, since it may sleep for a moment on its way there, for a lock. */
static void until_it_sleeps(volatile int *tid)
{
	char path[64], text[256];
	int asleep = 0;

	while (asleep < 3) {
		while (!*tid)
			sched_yield();
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", *tid);
		int fd = open(path, O_RDONLY);
		ssize_t len = read(fd, text, sizeof(text) - 1);
		close(fd);
		text[len > 0 ? len : 0] = 0;
		char *state = strrchr(text, ')');
		asleep = state && state[2] == 'S' ? asleep + 1 : 0;
		usleep(1000);
	}
}

static volatile int reader_tid;

static void *reads_one(void *fd)
{
	char byte;

	reader_tid = gettid();
	ssize_t len = recv(*(int *)fd, &byte, 1, 0);
	printf("the reader got %zd\n", len);
	return NULL;
}

/* Linux lets the reader go on reading from what another thread closed. */
static void closed_while_read(void)
{
	int ends[2];
	pthread_t reader;

	pair(ends);
	int fd = ends[0];
	pthread_create(&reader, NULL, reads_one, &fd);
	until_it_sleeps(&reader_tid);
	close(ends[0]);
	if (send(ends[1], "x", 1, 0) != 1)
		die("send");
	pthread_join(reader, NULL);
	close(ends[1]);
}

static void *shuts_down(void *fd)
{
	usleep(50000);
	shutdown(*(int *)fd, SHUT_RDWR);
	return NULL;
}

/* shutdown wakes the reader. */
static void shut_while_read(void)
{
	int ends[2];
	char byte;
	pthread_t other;

	pair(ends);
	pthread_create(&other, NULL, shuts_down, &ends[0]);
	printf("shut while read: %zd\n", recv(ends[0], &byte, 1, 0));
	pthread_join(other, NULL);
	close(ends[0]);
	close(ends[1]);
}

#define TURNS 100
#define SHORT 20000

struct turn {
	int fd;
	ssize_t got;
	int error;
};

static void *reads_in_turn(void *given)
{
	struct turn *turn = given;
	char byte;

	turn->got = recv(turn->fd, &byte, 1, 0);
	turn->error = errno;
	return NULL;
}

/* Closed at any moment of another thread's call: that ends with the byte, or did not begin. */
static void closed_again_and_again(void)
{
	int done = 0;

	for (int i = 0; i < TURNS; i++) {
		int ends[2];
		pthread_t reader;

		pair(ends);
		struct turn turn = {.fd = ends[0]};
		pthread_create(&reader, NULL, reads_in_turn, &turn);
		usleep(i * 5);
		close(ends[0]);
		send(ends[1], "x", 1, MSG_NOSIGNAL);
		pthread_join(reader, NULL);
		done += turn.got == 1 || turn.got < 0 && turn.error == EBADF;
		close(ends[1]);
	}
	printf("closed while another thread reads: %d\n", done);
}

/* Shut down at any moment: the reader is always woken. */
static void shut_again_and_again(void)
{
	int done = 0;

	for (int i = 0; i < TURNS; i++) {
		int ends[2];
		pthread_t reader;

		pair(ends);
		struct turn turn = {.fd = ends[0]};
		pthread_create(&reader, NULL, reads_in_turn, &turn);
		usleep(i * 5);
		shutdown(ends[0], i % 2 ? SHUT_RDWR : SHUT_RD);
		pthread_join(reader, NULL);
		done += turn.got == 0;
		close(ends[0]);
		close(ends[1]);
	}
	printf("shut down while another thread reads: %d\n", done);
}

static void *sends_short(void *given)
{
	static __thread char text[SHORT];
	struct turn *turn = given;

	turn->got = send(turn->fd, text, sizeof(text), MSG_NOSIGNAL);
	return NULL;
}

static void *reads_short(void *given)
{
	static __thread char text[SHORT];
	struct turn *turn = given;

	turn->got = recv(turn->fd, text, sizeof(text), MSG_WAITALL);
	return NULL;
}

/* Of one socket, one thread sends and another receives, and so at the other end. */
static void shared_again_and_again(void)
{
	int done = 0;

	for (int i = 0; i < TURNS; i++) {
		int ends[2];
		pthread_t threads[4];
		struct turn turns[4];

		pair(ends);
		for (int j = 0; j < 4; j++) {
			turns[j] = (struct turn){.fd = ends[j / 2]};
			pthread_create(&threads[j], NULL, j % 2 ? sends_short : reads_short, &turns[j]);
		}
		for (int j = 0; j < 4; j++) {
			pthread_join(threads[j], NULL);
			done += turns[j].got == SHORT;
		}
		close(ends[0]);
		close(ends[1]);
	}
	printf("one sends and another receives: %d\n", done);
}

static void *accepts_in_turn(void *given)
{
	struct turn *turn = given;

	turn->got = accept(turn->fd, NULL, NULL);
	turn->error = errno;
	return NULL;
}

static volatile int acceptor_tid;

static void *accepts_late(void *given)
{
	acceptor_tid = gettid();
	return accepts_in_turn(given);
}

/* A listener that is closed while a thread accepts goes on for that thread alone. */
static void unlistened_again_and_again(void)
{
	int done = 0;

	for (int i = 0; i < TURNS; i++) {
		pthread_t other;
		struct turn turn = {.fd = listener()};
		struct sockaddr_storage name = name_of(turn.fd);

		acceptor_tid = 0;
		pthread_create(&other, NULL, accepts_late, &turn);
		until_it_sleeps(&acceptor_tid);
		close(turn.fd);
		int fd = socket(self.ss_family, SOCK_STREAM, 0);
		if (connect(fd, (void *)&name, self_len))
			die("connect to a listener that somebody accepts from");
		pthread_join(other, NULL);
		done += turn.got >= 0;
		close(turn.got);
		close(fd);
		fd = socket(self.ss_family, SOCK_STREAM, 0);
		done += connect(fd, (void *)&name, self_len) && errno == ECONNREFUSED;
		close(fd);
	}
	printf("closed while another thread accepts: %d\n", done);
}

static void *writes_much(void *given)
{
	static __thread char text[BYTES];
	struct turn *turn = given;

	turn->got = send(turn->fd, text, sizeof(text), MSG_NOSIGNAL);
	return NULL;
}

/* What a thread is sending when the socket is closed still arrives, and then the end. */
static void closed_while_written(void)
{
	int ends[2];
	char text[20000];
	size_t got = 0;
	ssize_t len;
	pthread_t writer;

	pair(ends);
	struct turn turn = {.fd = ends[0]};
	pthread_create(&writer, NULL, writes_much, &turn);
	usleep(50000);
	close(ends[0]);
	while ((len = recv(ends[1], text, sizeof(text), 0)) > 0)
		got += len;
	pthread_join(writer, NULL);
	printf("closed while written: sent %zd, got %zu and then %zd\n", turn.got, got, len);
	close(ends[1]);
}

#define STACK 65536

static volatile int stackless;

/* As musl's threads end that nobody joins: after the first of the two calls there is no stack. */
static int gives_its_stack_back(void *stack)
{
#ifdef __x86_64__
	__asm__ volatile("syscall\n\txor %%edi, %%edi\n\tmov $60, %%eax\n\tsyscall"
			 : : "a"(11L), "D"(stack), "S"((long)STACK) : "rcx", "r11", "memory");
#endif
	return 0;
}

static void ends_without_a_stack(void)
{
	int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;

	for (int i = 0; i < 50; i++) {
		char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		stackless = 1;
		if (clone(gives_its_stack_back, stack + STACK, flags, stack, NULL, NULL, (int *)&stackless) < 0)
			die("clone");
		while (stackless)
			usleep(100);
	}
	printf("threads gave their stacks back\n");
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	self_from(argv[1]);
	all_at_once();
	one_listener();
	closed_while_read();
	shut_while_read();
	closed_again_and_again();
	shut_again_and_again();
	shared_again_and_again();
	unlistened_again_and_again();
	closed_while_written();
	ends_without_a_stack();
	return 0;
}
