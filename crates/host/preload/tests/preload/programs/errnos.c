/* One line for each call: what it returned, and errno, which a call that succeeds leaves alone. Run over the kernel and over Clearway, the lines must be the same. */
#include "common.h"

#include <linux/sockios.h>

static void line(const char *what, long result, int error)
{
	if (result < 0)
		printf("%-72s %s\n", what, strerrorname_np(error));
	else
		printf("%-72s %ld%s%s\n", what, result, error ? " and " : "", error ? strerrorname_np(error) : "");
	fflush(stdout);
}

#define SAY(what, call)                                                                                                \
	do {                                                                                                           \
		errno = 0;                                                                                             \
		long result_ = (long)(call);                                                                           \
		line(what, result_, errno);                                                                            \
	} while (0)
#define CALL(call) SAY(#call, call)

static void events(const char *what, int fd)
{
	struct pollfd one = {.fd = fd, .events = POLLIN | POLLOUT | POLLPRI | POLLRDHUP};

	poll(&one, 1, 0);
	printf("%-72s%s%s%s%s%s%s\n", what, one.revents & POLLIN ? " in" : "", one.revents & POLLOUT ? " out" : "",
	       one.revents & POLLPRI ? " pri" : "", one.revents & POLLRDHUP ? " rdhup" : "", one.revents & POLLERR ? " err" : "",
	       one.revents & POLLHUP ? " hup" : "");
	fflush(stdout);
}

static int get(int fd, int level, int name)
{
	int value = -7;
	socklen_t len = sizeof(value);

	return getsockopt(fd, level, name, &value, &len) ? -1 : value;
}

static int set(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value));
}

/* Sets an option to each value and says what came of it, and what is there then. */
static void option(int fd, const char *what, int level, int name, const int *values, int count)
{
	char text[128];

	snprintf(text, sizeof(text), "%s at first", what);
	SAY(text, get(fd, level, name));
	for (int i = 0; i < count; i++) {
		snprintf(text, sizeof(text), "%s = %d", what, values[i]);
		SAY(text, set(fd, level, name, values[i]));
		snprintf(text, sizeof(text), "%s then", what);
		SAY(text, get(fd, level, name));
	}
	char byte = 1;
	snprintf(text, sizeof(text), "%s with one byte", what);
	SAY(text, setsockopt(fd, level, name, &byte, 1));
	snprintf(text, sizeof(text), "%s with none", what);
	SAY(text, setsockopt(fd, level, name, &byte, 0));
}

#define OPTION(fd, level, name, ...)                                                                                   \
	do {                                                                                                           \
		int values_[] = {__VA_ARGS__};                                                                         \
		option(fd, #name, level, name, values_, sizeof(values_) / sizeof(*values_));                           \
	} while (0)

static void stream_options(void)
{
	int fd = bound(SOCK_STREAM);

	OPTION(fd, SOL_SOCKET, SO_REUSEADDR, 1, 0, 7);
	OPTION(fd, SOL_SOCKET, SO_REUSEPORT, 1, 0);
	OPTION(fd, SOL_SOCKET, SO_KEEPALIVE, 1, 0);
	OPTION(fd, SOL_SOCKET, SO_OOBINLINE, 1, 0);
	OPTION(fd, SOL_SOCKET, SO_BROADCAST, 1, 0);
	OPTION(fd, SOL_SOCKET, SO_PRIORITY, 3, 0);
	OPTION(fd, SOL_SOCKET, SO_TYPE, 1);
	OPTION(fd, SOL_SOCKET, SO_PROTOCOL, 1);
	OPTION(fd, SOL_SOCKET, SO_DOMAIN, 1);
	OPTION(fd, SOL_SOCKET, SO_ERROR, 1);
	OPTION(fd, SOL_SOCKET, SO_ACCEPTCONN, 1);
	SAY("SO_RCVBUF = 20000", set(fd, SOL_SOCKET, SO_RCVBUF, 20000));
	SAY("SO_RCVBUF then", get(fd, SOL_SOCKET, SO_RCVBUF));
	SAY("SO_SNDBUF = 20000", set(fd, SOL_SOCKET, SO_SNDBUF, 20000));
	SAY("SO_SNDBUF then", get(fd, SOL_SOCKET, SO_SNDBUF));
	SAY("SO_SNDBUF = 1", set(fd, SOL_SOCKET, SO_SNDBUF, 1));
	SAY("SO_SNDBUF then", get(fd, SOL_SOCKET, SO_SNDBUF));
	SAY("SO_RCVBUF = 1", set(fd, SOL_SOCKET, SO_RCVBUF, 1));
	SAY("SO_RCVBUF then", get(fd, SOL_SOCKET, SO_RCVBUF));
	SAY("an unknown option of SOL_SOCKET", set(fd, SOL_SOCKET, 9999, 1));
	SAY("an unknown option of SOL_SOCKET, asked", get(fd, SOL_SOCKET, 9999));
	OPTION(fd, IPPROTO_TCP, TCP_NODELAY, 1, 0);
	OPTION(fd, IPPROTO_TCP, TCP_CORK, 1, 0);
	OPTION(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10, 0, 32767, 32768, -1);
	OPTION(fd, IPPROTO_TCP, TCP_KEEPINTVL, 10, 0, 32767, 32768);
	OPTION(fd, IPPROTO_TCP, TCP_KEEPCNT, 10, 0, 127, 128);
	OPTION(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 1000, 0, -1);
	OPTION(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, 1, 5, 0);
	OPTION(fd, IPPROTO_TCP, TCP_MAXSEG, 1000, 87, 40000, 0);
	SAY("an unknown option of IPPROTO_TCP", set(fd, IPPROTO_TCP, 9999, 1));
	SAY("an unknown option of IPPROTO_TCP, asked", get(fd, IPPROTO_TCP, 9999));
	SAY("an option of UDP", set(fd, IPPROTO_UDP, UDP_SEGMENT, 100));
	SAY("an unknown level", set(fd, 250, 1, 1));
	SAY("an unknown level, asked", get(fd, 250, 1));
	SAY("TCP_CONGESTION = reno", setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4));
	char name[20] = "";
	socklen_t len = sizeof(name);
	SAY("TCP_CONGESTION then", getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len));
	printf("it is %s, length %u\n", name, len);
	len = 3;
	SAY("TCP_CONGESTION in three bytes", getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len));
	printf("length %u\n", len);
	SAY("TCP_CONGESTION = nonesuch", setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "nonesuch", 8));
	SAY("TCP_CONGESTION with nothing", setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "", 0));
	if (self.ss_family == AF_INET) {
		OPTION(fd, IPPROTO_IP, IP_TOS, 0x10, 0x13, 0);
		OPTION(fd, IPPROTO_IP, IP_TTL, 9, 0, 255, 256, -1);
		OPTION(fd, IPPROTO_IP, IP_MTU);
		SAY("IPV6_V6ONLY on IPv4", set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1));
		SAY("IPV6_V6ONLY on IPv4, asked", get(fd, IPPROTO_IPV6, IPV6_V6ONLY));
	} else {
		OPTION(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
		OPTION(fd, IPPROTO_IPV6, IPV6_TCLASS, 0x10, 256, -1);
		OPTION(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 9, 256, -1);
		OPTION(fd, IPPROTO_IPV6, IPV6_MTU);
	}
	close(fd);
}

