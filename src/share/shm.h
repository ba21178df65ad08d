/* SPDX-License-Identifier: MIT */
/*
 * Shareable objects: one object in a process and in the children it forks.
 *
 * They live in the *keeper*, a process that the library starts with the first of them. It runs this same library
 * and has the VIs, queues, regions and connections as its own. The processes that use them, its *holders*, reach it
 * through one piece of shared memory, the arena, which lies at the same address in all of them:
 *
 *   channels   A call goes to the keeper through a channel: the holder writes it there, the keeper's thread of that
 *              channel makes it and writes what it returned. So every rule of VIPL is applied in one place.
 *   boards     What is complete stands on the board of its queue: the keeper writes it there, in order, and a holder
 *              takes it with one compare-and-exchange. Reaping needs no call.
 *   heap       VipxAllocShared(): descriptors and buffers, which the keeper moves data from and to.
 *
 * A holder has one socket to the keeper. Its end is the holder's end, however it came: the keeper then drops
 * the holder's references. Before a fork the parent makes the child's socket and sends the keeper its other end, and waits
 * for nothing: the keeper reads what a holder has sent before it makes the holder's next call, and before it sees
 * the holder's end, so the child has what the parent had. A holder never holds a lock that another one waits for.
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
    VIPL_SHARE_HOLDERS = 1024,  /* processes */
    VIPL_SHARE_NICS = 64,
    VIPL_SHARE_EVENTS = 256,     /* calls of handlers that wait in one holder; a power of two */
    VIPL_SHARE_OBJECTS = 1 << 16 /* of each kind without a board */
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

/* A call of a handler, from the keeper to the holder that registered it. */
enum vipl_shared_event_kind { VIPL_SHARED_VI, VIPL_SHARED_CQ, VIPL_SHARED_ERROR };

struct vipl_shared_event {
    uint32_t kind; /* enum vipl_shared_event_kind */
    VIP_BOOLEAN recv;
    void *context;
    void *nic;
    void *vi;
    VIP_VI_CALLBACK vi_handler; /* in the holder's memory, as the context is */
    VIP_CQ_CALLBACK cq_handler;
    VIP_ERROR_HANDLER error_handler;
    VIP_DESCRIPTOR *descriptor;
    VIP_ERROR_DESCRIPTOR error;
};

/* Arguments and results: each call uses what it has. Handles are those of the holders. */
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

enum vipl_turn { VIPL_TURN_HOLDER, VIPL_TURN_KEEPER, VIPL_TURN_OVER };

struct vipl_channel {
    uint32_t turn;          /* atomic: enum vipl_turn; whose the call is */
    uint32_t keeper_asleep; /* atomic, set by the keeper; "I sleep, then look at turn" */
    uint32_t holder_asleep; /* atomic, set by the holder; likewise */
    uint32_t cancelled;     /* atomic, cleared by the holder, then the keeper's: a blocking call is to end */
    uint32_t sent;          /* whose turn it is: notes that the holder has sent and that have no answer */
    struct vipl_call call;  /* whose turn it is */
};

/* --- boards ----------------------------------------------------------------------------------------- */

/* A work queue's completions. Indices run on and wrap as in queue.h. */
struct vipl_board {
    uint32_t completed; /* atomic: written by the keeper, after the entry; pairs with the reaper's load */
    uint32_t reaped;    /* atomic: taken by holders, one each */
    uint32_t announced; /* atomic: told of; written by holders, set back to reaped by the keeper */
    uint32_t rung;      /* atomic: the bell rings; see client_wait.c */
    uint32_t cq;        /* constant: 1 + slot of the completion queue, or 0 */
    uint32_t filler[11];
    uint64_t entries[VIPL_SHARE_DEPTH]; /* atomic halves: a descriptor, and VIPL_BOARD_FAILED */
};
#define VIPL_BOARD_FAILED (UINT64_C(1) << 63)

struct vipl_vi_board {
    void *handle; /* atomic: the holders' handle; NULL: none lives here */
    void *nic;    /* atomic: the handle of its NIC handle */
    struct vipl_board queues[2];
};

struct vipl_cq_board {
    void *handle;    /* atomic, as above */
    void *nic;       /* atomic, as above */
    uint32_t pushed; /* atomic: written by the keeper, after the entry */
    uint32_t taken;  /* atomic: taken by holders, one each */
    uint32_t rung;   /* atomic: the bell rings */
    uint32_t limit;  /* atomic: entries asked for */
    /* Each says that a queue (VI slot << 1 | receive) may have a completion nobody was told of; that it
     * really has is what `announced` of the queue decides. */
    uint32_t entries[VIPL_SHARE_ENTRIES];
};

