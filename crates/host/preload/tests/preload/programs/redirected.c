/* Connections that are put in the place of a program's standard streams, and taken away again; and a shell with /dev/tcp. */
#include "common.h"
#include <locale.h>
#include <stdarg.h>
#include <wchar.h>

/* Prints, from a connection's other end, what came until it ended. */
static void print_rest(int fd)
{
	char text[4096];
	ssize_t len;

	while ((len = read(fd, text, sizeof(text))) > 0)
		fwrite(text, 1, len, stdout);
	printf("-- %s\n", len ? strerrorname_np(errno) : "end");
}

/* Wide letters, as rev and column read and write them. */
static void in_wide_letters(void)
{
	int ends[2], saved = dup(0), other;
	wchar_t line[64];
	FILE *stream;

	setlocale(LC_ALL, "C.UTF-8");
	pair(ends);
	fflush(stdout);
	if (dup2(ends[0], 0) < 0 || write(ends[1], "gr\xc3\xbc\xc3\x9f\nnext\nlast", 16) != 16)
		die("write");
	shutdown(ends[1], SHUT_WR);
	printf("heard: %d letters\n", fgetws(line, 64, stdin) ? (int)wcslen(line) : -1);
	printf("one: %d\n", line[2] == 0xfc);
	for (wint_t letter; (letter = fgetwc(stdin)) != WEOF;)
		printf("%x ", letter);
	printf("at the end: %d\n", feof(stdin) != 0);
	other = dup(ends[0]);
	stream = fdopen(other, "w");
	printf("fwprintf: %d\n", fwprintf(stream, L"%lc%lc of a stream of its own\n", 0xe4, 0x20ac));
	printf("closed: %d\n", fclose(stream));
	dup2(saved, 0);
	close(saved);
	shutdown(ends[0], SHUT_WR);
	print_rest(ends[1]);
	close(ends[0]);
	close(ends[1]);
}

/* What a program that knows only its standard streams says and hears meanwhile. */
static void in_the_place_of_output(void)
{
	int ends[2], saved;

	pair(ends);
	fflush(stdout);
	saved = dup(1);
	printf("buffered before, ");
	dup2(ends[0], 1);
	printf("printed %d\n", 1);
	puts("put");
	putchar('c');
	putchar('\n');
	fwrite("written\n", 1, 8, stdout);
	printf("descriptor %d\n", fileno(stdout));
	fflush(stdout);
	printf("and left over\n");
	dup2(saved, 1);
	printf("after it\n");
	fflush(stdout);
	dup2(ends[0], 1);
	printf("a second time\n");
	fflush(stdout);
	dup2(saved, 1);
	close(saved);
	shutdown(ends[0], SHUT_WR);
	print_rest(ends[1]);
	close(ends[0]);
	close(ends[1]);
}

static void in_the_place_of_input(void)
{
	int ends[2], saved = dup(0);
	char line[64];

	pair(ends);
	close(0);
	printf("the lowest: %d\n", dup(ends[0]));
	if (write(ends[1], "a line\nanother\n", 15) != 15)
		die("write");
	shutdown(ends[1], SHUT_WR);
	while (fgets(line, sizeof(line), stdin))
		printf("heard: %s", line);
	printf("at the end: %d\n", feof(stdin) != 0);
	dup2(saved, 0);
	clearerr(stdin);
	printf("nothing: %d\n", getchar());
	close(ends[0]);
	close(ends[1]);
}

int __dprintf_chk(int, int, const char *, ...);

static int formatted(int fd, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	int len = vdprintf(fd, format, args);
	va_end(args);
	return len;
}

