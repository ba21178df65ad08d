/* SPDX-License-Identifier: MIT */
/*
 * What the card remembers: the layout of its area. Tables are arrays behind each other; rows that
 * were never used are zeros and touch no page. A row is named by its index; where a field may name
 * none, it holds the index plus 1, and 0 is none.
 *
 * All of it is guarded by the caller, who lets one thread at a time into the card. Queue pairs,
 * completion queues and tags belong to one function each: rnic_owner() says to which, and every
 * file that takes a number from outside asks it first.
 */
#ifndef DEVICES_RNIC_CARD_STATE_H
#define DEVICES_RNIC_CARD_STATE_H

#include "devices/rnic/card/card.h"
#include "devices/rnic/card/port.h"
#include "devices/rnic/efe/efe.h"
#include "devices/rnic/efe/switch.h"
#include "rnic/registers.h"

enum {
    RNIC_WORK_LOG2_MAX = 16,
    RNIC_COMPLETION_LOG2_MAX = 20,
    RNIC_COMMAND_LOG2_MAX = 12,
    RNIC_LOG2_MIN = 2,
    RNIC_TRANSFER_MAX = 0x40000000,
    RNIC_READ_SLOTS = 8,  /* RDMA Reads of a queue pair at once, each way */
    RNIC_LISTENS = 4096,  /* of all functions together */
    RNIC_CLAIMS = 1024,   /* of requests, likewise; the oldest is forgotten */
    RNIC_REQUESTS = 1024, /* entries of send queues under way, for each function */
    RNIC_REQUESTS_OF_QP = 128,
    RNIC_TERMINATE_BYTES = 56,
    RNIC_RAW_QPS = 16,     /* raw queue pairs of the card that are not IDLE */
    RNIC_RAW_FRAME = 9024, /* room for the longest frame */
    RNIC_BUDGET = 256      /* frames, turns and commands of one rnic_card_advance() */
};

/* --- lists of queue pairs --- */

/* Which list: a queue pair is in each at most once. */
enum rnic_list_kind {
    /* has something to send; of its flow. Or, without a flow: its flow has died; of the card */
    RNIC_LIST_RUN,
    RNIC_LIST_FLOW,    /* uses the flow */
    RNIC_LIST_EVENT,   /* has an event that did not fit into the ring; of its function */
    RNIC_LIST_REQUEST, /* waits for room in the table of requests; of its function */
    RNIC_LIST_CLOSING, /* is in CLOSING, oldest first; of the card */
    RNIC_LISTS
};
struct rnic_list {
    uint32_t first; /* plus 1, as all here */
    uint32_t last;
};
struct rnic_link {
    uint32_t before;
    uint32_t behind;
};

/* --- tables of numbers --- */

/* Which rows of a table are in use. Freed rows are used again oldest first, but not while few are
 * free and others were never used. */
struct rnic_numbers {
    uint32_t limit;
    uint32_t fresh; /* rows from here on were never used */
    uint32_t freed; /* how many wait to be used again */
    uint32_t first; /* of these, plus 1 */
    uint32_t last;
    /* number of freed rows that wait before one is used again instead of a fresh one */
    uint32_t rest;
    uint64_t links; /* offset in the area: uint32_t for each row: the one freed after it, plus 1 */
    /* offset in the area: uint16_t for each row: its function plus 1; 0: free. 0: this table has
     * none */
    uint64_t owners;
};

/* --- work --- */

struct rnic_segment {
    uint64_t address;
    uint32_t length;
    uint32_t stag;
};

/* A work entry, copied and checked. */
struct rnic_work {
    uint8_t opcode;
    uint8_t flags;
    uint16_t segments;
    uint32_t cookie;
    uint32_t immediate;
    uint32_t length;
    uint64_t remote_address;
    uint32_t remote_stag;
    uint32_t behind; /* running index of the entry, plus 1 */
    /* with RNIC_WORK_FLAG_LIST: the first one's address is the list's */
    struct rnic_segment segment[RNIC_INLINE_SEGMENTS];
};

/* Where in the segments of a work entry the next byte goes to or comes from. */
struct rnic_cursor {
    uint32_t segment;
    uint32_t offset;
};

