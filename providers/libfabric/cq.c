/* SPDX-License-Identifier: MIT */
/*
 * Completion queues. The device's completion queue says which VI has something; what the program
 * reads is a list of operations, which are free again once it has read them. So nothing is lost for
 * lack of room: a program that does not read cannot post.
 *
 * Waiting: fi_cq_sread() waits on the device's completion queue itself, and the peer's message
 * wakes the thread without another one in between. A program that wants a descriptor gets an epoll
 * descriptor of three: the device's; one for completions that another thread has added to the list
 * (wake_fd); and a timer (tick_fd), because a peer that posts receives writes a word into memory,
 * which wakes no thread: while operations wait for credit, the program is woken every millisecond.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "provider.h"

static struct prov_cq *cq_of(struct fid_cq *fid)
{
    return container_of(fid, struct prov_cq, fid);
}

void prov_cq_update_wake(struct prov_cq *cq)
{
    uint64_t count = 1;
    bool wanted = cq->ready > 0 || cq->signalled || cq->has_events;
    if (cq->wake_fd < 0 || cq->woken == wanted) {
        return;
    }
    ssize_t bytes =
        wanted ? write(cq->wake_fd, &count, sizeof(count)) : read(cq->wake_fd, &count, sizeof(count));
    cq->woken = wanted;
    (void)bytes;
}

/* Locked. The thread may sleep next. */
static void begin_tick(struct prov_cq *cq)
{
    const struct itimerspec soon = {.it_value = {.tv_nsec = 1000000}};
    bool looks = cq->has_others || !list_is_alone(&cq->domain->nic->pending);
    if (cq->tick_fd >= 0 && !cq->ticking && looks) {
        prov_set(&cq->ticking, timerfd_settime(cq->tick_fd, 0, &soon, NULL) == 0);
    }
}

/* Locked. The program looks again: the timer has done what it was for. */
static void end_tick(struct prov_cq *cq)
{
    static const struct itimerspec off = {{0, 0}, {0, 0}};
    if (cq->ticking) {
        (void)timerfd_settime(cq->tick_fd, 0, &off, NULL);
        prov_set(&cq->ticking, false);
    }
}

/* Locked. The list has a completion more, or one less. */
static void count_ready(struct prov_cq *cq, size_t ready)
{
    cq->ready = ready;
    prov_set(&cq->has_ready, ready > 0);
}

void prov_cq_add(struct prov_cq *cq, struct prov_entry *entry)
{
    list_append(&cq->done, &entry->link);
    count_ready(cq, cq->ready + 1);
}

void prov_cq_remove(struct prov_cq *cq, struct prov_entry *entry)
{
    list_remove(&entry->link);
    count_ready(cq, cq->ready - 1);
}

/* The operation of a completion; NULL: it is not of one. */
static const struct prov_op *operation_of(const struct prov_entry *entry)
{
    return entry->release == prov_op_release ? container_of(entry, const struct prov_op, entry) : NULL;
}

void prov_cq_forget(struct prov_cq *cq, const struct prov_ep *ep)
{
    struct list *one = cq->done.next;
    while (one != &cq->done) {
        struct prov_entry *entry = container_of(one, struct prov_entry, link);
        const struct prov_op *op = operation_of(entry);
        one = one->next;
        if (op != NULL && op->ep == ep) {
            prov_cq_remove(cq, entry);
        }
    }
    for (int i = 0; i < 2; i++) {
        cq->last[i] = cq->last[i] == ep ? NULL : cq->last[i];
    }
    prov_cq_update_wake(cq);
}

void prov_cq_took(struct prov_cq *cq, VIP_VI_HANDLE vi, VIP_BOOLEAN recv)
{
    struct prov_ep **last = &cq->last[recv ? 1 : 0];
    if (*last == NULL || (*last)->vi != vi) {
        *last = VipGetUserData(vi); /* NULL once the VI is destroyed */
    }
    if (*last != NULL) {
        (void)prov_ep_reap(*last, recv);
    }
}

void prov_cq_await(struct prov_cq *cq, struct prov_ep *ep)
{
    if (ep->awaited++ == 0) {
        list_append(&cq->awaiting, &ep->awaiting);
        prov_set(&cq->has_awaiting, true);
    }
}

