/* SPDX-License-Identifier: MIT */
/*
 * A reliable byte stream in both directions over one VI, with the semantics of a connected stream
 * socket. No call blocks, unless its comment says so; waiting is a call of its own.
 *
 * Threads: any thread may make any call on a stream at any time, but vipl_stream_close() is the
 * last one. Signal handlers may not call: a handler may have interrupted a thread that holds the
 * stream's lock. Forks: a child has none of its parent's streams; it may only call
 * vipl_stream_abandon().
 *
 * Functions that return int return 0 or an errno value.
 */
#ifndef VIPL_STREAM_STREAM_H
#define VIPL_STREAM_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "os/os.h"
#include "stream/state.h"
#include "vipl/vipl.h"

/* --- devices: a NIC handle with a completion queue, best one for each thread that waits ------- */

struct vipl_stream_nic;

/* Opens a device. `flags` are those of VipxOpenNic() that the caller wants, #VIPX_INLINE for one:
 * then nothing moves but in calls, and vipl_stream_nic_fd() fails with ENOTSUP. *reason is the VIPL
 * code where a call of the library failed. */
int vipl_stream_nic_open(const char *device, VIP_ULONG flags, struct vipl_stream_nic **out,
                         VIP_RETURN *reason);
/* Drops the opener's reference. The NIC handle is closed when its last stream is closed. */
void vipl_stream_nic_release(struct vipl_stream_nic *nic);
VIP_NIC_HANDLE vipl_stream_nic_handle(const struct vipl_stream_nic *nic);
/* Writes the NIC address, at most VIPL_MAX_HOST_ADDRESS bytes, and returns its length. */
unsigned vipl_stream_nic_address(const struct vipl_stream_nic *nic, uint8_t *address);

/* Takes what has come for any stream of the device, and notifies the watches of those streams. */
void vipl_stream_nic_progress(struct vipl_stream_nic *nic);
/*
 * Sleeps until something has come for a stream of the device, which has been taken and notified
 * then; until the request of a VI that is being connected has ended; or until one of the program's
 * descriptors is ready, the time in milliseconds is over (-1: never), or a signal handler has run.
 * The library's thread is not involved. A stream whose message another thread takes notifies the
 * stream's watches and does not end this wait.
 *
 * Returns 0, VIPL_POLL_OTHERS if descriptors are ready or a request has ended (VipConnectPeerDone()
 * has its result), ETIMEDOUT, EINTR, or another errno value if the device cannot be waited for (any
 * more). `mask` is a sigset_t or NULL.
 */
int vipl_stream_nic_wait(struct vipl_stream_nic *nic, struct pollfd *fds, unsigned count, int ms,
                         const void *mask);
/* A descriptor that is readable while a stream of the device has something to be taken by
 * vipl_stream_nic_progress(). The library's service thread then moves bytes while no thread waits.
 */
int vipl_stream_nic_fd(struct vipl_stream_nic *nic, int *fd);

/* --- streams ---------------------------------------------------------------------------------- */

struct vipl_stream;

enum {                           /* what vipl_stream_events() returns; bits */
       VIPL_STREAM_READABLE = 1, /* vipl_stream_receive() would not return EAGAIN */
       VIPL_STREAM_WRITABLE = 2, /* vipl_stream_send() would not return EAGAIN */
       VIPL_STREAM_ENDED = 4,    /* the peer sends no more: FIN, or broken */
       VIPL_STREAM_BROKEN = 8,   /* the connection is lost or aborted, without the peer's FIN */
       VIPL_STREAM_RESET = 32,   /* the peer has finished, and the connection was lost before it closed */
       VIPL_STREAM_OFFERING = 16 /* the peer has yet to read memory that was offered */
};

/* Notified, with the stream's lock held, by the thread that takes something for the stream or
 * changes its events. `notify` does not call the stream. */
struct vipl_stream_watch {
    struct vipl_list link; /* the stream's list; guarded by the stream's lock */
    void (*notify)(struct vipl_stream_watch *watch);
};

/* Makes a stream with a VI that is idle, and posts its receives. The caller connects the VI. */
int vipl_stream_new(struct vipl_stream_nic *nic, struct vipl_stream **out);
struct vipl_stream_nic *vipl_stream_device(const struct vipl_stream *stream);
VIP_VI_HANDLE vipl_stream_vi(const struct vipl_stream *stream);
/* The attributes that a connecting peer's VI has to have. */
VIP_VI_ATTRIBUTES vipl_stream_attributes(void);
/* The window of each stream that this process makes. */
struct vipl_stream_window vipl_stream_own_window(void);
/* No peer may offer memory: reading it would make a call wait for the peer. Before
 * vipl_stream_begin(). */
void vipl_stream_refuse_offers(struct vipl_stream *stream);
/* The VI is connected, and the peer has said what its window is, which is valid. */
void vipl_stream_begin(struct vipl_stream *stream, struct vipl_stream_window peer);

