/* Handlers on stacks of their own (sigaltstack), short ones as programs in Rust have them for each thread, that use sockets. */
#include "common.h"

#include <sys/mman.h>

enum { PAGE = 4096 };

/* Clearway's, and such as have room on any stack. */
static int streams[2], channel[2];
static volatile int came;
static stack_t own;

static void handler(int number, siginfo_t *info, void *context)
{
	char text[8];
	int here, *ends = own.ss_size > 40000 ? streams : channel;

	(void)info;
	(void)context;
	int on_own = (char *)&here > (char *)own.ss_sp && (char *)&here < (char *)own.ss_sp + own.ss_size;
	if (send(ends[0], "signal", 6, 0) == 6 && recv(ends[1], text, 6, MSG_WAITALL) == 6 && number == SIGUSR1)
		came += 1 + (own.ss_size >= 32768 && !on_own);
}

static void says(const char *what)
{
	stack_t now;

	if (sigaltstack(NULL, &now))
		die("sigaltstack");
	printf("%s: flags %d, as given %d\n", what, now.ss_flags, now.ss_sp == own.ss_sp && now.ss_size == own.ss_size);
}

static void *on_a_stack(void *arg)
{
	size_t size = *(size_t *)arg;
	char *memory = mmap(NULL, size + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	/* Nothing below it, and nothing of it is written above. */
	mprotect(memory, PAGE, PROT_NONE);
	memset(memory + PAGE + size, 7, PAGE);
	own = (stack_t){.ss_sp = memory + PAGE, .ss_size = size};
	stack_t before = {.ss_sp = &before};
	if (sigaltstack(&own, &before))
		die("sigaltstack");
	printf("before: flags %d, size %zu\n", before.ss_flags, before.ss_size);
	says("set");
	came = 0;
	for (int at = 0; at < 3; at++)
		pthread_kill(pthread_self(), SIGUSR1);
	printf("handlers: %d\n", came);
	says("afterwards");
	stack_t other = own, last;
	other.ss_size -= 512;
	printf("another size: %d", sigaltstack(&other, &last));
	printf(", it was %d\n", last.ss_sp == own.ss_sp && last.ss_size == own.ss_size);
	pthread_kill(pthread_self(), SIGUSR1);
	stack_t none = {.ss_flags = SS_DISABLE};
	printf("none: %d", sigaltstack(&none, &last));
	printf(", it was %d\n", last.ss_sp == other.ss_sp && last.ss_size == other.ss_size);
	pthread_kill(pthread_self(), SIGUSR1);
	printf("handlers: %d, above it %d\n", came, memory[PAGE + size] == 7);
	munmap(memory, size + 2 * PAGE);
	return NULL;
}

int main(int argc, char **argv)
{
	size_t least = sysconf(_SC_MINSIGSTKSZ), sizes[] = {least + 3072, 8192 > least + 3072 ? 8192 : 2 * least, 20000 + least, 65536};
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};

	if (argc != 2)
		return 2;
	self_from(argv[1]);
	pair(streams);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, channel))
		die("socketpair");
	/* The loader looks for the functions, and needs more room than they. */
	handler(SIGUSR1, NULL, NULL);
	sigaction(SIGUSR1, &action, NULL);
	for (int at = 0; at < 4; at++) {
		pthread_t thread;

		printf("== %d\n", at);
		on_a_stack(&sizes[at]);
		pthread_create(&thread, NULL, on_a_stack, &sizes[at]);
		pthread_join(thread, NULL);
		fflush(stdout);
	}
	stack_t short_one = {.ss_sp = streams, .ss_size = 1000}, strange = {.ss_sp = streams, .ss_size = 65536, .ss_flags = 77};
	int failed = sigaltstack(&short_one, NULL), error = errno;
	printf("too short: %d %s\n", failed, strerrorname_np(error));
	failed = sigaltstack(&strange, NULL), error = errno;
	printf("strange: %d %s\n", failed, strerrorname_np(error));
	return 0;
}
