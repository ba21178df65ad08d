/* SPDX-License-Identifier: MIT */
/* The service thread, the events that it delivers, and asynchronous errors. */
#include "core/service.h"

#include <assert.h>
#include <errno.h>

#include "base/deferred.h"
#include "base/guard.h"
#include "base/log.h"
#include "core/backend_up.h"
#include "core/cq.h"
#include "core/nic.h"
#include "core/queue.h"
#include "core/vi.h"
#include "core/wait.h"

enum {
    STEP_BACK_MS = 5,
    MOMENT_MS = 1,
    /* calls between two looks that show that the program polls, and not only posts */
    MIN_POLLS = 16,
    PAUSE_NS = 50000,
    MAX_QUIET = 4, /* pauses without a request to flush, after which the thread goes to sleep */
    MIN_LEADS = 4, /* see struct view */
    MAX_LEADS = 65536,
    MAX_ERRORS = 1024 /* errors that wait to be reported */
};

struct vipl_event *vipl_event_new(enum vipl_event_kind kind, void *context)
{
    struct vipl_event *event = vipl_zalloc(sizeof(*event));
    if (event != NULL) {
        event->kind = kind;
        event->context = context;
    }
    return event;
}

void vipl_events_drop_locked(struct vipl_list *events)
{
    struct vipl_list *link;
    while ((link = vipl_list_take(events)) != NULL) {
        vipl_free(VIPL_CONTAINER(link, struct vipl_event, link));
    }
}

/* Returns true if there is no room to report an error: a peer can cause more errors than a slow
 * handler takes. Counts the errors that are not reported. */
static bool drops_error(struct vipl_service *service, const struct vipl_event *event)
{
    if (event->kind != VIPL_EVENT_ERROR) {
        return false;
    }
    bool full = service->errors == MAX_ERRORS;
    if (full && service->errors_lost++ == 0) {
        vipl_log(VIPL_LOG_ERROR, "the error callback does not keep up: errors are not reported to it");
    } else if (!full && service->errors_lost > 0) {
        vipl_log(VIPL_LOG_ERROR, "%u errors were not reported to the error callback", service->errors_lost);
        service->errors_lost = 0;
    }
    service->errors += full ? 0 : 1;
    return full;
}

static void enqueue(struct vipl_nic *nic, struct vipl_event *event)
{
    struct vipl_service *service = &nic->service;
    vipl_mutex_lock(&service->lock);
    if (service->stopping || drops_error(service, event)) {
        /* While the NIC handle is being closed no handler is called. */
        vipl_free(event);
    } else {
        vipl_list_append(&service->events, &event->link);
        if (service->running) {
            vipl_waker_signal(&service->waker);
        }
    }
    vipl_mutex_unlock(&service->lock);
}

void vipl_event_fire_vi(struct vipl_queue *q, VIP_DESCRIPTOR *descriptor)
{
    struct vipl_event *event = VIPL_CONTAINER(vipl_list_take(&q->notifies), struct vipl_event, link);
    event->vi = q->vi->handle;
    event->descriptor = descriptor;
    enqueue(q->vi->nic, event);
}

void vipl_event_fire_cq(struct vipl_cq *cq, const struct vipl_queue *q)
{
    struct vipl_event *event = VIPL_CONTAINER(vipl_list_take(&cq->notifies), struct vipl_event, link);
    event->vi = q->vi->handle;
    event->is_recv = q->is_recv ? VIP_TRUE : VIP_FALSE;
    enqueue(cq->nic, event);
}

/* --- the thread --- */

bool vipl_service_takes(struct vipl_nic *nic, struct vipl_deferred *work)
{
    struct vipl_service *service = &nic->service;
    if (!vipl_guard_is_safe_call()) {
        return false;
    }
    vipl_mutex_lock(&service->lock);
    bool takes = service->running && !service->stopping && !service->calling && !service->unresponsive;
    if (takes) {
        work->next = service->works;
        service->works = work;
        vipl_waker_signal(&service->waker);
    }
    vipl_mutex_unlock(&service->lock);
    return takes;
}

