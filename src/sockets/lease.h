/* SPDX-License-Identifier: MIT */
/*
 * One end of a lease: a VI over which nothing is ever sent. It is connected from the time when a
 * program of another host has answered a probe until that program closes its listener, or ends.
 * Each end has one receive posted, which completes when the lease is over.
 */
#ifndef VIPL_SOCKETS_LEASE_H
#define VIPL_SOCKETS_LEASE_H

#include "base/address.h"
#include "base/list.h"
#include "sockets/mark.h"
#include "vipl/vipl.h"

struct sock_lease {
    /* The owner's, who also guards them. */
    struct vipl_list link;
    bool is_accepting;
    bool is_over;
    /* Constant. */
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    VIP_MEM_HANDLE region;
    VIP_DESCRIPTOR *receive;
};

/* Makes an end that is not connected yet. `queue`: tells when the lease is over; or NULL. NULL: no
 * memory, or no VI. */
struct sock_lease *sock_lease_new(VIP_NIC_HANDLE nic, VIP_CQ_HANDLE queue);
/* Disconnects this end if it is connected, and frees it. The NIC handle is the caller's. */
void sock_lease_end(struct sock_lease *lease);
/* Looks whether the lease is over. The lease is, or was, connected. */
bool sock_lease_is_over(struct sock_lease *lease);

/* --- what both ends call the listener -------------------------------------------------------- */

/* The NIC address of a host, and the discriminator of a listener there. */
union sock_lease_name {
    VIP_NET_ADDRESS net;
    uint8_t room[sizeof(VIP_NET_ADDRESS) + VIPL_MAX_HOST_ADDRESS + VIPL_MAX_DISCRIMINATOR];
};
/* Adds to the NIC address in `name` the discriminator "vipl/sockets/HOST/PORT", where HOST is what
 * the listener is bound to (sock_address_host()). */
void sock_lease_name(union sock_lease_name *name, const char *host, uint16_t port);

#endif
