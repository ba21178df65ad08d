/* SPDX-License-Identifier: MIT */
/*
 * The driver of the RDMA card that docs/rnic/hardware.md specifies: the verbs by which a program
 * opens a function of the card, creates its objects, posts work and takes completions. The driver
 * knows no VIs; src/backends/rnic/rnic.c implements VIs with these verbs.
 *
 *   function.c  open_rnic: registers, reset, doorbells, how a card that does not answer is given up
 *   slab.c      memory for rings and lists, cut from slabs that are mapped for DMA
 *   command.c   the ring of commands and their answers
 *   event.c     the ring of events
 *   cq.c        create_cq, poll_cq, arm_cq
 *   qp.c        create_qp, modify_qp, and the rings of a queue pair
 *   post.c      post_sq, post_rq
 *   window.c    short messages that the posting thread copies to the card
 *   mr.c        allocate_pd, allocate_mr, get_pbl
 *   memory.c    alloc_memory: memory of the card itself
 *   control.c   control messages, listens
 *
 * Functions return errno values, 0 for success. ENODEV means that the card is gone or does not
 * answer; every later call then returns ENODEV too. A function that fails to create an object
 * leaves nothing behind. Any thread may call any function, except where a comment says that one
 * thread at a time may use an object. Functions whose comment says "Never blocks" may be called
 * while a queue is locked. All others wait until the card has answered a command: for microseconds,
 * and for at most VIPL_RNIC_PATIENCE_MS while the card runs.
 */
#ifndef BACKENDS_RNIC_VERBS_VERBS_H
#define BACKENDS_RNIC_VERBS_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/rnic/pci/pci.h"
#include "rnic/registers.h"

/* A card that does not do within this time what it has to do is considered dead. Cards take
 * microseconds; but an adapter is a process, which may have to wait for its turn on the CPU behind
 * hundreds of busy processes. An adapter that has ended is noticed at once. */
enum { VIPL_RNIC_PATIENCE_MS = 5000 };

struct vipl_rnic; /* an opened function */

/* --- open_rnic --- */

/* What the card can do. */
struct vipl_rnic_caps {
    uint8_t mac[6];
    uint16_t function;  /* the number of this function */
    uint16_t functions; /* of the card, as the next five */
    uint32_t qps;
    uint32_t cqs;
    uint32_t stags;
    uint32_t pbl_entries;
    uint32_t listens;
    uint32_t work_log2;        /* entries of the largest work ring */
    uint32_t completions_log2; /* entries of the largest completion ring */
    uint32_t segments;         /* of one work entry */
    uint32_t transfer;         /* bytes of a message, at most */
    uint32_t mtu;
    uint16_t ird;
    uint16_t ord;
    uint32_t link_mbits; /* 0: not limited */
    uint32_t features;   /* RNIC_CAPS_... */
    uint32_t dram_bytes; /* device memory of this function, mapped or not */
    uint32_t sram_bytes;
    uint32_t version;
};

/* open_rnic. Opens a function of the card. `device`: as for rnic_pci_open(). */
int vipl_rnic_open(const char *device, struct vipl_rnic **out);
/* Returns true if "inproc" can be opened: the library was built with the model of the card. */
bool vipl_rnic_has_model(void);
/* Says in words which adapter the device "" is. Returns false if the library has no way to one. */
bool vipl_rnic_say_adapter(char *text, size_t size);
/* open_rnic with a bus access that the caller has opened. On success the function owns `pci`, and
 * vipl_rnic_close() closes it. */
int vipl_rnic_start(struct rnic_pci *pci, struct vipl_rnic **out);
/* close_rnic. Resets the function, which destroys all its objects; no DMA is under way afterwards.
 * The last call. */
void vipl_rnic_close(struct vipl_rnic *rnic);
/* Called in a forked child: touches nothing of the parent's function and frees no memory.
 * Async-signal-safe. */
void vipl_rnic_abandon(struct vipl_rnic *rnic);

