/* SPDX-License-Identifier: MIT */
/*
 * Kernel sockets that speak iWARP: VIs of different hosts over TCP.
 *
 *   socket.c          the device, its settings and limits, the operations table
 *   address.c  interfaces, host names, ports of a discriminator
 *   loop.c     readiness and timers (libuv), progress, who is told of lost connections
 *   conn.c     a connection's life
 *   request.c    what two of us say to each other in MPA's private data
 *   listen.c   the waiting side: ports, half-open connections, requests, acceptance
 *   connect.c     the requesting side: the walk over the ports, both ways to connect
 *   tx.c     posts into the stream, answers to RDMA Reads
 *   rx.c  the stream into receives, registered memory and outcomes
 *   land.c     large payloads, received to where they go
 *   foreign.c  what differs where the other end is iWARP of somebody else's
 *
 * Copies: a send leaves from the program's memory by one system call. Received payloads are copied once,
 * out of the buffer one system call fills for many messages; large ones of connections without CRC
 * land in place. With CRC a payload is copied in any case, because it must not be placed before its CRC
 * is known to be right.
 *
 * Locks: `lock` of the device (rank BACKEND_RX) guards everything but a connection's sending side, which
 * has a lock of its own (rank BACKEND_TX). A VI's area is written under both queue locks besides.
 */
#ifndef VIPL_TCP_TCP_H
#define VIPL_TCP_TCP_H

#include <uv.h>

#include "base/list.h"
#include "core/backend.h"
#include "core/backend_up.h"
#include "iwarp/mpa.h"
#include "iwarp/rdmap.h"
#include "os/os.h"
#include "os/os_mutex.h"

enum {
    TCP_PROBES = 8,         /* ports that a discriminator may have */
    TCP_READS = 64,         /* IRD and ORD between two of us */
    TCP_FOREIGN_READS = 16, /* and with others, at most */
    TCP_UNTOLD_READS = 1,   /* ORD towards who has not said how many it takes */
    /* Payload bytes of a DDP segment between two of us. An FPDU of an RDMA Write or of an answer is a multiple of 16 bytes
     * with that, and what is sent in multiples of pages ends nowhere in the middle of its head: Wireshark loses its way
     * where TCP's segment ends 4 bytes into an FPDU. */
    TCP_SEGMENT = 65500,
    TCP_TRANSFER_SIZE = 4 << 20,
    TCP_SCRATCH = 256 * 1024,
    /* For the peer's end of a stream that we have ended; longer while ours is not delivered. */
    TCP_LINGER_MS = 2000
};

enum tcp_crc { TCP_CRC_AUTO, TCP_CRC_ON, TCP_CRC_OFF };

struct tcp_settings {
    uint32_t first_port;
    uint32_t ports;
    uint32_t crc;          /* enum tcp_crc */
    uint32_t handshake_ms; /* for a half-open connection to say what it wants */
    uint32_t half_open; /* such connections at most; the oldest of the address that has the most goes first */
    struct vipl_socket_tuning tuning;
};

/* An opened device. */
struct vipl_be_nic {
    struct vipl_nic *core;        /* constant */
    struct vipl_address address;  /* constant */
    struct vipl_inet inet;        /* constant: the same, as the system has it */
    struct tcp_settings settings; /* constant */
    struct vipl_mutex lock;
    uv_loop_t loop;
    uv_timer_t accept_timer;    /* takes up accepting again after a lack of descriptors */
    uv_timer_t silence_timer;   /* looks for hosts that have gone; runs while some owe an answer */
    struct vipl_list conns;     /* tcp_conn.link */
    struct vipl_list half_open; /* tcp_source.link, in the order in which they began to have any */
    struct vipl_list listeners; /* tcp_listener.link, the latest used last */
    struct vipl_list calls;     /* tcp_call.link */
    uint32_t half_open_count;
    uint32_t idle_listeners;
    uint32_t conn_count;
    int highest_fd; /* that has been watched */
    uint32_t polls;
    uint32_t changed;     /* atomic: the loop has watches that the kernel does not know of yet */
    bool doubt;           /* whether the loop still has its descriptors: to be looked at before it runs */
    bool lost;            /* it has not, and runs no more */
    bool sooner;          /* who sleeps may have to wake earlier than it thinks */
    uint32_t slept;       /* atomic: somebody has slept since the last look around */
    struct tcp_conn *hot; /* received last; NULL: none */
    uint8_t *scratch;     /* TCP_SCRATCH bytes */
    struct vipl_mutex want_lock; /* rank BACKEND_TX; never held with a connection's */
    struct vipl_list wanting;    /* tcp_conn.want: posts wait for room, or answers for their turn */
    uint32_t wants;              /* atomic: 0, nothing is in `wanting` */
    uint32_t spoke;              /* atomic: something has been sent since the last look for silence */
};

