/* SPDX-License-Identifier: MIT */
/*
 * The driver of the RDMA card that docs/rnic/hardware.md specifies: the verbs by which a program opens a function of the card,
 * makes its objects, posts work and takes completions. It knows no VI; src/backends/rnic/rnic.c makes VIs of it.
 *
 *   function.c  open_rnic: registers, reset, doorbells, the end of a card that does not answer
 *   slab.c      memory for rings and lists, cut from slabs that are mapped for DMA
 *   command.c   the ring of commands and their answers
 *   event.c     the ring of events
 *   cq.c        create_cq, poll_cq, arm_cq
 *   qp.c        create_qp, modify_qp, and the rings of a queue pair
 *   post.c      post_sq, post_rq
 *   mr.c        allocate_pd, allocate_mr, get_pbl
 *   control.c   control messages, listens
 *
 * Results are errno values, 0 for success: ENODEV means that the card is gone or does not answer, and then every later call says
 * so. An object that could not be made leaves nothing behind. Threads: any of them may call, except where a function says that
 * the caller lets one thread at a time do it for an object. What may be called from where a queue is locked says "never blocks";
 * all others wait for the card's answer to a command: microseconds, and VIPL_RNIC_PATIENCE_MS at most while the card runs.
 */
#ifndef BACKENDS_RNIC_VERBS_VERBS_H
#define BACKENDS_RNIC_VERBS_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/rnic/pci/pci.h"
#include "rnic/registers.h"

/* A card that has not done for so long what it has to do is taken for dead. Cards take microseconds; but an adapter is a process, which may
 * have to wait for its turn behind hundreds of busy ones. One that has ended is noticed without this. */
enum { VIPL_RNIC_PATIENCE_MS = 5000 };

struct vipl_rnic; /* an opened function */

/* --- open_rnic --- */

/* What the card can do. */
struct vipl_rnic_caps {
    uint8_t mac[6];
    uint16_t function; /* the number of this one */
    uint16_t functions;
    uint32_t qps; /* of the card, as the next four */
    uint32_t cqs;
    uint32_t stags;
    uint32_t pbl_entries;
    uint32_t listens;
    uint32_t work_log2; /* entries of the largest work ring */
    uint32_t completions_log2;
    uint32_t segments;
    uint32_t transfer; /* bytes of a message */
    uint32_t mtu;
    uint16_t ird;
    uint16_t ord;
    uint32_t link_mbits; /* 0: not limited */
    uint32_t features;   /* RNIC_CAPS_... */
    uint32_t version;
};

/* open_rnic. `device`: as for rnic_pci_open(). */
int vipl_rnic_open(const char *device, struct vipl_rnic **out);
/* Whether "inproc" can be opened: the library was built with the model of the card. */
bool vipl_rnic_has_model(void);
/* The same with an access to the bus that the caller has opened. It is the function's on success, and closed with it. */
int vipl_rnic_start(struct rnic_pci *pci, struct vipl_rnic **out);
/* close_rnic: the function is reset; all its objects go with it, and no DMA is under way afterwards. No other call is left. */
void vipl_rnic_close(struct vipl_rnic *rnic);
/* In a forked child: nothing of the parent's is touched, and the memory stays as it is. Async-signal-safe. */
void vipl_rnic_abandon(struct vipl_rnic *rnic);

const struct vipl_rnic_caps *vipl_rnic_query(const struct vipl_rnic *rnic);
/* The way to the card; constant while it is open. */
const struct rnic_pci *vipl_rnic_access(const struct vipl_rnic *rnic);
/* Whether frames reach other cards now. Reads a register. */
bool vipl_rnic_has_link(struct vipl_rnic *rnic);
/* Whether the card is gone, or has stopped to answer: for good, as far as this opening is concerned. Never blocks. */
bool vipl_rnic_is_dead(struct vipl_rnic *rnic);
/* The same, asking the card itself: reads a register, which a card that was pulled out answers with ones. */
bool vipl_rnic_probe(struct vipl_rnic *rnic);
/* A turn of a wait for the card: without a pause at first, then with pauses that grow to a millisecond. Now and then the card is asked whether it is
 * there. False: it is dead, or has been waited for in vain: time in which this thread did not run, or the card took to say that it is there, does
 * not count. Begins as {0}. */
