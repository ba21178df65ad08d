/* SPDX-License-Identifier: MIT */
/*
 * Finding each other between processes: names, the sockets that have them, notices, and the progress of connecting.
 *
 * Sockets in the abstract name space are called "vipl/loopback/UID/KHASH/PLACE". K is 'w' where a NIC handle listens for a
 * discriminator, 'r' where it has a request for one that no program has taken at once (its pending socket), 'p' where it has
 * a symmetric request, by its local address. PLACE is 0 to 15: several processes may have a socket of one kind and
 * hash. The hash only finds; addresses are compared in full. Nothing is on disk, and nothing is left behind.
 *
 * Everything about connecting runs under the registry's lock; the functions that take it, or must not hold it, say so.
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
    uint32_t user; /* in its name */
    unsigned place;
    char kind;
    uint64_t resume_at; /* not watched until then: there are no descriptors for callers; 0: watched */
    bool logged;        /* a failure of what was done last */
    uint32_t users;     /* listeners, or requests, that need it */
};

/* The NIC handle's remote part, made now if need be. NULL: no resources. */
struct lo_remote *vipl_lo_prepare(struct vipl_be_nic *be);
uint64_t vipl_lo_hash_of(const struct vipl_address *address);

/* The names of one kind and hash, which differ in their place. */
struct lo_name {
    char text[96];
    size_t stem; /* bytes before the place */
};
/* `user`: vipl_local_user(), asked once for many names. */
void vipl_lo_name_begin(struct lo_name *name, uint32_t user, char kind, uint64_t hash);
size_t vipl_lo_name_at(struct lo_name *name, unsigned place); /* bytes of the text */

/* Uses of a socket of that kind and hash, bound now if need be. NULL: no resources, or no place is free. */
struct lo_socket *vipl_lo_socket_open(struct lo_remote *remote, char kind, uint64_t hash);
void vipl_lo_socket_close(struct lo_remote *remote, struct lo_socket *s); /* NULL is harmless */
struct lo_socket *vipl_lo_socket_find(struct lo_remote *remote, char kind, uint64_t hash);
/* The places of sockets of this process, a bit each: within a process requests do not go over sockets. */
uint32_t vipl_lo_own_places(uint32_t user, char kind, uint64_t hash);

/* What a new listener tells those who have requests for its discriminator. */
struct lo_notices {
    unsigned count;
    int fds[LO_PLACES]; /* hung up by the requester when it has made its offers */
};
void vipl_lo_notices_send(struct lo_notices *notices, uint64_t hash, unsigned place);
/* Until all offers have been made, 100 ms at most. The registry's lock is not held. */
void vipl_lo_notices_await(struct lo_notices *notices);
/* Listeners whose process has become another user get that user's names, and give notice. Takes the registry's lock. */
void vipl_lo_listeners_rename(struct lo_remote *remote);

/* Goes on with what has come over the lines of links. The registry's lock is held, rx is not. */
void vipl_lo_control_read(struct lo_remote *remote);
/* As lo_setup.look, of link.h. */
void vipl_lo_setup_progress(struct lo_remote *remote, bool sockets);
/* The same, with all that is there. */
void vipl_lo_setup_progress_all(struct lo_remote *remote);

#endif