void prov_cq_awaits_less(struct prov_cq *cq, struct prov_ep *ep)
{
    if (--ep->awaited == 0) {
        list_remove(&ep->awaiting);
        prov_set(&cq->has_awaiting, !list_is_alone(&cq->awaiting));
    }
}

/* Locked. Takes what the device does not tell of. */
static void reap_awaited(struct prov_cq *cq)
{
    for (unsigned count = list_length(&cq->awaiting); count > 0 && !list_is_alone(&cq->awaiting); count--) {
        struct list *one = list_pop(&cq->awaiting);
        list_append(&cq->awaiting, one);
        prov_ep_reap_sends(container_of(one, struct prov_ep, awaiting));
    }
}

/* Locked. Takes what the device has for this queue, until there are so many completions. */
static void poll_own(struct prov_cq *cq, size_t wanted)
{
    VIP_VI_HANDLE vi = NULL;
    VIP_BOOLEAN recv = VIP_FALSE;
    if (cq->has_awaiting) {
        reap_awaited(cq);
    }
    while (cq->ready < wanted && VipCQDone(cq->handle, &vi, &recv) == VIP_SUCCESS) {
        prov_cq_took(cq, vi, recv);
    }
}

/* Locked. What comes for the datagram endpoints that report here, by their queues for receives. */
static void poll_others(struct prov_cq *cq)
{
    for (size_t i = 0; i < PROV_CQ_DATAGRAMS; i++) {
        struct prov_cq *other = cq->datagrams[i] != NULL ? rdm_receive_queue(cq->datagrams[i]) : cq;
        if (other != cq) {
            poll_own(other, SIZE_MAX);
            prov_cq_update_wake(other);
        }
    }
}

/* Locked. Takes from the device until there are so many completions. */
static void poll_device(struct prov_cq *cq, size_t wanted)
{
    if (cq->has_others) {
        poll_others(cq);
    }
    poll_own(cq, wanted);
}

bool prov_cq_has(struct prov_cq *cq, const struct prov_ep *ep)
{
    poll_device(cq, SIZE_MAX);
    prov_cq_update_wake(cq);
    for (const struct list *one = cq->done.next; one != &cq->done; one = one->next) {
        const struct prov_op *op = operation_of(container_of(one, const struct prov_entry, link));
        if (op != NULL && op->ep == ep && op->entry.error == 0) {
            return true;
        }
    }
    return false;
}

bool prov_cq_ready(struct prov_cq *cq)
{
    end_tick(cq);
    prov_push(cq->domain->nic);
    poll_device(cq, 1);
    prov_cq_update_wake(cq);
    if (cq->ready == 0) {
        begin_tick(cq);
    }
    return cq->ready > 0 || cq->has_events;
}

int prov_cq_bind(struct prov_cq *cq, const struct prov_domain *domain, struct prov_queues *queues,
                 uint64_t flags)
{
    bool selective = (flags & FI_SELECTIVE_COMPLETION) != 0;
    bool tx = (flags & FI_TRANSMIT) != 0, rx = (flags & FI_RECV) != 0;
    if (cq->domain != domain || (flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION)) != 0 ||
        !(tx || rx) || (tx && queues->tx != NULL) || (rx && queues->rx != NULL)) {
        return -FI_EINVAL;
    }
    if (tx) {
        queues->tx = cq;
        queues->tx_selective = selective;
        cq->users++;
    }
    if (rx) {
        queues->rx = cq;
        queues->rx_selective = selective;
        cq->users++;
    }
    return 0;
}

int prov_cq_grow(struct prov_cq *cq, size_t operations)
{
    size_t most = cq->domain->nic->attributes.MaxCQEntries;
    size_t depth = cq->depth + operations;
    if (depth > cq->entries) {
        VIP_RETURN rc = depth <= most ? VipResizeCQ(cq->handle, depth) : VIP_ERROR_RESOURCE;
        if (rc != VIP_SUCCESS) {
            PROV_LOG(FI_LOG_WARN, FI_LOG_CQ, "no completion queue of %zu entries: %s\n", depth,
                     VipxExplainError(rc));
            return prov_error(rc);
        }
        cq->entries = depth;
    }
    cq->depth = depth;
    return 0;
}

void prov_cq_shrink(struct prov_cq *cq, size_t operations)
{
    cq->depth -= operations;
}