/* --- calls of handlers ------------------------------------------------------------------------------------ */

struct vipl_event_ring {
    uint32_t written; /* atomic: the keeper's, after the event */
    uint32_t read;    /* atomic: the holder's, after the handler has returned */
    struct vipl_shared_event events[VIPL_SHARE_EVENTS];
};

/* What a holder holds, by slot: written by the keeper. A handle is known to it if its object is in the slot, too. */
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
    struct vipl_heap heap; /* constant; the keeper goes by a copy of its own */
    uint32_t vis_used; /* atomic: no VI has been in this slot and beyond, nor has its memory been touched */
    uint32_t cqs_used; /* atomic, likewise */
    struct vipl_channel channels[VIPL_SHARE_CHANNELS];
    struct vipl_vi_board vis[VIPL_SHARE_VIS];
    struct vipl_cq_board cqs[VIPL_SHARE_CQS];
    struct vipl_event_ring events[VIPL_SHARE_HOLDERS];
    void *nics[VIPL_SHARE_NICS]; /* atomic: the handle of a NIC handle; stays when that is closed */
    struct vipl_holding holdings[VIPL_SHARE_HOLDERS];
};

static inline bool vipl_share_is_heap(const struct vipl_heap *heap, const void *address, size_t bytes)
{
    uintptr_t offset = (uintptr_t)address - (uintptr_t)heap->base;
    return offset < heap->bytes && bytes <= heap->bytes - offset;
}

/* --- what goes over the socket ------------------------------------------------------------------------ */

enum vipl_note_name {
    VIPL_NOTE_NUMBER,  /* the keeper's first: which holder this is */
    VIPL_NOTE_CHANNEL, /* asks for a channel: its number is the answer */
    VIPL_NOTE_BELL,    /* asks for the bell of a queue or completion queue: attached to the answer */
    VIPL_NOTE_FORK,    /* a child is about to be: its socket is attached; no answer */
    VIPL_NOTE_CALL, /* the call that the channel is about to make, if it is one that needs rights; no answer */
    VIPL_NOTE_CANCEL /* ends the blocking call of a channel: no answer */
};
struct vipl_note {
    uint32_t name;   /* enum vipl_note_name */
    uint32_t number; /* the channel; BELL: 1 for the receive queue; NUMBER: the holder */
    void *handle;    /* BELL */
};
/* A note of a call that reaches out with the keeper's rights. It comes through the socket, for the system says who sent it;
 * any process that has the arena could write it there. */
struct vipl_call_note {
    struct vipl_note note;
    struct vipl_call call;
};
bool vipl_call_needs_rights(const struct vipl_heap *heap, const struct vipl_call *call);

/* --- boards, of all: board.c ---------------------------------------------------------------------------- */

/* A bell rings while its `rung` is set: who sees something to take sets it, and makes the descriptor readable if it was not
 * set. Who finds nothing hushes it: it may ring in vain until then, but is never silent in vain. */
void vipl_board_ring(struct vipl_waker *bell, uint32_t *rung);
/* Hushes the bell if there is nothing: asks before it, and after it, for what came meanwhile rang in vain. True: nothing. */
bool vipl_board_hush(struct vipl_waker *bell, uint32_t *rung, bool (*ready)(const void *what),
                     const void *what);

/* What a completion queue tells. */
struct vipl_completion {
    uint32_t code; /* of the entry */
    void *vi;
    VIP_BOOLEAN recv;
};
/* VIP_SUCCESS, VIP_DESCRIPTOR_ERROR or VIP_NOT_DONE. */
VIP_RETURN vipl_board_take(struct vipl_board *board, VIP_DESCRIPTOR **descriptor);
/* Whether it has nothing to tell: entries of which nothing is left are taken away. VIP_NO_MATCH: one of them, in `code`, has
 * something after all, and has to be handed on. */
VIP_RETURN vipl_cq_board_trim(struct vipl_arena *arena, struct vipl_cq_board *cq, uint32_t *code);
/* VIP_SUCCESS, VIP_NOT_DONE, or VIP_NO_MATCH: the entry that was taken is of a VI which the holder does not hold, and has
 * to be handed on. */
VIP_RETURN vipl_cq_board_take(struct vipl_arena *arena, struct vipl_cq_board *cq, unsigned holder,
                              struct vipl_completion *out);
/* Whether a VI, completion queue or NIC handle is there and the holder holds it. */
bool vipl_arena_holds(const struct vipl_arena *arena, unsigned holder, const void *handle);