static void structured_options(void)
{
	int fd = bound(SOCK_STREAM);
	struct linger linger = {.l_onoff = 1, .l_linger = 5};
	struct timeval time = {.tv_sec = 1, .tv_usec = 500000};
	char room[64];
	socklen_t len = sizeof(linger);

	CALL(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
	CALL(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, 4));
	memset(&linger, 0, sizeof(linger));
	CALL(getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &len));
	printf("linger %d %d, length %u\n", linger.l_onoff, linger.l_linger, len);
	CALL(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)));
	CALL(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, 8));
	memset(&time, 0, sizeof(time));
	len = sizeof(time);
	CALL(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, &len));
	printf("time %ld %ld, length %u\n", (long)time.tv_sec, (long)time.tv_usec, len);
	time.tv_usec = 1000000;
	CALL(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time)));
	CALL(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, NULL, sizeof(time)));
	CALL(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &time, (socklen_t)-1));
	CALL(getsockopt(fd, SOL_SOCKET, SO_TYPE, room, NULL));
	len = 4;
	CALL(getsockopt(fd, SOL_SOCKET, SO_TYPE, NULL, &len));
	len = (socklen_t)-1;
	CALL(getsockopt(fd, SOL_SOCKET, SO_TYPE, room, &len));
	len = 2;
	CALL(getsockopt(fd, SOL_SOCKET, SO_TYPE, room, &len));
	printf("length %u\n", len);
	len = 0;
	CALL(getsockopt(fd, SOL_SOCKET, SO_TYPE, room, &len));
	printf("length %u\n", len);
	len = sizeof(room);
	CALL(getsockopt(fd, SOL_SOCKET, SO_TYPE, room, &len));
	printf("length %u\n", len);
	close(fd);
}