/* Does the work that was handed over by vipl_service_takes(), the oldest first. */
static void run_events(struct vipl_service *service)
{
    vipl_mutex_lock(&service->lock);
    struct vipl_deferred *works = service->works;
    struct vipl_deferred *oldest = NULL;
    service->works = NULL;
    vipl_mutex_unlock(&service->lock);
    while (works != NULL) {
        struct vipl_deferred *work = works;
        works = work->next;
        work->next = oldest;
        oldest = work;
    }
    while (oldest != NULL) {
        struct vipl_deferred *work = oldest;
        oldest = work->next;
        vipl_defer(work);
    }
    vipl_deferred_run();
}

void vipl_service_relieve(struct vipl_nic *nic)
{
    struct vipl_service *service = &nic->service;
    vipl_mutex_lock(&service->lock);
    bool left = service->works != NULL;
    service->unresponsive = service->unresponsive || left;
    vipl_mutex_unlock(&service->lock);
    if (left) {
        run_events(service);
    }
}

/* Takes the next event. NULL: there is none, or work has been handed over that comes first, or the
 * thread has to stop. */
static struct vipl_event *next_event(struct vipl_service *service, bool *stop)
{
    vipl_mutex_lock(&service->lock);
    bool wait = service->stopping || service->works != NULL;
    struct vipl_list *link = wait ? NULL : vipl_list_take(&service->events);
    struct vipl_event *event = link == NULL ? NULL : VIPL_CONTAINER(link, struct vipl_event, link);
    service->errors -= event != NULL && event->kind == VIPL_EVENT_ERROR ? 1 : 0;
    service->calling = event != NULL;
    service->unresponsive = false;
    *stop = service->stopping;
    vipl_mutex_unlock(&service->lock);
    return event;
}

/* Calls the program's handler of an event. */
static void dispatch_event(void *nic_handle, const struct vipl_event *event)
{
    VIP_ERROR_DESCRIPTOR error = event->error;
    switch (event->kind) {
    case VIPL_EVENT_VI:
        event->vi_handler(event->context, nic_handle, event->vi, event->descriptor);
        break;
    case VIPL_EVENT_CQ:
        event->cq_handler(event->context, nic_handle, event->vi, event->is_recv);
        break;
    case VIPL_EVENT_ERROR:
        event->error_handler(event->context, &error);
        break;
    }
}

/* What the service thread knows about the application. */
struct view {
    uint32_t activity; /* vipl_nic.activity at the last look */
    bool idle;         /* the last sleep lasted until another thread passed the lead on */
    /* For this number of looks the thread leads although the application makes calls, because these
     * calls do not poll. */
    uint32_t leads;
    /* The next value of `leads`, which doubles each time that needs_service() is true. */
    uint32_t next_leads;
};

/* Returns the number of the application's calls since the last look. */
static uint32_t calls_since(struct vipl_nic *nic, struct view *view)
{
    uint32_t before = view->activity;
    view->activity = vipl_load_relaxed(&nic->activity);
    return view->activity - before;
}

/* Returns true if the backend has work now. */
static bool has_something(struct vipl_nic *nic)
{
    struct vipl_poll_hint hint;
    nic->ops->prepare_wait(nic->be, &hint);
    vipl_deferred_run();
    bool something = hint.ms == 0 || (hint.fd >= 0 && vipl_poll(&hint.fd, 1, 0, NULL) == 0);
    nic->ops->finish_wait(nic->be, &hint);
    return something;
}

/* Returns true if the application makes calls but does not poll: it posts now and then, for
 * example, and spins on its own memory meanwhile. Such an application needs the service thread as
 * much as one that makes no calls. Called after the thread has stepped back: the backend has work,
 * the thread waits for a moment, and no call comes that does the work. */
static bool needs_service(struct vipl_nic *nic, struct view *view)
{
    if (!has_something(nic)) {
        return false;
    }
    (void)calls_since(nic, view);
    vipl_poll(NULL, 0, MOMENT_MS, NULL);
    return calls_since(nic, view) == 0 && has_something(nic);
}

