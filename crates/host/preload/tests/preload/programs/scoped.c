/* Link-local addresses of IPv6: which interface they are on stands beside them. */
#include "common.h"

#include <net/if.h>
#include <netdb.h>

static const char *on(const struct sockaddr_in6 *at)
{
	static char name[IF_NAMESIZE];

	return if_indextoname(at->sin6_scope_id, name) ? name : "none";
}

static void say(const char *what, const struct sockaddr_in6 *at)
{
	char text[64];

	inet_ntop(AF_INET6, &at->sin6_addr, text, sizeof(text));
	printf("%s%s, on %s\n", what, text, on(at));
}

int main(int argc, char **argv)
{
	struct addrinfo hints = {.ai_family = AF_INET6, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *found;
	struct sockaddr_in6 at, name;
	socklen_t len = sizeof(name);
	char text[16];

	if (argc != 2)
		return 2;
	alarm(TIME_LIMIT_S);
	int error = getaddrinfo(argv[1], NULL, &hints, &found);
	if (error) {
		printf("getaddrinfo: %s\n", gai_strerror(error));
		return 1;
	}
	memcpy(&at, found->ai_addr, sizeof(at));
	freeaddrinfo(found);
	printf("getaddrinfo: 0, on %s\n", on(&at));
	int listening = socket(AF_INET6, SOCK_STREAM, 0);
	if (bind(listening, (void *)&at, sizeof(at)) || listen(listening, 4) || getsockname(listening, (void *)&name, &len))
		die("bind");
	printf("bound: on %s\n", on(&name));
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	printf("connected: %d", connect(fd, (void *)&name, sizeof(name)));
	getsockname(fd, (void *)&name, &len);
	say(" from ", &name);
	getpeername(fd, (void *)&name, &len);
	say("to ", &name);
	if (accept(listening, (void *)&name, &len) < 0)
		die("accept");
	say("accepted from ", &name);
	int one = socket(AF_INET6, SOCK_DGRAM, 0), other = socket(AF_INET6, SOCK_DGRAM, 0);
	at.sin6_port = 0;
	if (bind(one, (void *)&at, sizeof(at)) || getsockname(one, (void *)&name, &len))
		die("bind");
	printf("sent: %zd", sendto(other, "hello", 5, 0, (void *)&name, sizeof(name)));
	printf(", came %zd", recvfrom(one, text, sizeof(text), 0, (void *)&name, &len));
	say(" from ", &name);
	printf("answered: %zd", sendto(one, "answer", 6, 0, (void *)&name, sizeof(name)));
	printf(", came %zd\n", recv(other, text, sizeof(text), 0));
	/* An index that nobody has. */
	int wrong = socket(AF_INET6, SOCK_DGRAM, 0);
	name.sin6_scope_id = 1000099;
	error = sendto(wrong, "x", 1, 0, (void *)&name, sizeof(name)) < 0 ? errno : 0;
	if (!error) {
		usleep(100000);
		len = sizeof(error);
		getsockopt(wrong, SOL_SOCKET, SO_ERROR, &error, &len);
	}
	printf("to nobody's interface: %s\n", error == ENODEV || error == ENETUNREACH ? "ENODEV or ENETUNREACH" : error ? strerrorname_np(error) : "sent");
	return 0;
}
