/* SPDX-License-Identifier: MIT */
/* Failures of the handshake that a test asks for (VIPL_SOCKETS_FAULT). */
#ifndef VIPL_SOCKETS_FAULT_H
#define VIPL_SOCKETS_FAULT_H

#include <stdbool.h>

enum sock_fault {
    SOCK_FAULT_DECLINE, /* a server declines */
    SOCK_FAULT_STREAM,  /* there is no stream */
    SOCK_FAULT_JOIN,    /* the VI is connected to an address that no peer has */
    SOCK_FAULT_COMMIT,  /* the VI is connected, and this end says that it is not */
    SOCK_FAULT_DIE,     /* the process ends when the VIs are being connected */
    SOCK_FAULT_SIGNAL,  /* SIGUSR1 comes while a thread looks at a part of a message */
    SOCK_FAULTS
};
/* Returns true if the test has asked for it. */
bool sock_fault_is(enum sock_fault fault);

#endif
