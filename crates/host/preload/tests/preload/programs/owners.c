/* SIGURG: urgent data is told to the owner of a stream, with O_ASYNC and without. */
#include "common.h"

#include <sys/syscall.h>

static volatile sig_atomic_t urgents, ordinary;
static volatile pid_t told_in;

static void on_signal(int number)
{
	if (number == SIGURG)
		urgents++;
	else
		ordinary++;
	told_in = syscall(SYS_gettid);
}

/* Whether so many come, and not more. */
static int come(volatile sig_atomic_t *what, int count)
{
	for (int i = 0; i < 4000 && *what < count; i++)
		usleep(5000);
	usleep(20000);
	int came = *what;
	*what = 0;
	return came;
}

enum how { OWNER, OWNER_EX, THREAD, GROUP, BY_IOCTL, HOWS };
static const char *hows[] = {"F_SETOWN", "F_SETOWN_EX", "a thread", "a group", "FIOSETOWN"};

static int own(int fd, enum how how)
{
	struct f_owner_ex owner = {F_OWNER_PID, getpid()};
	int pid = getpid();

	switch (how) {
	case OWNER:
		return fcntl(fd, F_SETOWN, pid);
	case OWNER_EX:
		return fcntl(fd, F_SETOWN_EX, &owner);
	case THREAD:
		owner.type = F_OWNER_TID;
		return fcntl(fd, F_SETOWN_EX, &owner);
	case GROUP:
		return fcntl(fd, F_SETOWN, -getpgrp());
	default:
		return ioctl(fd, FIOSETOWN, &pid);
	}
}

static void urgent(const char *what, int from, int to)
{
	char byte;
	int sent = send(from, "ab!", 3, MSG_OOB), came = come(&urgents, 1);

	printf("%s: sent %d, SIGURG %d", what, sent, came);
	printf(", to us %d", told_in == getpid());
	/* Ordinary bytes are no news, and what is there is not told again. */
	send(from, "cd", 2, 0);
	await(to, POLLIN);
	printf(", then %d", come(&urgents, 0));
	sent = recv(to, &byte, 1, MSG_OOB);
	printf(", recv %d %c", sent, byte);
	sent = send(from, "e", 1, MSG_OOB);
	came = come(&urgents, 1);
	printf(", and once more %d, %d\n", sent, came);
	told_in = 0;
}

static void drain(int fd)
{
	char bytes[64];

	while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

int main(int argc, char **argv)
{
	int ends[2], listening, on = 1;
	char bytes[16];

	if (argc != 2)
		return 2;
	self_from(argv[1]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	setpgid(0, 0);
	signal(SIGURG, on_signal);
	signal(SIGIO, on_signal);
	for (enum how how = 0; how < HOWS; how++) {
		pair(ends);
		printf("%s: %d\n", hows[how], own(ends[0], how));
		urgent("  the one that connected", ends[1], ends[0]);
		own(ends[1], how);
		urgent("  the one that was accepted", ends[0], ends[1]);
		close(ends[0]);
		close(ends[1]);
	}

	pair(ends);
	send(ends[1], "x", 1, MSG_OOB);
	await(ends[0], POLLPRI);
	printf("without an owner: %d\n", come(&urgents, 0));
	own(ends[0], OWNER);
	printf("what came before it has one: %d\n", come(&urgents, 0));
	drain(ends[0]);
	setsockopt(ends[0], SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on));
	send(ends[1], "x", 1, MSG_OOB);
	printf("in line: %d\n", come(&urgents, 1));
	drain(ends[0]);
	fcntl(ends[0], F_SETOWN, 0);
	send(ends[1], "x", 1, MSG_OOB);
	await(ends[0], POLLPRI);
	printf("the owner was taken away: %d\n", come(&urgents, 0));
	drain(ends[0]);
	own(ends[0], OWNER);
	printf("O_ASYNC: %d", fcntl(ends[0], F_SETFL, O_ASYNC));
	send(ends[1], "x", 1, MSG_OOB);
	int came = come(&urgents, 1);
	printf(", SIGURG %d, SIGIO %d", came, come(&ordinary, 1) > 0);
	drain(ends[0]);
	printf(", and without it again: %d", fcntl(ends[0], F_SETFL, 0));
	usleep(50000);
	ordinary = 0;
	send(ends[1], "x", 1, MSG_OOB);
	came = come(&urgents, 1);
	printf(", SIGURG %d, SIGIO %d\n", came, (int)ordinary);
	close(ends[0]);
	close(ends[1]);

	/* As rcmd of the C library does. */
	for (int is_async = 0; is_async < 2; is_async++) {
		struct sockaddr_storage to;

		listening = listener();
		to = name_of(listening);
		ends[0] = socket(self.ss_family, SOCK_STREAM, 0);
		own(ends[0], OWNER);
		if (is_async)
			fcntl(ends[0], F_SETFL, O_ASYNC);
		int connected = connect(ends[0], (void *)&to, self_len);
		ends[1] = accept(listening, NULL, NULL);
		printf("an owner before connect %d: for us %d, async %d\n", connected, fcntl(ends[0], F_GETOWN) == getpid(),
		       (fcntl(ends[0], F_GETFL) & O_ASYNC) != 0);
		usleep(50000);
		ordinary = 0;
		send(ends[1], "x", 1, MSG_OOB);
		came = come(&urgents, 1);
		printf("  SIGURG %d, SIGIO %d\n", came, come(&ordinary, is_async) > 0);
		close(ends[0]);
		close(ends[1]);
		close(listening);
	}
	return 0;
}
