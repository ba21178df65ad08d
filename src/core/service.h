/* SPDX-License-Identifier: MIT */
/*
 * The service thread: the one library thread of a NIC handle. It is started when the program first
 * uses something asynchronous. It calls the program's handlers, one after the other with no lock
 * held, and makes progress while no application thread does: it watches the backend's descriptor
 * like any sleeper, but steps back (and looks again every few milliseconds) while the application
 * is active. While the program has ready descriptors of this NIC handle (ready_fd.h) the service
 * thread does not step back: it watches whenever no application thread does, so that a program that
 * sleeps in a loop of its own misses nothing.
 *
 * A backend may defer work for a moment and request a flush (vipl_up_request_flush()). The service
 * thread then pauses for 50 us at a time, and flushes the work after a pause in which no call of
 * the program has. It goes to sleep after a few pauses without a request. A program that polls the
 * device is not disturbed: the service thread only compares poll epochs.
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

/* Whether the service thread notices a request to flush. */
enum vipl_attention {
    VIPL_AWAY,    /* no: there is no service thread, or it is in a handler of the program */
    VIPL_ASLEEP,  /* yes, if it is woken */
    VIPL_IN_PAUSE /* yes, by itself, at the end of its pause */
};

enum vipl_event_kind { VIPL_EVENT_VI, VIPL_EVENT_CQ, VIPL_EVENT_ERROR };

/* A registered handler, which becomes a call when a work completes. The event is allocated at
 * registration, so that a completion allocates nothing. Guarded by the lock of the list that the
 * event is on. */
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

/* All fields are guarded by lock unless they say otherwise. */
struct vipl_service {
    struct vipl_mutex lock;  /* rank SERVICE */
    struct vipl_list events; /* vipl_event.link: handlers to call, the oldest first */
    /* Work that may block, handed over by calls that must not block; the latest first. The service
     * thread does the work before it calls the next handler. */
    struct vipl_deferred *works;
    bool calling; /* the service thread is in a handler of the program */
    /* The service thread has not begun its work for too long: it is given no more until it runs. */
    bool unresponsive;
    uint32_t errors;      /* the number of error reports in `events` */
    uint32_t errors_lost; /* error reports dropped for lack of room, since there last was room */
    VIP_ERROR_HANDLER error_handler;
    void *error_context;
    struct vipl_waker waker;
    struct vipl_thread thread;
    /* atomic: the number of ready descriptors that the program has. While there are any, the
     * service thread does not step back. */
    uint32_t ready_fds;
    /* atomic: enum vipl_attention, written by the service thread; pairs with
     * vipl_up_request_flush(). */
    uint32_t attention;
    /* atomic: a flush has been requested since the service thread last looked; pairs with
     * vipl_up_request_flush(). */
    uint32_t flush_requested;
    /* atomic: the next call that can start the service thread does so */
    uint32_t wanted;
    VIPL_FUTEX_WORD uint32_t over; /* atomic: the service thread does nothing any more but end */
    int cancel;    /* what vipl_cancel_off() returned to the service thread, which alone uses it */
    bool running;  /* the service thread exists */
    bool stopping; /* the service thread must end */
};

/* Starts the service thread, if it does not run yet. VIP_ERROR_NOT_SUPPORTED: with
 * VIPL_PROGRESS=inline there is none. */
VIP_RETURN vipl_service_start(struct vipl_nic *nic);
/* Counts a ready descriptor that the program has got (`more`) or has no longer. */
void vipl_service_count_fd(struct vipl_nic *nic, bool more);
/* Ends the service thread after the handler that it is in, and waits for its end. Returns true if
 * that handler made this call: then the service thread ends later. */
bool vipl_service_stop(struct vipl_nic *nic);

/* Hands over work that may block. Returns true if the caller is in an async-signal-safe function
 * and the service thread does the work instead. The service thread does the work at once: it takes
 * none while it is in a handler of the program, since that handler may wait for the work. */
bool vipl_service_takes(struct vipl_nic *nic, struct vipl_deferred *work);
/* A thread calls vipl_service_relieve() after it has waited this long for something that may be
 * work of the service thread. If the service thread has not begun the work, the caller does it: the
 * service thread may sleep on descriptors that the program has closed. No lock held. */
enum { VIPL_SERVICE_RESPONSE_MS = 1000 };
void vipl_service_relieve(struct vipl_nic *nic);

/* The last call of the service thread, when it ends or is cancelled in its sleep. */
void vipl_service_over(struct vipl_nic *nic);

struct vipl_event *vipl_event_new(enum vipl_event_kind kind, void *context);
void vipl_events_drop_locked(struct vipl_list *events); /* frees registered handlers */
/* Passes the oldest handler registered with the queue to the service thread. The queue's lock is
 * held. */
void vipl_event_fire_vi(struct vipl_queue *q, VIP_DESCRIPTOR *descriptor);
void vipl_event_fire_cq(struct vipl_cq *cq, const struct vipl_queue *q);

VIP_RETURN vipl_error_handler_set(struct vipl_nic *nic, VIP_ERROR_HANDLER handler, void *context);
/* Reports an asynchronous error to the program's error handler, or to the log if there is none. The
 * caller holds no lock of rank SERVICE or a later rank. */
void vipl_error_report(struct vipl_nic *nic, const VIP_ERROR_DESCRIPTOR *error);

#endif
