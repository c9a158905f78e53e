/* Gates: who is in a burst of a device whose driver unmaps memory under it. See gate.c. */

#ifndef CLEARWAY_GATE_H
#define CLEARWAY_GATE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <rte_config.h>

/* One direction of one queue, in a cache line of its own. Odd while its thread is in a burst. */
struct gate {
	_Alignas(64) atomic_uint passed;
};

struct gates {
	uint16_t queues;
	/* Receiving and sending, in turn, for each queue. */
	struct gate gate[];
};

enum { GATE_RX, GATE_TX };

extern struct gates *gates_of[RTE_MAX_ETHPORTS];

/* The device of this port gets gates when its driver needs them; 0, or a negative errno. */
int gates_open(uint16_t port, const char *driver, uint16_t queues);
/* The device is closed. */
void gates_close(uint16_t port);

/* Before a burst; NULL for a device without gates. */
static inline struct gate *gate_enter(uint16_t port, uint16_t queue, unsigned int direction)
{
	struct gates *gates = gates_of[port];
	struct gate *gate;

	if (gates == NULL)
		return NULL;
	gate = &gates->gate[2 * queue + direction];
	/* Nothing of the burst is read before this is seen: gates_wait looks for it after the link was marked as down. */
	atomic_fetch_add_explicit(&gate->passed, 1, memory_order_seq_cst);
	return gate;
}

/* After it. */
static inline void gate_leave(struct gate *gate)
{
	if (gate != NULL)
		atomic_store_explicit(&gate->passed, atomic_load_explicit(&gate->passed, memory_order_relaxed) + 1, memory_order_release);
}

#endif
