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
 *   rings     What is complete stands on the ring of its queue: the server writes it there, in order, and a client
 *              takes it with one compare-and-exchange. Reaping needs no call.
 *   heap       VipxAllocShared(): descriptors and buffers, which the server moves data from and to.
 *
 * A client has one socket to the server. Its end is the client's end, however it came: the server then drops
 * the client's references. Before a fork the parent makes the child's socket and sends the server its other end, and waits
 * for nothing: the server reads what a client has sent before it makes the client's next call, and before it sees
 * the client's end, so the child has what the parent had. A client never holds a lock that another one waits for.
 */
#ifndef VIPL_SHARE_SHM_H
#define VIPL_SHARE_SHM_H

#include "base/handle.h"
#include "base/list.h"
#include "core/backend.h"
#include "os/os.h"
#include "os/os_mutex.h"
#include "vipl/posix.h"

enum {
    VIPL_SHARE_DEPTH = 1024,    /* descriptors a work queue; a power of two */
    VIPL_SHARE_ENTRIES = 65536, /* entries of a completion queue; a power of two */
    VIPL_SHARE_PAGE = 65536,    /* the heap's unit: a multiple of every system's page */
    VIPL_SHARE_CLIENTS = 1024,  /* processes */
    VIPL_SHARE_NICS = 64,
    VIPL_SHARE_EVENTS = 256,     /* calls of handlers that wait in one client; a power of two */
    VIPL_SHARE_OBJECTS = 1 << 16 /* of each kind without a ring */
};
#if UINTPTR_MAX > 0xFFFFFFFFu
enum { VIPL_SHARE_VIS = 65536, VIPL_SHARE_CQS = 256, VIPL_SHARE_CHANNELS = 2048 };
#else
enum { VIPL_SHARE_VIS = 512, VIPL_SHARE_CQS = 32, VIPL_SHARE_CHANNELS = 512 };
#endif

/* Kinds of objects beside those of handle.h, which have no handle of this form. */
enum { VIPL_KIND_REGION = VIPL_KINDS, VIPL_KIND_BLOCK, VIPL_SHARE_KINDS };

/* --- calls ------------------------------------------------------------------------------------------ */

enum vipl_call_name {
    VIPL_CALL_OPEN,
    VIPL_CALL_CLOSE,
    VIPL_CALL_QUERY_NIC,
    VIPL_CALL_CREATE_PTAG,
    VIPL_CALL_DESTROY_PTAG,
    VIPL_CALL_REGISTER,
    VIPL_CALL_DEREGISTER,
    VIPL_CALL_QUERY_MEM,
    VIPL_CALL_CHANGE_MEM,
    VIPL_CALL_CREATE_VI,
    VIPL_CALL_DESTROY_VI,
    VIPL_CALL_QUERY_VI,
    VIPL_CALL_CHANGE_VI,
    VIPL_CALL_SET_USER_DATA,
    VIPL_CALL_GET_USER_DATA,
    VIPL_CALL_CONNECT_WAIT,
    VIPL_CALL_ACCEPT,
    VIPL_CALL_REJECT,
    VIPL_CALL_CONNECT,
    VIPL_CALL_DISCONNECT,
    VIPL_CALL_PEER_REQUEST,
    VIPL_CALL_PEER_DONE,
    VIPL_CALL_PEER_WAIT,
    VIPL_CALL_POST_SEND,
    VIPL_CALL_POST_RECV,
    VIPL_CALL_CREATE_CQ,
    VIPL_CALL_DESTROY_CQ,
    VIPL_CALL_RESIZE_CQ,
    VIPL_CALL_HOST_BY_NAME,
    VIPL_CALL_HOST_BY_ADDRESS,
    VIPL_CALL_ALLOC,
    VIPL_CALL_FREE,
    VIPL_CALL_NOTIFY,
    VIPL_CALL_NOTIFY_CQ,
    VIPL_CALL_ERROR_HANDLER,
    VIPL_CALL_HAND_ON,
    VIPL_CALL_NIC_STATISTICS,
    VIPL_CALL_VI_STATISTICS,
    VIPL_CALLS
};

/* A VIP_NET_ADDRESS with room for the longest. */
struct vipl_call_address {
    VIP_NET_ADDRESS address;
    uint8_t room[VIPL_MAX_HOST_ADDRESS + VIPL_MAX_DISCRIMINATOR];
};

