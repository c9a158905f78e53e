/* Memory that peers share with us, and may take back. See peers.c. */

#ifndef CLEARWAY_PEERS_H
#define CLEARWAY_PEERS_H

#include <stdint.h>

/* The drivers are loaded: from here on, what peers share is known, and outlived when it goes. 0, or a negative errno. */
int peers_start(void);
/* The device of this port meets its peers at this socket; NULL when it shares no memory. */
void peers_open(uint16_t port, const char *socket);
/* The device is closed. */
void peers_close(uint16_t port);
/* Peers of this port that were cut off since it was opened. */
uint32_t peers_cut_off(uint16_t port);

#endif
