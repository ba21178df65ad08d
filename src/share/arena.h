/* SPDX-License-Identifier: MIT */
/*
 * Shareable objects: one object in a process and in the children that it forks.
 *
 * The objects live in the *server*, a process that the library starts with the first of them. The
 * server runs this same library, and has the VIs, queues, regions and connections as its own. The
 * processes that use them are its *clients*. They reach the server through one piece of shared
 * memory, the arena, which lies at the same address in all of them:
 *
 *   channels   A client writes a call into a channel. The server's thread of that channel makes the
 *              call and writes the result, so every rule of VIPL is applied in one place.
 *   posts      A client writes the sends that it posts into a ring of its own, and goes on. The
 *              server posts them (posts.h).
 *   rings      The server writes the completions of a queue into the queue's ring, in order. A
 *              client takes one by one compare-and-exchange; reaping needs no call.
 *   heap       VipxAllocShared(): descriptors and buffers, which the server moves data from and to.
 *
 * A client has one socket to the server (note.h). When the socket ends, for any reason, the client
 * has ended, and the server drops its references. Before a fork the parent makes the child's
 * socket, and sends its other end to the server without waiting for a reply. The server reads what
 * a client has sent before it makes the client's next call, and before it handles the client's end;
 * so the child has what the parent had. A client never holds a lock that another client waits for.
 */
#ifndef VIPL_SHARE_ARENA_H
#define VIPL_SHARE_ARENA_H

#include "share/call.h"

enum {
    VIPL_SHARE_DEPTH = 1024,    /* descriptors per work queue; a power of two */
    VIPL_SHARE_ENTRIES = 65536, /* entries per completion queue; a power of two */
    VIPL_SHARE_PAGE = 65536,    /* the heap's unit: a multiple of the page of every system */
    VIPL_SHARE_CLIENTS = 1024,  /* processes that share objects */
    VIPL_SHARE_NICS = 64,
    /* Descriptors that one client has posted and the server has not; a power of two. */
    VIPL_SHARE_POSTS = 128,
    VIPL_SHARE_REGIONS = 4096,   /* registered regions that clients can look up; a power of two */
    VIPL_SHARE_EVENTS = 256,     /* handler calls that one client has not made; a power of two */
    VIPL_SHARE_OBJECTS = 1 << 16 /* objects of each kind that has no ring */
};
#if UINTPTR_MAX > 0xFFFFFFFFu
enum { VIPL_SHARE_VIS = 65536, VIPL_SHARE_CQS = 256, VIPL_SHARE_CHANNELS = 2048 };
#else
enum { VIPL_SHARE_VIS = 512, VIPL_SHARE_CQS = 32, VIPL_SHARE_CHANNELS = 512 };
#endif

enum vipl_turn { VIPL_TURN_CLIENT, VIPL_TURN_SERVER, VIPL_TURN_OVER };

struct vipl_channel {
    /* atomic: enum vipl_turn: which side may read and write the call */
    VIPL_FUTEX_WORD uint32_t turn;
    uint32_t server_asleep; /* atomic: set by the server, which then checks `turn` and sleeps */
    uint32_t client_asleep; /* atomic: set by the client, which does the same */
    /* Atomic: cleared by the client before the call, set by the server: a blocking
     * call must end. */
    uint32_t cancelled;
    uint32_t sent;         /* guarded by `turn`: notes without a reply that the client has sent */
    struct vipl_call call; /* guarded by `turn` */
};

/* The completions of a work queue. Indices run on and wrap as in queue.h. */
struct vipl_ring {
    /* atomic: written by the server, after the entry; pairs with the reaper's load */
    uint32_t completed;
    uint32_t reaped; /* atomic: advanced by the client that takes an entry */
    /* Atomic: how many of the completions a completion queue has named. Advanced by the client that
     * took the entry there, set back to `reaped` by the server. */
    uint32_t announced;
    uint32_t signalled; /* atomic: the ready descriptor is readable; see rings.h */
    uint32_t cq;        /* constant: 1 + slot of the completion queue, or 0 */
    /* Atomic, in a send queue: how many descriptors were posted, or are about to
     * be; see posts.h. */
    uint32_t claimed;
    uint32_t filler[10];
    uint64_t entries[VIPL_SHARE_DEPTH]; /* two atomic halves: a descriptor, and VIPL_RING_FAILED */
};
#define VIPL_RING_FAILED (UINT64_C(1) << 63)

struct vipl_vi_rings {
    void *handle; /* atomic: the clients' handle; NULL: the slot is free */
    void *nic;    /* atomic: the clients' handle of the NIC handle */
    struct vipl_ring queues[2];
};