struct vipl_rnic_wait {
    uint64_t looked, asked; /* at the clock; the card: when */
    uint64_t waited, pause; /* so far; the next: nanoseconds */
    unsigned turns;
};
bool vipl_rnic_wait_on(struct vipl_rnic *rnic, struct vipl_rnic_wait *wait);
/* From now on it is dead: the caller has found that it breaks its word. No DMA is under way afterwards. */
void vipl_rnic_fail(struct vipl_rnic *rnic, const char *why);
/* Lets the card work where it has no time of its own. Never blocks. */
void vipl_rnic_progress(struct vipl_rnic *rnic);
/* The descriptor of an interrupt vector, -1 where there are no interrupts; and forgets that it has fired. */
int vipl_rnic_interrupt_fd(struct vipl_rnic *rnic, unsigned vector);
void vipl_rnic_interrupt_clear(struct vipl_rnic *rnic, unsigned vector);
/* What else to sleep on, and for how long, until vipl_rnic_progress() has something to do: as in pci.h. */
void vipl_rnic_wait_hint(struct vipl_rnic *rnic, int *fd, int *ms);

/* --- events, by vector 0 --- */

struct vipl_rnic_event {
    uint16_t kind; /* RNIC_EVENT_... */
    uint16_t code; /* QP_ERROR: RNIC_ERROR_... */
    uint32_t object;
    uint8_t mac[6]; /* CONTROL: where from, as the next one; PEER_LOST: who */
    uint16_t function;
    uint32_t missed;
    uint32_t length; /* CONTROL: bytes of the message, its header included */
    uint8_t message[16 + RNIC_CONTROL_PAYLOAD];
};

bool vipl_rnic_has_event(struct vipl_rnic *rnic); /* never blocks; any thread, without a promise */
/* Takes the next event; false: there is none. Never blocks. One thread at a time. */
bool vipl_rnic_next_event(struct vipl_rnic *rnic, struct vipl_rnic_event *out);

/* --- allocate_pd, allocate_mr, get_pbl --- */

/* A protection domain: a realm, and one of its domains. Domain 0 is no memory's; a queue pair with it may name all memory of the
 * realm. The users of a realm agree by themselves on the numbers of its domains. */
struct vipl_rnic_pd {
    uint16_t realm;
    uint32_t domain;
};

/* allocate_pd: a realm that no other has, with its domain 1. ENOSPC: all are taken. */
int vipl_rnic_allocate_pd(struct vipl_rnic *rnic, struct vipl_rnic_pd *out);
void vipl_rnic_free_pd(struct vipl_rnic *rnic, const struct vipl_rnic_pd *pd);

/* Registered memory. */
struct vipl_rnic_mr {
    uint32_t stag;
    uint64_t iova;
    size_t bytes;
};

/* allocate_mr. `rights`: RNIC_RIGHT_... The memory is mapped for the card to write unless LOCAL_READ_ONLY is among them. ENOSPC:
 * the card's table of tags or of pages is full. */
int vipl_rnic_allocate_mr(struct vipl_rnic *rnic, const struct vipl_rnic_pd *pd, void *address, size_t bytes,
                          unsigned rights, struct vipl_rnic_mr *out);
/* After this no access by the old domain and rights is under way. */
int vipl_rnic_change_mr(struct vipl_rnic *rnic, const struct vipl_rnic_mr *mr, uint32_t domain,
                        unsigned rights);
/* After this no access is under way, and the memory is mapped no more. On failure but ENODEV nothing has changed. */
int vipl_rnic_free_mr(struct vipl_rnic *rnic, const struct vipl_rnic_mr *mr);

/* The pages of memory that is not linear for the card. */
struct vipl_rnic_pbl {
    uint8_t *list; /* their addresses on the bus, 64 bits each in the card's byte order, in memory for DMA */
    uint64_t iova; /* of the list */
    size_t room;   /* bytes of it, for vipl_rnic_free_pbl() */
    size_t count;
    unsigned page_shift; /* the largest power of two of which the whole list can be made */
};