/* Returns true if the thread steps back, because the application polls by itself. */
static bool steps_back(struct vipl_nic *nic, struct view *view)
{
    uint32_t calls = calls_since(nic, view);
    if (calls == 0 || vipl_load_ordered(&nic->service.ready_fds) != 0) {
        return false;
    }
    if (view->leads > 0) {
        view->leads -= calls > MIN_POLLS ? 1 : 0; /* with that many calls the application polls */
        return false;
    }
    if (view->idle || !needs_service(nic, view)) {
        return true;
    }
    view->next_leads = view->next_leads < MAX_LEADS ? view->next_leads * 2 : view->next_leads;
    view->leads = view->next_leads;
    return false;
}

/* --- flushing deferred work --- */

/* Stores the request before it reads `attention`; the service thread stores `attention` before it
 * reads the request. */
bool vipl_up_request_flush(struct vipl_nic *nic)
{
    struct vipl_service *service = &nic->service;
    bool before = vipl_exchange(&service->flush_requested, 1) != 0;
    uint32_t attention = vipl_load_ordered(&service->attention);
    if (attention == VIPL_AWAY) {
        /* In this mode all progress is made by the program's calls. */
        return nic->progress_mode == VIPL_PROGRESS_INLINE;
    }
    if (attention == VIPL_ASLEEP && !before) {
        vipl_mutex_lock(&service->lock);
        if (service->running) {
            vipl_waker_signal(&service->waker);
        }
        vipl_mutex_unlock(&service->lock);
    }
    return true;
}

/* Returns true if a flush has been requested since the last call. */
static bool take_flush_request(struct vipl_service *service)
{
    /* pairs with vipl_up_request_flush() */
    return vipl_exchange(&service->flush_requested, 0) != 0;
}

static void flush_deferred(struct vipl_nic *nic)
{
    nic->ops->flush_deferred(nic->be);
    vipl_deferred_run();
}

/* Returns true if there is work that comes before flushing: handlers, work that was handed over, or
 * the end of the thread. */
static bool has_calls(struct vipl_service *service)
{
    vipl_mutex_lock(&service->lock);
    bool calls = service->stopping || service->works != NULL || !vipl_list_empty(&service->events);
    vipl_mutex_unlock(&service->lock);
    return calls;
}

/* Flushes deferred work after pauses. A poll of the program flushes all work that was deferred
 * before it. So a request from before a pause is overdue after the pause only if no poll came
 * meanwhile; then the thread flushes. If a poll came, only younger requests are left, and they get
 * a pause of their own. No work waits for more than two pauses. */
static void flush_after_pauses(struct vipl_nic *nic)
{
    struct vipl_service *service = &nic->service;
    vipl_store_ordered(&service->attention, VIPL_IN_PAUSE);
    bool requested_before = take_flush_request(service);
    uint32_t epoch = nic->ops->poll_epoch(nic->be);
    for (unsigned quiet = 0; quiet < MAX_QUIET && !has_calls(service);) {
        vipl_pause(PAUSE_NS);
        bool flush_requested = take_flush_request(service);
        bool overdue = requested_before && nic->ops->poll_epoch(nic->be) == epoch;
        if (overdue) {
            flush_deferred(nic);
        }
        epoch = nic->ops->poll_epoch(nic->be);
        requested_before = flush_requested && !overdue;
        quiet = flush_requested ? 0 : quiet + 1;
    }
    /* Before a handler is called, and for work that a poll has just missed. */
    flush_deferred(nic);
    vipl_store_ordered(&service->attention, VIPL_ASLEEP);
}

/* Flushes deferred work if that was requested. False: there may be a new request, and the thread
 * must not sleep yet. */
static bool has_flushed_requests(struct vipl_nic *nic)
{
    if (vipl_load_ordered(&nic->service.flush_requested) == 0) {
        return true;
    }
    flush_after_pauses(nic);
    return vipl_load_ordered(&nic->service.flush_requested) == 0;
}

