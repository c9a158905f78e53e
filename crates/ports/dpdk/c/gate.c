/* memif's driver notices in DPDK's own thread that its peer has gone, and unmaps the rings there and then, while a thread of ours may be in the middle of
 * a burst on them. Before that it does two things: it marks the device as not connected, which every burst looks at first, and it takes its handler off
 * the peer's socket. The second is a call to another library of DPDK's, and here it is answered first: it waits until every burst that began before is
 * over. The program comes before all libraries where the dynamic linker looks for a name; the function that bears it in DPDK is then called as ever. */

#define _GNU_SOURCE
#include "gate.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <rte_interrupts.h>

struct gates *gates_of[RTE_MAX_ETHPORTS];

/* Held while the list above is changed or walked. */
static pthread_mutex_t list = PTHREAD_MUTEX_INITIALIZER;

int gates_open(uint16_t port, const char *driver, uint16_t queues)
{
	size_t size = sizeof(struct gates) + 2 * (size_t)queues * sizeof(struct gate);
	struct gates *gates;

	if (driver == NULL || strcmp(driver, "net_memif") != 0)
		return 0;
	gates = aligned_alloc(_Alignof(struct gate), (size + 63) & ~(size_t)63);
	if (gates == NULL)
		return -ENOMEM;
	memset(gates, 0, size);
	gates->queues = queues;
	pthread_mutex_lock(&list);
	gates_of[port] = gates;
	pthread_mutex_unlock(&list);
	return 0;
}

void gates_close(uint16_t port)
{
	pthread_mutex_lock(&list);
	free(gates_of[port]);
	gates_of[port] = NULL;
	pthread_mutex_unlock(&list);
}

/* Waits for the burst that the thread of this gate is in, if it is. A burst takes microseconds, unless its thread has lost its core to others: to this
 * one, perhaps. */
static void gate_wait(struct gate *gate)
{
	unsigned int seen = atomic_load_explicit(&gate->passed, memory_order_acquire);

	while (seen % 2 == 1 && atomic_load_explicit(&gate->passed, memory_order_acquire) == seen)
		sched_yield();
}

static void gates_wait(void)
{
	atomic_thread_fence(memory_order_seq_cst);
	pthread_mutex_lock(&list);
	for (size_t port = 0; port < RTE_MAX_ETHPORTS; port++)
		for (size_t i = 0; gates_of[port] != NULL && i < 2 * (size_t)gates_of[port]->queues; i++)
			gate_wait(&gates_of[port]->gate[i]);
	pthread_mutex_unlock(&list);
}

/* No driver calls this in a burst, so nobody waits for himself. */
int rte_intr_callback_unregister(const struct rte_intr_handle *handle, rte_intr_callback_fn callback, void *argument)
{
	static int (*_Atomic unregister)(const struct rte_intr_handle *, rte_intr_callback_fn, void *);

	if (unregister == NULL)
		unregister = (int (*)(const struct rte_intr_handle *, rte_intr_callback_fn, void *))dlsym(RTLD_NEXT, "rte_intr_callback_unregister");
	if (unregister == NULL)
		return -ENOSYS;
	gates_wait();
	return unregister(handle, callback, argument);
}
