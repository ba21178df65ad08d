/* SPDX-License-Identifier: MIT */
/*
 * A link connects two NIC handles of two processes. It has one socket and one shared segment with a
 * ring in each direction, and serves every VI between the two: a VI costs neither a descriptor nor
 * a ring. The hang-up of the socket tells that the peer has died.
 *
 * A peer that sleeps is woken by a byte on the socket, until it has passed a shared waker (os.h)
 * of this link, beside such a byte. A process passes one before it sleeps for the first time after
 * both ends have the link. The peer may do with that waker what it likes: only its own messages
 * depend on it.
 *
 * Locks: `rx` of the NIC's lo_remote (rank BACKEND_RX) guards the list of links, their receiving
 * side and their tables of sessions. A link's `tx` (rank BACKEND_TX) guards its sending side and
 * its request slots.
 *
 * A request slot stands for a message to which the peer has to reply. A link has LO_REQUEST_SLOTS
 * of them, which bounds the number of outstanding replies. When the send that a slot stands for is
 * flushed, the slot's generation is incremented: a peer that is fetching the data of that send then
 * sees that the generation has changed, and drops the data.
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
    LO_SOURCE_WAKER, /* of a link */
    LO_SOURCE_SETUP, /* the poll set of connecting, which is a member of the poll set of links */
    LO_SOURCE_SOCKET,
    LO_SOURCE_INCOMING,
    LO_SOURCE_OFFER
};

/* Tells what a descriptor in a poll set belongs to. The first member of each object that has
 * one. */
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
    LO_KNOWN = 8 /* discriminators of which a NIC handle remembers where the listeners are */
};

/* The start of a shared segment. Two rings follow; the creator's outgoing one comes first. */
struct lo_segment {
    uint32_t magic;
    uint32_t version;
    uint32_t byte_order; /* 0x01020304, as the creator stores it */
    uint32_t word_bits;
    uint32_t slots; /* of each ring */
    uint32_t pad[11];
    /* [side]: the direct-access permissions of that side's sessions, see lo_permission() */
    uint32_t permissions[2][LO_PERMISSIONS];
    /* [side]: the accesses that this side has begun, see exports.h */
    struct lo_accesses accesses[2];
};

/* Returns the permission word of a session: the word has the session's number while the peer may
 * access the memory of the session's VI directly. Of two sessions that share a word, the later one
 * gets no permission, and its RDMA goes through the rings. */
static inline uint32_t *lo_permission(struct lo_segment *segment, unsigned side, uint32_t number)
{
    return &segment->permissions[side][(number >> LO_GENERATION_BITS) % LO_PERMISSIONS];
}

/* Returns the name by which messages refer to a request slot; never 0. */
static inline uint32_t lo_slot_name(uint32_t number, uint32_t generation)
{
    return UINT32_C(0x80000000) | number << 16 | (generation & 0xFFFF);
}
static inline uint32_t lo_slot_number(uint32_t name)
{
    return name >> 16 & (LO_REQUEST_SLOTS - 1);
}

/* One request slot. */
struct lo_request_slot {
    struct lo_session *session; /* NULL: the slot is free, or its send was flushed */
    uint32_t name;              /* see lo_slot_name() */
    uint32_t sequence;
    uint32_t bytes;
    uint32_t resent; /* bytes of a rendezvous send that have been sent again through the ring */
    bool busy;
    bool rendezvous; /* the slot stands for a rendezvous send */
    bool resending;  /* the peer cannot fetch the message, which is sent again through the ring */
};

/* An RDMA Read that the peer has requested and that this process answers in chunks. */
struct lo_read {
    uint32_t session; /* the number of this process's session */
    uint32_t slot;
    uint32_t handle;
    uint32_t total;
    uint32_t offset;
    uint64_t address;
};

