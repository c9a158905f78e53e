/* What the C baselines share: the arguments of `clearway bench server`, where a request ends, and the lines that scripts read. */

#ifndef BASELINES_BENCH_H
#define BASELINES_BENCH_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* Bounds of what can be said on the command line. */
enum {
	MAX_ADDRESSES = 64,
	MAX_CORES = 256,
	/* Bytes of the longest answer, and bytes of answers that are handed over together. */
	MAX_ANSWER = 16 << 20,
	TOGETHER = 64 << 10,
};

/* Exit codes. */
enum { ENDED = 0, FAILED = 1, WRONG_USE = 2 };

/* One of the server's addresses. */
struct address {
	/* As the user wrote it, and without the prefix length. */
	const char *text;
	char host[INET6_ADDRSTRLEN];
	bool v6;
	union {
		struct in_addr v4;
		struct in6_addr v6;
	} ip;
	unsigned prefix_len;
};

/* Where a request ends. */
enum framing { FIXED, HTTP, ANY };

/* What a program is, for --help, --version and the JSON lines. */
struct program {
	const char *name;
	/* What `over` says. */
	const char *over;
	/* Names and versions of what is inside. */
	const char *version;
	/* What it is, on a line of --help. */
	const char *about;
	/* Whether it has a port of its own instead of the kernel's sockets. */
	bool has_port;
	/* Connections of one core unless somebody says otherwise, and the most that are possible. */
	uint32_t connections, most_connections;
	/* Cores at most. */
	unsigned most_cores;
};

/* What the user asks for. */
struct options {
	const struct program *program;
	const char *port_name;
	struct address addresses[MAX_ADDRESSES];
	unsigned address_count;
	struct in_addr gateway;
	uint16_t port;
	/* The answer again and again: at least TOGETHER bytes, or one answer when that is longer. */
	uint8_t *answers;
	uint32_t answer_len, answers_len;
	enum framing framing;
	uint32_t request_len;
	bool burst;
	int cores[MAX_CORES];
	/* Threads; without --cores one on any core. */
	unsigned core_count;
	bool pinned;
	uint32_t connections;
	double seconds;
	bool json;
};

/* What a thread has done. */
struct counts {
	uint64_t accepted, open, reset, refused, requests, answers, bytes_in, bytes_out;
	/* How long it was busy. */
	double busy_s;
};

/* Reads the command line; says what is wrong with it, or what is asked for, and ends the program then. */
void options_read(struct options *options, const struct program *program, int argc, char **argv);

/* Ends the program with a sentence that says what went wrong and what to do about it. */
_Noreturn void die(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* How many requests end in the next `len` bytes of a stream; `partial` is how far into one it is, zero at the beginning. */
uint32_t requests_in(const struct options *options, uint32_t *partial, const uint8_t *bytes, size_t len);

/* The bytes of answers to hand over next when a connection is owed `owed` bytes of them; `*len` says how many. */
const uint8_t *next_answers(const struct options *options, uint64_t owed, uint32_t *len);

/* Takes SIGINT and SIGTERM away from this thread and those that it starts; and waits for one of them, or for the end of -t. */
void signals_take(void);
void signals_wait(const struct options *options);
/* The same without waiting: whether it is time to end. It asks the system, so call it now and then. */
bool signals_came(const struct options *options);

/* Puts the calling thread on the core of this number among those asked for. */
void pin_to_core(const struct options *options, unsigned index);

/* Says that requests are answered from now on, and takes the time. */
void say_ready(const struct options *options);

/* The last lines. */
void say_summary(const struct options *options, const struct counts *of_cores, unsigned count);

/* Seconds of a clock. */
double seconds_of(clockid_t clock);

/* Cycles of the processor's time stamp counter; nanoseconds where there is none. */
static inline uint64_t cycles_now(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t count;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
	return count;
#else
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

/* Cycles since `say_ready`, and the seconds that they took: how long a cycle is. */
double seconds_per_cycle(void);

#endif
