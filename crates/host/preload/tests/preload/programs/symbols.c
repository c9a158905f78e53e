/* Functions that a program looks up in the C library itself, by its handle or by that of a library that has it, and calls with sockets. */
#define _GNU_SOURCE
#include "common.h"

#include <dlfcn.h>

/* This program's own, which no library has. */
__attribute__((visibility("default"))) int of_the_program(void)
{
	return 1;
}

static void *library;

static void *function(const char *name)
{
	void *found = dlsym(library, name);

	if (!found)
		printf("no %s: %s\n", name, dlerror());
	return found;
}

static void look(const char *which)
{
	int (*new_socket)(int, int, int) = function("socket");
	int (*binds)(int, const void *, socklen_t) = function("bind");
	int (*listens)(int, int) = function("listen");
	int (*names)(int, void *, socklen_t *) = function("getsockname");
	int (*connects)(int, const void *, socklen_t) = function("connect");
	int (*accepts)(int, void *, socklen_t *) = function("accept");
	ssize_t (*sends)(int, const void *, size_t, int) = function("send");
	ssize_t (*receives)(int, void *, size_t, int) = function("recv");
	ssize_t (*writes)(int, const void *, size_t) = function("write");
	ssize_t (*reads)(int, void *, size_t) = function("read");
	int (*polls)(struct pollfd *, nfds_t, int) = function("poll");
	int (*closes)(int) = function("close");
	struct sockaddr_storage name;
	socklen_t len = sizeof(name);
	char text[20] = "";

	int listening = new_socket(self.ss_family, SOCK_STREAM, 0);
	printf("%s: bind %d", which, binds(listening, &self, self_len));
	printf(", listen %d", listens(listening, 5));
	printf(", getsockname %d", names(listening, &name, &len));
	int client = new_socket(self.ss_family, SOCK_STREAM, 0);
	printf(", connect %d", connects(client, &name, self_len));
	int server = accepts(listening, NULL, NULL);
	printf(", send %zd", sends(client, "hello", 5, 0));
	struct pollfd polled = {.fd = server, .events = POLLIN};
	printf(", poll %d", polls(&polled, 1, 10000));
	printf(", recv %zd %s", receives(server, text, sizeof(text), 0), text);
	printf(", write %zd", writes(server, "back", 4));
	printf(", read %zd", reads(client, text, sizeof(text)));
	printf(", close %d", closes(client));
	printf(", read the end %zd", reads(server, text, sizeof(text)));
	closes(server);
	/* What comes under the number is no socket. */
	int file = open("/dev/zero", O_RDWR);
	printf(", a file %zd\n", writes(file, "file", 4));
	closes(file);
	closes(listening);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	self_from(argv[1]);
	signal(SIGPIPE, SIG_IGN);
	library = dlopen("libc.so.6", RTLD_NOW);
	look("the C library");
	library = dlopen("libm.so.6", RTLD_NOW);
	look("a library that needs it");
	library = dlopen(NULL, RTLD_NOW);
	look("the program");
	library = RTLD_DEFAULT;
	look("everywhere");
	library = RTLD_NEXT;
	look("behind the program");

	/* What it is not asked about is as it was. */
	library = dlopen("libc.so.6", RTLD_NOW);
	dlerror();
	printf("strlen %d", ((size_t (*)(const char *))dlsym(library, "strlen"))("four") == 4);
	printf(", error %d", dlerror() != NULL);
	printf(", the program's there %d", dlsym(library, "of_the_program") != NULL);
	printf(", error %d", dlerror() != NULL);
	printf(", nothing %d", dlsym(library, "no_such_function") != NULL);
	char *why = dlerror();
	printf(", error %d", why && strstr(why, "no_such_function"));
	printf(", connect %d", dlsym(library, "connect") != NULL);
	printf(", error %d", dlerror() != NULL);
	printf(", version %d", dlvsym(library, "connect", "GLIBC_2.2.5") != NULL || dlvsym(library, "connect", "GLIBC_2.17") != NULL);
	library = dlopen("libm.so.6", RTLD_NOW);
	printf(", cos %d", ((double (*)(double))dlsym(library, "cos"))(0) == 1);
	int (*own)(void) = dlsym(RTLD_DEFAULT, "of_the_program");
	printf(", the program's everywhere %d\n", own ? own() : -1);
	return 0;
}