/*
 * Send as many bytes as there is room for now. EAGAIN: none; EPIPE: this end has finished, or the
 * peer has closed; ECONNRESET: the connection is lost. No signal is raised.
 */
int vipl_stream_send(struct vipl_stream *stream, const struct vipl_iov *pieces, unsigned count, size_t *sent);
/* The same if more is about to follow: what does not fill a message may wait for that, until
 * vipl_stream_send(), vipl_stream_push(), the end of the stream, or for about a second. */
int vipl_stream_send_more(struct vipl_stream *stream, const struct vipl_iov *pieces, unsigned count,
                          size_t *sent);
/* Sends what waits for more. */
void vipl_stream_push(struct vipl_stream *stream);
/*
 * Receive what is there. *received is 0 at the end of the stream: the peer has finished, and all
 * has been received. `peek` leaves the bytes where they are. EAGAIN: nothing is there; ECONNRESET:
 * the connection is lost, and nothing is left; ECONNABORTED: this end has aborted. Memory that the
 * peer has offered is read into the caller's by RDMA, and the call waits for that.
 */
int vipl_stream_receive(struct vipl_stream *stream, const struct vipl_iov *pieces, unsigned count, bool peek,
                        size_t *received);

/* Takes what has come, and returns the events of now. */
unsigned vipl_stream_events(struct vipl_stream *stream);
/* Changes whenever new bytes or an end have come: an edge. */
uint32_t vipl_stream_arrivals(struct vipl_stream *stream);
/* Changes whenever there is room again after a send that did not find enough. */
uint32_t vipl_stream_rooms(struct vipl_stream *stream);
size_t vipl_stream_pending(struct vipl_stream *stream); /* bytes that can be received now */
size_t vipl_stream_unsent(struct vipl_stream *stream);  /* bytes that the peer has not taken yet */

/* What the programs have made of a stream so far. Takes nothing. */
struct vipl_stream_use {
    uint64_t messages; /* with data, that were sent or have been taken */
    bool peer_began;   /* the first of them was the peer's */
};
struct vipl_stream_use vipl_stream_used(struct vipl_stream *stream);

/* Sends nothing more, and tells the peer, at the latest when it reads again. */
void vipl_stream_finish(struct vipl_stream *stream);
/* Receives nothing more, as after shutdown(SHUT_RD): the stream is readable for good, and is at its
 * end whenever nothing is there. The peer is not told, unless it sends when this end has also
 * finished: the connection is reset then. */
void vipl_stream_stop(struct vipl_stream *stream);
/* Ends the connection at once; the peer sees a reset. Calls that wait in other threads end. */
void vipl_stream_abort(struct vipl_stream *stream);
/* Finishes and frees the stream. If the peer has yet to fetch what was sent, a thread of the
 * process waits for that, VIPL_STREAM_LINGER_S at most; then the peer sees a reset. With bytes that
 * were not received, the peer sees a reset at once, as over TCP. No watch is left. */
void vipl_stream_close(struct vipl_stream *stream);
/* About as long as TCP repeats what is not acknowledged. A peer acknowledges in any call of its
 * program for the stream, or for another one of the same device. */
enum { VIPL_STREAM_LINGER_S = 900 };
/* Waits until the peers of all closed streams have fetched what was sent, `ms` at most. Returns
 * false if some have not. */
bool vipl_stream_drain(int ms);
/* The process is about to end. Streams that are closed from now on, and have nothing to wait for
 * any more, are left as they are: the end of the process disconnects them. */
void vipl_stream_process_ends(void);
/* In a forked child: forgets a stream of the parent, and frees its memory. */
void vipl_stream_abandon(struct vipl_stream *stream);

void vipl_stream_add_watch(struct vipl_stream *stream, struct vipl_stream_watch *watch);
void vipl_stream_remove_watch(struct vipl_stream *stream, struct vipl_stream_watch *watch);
/* Waits until one of the wanted events holds, VIPL_STREAM_OFFERING here meaning that it does not.
 * Blocks, at most until the deadline (vipl_now_ns(), UINT64_MAX: none). Returns 0, ETIMEDOUT or
 * EINTR. */
int vipl_stream_wait(struct vipl_stream *stream, unsigned wanted, uint64_t deadline, const void *mask);

/* --- large transfers: the receiver reads the sender's memory ---------------------------------- */

/* Offers memory to the peer, which reads it as the next bytes of the stream. The memory stays as it
 * is until VIPL_STREAM_OFFERING is not among the events and vipl_stream_offer_end() was called.
 * EAGAIN: there is no credit now, or an offer is under way; other values as vipl_stream_send(). */
int vipl_stream_offer_begin(struct vipl_stream *stream, const void *memory, size_t bytes);
/* Ends an offer. If the peer has not read all of it, the stream is aborted and ECONNRESET
 * returned. */
int vipl_stream_offer_end(struct vipl_stream *stream);

#endif