static void unconnected(void)
{
	struct sockaddr_storage name, other = self;
	socklen_t len = sizeof(name);
	char byte = 'x';
	int fd = bound(SOCK_STREAM);

	events("a bound stream shows", fd);
	CALL(bind(fd, (void *)&self, self_len));
	CALL(getpeername(fd, (void *)&name, &len));
	CALL(accept(fd, NULL, NULL));
	CALL(recv(fd, &byte, 1, 0));
	CALL(recv(fd, &byte, 1, MSG_DONTWAIT));
	CALL(read(fd, &byte, 1));
	CALL(send(fd, &byte, 1, MSG_NOSIGNAL));
	CALL(shutdown(fd, SHUT_WR));
	CALL(shutdown(fd, 9));
	int queued = -7;
	SAY("FIONREAD of a bound stream", ioctl(fd, FIONREAD, &queued));
	printf("%d bytes\n", queued);
	name = name_of(fd);
	int second = socket(self.ss_family, SOCK_STREAM, 0);
	SAY("bind to a port that is taken", bind(second, (void *)&name, self_len));
	close(second);
	((struct sockaddr *)&other)->sa_family = AF_UNIX;
	second = bound(SOCK_STREAM);
	SAY("connect to an address of another family", connect(second, (void *)&other, self_len));
	SAY("connect to an address that is too short", connect(second, (void *)&self, 6));
	SAY("connect to no address", connect(second, NULL, 16));
	close(second);
	second = bound(SOCK_STREAM);
	SAY("connect where nobody listens", connect(second, (void *)&name, self_len));
	SAY("SO_ERROR then", get(second, SOL_SOCKET, SO_ERROR));
	events("a refused stream shows", second);
	close(second);
	second = socket(self.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
	SAY("connect where nobody listens, not blocking", connect(second, (void *)&name, self_len));
	int shown = await(second, POLLOUT);
	printf("it shows %x\n", shown);
	SAY("SO_ERROR then", get(second, SOL_SOCKET, SO_ERROR));
	SAY("SO_ERROR again", get(second, SOL_SOCKET, SO_ERROR));
	SAY("connect then, to hear of it", connect(second, (void *)&name, self_len));
	events("then it shows", second);
	close(second);
	close(fd);
}

/* A socket whose connect failed is as it was before, and may try again. */
static void tried_again(void)
{
	struct sockaddr_storage nobody, somebody;
	socklen_t len = sizeof(nobody);
	char byte;
	int closed = bound(SOCK_STREAM), fd = listener();

	nobody = name_of(closed);
	somebody = name_of(fd);
	int again = socket(self.ss_family, SOCK_STREAM, 0);
	SAY("connect where nobody listens", connect(again, (void *)&nobody, self_len));
	struct sockaddr_storage now = name_of(again);
	printf("it %s a port\n", ((struct sockaddr_in *)&now)->sin_port ? "shows" : "shows not");
	CALL(getpeername(again, (void *)&now, &len));
	CALL(recv(again, &byte, 1, 0));
	CALL(send(again, "x", 1, MSG_NOSIGNAL));
	SAY("connect to port 0", connect(again, (void *)&self, self_len));
	SAY("connect again, where somebody listens", connect(again, (void *)&somebody, self_len));
	int theirs = accept(fd, NULL, NULL);
	CALL(send(again, "x", 1, MSG_NOSIGNAL));
	CALL(recv(theirs, &byte, 1, 0));
	struct linger linger = {.l_onoff = 1};
	setsockopt(theirs, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	close(theirs);
	await(again, POLLRDHUP);
	SAY("connect of a connection that was reset", connect(again, (void *)&somebody, self_len));
	SAY("SO_ERROR of it", get(again, SOL_SOCKET, SO_ERROR));
	close(again);
	close(fd);
	close(closed);
}

/* What was closed has given up its address. */
static void closed(void)
{
	struct sockaddr_storage name;
	int refused = 0, taken = 0;

	for (int i = 0; i < 20; i++) {
		int one = bound(SOCK_DGRAM), two = bound(SOCK_DGRAM);
		name = name_of(two);
		if (connect(one, (void *)&name, self_len))
			die("connect");
		close(two);
		send(one, "x", 1, 0);
		await(one, POLLERR);
		refused += recv(one, &name, 1, MSG_DONTWAIT) < 0 && errno == ECONNREFUSED;
		close(one);
	}
	printf("datagrams to a socket that was just closed were refused %d times\n", refused);
	for (int i = 0; i < 20; i++) {
		int fd = i % 2 ? bound(SOCK_DGRAM) : listener();
		name = name_of(fd);
		close(fd);
		fd = socket(self.ss_family, i % 2 ? SOCK_DGRAM : SOCK_STREAM, 0);
		taken += bind(fd, (void *)&name, self_len) == 0;
		close(fd);
	}
	printf("addresses of sockets that were just closed could be taken %d times\n", taken);
}

static void listening(void)
{
	struct sockaddr_storage name;
	socklen_t len = sizeof(name);
	char byte = 'x';
	int queued, fd = bound(SOCK_STREAM);

	SAY("listen", listen(fd, 5));
	SAY("listen again", listen(fd, -1));
	SAY("SO_ACCEPTCONN", get(fd, SOL_SOCKET, SO_ACCEPTCONN));
	events("a listener shows", fd);
	CALL(getpeername(fd, (void *)&name, &len));
	CALL(recv(fd, &byte, 1, 0));
	CALL(send(fd, &byte, 1, MSG_NOSIGNAL));
	CALL(ioctl(fd, FIONREAD, &queued));
	CALL(ioctl(fd, SIOCOUTQ, &queued));
	CALL(accept4(fd, NULL, NULL, 1));
	CALL(fcntl(fd, F_SETFL, O_NONBLOCK));
	CALL(accept(fd, NULL, NULL));
	name = name_of(fd);
	SAY("connect of a listener", connect(fd, (void *)&name, self_len));
	int ours = connected_to(fd);
	printf("a listener with a connection shows %x\n", await(fd, POLLIN));
	len = 4;
	int theirs = accept4(fd, (void *)&name, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	printf("accepted %d, length %u\n", theirs >= 0, len);
	printf("its flags %x %x\n", fcntl(theirs, F_GETFL), fcntl(theirs, F_GETFD));
	SAY("SO_ACCEPTCONN of the connection", get(theirs, SOL_SOCKET, SO_ACCEPTCONN));
	CALL(recv(theirs, &byte, 1, 0));
	close(theirs);
	close(ours);
	close(fd);
}

static void transfers(void)
{
	int ends[2], queued;
	char text[32];
	struct iovec parts[2] = {{text, 3}, {text + 3, 29}};
	struct sockaddr_storage name;
	socklen_t len = sizeof(name);

	pair(ends);
	events("a connection shows", ends[0]);
	CALL(recv(ends[0], text, 1, MSG_DONTWAIT));
	CALL(send(ends[0], "abcdef", 6, 0));
	await(ends[1], POLLIN);
	events("with bytes to read it shows", ends[1]);
	CALL(ioctl(ends[1], FIONREAD, &queued));
	printf("%d bytes\n", queued);
	CALL(recv(ends[1], text, sizeof(text), MSG_PEEK));
	CALL(recv(ends[1], text, 2, MSG_TRUNC));
	CALL(readv(ends[1], parts, 2));
	printf("%.4s\n", text);
	CALL(readv(ends[1], parts, -1));
	CALL(readv(ends[1], parts, 2000));
	CALL(writev(ends[0], parts, 2000));
	CALL(readv(ends[1], parts, 0));
	CALL(read(ends[1], text, 0));
	CALL(write(ends[0], text, 0));
	CALL(recv(ends[1], NULL, 0, MSG_DONTWAIT));
	CALL(send(ends[0], NULL, 4, MSG_NOSIGNAL));
	CALL(recv(ends[1], text, 1, MSG_ERRQUEUE));
	CALL(recv(ends[1], text, 1, MSG_OOB));
	CALL(sendto(ends[0], "ghi", 3, 0, (void *)&self, self_len));
	await(ends[1], POLLIN);
	CALL(recvfrom(ends[1], text, sizeof(text), 0, (void *)&name, &len));
	printf("name of %u bytes\n", len);
	struct msghdr message = {.msg_name = &name, .msg_namelen = sizeof(name), .msg_iov = parts, .msg_iovlen = 2};
	CALL(recvmsg(ends[1], &message, MSG_DONTWAIT));
	send(ends[0], "0123456789", 10, 0);
	await(ends[1], POLLIN);
	CALL(recvmsg(ends[1], &message, 0));
	printf("name of %u bytes, flags %x\n", message.msg_namelen, message.msg_flags);
	message.msg_iovlen = 2000;
	CALL(recvmsg(ends[1], &message, 0));
	CALL(sendmsg(ends[0], &message, 0));
	CALL(recvmsg(ends[1], NULL, 0));
	message.msg_iovlen = 2;
	message.msg_namelen = -1;
	CALL(recvmsg(ends[1], &message, MSG_DONTWAIT));
	CALL(sendmsg(ends[0], &message, 0));
	message.msg_name = NULL;
	CALL(recvmsg(ends[1], &message, MSG_DONTWAIT));
	CALL(connect(ends[0], (void *)&self, self_len));
	CALL(listen(ends[0], 1));
	CALL(bind(ends[0], (void *)&self, self_len));
	CALL(accept(ends[0], NULL, NULL));
	len = sizeof(name);
	CALL(getpeername(ends[0], (void *)&name, &len));
	printf("name of %u bytes\n", len);
	len = 0;
	CALL(getpeername(ends[0], (void *)&name, &len));
	printf("name of %u bytes\n", len);
	CALL(getpeername(ends[0], (void *)&name, NULL));
	len = (socklen_t)-1;
	CALL(getsockname(ends[0], (void *)&name, &len));
	struct timeval time = {.tv_usec = 50000};
	setsockopt(ends[1], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
	CALL(recv(ends[1], text, 1, 0));
	CALL(sendfile(ends[0], ends[1], NULL, 10));
	close(ends[0]);
	close(ends[1]);
}

static void files(void)
{
	int ends[2], pipes[2];
	char text[64], path[] = "/tmp/clearway-errnos-XXXXXX";
	int file = mkstemp(path);
	off_t at = 2;
	loff_t pipe_at = 0;

	unlink(path);
	if (file < 0 || write(file, "0123456789", 10) != 10 || lseek(file, 0, SEEK_SET) || pipe(pipes))
		die("a file");
	pair(ends);
	CALL(sendfile(ends[0], file, NULL, 4));
	printf("the file stands at %ld\n", (long)lseek(file, 0, SEEK_CUR));
	CALL(sendfile(ends[0], file, &at, 100));
	printf("the offset is %ld, the file stands at %ld\n", (long)at, (long)lseek(file, 0, SEEK_CUR));
	CALL(sendfile(ends[0], file, &at, 100));
	CALL(sendfile(ends[0], file, NULL, 0));
	at = -1;
	CALL(sendfile(ends[0], file, &at, 1));
	CALL(sendfile(ends[0], 999, NULL, 1));
	CALL(recv(ends[1], text, 12, MSG_WAITALL));
	printf("%.12s\n", text);
	send(ends[0], "through a pipe", 14, 0);
	await(ends[1], POLLIN);
	CALL(splice(ends[1], NULL, pipes[1], NULL, 64, 0));
	CALL(splice(ends[1], &pipe_at, pipes[1], NULL, 64, 0));
	CALL(splice(pipes[0], NULL, ends[0], NULL, 64, 0));
	CALL(recv(ends[1], text, 14, MSG_WAITALL));
	printf("%.14s\n", text);
	CALL(splice(ends[1], NULL, ends[0], NULL, 64, 0));
	CALL(splice(file, NULL, ends[0], NULL, 64, 0));
	CALL(lseek(ends[0], 0, SEEK_CUR));
	close(pipes[0]);
	close(pipes[1]);
	close(file);
	close(ends[0]);
	close(ends[1]);
}

static void endings(void)
{
	int ends[2];
	char text[32];
	struct linger linger = {.l_onoff = 1};

	pair(ends);
	CALL(shutdown(ends[0], SHUT_WR));
	CALL(send(ends[0], "x", 1, MSG_NOSIGNAL));
	await(ends[1], POLLIN);
	events("when the peer has shut down it shows", ends[1]);
	CALL(recv(ends[1], text, 1, 0));
	CALL(recv(ends[1], text, 1, MSG_DONTWAIT));
	CALL(send(ends[1], "abc", 3, MSG_NOSIGNAL));
	await(ends[0], POLLIN);
	CALL(recv(ends[0], text, sizeof(text), 0));
	CALL(shutdown(ends[1], SHUT_WR));
	await(ends[0], POLLRDHUP);
	events("when both have shut down it shows", ends[0]);
	CALL(recv(ends[0], text, 1, 0));
	CALL(shutdown(ends[0], SHUT_WR));
	close(ends[0]);
	close(ends[1]);

	pair(ends);
	CALL(shutdown(ends[0], SHUT_RD));
	events("when it was shut down for reading it shows", ends[0]);
	CALL(recv(ends[0], text, 1, 0));
	CALL(send(ends[0], "x", 1, MSG_NOSIGNAL));
	close(ends[0]);
	close(ends[1]);

	pair(ends);
	send(ends[0], "unread", 6, 0);
	await(ends[1], POLLIN);
	close(ends[1]);
	printf("when the peer closed with bytes unread it shows %x\n", await(ends[0], POLLRDHUP) & ~POLLOUT);
	CALL(recv(ends[0], text, 1, 0));
	CALL(recv(ends[0], text, 1, 0));
	CALL(send(ends[0], "x", 1, MSG_NOSIGNAL));
	SAY("SO_ERROR then", get(ends[0], SOL_SOCKET, SO_ERROR));
	close(ends[0]);

	pair(ends);
	setsockopt(ends[1], SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	close(ends[1]);
	printf("when the peer lingered for no time it shows %x\n", await(ends[0], POLLRDHUP) & ~POLLOUT);
	SAY("SO_ERROR then", get(ends[0], SOL_SOCKET, SO_ERROR));
	CALL(recv(ends[0], text, 1, 0));
	CALL(send(ends[0], "x", 1, MSG_NOSIGNAL));
	close(ends[0]);
}

static void urgent(void)
{
	int ends[2], mark = -7;
	char text[32];

	pair(ends);
	CALL(send(ends[0], "ab!", 3, MSG_OOB));
	printf("urgent data shows %x\n", await(ends[1], POLLPRI) & POLLPRI);
	CALL(recv(ends[1], text, 1, MSG_OOB));
	printf("%c\n", text[0]);
	CALL(recv(ends[1], text, 1, MSG_OOB));
	CALL(ioctl(ends[1], SIOCATMARK, &mark));
	printf("at the mark: %d\n", mark);
	CALL(recv(ends[1], text, sizeof(text), MSG_DONTWAIT));
	CALL(ioctl(ends[1], SIOCATMARK, &mark));
	printf("at the mark: %d\n", mark);
	events("with the byte taken it shows", ends[1]);
	CALL(recv(ends[1], text, 1, MSG_DONTWAIT));
	CALL(ioctl(ends[1], SIOCATMARK, &mark));
	printf("at the mark: %d\n", mark);
	CALL(send(ends[0], "cd", 2, 0));
	await(ends[1], POLLIN);
	CALL(recv(ends[1], text, sizeof(text), MSG_DONTWAIT));
	CALL(ioctl(ends[1], SIOCATMARK, &mark));
	printf("at the mark: %d\n", mark);

	CALL(send(ends[0], "!", 1, MSG_OOB));
	await(ends[1], POLLPRI);
	events("one urgent byte shows", ends[1]);
	CALL(ioctl(ends[1], FIONREAD, &mark));
	printf("%d bytes\n", mark);
	CALL(recv(ends[1], text, sizeof(text), MSG_DONTWAIT));
	CALL(send(ends[0], "efg", 3, 0));
	await(ends[1], POLLIN);
	events("with bytes behind it shows", ends[1]);
	CALL(recv(ends[1], text, 1, MSG_OOB | MSG_PEEK));
	CALL(recv(ends[1], text, sizeof(text), MSG_DONTWAIT | MSG_PEEK));
	printf("%.3s\n", text);
	CALL(recv(ends[1], text, sizeof(text), MSG_DONTWAIT));
	printf("%.3s\n", text);
	CALL(recv(ends[1], text, 1, MSG_OOB));
	events("past the urgent byte it shows", ends[1]);

	CALL(send(ends[0], "h!", 2, MSG_OOB));
	CALL(send(ends[0], "ij", 2, 0));
	await(ends[1], POLLPRI);
	struct iovec part = {text, 0};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	CALL(recvmsg(ends[1], &message, MSG_OOB | MSG_PEEK));
	printf("flags %x\n", message.msg_flags);
	part.iov_len = 4;
	CALL(recvmsg(ends[1], &message, MSG_OOB));
	printf("flags %x, %c\n", message.msg_flags, text[0]);
	CALL(recv(ends[1], text, 3, MSG_WAITALL));
	CALL(recv(ends[1], text, 2, MSG_WAITALL));
	printf("%.2s\n", text);

	/* In line the mark stays, and the byte is one of the others. */
	CALL(set(ends[1], SOL_SOCKET, SO_OOBINLINE, 1));
	CALL(send(ends[0], "k!", 2, MSG_OOB));
	await(ends[1], POLLPRI);
	CALL(recv(ends[1], text, 1, MSG_OOB));
	CALL(recv(ends[1], text, sizeof(text), MSG_DONTWAIT));
	CALL(ioctl(ends[1], SIOCATMARK, &mark));
	printf("at the mark: %d\n", mark);
	events("in line it shows", ends[1]);
	CALL(recv(ends[1], text, sizeof(text), MSG_DONTWAIT));
	CALL(ioctl(ends[1], SIOCATMARK, &mark));
	printf("at the mark: %d\n", mark);
	CALL(send(ends[0], "", 0, MSG_OOB));
	events("then it shows", ends[1]);
	CALL(set(ends[1], SOL_SOCKET, SO_OOBINLINE, 0));

	fd_set except;
	FD_ZERO(&except);
	FD_SET(ends[1], &except);
	struct timeval none = {0};
	CALL(send(ends[0], "3", 1, MSG_OOB));
	await(ends[1], POLLPRI);
	CALL(select(ends[1] + 1, NULL, NULL, &except, &none));
	CALL(shutdown(ends[0], SHUT_WR));
	await(ends[1], POLLRDHUP);
	CALL(recv(ends[1], text, 1, MSG_OOB));
	CALL(recv(ends[1], text, 1, MSG_OOB));
	close(ends[0]);
	close(ends[1]);

	/* A connection has what its listener was set to. */
	int fd = listener();
	set(fd, SOL_SOCKET, SO_OOBINLINE, 1);
	ends[0] = connected_to(fd);
	ends[1] = accept(fd, NULL, NULL);
	CALL(get(ends[1], SOL_SOCKET, SO_OOBINLINE));
	CALL(send(ends[0], "!", 1, MSG_OOB));
	await(ends[1], POLLPRI);
	events("what came in line shows", ends[1]);
	CALL(recv(ends[1], text, 1, MSG_OOB));
	CALL(recv(ends[1], text, 1, MSG_DONTWAIT));
	CALL(recv(fd, text, 1, MSG_OOB));
	close(fd);
	close(ends[0]);
	close(ends[1]);
	fd = bound(SOCK_STREAM);
	CALL(recv(fd, text, 1, MSG_OOB));
	CALL(send(fd, "!", 1, MSG_OOB | MSG_NOSIGNAL));
	close(fd);
}

static void descriptors(void)
{
	int ends[2], on = 1;
	char text[8];

	pair(ends);
	int copy = dup(ends[0]);
	int far = fcntl(ends[0], F_DUPFD_CLOEXEC, 300);
	printf("a copy at %d with flags %x\n", far, fcntl(far, F_GETFD));
	CALL(fcntl(copy, F_SETFL, O_NONBLOCK));
	printf("flags %x\n", fcntl(ends[0], F_GETFL));
	close(ends[0]);
	CALL(recv(far, text, 1, 0));
	on = 0;
	CALL(ioctl(far, FIONBIO, &on));
	printf("flags %x\n", fcntl(copy, F_GETFL));
	CALL(send(far, "x", 1, 0));
	CALL(dup2(copy, copy) == copy);
	CALL(dup3(copy, copy, 0));
	CALL(dup2(copy, -1));
	CALL(dup2(999, copy));
	CALL(dup2(copy, 301));
	CALL(send(301, "y", 1, 0));
	close(far);
	close(copy);
	CALL(recv(ends[1], text, 2, MSG_WAITALL));
	CALL(recv(ends[1], text, 1, MSG_DONTWAIT));
	close(301);
	await(ends[1], POLLIN);
	CALL(recv(ends[1], text, 1, MSG_DONTWAIT));
	CALL(close(301));
	CALL(send(301, "x", 1, 0));
	CALL(send(-1, "x", 1, 0));
	CALL(fcntl(ends[1], 9999, 0));
	close(ends[1]);
}

static void epolls(void)
{
	int ends[2], set = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = 42}, out[4];

	pair(ends);
	CALL(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event));
	CALL(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event));
	CALL(epoll_ctl(set, EPOLL_CTL_MOD, ends[1], &event));
	CALL(epoll_ctl(set, EPOLL_CTL_DEL, ends[1], NULL));
	CALL(epoll_ctl(set, 9, ends[0], &event));
	CALL(epoll_ctl(set, EPOLL_CTL_ADD, ends[1], NULL));
	CALL(epoll_ctl(set, EPOLL_CTL_ADD, 999, &event));
	CALL(epoll_ctl(set, EPOLL_CTL_ADD, set, &event));
	CALL(epoll_ctl(ends[0], EPOLL_CTL_ADD, ends[1], &event));
	CALL(epoll_ctl(999, EPOLL_CTL_ADD, ends[1], &event));
	CALL(epoll_wait(set, out, 0, 0));
	CALL(epoll_wait(ends[0], out, 4, 0));
	CALL(epoll_wait(set, out, 4, 0));
	send(ends[1], "x", 1, 0);
	CALL(epoll_wait(set, out, 4, 10000));
	printf("events %x, data %lu\n", out[0].events, (unsigned long)out[0].data.u64);
	CALL(epoll_wait(set, out, 4, 0));
	event.events = EPOLLIN | EPOLLET;
	CALL(epoll_ctl(set, EPOLL_CTL_MOD, ends[0], &event));
	CALL(epoll_wait(set, out, 4, 0));
	CALL(epoll_wait(set, out, 4, 0));
	event.events = EPOLLOUT | EPOLLONESHOT;
	CALL(epoll_ctl(set, EPOLL_CTL_MOD, ends[0], &event));
	CALL(epoll_wait(set, out, 4, 0));
	CALL(epoll_wait(set, out, 4, 0));
	CALL(epoll_ctl(set, EPOLL_CTL_DEL, ends[0], &event));
	CALL(epoll_ctl(set, EPOLL_CTL_DEL, ends[0], &event));
	CALL(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event));
	close(ends[0]);
	CALL(epoll_wait(set, out, 4, 0));
	close(ends[1]);
	close(set);
}

static void selects(void)
{
	int ends[2];
	fd_set in, out;
	struct timeval none = {0, 0}, bad = {-1, 0};

	pair(ends);
	int count = (ends[0] > ends[1] ? ends[0] : ends[1]) + 1;
	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_SET(ends[0], &in);
	FD_SET(ends[0], &out);
	CALL(select(-1, &in, NULL, NULL, &none));
	CALL(select(count, &in, NULL, NULL, &bad));
	CALL(select(count, &in, NULL, NULL, &none));
	FD_SET(ends[0], &in);
	CALL(select(count, &in, &out, NULL, &none));
	send(ends[1], "x", 1, 0);
	FD_SET(ends[0], &in);
	none.tv_sec = 10;
	CALL(select(count, &in, NULL, NULL, &none));
	none.tv_sec = 0;
	FD_SET(ends[0], &out);
	CALL(select(count, &in, &out, NULL, &none));
	FD_SET(count + 50, &in);
	CALL(select(count + 60, &in, NULL, NULL, &none));
	struct pollfd two[2] = {{.fd = count + 50, .events = POLLIN}, {.fd = ends[0], .events = POLLIN}};
	CALL(poll(two, 2, 0));
	printf("%x %x\n", two[0].revents, two[1].revents);
	two[0].fd = -5;
	CALL(poll(two, 2, 0));
	printf("%x %x\n", two[0].revents, two[1].revents);
	struct timespec bad_time = {0, 1000000000};
	CALL(ppoll(two, 2, &bad_time, NULL));
	close(ends[0]);
	close(ends[1]);
}

static void datagram_options(void)
{
	int fd = bound(SOCK_DGRAM);

	OPTION(fd, SOL_SOCKET, SO_REUSEADDR, 1, 0);
	OPTION(fd, SOL_SOCKET, SO_BROADCAST, 1, 0);
	OPTION(fd, SOL_SOCKET, SO_RXQ_OVFL, 1, 0);
	OPTION(fd, SOL_SOCKET, SO_TYPE, 1);
	OPTION(fd, SOL_SOCKET, SO_PROTOCOL, 1);
	OPTION(fd, IPPROTO_UDP, UDP_SEGMENT, 1000, 65535, 65536, -1, 0);
	OPTION(fd, IPPROTO_UDP, UDP_GRO, 1, 0);
	SAY("an option of TCP", set(fd, IPPROTO_TCP, TCP_NODELAY, 1));
	SAY("an option of TCP, asked", get(fd, IPPROTO_TCP, TCP_NODELAY));
	if (self.ss_family == AF_INET) {
		OPTION(fd, IPPROTO_IP, IP_TOS, 0x13, 0);
		OPTION(fd, IPPROTO_IP, IP_PKTINFO, 1, 0);
		OPTION(fd, IPPROTO_IP, IP_RECVTOS, 1, 0);
		OPTION(fd, IPPROTO_IP, IP_RECVTTL, 1, 0);
	} else {
		OPTION(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1, 0);
		OPTION(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1, 0);
		OPTION(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1, 0);
	}
	close(fd);
}

static void datagrams(void)
{
	int one = bound(SOCK_DGRAM), two = bound(SOCK_DGRAM), queued = -7;
	struct sockaddr_storage to = name_of(two), none = to, from;
	socklen_t len = sizeof(from);
	char text[64];
	static char large[70000];

	events("a datagram socket shows", one);
	CALL(send(one, "x", 1, 0));
	CALL(recv(one, text, 1, MSG_DONTWAIT));
	CALL(getpeername(one, (void *)&from, &len));
	CALL(listen(one, 1));
	CALL(accept(one, NULL, NULL));
	CALL(bind(one, (void *)&self, self_len));
	SAY("a datagram that is too long", sendto(one, large, 65508 + (self.ss_family == AF_INET6 ? 20 : 0), 0, (void *)&to, self_len));
	((struct sockaddr_in *)&none)->sin_port = 0;
	SAY("a datagram to port 0", sendto(one, "x", 1, 0, (void *)&none, self_len));
	none = to;
	none.ss_family = AF_UNIX;
	SAY("a datagram to another family", sendto(one, "x", 1, 0, (void *)&none, self_len));
	SAY("a datagram to a short address", sendto(one, "x", 1, 0, (void *)&to, 7));
	if (self.ss_family == AF_INET) {
		none = to;
		((struct sockaddr_in *)&none)->sin_addr.s_addr = INADDR_BROADCAST;
		SAY("a datagram to all on the link", sendto(one, "x", 1, 0, (void *)&none, self_len));
		SAY("connect to all on the link", connect(one, (void *)&none, self_len));
		SAY("SO_BROADCAST", set(one, SOL_SOCKET, SO_BROADCAST, 1));
		SAY("a datagram to all on the link", sendto(one, "x", 1, 0, (void *)&none, self_len));
		SAY("SO_BROADCAST", set(one, SOL_SOCKET, SO_BROADCAST, 0));
	}
	int nowhere = bound(SOCK_DGRAM);
	none = to;
	((struct sockaddr_in *)&none)->sin_port = 0;
	SAY("connect to port 0", connect(nowhere, (void *)&none, self_len));
	len = sizeof(from);
	CALL(getpeername(nowhere, (void *)&from, &len));
	CALL(send(nowhere, "x", 1, 0));
	printf("it shows %x\n", await(nowhere, POLLIN));
	CALL(recv(nowhere, text, 1, MSG_DONTWAIT));
	close(nowhere);
	SAY("a datagram", sendto(one, "hello", 5, 0, (void *)&to, self_len));
	printf("it shows %x\n", await(two, POLLIN));
	CALL(ioctl(two, FIONREAD, &queued));
	printf("%d bytes\n", queued);
	CALL(recv(two, text, 2, MSG_PEEK));
	CALL(recv(two, text, 2, MSG_PEEK | MSG_TRUNC));
	struct iovec part = {text, 2};
	struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &part, .msg_iovlen = 1};
	CALL(recvmsg(two, &message, 0));
	printf("name of %u bytes, flags %x\n", message.msg_namelen, message.msg_flags);
	SAY("an empty datagram", sendto(one, "", 0, 0, (void *)&to, self_len));
	await(two, POLLIN);
	CALL(read(two, text, 0));
	CALL(recv(two, text, sizeof(text), MSG_DONTWAIT));
	CALL(recv(two, text, sizeof(text), MSG_DONTWAIT));
	SAY("connect", connect(one, (void *)&to, self_len));
	len = sizeof(from);
	CALL(getpeername(one, (void *)&from, &len));
	CALL(send(one, "one", 3, 0));
	CALL(write(one, "three", 5));
	await(two, POLLIN);
	struct iovec parts[2] = {{text, 8}, {text + 8, 8}};
	struct mmsghdr many[2] = {{{.msg_iov = parts, .msg_iovlen = 1}, 0}, {{.msg_iov = parts + 1, .msg_iovlen = 1}, 0}};
	CALL(recvmmsg(two, many, 2, 0, NULL));
	printf("%u %u\n", many[0].msg_len, many[1].msg_len);
	CALL(sendmmsg(one, many, 2, 0));
	/* The second may come later than the first, for which the call waits. */
	for (int got = 0; got < 2;) {
		int now = recvmmsg(two, many, 2 - got, MSG_WAITFORONE, NULL);
		if (now < 1)
			die("recvmmsg");
		got += now;
	}
	CALL(recvmmsg(two, many, 2, MSG_DONTWAIT, NULL));
	/* One datagram of several calls; where it goes is said first. */
	static char half[40000];
	int third = bound(SOCK_DGRAM);
	SAY("a part to nobody", send(third, "x", 1, MSG_MORE));
	SAY("a part", sendto(third, "par", 3, MSG_MORE, (void *)&to, self_len));
	SAY("nothing yet", recv(two, text, sizeof(text), MSG_DONTWAIT));
	from = name_of(third);
	SAY("another", sendto(third, "t", 1, MSG_MORE, (void *)&from, self_len));
	SAY("the last", send(third, "s", 1, 0));
	SAY("all of it", recv(two, text, sizeof(text), 0));
	printf("%.5s\n", text);
	SAY("half", sendto(third, half, sizeof(half), MSG_MORE, (void *)&to, self_len));
	SAY("too much", send(third, half, sizeof(half), 0));
	SAY("alone", sendto(third, "z", 1, 0, (void *)&to, self_len));
	SAY("one byte", recv(two, text, sizeof(text), 0));
	close(third);
	close(two);
	SAY("a datagram to nobody", send(one, "x", 1, 0));
	await(one, POLLERR);
	events("the answer shows", one);
	CALL(recv(one, text, 1, MSG_DONTWAIT));
	CALL(recv(one, text, 1, MSG_DONTWAIT));
	struct sockaddr unspecified = {.sa_family = AF_UNSPEC};
	CALL(connect(one, &unspecified, sizeof(unspecified)));
	CALL(send(one, "x", 1, 0));
	close(one);
}

