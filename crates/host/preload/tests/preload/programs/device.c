/* SO_BINDTODEVICE: sockets that are bound to an interface by its name, which is the argument. */
#include "common.h"

#include <net/if.h>

static const char *device;

static void bind_to(int fd, const char *name)
{
	int answer = setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, strlen(name));

	printf("set: %d %s\n", answer, answer ? strerrorname_np(errno) : "");
}

static void told(int fd)
{
	char name[IFNAMSIZ] = "";
	socklen_t len = sizeof(name);
	int answer = getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, &len);

	printf("told: %d, %s\n", answer, len == 0 ? "none" : strcmp(name, device) == 0 && len == strlen(device) + 1 ? "the device" : name);
}

/* Streams and datagrams over wildcard addresses, where the device alone says whose they are. */
static void over(int kind)
{
	struct sockaddr_in any = {.sin_family = AF_INET}, to = self.ss_family ? *(struct sockaddr_in *)&self : any;
	socklen_t len = sizeof(any);
	int server = socket(AF_INET, kind, 0), client = socket(AF_INET, kind, 0), other = server;
	char byte = 0;

	bind_to(server, device);
	bind_to(client, device);
	if (bind(server, (void *)&any, sizeof(any)) || (kind == SOCK_STREAM && listen(server, 4)) || getsockname(server, (void *)&any, &len))
		die("bind");
	told(server);
	to.sin_port = any.sin_port;
	if (connect(client, (void *)&to, sizeof(to)))
		die("connect");
	told(client);
	if (kind == SOCK_STREAM && (other = accept(server, NULL, NULL)) < 0)
		die("accept");
	printf("sent: %zd\n", send(client, "x", 1, 0));
	printf("came: %zd\n", recv(other, &byte, 1, 0));
	told(other);
	close(client);
	close(server);
	if (other != server)
		close(other);
}

int main(int argc, char **argv)
{
	int fd;

	if (argc != 2)
		return 2;
	device = argv[1];
	self_from(strcmp(device, "lo") ? "172.16.1.1" : "127.0.0.1");
	over(SOCK_STREAM);
	over(SOCK_DGRAM);
	fd = bound(SOCK_DGRAM);
	bind_to(fd, "no such device");
	told(fd);
	bind_to(fd, device);
	told(fd);
	bind_to(fd, "");
	told(fd);
	close(fd);
	return 0;
}