/* Calls a handler. While the thread is in the handler, vipl_up_request_flush() returns false. */
static void call_handler(struct vipl_nic *nic, void *handle, const struct vipl_event *event)
{
    vipl_store_ordered(&nic->service.attention, VIPL_AWAY);
    if (take_flush_request(&nic->service)) {
        flush_deferred(nic);
    }
    dispatch_event(handle, event);
    vipl_store_ordered(&nic->service.attention, VIPL_ASLEEP);
}

/* --- watching --- */

/* Polls the backend once and sleeps once. The thread leads the sleepers, unless the application was
 * active since the last look: then the thread only looks again soon. While an application thread
 * leads, this thread sleeps until that thread passes the lead on; but not twice in a row, so that a
 * series of short sleeps of the application does not wake this thread each time. An application
 * with ready descriptors, which may sleep in a loop of its own, is never counted as active. */
static void poll_and_sleep(struct vipl_nic *nic, struct vipl_waiter *self, struct view *view)
{
    bool active = steps_back(nic, view);
    if (!active) {
        nic->ops->poll(nic->be);
        vipl_deferred_run();
    }
    view->idle = vipl_sleep_service(nic, self, !active, !active || !view->idle, STEP_BACK_MS);
}

static void service_main(void *arg)
{
    struct vipl_nic *nic = arg;
    void *handle = nic->public_handle;
    struct vipl_waiter self = {.waker = &nic->service.waker};
    struct view view = {.activity = vipl_load_relaxed(&nic->activity), .next_leads = MIN_LEADS};
    bool stop = false;
    vipl_list_init(&self.link);
    vipl_list_init(&self.nic_link);
    nic->service.cancel = vipl_cancel_off();
    vipl_store_ordered(&nic->service.attention, VIPL_ASLEEP);
    while (!stop) {
        run_events(&nic->service);
        struct vipl_event *event = next_event(&nic->service, &stop);
        if (event != NULL) {
            call_handler(nic, handle, event);
            if (vipl_nic_is_inherited(nic)) {
                return; /* a child, forked in the handler: the device belongs to the parent */
            }
            vipl_free(event);
        } else if (!stop && has_flushed_requests(nic)) {
            poll_and_sleep(nic, &self, &view);
        }
    }
    run_events(&nic->service); /* work that was handed over just before the thread had to stop */
    vipl_service_over(nic);
}

void vipl_service_over(struct vipl_nic *nic)
{
    vipl_store_ordered(&nic->service.attention, VIPL_AWAY);
    vipl_mutex_lock(&nic->service.lock);
    nic->service.running = false; /* no thread signals it from now on */
    vipl_waker_close(&nic->service.waker);
    vipl_mutex_unlock(&nic->service.lock);
    vipl_store_ordered(&nic->service.over, 1); /* pairs with await_end() */
    vipl_futex_wake_all(&nic->service.over);
    vipl_nic_put(nic); /* the reference that vipl_service_start() took */
}

VIP_RETURN vipl_service_start(struct vipl_nic *nic)
{
    struct vipl_service *service = &nic->service;
    VIP_RETURN rc = VIP_SUCCESS;
    int error = 0;
    if (nic->progress_mode == VIPL_PROGRESS_INLINE) {
        return VIP_ERROR_NOT_SUPPORTED;
    }
    vipl_mutex_lock(&service->lock);
    if (!service->running && !service->stopping) {
        rc = VIP_ERROR_RESOURCE;
        error = vipl_waker_open(&service->waker);
        if (error == 0 && vipl_nic_ref(nic)) {
            service->running = true;
            service->over = 0;
            error = vipl_thread_start(&service->thread, service_main, nic);
            if (error == 0) {
                rc = VIP_SUCCESS;
            } else {
                service->running = false;
                vipl_waker_close(&service->waker);
                vipl_nic_put(nic);
            }
        }
    }
    vipl_mutex_unlock(&service->lock);
    if (error != 0) {
        vipl_log_os(VIPL_LOG_ERROR, "starting the service thread", error);
    }
    return rc;
}