/* Writes an entry of the queue's format; its size. */
static size_t write_entry(const struct prov_cq *cq, const struct prov_entry *entry, uint8_t *out)
{
    static const size_t sizes[] = {
        [FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
        [FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
        [FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
        [FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
    };
    const struct fi_cq_tagged_entry whole = {.op_context = entry->context,
                                             .flags = entry->flags,
                                             .len = entry->length,
                                             .buf = entry->buffer,
                                             .data = entry->data,
                                             .tag = entry->tag};
    memcpy(out, &whole, sizes[cq->format]); /* each format is a beginning of the next one */
    return sizes[cq->format];
}

/* Locked. The oldest completion, or NULL. */
static struct prov_entry *first_of(const struct prov_cq *cq)
{
    return cq->ready > 0 ? container_of(cq->done.next, struct prov_entry, link) : NULL;
}

/* Locked. The program has it. */
static void read_it(struct prov_cq *cq, struct prov_entry *entry)
{
    prov_cq_remove(cq, entry);
    entry->release(entry);
}

/* Without the lock: a read has nothing to do but to ask the device. What another thread is about
 * to add, the next read finds. */
static bool is_quiet(struct prov_cq *cq)
{
    return !prov_is(&cq->has_ready) && !prov_is(&cq->ticking) && !prov_is(&cq->has_awaiting) &&
           !cq->has_others && !prov_is(&cq->domain->nic->has_pending);
}

/* A look for news of links takes as long as some reads. */
static bool is_due_to_look(struct prov_cq *cq)
{
    enum { READS = 256 };
    if (!cq->looks) {
        return false;
    }
    unsigned reads = __atomic_load_n(&cq->reads, __ATOMIC_RELAXED) + 1;
    __atomic_store_n(&cq->reads, reads, __ATOMIC_RELAXED);
    return reads % READS == 0;
}

/* Most reads of a program that polls find nothing, and take no lock. */
static ssize_t cq_readfrom(struct fid_cq *fid, void *buffer, size_t count, fi_addr_t *sources)
{
    struct prov_cq *cq = cq_of(fid);
    uint8_t *out = buffer;
    size_t done = 0;
    VIP_VI_HANDLE vi = NULL;
    VIP_BOOLEAN recv = VIP_FALSE;
    if (prov_is(&cq->has_events) || is_due_to_look(cq)) {
        rdm_progress(cq);
    }
    bool quiet = is_quiet(cq);
    if (quiet && VipCQDone(cq->handle, &vi, &recv) != VIP_SUCCESS) {
        return -FI_EAGAIN;
    }
    prov_nic_lock(cq->domain->nic);
    if (quiet) {
        prov_cq_took(cq, vi, recv);
    }
    end_tick(cq);
    prov_push(cq->domain->nic);
    poll_device(cq, count > 0 ? count : 1);
    struct prov_entry *entry = first_of(cq);
    bool failed = entry != NULL && entry->error != 0;
    while (done < count && entry != NULL && entry->error == 0) {
        out += write_entry(cq, entry, out);
        if (sources != NULL) {
            sources[done] = entry->source;
        }
        done++;
        read_it(cq, entry);
        entry = first_of(cq);
    }
    prov_cq_update_wake(cq);
    prov_nic_unlock(cq->domain->nic);
    if (done > 0) {
        return (ssize_t)done;
    }
    return failed ? -FI_EAVAIL : -FI_EAGAIN;
}

static ssize_t cq_read(struct fid_cq *fid, void *buffer, size_t count)
{
    return cq_readfrom(fid, buffer, count, NULL);
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *out, uint64_t flags)
{
    struct prov_cq *cq = cq_of(fid);
    ssize_t rc = -FI_EAGAIN;
    prov_nic_lock(cq->domain->nic);
    poll_device(cq, 1);
    struct prov_entry *entry = first_of(cq);
    if (entry != NULL && entry->error != 0) {
        out->op_context = entry->context;
        out->flags = entry->flags;
        out->len = entry->length;
        out->buf = entry->buffer;
        out->data = entry->data;
        out->tag = entry->tag;
        out->olen = entry->excess;
        out->err = entry->error;
        out->prov_errno = (int)entry->status;
        out->err_data_size = 0; /* which an application of libfabric 1.5 gives room for */
        if ((flags & FI_PEEK) == 0) {
            read_it(cq, entry);
        }
        rc = 1;
    }
    prov_cq_update_wake(cq);
    prov_nic_unlock(cq->domain->nic);
    return rc;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Sleeps until there may be a completion, or something pending may go on. True if the wait is to
 * end although there is none: the time is over, a signal handler has run, or fi_cq_signal(). */
static bool wait_for_more(struct prov_cq *cq, VIP_ULONG timeout)
{
    struct pollfd fds[2] = {{.fd = cq->wake_fd, .events = POLLIN}, {.fd = cq->tick_fd, .events = POLLIN}};
    VIP_VI_HANDLE vi = NULL;
    VIP_BOOLEAN recv = VIP_FALSE;
    VIP_RETURN rc = VipxCQWaitFds(cq->handle, fds, 2, timeout, NULL, &vi, &recv);
    bool ends = rc != VIP_SUCCESS && rc != VIP_NOT_DONE;
    prov_nic_lock(cq->domain->nic);
    if (rc == VIP_SUCCESS) {
        prov_cq_took(cq, vi, recv);
    }
    if (cq->signalled) {
        cq->signalled = false;
        ends = true;
    }
    prov_cq_update_wake(cq);
    prov_nic_unlock(cq->domain->nic);
    return ends;
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buffer, size_t count, fi_addr_t *sources,
                            const void *cond, int timeout)
{
    struct prov_cq *cq = cq_of(fid);
    uint64_t end = now_ms() + (timeout > 0 ? (uint64_t)timeout : 0);
    bool ends = false;
    (void)cond;
    if (cq->wake_fd < 0) {
        return -FI_ENOSYS; /* opened with FI_WAIT_NONE */
    }
    for (;;) {
        if (prov_is(&cq->has_events)) {
            rdm_progress(cq);
        }
        prov_nic_lock(cq->domain->nic);
        bool ready = prov_cq_ready(cq);
        prov_nic_unlock(cq->domain->nic);
        ssize_t rc = ready || ends ? cq_readfrom(fid, buffer, count, sources) : -FI_EAGAIN;
        uint64_t now = now_ms();
        if (rc != -FI_EAGAIN || ends || (timeout >= 0 && now >= end)) {
            return rc;
        }
        ends = wait_for_more(cq, timeout < 0 ? VIP_INFINITE : (VIP_ULONG)(end - now));
    }
}

static ssize_t cq_sread(struct fid_cq *fid, void *buffer, size_t count, const void *cond, int timeout)
{
    return cq_sreadfrom(fid, buffer, count, NULL, cond, timeout);
}

static int cq_signal(struct fid_cq *fid)
{
    struct prov_cq *cq = cq_of(fid);
    if (cq->wake_fd < 0) {
        return -FI_ENOSYS;
    }
    prov_nic_lock(cq->domain->nic);
    cq->signalled = true;
    prov_cq_update_wake(cq);
    prov_nic_unlock(cq->domain->nic);
    return 0;
}

static const char *cq_strerror(struct fid_cq *cq, int status, const void *data, char *text, size_t bytes)
{
    static _Thread_local char own[256];
    (void)cq;
    (void)data;
    (void)VipxStrStatus((VIP_UINT32)status, own, sizeof(own));
    if (text != NULL && bytes > 0) {
        (void)snprintf(text, bytes, "%s", own);
    }
    return own;
}

static void close_descriptors(struct prov_cq *cq)
{
    const int fds[] = {cq->wait_fd, cq->tick_fd, cq->wake_fd};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
    }
}

static int cq_close(struct fid *fid)
{
    struct prov_cq *cq = container_of(fid, struct prov_cq, fid.fid);
    prov_nic_lock(cq->domain->nic);
    unsigned users = cq->users;
    if (users == 0) {
        cq->domain->users--;
    }
    prov_nic_unlock(cq->domain->nic);
    if (users > 0) {
        return -FI_EBUSY;
    }
    close_descriptors(cq); /* the device's own is closed after the set that it is in */
    (void)VipDestroyCQ(cq->handle);
    free(cq);
    return 0;
}

/* The descriptor for event loops, made when the program asks for it: from then on the device tells
 * a thread of the library of each completion. */
static int make_wait_fd(struct prov_cq *cq)
{
    int fds[3] = {-1, cq->wake_fd, cq->tick_fd};
    VIP_RETURN rc = VipxGetFd(VIPX_FD_CQ, cq->handle, &fds[0]);
    if (rc != VIP_SUCCESS) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_CQ, "no descriptor to wait on: %s\n", VipxExplainError(rc));
        return prov_error(rc);
    }
    int fd = epoll_create1(EPOLL_CLOEXEC);
    for (size_t i = 0; fd >= 0 && i < 3; i++) {
        struct epoll_event event = {.events = EPOLLIN};
        if (epoll_ctl(fd, EPOLL_CTL_ADD, fds[i], &event) != 0) {
            (void)close(fd);
            fd = -1;
        }
    }
    cq->wait_fd = fd;
    return fd >= 0 ? 0 : -FI_EMFILE;
}

static int cq_control(struct fid *fid, int command, void *argument)
{
    struct prov_cq *cq = container_of(fid, struct prov_cq, fid.fid);
    if (command == FI_GETWAITOBJ) {
        *(enum fi_wait_obj *)argument = cq->wait;
        return 0;
    }
    if (command != FI_GETWAIT || cq->wake_fd < 0) {
        return -FI_ENOSYS;
    }
    prov_nic_lock(cq->domain->nic);
    int rc = cq->wait_fd >= 0 ? 0 : make_wait_fd(cq);
    *(int *)argument = cq->wait_fd;
    prov_nic_unlock(cq->domain->nic);
    return rc;
}

static struct fi_ops cq_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = cq_close,
    .bind = prov_no_bind,
    .control = cq_control,
    .ops_open = prov_no_ops_open,
};

static struct fi_ops_cq cq_ops = {
    .size = sizeof(struct fi_ops_cq),
    .read = cq_read,
    .readfrom = cq_readfrom,
    .readerr = cq_readerr,
    .sread = cq_sread,
    .sreadfrom = cq_sreadfrom,
    .signal = cq_signal,
    .strerror = cq_strerror,
};

static int check_attributes(const struct prov_domain *domain, const struct fi_cq_attr *attributes)
{
    if (attributes->format > FI_CQ_FORMAT_TAGGED || attributes->size > domain->nic->attributes.MaxCQEntries) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_CQ, "no completion queue of format %d and size %zu\n",
                 (int)attributes->format, attributes->size);
        return -FI_EINVAL;
    }
    if ((attributes->wait_obj != FI_WAIT_NONE && attributes->wait_obj != FI_WAIT_UNSPEC &&
         attributes->wait_obj != FI_WAIT_FD) ||
        attributes->wait_cond != FI_CQ_COND_NONE) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_CQ, "completion queues wait by FI_WAIT_FD, without a condition\n");
        return -FI_ENOSYS;
    }
    return 0;
}

