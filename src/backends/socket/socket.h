/* SPDX-License-Identifier: MIT */
/*
 * Kernel sockets that speak iWARP: VIs of different hosts over TCP.
 *
 *   socket.c          the device, its settings and limits, the operations table
 *   socket_address.c  interfaces, host names, ports of a discriminator
 *   socket_loop.c     readiness and timers (libuv), progress, who is told of lost connections
 *   socket_conn.c     a connection's life
 *   socket_hello.c    what two of us say to each other in MPA's private data
 *   socket_listen.c   the waiting side: ports, half-open connections, requests, acceptance
 *   socket_call.c     the requesting side: the walk over the ports, both ways to connect
 *   socket_send.c     posts into the stream, answers to RDMA Reads
 *   socket_receive.c  the stream into receives, registered memory and outcomes
 *   socket_land.c     large payloads, received to where they go
 *   socket_foreign.c  what differs where the other end is iWARP of somebody else's
 *
 * Copies: a send leaves from the program's memory by one system call. Received payloads are copied once,
 * out of the buffer one system call fills for many messages; large ones of connections without CRC
 * land in place. With CRC a payload is copied in any case, because it must not be placed before its CRC
 * is known to be right.
 *
 * Locks: `lock` of the device (rank BACKEND_RX) guards everything but a connection's sending side, which
 * has a lock of its own (rank BACKEND_TX). A VI's area is written under both queue locks besides.
 */
#ifndef VIPL_SOCKET_H
#define VIPL_SOCKET_H

#include <uv.h>

#include "core/backend.h"
#include "core/backend_up.h"
#include "core/list.h"
#include "iwarp/mpa.h"
#include "iwarp/rdmap.h"
#include "os/os.h"
#include "os/os_mutex.h"

enum {
    SK_PROBES = 8,         /* ports that a discriminator may have */
    SK_READS = 64,         /* IRD and ORD between two of us */
    SK_FOREIGN_READS = 16, /* and with others, at most */
    SK_UNTOLD_READS = 1,   /* ORD towards who has not said how many it takes */
    /* Payload bytes of a DDP segment between two of us. An FPDU of an RDMA Write or of an answer is a multiple of 16 bytes
     * with that, and what is sent in multiples of pages ends nowhere in the middle of its head: Wireshark loses its way
     * where TCP's segment ends 4 bytes into an FPDU. */
    SK_SEGMENT = 65500,
    SK_TRANSFER_SIZE = 4 << 20,
    SK_SCRATCH = 256 * 1024,
    /* For the peer's end of a stream that we have ended; longer while ours is not delivered. */
    SK_LINGER_MS = 2000
};

enum sk_crc { SK_CRC_AUTO, SK_CRC_ON, SK_CRC_OFF };

struct sk_settings {
    uint32_t first_port;
    uint32_t ports;
    uint32_t crc;          /* enum sk_crc */
    uint32_t handshake_ms; /* for a half-open connection to say what it wants */
    uint32_t half_open; /* such connections at most; the oldest of the address that has the most goes first */
    struct vipl_tcp_tuning tuning;
};