/* An address that half-open connections have come from. */
struct tcp_source {
    struct vipl_list link;
    struct vipl_list conns; /* tcp_conn.phase, oldest first; never empty */
    uint32_t count;
    struct vipl_inet host; /* its port is of no interest */
};

/* A discriminator that somebody waits, or has waited, for. */
struct tcp_listener {
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
struct tcp_call {
    struct vipl_list link;
    struct vipl_be_nic *be;
    struct vipl_vi *vi;
    struct vipl_address local;
    struct vipl_address remote;
    struct vipl_inet target;
    struct vipl_vi_params params;
    struct tcp_conn *conn;              /* the probe under way, or the answer to a peer's; NULL: none */
    struct tcp_conn *asked[TCP_PROBES]; /* probes that nobody has answered yet */
    struct tcp_listener *listener;      /* symmetric: where the peer may find us; NULL: nowhere */
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

enum tcp_state {
    TCP_DIALING,  /* TCP is connecting, for a call */
    TCP_ASKING,   /* our request is sent */
    TCP_GREETING, /* accepted; the peer's request has not come yet */
    TCP_OFFERED,  /* the peer's request is the program's to answer */
    TCP_OPENING,  /* answered yes; the peer's first FPDU has not come yet */
    TCP_FRESH,    /* open, and no FPDU of the foreign peer's has come yet */
    TCP_OPEN,
    TCP_ENDING /* no VI any more; the peer has not closed yet */
};

enum { TCP_OP_READY = 0xFFFF }; /* of a pending that is no post's: our first FPDU, an empty read */

/* An operation of ours that the peer answers, by an RDMA Read Response, in order. */
struct tcp_pending {
    uint32_t sequence;
    uint32_t bytes; /* to read, or those of the message that an empty read confirms */
    uint16_t op;
    bool confirms;
};

/* An RDMA Read of the peer's, to be answered in order. */
struct tcp_answer {
    struct vipl_rdmap_read read;
    uint32_t msn;
};

/* What a message that is all there waits for, before its receive is complete. */
enum tcp_held {
    TCP_HELD_NOT,
    TCP_HELD_FOR_IMMEDIATE, /* its immediate data */
    TCP_HELD_FOR_READ       /* the empty read that confirms it: whoever hears of it can disconnect at once */
};

struct tcp_receiving {
    uint8_t *buffer; /* reassembly: an FPDU that is not all there, or a part of one */
    size_t have;     /* bytes that are in it */
    size_t need;     /* bytes that it is to have before something can be done with them; 0: it is not used */
    size_t size;     /* bytes that there is room for */
    uint32_t send_msn; /* expected next */
    uint32_t read_msn;
    uint32_t mo;             /* bytes of the Send that is under way */
    bool drop;               /* the rest of the message under way is of no use */
    enum tcp_held held;      /* a message is all there, and */
    bool held_drop;          /* is of no use */
    bool held_write;         /* FOR_READ: an RDMA Write's immediate data, not a Send */
    bool held_has_immediate; /* FOR_READ: it has immediate data */
    bool writing;            /* an RDMA Write is under way */
    bool write_refused;      /* it, or the one before, was not placed */
    bool announced;          /* its end is known */
    uint64_t write_end;
    uint32_t held_bytes;
    uint32_t held_immediate;
    uint32_t write_bytes;    /* of the RDMA Write under way, or before */
    uint32_t response_bytes; /* of the RDMA Read Response that is under way */
    bool response_lost;      /* not all of it could be placed */
    struct vipl_ddp ddp; /* of the FPDU that is placed directly, as if it began with what is still to come */
    size_t
        direct; /* bytes of its payload that are still to be placed directly; 0: none is, or only its tail is missing */
    size_t tail;    /* bytes behind those, which go through the reassembly buffer */
    unsigned large; /* large FPDUs are expected, so many others in between */
};

/* What of a message comes next. */
struct tcp_cursor {
    unsigned frame; /* its FPDU */
    size_t byte;    /* bytes of that FPDU that are in the stream; with markers 1: it has begun */
};

struct tcp_sending {
    struct vipl_mutex lock;
    uint32_t send_msn; /* for the next Send, or Immediate Data */
    uint32_t read_msn;
    struct tcp_cursor at; /* of the post or response under way; zero: the stream is between two messages */
    uint16_t op;          /* of the post under way */
    uint32_t refusal;     /* VIP_STATUS error bits: the peer will not have the rest; 0: it may */
    bool answering;       /* a response is under way, no post */
    bool blocked;         /* a post waits for room */
    bool quiet;           /* TCP_FRESH, and the peer is to speak first */
    bool closed;          /* nothing is to be sent any more */
    uint32_t reads;       /* ORD */
    uint32_t first_pending;
    uint32_t pendings;
    uint32_t first_answer;
    uint32_t answers;
    struct tcp_pending pending[TCP_READS];
    struct tcp_answer answer[TCP_READS];
};

/* A stream with markers: one FPDU at a time, marked, until the kernel has it. Guarded by the sending lock. */
struct tcp_marking {
    uint32_t position; /* in the stream, modulo their spacing */
    size_t have;       /* bytes of the FPDU that is under way */
    size_t sent;       /* those of them that the kernel has; as many as `have`: none is under way */
    uint32_t most;     /* payload bytes of a segment that there is room for */
    uint8_t *plain;    /* room for one FPDU without markers */
    uint8_t *marked;
};

/* What conn_accept waits for; on its stack. */
struct tcp_acceptance {
    bool over;
    bool opened;
};

struct tcp_conn {
    struct vipl_list link;
    struct vipl_list phase;    /* source->conns while TCP_GREETING */
    struct tcp_source *source; /* NULL: not half-open */
    struct vipl_list want;     /* be->wanting; guarded by want_lock */
    struct vipl_be_nic *be;
    enum tcp_state state;
    int fd;
    int events;       /* what is watched */
    unsigned handles; /* of the loop, not closed yet */
    bool readable;    /* a callback has said so since the last look */
    unsigned looks;   /* in a row at which the peer's host owed an answer and was silent; ended: owed one */
    bool broken;      /* nothing comes any more; the VI has failed, or fails */
    uv_poll_t watch;
    uv_timer_t timer;
    struct vipl_vi *vi;
    struct vipl_conn *request; /* TCP_OFFERED: core's */
    struct tcp_call *call;     /* TCP_DIALING, TCP_ASKING; and TCP_OPENING of a symmetric answer */
    unsigned probe;            /* of its walk: which port */
    struct tcp_acceptance *acceptance;
    struct vipl_inet peer;
    struct vipl_address local;    /* what its listener waits for; a foreign requester names nothing */
    struct vipl_vi_params params; /* the other VI's */
    struct vipl_mpa_start start;  /* the peer's request */
    struct vipl_mpa_enhanced enhanced;
    bool crc;
    bool foreign; /* the peer is iWARP, and not one of us; constant from its request or reply on */
    bool unreliable;
    bool confirms_sends;  /* the peer, one of us, asks for it behind each: Reliable Reception */
    bool confirms_writes; /* and behind RDMA Writes: both reliable levels */
    uint32_t segment;     /* payload bytes of a DDP segment of ours; foreign peers': guarded by tx.lock */
    unsigned nudges;      /* empty RDMA Writes to a foreign peer that has not been heard yet */
    struct tcp_marking *marking; /* NULL: no markers; constant while open */
    struct tcp_receiving rx;
    struct tcp_sending tx;
};

/* The backend's part of a VI, and of a connection request. */
struct tcp_vi {
    struct tcp_conn *conn; /* written under both queue locks and the device's */
    struct tcp_call *call; /* guarded by the device's lock */
};
struct tcp_request {
    struct tcp_conn *conn; /* guarded by the device's lock; NULL: it has gone */
};
_Static_assert(sizeof(struct tcp_vi) <= VIPL_VI_AREA_BYTES, "the VI's area holds it");
_Static_assert(sizeof(struct tcp_request) <= VIPL_CONN_AREA_BYTES, "the request's area holds it");

static inline struct tcp_vi *tcp_vi_of(struct vipl_vi *vi)
{
    return vipl_vi_area(vi);
}
static inline struct tcp_request *tcp_request_of(struct vipl_conn *conn)
{
    return vipl_conn_area(conn);
}

/* --- address.c --- */

int vipl_tcp_choose_address(const char *device, struct vipl_inet *out); /* 0, or ENODEV */
bool vipl_tcp_from_address(const struct vipl_address *in, const struct vipl_inet *like,
                           struct vipl_inet *out);
void vipl_tcp_to_address(const struct vipl_inet *in, struct vipl_address *out);
bool vipl_tcp_same_host(const struct vipl_inet *a, const struct vipl_inet *b);
bool vipl_tcp_same_discriminator(const struct vipl_address *a, const struct vipl_address *b);
/* The probe-th port of a discriminator, probe < TCP_PROBES. */
uint16_t vipl_tcp_port(const struct tcp_settings *settings, const struct vipl_address *address,
                       unsigned probe);
unsigned vipl_tcp_probes(const struct tcp_settings *settings); /* how many ports that are */
VIP_RETURN vipl_tcp_resolve(struct vipl_be_nic *be, const char *name, uint32_t index,
                            struct vipl_address *out);
VIP_RETURN vipl_tcp_reverse(struct vipl_be_nic *be, const struct vipl_address *host, char *name, size_t size);

/* --- loop.c: the device's lock is held unless it says otherwise --- */

int vipl_tcp_loop_open(struct vipl_be_nic *be);
void vipl_tcp_loop_close(struct vipl_be_nic *be); /* every handle has been closed */
void vipl_tcp_poll(struct vipl_be_nic *be);       /* not held */
void vipl_tcp_prepare_wait(struct vipl_be_nic *be, struct vipl_poll_hint *hint);      /* not held */
void vipl_tcp_finish_wait(struct vipl_be_nic *be, const struct vipl_poll_hint *hint); /* not held */
/* Whether the loop can watch the descriptor now: false, it would allocate, and may not; somebody else will. */
bool vipl_tcp_has_room(struct vipl_be_nic *be, int fd);
void vipl_tcp_changed(struct vipl_be_nic *be); /* the loop has something new to watch or to wait for */
/* The connection broke: its VI fails, or the attempt to connect does. */
void vipl_tcp_conn_fail(struct tcp_conn *conn, VIP_ERROR_CODE code);
/* False: the VI has failed, and nothing more is received for it. */
bool vipl_tcp_still_works(struct tcp_conn *conn);
/* Lets the lock go, and wakes a sleeper that may have to wake sooner than it thinks. */
void vipl_tcp_unlock(struct vipl_be_nic *be);
/* A post or an answer waits; whoever polls goes on with it. Any lock but want_lock and a sending lock. */
void vipl_tcp_want(struct tcp_conn *conn);

/* --- conn.c: the device's lock is held unless it says otherwise --- */

struct tcp_conn *vipl_tcp_conn_new(struct vipl_be_nic *be, int fd,
                                   enum tcp_state state); /* owns fd, or closes it */
void vipl_tcp_conn_watch(struct tcp_conn *conn, int events);
void vipl_tcp_conn_deadline(struct tcp_conn *conn, uint32_t ms); /* 0: none */
void vipl_tcp_conn_close(struct tcp_conn *conn);                 /* at once; it has no VI, call or request */
void vipl_tcp_conn_end(
    struct tcp_conn *conn); /* it has no VI any more: says so, and waits for the peer's end */
void vipl_tcp_conn_attach(struct tcp_conn *conn, struct vipl_vi *vi); /* no VI lock held */
struct vipl_vi *vipl_tcp_conn_detach(struct tcp_conn *conn);          /* likewise */
void vipl_tcp_conn_ready(struct tcp_conn *conn, int events); /* something can be done on the socket */
void vipl_tcp_conn_open(struct tcp_conn *conn);              /* the VI is connected from here on */
void vipl_tcp_watch_silence(struct vipl_be_nic *be);         /* if something has been sent */
void vipl_tcp_disconnect(struct vipl_be_nic *be, struct vipl_vi *vi); /* not held */
void vipl_tcp_revoke(struct vipl_be_nic *be, struct vipl_vi *vi);     /* not held; both VI locks are */

/* --- request.c --- */

enum tcp_kind { TCP_REQUEST = 1, TCP_PEER_REQUEST = 2, TCP_ACCEPT = 3, TCP_REFUSE = 4 };
enum tcp_refusal { TCP_NOBODY = 1, TCP_REJECTED = 2, TCP_BUSY = 3, TCP_DISAGREES = 4 };
struct tcp_hello {
    uint8_t kind;   /* enum tcp_kind */
    uint8_t reason; /* enum tcp_refusal, of TCP_REFUSE */
    uint8_t code;   /* VIP_RETURN, of TCP_DISAGREES */
    struct vipl_vi_params params;
    uint32_t segment;         /* payload bytes that the sender takes in a DDP segment */
    struct vipl_address from; /* discriminators only */
    struct vipl_address to;
};
size_t vipl_tcp_hello_write(uint8_t *out,
                            const struct tcp_hello *h); /* at most VIPL_MPA_OUR_PRIVATE - 4 bytes */
bool vipl_tcp_hello_read(const uint8_t *bytes, size_t length,
                         struct tcp_hello *out);                  /* false: makes no sense */
bool vipl_tcp_hello_is_ours(const uint8_t *bytes, size_t length); /* it has the magic, whatever follows */
/* Sends an MPA start frame with that hello (NULL: without) in one piece. False: the connection is of no use. */
bool vipl_tcp_start_send(struct tcp_conn *conn, struct vipl_mpa_start start,
                         const struct vipl_mpa_enhanced *enhanced, const struct tcp_hello *hello);
/* Receives into the stash until the start frame and its private data are there, and not a byte more. */
enum vipl_parse vipl_tcp_start_receive(struct tcp_conn *conn, struct vipl_mpa_start *start, bool reply);
/* The private data that has come with it, behind RFC 6581's part, which goes to conn->enhanced (else zeroes). */
const uint8_t *vipl_tcp_start_private(struct tcp_conn *conn, const struct vipl_mpa_start *start,
                                      size_t *bytes);

/* --- listen.c --- */

VIP_RETURN vipl_tcp_listen(struct vipl_be_nic *be, const struct vipl_address *local);
void vipl_tcp_unlisten(struct vipl_be_nic *be, const struct vipl_address *local);
bool vipl_tcp_conn_taken(struct vipl_be_nic *be, struct vipl_conn *request);
VIP_RETURN vipl_tcp_conn_accept(struct vipl_be_nic *be, struct vipl_conn *request, struct vipl_vi *vi);
void vipl_tcp_conn_reject(struct vipl_be_nic *be, struct vipl_conn *request, bool answer);
/* The listener for a discriminator, made if need be on the first free port from `probe` on, `only` there; NULL: none is
 * free. The device's lock is held, here and below. */
struct tcp_listener *vipl_tcp_listener(struct vipl_be_nic *be, const struct vipl_address *local,
                                       unsigned probe, bool only);
void vipl_tcp_listener_release(
    struct tcp_listener *listener); /* nobody waits there: it is closed, or kept a while */
void vipl_tcp_listeners_close(struct vipl_be_nic *be);
void vipl_tcp_half_open_leave(struct tcp_conn *conn); /* if it was */
bool vipl_tcp_wants_crc(const struct tcp_conn *conn);
void vipl_tcp_greet(struct tcp_conn *conn); /* TCP_GREETING, bytes have come */
bool vipl_tcp_answer_yes(struct tcp_conn *conn, const struct vipl_vi_params *params);
void vipl_tcp_refuse(struct tcp_conn *conn, enum tcp_refusal reason, VIP_RETURN code); /* and ends it */
void vipl_tcp_request_gone(struct tcp_conn *conn); /* TCP_OFFERED, and the requester has left */

/* --- connect.c --- */

VIP_RETURN vipl_tcp_connect(struct vipl_be_nic *be, struct vipl_vi *vi, const struct vipl_address *local,
                            const struct vipl_address *remote, bool peer);
VIP_RETURN vipl_tcp_connect_cancel(struct vipl_be_nic *be, struct vipl_vi *vi);
void vipl_tcp_dialed(struct tcp_conn *conn);    /* TCP_DIALING: TCP has decided; the device's lock is held */
void vipl_tcp_replied(struct tcp_conn *conn);   /* TCP_ASKING: bytes have come */
void vipl_tcp_call_lost(struct tcp_conn *conn); /* the connection ended before there was an answer */
void vipl_tcp_call_opened(struct tcp_conn *conn); /* symmetric: the peer has taken up our answer */
bool vipl_tcp_peer_arrived(struct tcp_conn *conn, const struct tcp_hello *hello); /* false: nobody here */
void vipl_tcp_calls_close(struct vipl_be_nic *be);

/* --- tx.c --- */

enum vipl_posted vipl_tcp_post_send(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_send *send);
void vipl_tcp_first_frame(struct tcp_conn *conn, uint8_t op); /* an empty RDMA Write, say: ready to receive */
void vipl_tcp_nudge(struct tcp_conn *conn);                   /* one more, if nothing else is under way */
/* What a Terminate is about. NULLs: nothing that is told. */
struct tcp_about {
    const struct vipl_ddp *ddp;
    const uint8_t *control; /* the header's first bytes as they came, where they are wrong */
    const struct vipl_rdmap_read *read;
};
void vipl_tcp_terminate(struct tcp_conn *conn, uint16_t reason, const struct tcp_about *about);
/* Why an RDMA Read of the peer's has just been refused. The VI's receive lock is held. */
uint16_t vipl_tcp_read_reason(struct tcp_conn *conn, const struct vipl_rdmap_read *read);
struct vipl_ddp vipl_tcp_read_request(uint32_t msn); /* the header of an RDMA Read Request */
/* The peer has ended the stream by a Terminate: which operation it stopped at, if any, the oldest that waits for its word or
 * a message that is half in the stream (*half). From here on nothing more goes out. */
bool vipl_tcp_stopped_at(struct tcp_conn *conn, struct tcp_pending *out, bool *half);
/* A message that is half in the stream is over, with these VIP_STATUS bits. 0: it stays. False: the connection has
 * broken. */
bool vipl_tcp_refuse_post(struct tcp_conn *conn, uint32_t status);
void vipl_tcp_answer(struct tcp_conn *conn); /* as many RDMA Reads as there is room for */
void vipl_tcp_resume(struct tcp_conn *conn); /* there is room: answers, then posts */

/* --- foreign.c: the device's lock is held unless it says otherwise --- */

void vipl_tcp_foreign_facts(struct vipl_vi_params *out);
/* Our part of an enhanced set-up, in answer to theirs. */
struct vipl_mpa_enhanced vipl_tcp_foreign_answer(const struct vipl_mpa_enhanced *theirs);
/* The connection is to be one with a foreign peer, which has said this. False: there is no memory for it. */
bool vipl_tcp_foreign_begin(struct tcp_conn *conn, const struct vipl_mpa_start *start);
void vipl_tcp_foreign_end(struct tcp_conn *conn); /* forgets what begin made */
/* Whether that peer's first FPDU is a message that only says that it is ready. */
bool vipl_tcp_foreign_gets_ready(const struct tcp_conn *conn);
void vipl_tcp_foreign_fresh(struct tcp_conn *conn, bool quiet); /* open from here on, as TCP_FRESH */
bool vipl_tcp_foreign_heard(struct tcp_conn *conn); /* and now TCP_OPEN. False: the connection has broken */
void vipl_tcp_foreign_nudge(struct tcp_conn *conn); /* its deadline: it has not been heard yet */
uint8_t vipl_tcp_ready_op(const struct vipl_mpa_enhanced *agreed); /* and which: an RDMAP operation */
/* Before a post's first byte; VI's send lock and sending lock are held. False: refused, and send->status says why. */
bool vipl_tcp_foreign_post(struct tcp_conn *conn, struct vipl_send *send);
void vipl_tcp_foreign_resegment(struct tcp_conn *conn); /* between two messages; the sending lock is held */
/* Sends whole FPDUs with markers, the first of which may have begun, and moves the cursor. 0: all of them went; else why not.
 * The sending lock is held. */
int vipl_tcp_send_marked(struct tcp_conn *conn, const struct vipl_iov *pieces, unsigned count,
                         struct tcp_cursor *at);
/* VIP_STATUS bits that a foreign peer's Terminate means for an operation. */
uint32_t vipl_tcp_foreign_status(uint16_t reason, uint16_t op);

/* --- rx.c --- */

void vipl_tcp_receive(struct tcp_conn *conn); /* TCP_OPENING, TCP_OPEN */

#endif