/* Streams that were opened over something else than the connection that stands behind their descriptor later, and what writes to a descriptor without a stream of the program's. */
static void in_the_place_of_any_stream(void)
{
	int ends[2], number;
	char line[64], long_line[20001];
	FILE *out = fopen("/dev/null", "w"), *both = fopen("/dev/null", "r+"), *wide = fopen("/dev/null", "w");

	pair(ends);
	if (!out || !both || !wide || dup2(ends[0], fileno(out)) < 0 || dup2(ends[0], fileno(both)) < 0 || dup2(ends[0], fileno(wide)) < 0)
		die("dup2");
	printf("fprintf: %d\n", fprintf(out, "by a stream that was there %d\n", 1));
	printf("flushed: %d\n", fflush(out));
	printf("dprintf: %d\n", dprintf(ends[0], "by dprintf %s %.2f %d %d %d %d\n", "with", 2.5, 1, 2, 3, 4));
	printf("vdprintf: %d\n", formatted(ends[0], "by vdprintf %d\n", 5));
	printf("of many numbers: %d\n", dprintf(ends[0], "%g %d %g %d %g %d %g %d %g %d %g %d %g %d %g %d %g %d %g %d %s\n", 1.5, 1, 2.5, 2, 3.5, 3, 4.5, 4, 5.5, 5, 6.5, 6, 7.5, 7, 8.5, 8, 9.5, 9, 10.5, 10, "all"));
	printf("checked: %d\n", __dprintf_chk(ends[0], 1, "%d %g %s %d %d %d %d\n", 1, 2.5, "three", 4, 5, 6, 7));
	printf("long: %d\n", dprintf(ends[0], "%1100d %s\n", 5, "and on"));
	int null = open("/dev/null", O_WRONLY);
	printf("a file: %d %d\n", dprintf(null, "%d %g\n", 1, 2.5), __dprintf_chk(null, 1, "%s %g\n", "one", 2.5));
	close(null);
#if !defined(STATIC) || !__GLIBC_PREREQ(2, 37)
	/* Linked statically newer ones end there: they have left out what makes the buffer. */
	printf("fwprintf: %d\n", fwprintf(wide, L"in wide letters %d\n", 6));
#endif
	printf("flushed: %d\n", fflush(wide));
	memset(long_line, 'x', sizeof(long_line) - 1);
	long_line[sizeof(long_line) - 2] = '\n';
	long_line[sizeof(long_line) - 1] = 0;
	printf("fputs: %d\n", fputs(long_line, out) >= 0);
	printf("flushed: %d\n", fflush(out));
	if (write(ends[1], "a line\nanother\n", 15) != 15)
		die("write");
	for (int i = 0; i < 2; i++)
		printf("heard: %s", fgets(line, sizeof(line), both) ? line : "nothing\n");
	fputs("and by the same one\n", both);
	printf("closed: %d\n", fclose(both));
	number = fileno(wide);
	printf("closed: %d\n", fclose(wide));
	printf("its descriptor: %d\n", fcntl(number, F_GETFD));
	close(ends[0]);
	fputs("the last words\n", out);
	printf("closed: %d\n", fclose(out));
	print_rest(ends[1]);
	close(ends[1]);
}