/* Returns what the card can do; constant while the function is open. */
const struct vipl_rnic_caps *vipl_rnic_query(const struct vipl_rnic *rnic);
/* Returns the bus access; constant while the function is open. */
const struct rnic_pci *vipl_rnic_access(const struct vipl_rnic *rnic);
/* Returns true if frames reach other cards now. Reads a register. */
bool vipl_rnic_has_link(struct vipl_rnic *rnic);
/* Returns how many frames for raw queue pairs of this function have found no receive, since it was
 * opened; UINT64_MAX: the card is gone. Reads registers. */
uint64_t vipl_rnic_raw_missed(struct vipl_rnic *rnic);
/* Returns true if the card is gone or has stopped to answer. A dead function stays dead until it is
 * closed. Never blocks. */
bool vipl_rnic_is_dead(struct vipl_rnic *rnic);
/* Asks the card itself whether it is dead: reads a register, which reads as all ones when the card
 * was pulled out. */
bool vipl_rnic_probe(struct vipl_rnic *rnic);
/*
 * A wait for the card. The caller clears it to {0} and calls vipl_rnic_wait_on() again and again
 * until the card has done its work. The first calls do not pause; later calls pause, longer each
 * time, up to a millisecond. From time to time a call probes the card. vipl_rnic_wait_on() returns
 * false if the card is dead or has taken longer than VIPL_RNIC_PATIENCE_MS. Time in which this
 * thread did not run, and time that a probe took, do not count.
 */
struct vipl_rnic_wait {
    uint64_t looked; /* when the clock was read last, in ns */
    uint64_t asked;  /* when the card was probed last, in ns */
    uint64_t waited; /* time that counts, so far, in ns */
    uint64_t pause;  /* the next pause, in ns */
    unsigned turns;
};
bool vipl_rnic_wait_on(struct vipl_rnic *rnic, struct vipl_rnic_wait *wait);
/* Declares the card dead, because the caller has found that the card violates its data sheet, and
 * resets it. No DMA is under way afterwards. `why` is logged. */
void vipl_rnic_fail(struct vipl_rnic *rnic, const char *why);
/* Runs the card in the calling thread, if the card has no thread of its own. Never blocks. */
void vipl_rnic_progress(struct vipl_rnic *rnic);
/* The descriptor of an interrupt vector, and how it is cleared: as in rnic_pci_ops. */
int vipl_rnic_interrupt_fd(struct vipl_rnic *rnic, unsigned vector);
void vipl_rnic_interrupt_clear(struct vipl_rnic *rnic, unsigned vector);
/* How long, and on which other descriptor, a thread may sleep before it has to call
 * vipl_rnic_progress(): as in rnic_pci_ops. */
void vipl_rnic_wait_hint(struct vipl_rnic *rnic, int *fd, int *ms);

/* --- events, by vector 0 --- */

struct vipl_rnic_event {
    uint16_t kind; /* RNIC_EVENT_... */
    uint16_t code; /* QP_ERROR: RNIC_ERROR_... */
    uint32_t object;
    uint8_t mac[6];    /* CONTROL: the sender's card; PEER_LOST: the peer's */
    uint16_t function; /* CONTROL: the sender; PEER_LOST: the peer */
    uint32_t missed;
    uint32_t length; /* CONTROL: bytes of the message, its header included */
    uint8_t message[16 + RNIC_CONTROL_PAYLOAD];
};

/* Returns true if there is an event. Another thread may take the event meanwhile. Never blocks. */
bool vipl_rnic_has_event(struct vipl_rnic *rnic);
/* Takes the next event. Returns false if there is none. Never blocks. One thread at a time. */
bool vipl_rnic_next_event(struct vipl_rnic *rnic, struct vipl_rnic_event *out);

/* --- alloc_memory: memory of the card, which is mapped in this process --- */

enum vipl_rnic_memory { VIPL_RNIC_DRAM, VIPL_RNIC_SRAM };

