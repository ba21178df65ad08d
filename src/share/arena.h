/* SPDX-License-Identifier: MIT */
/*
 * Shareable objects: one object in a process and in the children it forks.
 *
 * They live in the *server*, a process that the library starts with the first of them. It runs this same library
 * and has the VIs, queues, regions and connections as its own. The processes that use them, its *clients*, reach it
 * through one piece of shared memory, the arena, which lies at the same address in all of them:
 *
 *   channels   A call goes to the server through a channel: the client writes it there, the server's thread of that
 *              channel makes it and writes what it returned. So every rule of VIPL is applied in one place.
 *   posts      Each client has a ring of its own for the sends that it posts, and goes on; the server posts them (posts.h).
 *   rings      The server writes the completions of a queue into the queue's ring, in order, and a client takes one with
 *              one compare-and-exchange. Reaping needs no call.
 *   heap       VipxAllocShared(): descriptors and buffers, which the server moves data from and to.
 *
 * A client has one socket to the server (note.h). When the socket ends, for whatever reason, the client has ended, and the
 * server drops its references. Before a fork the parent makes the child's socket and sends the server its other end,
 * without waiting for an answer: the server reads what a client has sent before it makes the client's next call, and before
 * it sees the client's end, so the child has what the parent had. A client never holds a lock that another one waits for.
 */
#ifndef VIPL_SHARE_ARENA_H
#define VIPL_SHARE_ARENA_H

#include "share/call.h"

enum {
    VIPL_SHARE_DEPTH = 1024,    /* descriptors per work queue; a power of two */
    VIPL_SHARE_ENTRIES = 65536, /* entries of a completion queue; a power of two */
    VIPL_SHARE_PAGE = 65536,    /* the heap's unit: a multiple of every system's page */
    VIPL_SHARE_CLIENTS = 1024,  /* processes */
    VIPL_SHARE_NICS = 64,
    VIPL_SHARE_POSTS =
        128, /* descriptors that one client has posted and the server has not; a power of two */
    VIPL_SHARE_REGIONS = 4096,   /* registered regions that clients can look up; a power of two */
    VIPL_SHARE_EVENTS = 256,     /* calls of handlers that one client has not made yet; a power of two */
    VIPL_SHARE_OBJECTS = 1 << 16 /* of each kind without a ring */
};
#if UINTPTR_MAX > 0xFFFFFFFFu
enum { VIPL_SHARE_VIS = 65536, VIPL_SHARE_CQS = 256, VIPL_SHARE_CHANNELS = 2048 };
#else
enum { VIPL_SHARE_VIS = 512, VIPL_SHARE_CQS = 32, VIPL_SHARE_CHANNELS = 512 };
#endif

enum vipl_turn { VIPL_TURN_CLIENT, VIPL_TURN_SERVER, VIPL_TURN_OVER };

struct vipl_channel {
    VIPL_FUTEX_WORD uint32_t turn; /* atomic: enum vipl_turn; the side that may read and write the call */
    uint32_t server_asleep;        /* atomic, set by the server, which then looks at turn and sleeps */
    uint32_t client_asleep;        /* atomic, set by the client; likewise */
    uint32_t cancelled;    /* atomic, cleared by the client, then the server's: a blocking call is to end */
    uint32_t sent;         /* guarded by turn: how many notes without an answer the client has sent */
    struct vipl_call call; /* guarded by turn */
};

/* A work queue's completions. Indices run on and wrap as in queue.h. */
struct vipl_ring {
    uint32_t completed; /* atomic: written by the server, after the entry; pairs with the reaper's load */
    uint32_t reaped;    /* atomic: advanced by the client that takes an entry */
    uint32_t
        announced; /* atomic: how many a completion queue has named; advanced by the client that took the entry
                           there, set back to reaped by the server */
    uint32_t signalled; /* atomic: the ready descriptor is readable; see rings.h */
    uint32_t cq;        /* constant: 1 + slot of the completion queue, or 0 */
    uint32_t
        claimed; /* atomic: of a send queue: how many descriptors were posted, or are about to be; see posts.h */
    uint32_t filler[10];
    uint64_t entries[VIPL_SHARE_DEPTH]; /* atomic halves: a descriptor, and VIPL_RING_FAILED */
};
#define VIPL_RING_FAILED (UINT64_C(1) << 63)

struct vipl_vi_rings {
    void *handle; /* atomic: the clients' handle; NULL: the slot is free */
    void *nic;    /* atomic: the handle of its NIC handle */
    struct vipl_ring queues[2];
};

