/* Functions of the C library that replace, open, ask and bind inside of it, over sockets: daemon, login_tty, forkpty, freopen, perror, bindresvport, rresvport. */
#define _GNU_SOURCE
#include "common.h"

#include <pty.h>
#include <utmp.h>
#include <netdb.h>

int bindresvport(int, struct sockaddr_in *);

/* What a peer gets until the end. */
static void tell_peer(const char *what, int fd)
{
	char text[200];
	size_t len = 0;
	ssize_t got;

	while (len < sizeof(text) - 1 && (got = recv(fd, text + len, sizeof(text) - 1 - len, 0)) > 0)
		len += got;
	text[len] = 0;
	for (char *at = text; *at; at++)
		*at = *at == '\n' || *at == '\r' ? '|' : *at;
	printf("%s: peer got \"%s\", then %s\n", what, text, got < 0 ? strerror(errno) : "the end");
	close(fd);
}

/* As an inetd's child: the connection is standard input, output and error. */
static void standard(int ends[2])
{
	for (int fd = 0; fd < 3; fd++)
		dup2(ends[0], fd);
	close(ends[0]);
	close(ends[1]);
}

static void daemons(int stays, int keeps)
{
	int ends[2], told[2];
	char byte;

	pair(ends);
	pipe(told);
	pid_t child = fork();
	if (child == 0) {
		standard(ends);
		write(1, "before|", 7);
		int answer = daemon(stays, keeps);
		dprintf(1, "after %d|", answer);
		fprintf(stderr, "stream|");
		dprintf(told[1], "%d %d", getsid(0) == getpid(), getpgrp() == getpid());
		_exit(0);
	}
	close(ends[0]);
	close(told[1]);
	int state;
	waitpid(child, &state, 0);
	char text[20] = "";
	read(told[0], text, sizeof(text) - 1);
	printf("daemon(%d, %d): %d, leads %s\n", stays, keeps, state, text);
	close(told[0]);
	tell_peer("daemon", ends[1]);
}

static void read_terminal(const char *what, int terminal)
{
	char text[100];
	size_t len = 0;
	ssize_t got;

	while (len < sizeof(text) - 1 && (got = read(terminal, text + len, sizeof(text) - 1 - len)) > 0)
		len += got;
	text[len] = 0;
	printf("%s: the terminal got \"%s\"\n", what, text);
	close(terminal);
}

static void terminals(void)
{
	int ends[2], terminal, other;

	pair(ends);
	openpty(&terminal, &other, NULL, NULL, NULL);
	pid_t child = fork();
	if (child == 0) {
		standard(ends);
		close(terminal);
		login_tty(other);
		write(1, "to the terminal", 15);
		_exit(isatty(0) + isatty(1) + isatty(2));
	}
	close(other);
	close(ends[0]);
	read_terminal("login_tty", terminal);
	int state;
	waitpid(child, &state, 0);
	printf("login_tty: %d terminals\n", WEXITSTATUS(state));
	tell_peer("login_tty", ends[1]);

	pair(ends);
	int saved[3];
	for (int fd = 0; fd < 3; fd++)
		saved[fd] = dup(fd);
	fflush(stdout);
	for (int fd = 0; fd < 3; fd++)
		dup2(ends[0], fd);
	child = forkpty(&terminal, NULL, NULL, NULL);
	if (child == 0) {
		close(ends[0]);
		close(ends[1]);
		write(1, "to the terminal", 15);
		_exit(isatty(0) + isatty(1) + isatty(2));
	}
	write(1, "parent", 6);
	for (int fd = 0; fd < 3; fd++) {
		dup2(saved[fd], fd);
		close(saved[fd]);
	}
	close(ends[0]);
	read_terminal("forkpty", terminal);
	waitpid(child, &state, 0);
	printf("forkpty: %d terminals\n", WEXITSTATUS(state));
	tell_peer("forkpty", ends[1]);
}

