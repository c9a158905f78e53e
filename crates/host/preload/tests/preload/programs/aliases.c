/* The names with two signs in front, and functions of the C library's that look at a socket from the inside. */
#include "common.h"

int __close(int);
int __connect(int, const struct sockaddr *, socklen_t);
int __dup2(int, int);
int __fcntl(int, int, ...);
int __poll(struct pollfd *, nfds_t, int);
ssize_t __read(int, void *, size_t);
int __select(int, fd_set *, fd_set *, fd_set *, struct timeval *);
ssize_t __send(int, const void *, size_t, int);
ssize_t __write(int, const void *, size_t);

int main(int argc, char **argv)
{
	struct timeval limit = {20, 0};
	struct pollfd entry;
	fd_set readable;
	char text[16];

	if (argc < 2)
		return 2;
	self_from(argv[1]);
	int listening = listener(), fd = socket(self.ss_family, SOCK_STREAM, 0);
	struct sockaddr_storage to = name_of(listening);
	printf("connect %d\n", __connect(fd, (struct sockaddr *)&to, self_len));
	int one = accept(listening, NULL, NULL);
	printf("send %zd\n", __send(fd, "ab", 2, MSG_NOSIGNAL));
	entry = (struct pollfd){one, POLLIN, 0};
	printf("poll %d\n", __poll(&entry, 1, 20000));
	printf("read %zd\n", __read(one, text, 1));
	FD_ZERO(&readable);
	FD_SET(one, &readable);
	printf("select %d\n", __select(one + 1, &readable, NULL, NULL, &limit));
	int copy = __dup2(one, one + 20);
	printf("dup2 %d\n", copy == one + 20);
	printf("read %zd\n", __read(copy, text, 1));
	printf("fcntl %d, %d\n", __fcntl(copy, F_SETFL, O_NONBLOCK), (__fcntl(copy, F_GETFL) & O_NONBLOCK) != 0);
	printf("read %zd %d\n", __read(copy, text, 1), errno);
	printf("write %zd\n", __write(copy, "c", 1));
	printf("recv %zd\n", recv(fd, text, 1, 0));
	printf("mark %d", sockatmark(one));
	send(fd, "xyz", 3, MSG_OOB);
	await(one, POLLPRI);
	printf(" %d", sockatmark(one));
	printf(" read %zd", read(one, text, sizeof(text)));
	printf(" mark %d", sockatmark(one));
	printf(" %d", sockatmark(listening));
	printf(" no socket %d", sockatmark(0));
	printf(" %d\n", errno != 0);
	printf("close %d\n", __close(one));
	printf("close %d\n", __close(copy));
	printf("the end %zd\n", recv(fd, text, 1, 0));
	return 0;
}