struct vipl_cq_ring {
    void *handle;       /* atomic: the clients' handle; NULL: the slot is free */
    void *nic;          /* atomic: the clients' handle of the NIC handle */
    uint32_t pushed;    /* atomic: written by the server, after the entry */
    uint32_t taken;     /* atomic: advanced by the client that takes an entry */
    uint32_t signalled; /* atomic: the ready descriptor is readable; see rings.h */
    uint32_t limit;     /* atomic: entries asked for */
    /* An entry is VI slot << 1 | receive: that queue may have a completion that has not been named
     * yet. Whether it has, `announced` of the queue decides. */
    uint32_t entries[VIPL_SHARE_ENTRIES];
};

/* Handlers that the server has a client call. */
struct vipl_event_ring {
    VIPL_FUTEX_WORD uint32_t written; /* atomic: written by the server, after the event */
    /* atomic: written by the client, after the handler has returned */
    VIPL_FUTEX_WORD uint32_t read;
    struct vipl_call_handler events[VIPL_SHARE_EVENTS];
};

/* A descriptor for the server to post to a send queue. */
struct vipl_submission {
    void *vi; /* the clients' handle */
    void *descriptor;
    VIP_MEM_HANDLE memory;
    uint32_t stamp; /* the place of this post among those of all clients */
};

/* What one client has posted. Indices run on and wrap as in queue.h. */
struct vipl_submissions {
    /* atomic: written by the client, after the entry; pairs with the server's load */
    uint32_t tail;
    /* atomic: written by the client: 1 + slot of the VI that it is posting to, or 0 */
    uint32_t claiming;
    uint32_t filler[14];
    uint32_t head; /* atomic: written by the server, after the post; pairs with the client's load */
    uint32_t more_filler[15];
    struct vipl_submission entries[VIPL_SHARE_POSTS];
};

/* A registered region, in the table's element for its handle. Several handles share one element,
 * which has one of them. */
struct vipl_shared_region {
    uint32_t version;      /* atomic: written by the server; odd while it changes the rest */
    VIP_MEM_HANDLE memory; /* atomic */
    void *nic;             /* atomic: the clients' NIC handle; NULL: no region is here */
    void *begin;           /* atomic */
    void *end;             /* atomic */
};

/* Posting without a call (posts.h). */
struct vipl_posts {
    /* Atomic: set by the server, which then checks `pending` and sleeps. A client that clears it
     * wakes the server. */
    VIPL_FUTEX_WORD uint32_t asleep;
    uint32_t filler[15];
    uint32_t stamp; /* atomic: the stamp of the next post; advanced by the client that posts */
    uint32_t more_filler[15];
    /* atomic: a bit for each client that may have posted something */
    uint32_t pending[VIPL_SHARE_CLIENTS / 32];
    struct vipl_submissions clients[VIPL_SHARE_CLIENTS];
    struct vipl_shared_region regions[VIPL_SHARE_REGIONS];
};

/* Which objects a client holds: a bit for each slot. Written by the server. A handle is valid if
 * its object is in that slot as well. */
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
    struct vipl_heap heap; /* constant; the server uses a copy of its own */
    /* atomic: slots from this one on have never had a VI, and their memory is untouched */
    uint32_t vis_used;
    uint32_t cqs_used; /* atomic: the same for completion queues */
    struct vipl_channel channels[VIPL_SHARE_CHANNELS];
    struct vipl_vi_rings vis[VIPL_SHARE_VIS];
    struct vipl_cq_ring cqs[VIPL_SHARE_CQS];
    struct vipl_event_ring events[VIPL_SHARE_CLIENTS];
    /* atomic: the clients' handle of each NIC handle; stays when that is closed */
    void *nics[VIPL_SHARE_NICS];
    struct vipl_holding holdings[VIPL_SHARE_CLIENTS];
    struct vipl_posts posts;
};

static inline bool vipl_share_is_heap(const struct vipl_heap *heap, const void *address, size_t bytes)
{
    uintptr_t offset = (uintptr_t)address - (uintptr_t)heap->base;
    return offset < heap->bytes && bytes <= heap->bytes - offset;
}

/* Whether a call is allowed only to a client with the server's rights. Other calls use objects that
 * exist, as one uses an open descriptor. */
static inline bool vipl_call_needs_rights(const struct vipl_heap *heap, const struct vipl_call *call)
{
    return (vipl_calls[call->name].properties & VIPL_RIGHTS) != 0 &&
           (call->name != VIPL_CALL_REGISTER ||
            !vipl_share_is_heap(heap, call->a.mem.address, call->a.mem.length));
}

#endif
