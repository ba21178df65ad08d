/* SPDX-License-Identifier: MIT */
/*
 * How processes find each other: sockets with names, notices, and the progress of connecting.
 *
 * The sockets have names in the abstract name space, "vipl/loopback/UID/KHASH/PLACE". K is the
 * kind: 'w' for a socket on which a NIC handle listens for a discriminator; 'r' for the pending
 * socket of requests for a discriminator that no program has taken at once; 'p' for a symmetric
 * request, by its local address. PLACE is 0 to 15, because several processes may have a socket of
 * one kind and hash. The hash only finds a socket; addresses are compared in full. Nothing is on
 * disk, and nothing is left behind.
 *
 * The callers hold the registry's lock, unless a function's comment says otherwise.
 */
#ifndef VIPL_LOOPBACK_NAMES_H
#define VIPL_LOOPBACK_NAMES_H

#include "backends/loopback/link.h"

enum { LO_PLACES = 16 };

/* A socket with a name. Guarded by the registry. */
struct lo_socket {
    struct lo_source source;
    struct vipl_list link; /* remote->sockets */
    uint64_t hash;
    uint32_t user; /* the user in the name */
    unsigned place;
    int lock; /* of vipl_local_listen() */
    char kind;
    /* the socket is not watched until then, because there are no descriptors for callers; 0:
     * watched */
    uint64_t resume_at;
    bool logged;    /* the last failure has been logged */
    uint32_t users; /* the number of listeners or requests that use it */
};

/* Returns the NIC handle's remote part, which is made if it is missing. NULL: no resources. */
struct lo_remote *vipl_lo_prepare(struct vipl_be_nic *be);
/* Returns the hash of an address's discriminator. */
uint64_t vipl_lo_hash_of(const struct vipl_address *address);

/* The names of one kind and hash, which differ in the place only. */
struct lo_name {
    char text[96];
    size_t stem; /* bytes before the place */
};
/* Begins names. `user` is vipl_local_user(), which is called once for many names. */
void vipl_lo_name_begin(struct lo_name *name, uint32_t user, char kind, uint64_t hash);
/* Completes the name for a place, and returns its length. */
size_t vipl_lo_name_at(struct lo_name *name, unsigned place);

/* Adds a use of the socket of that kind and hash, which is bound if it is missing. NULL: no
 * resources, or all places are taken. */
struct lo_socket *vipl_lo_socket_open(struct lo_remote *remote, char kind, uint64_t hash);
/* Ends one use of a socket, and closes it with the last one. `s` may be NULL. */
void vipl_lo_socket_close(struct lo_remote *remote, struct lo_socket *s);
/* Returns the socket of that kind and hash, or NULL. */
struct lo_socket *vipl_lo_socket_find(struct lo_remote *remote, char kind, uint64_t hash);
/* Returns the places of this process's own sockets, one bit per place. Requests within the process
 * do not go over sockets. */
uint32_t vipl_lo_own_places(uint32_t user, char kind, uint64_t hash);

/* The notices by which a new listener tells the processes that have requests for its
 * discriminator. */
struct lo_notices {
    unsigned count;
    int fds[LO_PLACES]; /* each is closed by the requester when it has made its offers */
};
void vipl_lo_notices_send(struct lo_notices *notices, uint64_t hash, unsigned place);
/* Waits until all these processes have made their offers, 100 ms at most. The registry's lock is
 * not held. */
void vipl_lo_notices_await(struct lo_notices *notices);
/* After the process has become another user: gives its listeners names of that user, and sends
 * notices. Takes the registry's lock. */
void vipl_lo_listeners_rename(struct lo_remote *remote);

/* Handles the control messages that were received. rx is not held. */
void vipl_lo_control_read(struct lo_remote *remote);
/* As lo_setup.progress (link.h). Takes the registry's lock. */
void vipl_lo_setup_progress(struct lo_remote *remote, bool sockets);
/* The same, with everything that has come up to now. Takes the registry's lock. */
void vipl_lo_setup_progress_all(struct lo_remote *remote);

#endif