int prov_cq_open(struct fid_domain *fid, struct fi_cq_attr *attributes, struct fid_cq **out, void *context)
{
    struct prov_domain *domain = container_of(fid, struct prov_domain, fid);
    int rc = check_attributes(domain, attributes);
    if (rc != 0) {
        return rc;
    }
    struct prov_cq *cq = calloc(1, sizeof(*cq));
    if (cq == NULL) {
        return -FI_ENOMEM;
    }
    cq->domain = domain;
    cq->format = attributes->format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_CONTEXT : attributes->format;
    cq->wait = attributes->wait_obj == FI_WAIT_UNSPEC ? FI_WAIT_FD : attributes->wait_obj;
    cq->entries = attributes->size > 0 ? attributes->size : 1;
    cq->wake_fd = cq->tick_fd = cq->wait_fd = -1;
    list_init(&cq->done);
    list_init(&cq->awaiting);
    if (cq->wait == FI_WAIT_FD) {
        cq->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        cq->tick_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        rc = cq->wake_fd < 0 || cq->tick_fd < 0 ? -errno : 0;
    }
    if (rc == 0) {
        VIP_RETURN created = VipCreateCQ(domain->nic->handle, cq->entries, &cq->handle);
        rc = prov_error(created);
    }
    if (rc != 0) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_CQ, "no completion queue: %s\n", fi_strerror(-rc));
        close_descriptors(cq);
        free(cq);
        return rc;
    }
    cq->fid.fid.fclass = FI_CLASS_CQ;
    cq->fid.fid.context = context;
    cq->fid.fid.ops = &cq_fid_ops;
    cq->fid.ops = &cq_ops;
    prov_nic_lock(domain->nic);
    domain->users++;
    prov_nic_unlock(domain->nic);
    *out = &cq->fid;
    return 0;
}