/* get_pbl. ENOMEM: no memory for the list. */
int vipl_rnic_get_pbl(struct vipl_rnic *rnic, const void *address, size_t bytes, struct vipl_rnic_pbl *out);
void vipl_rnic_free_pbl(struct vipl_rnic *rnic, const struct vipl_rnic_pbl *pbl);

/* --- create_cq, poll_cq, arm_cq --- */

struct vipl_rnic_cq;

struct vipl_rnic_completion {
    uint32_t qp;
    uint32_t cookie;
    uint32_t length;
    uint32_t immediate;
    uint8_t opcode; /* RNIC_WORK_... */
    uint8_t flags;  /* RNIC_CQE_FLAG_... */
    uint16_t status;
    uint32_t index; /* behind the entry in its queue */
};

/* create_cq. `vector`: 1 to 15. */
int vipl_rnic_create_cq(struct vipl_rnic *rnic, unsigned log2, unsigned vector, struct vipl_rnic_cq **out);
int vipl_rnic_destroy_cq(struct vipl_rnic_cq *cq);
/* Twice as many entries. EAGAIN: the ring before the last one still has some to be taken. One thread at a time for all functions
 * of a completion queue but reserve and release. */
int vipl_rnic_grow_cq(struct vipl_rnic_cq *cq);
/* poll_cq: takes at most `most` completions, in order. Never blocks. */
unsigned vipl_rnic_poll_cq(struct vipl_rnic_cq *cq, struct vipl_rnic_completion *out, unsigned most);
/* arm_cq: the vector fires when there is one to be taken. Never blocks. */
void vipl_rnic_arm_cq(struct vipl_rnic_cq *cq);
/* Room for a completion that the card will write, false: none; and gives it back. Never block; any thread. */
bool vipl_rnic_reserve_cq(struct vipl_rnic_cq *cq, uint32_t count);
void vipl_rnic_release_cq(struct vipl_rnic_cq *cq, uint32_t count);

/* --- create_qp, modify_qp --- */

struct rnic_block; /* memory of rings and lists */

/*
 * One queue of a queue pair. `producer` is written by the poster, `consumer` by the thread that takes completions; they are atomic,
 * and pair with the loads of the other one. A post that finds no room says so in `wants`: from then until vipl_rnic_grow_queue()
 * nothing is posted, and that function may change the rest.
 */
struct vipl_rnic_queue {
    uint8_t *ring; /* NULL: none yet */
    uint64_t iova;
    uint32_t entries; /* a power of two, or 0 */
    uint32_t producer;
    uint32_t consumer;
    uint32_t wants; /* atomic: 0, or VIPL_RNIC_WANTS_... */
    struct rnic_block *
        lists; /* of each entry its segments, or none; NULL: no entry has had any. Each is written by the poster, and
                               * when it is complete by the thread that takes completions */
};

enum { VIPL_RNIC_WANTS_RING = 1, VIPL_RNIC_WANTS_LISTS = 2, VIPL_RNIC_WANTS_COMPLETIONS = 4 };

struct vipl_rnic_qp {
    struct vipl_rnic *rnic;
    struct vipl_rnic_cq *cq; /* of both queues */
    uint32_t number;
    struct vipl_rnic_queue queues[2]; /* RNIC_SQ, RNIC_RQ */
};

enum { VIPL_RNIC_SQ, VIPL_RNIC_RQ };

struct vipl_rnic_qp_attributes {
    struct vipl_rnic_pd pd;
    uint8_t level;  /* RNIC_LEVEL_... */
    uint8_t rights; /* RNIC_RIGHT_REMOTE_... */
};

/* The other end, for the states RECEIVE and, from IDLE, CONNECTED. */
struct vipl_rnic_peer {
    uint8_t mac[6];
    uint16_t function;
    uint32_t qp;
};

struct vipl_rnic_qp_connection {
    struct vipl_rnic_peer peer;
    uint8_t ird;
    uint8_t ord;
    uint32_t max_message;
};