/* An opened device. */
struct vipl_be_nic {
    struct vipl_nic *core;       /* constant */
    struct vipl_address address; /* constant */
    struct vipl_inet inet;       /* constant: the same, as the system has it */
    struct sk_settings settings; /* constant */
    struct vipl_mutex lock;
    uv_loop_t loop;
    uv_timer_t accept_timer;    /* takes up accepting again after a lack of descriptors */
    uv_timer_t silence_timer;   /* looks for hosts that have gone; runs while some owe an answer */
    struct vipl_list conns;     /* sk_conn.link */
    struct vipl_list half_open; /* sk_source.link, in the order in which they began to have any */
    struct vipl_list listeners; /* sk_listener.link, the latest used last */
    struct vipl_list calls;     /* sk_call.link */
    uint32_t half_open_count;
    uint32_t idle_listeners;
    uint32_t conn_count;
    int highest_fd; /* that has been watched */
    uint32_t polls;
    uint32_t changed;    /* atomic: the loop has watches that the kernel does not know of yet */
    bool doubt;          /* whether the loop still has its descriptors: to be looked at before it runs */
    bool lost;           /* it has not, and runs no more */
    bool sooner;         /* who sleeps may have to wake earlier than it thinks */
    uint32_t slept;      /* atomic: somebody has slept since the last look around */
    struct sk_conn *hot; /* received last; NULL: none */
    uint8_t *scratch;    /* SK_SCRATCH bytes */
    struct sk_fallen {
        struct vipl_vi *vi; /* pinned */
        bool settle;        /* core knows why; else the connection is lost */
        VIP_ERROR_CODE code;
    } fallen[64]; /* VIs whose connections broke; told when no lock is held */
    unsigned fallen_count;
    bool fallen_more;            /* there was no room for all */
    struct vipl_mutex want_lock; /* rank BACKEND_TX; never held with a connection's */
    struct vipl_list wanting;    /* sk_conn.want: posts wait for room, or answers for their turn */
    uint32_t wants;              /* atomic: 0, nothing is in `wanting` */
    uint32_t spoke;              /* atomic: something has been sent since the last look for silence */
};

/* An address that half-open connections have come from. */
struct sk_source {
    struct vipl_list link;
    struct vipl_list conns; /* sk_conn.phase, oldest first; never empty */
    uint32_t count;
    struct vipl_inet host; /* its port is of no interest */
};

/* A discriminator that somebody waits, or has waited, for. */
struct sk_listener {
    struct vipl_list link;
    struct vipl_be_nic *be;
    struct vipl_address local;
    uint32_t waiting; /* calls that wait now */
    bool waited;      /* some call has */
    uint32_t peers;   /* symmetric requests that use it */
    int fd;
    uv_poll_t watch;
};

/* The requesting side of a VI's connection, until it is answered. */
struct sk_call {
    struct vipl_list link;
    struct vipl_be_nic *be;
    struct vipl_vi *vi;
    struct vipl_address local;
    struct vipl_address remote;
    struct vipl_inet target;
    struct vipl_vi_facts facts;
    struct sk_conn *conn;             /* the probe under way, or the answer to a peer's; NULL: none */
    struct sk_conn *asked[SK_PROBES]; /* probes that nobody has answered yet */
    struct sk_listener *listener;     /* symmetric: where the peer may find us; NULL: nowhere */
    bool peer;
    bool dials;  /* symmetric: this side walks */
    bool tied;   /* symmetric: both sides have one name; the port decides */
    bool silent; /* some port of the last walk gave no answer */
    bool unreachable;
    bool answered; /* some port has said no */
    unsigned probe;
    unsigned older; /* a bit for each probe: asked in revision 1, perhaps the only one known there */
    unsigned round;
    uv_timer_t timer; /* until the next walk */
};

enum sk_state {
    SK_DIALING,  /* TCP is connecting, for a call */
    SK_ASKING,   /* our request is sent */
    SK_GREETING, /* accepted; the peer's request has not come yet */
    SK_OFFERED,  /* the peer's request is the program's to answer */
    SK_OPENING,  /* answered yes; the peer's first FPDU has not come yet */
    SK_FRESH,    /* open, and no FPDU of the foreign peer's has come yet */
    SK_OPEN,
    SK_ENDING /* no VI any more; the peer has not closed yet */
};

enum { SK_OP_READY = 0xFFFF }; /* of a pending that is no post's: our first FPDU, an empty read */

/* An operation of ours that the peer answers, by an RDMA Read Response, in order. */
struct sk_pending {
    uint32_t sequence;
    uint32_t bytes; /* to read, or those of the message that an empty read confirms */
    uint16_t op;
    bool confirms;
};

/* An RDMA Read of the peer's, to be answered in order. */
struct sk_answer {
    struct vipl_rdmap_read read;
    uint32_t msn;
};

/* What a message that is all there waits for, before its receive is complete. */
enum sk_held {
    SK_HELD_NOT,
    SK_HELD_FOR_IMMEDIATE, /* its immediate data */
    SK_HELD_FOR_READ       /* the empty read that confirms it: whoever hears of it can disconnect at once */
};