/* alloc_memory. `owner`: any address that tells users of the function from each other. ENOTSUP: no
 * memory of that kind is there, or mapped; ENOSPC: not so much is left in one piece; ENOMEM. Never
 * blocks, like the next two. */
int vipl_rnic_alloc_memory(struct vipl_rnic *rnic, size_t bytes, enum vipl_rnic_memory which,
                           const void *owner, void **out);
/* ENOENT: no memory of this owner begins at the address; EBUSY: some of it is registered; ENOTSUP:
 * no device memory is mapped. */
int vipl_rnic_free_memory(struct vipl_rnic *rnic, const void *owner, const void *address);
/* Frees all memory of an owner: each piece as soon as nothing of it is registered. */
void vipl_rnic_free_memory_of(struct vipl_rnic *rnic, const void *owner);

/* --- allocate_pd, allocate_mr, get_pbl --- */

/*
 * A protection domain: a realm, and one of its domains. No memory is in domain 0; a queue pair in
 * domain 0 may access all memory of the realm. The users of a realm choose the numbers of its
 * domains.
 */
struct vipl_rnic_pd {
    uint16_t realm;
    uint32_t domain;
};

/* allocate_pd. Allocates a realm that nothing else uses, with its domain 1. ENOSPC: all are in
 * use. */
int vipl_rnic_allocate_pd(struct vipl_rnic *rnic, struct vipl_rnic_pd *out);
void vipl_rnic_free_pd(struct vipl_rnic *rnic, const struct vipl_rnic_pd *pd);

struct rnic_memory_block; /* device memory that is allocated */

/* Registered memory. */
struct vipl_rnic_mr {
    uint32_t stag;
    uint64_t iova; /* device memory: its offset in BAR4 */
    size_t bytes;
    struct rnic_memory_block *block; /* device memory: what it is a part of; otherwise NULL */
};

/* allocate_mr. Registers memory. `rights`: RNIC_RIGHT_... The card may write the memory unless
 * LOCAL_READ_ONLY is among them. Memory in the mapped BAR4 is registered as device memory. ENOSPC:
 * the card's table of tags or of pages is full. EINVAL: some of it is in BAR4, but not all of it in
 * memory of one vipl_rnic_alloc_memory(). */
int vipl_rnic_allocate_mr(struct vipl_rnic *rnic, const struct vipl_rnic_pd *pd, void *address, size_t bytes,
                          unsigned rights, struct vipl_rnic_mr *out);
/* Changes the domain and the rights of registered memory. When the function returns, no access
 * under the old ones is under way. */
int vipl_rnic_change_mr(struct vipl_rnic *rnic, const struct vipl_rnic_mr *mr, uint32_t domain,
                        unsigned rights);
/* Deregisters memory. When the function returns, no access is under way and the memory is not
 * mapped. On an error other than ENODEV nothing has changed. */
int vipl_rnic_free_mr(struct vipl_rnic *rnic, const struct vipl_rnic_mr *mr);

/* A page list: the pages of memory that is not linear for the card. */
struct vipl_rnic_pbl {
    uint8_t *list;       /* for DMA: bus addresses, 64 bits each, in the function's byte order */
    uint64_t iova;       /* of the list */
    size_t room;         /* bytes allocated for the list */
    size_t count;        /* addresses in the list */
    unsigned page_shift; /* log2 of the page size: the largest that fits all pages of the list */
};

/* get_pbl. Makes the page list of a range. ENOMEM: no memory for the list. */
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
    uint32_t index; /* of the queue's entry after the completed one */
    /* with RNIC_CQE_FLAG_TIME, of a raw queue pair: when the card sent or took the frame, in
     * nanoseconds of the card's clock; otherwise 0 */
    uint64_t time;
};