/* What a stream says of a connection that is gone. */
static void of_a_connection_that_is_gone(void)
{
	int ends[2];
	FILE *out = fopen("/dev/null", "w");
	struct linger at_once = {1, 0};

	signal(SIGPIPE, SIG_IGN);
	pair(ends);
	if (!out || dup2(ends[0], fileno(out)) < 0)
		die("dup2");
	setsockopt(ends[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(ends[1]);
	await(ends[0], POLLIN);
	ssize_t got = read(ends[0], &at_once, 1);
	printf("read: %zd %s\n", got, strerrorname_np(errno));
	fputs("nobody hears this\n", out);
	int flushed = fflush(out);
	printf("flushed: %d %s, error: %d\n", flushed, strerrorname_np(errno), ferror(out) != 0);
	int printed = dprintf(ends[0], "nor this");
	printf("dprintf: %d %s\n", printed, strerrorname_np(errno));
	close(ends[0]);
	fclose(out);
	signal(SIGPIPE, SIG_DFL);
}

/* A stream that was there before its socket had an address. */
static void before_the_address(void)
{
	int listening = listener(), fd = socket(self.ss_family, SOCK_STREAM, 0), other;
	struct sockaddr_storage to = name_of(listening);
	FILE *stream = fdopen(fd, "r+");

	if (connect(fd, (void *)&to, self_len) || (other = accept(listening, NULL, NULL)) < 0)
		die("connect");
	fprintf(stream, "by a stream of before\n");
	printf("closed: %d\n", fclose(stream));
	print_rest(other);
	close(other);
	close(listening);
}

/* Runs a script with a connection's address, and answers as a server that speaks first and last. */
static void scripted(const char *program, const char *text, const char *script)
{
	int listening = listener(), fd, status;
	struct sockaddr_storage name = name_of(listening);
	char port[8], line[256] = "";
	pid_t pid;

	snprintf(port, sizeof(port), "%d", ntohs(((struct sockaddr_in *)&name)->sin_port));
	fflush(stdout);
	if ((pid = fork()) == 0) {
		close(listening);
		if (strcmp(program, "bash") == 0)
			execlp(program, program, "-c", script, program, text, port, NULL);
		else
			execlp(program, program, strcmp(program, "perl") ? "-c" : "-e", script, text, port, NULL);
		_exit(127);
	}
	fd = accept(listening, NULL, NULL);
	if (fd < 0)
		die("accept");
	if (write(fd, "welcome\n", 8) != 8)
		die("write");
	for (size_t at = 0; at < sizeof(line) - 1 && read(fd, line + at, 1) == 1 && line[at] != '\n'; at++)
		;
	printf("it said: %s", line);
	if (write(fd, "one\ntwo\nthree\n", 14) != 14)
		die("write");
	shutdown(fd, SHUT_WR);
	print_rest(fd);
	waitpid(pid, &status, 0);
	printf("exit %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
	close(fd);
	close(listening);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	self_from(argv[1]);
	/* A stream keeps the kind of letters that it was first used for. */
	pid_t pid = fork();
	if (pid == 0) {
		in_wide_letters();
		exit(0);
	}
	waitpid(pid, NULL, 0);
	in_the_place_of_output();
	in_the_place_of_input();
	before_the_address();
	in_the_place_of_any_stream();
	of_a_connection_that_is_gone();
	scripted("bash", argv[1], "exec 3<>/dev/tcp/$1/$2; read -r first <&3; echo said >&3; LC_ALL=C.UTF-8 rev <&3 >&3");
	scripted("bash", argv[1], "exec 3<>/dev/tcp/$1/$2; read -r first <&3; echo \"you said: $first\" >&3; cat <&3; printf 'and %s\\n' more >&3; exec 3>&-");
	scripted("bash", argv[1], "exec 3<>/dev/tcp/$1/$2; read -r first <&3; echo \"$first\"; echo hello | tee /dev/null >&3; dd bs=4 count=2 status=none <&3; cat <&3; (echo from a subshell) >&3");
	scripted("bash", argv[1], "exec 3<>/dev/tcp/$1/$2 1>&3; read -r first <&3; echo \"all goes there: $first\"; echo $((6*7)); sed s/t/T/ <&3");
	scripted("perl", argv[1],
		 "use IO::Socket::IP; my $s = IO::Socket::IP->new(PeerHost => $ARGV[0], PeerPort => $ARGV[1], Type => SOCK_STREAM) or die $@;"
		 "my $first = <$s>; open(my $again, '>&', $s); select($again); $| = 1; print \"you said: $first\"; print while <$s>; printf $s \"and %s\\n\", 'more'; close($again); $s->shutdown(1); close($s)");
	scripted("perl", argv[1],
		 "use Socket ':all'; my ($e, $to) = getaddrinfo($ARGV[0], $ARGV[1], {socktype => SOCK_STREAM}); socket(my $s, $to->{family}, SOCK_STREAM, 0); connect($s, $to->{addr}) or die $!;"
		 "open(STDOUT, '>&', $s); open(STDIN, '<&', $s); $| = 1; my $first = <STDIN>; print \"standard: $first\"; system('cat')");
	scripted("python3", argv[1],
		 "import os, socket, sys; s = socket.create_connection(sys.argv[1:3]); both = s.makefile('rw'); first = both.readline();"
		 "other = os.fdopen(os.dup(s.fileno()), 'w'); print('you said:', first, file=other, end=''); other.close(); lines = list(both); both.writelines(lines); both.flush(); os.write(s.fileno(), b'and more\\n'); both.close(); s.close()");
	return 0;
}