struct sk_receiving {
    uint8_t *stash;    /* an FPDU that is not all there */
    size_t stash_have; /* bytes of it that are */
    size_t stash_size;
    uint32_t send_msn; /* expected next */
    uint32_t read_msn;
    uint32_t mo;        /* bytes of the Send that is under way */
    bool drop;          /* the rest of the message under way is of no use */
    enum sk_held held;  /* a message is all there, and */
    bool held_drop;     /* is of no use */
    bool held_write;    /* FOR_READ: an RDMA Write's immediate data, not a Send */
    bool held_says;     /* FOR_READ: it has immediate data */
    bool writing;       /* an RDMA Write is under way */
    bool write_refused; /* it, or the one before, was not placed */
    bool announced;     /* its end is known */
    uint64_t write_end;
    uint32_t held_bytes;
    uint32_t held_immediate;
    uint32_t write_bytes;    /* of the RDMA Write under way, or before */
    uint32_t response_bytes; /* of the RDMA Read Response that is under way */
    bool response_lost;      /* not all of it could be placed */
    struct vipl_ddp land;    /* of what is missing of the FPDU under way */
    size_t landing;          /* bytes of payload that are; 0: none is under way */
    size_t land_tail;        /* those of them that are not to land */
    unsigned large;          /* large FPDUs are expected, so many others in between */
};

struct sk_sending {
    struct vipl_mutex lock;
    uint32_t send_msn; /* for the next Send, or Immediate Data */
    uint32_t read_msn;
    size_t sent;      /* bytes of the post under way that are in the stream */
    bool posting;     /* a post has a part of its FPDUs in the stream */
    uint16_t op;      /* and is one of these */
    uint32_t refusal; /* VIP_STATUS error bits: the peer will not have the rest; 0: it may */
    bool answering;   /* so has an answer */
    bool blocked;     /* a post waits for room */
    bool quiet;       /* SK_FRESH, and the peer is to speak first */
    bool closed;      /* nothing is to be sent any more */
    size_t answered;  /* bytes of the answer under way that are in the stream */
    uint32_t reads;   /* ORD */
    uint32_t first_pending;
    uint32_t pendings;
    uint32_t first_answer;
    uint32_t answers;
    struct sk_pending pending[SK_READS];
    struct sk_answer answer[SK_READS];
};

/* A stream with markers: one FPDU at a time, marked, until the kernel has it. Guarded by the sending lock. */
struct sk_marking {
    uint32_t position; /* in the stream, modulo their spacing */
    size_t fpdu;       /* bytes of the FPDU that is under way, without markers; 0: none is */
    size_t have;       /* with them */
    size_t sent;
    uint32_t most;  /* payload bytes of a segment that there is room for */
    uint8_t *plain; /* room for one FPDU without markers */
    uint8_t *marked;
};

/* What conn_accept waits for; on its stack. */
struct sk_acceptance {
    bool over;
    bool opened;
};

struct sk_conn {
    struct vipl_list link;
    struct vipl_list phase;   /* source->conns while SK_GREETING */
    struct sk_source *source; /* NULL: not half-open */
    struct vipl_list want;    /* be->wanting; guarded by want_lock */
    struct vipl_be_nic *be;
    enum sk_state state;
    int fd;
    int events;       /* what is watched */
    unsigned handles; /* of the loop, not closed yet */
    bool readable;    /* a callback has said so since the last look */
    unsigned looks;   /* in a row at which the peer's host owed an answer and was silent; ended: owed one */
    bool broken;      /* nothing comes any more; told or to be told */
    bool fell;        /* to be told, there was no room */
    VIP_ERROR_CODE fell_code;
    uv_poll_t watch;
    uv_timer_t timer;
    struct vipl_vi *vi;
    struct vipl_conn *request; /* SK_OFFERED: core's */
    struct sk_call *call;      /* SK_DIALING, SK_ASKING; and SK_OPENING of a symmetric answer */
    unsigned probe;            /* of its walk: which port */
    struct sk_acceptance *acceptance;
    struct vipl_inet peer;
    struct vipl_address local;   /* what its listener waits for; a foreign requester names nothing */
    struct vipl_vi_facts facts;  /* the other VI's */
    struct vipl_mpa_start start; /* the peer's request */
    struct vipl_mpa_enhanced enhanced;
    bool crc;
    bool foreign; /* the peer is iWARP, and not one of us; constant from its request or reply on */
    bool unreliable;
    bool confirms_sends;  /* the peer, one of us, asks for it behind each: Reliable Reception */
    bool confirms_writes; /* and behind RDMA Writes: both reliable levels */
    uint32_t segment;     /* payload bytes of a DDP segment of ours; foreign peers': guarded by tx.lock */
    unsigned nudges;      /* empty RDMA Writes to a foreign peer that has not been heard yet */
    struct sk_marking *marking; /* NULL: no markers; constant while open */
    struct sk_receiving rx;
    struct sk_sending tx;
};

