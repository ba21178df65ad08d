/* SPDX-License-Identifier: MIT */
/*
 * Incoming requests of other processes, and notices of their new listeners. A request that arrives
 * becomes a pending request of core. When the program is about to get the request, the request is
 * claimed. If another program has claimed it, the socket stays open, because the requester may make
 * the request available again. The socket of a request that is accepted becomes the link's socket,
 * if the two NIC handles have no link.
 *
 * The callers of all functions hold the registry's lock.
 */
#ifndef VIPL_LOOPBACK_CALLS_H
#define VIPL_LOOPBACK_CALLS_H

#include "backends/loopback/names.h"
#include "backends/loopback/request.h"

enum lo_incoming_state {
    LO_INCOMING_SILENT,   /* no packet has come yet */
    LO_INCOMING_KNOWN,    /* the request has come */
    LO_INCOMING_ACCEPTING /* it was accepted; the requester has not taken up the acceptance yet */
};

/* A request of another process, or a notice. Guarded by the registry, except `opened`. */
struct lo_incoming {
    struct lo_source source; /* fd -1: the link has the socket, or `via` is set */
    /* the link over which control messages carry the request (control.h); NULL: none */
    struct lo_link *via;
    bool answered;         /* with `via`: the requester has its reply, or has gone */
    struct vipl_list link; /* remote->incomings */
    struct lo_remote *remote;
    enum lo_incoming_state state;
    char kind;     /* of the listening socket, see names.h */
    uint64_t hash; /* the hash of that socket's name */
    /* until the first packet comes, or until the requester takes up the acceptance */
    uint64_t deadline;
    struct lo_connect_request wanted; /* the request as it was received */
    struct vipl_shm claims;           /* the requester's claim words */
    uint32_t *word;                   /* the claim word of the request */
    struct vipl_conn *conn;           /* the pending request of core; NULL: core has none now */
    bool taken;                       /* this process has claimed the request for a program */
    struct lo_request *request;       /* symmetric: the request of this process that answers it */
    struct lo_session *session;       /* the session that was made for it */
    /* the requester has taken up the acceptance; the session may have ended since. Guarded by rx */
    bool opened;
    int exports_fd; /* of the requester's export table; -1: none, or the link has taken it */
};

/* Takes over a connection that was accepted at a listening socket. */
void vipl_lo_incoming_begin(struct lo_remote *remote, const struct lo_socket *to, int fd);
/* Handles what has come over the connection. May free `in`. */
void vipl_lo_incoming_event(struct lo_incoming *in);
/* Handle control messages of the link `via`: a request, which may have come before (false: it
 * breaks the rules); the withdrawal of a request; the end of the link. */
bool vipl_lo_incoming_by_link(struct lo_link *via, const struct lo_connect_request *wanted, const int fds[2]);
void vipl_lo_incoming_withdrawn(struct lo_link *via, const struct lo_reply *which);
void vipl_lo_incomings_hang_up(struct lo_link *via);
/* As vipl_backend.conns_look: hands to core the requests that are PENDING and that core does not
 * have. */
void vipl_lo_incomings_look(struct lo_remote *remote);

/* As vipl_backend.conn_taken, .conn_reject and .conn_accept. vipl_lo_incoming_accept() releases and
 * retakes the registry's lock while it waits. */
bool vipl_lo_incoming_taken(struct lo_incoming *in);
void vipl_lo_incoming_reject(struct lo_incoming *in, bool answer);
VIP_RETURN vipl_lo_incoming_accept(struct lo_incoming *in, struct vipl_vi *vi);

/* Answers an incoming symmetric request that is the counterpart of this one, if both are PENDING.
 * Returns true if this request is over. */
bool vipl_lo_incomings_match(struct lo_request *request);
/* Ends `in`, because the request of this process that answers it is over. Returns true if the
 * requester has taken up the acceptance: the VI is then connected. */
bool vipl_lo_incoming_unmatch(struct lo_incoming *in);

/* Handles expired deadlines. Lowers *soonest to the next deadline. */
void vipl_lo_incomings_tick(struct lo_remote *remote, uint64_t now, uint64_t *soonest);
/* The NIC handle stops listening for an address: hangs up on the requests for it that no program of
 * this process has claimed. A later listener may get the same place, and a request has one offer
 * for each place. */
void vipl_lo_incomings_forget(struct lo_remote *remote, const struct vipl_address *local);
/* Ends all incoming requests. */
void vipl_lo_incomings_close(struct lo_remote *remote);

#endif
