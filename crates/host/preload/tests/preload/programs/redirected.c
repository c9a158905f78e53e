/* Connections that are put in the place of a program's standard streams, and taken away again; and a shell with /dev/tcp. */
#include "common.h"

/* Prints, from a connection's other end, what came until it ended. */
static void print_rest(int fd)
{
	char text[4096];
	ssize_t len;

	while ((len = read(fd, text, sizeof(text))) > 0)
		fwrite(text, 1, len, stdout);
	printf("-- %s\n", len ? strerrorname_np(errno) : "end");
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

/* Runs a shell's script with a connection's address, and answers as a server that speaks first and last. */
static void shell(const char *text, const char *script)
{
	int listening = listener(), fd, status;
	struct sockaddr_storage name = name_of(listening);
	char port[8], line[256] = "";
	pid_t pid;

	snprintf(port, sizeof(port), "%d", ntohs(((struct sockaddr_in *)&name)->sin_port));
	fflush(stdout);
	if ((pid = fork()) == 0) {
		close(listening);
		execl("/bin/bash", "bash", "-c", script, "bash", text, port, NULL);
		_exit(127);
	}
	fd = accept(listening, NULL, NULL);
	if (fd < 0)
		die("accept");
	if (write(fd, "welcome\n", 8) != 8)
		die("write");
	for (size_t at = 0; at < sizeof(line) - 1 && read(fd, line + at, 1) == 1 && line[at] != '\n'; at++)
		;
	printf("the shell said: %s", line);
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
	in_the_place_of_output();
	in_the_place_of_input();
	before_the_address();
	shell(argv[1], "exec 3<>/dev/tcp/$1/$2; read -r first <&3; echo \"you said: $first\" >&3; cat <&3; printf 'and %s\\n' more >&3; exec 3>&-");
	shell(argv[1], "exec 3<>/dev/tcp/$1/$2; read -r first <&3; echo \"$first\"; echo hello | tee /dev/null >&3; dd bs=4 count=2 status=none <&3; cat <&3; (echo from a subshell) >&3");
	shell(argv[1], "exec 3<>/dev/tcp/$1/$2 1>&3; read -r first <&3; echo \"all goes there: $first\"; echo $((6*7)); sed s/t/T/ <&3");
	return 0;
}