/* The backend's part of a VI, and of a connection request. */
struct sk_vi {
    struct sk_conn *conn; /* written under both queue locks and the device's */
    struct sk_call *call; /* guarded by the device's lock */
};
struct sk_request {
    struct sk_conn *conn; /* guarded by the device's lock; NULL: it has gone */
};
_Static_assert(sizeof(struct sk_vi) <= VIPL_VI_AREA_BYTES, "the VI's area holds it");
_Static_assert(sizeof(struct sk_request) <= VIPL_CONN_AREA_BYTES, "the request's area holds it");

static inline struct sk_vi *sk_vi_of(struct vipl_vi *vi)
{
    return vipl_vi_area(vi);
}
static inline struct sk_request *sk_request_of(struct vipl_conn *conn)
{
    return vipl_conn_area(conn);
}

/* --- socket_address.c --- */

int vipl_sk_choose_address(const char *device, struct vipl_inet *out); /* 0, or ENODEV */
bool vipl_sk_from_address(const struct vipl_address *in, const struct vipl_inet *like, struct vipl_inet *out);
void vipl_sk_to_address(const struct vipl_inet *in, struct vipl_address *out);
bool vipl_sk_same_host(const struct vipl_inet *a, const struct vipl_inet *b);
bool vipl_sk_same_discriminator(const struct vipl_address *a, const struct vipl_address *b);
/* The probe-th port of a discriminator, probe < SK_PROBES. */
uint16_t vipl_sk_port(const struct sk_settings *settings, const struct vipl_address *address, unsigned probe);
unsigned vipl_sk_probes(const struct sk_settings *settings); /* how many ports that are */
VIP_RETURN vipl_sk_resolve(struct vipl_be_nic *be, const char *name, uint32_t index,
                           struct vipl_address *out);
VIP_RETURN vipl_sk_reverse(struct vipl_be_nic *be, const struct vipl_address *host, char *name, size_t size);

/* --- socket_loop.c: the device's lock is held unless it says otherwise --- */

int vipl_sk_loop_open(struct vipl_be_nic *be);
void vipl_sk_loop_close(struct vipl_be_nic *be);                         /* every handle has been closed */
void vipl_sk_poll(struct vipl_be_nic *be);                               /* not held */
void vipl_sk_arm(struct vipl_be_nic *be, struct vipl_nap *nap);          /* not held */
void vipl_sk_disarm(struct vipl_be_nic *be, const struct vipl_nap *nap); /* not held */
/* Whether the loop can watch the descriptor now: false, it would allocate, and may not; somebody else will. */
bool vipl_sk_has_room(struct vipl_be_nic *be, int fd);
void vipl_sk_changed(struct vipl_be_nic *be); /* the loop has something new to watch or to wait for */
void vipl_sk_fell(struct sk_conn *conn, VIP_ERROR_CODE code); /* the connection broke: its VI is told */
void vipl_sk_settle(struct vipl_be_nic *be,
                    struct vipl_vi *vi); /* so is a pinned VI that core is to settle */
/* Lets the lock go; tells whose connections broke, and who sleeps that it may have to wake sooner. No lock of core's. */
void vipl_sk_unlock(struct vipl_be_nic *be);
/* A post or an answer waits; whoever polls goes on with it. Any lock but want_lock and a sending lock. */
void vipl_sk_want(struct sk_conn *conn);

/* --- socket_conn.c: the device's lock is held unless it says otherwise --- */