/* --- holders: client.c ----------------------------------------------------------------------------------- */

/* The arena, NULL while this process has none. */
struct vipl_arena *vipl_share_arena(void);
/* Joins the arena, which is made, and the keeper with it, if there is none. */
VIP_RETURN vipl_share_join(void);
/* Makes a call and returns what it returned. `restart`: a handler does not end it. */
VIP_RETURN vipl_share_call(struct vipl_call *call, bool blocking, bool restart);
/* The bell of a queue, a completion queue, or a NIC handle's connection requests; NULL: there is none to be had. */
struct vipl_waker *vipl_share_bell(const void *handle, bool recv);
struct vipl_waker *vipl_share_known_bell(const void *handle, bool recv); /* without asking for it */
bool vipl_share_keeper_lives(void);
int vipl_share_lifeline(void); /* a descriptor that is readable once the keeper is no more */
/* Which holder this process is; a child's first question waits for the keeper. VIPL_SHARE_HOLDERS: none. */
unsigned vipl_share_number(void);
bool vipl_share_holds(const void *handle); /* this process holds that VI, completion queue or NIC handle */

/* --- handlers' calls, in a holder: client_events.c ----------------------------------------------------------- */

VIP_RETURN vipl_share_events_start(void); /* repeatable: the thread that calls handlers */
void vipl_share_events_settle(
    void); /* no handler is running, or to be called, for what was before; but the caller's */

/* --- the keeper: server.c ------------------------------------------------------------------------------- */

/* What its process does, from its end of the first holder's socket to the last holder's end. */
void vipl_keeper_run(struct vipl_arena *arena, int socket);

/* --- completions, in the keeper: server_rings.c ------------------------------------------------------------------ */

struct vipl_queue;
struct vipl_work;

/* What a queue of the keeper's completes through; all constant but the bell. */
struct vipl_board_bell {
    struct vipl_waker waker;
    uint32_t open; /* atomic */
};
/* A registered handler, and whose. */
struct vipl_keeper_notify {
    struct vipl_list link;
    unsigned holder;
    struct vipl_shared_event event;
};
struct vipl_cq_keeping {
    struct vipl_mutex lock; /* rank CQ; guards pushing, and notifies */
    struct vipl_arena *arena;
    struct vipl_cq_board *board;
    struct vipl_list notifies;
    struct vipl_board_bell bell;
};
struct vipl_keeping {
    struct vipl_board *board;
    struct vipl_cq_keeping *cq; /* NULL: none */
    uint32_t code;              /* of this queue, in the completion queue */
    void *vi;                   /* the holders' handle */
    struct vipl_queue *q;
    struct vipl_list notifies; /* guarded by the queue's lock */
    struct vipl_board_bell bell;
};

/* A work was published; the queue's lock is held. False: its completion queue is full. */
bool vipl_keeping_publish(struct vipl_keeping *keeping, struct vipl_queue *q, const struct vipl_work *work);
/* What holders took is reaped in the queue too, whose lock is held. */
void vipl_keeping_follow(struct vipl_keeping *keeping, struct vipl_queue *q);
/* A holder has died: who waits looks again, and what was announced to it is announced anew. */
void vipl_keeping_renew(struct vipl_keeping *keeping);
void vipl_cq_keeping_renew(struct vipl_cq_keeping *cq);
/* Registers a handler, and calls it if there is something already. The queue's lock is held; not that of a completion
 * queue. */
void vipl_keeping_notify(struct vipl_keeping *keeping, struct vipl_keeper_notify *notify);
void vipl_cq_keeping_notify(struct vipl_cq_keeping *cq, struct vipl_keeper_notify *notify);
/* Forgets the handlers of a holder, or of all (holder: VIPL_SHARE_HOLDERS). Takes the lock. */
void vipl_keeping_forget(struct vipl_keeping *keeping, unsigned holder);
void vipl_cq_keeping_forget(struct vipl_cq_keeping *cq, unsigned holder);
/* An entry that a holder took and has no use for is for the others. */
void vipl_cq_keeping_hand_on(struct vipl_cq_keeping *cq, uint32_t code);
void vipl_board_bell_ring(struct vipl_board_bell *bell, uint32_t *rung);
/* Duplicates of its descriptors, the second -1 if both are one; -1: there are none to be had. It is made if need be, and then
 * rings once, so that who waits looks. */
void vipl_board_bell_share(struct vipl_board_bell *bell, uint32_t *rung, int fds[2]);
void vipl_board_bell_end(struct vipl_board_bell *bell,
                         uint32_t *rung); /* the object is gone: `handle` says so already */

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
