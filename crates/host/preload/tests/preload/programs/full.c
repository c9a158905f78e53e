/* A process that has no descriptor left uses the sockets that it has: only what makes a descriptor needs one. */
#include "common.h"

#include <sys/resource.h>

#define LIMIT 64

static const char *told(long result)
{
	return result < 0 ? strerrorname_np(errno) : "done";
}

/* Takes every descriptor that is left; the last one. */
static int fill(void)
{
	int last = -1, fd;

	while ((fd = dup(0)) >= 0)
		last = fd;
	if (errno != EMFILE)
		die("dup");
	return last;
}

static void *speak(void *to)
{
	int fd = *(int *)to;

	usleep(300000);
	if (write(fd, "x", 1) != 1)
		die("write");
	return NULL;
}

int main(int argc, char **argv)
{
	int listening, to_connect[3], to_bind, datagram, end;
	struct sockaddr_storage name;
	struct rlimit limit = {LIMIT, LIMIT};
	pthread_t speaker;
	char byte;

	(void)argc;
	self_from(argv[1]);
	listening = listener();
	name = name_of(listening);
	for (int i = 0; i < 3; i++)
		to_connect[i] = socket(self.ss_family, SOCK_STREAM, 0);
	to_bind = socket(self.ss_family, SOCK_STREAM, 0);
	datagram = socket(self.ss_family, SOCK_DGRAM, 0);
	if (setrlimit(RLIMIT_NOFILE, &limit))
		die("setrlimit");
	int last = fill();
	for (int i = 0; i < 3; i++)
		printf("connect: %s\n", told(connect(to_connect[i], (void *)&name, self_len)));
	printf("bind: %s\n", told(bind(to_bind, (void *)&self, self_len)));
	printf("listen: %s\n", told(listen(to_bind, 1)));
	printf("sendto: %s\n", told(sendto(datagram, "x", 1, 0, (void *)&name, self_len)));
	printf("socket: %s\n", told(socket(self.ss_family, SOCK_STREAM, 0)));
	printf("accept: %s\n", told(accept(listening, NULL, NULL)));
	close(last);
	end = accept(listening, NULL, NULL);
	printf("accept with one left: %s, it is that one %d\n", told(end), end == last);
	/* To wait takes none. */
	if (pthread_create(&speaker, NULL, speak, &to_connect[0]))
		die("pthread_create");
	printf("a read that waits: %s\n", told(read(end, &byte, 1)));
	pthread_join(speaker, NULL);
	printf("accept: %s\n", told(accept(listening, NULL, NULL)));
	close(end);
	printf("accept again: %s\n", told(accept(listening, NULL, NULL)));
	return 0;
}