struct vipl_cq_ring {
    void *handle;       /* atomic, as above */
    void *nic;          /* atomic, as above */
    uint32_t pushed;    /* atomic: written by the server, after the entry */
    uint32_t taken;     /* atomic: advanced by the client that takes an entry */
    uint32_t signalled; /* atomic: as that of a ring */
    uint32_t limit;     /* atomic: entries asked for */
    /* Each says that a queue (VI slot << 1 | receive) may have a completion that has not been named yet; whether it
     * has is decided by `announced` of the queue. */
    uint32_t entries[VIPL_SHARE_ENTRIES];
};

/* Calls of handlers that the server wants a client to make. */
struct vipl_event_ring {
    VIPL_FUTEX_WORD uint32_t written; /* atomic: the server's, after the event */
    VIPL_FUTEX_WORD uint32_t read;    /* atomic: the client's, after the handler has returned */
    struct vipl_call_handler events[VIPL_SHARE_EVENTS];
};

/* A descriptor that is to be posted to a send queue. */
struct vipl_submission {
    void *vi; /* the clients' handle */
    void *descriptor;
    VIP_MEM_HANDLE memory;
    uint32_t stamp; /* its place among the posts of all clients */
};

/* What one client has posted. Indices run on and wrap as in queue.h. */
struct vipl_submissions {
    uint32_t tail;     /* atomic: the client's, after the entry; pairs with the server's load */
    uint32_t claiming; /* atomic: the client's; 1 + slot of the VI that it is posting to, or 0 */
    uint32_t filler[14];
    uint32_t head; /* atomic: the server's, after it has posted; pairs with the client's load */
    uint32_t more_filler[15];
    struct vipl_submission entries[VIPL_SHARE_POSTS];
};

/* A registered region, in the place to which its handle leads: another one may have it instead. */
struct vipl_shared_region {
    uint32_t version;      /* atomic: the server's; odd while it changes the rest */
    VIP_MEM_HANDLE memory; /* atomic */
    void *nic;             /* atomic: the clients' NIC handle; NULL: none here */
    void *begin;           /* atomic */
    void *end;             /* atomic */
};

/* Posting without a call. */
struct vipl_posts {
    VIPL_FUTEX_WORD uint32_t
        asleep; /* atomic, set by the server, which then looks at pending and sleeps; a client that clears it wakes it */
    uint32_t filler[15];
    uint32_t stamp; /* atomic: of the next post; advanced by the client that posts */
    uint32_t more_filler[15];
    uint32_t pending[VIPL_SHARE_CLIENTS / 32]; /* atomic: bits of clients that may have posted something */
    struct vipl_submissions clients[VIPL_SHARE_CLIENTS];
    struct vipl_shared_region regions[VIPL_SHARE_REGIONS];
};

/* Which objects a client holds, by slot: written by the server. A handle is good if its object is in that slot, too. */
struct vipl_holding {
    uint32_t vis[VIPL_SHARE_VIS / 32];   /* atomic */
    uint32_t cqs[VIPL_SHARE_CQS / 32];   /* atomic */
    uint32_t nics[VIPL_SHARE_NICS / 32]; /* atomic */
};

/* VipxAllocShared()'s memory. */
struct vipl_heap {
    unsigned char *base;
    size_t bytes;
};

struct vipl_arena {
    struct vipl_heap heap; /* constant; the server goes by a copy of its own */
    uint32_t vis_used; /* atomic: no VI has been in this slot and beyond, nor has its memory been touched */
    uint32_t cqs_used; /* atomic, likewise */
    struct vipl_channel channels[VIPL_SHARE_CHANNELS];
    struct vipl_vi_rings vis[VIPL_SHARE_VIS];
    struct vipl_cq_ring cqs[VIPL_SHARE_CQS];
    struct vipl_event_ring events[VIPL_SHARE_CLIENTS];
    void *nics[VIPL_SHARE_NICS]; /* atomic: the handle of a NIC handle; stays when that is closed */
    struct vipl_holding holdings[VIPL_SHARE_CLIENTS];
    struct vipl_posts posts;
};

static inline bool vipl_share_is_heap(const struct vipl_heap *heap, const void *address, size_t bytes)
{
    uintptr_t offset = (uintptr_t)address - (uintptr_t)heap->base;
    return offset < heap->bytes && bytes <= heap->bytes - offset;
}

/* Whether the caller of a call must have the server's rights. All other calls use what is there, as one uses an open
 * descriptor. */
static inline bool vipl_call_needs_rights(const struct vipl_heap *heap, const struct vipl_call *call)
{
    return (vipl_calls[call->name].properties & VIPL_RIGHTS) != 0 &&
           (call->name != VIPL_CALL_REGISTER ||
            !vipl_share_is_heap(heap, call->a.mem.address, call->a.mem.length));
}

#endif
