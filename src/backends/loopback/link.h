/* SPDX-License-Identifier: MIT */
/*
 * A link: two NIC handles of two processes. One socket (its hang-up is the peer's death, its bytes
 * wake a sleeper) and one shared segment with a ring each way serve every VI between the two,
 * so a VI costs neither descriptor nor ring.
 *
 * Locks: `rx` of the NIC's lo_remote (rank BACKEND_RX) guards the links, their receiving side and
 * their table of sessions; a link's `tx` (rank BACKEND_TX) guards its sending side and its request slots.
 *
 * A request slot stands for something to which the peer owes us a reply. There are LO_REQUEST_SLOTS per link, which
 * bounds the replies under way. Its generation is counted up when the send it stood for is flushed: a
 * peer that was fetching that send's data then finds the generation changed and drops what it has.
 */
#ifndef VIPL_LOOPBACK_LINK_H
#define VIPL_LOOPBACK_LINK_H

#include "backends/loopback/exports.h"
#include "backends/loopback/loopback.h"
#include "backends/loopback/ring.h"
#include "os/os_atomic.h"
#include "os/os_biased.h"

enum lo_source_kind {
    LO_SOURCE_LINK,
    LO_SOURCE_SETUP, /* the poll set of connecting, in the one of links */
    LO_SOURCE_SOCKET,
    LO_SOURCE_INCOMING,
    LO_SOURCE_OFFER
};

/* What a descriptor in the poll set belongs to: the first member of each such object. */
struct lo_source {
    enum lo_source_kind kind;
    int fd;
};

enum {
    LO_SEGMENT_MAGIC = 0x56504C31,
    LO_VERSION = 6,
    LO_UID = 16,
    LO_GENERATION_BITS = 12,
    LO_PERMISSIONS = 1024,
    LO_MAX_CHUNK = 16384,
    LO_RDMA_PREFIX = 16,
    LO_KNOWN = 8 /* discriminators, of which a NIC handle remembers where their listeners are */
};

/* The start of a shared segment; two rings follow, the creator's outgoing one first. */
struct lo_segment {
    uint32_t magic;
    uint32_t version;
    uint32_t byte_order; /* 0x01020304 as its writer stores it */
    uint32_t word_bits;
    uint32_t slots; /* of each ring */
    uint32_t pad[11];
    /* [side]: sessions of that side which are open to direct access, see lo_permission() */
    uint32_t permissions[2][LO_PERMISSIONS];
    struct lo_accesses accesses[2]; /* [side]: what that side has under way, see exports.h */
};

/* Where a session's number stands while the peer may access directly what the session's VI may be asked for. Two that
 * want one word: the later one does without, and its RDMA goes through the rings. */
static inline uint32_t *lo_permission(struct lo_segment *segment, unsigned side, uint32_t number)
{
    return &segment->permissions[side][(number >> LO_GENERATION_BITS) % LO_PERMISSIONS];
}

/* A request slot's name in messages: never 0. */
static inline uint32_t lo_slot_name(uint32_t number, uint32_t generation)
{
    return UINT32_C(0x80000000) | number << 16 | (generation & 0xFFFF);
}
static inline uint32_t lo_slot_number(uint32_t name)
{
    return name >> 16 & (LO_REQUEST_SLOTS - 1);
}

struct lo_request_slot {
    struct lo_session *session; /* NULL: free, or its send was flushed */
    uint32_t name;              /* as in messages */
    uint32_t sequence;
    uint32_t bytes;
    uint32_t resent; /* bytes that have gone through the ring after all */
    bool busy;
    bool rendezvous; /* a message that the peer fetches */
    bool resending;  /* the peer cannot: it is sent again, through the ring */
};

/* An RDMA Read of the peer's that is answered in chunks. */
struct lo_read {
    uint32_t session; /* ours */
    uint32_t slot;
    uint32_t handle;
    uint32_t total;
    uint32_t offset;
    uint64_t address;
};