/* A call of a handler, from the server to the client that registered it. */
enum vipl_shared_event_kind { VIPL_SHARED_VI, VIPL_SHARED_CQ, VIPL_SHARED_ERROR };

struct vipl_shared_event {
    uint32_t kind; /* enum vipl_shared_event_kind */
    VIP_BOOLEAN recv;
    void *context;
    void *nic;
    void *vi;
    VIP_VI_CALLBACK vi_handler; /* in the client's memory, as the context is */
    VIP_CQ_CALLBACK cq_handler;
    VIP_ERROR_HANDLER error_handler;
    VIP_DESCRIPTOR *descriptor;
    VIP_ERROR_DESCRIPTOR error;
};

/* Arguments and results: each call uses what it has. Handles are those of the clients. */
struct vipl_call {
    uint32_t name; /* enum vipl_call_name */
    VIP_RETURN rc;
    void *nic;
    void *object; /* the VI, CQ, tag or request that the call is about */
    void *other;  /* a CQ of VipCreateVi() (send), the VI of VipConnectAccept() */
    void *third;  /* a CQ of VipCreateVi() (receive) */
    void *address;
    VIP_DESCRIPTOR *descriptor;
    VIP_ULONG number; /* a length, a time limit, a number of entries, an index */
    VIP_MEM_HANDLE memory;
    struct vipl_mapping mapping; /* what lies at `address`, if that is not in the heap */
    VIP_VI_STATE state;
    VIP_BOOLEAN empty[2]; /* send, receive */
    VIP_VI_ATTRIBUTES vi;
    VIP_MEM_ATTRIBUTES mem;
    VIP_NIC_ATTRIBUTES attributes;
    struct vipl_call_address local;
    struct vipl_call_address remote;
    char text[256];
    struct vipl_shared_event event; /* the handler to register */
    VIPX_NIC_STATISTICS nic_statistics;
    VIPX_VI_STATISTICS vi_statistics;
};

enum vipl_turn { VIPL_TURN_CLIENT, VIPL_TURN_SERVER, VIPL_TURN_OVER };

struct vipl_channel {
    uint32_t turn;          /* atomic: enum vipl_turn; whose the call is */
    uint32_t server_asleep; /* atomic, set by the server; "I sleep, then look at turn" */
    uint32_t client_asleep; /* atomic, set by the client; likewise */
    uint32_t cancelled;     /* atomic, cleared by the client, then the server's: a blocking call is to end */
    uint32_t sent;          /* whose turn it is: notes that the client has sent and that have no answer */
    struct vipl_call call;  /* whose turn it is */
};

/* --- rings ----------------------------------------------------------------------------------------- */

/* A work queue's completions. Indices run on and wrap as in queue.h. */
struct vipl_ring {
    uint32_t completed; /* atomic: written by the server, after the entry; pairs with the reaper's load */
    uint32_t reaped;    /* atomic: taken by clients, one each */
    uint32_t announced; /* atomic: told of; written by clients, set back to reaped by the server */
    uint32_t signalled; /* atomic: the ready_fd rings; see client_wait.c */
    uint32_t cq;        /* constant: 1 + slot of the completion queue, or 0 */
    uint32_t filler[11];
    uint64_t entries[VIPL_SHARE_DEPTH]; /* atomic halves: a descriptor, and VIPL_RING_FAILED */
};
#define VIPL_RING_FAILED (UINT64_C(1) << 63)

struct vipl_vi_rings {
    void *handle; /* atomic: the clients' handle; NULL: none lives here */
    void *nic;    /* atomic: the handle of its NIC handle */
    struct vipl_ring queues[2];
};

struct vipl_cq_ring {
    void *handle;       /* atomic, as above */
    void *nic;          /* atomic, as above */
    uint32_t pushed;    /* atomic: written by the server, after the entry */
    uint32_t taken;     /* atomic: taken by clients, one each */
    uint32_t signalled; /* atomic: the ready_fd rings */
    uint32_t limit;     /* atomic: entries asked for */
    /* Each says that a queue (VI slot << 1 | receive) may have a completion nobody was told of; that it
     * really has is what `announced` of the queue decides. */
    uint32_t entries[VIPL_SHARE_ENTRIES];
};

/* --- calls of handlers ------------------------------------------------------------------------------------ */

struct vipl_event_ring {
    uint32_t written; /* atomic: the server's, after the event */
    uint32_t read;    /* atomic: the client's, after the handler has returned */
    struct vipl_shared_event events[VIPL_SHARE_EVENTS];
};

