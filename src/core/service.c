/* SPDX-License-Identifier: MIT */
/* The service thread, the events it delivers, and asynchronous errors. */
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
    POLLS = 16, /* calls between two looks that tell a program which polls from one which posts */
    PAUSE_NS = 50000,
    QUIET = 4,     /* pauses without a summons, after which the thread goes to sleep */
    MIN_TRUST = 4, /* looks; twice as many after each time that the program was misjudged */
    MAX_TRUST = 65536,
    MAX_ERRORS = 1024 /* that wait to be reported */
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

/* A peer can set off more errors than a slow handler takes. What is not reported is counted. */
static bool is_too_many(struct vipl_service *service, const struct vipl_event *event)
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
    if (service->stopping || is_too_many(service, event)) {
        vipl_free(event); /* stopping: the NIC handle is being closed, and no handler is called any more */
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
    bool takes = service->running && !service->stopping && !service->calling && !service->deaf;
    if (takes) {
        work->next = service->works;
        service->works = work;
        vipl_waker_signal(&service->waker);
    }
    vipl_mutex_unlock(&service->lock);
    return takes;
}

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
    service->deaf = service->deaf || left;
    vipl_mutex_unlock(&service->lock);
    if (left) {
        run_events(service);
    }
}

/* NULL: there is none, or work has been taken that comes first, or the thread is to stop. */
static struct vipl_event *next_event(struct vipl_service *service, bool *stop)
{
    vipl_mutex_lock(&service->lock);
    bool wait = service->stopping || service->works != NULL;
    struct vipl_list *link = wait ? NULL : vipl_list_take(&service->events);
    struct vipl_event *event = link == NULL ? NULL : VIPL_CONTAINER(link, struct vipl_event, link);
    service->errors -= event != NULL && event->kind == VIPL_EVENT_ERROR ? 1 : 0;
    service->calling = event != NULL;
    service->deaf = false;
    *stop = service->stopping;
    vipl_mutex_unlock(&service->lock);
    return event;
}

static void call(void *nic_handle, const struct vipl_event *event)
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

/* What the thread knows about the application. */
struct view {
    uint32_t activity; /* as it last was */
    bool idle;         /* the last sleep lasted until another thread passed the lead on */
    uint32_t
        leads; /* looks for which it leads although the application calls in, as that does not look for data */
    uint32_t trust; /* how many such looks the next time: more each time that it had to find out */
};

static uint32_t calls_since(struct vipl_nic *nic, struct view *view)
{
    uint32_t before = view->activity;
    view->activity = vipl_load_relaxed(&nic->activity);
    return view->activity - before;
}

/* Whether the backend has something to do right now. */
static bool has_something(struct vipl_nic *nic)
{
    struct vipl_poll_hint hint;
    nic->ops->prepare_wait(nic->be, &hint);
    vipl_deferred_run();
    bool something = hint.ms == 0 || (hint.fd >= 0 && vipl_poll(&hint.fd, 1, 0, NULL) == 0);
    nic->ops->finish_wait(nic->be, &hint);
    return something;
}

/* An application that calls in now and then, to post for example, and spins on its own memory meanwhile, needs this thread as
 * much as one that does not call. It is found out after a step back: something has come, and in a moment, for which the thread
 * makes way, nobody calls in for it. */
static bool needs_service(struct vipl_nic *nic, struct view *view)
{
    if (!has_something(nic)) {
        return false;
    }
    (void)calls_since(nic, view);
    vipl_poll(NULL, 0, MOMENT_MS, NULL);
    return calls_since(nic, view) == 0 && has_something(nic);
}

/* Whether the thread steps back, because the application looks for itself. */
static bool steps_back(struct vipl_nic *nic, struct view *view)
{
    uint32_t calls = calls_since(nic, view);
    if (calls == 0 || vipl_load_ordered(&nic->service.ready_fds) != 0) {
        return false;
    }
    if (view->leads > 0) {
        view->leads -= calls > POLLS ? 1 : 0; /* who calls in so often is polling, for a while at least */
        return false;
    }
    if (view->idle || !needs_service(nic, view)) {
        return true;
    }
    view->trust = view->trust < MAX_TRUST ? view->trust * 2 : view->trust;
    view->leads = view->trust;
    return false;
}

/* --- standing by --- */