static void reopened(void)
{
	int ends[2];
	char path[] = "/tmp/clearway-composed-XXXXXX", text[50] = "";
	int file = mkstemp(path);

	pair(ends);
	int number = ends[0];
	FILE *stream = fdopen(ends[0], "w");
	fputs("to the peer", stream);
	stream = freopen(path, "w", stream);
	printf("freopen: %d, the same number %d\n", stream != NULL, fileno(stream) == number);
	fputs("to the file", stream);
	fflush(stream);
	write(fileno(stream), ", too", 5);
	tell_peer("freopen", ends[1]);
	read(file, text, sizeof(text) - 1);
	printf("freopen: in the file \"%s\"\n", text);
	fclose(stream);

	/* One that fails has closed it. */
	pair(ends);
	stream = fdopen(ends[0], "w");
	stream = freopen("/nowhere/file", "w", stream);
	printf("freopen of nothing: %d %s", stream != NULL, strerror(errno));
	printf(", %s\n", fcntl(ends[0], F_GETFD) < 0 ? strerror(errno) : "open");
	tell_peer("freopen of nothing", ends[1]);

	/* Standard output of an inetd's child becomes a file. */
	pair(ends);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		standard(ends);
		printf("to the peer");
		freopen(path, "w", stdout);
		printf("printed");
		fflush(stdout);
		write(1, ", written", 9);
		fprintf(stderr, ", and more");
		_exit(0);
	}
	waitpid(child, NULL, 0);
	close(ends[0]);
	tell_peer("freopen of stdout", ends[1]);
	ssize_t got = pread(file, text, sizeof(text) - 1, 0);
	text[got > 0 ? got : 0] = 0;
	printf("freopen of stdout: in the file \"%s\"\n", text);
	close(file);
	unlink(path);
}

static void errors(void)
{
	int ends[2];

	pair(ends);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		standard(ends);
		errno = ENOENT;
		perror("what");
		errno = EACCES;
		perror(NULL);
		errno = ECONNRESET;
		perror("");
		_exit(0);
	}
	waitpid(child, NULL, 0);
	close(ends[0]);
	tell_peer("perror", ends[1]);
}

static int port_of(int fd)
{
	struct sockaddr_storage name = name_of(fd);

	return ntohs(((struct sockaddr_in *)&name)->sin_port);
}

static void reserved(void)
{
	int listening = listener();
	struct sockaddr_storage to = name_of(listening), from;
	socklen_t len = sizeof(from);

	if (self.ss_family == AF_INET) {
		struct sockaddr_in own = *(struct sockaddr_in *)&self;
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		printf("bindresvport: %d", bindresvport(fd, &own));
		printf(", it says which %d", ntohs(own.sin_port) == port_of(fd));
		printf(", below 1024 %d, connect %d\n", port_of(fd) < 1024, connect(fd, (void *)&to, self_len));
		close(accept(listening, NULL, NULL));
		close(fd);
		fd = socket(AF_INET, SOCK_STREAM, 0);
		printf("bindresvport to any: %d", bindresvport(fd, NULL));
		printf(", connect %d", connect(fd, (void *)&to, self_len));
		int came = accept(listening, (void *)&from, &len);
		printf(", came from below 1024 %d\n", ntohs(((struct sockaddr_in *)&from)->sin_port) < 1024);
		close(came);
		close(fd);
		own.sin_family = AF_INET6;
		fd = socket(AF_INET, SOCK_STREAM, 0);
		printf("bindresvport of IPv6: %d", bindresvport(fd, &own));
		printf(" %s\n", strerror(errno));
		close(fd);
		printf("bindresvport of nothing: %d", bindresvport(-1, NULL));
		printf(" %s\n", strerror(errno));
	}
	int port = 1023, before;
	int fd = rresvport_af(&port, self.ss_family);
	printf("rresvport_af: %d, below 1024 %d, it says which %d", fd >= 0, port < 1024, port == port_of(fd));
	printf(", connect %d", connect(fd, (void *)&to, self_len));
	len = sizeof(from);
	int came = accept(listening, (void *)&from, &len);
	printf(", came from there %d\n", ntohs(((struct sockaddr_in *)&from)->sin_port) == port);
	before = port;
	int second = rresvport_af(&port, self.ss_family);
	printf("rresvport_af again: %d, another %d\n", second >= 0, port != before);
	close(second);
	close(came);
	close(fd);
	port = 5;
	fd = rresvport_af(&port, AF_UNIX);
	printf("rresvport_af of no family: %d %s\n", fd, strerror(errno));
	close(listening);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	self_from(argv[1]);
	signal(SIGPIPE, SIG_IGN);
	daemons(0, 0);
	daemons(1, 1);
	terminals();
	reopened();
	errors();
	reserved();
	return 0;
}
