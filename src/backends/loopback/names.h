/* SPDX-License-Identifier: MIT */
/*
 * Finding each other between processes, as its three parts know each other: names.c (names, sockets,
 * events and time), calls.c (others who ask us) and walks.c (our own search).
 *
 * A call is a connection somebody made to one of our sockets; a walk is our own search. The socket
 * over which a connection comes about becomes the link's, if the two NIC handles have none yet.
 * Everything runs under the registry's lock.
 */
#ifndef VIPL_LOOPBACK_NAMES_H
#define VIPL_LOOPBACK_NAMES_H

#include "backends/loopback/remote.h"
#include "backends/loopback/request.h"

enum { LO_PLACES = 16 }; /* sockets of one name: processes that wait for one discriminator */

struct lo_listening {
    struct lo_source source;
    struct vipl_list link; /* remote->sockets */
    uint64_t hash;
    unsigned place;
    char kind;          /* 'w' for VipConnectWait(), 'p' for symmetric requests */
    uint64_t resume_at; /* not watched until then: there are no descriptors for those who call; 0: watched */
    bool short_of_fds;  /* as the last call found out */
    uint32_t users;     /* listeners, or walks, that need it */
};

enum call_state { CALL_NEW, CALL_QUEUED, CALL_ACCEPTING };

struct lo_call {
    struct lo_source source;
    struct vipl_list link; /* remote->calls */
    struct lo_remote *remote;
    enum call_state state;
    uint64_t deadline;
    struct lo_hello hello;
    struct vipl_conn *conn;     /* where it waits */
    struct lo_request *request; /* symmetric: what it met */
    struct lo_session *session; /* what came of it */
    bool opened;                /* the caller took it up; the session may be over again. rx */
    int token_fd;               /* who takes the token from it has the request; -1: symmetric */
    int window_fd;              /* of the caller's registered memory; -1: none, or the link has it */
    bool gone;                  /* the caller hung up */
    bool taken;                 /* a program has it before it */
    bool idle;                  /* the caller knows that nobody waits for it */
};

/* One connection of a walk. */
struct lo_asking {
    struct lo_source source; /* fd -1: none */
    struct lo_walk *walk;
    unsigned place;
};

/* A walk has a home where its request is queued. If nobody waits there it goes on asking beside it, for somebody
 * who does. A request that is queued in this process walks too while nobody waits for it there. */
struct lo_walk {
    struct vipl_list link; /* remote->walks */
    struct lo_remote *remote;
    struct lo_request *request;
    struct lo_listening *listening; /* symmetric: where others find us */
    struct lo_asking asking[2];
    struct lo_asking *home; /* one of them; NULL: none */
    bool home_is_idle;      /* nobody waits there */
    unsigned place;         /* the next to ask at */
    uint32_t silent; /* places, a bit each, where somebody listens who did not answer when last asked */
    int token[2];    /* sent into the first, taken from the second, see vipl_lo_token_make(); -1: symmetric */
    unsigned held;   /* how often we hold the token ourselves */
    uint64_t id;
    uint64_t next_try; /* also: when to stop waiting for a first answer */
    uint32_t retry_ms;
};

/* --- names.c --- */

/* The NIC's remote part, made now if need be, and this process's name. NULL: no resources. */
struct lo_remote *vipl_lo_prepare(struct vipl_be_nic *be);
uint64_t vipl_lo_in_ms(uint32_t ms); /* that moment */
uint64_t vipl_lo_hash_of(const struct vipl_address *address);
size_t vipl_lo_name_of(char name[96], char kind, uint64_t hash, unsigned place);
/* Uses of a socket of that name, made now if need be. NULL: no resources. */
struct lo_listening *vipl_lo_open_listening(struct lo_remote *remote, char kind, uint64_t hash);
/* The places of that name that are of this process, a bit each: nobody there is asked over a socket. */
uint32_t vipl_lo_own_places(char kind, uint64_t hash);
void vipl_lo_close_listening(struct lo_remote *remote, struct lo_listening *s); /* NULL is harmless */
uint32_t *vipl_lo_probe(void); /* what a peer has to be able to read */
/* The token of a request. Several programs may have a request before them; one that is about to hand it out takes
 * the token first, so that one gets it. The requester takes it before it hangs up where it might be being taken; if it
 * finds none, it waits to hear by whom. It puts the token in again for the next one that it asks; a program that finds the
 * token only then, and that it was hung up, gives it back. */
bool vipl_lo_token_make(int token[2]); /* false: no descriptors */
void vipl_lo_token_close(const int token[2]);
bool vipl_lo_token_take_own(const int token[2]); /* the requester's */
void vipl_lo_token_return(const int token[2]);
bool vipl_lo_token_take(int fd); /* a program's that was asked */
void vipl_lo_token_give_back(int fd);
bool vipl_lo_can_reach(const struct lo_remote *remote, int pid, uint64_t address, uint32_t value);

/* --- calls.c --- */

void vipl_lo_call_begin(struct lo_remote *remote, int fd);
void vipl_lo_call_end(struct lo_call *call);
void vipl_lo_call_event(struct lo_call *call, bool hangup);
/* Whether the caller took up the acceptance. If not, the session is still there, and *dead says whether its
 * link is. */
bool vipl_lo_call_is_opened(const struct lo_call *call, bool *dead);
/* Ends what has waited too long; *soonest becomes the next such time if it is sooner. */
void vipl_lo_calls_tick(struct lo_remote *remote, uint64_t now, uint64_t *soonest);

/* --- walks.c --- */

void vipl_lo_walk_hang_up(struct lo_walk *walk); /* everywhere */
bool vipl_lo_walk_asks(const struct lo_walk *walk);
void vipl_lo_walk_event(struct lo_asking *asking);
void vipl_lo_walks_tick(struct lo_remote *remote, uint64_t now, uint64_t *soonest);

#endif