/* create_cq. `log2`: log2 of the number of entries. `vector`: 1 to 15. */
int vipl_rnic_create_cq(struct vipl_rnic *rnic, unsigned log2, unsigned vector, struct vipl_rnic_cq **out);
int vipl_rnic_destroy_cq(struct vipl_rnic_cq *cq);
/*
 * Doubles the number of entries. EAGAIN: completions in the ring before the last one are still to
 * be taken. One thread at a time may call this function, vipl_rnic_poll_cq() and vipl_rnic_arm_cq()
 * for a completion queue.
 */
int vipl_rnic_grow_cq(struct vipl_rnic_cq *cq);
/* poll_cq. Takes at most `most` completions, in order, and returns how many. Never blocks. */
unsigned vipl_rnic_poll_cq(struct vipl_rnic_cq *cq, struct vipl_rnic_completion *out, unsigned most);
/* arm_cq. Makes the vector fire once there is a completion to be taken. Never blocks. */
void vipl_rnic_arm_cq(struct vipl_rnic_cq *cq);
/* Reserve and give back room for completions that the card will write. vipl_rnic_reserve_cq()
 * returns false if there is no room. Any thread. Never block. */
bool vipl_rnic_reserve_cq(struct vipl_rnic_cq *cq, uint32_t count);
void vipl_rnic_release_cq(struct vipl_rnic_cq *cq, uint32_t count);

/* --- create_qp, modify_qp --- */

struct rnic_block; /* memory of rings and lists */

/*
 * One queue of a queue pair. The poster writes `producer`, and the thread that takes completions
 * writes `consumer`; both are atomic, and each thread loads what the other one stores. A post that
 * finds no room sets `wants`. From then until vipl_rnic_grow_queue() posts fail, so that
 * vipl_rnic_grow_queue() may change the other fields.
 */
struct vipl_rnic_queue {
    uint8_t *ring; /* NULL: not allocated yet */
    uint64_t iova;
    uint32_t entries; /* a power of two, or 0 */
    uint32_t producer;
    uint32_t consumer;
    uint32_t wants; /* atomic: 0, or VIPL_RNIC_WANTS_... */
    /* For each entry its list of segments, if it has one; NULL: no entry has had a list. The poster
     * writes an element; the thread that takes completions does when the entry is complete. */
    struct rnic_block *lists;
};

enum { VIPL_RNIC_WANTS_RING = 1, VIPL_RNIC_WANTS_LISTS = 2, VIPL_RNIC_WANTS_COMPLETIONS = 4 };

struct vipl_rnic_qp {
    struct vipl_rnic *rnic;
    struct vipl_rnic_cq *cq; /* of both queues */
    /* in BAR2; NULL: none. Set before the first post, by the thread that takes the completions */
    uint8_t *window;
    /* by slot of the window: running index behind the entry that it has; 0: none. The posting
     * thread's */
    uint32_t in_window[RNIC_WINDOW_SLOTS];
    uint32_t number;
    struct vipl_rnic_queue queues[2]; /* RNIC_SQ, RNIC_RQ */
};

enum { VIPL_RNIC_SQ, VIPL_RNIC_RQ };

struct vipl_rnic_qp_attributes {
    struct vipl_rnic_pd pd;
    uint8_t level;  /* RNIC_LEVEL_... */
    uint8_t rights; /* RNIC_RIGHT_REMOTE_...; of RNIC_LEVEL_RAW: RNIC_FILTER_... */
};

/* A queue pair of another function. */
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

/* create_qp. The queue pair begins in the state IDLE, without rings. ENOBUFS: the completion queue
 * has no room for the completions that a queue pair has without work. */
int vipl_rnic_create_qp(struct vipl_rnic *rnic, struct vipl_rnic_cq *cq,
                        const struct vipl_rnic_qp_attributes *attributes, struct vipl_rnic_qp *out);
/* Destroys a queue pair that is IDLE, or that is in ERROR and whose completion DRAINED has been
 * taken. EBUSY: it is neither. */