/* What has to happen until an entry of a send queue is complete. */
enum rnic_wait {
    RNIC_WAIT_COPY,        /* its frames are to be made */
    RNIC_WAIT_FRAME_ACK,   /* its last frame is to be acknowledged */
    RNIC_WAIT_MESSAGE_ACK, /* the peer's card is to say that the message was received */
    RNIC_WAIT_DATA,        /* the response to an RDMA Read is to come */
    RNIC_WAIT_NOTHING      /* but the entries before it */
};

/* An entry of a send queue that was begun and is not complete. */
struct rnic_request {
    struct rnic_work work;
    struct rnic_cursor at;
    uint32_t moved;         /* bytes sent, or of a read placed */
    uint32_t behind;        /* the next one of the queue pair, plus 1 */
    uint32_t message;       /* its number */
    uint32_t msn;           /* of its DDP message, if it is a Send or Read Request */
    uint32_t immediate_msn; /* of its Immediate Data; 0: none was sent */
    uint32_t serial;        /* tells users of this row apart; 0: free */
    uint32_t qp;
    uint8_t window; /* the entry was found in the window */
    uint8_t reserved8[3];
    uint16_t status; /* how it ends */
    /* its queue pair goes to ERROR for this reason when it has completed; 0: it does not */
    uint16_t error;
    uint8_t wait;      /* enum rnic_wait */
    uint8_t slot;      /* of a read */
    uint8_t begun;     /* its first frame was sent */
    uint8_t immediate; /* its data was sent, and its immediate data was not */
};

/* --- objects --- */

/* A ring in host memory. */
struct rnic_ring {
    uint64_t base;
    uint32_t log2;     /* 0: there is none */
    uint32_t next;     /* running index of the entry that is to be fetched or written next */
    uint32_t producer; /* of work: the doorbell, as it was seen last */
    uint32_t reserved;
};

/* What arrives at a queue pair. */
enum rnic_arriving {
    RNIC_ARRIVING_NOTHING,
    RNIC_ARRIVING_SEND,
    RNIC_ARRIVING_WRITE,
    RNIC_ARRIVING_REFUSED /* the rest of a message that was refused on an Unreliable queue pair */
};

/* A queue pair. Its row lives from CREATE_QP to DESTROY_QP; the generation outlives it. */
struct rnic_qp {
    struct rnic_link link[RNIC_LISTS];
    uint8_t lists; /* a bit for each list that it is in */
    uint8_t state; /* a value of QP_STATE */
    uint8_t level;
    uint8_t rights;
    uint16_t fn;
    uint16_t realm;
    uint32_t domain;
    uint32_t send_cq;
    uint32_t recv_cq;
    uint32_t flow; /* plus 1; 0: none */
    uint16_t peer_qp;
    uint8_t ird;
    uint8_t ord;
    uint32_t max_message;
    uint16_t event;    /* the code of an event that is to be written, or 0 */
    uint16_t error;    /* why it is in ERROR */
    uint8_t drained;   /* in ERROR: DRAINED was completed */
    uint8_t halted;    /* an entry of the send queue has failed: none is begun any more */
    uint8_t requests;  /* how many are under way */
    uint8_t turn;      /* of requests, answers and stores, which had the last frame */
    uint8_t terminate; /* bytes of the Terminate that is to be sent; 0: none */
    uint8_t ack_due;   /* a message acknowledgment is to be sent */
    uint8_t reads_in;  /* requests of the peer that are not answered */
    uint8_t reads_out; /* our reads that are not answered */
    uint8_t first_in;  /* the slot of the oldest */
    uint8_t first_out;
    uint16_t generation; /* of outbound slots */
    uint16_t window;     /* plus 1; 0: none */
    uint16_t raw;        /* its row of the raw queue pairs, plus 1; 0: it has none */
    uint16_t templates;  /* how many pages of the AOTF space have one of it */
    uint16_t stores;     /* into those pages that wait */
    uint64_t closing;    /* CLOSING: ends then at the latest */
    uint32_t closing_at; /* CLOSING: running index behind the last entry that is executed */
    struct rnic_ring sq;
    struct rnic_ring rq;
    /* sending */
    uint32_t first_request; /* plus 1, oldest first */
    uint32_t last_request;
    uint32_t message; /* number of the next one */
    uint32_t send_msn;
    uint32_t read_msn;
    uint16_t out[RNIC_READ_SLOTS]; /* requests of outbound slots, plus 1 */
    uint32_t read_moved;           /* of the oldest inbound read, bytes sent */
    uint32_t responses;            /* sent: the number of the next one's message */
    /* receiving */
    uint8_t arriving;    /* enum rnic_arriving */
    uint8_t has_receive; /* `receive` is an entry that was fetched and is not complete */
    uint8_t promised;    /* immediate data is to follow the message */
    uint8_t looked;      /* there was no receive; the bus has had time to bring one since ... */
    uint32_t looked_at;  /* ... this advance of the card */
    uint32_t got_message;
    uint32_t got_send_msn;
    uint32_t got_read_msn;
    uint32_t got;         /* bytes of the message that have been placed */
    uint32_t left;        /* bytes that are to come */
    uint64_t address;     /* of a write: where the next byte goes */
    uint32_t stag;        /* of a write */
    uint32_t acknowledge; /* the number of the last message that was received */
    struct rnic_cursor at;
    union {
        struct rnic_work receive;
        uint8_t bytes[RNIC_TERMINATE_BYTES]; /* in ERROR: the Terminate */
    } in;
};

