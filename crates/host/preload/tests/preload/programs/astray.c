/* Bytes by ways that no library can stand in for: the processor's own instruction. Over Clearway none of them may be taken. */
#include "common.h"

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static long straight6(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	long answer;

	__asm__ volatile("syscall" : "=a"(answer) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return answer;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
#endif
}

static long straight(long number, long a, long b, long c)
{
	return straight6(number, a, b, c, 0, 0, 0);
}

/* A ring of the kernel's that the library is not asked for, as liburing makes one; one entry of it. What comes of it: refused, taken, or there are no rings here. */
static const char *by_ring(int opcode, int fd, void *bytes, unsigned len)
{
	struct io_uring_params params = {0};
	int ring = straight(SYS_io_uring_setup, 4, (long)&params, 0);

	if (ring < 0)
		return "refused";
	char *sq = mmap(NULL, params.sq_off.array + params.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	char *cq = mmap(NULL, params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe), PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
	struct io_uring_sqe *entry = mmap(NULL, params.sq_entries * sizeof(*entry), PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || entry == MAP_FAILED)
		die("mmap");
	*entry = (struct io_uring_sqe){.opcode = opcode, .fd = fd, .addr = (unsigned long)bytes, .len = len};
	*(unsigned *)(sq + params.sq_off.array) = 0;
	__atomic_store_n((unsigned *)(sq + params.sq_off.tail), 1, __ATOMIC_RELEASE);
	straight6(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0);
	struct io_uring_cqe *done = (void *)(cq + params.cq_off.cqes);
	int result = __atomic_load_n((unsigned *)(cq + params.cq_off.tail), __ATOMIC_ACQUIRE) == 1 ? done->res : 1;
	close(ring);
	return result < 0 ? "refused" : "taken";
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
	printf("a ring's write: %s\n", by_ring(IORING_OP_WRITE, ends[0], "lost?", 5));
	datagrams = bound(SOCK_DGRAM);
	name = name_of(datagrams);
	say("connect", connect(datagrams, (void *)&name, self_len));
	say("write", straight(SYS_write, datagrams, (long)"lost?", 5));
	say("read", straight(SYS_read, datagrams, (long)text, sizeof(text)));
	/* What was refused is nowhere. */
	say("recv", recv(ends[1], text, sizeof(text), MSG_DONTWAIT) < 0 ? -errno : 1);
	return 0;
}
