/* Threads with connections of their own, two that share one, and a close while another thread reads. */
#include "common.h"

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

static void *reads_one(void *fd)
{
	char byte;
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
	usleep(50000);
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

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	self_from(argv[1]);
	all_at_once();
	one_listener();
	closed_while_read();
	shut_while_read();
	return 0;
}