struct sk_conn *vipl_sk_conn_new(struct vipl_be_nic *be, int fd,
                                 enum sk_state state); /* owns fd, or closes it */
void vipl_sk_conn_watch(struct sk_conn *conn, int events);
void vipl_sk_conn_deadline(struct sk_conn *conn, uint32_t ms); /* 0: none */
void vipl_sk_conn_close(struct sk_conn *conn);                 /* at once; it has no VI, call or request */
void vipl_sk_conn_end(
    struct sk_conn *conn); /* it has no VI any more: says so, and waits for the peer's end */
void vipl_sk_conn_attach(struct sk_conn *conn, struct vipl_vi *vi);  /* no VI lock held */
struct vipl_vi *vipl_sk_conn_detach(struct sk_conn *conn);           /* likewise */
void vipl_sk_conn_ready(struct sk_conn *conn, int events);           /* something can be done on the socket */
void vipl_sk_conn_open(struct sk_conn *conn);                        /* the VI is connected from here on */
void vipl_sk_watch_silence(struct vipl_be_nic *be);                  /* if something has been sent */
void vipl_sk_disconnect(struct vipl_be_nic *be, struct vipl_vi *vi); /* not held */
void vipl_sk_sever(struct vipl_be_nic *be, struct vipl_vi *vi);      /* not held; both VI locks are */

/* --- socket_hello.c --- */

enum sk_kind { SK_REQUEST = 1, SK_PEER_REQUEST = 2, SK_ACCEPT = 3, SK_REFUSE = 4 };
enum sk_refusal { SK_NOBODY = 1, SK_REJECTED = 2, SK_BUSY = 3, SK_DISAGREES = 4 };
struct sk_hello {
    uint8_t kind;   /* enum sk_kind */
    uint8_t reason; /* enum sk_refusal, of SK_REFUSE */
    uint8_t code;   /* VIP_RETURN, of SK_DISAGREES */
    struct vipl_vi_facts facts;
    uint32_t segment;         /* payload bytes that the sender takes in a DDP segment */
    struct vipl_address from; /* discriminators only */
    struct vipl_address to;
};
size_t vipl_sk_hello_write(uint8_t *out,
                           const struct sk_hello *h); /* at most VIPL_MPA_OUR_PRIVATE - 4 bytes */
bool vipl_sk_hello_read(const uint8_t *bytes, size_t length,
                        struct sk_hello *out);                   /* false: makes no sense */
bool vipl_sk_hello_is_ours(const uint8_t *bytes, size_t length); /* it has the magic, whatever follows */
/* Sends an MPA start frame with that hello (NULL: without) in one piece. False: the connection is of no use. */
bool vipl_sk_start_send(struct sk_conn *conn, struct vipl_mpa_start start,
                        const struct vipl_mpa_enhanced *enhanced, const struct sk_hello *hello);
/* Receives into the stash until the start frame and its private data are there, and not a byte more. */
enum vipl_parse vipl_sk_start_receive(struct sk_conn *conn, struct vipl_mpa_start *start, bool reply);
/* The private data that has come with it, behind RFC 6581's part, which goes to conn->enhanced (else zeroes). */
const uint8_t *vipl_sk_start_private(struct sk_conn *conn, const struct vipl_mpa_start *start, size_t *bytes);

/* --- socket_listen.c --- */

VIP_RETURN vipl_sk_listen(struct vipl_be_nic *be, const struct vipl_address *local);
void vipl_sk_unlisten(struct vipl_be_nic *be, const struct vipl_address *local);
bool vipl_sk_conn_taken(struct vipl_be_nic *be, struct vipl_conn *request);
VIP_RETURN vipl_sk_conn_accept(struct vipl_be_nic *be, struct vipl_conn *request, struct vipl_vi *vi);
void vipl_sk_conn_reject(struct vipl_be_nic *be, struct vipl_conn *request, bool answer);
/* The listener for a discriminator, made if need be on the first free port from `probe` on, `only` there; NULL: none is
 * free. The device's lock is held, here and below. */
struct sk_listener *vipl_sk_listener(struct vipl_be_nic *be, const struct vipl_address *local, unsigned probe,
                                     bool only);