/* A raw queue pair that is not IDLE, and the frame of its oldest entry. */
struct rnic_raw {
    uint32_t qp; /* plus 1; 0: the row is free */
    uint8_t has; /* `work` was copied, and its frame was not sent */
    uint8_t reserved[3];
    uint64_t due; /* nothing of it is done until then; UINT64_MAX: it does not wait for a time */
    struct rnic_work work;
    uint8_t frame[RNIC_RAW_FRAME];
};

/* What stores into a page of the AOTF space become. RNIC_AOTF_PAGES for each function. */
struct rnic_template {
    uint64_t address; /* of the page's first byte, at the peer */
    uint32_t stag;
    uint32_t qp; /* plus 1; 0: the page has no template */
};

/* A store into the AOTF space that waits to be sent. RNIC_AOTF_STORES for each function, a ring. */
struct rnic_store {
    uint64_t address; /* at the peer */
    uint32_t stag;
    uint32_t qp;
    uint8_t data[8];
    uint8_t bytes;
    uint8_t reserved[7];
};

/* An RDMA Read that a peer has asked for. A table of its own: queue pairs that are not read touch
 * none of it. */
struct rnic_inbound {
    uint64_t address;
    uint64_t sink_offset;
    uint32_t stag;
    uint32_t bytes;
    uint32_t sink_stag;
    uint32_t reserved;
};

struct rnic_cq {
    struct rnic_ring ring; /* .producer: CQ_CONSUMER as it was seen last */
    uint32_t arm;          /* CQ_ARM as it was seen last */
    uint32_t users;        /* queue pairs that name it, once for each queue */
    uint16_t fn;
    uint16_t vector;
    /* entries before this running index have their OWNER word; the others are kept back by a
     * fault */
    uint32_t published;
    uint8_t armed;
    uint8_t reserved[3];
};

/* Registered memory. The tag outlives it: the next one of this row has the next generation. */
struct rnic_mr {
    uint64_t address; /* the first byte's, as work entries and peers name it */
    uint64_t length;
    uint64_t iova; /* linear: the first byte's */
    uint32_t tag;
    uint32_t domain;
    uint32_t pages; /* 0: linear */
    uint32_t first_page;
    uint16_t realm;
    uint8_t rights;
    uint8_t page_shift;
    uint32_t reserved;
};

struct rnic_listen {
    uint32_t object;
    uint32_t behind; /* the next one whose discriminator has the same hash, plus 1 */
    uint16_t fn;
    uint8_t length;
    uint8_t text[RNIC_MAX_DISCRIMINATOR];
};

/* A request that a function has claimed. */
struct rnic_claim {
    uint8_t peer_mac[6];
    uint16_t peer_fn;
    uint32_t peer_qp;
    uint32_t serial;
    uint16_t fn; /* plus 1; 0: the row is free */
    uint16_t reserved;
};