/* What a client holds, by slot: written by the server. A handle is known to it if its object is in the slot, too. */
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
};

static inline bool vipl_share_is_heap(const struct vipl_heap *heap, const void *address, size_t bytes)
{
    uintptr_t offset = (uintptr_t)address - (uintptr_t)heap->base;
    return offset < heap->bytes && bytes <= heap->bytes - offset;
}

/* --- what goes over the socket ------------------------------------------------------------------------ */

enum vipl_note_name {
    VIPL_NOTE_NUMBER,   /* the server's first: which client this is */
    VIPL_NOTE_CHANNEL,  /* asks for a channel: its number is the answer */
    VIPL_NOTE_READY_FD, /* asks for the ready_fd of a queue or completion queue: attached to the answer */
    VIPL_NOTE_FORK,     /* a child is about to be: its socket is attached; no answer */
    VIPL_NOTE_CALL, /* the call that the channel is about to make, if it is one that needs rights; no answer */
    VIPL_NOTE_CANCEL /* ends the blocking call of a channel: no answer */
};
struct vipl_note {
    uint32_t name;   /* enum vipl_note_name */
    uint32_t number; /* the channel; READY_FD: 1 for the receive queue; NUMBER: the client */
    void *handle;    /* READY_FD */
};
/* A note of a call that reaches out with the server's rights. It comes through the socket, for the system says who sent it;
 * any process that has the arena could write it there. */
struct vipl_call_note {
    struct vipl_note note;
    struct vipl_call call;
};
bool vipl_call_needs_rights(const struct vipl_heap *heap, const struct vipl_call *call);

/* --- rings, of all: ring.c ---------------------------------------------------------------------------- */

/* A ready_fd rings while its `signalled` is set: who sees something to take sets it, and makes the descriptor readable if it was not
 * set. Who finds nothing clears it: it may ring in vain until then, but is never silent in vain. */
void vipl_ring_signal(struct vipl_waker *ready_fd, uint32_t *signalled);
/* Hushes the ready_fd if there is nothing: asks before it, and after it, for what came meanwhile rang in vain. True: nothing. */
bool vipl_ring_clear(struct vipl_waker *ready_fd, uint32_t *signalled, bool (*ready)(const void *what),
                     const void *what);

/* What a completion queue tells. */
struct vipl_completion {
    uint32_t code; /* of the entry */
    void *vi;
    VIP_BOOLEAN recv;
};
/* VIP_SUCCESS, VIP_DESCRIPTOR_ERROR or VIP_NOT_DONE. */
VIP_RETURN vipl_ring_take(struct vipl_ring *ring, VIP_DESCRIPTOR **descriptor);
/* Whether it has nothing to tell: entries of which nothing is left are taken away. VIP_NO_MATCH: one of them, in `code`, has
 * something after all, and has to be handed on. */
VIP_RETURN vipl_cq_ring_trim(struct vipl_arena *arena, struct vipl_cq_ring *cq, uint32_t *code);
/* VIP_SUCCESS, VIP_NOT_DONE, or VIP_NO_MATCH: the entry that was taken is of a VI which the client does not hold, and has
 * to be handed on. */
VIP_RETURN vipl_cq_ring_take(struct vipl_arena *arena, struct vipl_cq_ring *cq, unsigned client,
                             struct vipl_completion *out);
/* Whether a VI, completion queue or NIC handle is there and the client holds it. */
bool vipl_arena_holds(const struct vipl_arena *arena, unsigned client, const void *handle);

/* --- clients: client.c ----------------------------------------------------------------------------------- */

/* The arena, NULL while this process has none. */
struct vipl_arena *vipl_share_arena(void);
/* Joins the arena, which is made, and the server with it, if there is none. */
VIP_RETURN vipl_share_join(void);
/* Makes a call and returns what it returned. `restart`: a handler does not end it. */
VIP_RETURN vipl_share_call(struct vipl_call *call, bool blocking, bool restart);
/* The ready_fd of a queue, a completion queue, or a NIC handle's connection requests; NULL: there is none to be had. */
struct vipl_waker *vipl_share_ready_fd(const void *handle, bool recv);
struct vipl_waker *vipl_share_known_ready_fd(const void *handle, bool recv); /* without asking for it */
bool vipl_share_server_lives(void);
int vipl_share_lifeline(void); /* a descriptor that is readable once the server is no more */
/* Which client this process is; a child's first question waits for the server. VIPL_SHARE_CLIENTS: none. */
unsigned vipl_share_number(void);
bool vipl_share_holds(const void *handle); /* this process holds that VI, completion queue or NIC handle */