void vipl_sk_listener_release(
    struct sk_listener *listener); /* nobody waits there: it is closed, or kept a while */
void vipl_sk_listeners_close(struct vipl_be_nic *be);
void vipl_sk_half_open_leave(struct sk_conn *conn); /* if it was */
bool vipl_sk_wants_crc(const struct sk_conn *conn);
void vipl_sk_greet(struct sk_conn *conn); /* SK_GREETING, bytes have come */
bool vipl_sk_answer_yes(struct sk_conn *conn, const struct vipl_vi_facts *facts);
void vipl_sk_refuse(struct sk_conn *conn, enum sk_refusal reason, VIP_RETURN code); /* and ends it */
void vipl_sk_request_gone(struct sk_conn *conn); /* SK_OFFERED, and the requester has left */

/* --- socket_call.c --- */

VIP_RETURN vipl_sk_connect(struct vipl_be_nic *be, struct vipl_vi *vi, const struct vipl_address *local,
                           const struct vipl_address *remote, bool peer);
VIP_RETURN vipl_sk_connect_cancel(struct vipl_be_nic *be, struct vipl_vi *vi);
void vipl_sk_dialed(struct sk_conn *conn);      /* SK_DIALING: TCP has decided; the device's lock is held */
void vipl_sk_replied(struct sk_conn *conn);     /* SK_ASKING: bytes have come */
void vipl_sk_call_lost(struct sk_conn *conn);   /* the connection ended before there was an answer */
void vipl_sk_call_opened(struct sk_conn *conn); /* symmetric: the peer has taken up our answer */
bool vipl_sk_peer_arrived(struct sk_conn *conn, const struct sk_hello *hello); /* false: nobody here */
void vipl_sk_calls_close(struct vipl_be_nic *be);

/* --- socket_send.c --- */

enum vipl_posted vipl_sk_post_send(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_send *send);
void vipl_sk_first_frame(struct sk_conn *conn, uint8_t op); /* an empty RDMA Write, say: ready to receive */
void vipl_sk_nudge(struct sk_conn *conn);                   /* one more, if nothing else is under way */
/* What a Terminate is about. NULLs: nothing that is told. */
struct sk_about {
    const struct vipl_ddp *ddp;
    const uint8_t *control; /* the header's first bytes as they came, where they are wrong */
    const struct vipl_rdmap_read *read;
};
void vipl_sk_terminate(struct sk_conn *conn, uint16_t reason, const struct sk_about *about);
struct vipl_ddp vipl_sk_read_request(uint32_t msn); /* the header of an RDMA Read Request */
/* The peer has ended the stream by a Terminate: which operation it stopped at, if any, the oldest that waits for its word or
 * a message that is half in the stream (*half). From here on nothing more goes out. */
bool vipl_sk_stopped_at(struct sk_conn *conn, struct sk_pending *out, bool *half);
/* A message that is half in the stream is over, with these VIP_STATUS bits. 0: it stays. False: the connection has
 * broken. */
bool vipl_sk_refuse_post(struct sk_conn *conn, uint32_t status);
void vipl_sk_answer(struct sk_conn *conn); /* as many RDMA Reads as there is room for */
void vipl_sk_resume(struct sk_conn *conn); /* there is room: answers, then posts */

/* --- socket_foreign.c: the device's lock is held unless it says otherwise --- */