struct lo_link {
    struct lo_source source;
    struct vipl_list link; /* remote->links; rx */
    struct vipl_be_nic *be;
    uint64_t id;              /* constant: the creator's random number */
    uint8_t peer_uid[LO_UID]; /* constant: the other NIC handle */
    struct vipl_peer peer;    /* the other process; its mark is constant from vipl_lo_link_probe() on */
    unsigned side;            /* constant: 0 creator, 1 the other */
    struct vipl_shm shm;      /* constant */
    struct lo_segment *segment;
    struct vipl_shm exports; /* constant: the peer's registered memory, read-only */
    struct lo_mapped
        *mapped; /* atomic: the peer's shared memory that we have mapped, the latest first; added under tx */
    uint32_t direct_access;      /* atomic: we may access the peer's memory */
    uint32_t peer_direct_access; /* atomic: the peer may access ours */
    bool makes_barriers;    /* constant: this process makes and takes part in barriers in all processes */
    bool claims_sent;       /* the peer has had the descriptor of our claim words over the line; registry */
    struct vipl_shm claims; /* the peer's claim words; base NULL: it has not asked over the line; registry */
    bool confirmed;         /* rx: both ends have it, so that connections may share it */
    bool hung_up;           /* rx: the peer has gone, its last messages may be in the ring */
    bool stuck;             /* rx: the peer has been waited for in vain, and is still inside our memory */
    uint32_t dead;          /* atomic: written under rx */
    uint32_t tx_ended;      /* atomic: nothing more is to be sent, for the peer has ended, or the link has */

    struct vipl_biased tx;
    struct lo_ring out;              /* tx */
    struct vipl_list blocked;        /* lo_session.blocked: told AGAIN; tx */
    struct vipl_list pending_closes; /* lo_session.blocked: ended, CLOSE not yet sent; tx */
    struct lo_request_slot request_slots[LO_REQUEST_SLOTS]; /* tx */
    uint32_t waiting;    /* atomic: blocked or pending_closes may not be empty; written under tx */
    uint32_t next_slot;  /* tx */
    uint32_t free_slots; /* tx */
    bool resending;      /* rx: some request slots may be */
    size_t held_bytes;   /* rx: of all sessions' held messages */

    struct lo_ring in;                      /* rx */
    struct lo_session **sessions;           /* rx: by number; NULL: free */
    uint32_t session_slots;                 /* rx */
    uint32_t first_free;                    /* rx: no slot before it is free */
    uint32_t sessions_opened;               /* rx: counts sessions ever opened */
    uint32_t access_epochs;                 /* rx: as we have told the peer, lo_accesses.used */
    struct lo_read reads[LO_REQUEST_SLOTS]; /* rx: a queue */
    uint32_t reads_first;                   /* rx */
    uint32_t reads_count;                   /* rx */
};

/* The region of the peer's that a session has used last: its export table need not be searched again while its
 * epoch is the same, for no region has ended or changed then (direct.c). All zero: none. */
struct lo_recent {
    uint32_t handle;
    uint32_t epoch;
    struct lo_exported region;
    unsigned char *mapped; /* where its start is mapped here; NULL: it cannot be */
};