/* --- handlers' calls, in a client: client_events.c ----------------------------------------------------------- */

VIP_RETURN vipl_share_events_start(void); /* repeatable: the thread that calls handlers */
void vipl_share_events_settle(
    void); /* no handler is running, or to be called, for what was before; but the caller's */

/* --- the server: server.c ------------------------------------------------------------------------------- */

/* What its process does, from its end of the first client's socket to the last client's end. */
void vipl_server_run(struct vipl_arena *arena, int socket);

/* --- completions, in the server: server_rings.c ------------------------------------------------------------------ */

struct vipl_queue;
struct vipl_work;

/* What a queue of the server's completes through; all constant but the ready_fd. */
struct vipl_shared_ready {
    struct vipl_waker waker;
    uint32_t open; /* atomic */
};
/* A registered handler, and whose. */
struct vipl_server_notify {
    struct vipl_list link;
    unsigned client;
    struct vipl_shared_event event;
};
struct vipl_shared_cq {
    struct vipl_mutex lock; /* rank CQ; guards pushing, and notifies */
    struct vipl_arena *arena;
    struct vipl_cq_ring *ring;
    struct vipl_list notifies;
    struct vipl_shared_ready ready_fd;
};
struct vipl_shared_queue {
    struct vipl_ring *ring;
    struct vipl_shared_cq *cq; /* NULL: none */
    uint32_t code;             /* of this queue, in the completion queue */
    void *vi;                  /* the clients' handle */
    struct vipl_queue *q;
    struct vipl_list notifies; /* guarded by the queue's lock */
    struct vipl_shared_ready ready_fd;
};

/* A work was published; the queue's lock is held. False: its completion queue is full. */
bool vipl_shared_queue_publish(struct vipl_shared_queue *shared, struct vipl_queue *q,
                               const struct vipl_work *work);
/* What clients took is reaped in the queue too, whose lock is held. */
void vipl_shared_queue_follow(struct vipl_shared_queue *shared, struct vipl_queue *q);
/* A client has died: who waits looks again, and what was announced to it is announced anew. */
void vipl_shared_queue_renew(struct vipl_shared_queue *shared);
void vipl_shared_cq_renew(struct vipl_shared_cq *cq);
/* Registers a handler, and calls it if there is something already. The queue's lock is held; not that of a completion
 * queue. */
void vipl_shared_queue_notify(struct vipl_shared_queue *shared, struct vipl_server_notify *notify);
void vipl_shared_cq_notify(struct vipl_shared_cq *cq, struct vipl_server_notify *notify);
/* Forgets the handlers of a client, or of all (client: VIPL_SHARE_CLIENTS). Takes the lock. */
void vipl_shared_queue_forget(struct vipl_shared_queue *shared, unsigned client);
void vipl_shared_cq_forget(struct vipl_shared_cq *cq, unsigned client);
/* An entry that a client took and has no use for is for the others. */
void vipl_shared_cq_hand_on(struct vipl_shared_cq *cq, uint32_t code);
void vipl_shared_ready_signal(struct vipl_shared_ready *ready_fd, uint32_t *signalled);
/* Duplicates of its descriptors, the second -1 if both are one; -1: there are none to be had. It is made if need be, and then
 * rings once, so that who waits looks. */
void vipl_shared_ready_share(struct vipl_shared_ready *ready_fd, uint32_t *signalled, int fds[2]);
void vipl_shared_ready_end(struct vipl_shared_ready *ready_fd,
                           uint32_t *signalled); /* the object is gone: `handle` says so already */

/* --- entry points for shared handles: client_call.c, client_wait.c --------------------------------------------- */

VIP_RETURN vipl_share_open(const char *device, void **nic);
VIP_RETURN vipl_share_close(void *nic);
VIP_RETURN vipl_share_query_nic(void *nic, VIP_NIC_ATTRIBUTES *out);
VIP_RETURN vipl_share_create_ptag(void *nic, void **out);
VIP_RETURN vipl_share_destroy_ptag(void *nic, void *ptag);
VIP_RETURN vipl_share_register(void *nic, void *address, VIP_ULONG length,
                               const VIP_MEM_ATTRIBUTES *attributes, VIP_MEM_HANDLE *out);
