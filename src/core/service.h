/* SPDX-License-Identifier: MIT */
/*
 * The one library thread of a NIC handle. It exists from the first moment that the program uses something
 * asynchronous. It runs the application's callbacks, one after the other with no lock held, and makes progress while
 * no application thread does: it watches the backend's descriptor like any sleeper, but steps back (looking again
 * every few milliseconds) while the application is active. It does not step back while programs hold descriptors of
 * this NIC handle (ready_fd.h): then it watches whenever no application thread does, so that a program that goes to
 * sleep elsewhere misses nothing.
 *
 * A backend may leave something undone for a moment (vipl_up_request_flush()). The thread stands by then, and does it, if the program's
 * calls have not done it meanwhile: it pauses for 50 us, as often as there is something to do, and goes to sleep after a few pauses
 * in which it was not flush_requested. A program that looks at the device by itself is not disturbed: the thread only counts its looks.
 */
#ifndef VIPL_CORE_SERVICE_H
#define VIPL_CORE_SERVICE_H

#include <stdbool.h>

#include "base/deferred.h"
#include "base/list.h"
#include "os/os.h"
#include "os/os_mutex.h"
#include "vipl/vipl.h"

struct vipl_nic;
struct vipl_queue;
struct vipl_cq;

enum vipl_attention {
    VIPL_AWAY,       /* there is no such thread, or it is in a handler of the program */
    VIPL_ASLEEP,     /* it hears a signal */
    VIPL_STANDING_BY /* it comes by itself in a moment */
};

enum vipl_event_kind { VIPL_EVENT_VI, VIPL_EVENT_CQ, VIPL_EVENT_ERROR };

/* A registered handler, which becomes a call when a work completes. It is allocated at registration, so that a
 * completion allocates nothing. Guarded by the lock of the list it is on. */
struct vipl_event {
    struct vipl_list link;
    enum vipl_event_kind kind;
    void *context;
    VIP_VI_CALLBACK vi_handler;
    VIP_CQ_CALLBACK cq_handler;
    VIP_ERROR_HANDLER error_handler;
    void *vi;
    VIP_DESCRIPTOR *descriptor;
    VIP_BOOLEAN is_recv;
    VIP_ERROR_DESCRIPTOR error;
};

struct vipl_service {
    struct vipl_mutex lock;  /* rank SERVICE; guards all below */
    struct vipl_list events; /* vipl_event.link: calls to make, oldest first */
    /* what calls that must not block have found, and what may block; done before the next handler is called */
    struct vipl_deferred *works; /* the latest first */
    bool calling;                /* it calls a handler of the program */
    bool deaf;                   /* it has left work for too long: it takes none until it has run again */
    uint32_t errors;             /* of them, reports of errors */
    uint32_t errors_lost;        /* reports of errors for which there was no room, since there last was */
    VIP_ERROR_HANDLER error_handler;
    void *error_context;
    struct vipl_waker waker;
    struct vipl_thread thread;
    /* atomic: descriptors that programs have; while there are any it does not step back */
    uint32_t ready_fds;
    uint32_t
        attention; /* atomic: enum vipl_attention, written by the thread; pairs with vipl_up_request_flush() */
    uint32_t flush_requested; /* atomic: since the thread asked last; pairs with vipl_up_request_flush() */
    uint32_t wanted;          /* atomic: the thread is to be started by the next call that can do so */
    VIPL_FUTEX_WORD uint32_t over; /* atomic: the thread does nothing any more but end */
    int cancel;                    /* what vipl_cancel_off() returned to it; the thread's */
    bool running;                  /* the thread exists */
    bool stopping;                 /* it is to end */
};

VIP_RETURN vipl_service_start(struct vipl_nic *nic); /* repeatable; NOT_SUPPORTED: VIPL_PROGRESS=inline */
/* A program has one descriptor more, or less, to sleep on: see above. */
void vipl_service_attend(struct vipl_nic *nic, bool more);
/* Ends it after the callback that runs. True: called from that callback; the thread ends later. */
bool vipl_service_stop(struct vipl_nic *nic);

/* Work that may block. True: this is a call of one of the async-signal-safe functions, and the service thread does the work
 * in its place. It does so at once: it does not take any while it is in a handler of the program, which may be waiting for
 * what the work is about. */
bool vipl_service_takes(struct vipl_nic *nic, struct vipl_deferred *work);
/* A thread has waited for so long for something that may be such work. It does it itself if the service thread has not begun: that may sleep on
 * descriptors that the program has closed. No lock held. */
enum { VIPL_SERVICE_HEARS_MS = 1000 };
void vipl_service_relieve(struct vipl_nic *nic);

/* the thread's last call: it ends, or is cancelled in its sleep */
void vipl_service_over(struct vipl_nic *nic);

struct vipl_event *vipl_event_new(enum vipl_event_kind kind, void *context);
void vipl_events_drop_locked(struct vipl_list *events); /* frees registered handlers */
/* The oldest handler registered with the queue is to run. The queue's lock is held. */
void vipl_event_fire_vi(struct vipl_queue *q, VIP_DESCRIPTOR *descriptor);
void vipl_event_fire_cq(struct vipl_cq *cq, const struct vipl_queue *q);

VIP_RETURN vipl_error_handler_set(struct vipl_nic *nic, VIP_ERROR_HANDLER handler, void *context);
/* An asynchronous error, to the handler or the log. No lock above SERVICE held. */
void vipl_error_report(struct vipl_nic *nic, const VIP_ERROR_DESCRIPTOR *error);

#endif