/* A flow of EFE, as the scheduler sees it; by EFE's number. */
struct rnic_flow {
    struct rnic_list users;
    struct rnic_list run;
    uint32_t behind;         /* the next flow of its function that may send, plus 1 */
    uint32_t behind_stalled; /* the next flow with a frame that could not be taken, plus 1 */
    uint16_t fn;
    uint8_t queued;  /* it is in the list of those that may send */
    uint8_t blocked; /* EFE had no room for its next frame */
    uint8_t stalled; /* it is in the list of those with a frame that could not be taken */
    /* there was no room for a control message for too long, and there has been none since */
    uint8_t refuses;
};

/* --- functions --- */

struct rnic_vector {
    uint32_t address_lo; /* the MSI-X table's entry, as the system wrote it */
    uint32_t address_hi;
    uint32_t data;
    uint32_t control;
    uint64_t quiet_until; /* moderation: the vector fires at this time at the earliest, ... */
    uint32_t causes;      /* ... or after this number of causes */
    uint32_t reserved;
};

/* In the order of the registers. */
enum rnic_counter {
    RNIC_COUNT_TX_FRAMES,
    RNIC_COUNT_RX_FRAMES,
    RNIC_COUNT_TX_BYTES,
    RNIC_COUNT_RX_BYTES,
    RNIC_COUNT_RESENT,
    RNIC_COUNT_DROPPED,
    RNIC_COUNT_DMA_READS,
    RNIC_COUNT_DMA_WRITES,
    RNIC_COUNT_DMA_FAILED,
    RNIC_COUNT_INTERRUPTS,
    RNIC_COUNT_COMMANDS,
    RNIC_COUNT_WAKES,
    RNIC_COUNT_COST_NS,
    RNIC_COUNT_RAW_MISSED,
    RNIC_COUNT_AOTF_OVERRUN,
    RNIC_COUNT_AOTF_DROPPED,
    RNIC_COUNTERS
};

struct rnic_fn {
    /* configuration space */
    uint16_t pci_command;
    uint16_t msix_control;
    uint16_t device_control;
    uint8_t interrupt_line;
    uint8_t cut;       /* its flows are to be ended */
    uint8_t reset_due; /* a fault: it is to be reset */
    uint32_t bar[6];
    /* interrupts */
    struct rnic_vector vector[RNIC_VECTORS];
    uint32_t pending; /* a bit for each vector that would have fired but is masked */
    uint32_t delayed; /* ... but is moderated */
    uint32_t int_cause;
    uint32_t int_mask;
    uint32_t int_delay_us;
    uint32_t int_count;
    /* control */
    uint8_t enabled;
    uint8_t big;   /* byte order */
    uint8_t quiet; /* answers to commands fire no interrupt */
    uint8_t catastrophic;
    uint8_t scan_all;     /* all doorbells are to be looked at, whatever the hints say */
    uint8_t runnable;     /* it is in the card's list of functions that have something to send */
    uint8_t command_dead; /* a fault: no command is answered any more */
    /* the next function in the list of those that have something to send, plus 1 */
    uint16_t behind;
    /* the next command waits for room in its flow, until then; 0: it does not */
    uint64_t control_until;
    /* a fault: until then its doorbells are not looked at, and nothing of it is sent */
    uint64_t deaf_until;
    uint64_t command_base; /* the registers; the rings below have what was taken over */
    uint64_t answer_base;
    uint64_t event_base;
    uint32_t command_log2;
    uint32_t event_log2;
    struct rnic_ring command;
    struct rnic_ring answer;
    struct rnic_ring event; /* .producer: EVENT_CONSUMER as it was seen last */
    uint32_t lost_events;   /* that were kept since the last one was written */
    uint8_t tell_link;      /* a LINK event is to be written */
    uint8_t lost;           /* a fault has reset it, and nobody has done so since */
    uint8_t reserved8[1];
    uint32_t error_code;
    uint32_t error_object;
    uint64_t error_address;
    uint32_t error_count;
    uint32_t used_qps;
    uint32_t used_cqs;
    uint32_t used_stags;
    uint32_t used_pbl;
    uint64_t counter[RNIC_COUNTERS];
    /* sending */
    uint32_t first_flow; /* that may send, plus 1, oldest first */
    uint32_t last_flow;
    struct rnic_list events;  /* RNIC_LIST_EVENT */
    struct rnic_list waiting; /* RNIC_LIST_REQUEST */
    struct rnic_numbers requests;
    uint32_t serial;                     /* of requests */
    uint32_t aotf_done;                  /* stores into the AOTF space that are over */
    uint8_t first_store;                 /* the place of the oldest one that waits ... */
    uint8_t stores;                      /* ... and how many wait */
    uint64_t windows[RNIC_WINDOWS / 64]; /* a bit for each window that a queue pair has */
};

