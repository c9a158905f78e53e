/* What lwIP asks of the compiler and of the machine. */

#ifndef BASELINES_LWIP_CC_H
#define BASELINES_LWIP_CC_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define LWIP_PLATFORM_DIAG(words) do { printf words; } while (0)
#define LWIP_PLATFORM_ASSERT(words) do { fprintf(stderr, "lwip-dpdk: lwIP says: %s\n", words); abort(); } while (0)

#define LWIP_RAND() ((u32_t)random())

/* Memory, and what is free of it, by its size. */
void *chunk_take(size_t len);
void *chunk_take_zeros(size_t count, size_t len);
void chunk_give(void *bytes);

/* lwIP's own sum is of two bytes at a time in its fastest form; every other stack here has a wider one. */
unsigned short wide_sum(const void *data, int len);
#define LWIP_CHKSUM wide_sum

#endif
