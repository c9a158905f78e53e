/* Sockets that are used for something else afterwards: listeners that were shut, and attempts to connect that failed. */
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

static unsigned short port_of(struct sockaddr_storage name)
{
	return ((struct sockaddr_in *)&name)->sin_port;
}

/* A connection to it is there, and carries a byte. */
static void serves(int listening)
{
	/* It may be bound to no address. */
	struct sockaddr_storage name = name_of(listening), to = self;
	int client = socket(self.ss_family, SOCK_STREAM, 0), server;
	char byte = 0;

	((struct sockaddr_in *)&to)->sin_port = port_of(name);
	if (connect(client, (void *)&to, self_len))
		die("connect");
	server = accept(listening, NULL, NULL);
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

/* Nobody listens there. */
static struct sockaddr_storage nowhere(void)
{
	int fd = listener();
	struct sockaddr_storage name = name_of(fd);

	close(fd);
	return name;
}

/* After attempts that were refused, blocking or not, from a port that was asked for or not. */
static void attempts(void)
{
	struct sockaddr_storage nobody = nowhere();

	for (int is_bound = 0; is_bound < 2; is_bound++)
		for (int is_blocking = 0; is_blocking < 2; is_blocking++)
			for (int what = 0; what < 5; what++) {
				int fd = socket(self.ss_family, SOCK_STREAM, 0), other = listener();
				struct sockaddr_storage before = nowhere(), name = nowhere(), to = name_of(other);

				while (is_bound && bind(fd, (void *)&before, self_len))
					before = nowhere();
				if (!is_blocking)
					fcntl(fd, F_SETFL, O_NONBLOCK);
				printf("refused, bound %d, blocking %d: %s", is_bound, is_blocking, word(connect(fd, (void *)&nobody, self_len)));
				if (!is_blocking) {
					await(fd, POLLOUT);
					printf(", then %s", word(connect(fd, (void *)&nobody, self_len)));
				}
				fcntl(fd, F_SETFL, 0);
				switch (what) {
				case 0:
					if (is_bound)
						break;
					printf(", bind %s", word(bind(fd, (void *)&name, self_len)));
					printf(", at that port %d", port_of(name_of(fd)) == port_of(name));
					printf(", once more %s", word(bind(fd, (void *)&self, self_len)));
					break;
				case 1:
					printf(", listen %s", word(listen(fd, 4)));
					printf(", its port %d", !is_bound || port_of(name_of(fd)) == port_of(before));
					serves(fd);
					break;
				case 2:
					if (is_bound)
						break;
					printf(", bind %s", word(bind(fd, (void *)&name, self_len)));
					printf(", listen %s", word(listen(fd, 4)));
					serves(fd);
					break;
				case 3:
					if (is_bound)
						break;
					printf(", bind %s", word(bind(fd, (void *)&name, self_len)));
					printf(", connect %s", word(connect(fd, (void *)&to, self_len)));
					printf(", from there %d, send %s", port_of(name_of(fd)) == port_of(name), word(send(fd, "x", 1, 0)));
					break;
				case 4:
					printf(", connect %s", word(connect(fd, (void *)&to, self_len)));
					printf(", send %s, bind %s", word(send(fd, "x", 1, 0)), word(bind(fd, (void *)&name, self_len)));
					printf(", listen %s", word(listen(fd, 4)));
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
	attempts();
	return 0;
}
