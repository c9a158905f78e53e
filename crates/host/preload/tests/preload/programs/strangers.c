/* A socket that is handed to a process of another program: over Clearway such a one cannot have it, and is told so as when a descriptor has no place. */
#include "common.h"

static char self_text[64];

static void pass(int channel, int fd, int beside)
{
	char byte = 'f', space[CMSG_SPACE(2 * sizeof(int))] = {0};
	int both[2] = {fd, beside}, count = beside < 0 ? 1 : 2;
	struct iovec vector = {&byte, 1};
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = space, .msg_controllen = CMSG_SPACE(count * sizeof(int))};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(head), both, count * sizeof(int));
	if (sendmsg(channel, &message, 0) != 1)
		die("sendmsg");
}

/* Descriptors of the next message; the last of them in `fd`. */
static int receive(int channel, int *fd, int *flags)
{
	char byte, space[CMSG_SPACE(4 * sizeof(int))];
	struct iovec vector = {&byte, 1};
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)};
	int count = 0;

	if (recvmsg(channel, &message, 0) != 1)
		die("recvmsg");
	*flags = message.msg_flags;
	for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
		count += (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		if (count)
			memcpy(fd, CMSG_DATA(head) + (count - 1) * sizeof(int), sizeof(int));
	}
	return count;
}

/* The other process: of a program of its own only when it has had a socket before. */
static int other(int channel, int has_sockets)
{
	int fd = -1, flags, own = has_sockets ? bound(SOCK_DGRAM) : -1, count = receive(channel, &fd, &flags);
	char text[8];

	if (!has_sockets) {
		printf("in a process of no program: %d descriptors\n", count);
		fflush(stdout);
		ssize_t len = recv(fd, text, sizeof(text), 0);
		return send(fd, text, len, 0) == len ? 0 : 1;
	}
	printf("in a process of another: %d descriptors, MSG_CTRUNC %d", count, (flags & MSG_CTRUNC) != 0);
	count = receive(channel, &fd, &flags);
	printf(", beside them %d\n", count);
	printf("of the kernel's beside it: %s\n", count == 1 && write(fd, "x", 1) == 1 ? "yes" : "no");
	fflush(stdout);
	close(own);
	return 0;
}

static void hand(int has_sockets)
{
	int channel[2], ends[2], kernels[2];
	char number[16], text[8] = "";

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, channel) || pipe(kernels))
		die("socketpair");
	snprintf(number, sizeof(number), "%d", channel[1]);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		/* Nothing of ours goes along, so this is a program by itself. */
		execl("/proc/self/exe", "strangers", self_text, number, has_sockets ? "1" : "0", (char *)NULL);
		_exit(127);
	}
	pair(ends);
	pass(channel[0], ends[1], -1);
	if (has_sockets)
		pass(channel[0], ends[1], kernels[1]);
	close(ends[1]);
	if (!has_sockets) {
		if (send(ends[0], "hello", 5, 0) != 5)
			die("send");
		printf("the answer: %zd", recv(ends[0], text, 5, MSG_WAITALL));
		printf(" %s\n", text);
	}
	waitpid(pid, NULL, 0);
	if (has_sockets)
		printf("the peer: %zd\n", recv(ends[0], text, 1, 0));
	close(ends[0]);
	close(channel[0]);
	close(channel[1]);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	self_from(argv[1]);
	snprintf(self_text, sizeof(self_text), "%s", argv[1]);
	if (argc == 4)
		return other(atoi(argv[2]), atoi(argv[3]));
	hand(0);
	hand(1);
	return 0;
}
