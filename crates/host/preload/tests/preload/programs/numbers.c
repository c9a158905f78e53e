/* A program that names its system calls by number, for all it does with sockets. */
#include "common.h"

#include <sys/syscall.h>

static void say(const char *what, long answer)
{
	printf("%s: %ld %s\n", what, answer, answer < 0 ? strerrorname_np(errno) : "");
}

static void streams(void)
{
	struct sockaddr_storage name = self;
	socklen_t len = sizeof(name);
	char text[32] = "";
	struct iovec part = {text, sizeof(text) - 1};
	struct pollfd one = {.events = POLLIN};
	struct timespec second = {5, 0};
	int listening, ends[2], on = 1, got = 0;

	listening = syscall(SYS_socket, self.ss_family, SOCK_STREAM, 0);
	say("setsockopt", syscall(SYS_setsockopt, listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
	say("bind", syscall(SYS_bind, listening, &self, self_len));
	say("listen", syscall(SYS_listen, listening, 5));
	say("getsockname", syscall(SYS_getsockname, listening, &name, &len));
	ends[0] = syscall(SYS_socket, self.ss_family, SOCK_STREAM, 0);
	say("connect", syscall(SYS_connect, ends[0], &name, self_len));
	ends[1] = syscall(SYS_accept4, listening, NULL, NULL, SOCK_CLOEXEC);
	printf("close-on-exec: %ld\n", syscall(SYS_fcntl, ends[1], F_GETFD, 0));
	say("write", syscall(SYS_write, ends[0], "by number", 9));
	one.fd = ends[1];
	say("ppoll", syscall(SYS_ppoll, &one, 1, &second, NULL, 8));
	say("ioctl", syscall(SYS_ioctl, ends[1], FIONREAD, &got));
	printf("waiting: %d\n", got);
	say("read", syscall(SYS_read, ends[1], text, sizeof(text) - 1));
	printf("text: %s\n", text);
	say("writev", syscall(SYS_writev, ends[1], &(struct iovec){"vectors", 7}, 1));
	say("readv", syscall(SYS_readv, ends[0], &part, 1));
	printf("text: %.7s\n", text);
	say("preadv2", syscall(SYS_preadv2, ends[0], &part, 1, -1L, 0L, 8 /* RWF_NOWAIT */));
	say("pwritev2", pwritev2(ends[0], &(struct iovec){"more", 4}, 1, -1, 0));
	say("at an offset", pwritev2(ends[0], &(struct iovec){"more", 4}, 1, 3, 0));
	say("recvfrom", syscall(SYS_recvfrom, ends[1], text, sizeof(text), 0, NULL, NULL));
	say("dup3", syscall(SYS_dup3, ends[0], 77, 0));
	say("sendto", syscall(SYS_sendto, 77, "copy", 4, MSG_NOSIGNAL, NULL, 0));
	say("recvfrom", syscall(SYS_recvfrom, ends[1], text, sizeof(text), 0, NULL, NULL));
	say("shutdown", syscall(SYS_shutdown, 77, SHUT_WR));
	say("at the end", syscall(SYS_read, ends[1], text, sizeof(text)));
	say("close", syscall(SYS_close, 77));
	say("close", syscall(SYS_close, ends[0]));
	say("close again", syscall(SYS_close, ends[0]));
	say("close_range", syscall(SYS_close_range, ends[1], ends[1], 0));
	say("after it", syscall(SYS_write, ends[1], "x", 1));
}

static void datagrams(void)
{
	int from = bound(SOCK_DGRAM), to = bound(SOCK_DGRAM), set = syscall(SYS_epoll_create1, 0);
	struct sockaddr_storage name = name_of(to);
	struct iovec parts[3] = {{"one", 3}, {"three", 5}, {"four four", 9}};
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = 5};
	struct mmsghdr messages[3] = {};
	struct timespec second = {5, 0};
	char room[3][16];

	for (int i = 0; i < 3; i++)
		messages[i].msg_hdr = (struct msghdr){.msg_name = &name, .msg_namelen = self_len, .msg_iov = &parts[i], .msg_iovlen = 1};
	say("sendmmsg", syscall(SYS_sendmmsg, from, messages, 3, 0));
	say("epoll_ctl", syscall(SYS_epoll_ctl, set, EPOLL_CTL_ADD, to, &event));
	say("epoll_pwait", syscall(SYS_epoll_pwait, set, &event, 1, 5000, NULL, 8));
	for (int i = 0; i < 3; i++) {
		parts[i] = (struct iovec){room[i], sizeof(room[i])};
		messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
	}
	say("recvmmsg", syscall(SYS_recvmmsg, to, messages, 3, 0, &second));
	for (int i = 0; i < 3; i++)
		printf("%u bytes: %.*s\n", messages[i].msg_len, messages[i].msg_len, room[i]);
	parts[0] = (struct iovec){"last", 4};
	messages[0].msg_hdr = (struct msghdr){.msg_name = &name, .msg_namelen = self_len, .msg_iov = parts, .msg_iovlen = 1};
	say("sendmsg", syscall(SYS_sendmsg, from, &messages[0].msg_hdr, 0));
	parts[0] = (struct iovec){room[0], sizeof(room[0])};
	say("recvmsg", syscall(SYS_recvmsg, to, &messages[0].msg_hdr, 0));
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	self_from(argv[1]);
	streams();
	datagrams();
	return 0;
}