/* The summons first, then how the thread is; the thread does it the other way round. */
bool vipl_up_request_flush(struct vipl_nic *nic)
{
    struct vipl_service *service = &nic->service;
    bool before = vipl_exchange(&service->flush_requested, 1) != 0;
    uint32_t attention = vipl_load_ordered(&service->attention);
    if (attention == VIPL_AWAY) {
        return nic->progress_mode ==
               VIPL_PROGRESS_INLINE; /* where all that happens, happens in the program's calls */
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

/* Whether it was flush_requested since this was asked last. */
static bool take_flush_request(struct vipl_service *service)
{
    return vipl_exchange(&service->flush_requested, 0) != 0; /* pairs with vipl_up_request_flush() */
}

static void flush_deferred(struct vipl_nic *nic)
{
    nic->ops->flush_deferred(nic->be);
    vipl_deferred_run();
}

static bool has_calls(struct vipl_service *service)
{
    vipl_mutex_lock(&service->lock);
    bool calls = service->stopping || service->works != NULL || !vipl_list_empty(&service->events);
    vipl_mutex_unlock(&service->lock);
    return calls;
}

/* A look of the program's does what there was to do before it. So what the thread was flush_requested for before a pause is still to be
 * done after it if nobody has looked meanwhile, whatever was flush_requested for since; else only what is younger may be, and gets a pause
 * of its own. Nothing waits for more than two pauses. */
static void flush_after_pauses(struct vipl_nic *nic)
{
    struct vipl_service *service = &nic->service;
    vipl_store_ordered(&service->attention, VIPL_STANDING_BY);
    bool owed = take_flush_request(service);
    uint32_t epoch = nic->ops->poll_epoch(nic->be);
    for (unsigned quiet = 0; quiet < QUIET && !has_calls(service);) {
        vipl_pause(PAUSE_NS);
        bool flush_requested = take_flush_request(service);
        bool overdue = owed && nic->ops->poll_epoch(nic->be) == epoch;
        if (overdue) {
            flush_deferred(nic);
        }
        epoch = nic->ops->poll_epoch(nic->be);
        owed = flush_requested && !overdue;
        quiet = flush_requested ? 0 : quiet + 1;
    }
    flush_deferred(nic); /* before a handler is called, and in case that a look has just missed something */
    vipl_store_ordered(&service->attention, VIPL_ASLEEP);
}

/* False: there may be more to do before the thread sleeps. */
static bool stood_by(struct vipl_nic *nic)
{
    if (vipl_load_ordered(&nic->service.flush_requested) == 0) {
        return true;
    }
    flush_after_pauses(nic);
    return vipl_load_ordered(&nic->service.flush_requested) == 0;
}

/* Nobody is flush_requested while it is in a handler. */
static void call_away(struct vipl_nic *nic, void *handle, const struct vipl_event *event)
{
    vipl_store_ordered(&nic->service.attention, VIPL_AWAY);
    if (take_flush_request(&nic->service)) {
        flush_deferred(nic);
    }
    call(handle, event);
    vipl_store_ordered(&nic->service.attention, VIPL_ASLEEP);
}

/* --- watching --- */

/* One look at the backend and one sleep. The thread leads the sleepers unless the application was active since
 * the last look; then it only looks again soon. It does not even do that while an application thread leads, which
 * passes the lead on; unless one just has, so that a series of short sleeps does not wake this thread each time.
 * An application that may sleep in its own event loop is never counted as active. */
static void watch(struct vipl_nic *nic, struct vipl_waiter *self, struct view *view)
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
    struct view view = {.activity = vipl_load_relaxed(&nic->activity), .trust = MIN_TRUST};
    bool stop = false;
    vipl_list_init(&self.link);
    vipl_list_init(&self.nic_link);
    nic->service.cancel = vipl_cancel_off();
    vipl_store_ordered(&nic->service.attention, VIPL_ASLEEP);
    while (!stop) {
        run_events(&nic->service);
        struct vipl_event *event = next_event(&nic->service, &stop);
        if (event != NULL) {
            call_away(nic, handle, event);
            if (vipl_nic_is_inherited(nic)) {
                return; /* forked in the callback: this is the child's only thread, and the device is not its own */
            }
            vipl_free(event);
        } else if (!stop && stood_by(nic)) {
            watch(nic, &self, &view);
        }
    }
    run_events(&nic->service); /* what was taken just before it was to stop */
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
    vipl_nic_put(nic); /* the reference the thread was started with */
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

/* The count first, then the signal: the thread looks at the count before it goes to sleep again. */
void vipl_service_attend(struct vipl_nic *nic, bool more)
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

/* A thread that sleeps on descriptors which the program has closed meanwhile (closefrom() does that) cannot be
 * woken. In a callback, which may take its time, it is not cancelled. */
static void await_end(struct vipl_service *service)
{
    while (vipl_load_ordered(&service->over) == 0) {
        if (vipl_futex_wait_for(&service->over, 0, VIPL_SERVICE_HEARS_MS) == ETIMEDOUT) {
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
        run_events(service); /* of a thread that was cancelled */
    }
    return self;
}

/* A signal handler may have interrupted the program's malloc(), which starting a thread needs. Then the next call
 * that cannot come from a handler starts the thread. */
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

/* The default handler. */
static void log_error(const VIP_ERROR_DESCRIPTOR *error)
{
    vipl_log(VIPL_LOG_ERROR, "%s (vi %p, descriptor %p)", error_texts[error->ErrorCode], error->ViHandle,
             (void *)error->DescriptorPtr);
}

void vipl_error_report(struct vipl_nic *nic, const VIP_ERROR_DESCRIPTOR *error)
{
    struct vipl_event *event = vipl_event_new(VIPL_EVENT_ERROR, NULL);
    vipl_mutex_lock(&nic->service.lock);
    VIP_ERROR_HANDLER handler = nic->service.error_handler;
    void *context = nic->service.error_context;
    vipl_mutex_unlock(&nic->service.lock);
    if (handler == NULL || event == NULL) {
        log_error(error); /* no thread to report it; or no memory for the report */
        vipl_free(event);
        return;
    }
    event->context = context;
    event->error_handler = handler;
    event->error = *error;
    enqueue(nic, event);
}
