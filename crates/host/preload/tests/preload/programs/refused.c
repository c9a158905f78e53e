/* What happens to sockets when the host lets nobody in. */
#include "common.h"

static void say(const char *what, int result)
{
	if (result < 0)
		printf("%s: %s\n", what, strerrorname_np(errno));
	else
		printf("%s: %d\n", what, result);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	self_from(argv[1]);
	struct sockaddr_in to = *(struct sockaddr_in *)&self;
	to.sin_port = htons(9);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	say("connect", connect(fd, (void *)&to, sizeof(to)));
	close(fd);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	to.sin_port = 0;
	say("bind", bind(fd, (void *)&to, sizeof(to)));
	close(fd);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	say("the kernel's loopback", bind(fd, (void *)&to, sizeof(to)));
	return 0;
}