VIP_RETURN vipl_share_deregister(void *nic, void *address, VIP_MEM_HANDLE memory);
VIP_RETURN vipl_share_query_mem(void *nic, void *address, VIP_MEM_HANDLE memory, VIP_MEM_ATTRIBUTES *out);
VIP_RETURN vipl_share_change_mem(void *nic, void *address, VIP_MEM_HANDLE memory,
                                 const VIP_MEM_ATTRIBUTES *in);
VIP_RETURN vipl_share_create_vi(void *nic, const VIP_VI_ATTRIBUTES *attributes, void *send_cq, void *recv_cq,
                                void **out);
VIP_RETURN vipl_share_destroy_vi(void *vi);
VIP_RETURN vipl_share_query_vi(void *vi, VIP_VI_STATE *state, VIP_VI_ATTRIBUTES *attributes,
                               VIP_BOOLEAN *send_empty, VIP_BOOLEAN *recv_empty);
VIP_RETURN vipl_share_change_vi(void *vi, const VIP_VI_ATTRIBUTES *attributes);
VIP_RETURN vipl_share_set_user_data(void *vi, void *data);
void *vipl_share_get_user_data(void *vi);
VIP_RETURN vipl_share_connect_wait(void *nic, const VIP_NET_ADDRESS *local, VIP_ULONG timeout,
                                   VIP_NET_ADDRESS *remote, VIP_VI_ATTRIBUTES *attributes, void **conn);
VIP_RETURN vipl_share_accept(void *conn, void *vi);
VIP_RETURN vipl_share_reject(void *conn);
VIP_RETURN vipl_share_connect(void *vi, const VIP_NET_ADDRESS *local, const VIP_NET_ADDRESS *remote,
                              VIP_ULONG timeout, VIP_VI_ATTRIBUTES *attributes);
VIP_RETURN vipl_share_disconnect(void *vi);
VIP_RETURN vipl_share_peer_request(void *vi, const VIP_NET_ADDRESS *local, const VIP_NET_ADDRESS *remote,
                                   VIP_ULONG timeout);
VIP_RETURN vipl_share_peer_done(void *vi, bool wait, VIP_VI_ATTRIBUTES *attributes);
VIP_RETURN vipl_share_post(void *vi, bool recv, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory);
VIP_RETURN vipl_share_hand_on(const void *cq, uint32_t code);
VIP_RETURN vipl_share_create_cq(void *nic, VIP_ULONG entries, void **out);
VIP_RETURN vipl_share_destroy_cq(void *cq);
VIP_RETURN vipl_share_resize_cq(void *cq, VIP_ULONG entries);
VIP_RETURN vipl_share_host_by_name(void *nic, const char *name, VIP_NET_ADDRESS *out, VIP_ULONG index);
VIP_RETURN vipl_share_host_by_address(void *nic, const VIP_NET_ADDRESS *address, char *name,
                                      VIP_ULONG *length);
VIP_RETURN vipl_share_set_restart(void *nic, bool restarts);
VIP_RETURN vipl_share_notify(void *vi, bool recv, void *context, VIP_VI_CALLBACK handler);
VIP_RETURN vipl_share_notify_cq(void *cq, void *context, VIP_CQ_CALLBACK handler);
VIP_RETURN vipl_share_error_handler(void *nic, void *context, VIP_ERROR_HANDLER handler);
VIP_RETURN vipl_share_manage(void *nic, VIP_ULONG type, void *info); /* VipQuerySystemManagementInfo() */
bool vipl_share_restarts(
    const void *nic); /* whether blocking calls of this process on the NIC handle resume */

VIP_RETURN vipl_share_done(void *vi, bool recv, VIP_DESCRIPTOR **out);
VIP_RETURN vipl_share_wait(void *vi, bool recv, VIP_ULONG timeout, const void *mask, VIP_DESCRIPTOR **out);
/* The descriptor of a shared handle: of a queue (recv: which), of a completion queue or a NIC handle. */
VIP_RETURN vipl_share_fd(const void *handle, bool recv, int *fd);
VIP_RETURN vipl_share_cq_done(void *cq, void **vi, VIP_BOOLEAN *recv);
VIP_RETURN vipl_share_cq_wait(void *cq, VIP_ULONG timeout, const void *mask, void **vi, VIP_BOOLEAN *recv);

#endif