/* One end of a link. */
struct lo_link {
    struct lo_source source;
    struct vipl_list link; /* remote->links; rx */
    struct vipl_be_nic *be;
    uint64_t id;              /* constant: a random number of the creator */
    uint8_t peer_uid[LO_UID]; /* constant: identifies the peer's NIC handle */
    struct vipl_peer peer;    /* the peer's process; the mark is set by vipl_lo_link_probe() */
    unsigned side;            /* constant: 0 for the creator, 1 for the other end */
    struct vipl_shm shm;      /* constant */
    struct lo_segment *segment;
    /* constant: the peer's export table, read-only; base NULL: not mapped */
    struct vipl_shm exports;
    /* atomic: the peer's shared memory that this process has mapped, the latest first; added under
     * tx */
    struct lo_mapped *mapped;
    uint32_t direct_access;      /* atomic: this process may access the peer's memory */
    uint32_t peer_direct_access; /* atomic: the peer may access this process's memory */
    /* rx: the shared waker that the peer signals; fd -1: not passed */
    struct lo_source waker;
    bool passes_waker; /* rx: this process has passed the waker, or has failed to */
    /* atomic: the descriptor of the peer's shared waker, plus 1; 0: not received. Written once,
     * under rx; take_waker()'s release pairs with vipl_lo_link_wake(), which has no lock. */
    uint32_t peer_waker_plus_one;
    /* constant: this process takes part in barriers in all processes, and can make them */
    bool makes_barriers;
    /* the peer has the descriptor of this NIC handle's claim words; registry */
    bool claims_sent;
    struct vipl_shm claims; /* the peer's claim words; base NULL: not received yet; registry */
    /* rx: both ends have the link, so that further connections may use it */
    bool confirmed;
    bool hung_up; /* rx: the peer has died; its last messages may still be in the ring */
    /* rx: a wait for the peer's direct accesses has timed out, and one of them is still going on */
    bool stuck;
    uint32_t dead; /* atomic: written under rx */
    /* atomic: nothing more is sent, because the peer has ended or the link is dead */
    uint32_t tx_ended;

    struct vipl_biased tx;
    struct lo_ring out;       /* tx */
    struct vipl_list blocked; /* lo_session.blocked: sends that wait for room; tx */
    /* lo_session.blocked: ended sessions whose CLOSE is not sent yet; tx */
    struct vipl_list pending_closes;
    struct lo_request_slot request_slots[LO_REQUEST_SLOTS]; /* tx */
    uint32_t waiting;    /* atomic: blocked or pending_closes may not be empty; written under tx */
    uint32_t next_slot;  /* tx */
    uint32_t free_slots; /* tx */
    bool resending;      /* rx: some request slots may be resending */
    size_t held_bytes;   /* rx: of the held messages of all sessions */

    struct lo_ring in;                      /* rx */
    struct lo_session **sessions;           /* rx: by number; NULL: free */
    uint32_t session_slots;                 /* rx */
    uint32_t first_free;                    /* rx: no slot before this one is free */
    uint32_t sessions_opened;               /* rx: the number of sessions ever opened */
    uint32_t access_epochs;                 /* rx: the value of lo_accesses.used of this side */
    struct lo_read reads[LO_REQUEST_SLOTS]; /* rx: a queue */
    uint32_t reads_first;                   /* rx */
    uint32_t reads_count;                   /* rx */
};

/* The region that a session has accessed last, as found in the peer's export table. The entry is
 * valid while the table has the same epoch, because no region has ended or changed then (direct.c).
 * All zero: none. */
struct lo_recent {
    uint32_t handle;
    uint32_t epoch;
    struct lo_exported region;
    /* where the start of the region is mapped in this process; NULL: it is not */
    unsigned char *mapped;
};

/* One end of a connection over a link, for one VI. Written under the registry's lock and rx; fields
 * as noted. */
struct lo_session {
    struct lo_link *link;         /* constant */
    struct vipl_vi *vi;           /* constant */
    uint32_t number;              /* constant: slot << LO_GENERATION_BITS | generation; never 0 */
    uint32_t peer_number;         /* constant once open */
    struct vipl_vi_params params; /* constant once open: those of the peer VI */
    /* constant once open: the protection tag of the peer VI; 0: any */
    uint32_t peer_tag;
    bool open;    /* rx */
    bool *opened; /* set to true when the session opens; may be NULL; rx */
    bool broken;  /* rx: the loss of the connection has been reported */
    /* the session has its permission word; written under rx before the VI is connected */
    bool has_permission;
    /* the peer makes barriers in all processes, and this process takes part in them; written as
     * `has_permission` */
    bool peer_makes_barriers;
    uint32_t *peer_permission; /* constant once open: the peer session's permission word */
    uint32_t *access;          /* constant: the session's word in lo_accesses; NULL: it has none */
    /* the value of *access while the session does not access; send lock */
    uint32_t access_idle;
    struct vipl_list blocked; /* link->blocked or ->pending_closes; tx */
    uint32_t tx_offset;       /* bytes of the oldest send that are in the ring already; send lock */
    uint32_t tx_slot;         /* the request slot of that send; send lock */
    /* VIP_STATUS error bits: the peer refuses the rest of that send; send lock */
    uint32_t tx_refusal;
    struct lo_recent recent; /* send lock */
    bool tx_held;            /* a rendezvous send is sent again, and later sends wait; send lock */
    /* the request slot of the message that the peer sends again; 0: none; rx */
    uint32_t awaited;
    struct vipl_list held; /* lo_held.link: the messages that followed that one; rx */
    bool rx_dropping;      /* no receive took the message: its further chunks are dropped; rx */
    uint32_t rx_status;    /* the status of the current message, for the sender; rx */
    uint32_t reads;        /* atomic: of link->reads; written under rx, which core does not hold */
};