/* Changes the count before it wakes the thread, which reads the count before it sleeps again. */
void vipl_service_count_fd(struct vipl_nic *nic, bool more)
{
    struct vipl_service *service = &nic->service;
    vipl_fetch_add(&service->ready_fds, more ? 1 : (uint32_t)-1);
    if (!more) {
        return;
    }
    vipl_mutex_lock(&service->lock);
    if (service->running) {
        vipl_waker_signal(&service->waker);
    }
    vipl_mutex_unlock(&service->lock);
}

/* Waits for the end of the service thread. A service thread that sleeps on descriptors which the
 * program has closed (by closefrom(), for example) cannot be woken, and is cancelled. While it is
 * in a handler, which may take long, it is not cancelled. */
static void await_end(struct vipl_service *service)
{
    while (vipl_load_ordered(&service->over) == 0) {
        if (vipl_futex_wait_for(&service->over, 0, VIPL_SERVICE_RESPONSE_MS) == ETIMEDOUT) {
            vipl_thread_cancel(&service->thread);
        }
    }
    vipl_thread_join(&service->thread);
}

bool vipl_service_stop(struct vipl_nic *nic)
{
    struct vipl_service *service = &nic->service;
    vipl_mutex_lock(&service->lock);
    service->stopping = true;
    vipl_events_drop_locked(&service->events);
    bool running = service->running;
    bool self = running && vipl_thread_is_self(&service->thread);
    if (running) {
        vipl_waker_signal(&service->waker);
    }
    vipl_mutex_unlock(&service->lock);
    if (self) {
        vipl_thread_detach(&service->thread);
    } else if (running) {
        await_end(service);
        run_events(service); /* work that a cancelled thread has left */
    }
    return self;
}

/* In an async-signal-safe function no thread may be started, because a signal handler may have
 * interrupted the program's malloc(). Then the next other call starts the service thread. */
VIP_RETURN vipl_up_need_service(struct vipl_nic *nic)
{
    if (vipl_guard_is_safe_call()) {
        vipl_store_relaxed(&nic->service.wanted, 1);
        return VIP_SUCCESS;
    }
    return vipl_service_start(nic);
}

/* --- asynchronous errors --- */

VIP_RETURN vipl_error_handler_set(struct vipl_nic *nic, VIP_ERROR_HANDLER handler, void *context)
{
    VIP_RETURN rc = handler == NULL ? VIP_SUCCESS : vipl_service_start(nic);
    if (rc == VIP_SUCCESS) {
        vipl_mutex_lock(&nic->service.lock);
        nic->service.error_handler = handler;
        nic->service.error_context = context;
        vipl_mutex_unlock(&nic->service.lock);
    }
    return rc;
}

static const char *const error_texts[] = {"posted descriptor is not valid",
                                          "connection lost",
                                          "no receive posted",
                                          "completion queue overrun",
                                          "RDMA write refused",
                                          "RDMA write not placed",
                                          "RDMA write aborted",
                                          "RDMA read refused",
                                          "completion not written",
                                          "RDMA transport error",
                                          "catastrophic NIC error"};

/* What happens without a handler of the program. */
static void log_error(const struct vipl_nic *nic, const VIP_ERROR_DESCRIPTOR *error)
{
    bool expected = nic->quiet && error->ErrorCode == VIP_ERROR_CONN_LOST;
    vipl_log(expected ? VIPL_LOG_INFO : VIPL_LOG_ERROR, "%s (vi %p, descriptor %p)",
             error_texts[error->ErrorCode], error->ViHandle, (void *)error->DescriptorPtr);
}

void vipl_error_report(struct vipl_nic *nic, const VIP_ERROR_DESCRIPTOR *error)
{
    struct vipl_event *event = vipl_event_new(VIPL_EVENT_ERROR, NULL);
    vipl_mutex_lock(&nic->service.lock);
    VIP_ERROR_HANDLER handler = nic->service.error_handler;
    void *context = nic->service.error_context;
    vipl_mutex_unlock(&nic->service.lock);
    if (handler == NULL || event == NULL) {
        log_error(nic, error); /* there is no handler, or no memory for the event */
        vipl_free(event);
        return;
    }
    event->context = context;
    event->error_handler = handler;
    event->error = *error;
    enqueue(nic, event);
}
