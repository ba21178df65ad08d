/* SPDX-License-Identifier: MIT */
/* The process: its start, forks and end. */
#ifndef VIPL_SOCKETS_PROCESS_H
#define VIPL_SOCKETS_PROCESS_H

#include <stdbool.h>

/* Returns false in a child that shares the memory of this process (vfork()), whose descriptors are
 * its own: what it does to them is the kernel's business alone. */
bool sock_process_is_own(void);
/* The program ends: its connections end as the kernel would end them, and what was sent arrives. */
void sock_process_end(void);

/* exec is about to be called: moved connections end, and others are without bytes of the handshake
 * as far as that is possible. */
void sock_process_exec(void);

#endif