struct lo_remote;
/* The operations by which the links call into connecting (names.c). */
struct lo_setup {
    /* Handles what other processes have sent, and expired deadlines. `sockets`: the sockets of
     * connecting may have something. Takes the registry's lock. */
    void (*progress)(struct lo_remote *remote, bool sockets);
    /* Handles expired deadlines. Returns the milliseconds until the next deadline, or -1 if there
     * is none. The registry's lock is held. */
    int (*tick)(struct lo_remote *remote);
    void (*close)(struct lo_remote *remote); /* the registry's lock is held */
    /* The link is dead: ends the offers and incoming requests whose control messages went over it.
     * The registry's lock is held, rx is not. */
    void (*link_gone)(struct lo_link *link);
};

/* A hint: where listeners for a discriminator of that hash were found last. */
struct lo_known {
    uint64_t hash;
    uint32_t places; /* a bit for each place (names.h) */
    uint64_t link;   /* the id of the link to the listener that accepted last; 0: none */
};

/* The part of a NIC handle that communicates with other processes. Made when it is first needed,
 * and kept until the NIC handle is closed. Its memory is from a pool: a thread that polls may come
 * late, and sees under `rx` which NIC handle it belongs to. The members from `connecting` on begin
 * at zero, except lists. */
struct lo_remote {
    struct vipl_list free; /* in the pool */
    struct vipl_biased rx; /* rank BACKEND_RX */
    /* atomic: the next poll reads the sockets, for example after a sleep */
    uint32_t look_at_sockets;
    /* atomic: unanswered requests of this NIC handle; written under the registry */
    uint32_t request_count;
    /* atomic: when the sockets were read last, in units of about a millisecond */
    uint32_t polled_at;
    /* atomic: the ticks from one time to the next, about a millisecond */
    uint32_t spacing;
    /* constant while live; written under rx; NULL: in the pool */
    struct vipl_be_nic *be;
    const struct lo_setup *connecting; /* constant */
    uint8_t uid[LO_UID];               /* constant */
    struct vipl_pollset set;           /* constant: the sockets of links, and `setup` */
    struct vipl_pollset setup;         /* constant: the sockets of connecting */
    struct lo_source setup_source;     /* constant */
    struct vipl_list sockets;          /* lo_socket.link; registry */
    struct vipl_list incomings;        /* lo_incoming.link; registry */
    /* the claim words of this NIC handle's requests; NULL: no request yet; registry */
    struct lo_claims *claims;
    struct lo_known known[LO_KNOWN]; /* registry */
    /* lo_control.link: control messages that were received; rx */
    struct vipl_list controls;
    uint32_t incoming_count; /* registry */
    /* atomic: connecting has a deadline; written under the registry. A thread that is about to
     * sleep reads this word without that lock: it is never 0 while there is a deadline. */
    uint32_t timed;
    bool timed_again;       /* a deadline was added since the last tick began; registry */
    uint32_t dead_links;    /* atomic: there are dead links to be removed; written under rx */
    struct vipl_list links; /* rx */
    /* where the message that is fetched lies in the peer's memory; rx */
    struct vipl_iov pieces[VIPL_MAX_SEGMENTS];
    uint32_t link_count;      /* atomic: written under rx */
    uint32_t waiting_threads; /* rx: the threads that sleep */
};

/* Returns the NIC handle's remote part; NULL: it was not needed yet. */
static inline struct lo_remote *lo_remote_of(const struct vipl_be_nic *be)
{
    return (struct lo_remote *)vipl_load_ptr(&be->remote); /* pairs with vipl_lo_remote_get */
}