void vipl_sk_foreign_facts(struct vipl_vi_facts *out);
/* Our part of an enhanced set-up, in answer to theirs. */
struct vipl_mpa_enhanced vipl_sk_foreign_answer(const struct vipl_mpa_enhanced *theirs);
/* The connection is to be one with a foreign peer, which has said this. False: there is no memory for it. */
bool vipl_sk_foreign_begin(struct sk_conn *conn, const struct vipl_mpa_start *start);
void vipl_sk_foreign_end(struct sk_conn *conn); /* forgets what begin made */
/* Whether that peer's first FPDU is a message that only says that it is ready. */
bool vipl_sk_foreign_gets_ready(const struct sk_conn *conn);
void vipl_sk_foreign_fresh(struct sk_conn *conn, bool quiet); /* open from here on, as SK_FRESH */
bool vipl_sk_foreign_heard(struct sk_conn *conn); /* and now SK_OPEN. False: the connection has broken */
void vipl_sk_foreign_nudge(struct sk_conn *conn); /* its deadline: it has not been heard yet */
uint8_t vipl_sk_ready_op(const struct vipl_mpa_enhanced *agreed); /* and which: an RDMAP operation */
/* Before a post's first byte; VI's send lock and sending lock are held. False: refused, and send->status says why. */
bool vipl_sk_foreign_post(struct sk_conn *conn, struct vipl_send *send);
void vipl_sk_foreign_resegment(struct sk_conn *conn); /* between two messages; the sending lock is held */
/* As vipl_tcp_send(), of whole FPDUs but for the first's sent part; *sent is in bytes without markers. Sending lock. */
int vipl_sk_send_marked(struct sk_conn *conn, const struct vipl_iov *pieces, unsigned count, size_t *sent);
/* VIP_STATUS bits that a foreign peer's Terminate means for an operation. */
uint32_t vipl_sk_foreign_status(uint16_t reason, uint16_t op);

/* --- socket_receive.c --- */

/* A DDP segment, or a part of one that is not all there. */
struct sk_segment {
    struct vipl_ddp ddp;
    const uint8_t *payload; /* NULL: it is in its place */
    size_t bytes;
    size_t ahead; /* bytes of the segment behind these */
};
/* The functions that return bool: false, the connection has broken or ended, and is not to be touched. */
void vipl_sk_receive(struct sk_conn *conn); /* SK_OPENING, SK_OPEN */
bool vipl_sk_segment(struct sk_conn *conn, const struct sk_segment *s);
/* Keeps the begin of an FPDU until the rest comes. */
bool vipl_sk_stash(struct sk_conn *conn, const uint8_t *from, size_t bytes);
/* Whether those bytes of an RDMA Write's segment may be placed; all that is still to come of the message is looked up with
 * them. The VI's receive lock is held. *reason: to tell the peer; 0: nothing, or it has been. */
bool vipl_sk_write_allowed(struct sk_conn *conn, const struct vipl_ddp *ddp, size_t bytes, uint16_t *reason);
/* Lets the VI's receive lock go. What went wrong under it, core is to settle; a peer of a reliable VI is told why. */
bool vipl_sk_done(struct sk_conn *conn, uint16_t reason, const struct vipl_ddp *about);
uint16_t vipl_sk_claim_reason(enum vipl_claim claim); /* 0: there is none to give */
/* Why an RDMA Read of the peer's has just been refused. The VI's receive lock is held. */
uint16_t vipl_sk_read_reason(struct sk_conn *conn, const struct vipl_rdmap_read *read);
/* The memory of a claimed receive, or of an allowed RDMA Write, is not there: it fails, and the rest is dropped. The VI's
 * receive lock is held. Returns the reason to give. */
uint16_t vipl_sk_recv_fault(struct sk_conn *conn);
uint16_t vipl_sk_write_fault(struct sk_conn *conn);

/* --- socket_land.c --- */

/* Whether the rest of an FPDU, of which `have` bytes are there, is to land. */
bool vipl_sk_lands(const struct sk_conn *conn, const uint8_t *fpdu, size_t have);
bool vipl_sk_land_begin(struct sk_conn *conn, const uint8_t *fpdu, size_t have);
/* What a system call brought: of the FPDU under way, and of the stream behind it. */
struct sk_landing {
    size_t received;
    size_t landed;
    const uint8_t *rest;
};
/* One system call, for what is missing but for the tail, and what follows. 0, or why nothing came; the connection may
 * have broken besides. */
int vipl_sk_land(struct sk_conn *conn, struct sk_landing *out);
bool vipl_sk_landed(struct sk_conn *conn, size_t bytes); /* takes note of it */
/* How much to receive beyond what is known of: little, where a large FPDU may follow. */
size_t vipl_sk_land_room(const struct sk_receiving *rx);
void vipl_sk_land_expect(struct sk_receiving *rx, size_t fpdu); /* one of that size came whole */

#endif
