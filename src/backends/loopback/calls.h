/* SPDX-License-Identifier: MIT */
/*
 * Incoming connections: requests of other processes, and notices of their new listeners. A request that arrives becomes a
 * pending request of core's. When a program is about to get it, it is claimed; if another one has it, the connection
 * stays, for the requester may make the request available again. The socket over which a connection comes about becomes
 * the link's, if the two NIC handles have none yet.
 *
 * The registry's lock is held by the callers of all of these.
 */
#ifndef VIPL_LOOPBACK_CALLS_H
#define VIPL_LOOPBACK_CALLS_H

#include "backends/loopback/names.h"
#include "backends/loopback/request.h"

enum lo_incoming_state { LO_INCOMING_SILENT, LO_INCOMING_KNOWN, LO_INCOMING_ACCEPTING };

/* Guarded by the registry, but for `opened`. */
struct lo_incoming {
    struct lo_source source; /* fd -1: the link has it, or it came over a line */
    struct lo_link *via;     /* whose line (control.h); NULL: none */
    bool answered;           /* over a line: the requester has been told, or has gone */
    struct vipl_list link;   /* remote->incomings */
    struct lo_remote *remote;
    enum lo_incoming_state state;
    char kind;         /* of the socket it came to */
    uint64_t hash;     /* and that one's hash */
    uint64_t deadline; /* for the first packet, or for the requester to take up an acceptance */
    struct lo_connect_request wanted;
    struct vipl_shm claims;     /* the requester's words */
    uint32_t *word;             /* the request's */
    struct vipl_conn *conn;     /* what core has of it; NULL: nothing now */
    bool taken;                 /* a program has it, by our claim */
    struct lo_request *request; /* symmetric: the one of ours that answers it */
    struct lo_session *session; /* what came of it */
    bool opened;    /* the requester has taken it up; the session may be over again. Guarded by rx */
    int exports_fd; /* of the requester's export table; -1: none, or the link has it */
};

void vipl_lo_incoming_begin(struct lo_remote *remote, const struct lo_socket *to, int fd);
void vipl_lo_incoming_event(struct lo_incoming *in);
/* Over the line of a link: a request, which may have come before (false: it breaks the rules); its end; the end of the line. */
bool vipl_lo_incoming_by_link(struct lo_link *via, const struct lo_connect_request *wanted, const int fds[2]);
void vipl_lo_incoming_withdrawn(struct lo_link *via, const struct lo_reply *which);
void vipl_lo_incomings_hang_up(struct lo_link *via);
/* A program asks for requests: those that core has no conn of get one, if they are PENDING. */
void vipl_lo_incomings_look(struct lo_remote *remote);

bool vipl_lo_incoming_taken(struct lo_incoming *in);  /* conn_taken of the contract */
void vipl_lo_incoming_reject(struct lo_incoming *in); /* conn_reject */
VIP_RETURN vipl_lo_incoming_accept(struct lo_incoming *in,
                                   struct vipl_vi *vi); /* releases and retakes the lock */

/* Symmetric: answers one that asks for the request, which is PENDING. True: the request is over. */
bool vipl_lo_incomings_match(struct lo_request *request);
/* The request that it met is over. True: the requester has taken up the acceptance. */
bool vipl_lo_incoming_unmatch(struct lo_incoming *in);

/* Ends what has waited too long; *soonest becomes the next such time if it is sooner. */
void vipl_lo_incomings_tick(struct lo_remote *remote, uint64_t now, uint64_t *soonest);
void vipl_lo_incomings_close(struct lo_remote *remote);

#endif