static void forked(void)
{
	int fd = bound(SOCK_STREAM);

	int status;

	errno = 0;
	pid_t pid = fork();
	if (pid == 0)
		_exit(errno);
	line("fork", pid < 0 ? -1 : 0, errno);
	waitpid(pid, &status, 0);
	line("errno of the child", WEXITSTATUS(status), 0);
	close(fd);
}

/* The port that the first sendto gives is the one that the peer sees. */
static void named_by_sending(void)
{
	int to = bound(SOCK_DGRAM), fd = socket(self.ss_family, SOCK_DGRAM, 0);
	struct sockaddr_storage name = name_of(to), from;
	socklen_t len = sizeof(from);
	char byte;

	CALL(((struct sockaddr_in *)(from = name_of(fd), &from))->sin_port);
	CALL(sendto(fd, "x", 1, 0, (void *)&name, self_len));
	name = name_of(fd);
	if (recvfrom(to, &byte, 1, 0, (void *)&from, &len) != 1)
		die("recvfrom");
	CALL(((struct sockaddr_in *)&name)->sin_port == ((struct sockaddr_in *)&from)->sin_port);
	close(to);
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	self_from(argv[1]);
	signal(SIGPIPE, SIG_IGN);
	stream_options();
	structured_options();
	unconnected();
	tried_again();
	closed();
	listening();
	transfers();
	files();
	endings();
	urgent();
	descriptors();
	epolls();
	selects();
	datagram_options();
	datagrams();
	named_by_sending();
	forked();
	return 0;
}