/* One VI's connection over a link. Written under the registry's lock and rx; fields as noted. */
struct lo_session {
    struct lo_link *link;         /* constant */
    struct vipl_vi *vi;           /* constant */
    uint32_t number;              /* constant: ours; slot << LO_GENERATION_BITS | generation; never 0 */
    uint32_t peer_number;         /* constant once open */
    struct vipl_vi_params params; /* constant once open: the peer VI's */
    uint32_t peer_tag;            /* constant once open: the memory the peer VI may name; 0: any */
    bool open;                    /* rx */
    bool *opened;                 /* to be set when it opens; may be NULL; rx */
    bool broken;                  /* rx: on the list of those to be told */
    bool has_permission;      /* it got its permission word; written under rx before the VI is connected */
    bool peer_makes_barriers; /* and this process takes part in them; as `has_permission` */
    uint32_t *
        peer_permission; /* constant once open: the permission word of the peer's session, see lo_permission() */
    uint32_t *access;    /* constant: its word in the segment, see lo_accesses; NULL: it has none */
    uint32_t access_idle;     /* of that word, while no access is under way; send lock */
    struct vipl_list blocked; /* link->blocked or ->pending_closes; tx */
    uint32_t tx_offset;       /* bytes of the head of the send queue already in the ring; send lock */
    uint32_t tx_slot;         /* of that send; send lock */
    uint32_t tx_refusal;      /* VIP_STATUS error bits: the peer will not have its rest; send lock */
    struct lo_recent recent;  /* send lock */
    bool tx_held;             /* a message is sent again, and others wait; send lock */
    uint32_t awaited;         /* slot of the message that is to be sent again; 0: none; rx */
    struct vipl_list held;    /* lo_held.link: what followed it; rx */
    bool rx_dropping;         /* the rest of a message nobody takes is thrown away; rx */
    uint32_t rx_status;       /* why, for the sender; rx */
};

struct lo_remote;
/* Connecting, as far as the links know of it. */
struct lo_setup {
    /* Goes on with what other processes have sent, and with what waits for a time. `sockets`: those of connecting have something.
     * Takes the registry's lock. */
    void (*progress)(struct lo_remote *remote, bool sockets);
    /* Goes on with what waits for a time. Milliseconds until the next; -1: nothing waits. The registry's lock is held. */
    int (*tick)(struct lo_remote *remote);
    void (*close)(struct lo_remote *remote); /* the registry's lock is held */
    /* The link is dead: nothing is asked or answered over it any more. The registry's lock is held, rx is not. */
    void (*link_gone)(struct lo_link *link);
};

/* Where listeners for a discriminator of that hash were found last; no more than a hint. */
struct lo_known {
    uint64_t hash;
    uint32_t places; /* a bit each */
    uint64_t link;   /* the link over which the last one answered; 0: none */
};

/* Everything a NIC handle has to do with other processes. Made at the first need, kept until close. From a pool: a thread that polls
 * may come late, and sees under `rx` whose it is. What follows `be` begins at zero, but for lists. */
struct lo_remote {
    struct vipl_list free;    /* in the pool */
    struct vipl_biased rx;    /* rank BACKEND_RX */
    uint32_t look_at_sockets; /* atomic: a sleeper has been woken */
    uint32_t request_count;   /* atomic: our unanswered requests; written under the registry */
    uint32_t polled_at;       /* atomic: when last, in units of about a millisecond */
    uint32_t spacing;         /* atomic: ticks until the next time, about as many as make a millisecond */
    struct vipl_be_nic *be;   /* constant while live; written under rx; NULL: in the pool */
    const struct lo_setup *connecting; /* constant */
    uint8_t uid[LO_UID];               /* constant */
    struct vipl_pollset set;           /* constant: the links, and `setup` */
    struct vipl_pollset setup;         /* constant: what connecting watches */
    struct lo_source setup_source;     /* constant */
    struct vipl_list sockets;          /* lo_socket.link; registry */
    struct vipl_list incomings;        /* lo_incoming.link; registry */
    struct lo_claims *claims;          /* of our requests; NULL: there were none; registry */
    struct lo_known known[LO_KNOWN];   /* registry */
    struct vipl_list controls;         /* lo_control.link: came over links' sockets, for connecting; rx */
    uint32_t incoming_count;           /* registry */
    /* atomic: something of connecting waits for a time; written under the registry. A thread that is about to sleep reads it
     * without: it is never 0 meanwhile. */
    uint32_t timed;
    bool timed_again;       /* so does something else, since the last tick began; registry */
    uint32_t dead_links;    /* atomic: links are to be removed; written under rx */
    struct vipl_list links; /* rx */
    struct vipl_iov pieces[VIPL_MAX_SEGMENTS]; /* of the message that is fetched, in the peer's memory; rx */
    uint32_t link_count;                       /* atomic: written under rx */
    uint32_t waiting_threads;                  /* rx: sleepers */
};