/* --- the card --- */

/* The buddy allocator of page list entries; pbl.c. */
enum { RNIC_PBL_ORDERS = 32 };
struct rnic_pbl {
    uint32_t first[RNIC_PBL_ORDERS]; /* by order: the first free block of 2^order entries, plus 1 */
};

/* The engines and ports of the cost model; cost.c. */
enum rnic_engine_kind {
    RNIC_ENGINE_SEND,    /* executes commands, makes frames, and completes requests */
    RNIC_ENGINE_RECEIVE, /* takes frames, and completes receives */
    RNIC_ENGINES
};
enum rnic_port_kind {
    RNIC_PORT_HOST,        /* host memory, over the bus */
    RNIC_PORT_HOST_WRITES, /* where the bus has a port for each direction */
    RNIC_PORT_DRAM,        /* device memory */
    RNIC_PORT_SRAM,
    RNIC_PORTS
};

struct rnic_state {
    struct rnic_card_config config;
    uint64_t now;     /* of the last advance */
    uint64_t clock;   /* of the engine whose operation this is */
    uint64_t crossed; /* the time of the last transaction */
    struct rnic_engine engines[RNIC_ENGINES];
    struct rnic_port port[RNIC_PORTS];
    uint64_t random;
    uint32_t advances;
    uint8_t kick; /* there is more to do at once */
    uint8_t link_up;
    uint8_t removed; /* a fault: registers read all ones */
    uint8_t sleeping;
    uint8_t engine;    /* whose operation this is; RNIC_ENGINES: none's */
    uint8_t raw_first; /* the last turns began with raw queue pairs */
    uint8_t reserved8[6];
    struct rnic_numbers qps;
    struct rnic_numbers cqs;
    struct rnic_numbers mrs;
    struct rnic_numbers listens;
    struct rnic_pbl pbl;
    struct rnic_list lost;    /* RNIC_LIST_RUN: queue pairs whose flow has died */
    struct rnic_list closing; /* RNIC_LIST_CLOSING */
    uint64_t interrupt_due;   /* when a moderated interrupt may fire; UINT64_MAX: there is none */
    uint64_t control_due;     /* when a command has waited long enough; UINT64_MAX: none waits */
    uint32_t stalled;         /* the first flow with a frame that could not be taken, plus 1 */
    uint16_t first_fn;        /* that has something to send, plus 1 */
    uint16_t last_fn;
    uint32_t cut;      /* functions whose flows are to be ended, because they are catastrophic */
    uint32_t lost_fns; /* functions that a fault has reset */
    /* raw queue pairs by their rows, a bit each: those with something to do, and those that wait
     * until the switch has handed out frames */
    uint32_t raw_ready;
    uint32_t raw_blocked;
    uint32_t raw_users; /* how many rows are taken */
    uint32_t raw_next;  /* the row that has the next turn */
    uint32_t reserved;
    uint64_t raw_due; /* when the first of those that wait for a time may go on */
    uint32_t wire_mbits;
    uint32_t last_sender; /* the function whose frame EFE has sent last */
    uint32_t next_claim;  /* the row of the next claim, which is the oldest */
    /* frames that EFE had sent again when it was asked last */
    uint64_t resent;
    uint32_t listen_bucket[RNIC_LISTENS / 4]; /* first of a hash, plus 1 */
    /* offsets of the tables in the area */
    uint64_t fns;
    uint64_t qp_rows;
    uint64_t inbound_rows;
    uint64_t raw_rows;
    uint64_t template_rows;
    uint64_t store_rows;
    uint64_t cq_rows;
    uint64_t mr_rows;
    uint64_t pbl_rows;  /* uint64_t each: a page's address, or of a free block its links */
    uint64_t pbl_marks; /* uint8_t each: the first entry of a free block has its order plus 1 */
    uint64_t listen_rows;
    uint64_t claim_rows;    /* RNIC_CLAIMS */
    uint64_t request_rows;  /* RNIC_REQUESTS for each function */
    uint64_t request_links; /* uint32_t, as many */
    uint64_t flow_rows;
    uint64_t efe;
    uint64_t wire_switch;
    uint64_t faults;
};