int vipl_rnic_destroy_qp(struct vipl_rnic_qp *qp);
/* Gives an idle queue pair other attributes. */
int vipl_rnic_set_qp(struct vipl_rnic_qp *qp, const struct vipl_rnic_qp_attributes *attributes);
/* modify_qp. Changes the state. `connection`: for RECEIVE, and for CONNECTED from IDLE, but not
 * of a raw queue pair; otherwise NULL. EALREADY: the present state does not allow the change. */
int vipl_rnic_modify_qp(struct vipl_rnic_qp *qp, unsigned state,
                        const struct vipl_rnic_qp_connection *connection);
/* Takes a queue pair from ERROR to IDLE, after its completion DRAINED has been taken. Posted work
 * that is not complete is dropped; both queues are empty afterwards. No thread posts meanwhile. */
int vipl_rnic_renew_qp(struct vipl_rnic_qp *qp);
/* query_qp. Stores the state and the first error. */
int vipl_rnic_query_qp(struct vipl_rnic_qp *qp, unsigned *state, unsigned *error);

/*
 * Makes the room that a post did not find; posts succeed afterwards. Returns 0 also if nothing was
 * to be done. EAGAIN: to be called again when more work is complete. ENOMEM, ENOSPC: nothing has
 * changed, and posts still fail. Only the thread that takes the completions may call this.
 */
int vipl_rnic_grow_queue(struct vipl_rnic_qp *qp, unsigned which);
/*
 * Retires the entries up to the one that has completed. `completion` is one of this queue pair,
 * other than DRAINED. Returns false if no such entry was posted: the card is at fault, and dead
 * from now on. Only the thread that takes the completions may call this. Never blocks.
 */
bool vipl_rnic_retire(struct vipl_rnic_qp *qp, const struct vipl_rnic_completion *completion);

/* Says up to which length a message is copied to the card by the thread that posts it; 0: none is.
 * Before the first post. Where the card has no windows none is. */
void vipl_rnic_set_windows(struct vipl_rnic *rnic, uint32_t most);
/* Returns that length. */
uint32_t vipl_rnic_windows(const struct vipl_rnic *rnic);

/* --- post_sq, post_rq: one thread at a time may post to a queue. The functions never block --- */

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
    const struct vipl_rnic_segment *segment; /* NULL: the memory is given by the next two */
    const struct vipl_iov *pieces;
    const uint32_t *stags; /* one for each piece */
};

/* EAGAIN: there is no room. Posts then return EAGAIN until vipl_rnic_grow_queue() has made room. */
int vipl_rnic_post_sq(struct vipl_rnic_qp *qp, const struct vipl_rnic_work *work);
int vipl_rnic_post_rq(struct vipl_rnic_qp *qp, const struct vipl_rnic_work *work);
/* Tells the card whether the poster holds receives back for lack of room. While it does, messages
 * that find no receive wait. One thread at a time. Never blocks. */
void vipl_rnic_hold_rq(struct vipl_rnic_qp *qp, bool held);

/* --- control messages, listens --- */

/* Sends a control message to a function, or to the adapter (RNIC_FUNCTION_ADAPTER). `message`
 * begins with its header. EBUSY: the card takes no message for that function now. */
int vipl_rnic_send_control(struct vipl_rnic *rnic, const uint8_t mac[6], uint16_t function,
                           const uint8_t *message, size_t bytes);
/* Begins and ends listening. Connection requests for the discriminator arrive as events whose
 * `object` is the given number. ENOSPC: the card's table of listeners is full. */
int vipl_rnic_listen_for(struct vipl_rnic *rnic, uint32_t object, const void *discriminator, size_t bytes);
int vipl_rnic_listen_end(struct vipl_rnic *rnic, uint32_t object, const void *discriminator, size_t bytes);
/* Claims the request that the peer's queue pair has sent with this serial number for this function.
 * EADDRINUSE: another function has claimed it. */
int vipl_rnic_claim(struct vipl_rnic *rnic, const struct vipl_rnic_peer *peer, uint32_t serial);

#endif