static inline struct lo_remote *lo_remote_of(const struct vipl_be_nic *be) /* NULL: none was needed yet */
{
    return (struct lo_remote *)vipl_load_ptr(&be->remote); /* pairs with vipl_lo_remote_get */
}

/* The link is of no use any more. rx is held. */
static inline void lo_set_dead(struct lo_link *link)
{
    vipl_store_relaxed(&link->dead, 1);
    vipl_store_relaxed(&link->tx_ended, 1);
}

/* Something of connecting waits for a time from now on. The registry's lock is held. */
static inline void lo_set_timed(struct lo_remote *remote)
{
    vipl_store_relaxed(&remote->timed, 1);
    remote->timed_again = true;
}

extern uint8_t vipl_lo_process_uid[LO_UID]; /* this copy of the library; registry */
extern struct vipl_peer_mark vipl_lo_mark;  /* by which peers know this process's memory; registry */

/* --- link.c --- */

/* The NIC's remote part, made now if need be, with this process's identity. NULL: no resources. The registry's lock is held. */
struct lo_remote *vipl_lo_remote_get(struct vipl_be_nic *be, const struct lo_setup *connecting);
/* A link over a connected socket, as its creator or from what the creator sent. NULL: no resources, or a
 * segment that is not what it should be. Takes over all descriptors on success. Registry held. */
struct lo_link *vipl_lo_link_create(struct lo_remote *remote, int fd, int exports_fd,
                                    const uint8_t peer_uid[LO_UID]);
struct lo_link *vipl_lo_link_attach(struct lo_remote *remote, int fd, int shm_fd, int exports_fd, uint64_t id,
                                    uint32_t slots, const uint8_t peer_uid[LO_UID]);
/* The live link to that NIC handle, if both ends are known to have it; or, for NULL, the one with that number. NULL: none. */
struct lo_link *vipl_lo_link_find(struct lo_remote *remote, const uint8_t *peer_uid, uint64_t id);
/* Takes what has come over the links' sockets, all of it (control.h), and receives what the wake-ups among it were for. True: the
 * sockets of connecting may have something. rx is not held; the registry's lock may be. */
bool vipl_lo_links_read_sockets(struct lo_remote *remote);
/* Whether both ends are known to have the link, and it is alive. */
bool vipl_lo_link_is_confirmed(struct lo_link *link);
/* A new link that nothing came of: closes its descriptors, later. */
void vipl_lo_link_drop(struct lo_link *link);
/* Notes the mark of the peer's program, and finds out whether this process can access its memory. */
void vipl_lo_link_probe(struct lo_link *link, const struct vipl_peer_mark *mark);
void vipl_lo_link_wake(struct lo_link *link);

/* A message whose place in the ring was claimed goes out. `tx` is held, and given back. */
static inline void lo_publish(struct lo_link *link, const struct lo_message *message)
{
    bool wake = vipl_lo_ring_publish(&link->out, message);
    vipl_biased_unlock(&link->tx);
    if (wake) {
        vipl_lo_link_wake(link);
    }
}
/* Sends a message without payload; false: no room. */
bool vipl_lo_link_reply(struct lo_link *link, const struct lo_message *message);

/* --- progress over all links of a NIC handle; no lock is held --- */

void vipl_lo_remote_poll(struct vipl_be_nic *be);
/* Receives from all links, unless another thread is at it, or the remote part is not this NIC handle's any more. */
void vipl_lo_remote_receive(struct lo_remote *remote, const struct vipl_be_nic *be);
void vipl_lo_remotes_abandon(void); /* in a forked child */
void vipl_lo_remote_prepare_wait(struct vipl_be_nic *be, struct vipl_poll_hint *hint);
void vipl_lo_remote_finish_wait(struct vipl_be_nic *be, const struct vipl_poll_hint *hint);
void vipl_lo_remote_close(struct vipl_be_nic *be);

#endif
