/* Bytes by ways that no library can stand in for: the processor's own instruction. Over Clearway none of them may be taken. */
#include "common.h"

#include <sys/syscall.h>

static long straight(long number, long a, long b, long c)
{
#if defined(__x86_64__)
	long answer;

	__asm__ volatile("syscall" : "=a"(answer) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return answer;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
#endif
}

static void say(const char *what, long answer)
{
	printf("%s: %ld%s%s\n", what, answer < 0 ? -1 : answer, answer < 0 ? " " : "", answer < 0 ? strerrorname_np(-answer) : "");
}

static volatile int pipes;

static void on_pipe(int signal)
{
	pipes++;
}

int main(int argc, char **argv)
{
	int ends[2], datagrams;
	char text[16] = "";
	struct sockaddr_storage name;

	if (argc != 2)
		return 2;
	self_from(argv[1]);
	signal(SIGPIPE, on_pipe);
	pair(ends);
	say("write", straight(SYS_write, ends[0], (long)"lost?", 5));
	printf("SIGPIPE: %d\n", pipes);
	/* By the library, so the connection is as good as before. */
	say("send", send(ends[0], "good", 4, 0));
	say("recv", recv(ends[1], text, sizeof(text), 0));
	printf("text: %s\n", text);
	if (send(ends[0], "stays", 5, 0) != 5)
		die("send");
	await(ends[1], POLLIN);
	say("read", straight(SYS_read, ends[1], (long)text, sizeof(text)));
	say("recv", recv(ends[1], text, sizeof(text), 0));
	say("io_uring_setup", syscall(425, 8, text) < 0 ? -errno : 0);
	datagrams = bound(SOCK_DGRAM);
	name = name_of(datagrams);
	say("connect", connect(datagrams, (void *)&name, self_len));
	say("write", straight(SYS_write, datagrams, (long)"lost?", 5));
	say("read", straight(SYS_read, datagrams, (long)text, sizeof(text)));
	/* What was refused is nowhere. */
	say("recv", recv(ends[1], text, sizeof(text), MSG_DONTWAIT) < 0 ? -errno : 1);
	return 0;
}
