#!/usr/bin/env bash
# What a system call costs when it is trapped (docs/trap.md): a program without a loader makes each very often, and counts its own processor time, as it is and by `clearway run --trap`.
# Usage: scripts/trap-cost.sh [ADDRESS]; with an address of a running host's namespace (CLEARWAY_SOCKET, CLEARWAY_NS, CLEARWAY_SECRET), calls on its sockets too.
# CLEARWAY names the program (default target/release/clearway). Needs cc and a static C library.
set -euo pipefail
clearway=${CLEARWAY:-$(dirname "$0")/../target/release/clearway}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/calls.c" <<'C'
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TIMES 200000

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

#define MEASURE(what, call) do { \
	double before = now(); \
	for (int i = 0; i < TIMES; i++) call; \
	printf("%-58s %7.0f ns\n", what, (now() - before) / TIMES); \
} while (0)

int main(int argc, char **argv)
{
	sigset_t set;
	char byte;
	MEASURE("a call of the kernel's (getppid)", syscall(SYS_getppid));
	MEASURE("a call that the library answers (rt_sigprocmask)", sigprocmask(SIG_BLOCK, NULL, &set));
	if (argc < 2)
		return 0;
	struct sockaddr_in at = {.sin_family = AF_INET};
	socklen_t len = sizeof(at);
	if (inet_pton(AF_INET, argv[1], &at.sin_addr) != 1)
		return 2;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (void *)&at, len) || getsockname(fd, (void *)&at, &len)) {
		perror("bind");
		return 1;
	}
	MEASURE("recv of a socket to which nothing came", recv(fd, &byte, 1, 0));
	return 0;
}
C
cc -O2 -static -o "$folder/calls" "$folder/calls.c"
echo "as it is:"
"$folder/calls" ${1:+127.0.0.1}
echo "trapped:"
"$clearway" run --trap -- "$folder/calls" "$@"