/* --- rows --- */

static inline struct rnic_state *rnic_state(const struct rnic_card *card)
{
    return card->area;
}
static inline void *rnic_at(const struct rnic_card *card, uint64_t offset)
{
    return (uint8_t *)card->area + offset;
}
static inline struct rnic_fn *rnic_fn(const struct rnic_card *card, unsigned fn)
{
    return (struct rnic_fn *)rnic_at(card, rnic_state(card)->fns) + fn;
}
static inline struct rnic_qp *rnic_qp(const struct rnic_card *card, uint32_t qp)
{
    return (struct rnic_qp *)rnic_at(card, rnic_state(card)->qp_rows) + qp;
}
static inline struct rnic_inbound *rnic_inbound(const struct rnic_card *card, uint32_t qp, unsigned slot)
{
    return (struct rnic_inbound *)rnic_at(card, rnic_state(card)->inbound_rows) +
           (size_t)qp * RNIC_READ_SLOTS + slot % RNIC_READ_SLOTS;
}
static inline struct rnic_raw *rnic_raw(const struct rnic_card *card, uint32_t index)
{
    return (struct rnic_raw *)rnic_at(card, rnic_state(card)->raw_rows) + index;
}
static inline struct rnic_template *rnic_template(const struct rnic_card *card, unsigned fn, uint64_t page)
{
    return (struct rnic_template *)rnic_at(card, rnic_state(card)->template_rows) +
           (size_t)fn * RNIC_AOTF_PAGES + page;
}
static inline struct rnic_store *rnic_store(const struct rnic_card *card, unsigned fn, uint32_t index)
{
    return (struct rnic_store *)rnic_at(card, rnic_state(card)->store_rows) + (size_t)fn * RNIC_AOTF_STORES +
           index % RNIC_AOTF_STORES;
}
static inline struct rnic_cq *rnic_cq(const struct rnic_card *card, uint32_t cq)
{
    return (struct rnic_cq *)rnic_at(card, rnic_state(card)->cq_rows) + cq;
}
static inline struct rnic_mr *rnic_mr(const struct rnic_card *card, uint32_t index)
{
    return (struct rnic_mr *)rnic_at(card, rnic_state(card)->mr_rows) + index;
}
static inline struct rnic_listen *rnic_listen(const struct rnic_card *card, uint32_t index)
{
    return (struct rnic_listen *)rnic_at(card, rnic_state(card)->listen_rows) + index;
}
static inline struct rnic_claim *rnic_claim(const struct rnic_card *card, uint32_t index)
{
    return (struct rnic_claim *)rnic_at(card, rnic_state(card)->claim_rows) + index;
}
static inline struct rnic_request *rnic_request(const struct rnic_card *card, unsigned fn, uint32_t index)
{
    return (struct rnic_request *)rnic_at(card, rnic_state(card)->request_rows) + (size_t)fn * RNIC_REQUESTS +
           index;
}
static inline struct rnic_flow *rnic_flow(const struct rnic_card *card, uint32_t flow)
{
    return (struct rnic_flow *)rnic_at(card, rnic_state(card)->flow_rows) + flow;
}
static inline void rnic_count(const struct rnic_card *card, unsigned fn, enum rnic_counter counter,
                              uint64_t by)
{
    rnic_fn(card, fn)->counter[counter] += by;
}

#endif