/* create_qp: it is IDLE, and has no rings. ENOBUFS: the completion queue has no room for what it completes by itself. */
int vipl_rnic_create_qp(struct vipl_rnic *rnic, struct vipl_rnic_cq *cq,
                        const struct vipl_rnic_qp_attributes *attributes, struct vipl_rnic_qp *out);
/* It is IDLE, or it is ERROR and its DRAINED has been taken. EBUSY: it is not. */
int vipl_rnic_destroy_qp(struct vipl_rnic_qp *qp);
/* Other attributes of an idle one. */
int vipl_rnic_set_qp(struct vipl_rnic_qp *qp, const struct vipl_rnic_qp_attributes *attributes);
/* modify_qp. `connection`: for RECEIVE, and for CONNECTED from IDLE; else NULL. EALREADY: not from the state that it has. */
int vipl_rnic_modify_qp(struct vipl_rnic_qp *qp, unsigned state,
                        const struct vipl_rnic_qp_connection *connection);
/* From ERROR, with DRAINED taken, to IDLE. What had been posted and was not completed is given up; the queues begin again empty.
 * Nothing is posted meanwhile. */
int vipl_rnic_renew_qp(struct vipl_rnic_qp *qp);
/* query_qp: the state, and the first error. */
int vipl_rnic_query_qp(struct vipl_rnic_qp *qp, unsigned *state, unsigned *error);

/* Only the thread that takes the completions may call these two.
 * After a post that found no room: makes some, or finds what there is by now; posts go on afterwards. Nothing to do: 0 too. EAGAIN:
 * when more is complete. ENOMEM, ENOSPC: nothing has changed, and posts still find no room. */
int vipl_rnic_grow_queue(struct vipl_rnic_qp *qp, unsigned which);
/* The completion is one of this queue pair, not DRAINED: the entries up to it are over. False: it cannot be, the card is at fault
 * and dead. Never blocks. */
bool vipl_rnic_retire(struct vipl_rnic_qp *qp, const struct vipl_rnic_completion *completion);

/* --- post_sq, post_rq: the caller lets one thread at a time post to a queue. Never block --- */

struct vipl_rnic_segment {
    uint64_t address;
    uint32_t length;
    uint32_t stag;
};

struct vipl_rnic_work {
    uint8_t opcode; /* RNIC_WORK_... */
    uint8_t flags;  /* RNIC_WORK_FLAG_..., without LIST */
    uint16_t segments;
    uint32_t cookie;
    uint32_t immediate;
    uint32_t remote_stag;
    uint64_t remote_address;
    const struct vipl_rnic_segment *segment; /* NULL: it has what follows */
    const struct vipl_iov *pieces;
    const uint32_t *stags; /* of each piece */
};

/* EAGAIN: no room. Posts say so until vipl_rnic_grow_queue() has been called for the queue. */
int vipl_rnic_post_sq(struct vipl_rnic_qp *qp, const struct vipl_rnic_work *work);
int vipl_rnic_post_rq(struct vipl_rnic_qp *qp, const struct vipl_rnic_work *work);
/* Whether the poster has receives for which there was no room: messages wait for them. Likewise. */
void vipl_rnic_hold_rq(struct vipl_rnic_qp *qp, bool held);

/* --- control messages, listens --- */

/* To a function, or to RNIC_FUNCTION_ADAPTER. `message` begins with its header. */
int vipl_rnic_send_control(struct vipl_rnic *rnic, const uint8_t mac[6], uint16_t function,
                           const uint8_t *message, size_t bytes);
/* Requests for the discriminator come as events with `object`. ENOSPC: the card's table of listeners is full. */
int vipl_rnic_listen_for(struct vipl_rnic *rnic, uint32_t object, const void *discriminator, size_t bytes);
int vipl_rnic_listen_end(struct vipl_rnic *rnic, uint32_t object, const void *discriminator, size_t bytes);
/* The request that this queue pair has sent with this serial number is this function's from now on. EADDRINUSE: another one has it. */
int vipl_rnic_claim(struct vipl_rnic *rnic, const struct vipl_rnic_peer *peer, uint32_t serial);

#endif