/* Marks the link as dead: it is torn down by the next poll. rx is held. */
static inline void lo_set_dead(struct lo_link *link)
{
    vipl_store_relaxed(&link->dead, 1);
    vipl_store_relaxed(&link->tx_ended, 1);
}

/* Notes that connecting has a new deadline. The registry's lock is held. */
static inline void lo_set_timed(struct lo_remote *remote)
{
    vipl_store_relaxed(&remote->timed, 1);
    remote->timed_again = true;
}

extern uint8_t vipl_lo_process_uid[LO_UID]; /* the identity of this process; registry */
extern struct vipl_peer_mark vipl_lo_mark;  /* the mark of this program, for its peers; registry */

/* --- link.c --- */

/* Returns the NIC handle's remote part, and makes it and this process's identity if they are
 * missing. NULL: no resources. The registry's lock is held. */
struct lo_remote *vipl_lo_remote_get(struct vipl_be_nic *be, const struct lo_setup *connecting);
/* Make a link over a connected socket: vipl_lo_link_create() makes the segment,
 * vipl_lo_link_attach() maps the one that the peer has made and sent. NULL: no resources, or the
 * segment is not valid. On success the link owns the descriptors. The registry's lock is held. */
struct lo_link *vipl_lo_link_create(struct lo_remote *remote, int fd, int exports_fd,
                                    const uint8_t peer_uid[LO_UID]);
struct lo_link *vipl_lo_link_attach(struct lo_remote *remote, int fd, int shm_fd, int exports_fd, uint64_t id,
                                    uint32_t slots, const uint8_t peer_uid[LO_UID]);
/* Returns the confirmed live link to the NIC handle `peer_uid` or, if `peer_uid` is NULL, the live
 * link with that id. NULL: there is none. The registry's lock is held, rx is not. */
struct lo_link *vipl_lo_link_find(struct lo_remote *remote, const uint8_t *peer_uid, uint64_t id);
/* Reads everything that has come over the links' sockets (control.h), and then receives from all
 * links, because a wake-up that was read may have been for another thread. Returns true if the
 * sockets of connecting may have something. rx is not held; the registry's lock may be. */
bool vipl_lo_links_read_sockets(struct lo_remote *remote);
/* Whether both ends are known to have the link, and the link is alive. Takes rx. */
bool vipl_lo_link_is_confirmed(struct lo_link *link);
/* Gives up a new link that is not used: marks it as dead. A later poll closes its descriptors.
 * Takes rx. */
void vipl_lo_link_drop(struct lo_link *link);
/* Sets the mark of the peer program, and finds out whether this process may access the peer's
 * memory. */
void vipl_lo_link_probe(struct lo_link *link, const struct vipl_peer_mark *mark);
/* Wakes the peer's sleepers. */
void vipl_lo_link_wake(struct lo_link *link);

/* Publishes a message whose place in the ring was claimed, releases `tx`, which the caller holds,
 * and wakes the peer if it sleeps. */
static inline void lo_publish(struct lo_link *link, const struct lo_message *message)
{
    bool wake = vipl_lo_ring_publish(&link->out, message);
    vipl_biased_unlock(&link->tx);
    if (wake) {
        vipl_lo_link_wake(link);
    }
}
/* Sends a message without payload, in the reserve for replies. Returns false if there is no room.
 * Takes tx. */
bool vipl_lo_link_reply(struct lo_link *link, const struct lo_message *message);

/* --- progress over all links of a NIC handle; no lock is held --- */

/* As vipl_backend.poll: receives from all links, and reads the sockets if that is due. */
void vipl_lo_remote_poll(struct vipl_be_nic *be);
/* Receives from all links, unless another thread does so now, or the remote part belongs to another
 * NIC handle by now. */
void vipl_lo_remote_receive(struct lo_remote *remote, const struct vipl_be_nic *be);
void vipl_lo_remotes_abandon(void); /* in a forked child: forgets all remote parts */
/* As vipl_backend.prepare_wait and .finish_wait. */
void vipl_lo_remote_prepare_wait(struct vipl_be_nic *be, struct vipl_poll_hint *hint);
void vipl_lo_remote_finish_wait(struct vipl_be_nic *be, const struct vipl_poll_hint *hint);
/* Closes the remote part and its links. The NIC handle has no VI left. */
void vipl_lo_remote_close(struct vipl_be_nic *be);

#endif
