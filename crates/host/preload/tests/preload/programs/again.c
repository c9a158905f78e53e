/* Sockets that are used for something else afterwards: listeners that were shut. */
#include "common.h"

static const char *word(long result)
{
	static char texts[4][16];
	static int next;
	char *text = texts[next++ % 4];

	snprintf(text, 16, "%ld", result);
	return result < 0 ? strerrorname_np(errno) : text;
}

static int number(int fd, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	getsockopt(fd, SOL_SOCKET, name, &value, &len);
	return value;
}

/* A connection to it is there, and carries a byte. */
static void serves(int listening)
{
	int client = connected_to(listening), server = accept(listening, NULL, NULL);
	char byte = 0;

	send(client, "x", 1, 0);
	printf(", serves: %s", word(recv(server, &byte, 1, 0)));
	close(client);
	close(server);
}

static void shut_listeners(void)
{
	for (int how = SHUT_RD; how <= SHUT_RDWR; how++)
		for (int what = 0; what < 7; what++) {
			int fd = listener(), waiting = -5, other = listener();
			struct sockaddr_storage name = name_of(fd), to = name_of(other);
			char byte;
			long result = shutdown(fd, how);

			printf("shutdown %d of a listener: %s", how, word(result));
			switch (what) {
			case 0:
				printf(", listens: %d", number(fd, SO_ACCEPTCONN));
				break;
			case 1:
				printf(", recv %s", word(recv(fd, &byte, 1, MSG_DONTWAIT)));
				break;
			case 2:
				result = ioctl(fd, FIONREAD, &waiting);
				printf(", FIONREAD %s, %d", word(result), result ? 0 : waiting);
				break;
			case 3:
				printf(", once more %s", word(shutdown(fd, how)));
				break;
			case 4:
				if (how == SHUT_WR)
					break;
				printf(", connect %s", word(connect(fd, (void *)&to, self_len)));
				printf(", send %s", word(send(fd, "x", 1, 0)));
				break;
			case 5:
				printf(", listen %s", word(listen(fd, 4)));
				serves(fd);
				break;
			case 6:
				if (how == SHUT_WR)
					break;
				result = connect(socket(self.ss_family, SOCK_STREAM, 0), (void *)&name, self_len);
				printf(", who connects: %s", word(result));
			}
			printf("\n");
			close(fd);
			close(other);
		}
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	self_from(argv[1]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	shut_listeners();
	return 0;
}
