/* SPDX-License-Identifier: MIT */
/*
 * Event queues. An event is part of the object that it is about (struct prov_event), or was written
 * by the program. Reading also takes the connection requests that have come in, of all listeners of
 * the NIC handle, each for its own event queue; so the descriptor by which VIPL shows requests,
 * which is one for the NIC handle, does not stay readable.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "provider.h"

enum {
    UNREAD_MS = 1000, /* FI_SHUTDOWN waits for the program to read what came before */
    LOOK_MS = 1       /* between two looks whether the program has */
};

static uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static struct prov_eq *eq_of(struct fid_eq *fid)
{
    return container_of(fid, struct prov_eq, fid);
}

/* Locked. The descriptor shows whether there are events. */
static void update_wake(struct prov_eq *eq)
{
    uint64_t count = 1;
    bool wanted = !list_is_alone(&eq->events);
    if (eq->wake_fd < 0 || eq->woken == wanted) {
        return;
    }
    ssize_t bytes =
        wanted ? write(eq->wake_fd, &count, sizeof(count)) : read(eq->wake_fd, &count, sizeof(count));
    eq->woken = wanted;
    (void)bytes;
}

void prov_event_init(struct prov_event *event, fid_t fid, uint8_t *data)
{
    list_init(&event->of_eq);
    event->fid = fid;
    event->data = data;
}

void prov_eq_add(struct prov_eq *eq, struct prov_event *event, uint32_t type, int error, size_t bytes)
{
    event->type = type;
    event->error = error;
    event->bytes = bytes;
    list_append(&eq->events, &event->of_eq);
    update_wake(eq);
}

void prov_eq_add_shutdown(struct prov_eq *eq, struct prov_event *event, struct prov_ep *ep)
{
    event->ended = ep;
    event->since_ms = now_ms();
    prov_eq_add(eq, event, FI_SHUTDOWN, 0, 0);
}

void prov_eq_remove(struct prov_eq *eq, struct prov_event *event)
{
    list_remove(&event->of_eq);
    update_wake(eq);
}

bool prov_eq_ready(struct prov_eq *eq)
{
    prov_take_requests(eq->fabric->nic);
    return !list_is_alone(&eq->events);
}

/* Locked. The wait object is ready for requests, too, if there may be some and the program may
 * sleep. Not before: while a NIC handle has such a descriptor, a thread of VIPL watches the device,
 * although the program polls, and each message wakes it. */
static int watch_requests(struct prov_eq *eq)
{
    struct prov_nic *nic = eq->fabric->nic;
    struct epoll_event event = {.events = EPOLLIN};
    if (!eq->listens || !eq->sleeps || eq->has_connect_fd) {
        return 0;
    }
    if (nic->connect_fd < 0) {
        VIP_RETURN rc = VipxGetFd(VIPX_FD_CONNECT, nic->handle, &nic->connect_fd);
        if (rc != VIP_SUCCESS) {
            nic->connect_fd = -1;
            PROV_LOG(FI_LOG_WARN, FI_LOG_EQ, "no descriptor for requests: %s\n", VipxExplainError(rc));
            return prov_error(rc);
        }
    }
    if (epoll_ctl(eq->wait_fd, EPOLL_CTL_ADD, nic->connect_fd, &event) != 0) {
        return -errno;
    }
    eq->has_connect_fd = true;
    return 0;
}

int prov_eq_listens(struct prov_eq *eq)
{
    eq->listens = true;
    return watch_requests(eq);
}

/* The program sleeps, or has the wait object and may sleep from now on. */
static int begin_sleep(struct prov_eq *eq)
{
    prov_nic_lock(eq->fabric->nic);
    eq->sleeps = true;
    int rc = watch_requests(eq);
    prov_nic_unlock(eq->fabric->nic);
    return rc;
}

/* Locked. FI_SHUTDOWN comes after the completions of what the peer has sent before: a program that
 * closes the endpoint when it sees the event, as ofi_rxm does, would lose them. */
static bool is_early(const struct prov_event *event)
{
    return event->type == FI_SHUTDOWN && event->ended != NULL && event->ended->queues.rx != NULL &&
           now_ms() - event->since_ms < UNREAD_MS && prov_cq_has(event->ended->queues.rx, event->ended);
}

/* Locked. The first event that the program may have; NULL: there is none. */
static struct prov_event *first_event(struct prov_eq *eq)
{
    for (struct list *one = eq->events.next; one != &eq->events; one = one->next) {
        struct prov_event *event = container_of(one, struct prov_event, of_eq);
        if (!is_early(event)) {
            return event;
        }
    }
    return NULL;
}

/* Locked. The program has an event that is not queued any more, and owns its fi_info. */
static void taken(struct prov_eq *eq, struct prov_event *event)
{
    update_wake(eq);
    event->info = NULL;
    if (event->written) {
        free(event->data);
        free(event);
    }
}

/* Locked. Copies an event; the number of bytes, or -FI_ETOOSMALL. */
static ssize_t copy_event(const struct prov_event *event, void *buffer, size_t bytes)
{
    uint8_t *to = buffer;
    size_t head = 0;
    if (!event->written) {
        const struct fi_eq_cm_entry entry = {.fid = event->fid, .info = event->info};
        head = offsetof(struct fi_eq_cm_entry, data);
        if (bytes < head) {
            return -FI_ETOOSMALL;
        }
        memcpy(to, &entry, head);
    } else if (bytes < event->bytes) {
        return -FI_ETOOSMALL;
    }
    size_t data = event->bytes < bytes - head ? event->bytes : bytes - head;
    if (data > 0) {
        memcpy(to + head, event->data, data);
    }
    return (ssize_t)(head + data);
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *type, void *buffer, size_t bytes, uint64_t flags)
{
    struct prov_eq *eq = eq_of(fid);
    ssize_t rc = -FI_EAGAIN;
    prov_nic_lock(eq->fabric->nic);
    struct prov_event *event = prov_eq_ready(eq) ? first_event(eq) : NULL;
    if (event != NULL) {
        rc = event->error != 0 ? -FI_EAVAIL : copy_event(event, buffer, bytes);
        if (rc >= 0) {
            *type = event->type;
            if ((flags & FI_PEEK) == 0) {
                list_remove(&event->of_eq);
                taken(eq, event);
            }
        }
    }
    prov_nic_unlock(eq->fabric->nic);
    return rc;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *entry, uint64_t flags)
{
    struct prov_eq *eq = eq_of(fid);
    ssize_t rc = -FI_EAGAIN;
    prov_nic_lock(eq->fabric->nic);
    struct prov_event *event = first_event(eq);
    if (event != NULL && event->error != 0) {
        memset(entry, 0, sizeof(*entry));
        entry->fid = event->fid;
        entry->context = event->fid->context;
        entry->err = event->error;
        entry->prov_errno = event->error;
        memcpy(eq->error_data, event->data, event->bytes);
        entry->err_data = eq->error_data;
        entry->err_data_size = event->bytes;
        if ((flags & FI_PEEK) == 0) {
            list_remove(&event->of_eq);
            taken(eq, event);
        }
        rc = (ssize_t)sizeof(*entry);
    }
    prov_nic_unlock(eq->fabric->nic);
    return rc;
}

/* Whether there are events, but none that the program may have yet. */
static bool holds_back(struct prov_eq *eq)
{
    prov_nic_lock(eq->fabric->nic);
    bool holds = !list_is_alone(&eq->events) && first_event(eq) == NULL;
    prov_nic_unlock(eq->fabric->nic);
    return holds;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *type, void *buffer, size_t bytes, int timeout,
                        uint64_t flags)
{
    struct prov_eq *eq = eq_of(fid);
    struct pollfd one = {.fd = eq->wait_fd, .events = POLLIN};
    uint64_t end = now_ms() + (timeout > 0 ? (uint64_t)timeout : 0);
    if (eq->wait_fd < 0) {
        return -FI_ENOSYS; /* opened with FI_WAIT_NONE */
    }
    int failed = timeout != 0 ? begin_sleep(eq) : 0;
    if (failed != 0) {
        return failed;
    }
    for (;;) {
        ssize_t rc = eq_read(fid, type, buffer, bytes, flags);
        uint64_t now = now_ms();
        if (rc != -FI_EAGAIN || (timeout >= 0 && now >= end)) {
            return rc;
        }
        if (poll(&one, 1, timeout < 0 ? -1 : (int)(end - now)) < 0) {
            return errno == EINTR ? -FI_EINTR : -errno;
        }
        if (holds_back(eq) && poll(NULL, 0, LOOK_MS) < 0) { /* the descriptor stays readable */
            return errno == EINTR ? -FI_EINTR : -errno;
        }
    }
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t type, const void *buffer, size_t bytes, uint64_t flags)
{
    struct prov_eq *eq = eq_of(fid);
    struct prov_event *event = calloc(1, sizeof(*event));
    uint8_t *data = malloc(bytes > 0 ? bytes : 1);
    (void)flags;
    if (event == NULL || data == NULL) {
        free(event);
        free(data);
        return -FI_ENOMEM;
    }
    memcpy(data, buffer, bytes);
    prov_event_init(event, &eq->fid.fid, data);
    event->written = true;
    prov_nic_lock(eq->fabric->nic);
    prov_eq_add(eq, event, type, 0, bytes);
    prov_nic_unlock(eq->fabric->nic);
    return (ssize_t)bytes;
}

static const char *eq_strerror(struct fid_eq *eq, int error, const void *data, char *text, size_t bytes)
{
    (void)eq;
    (void)data;
    if (text != NULL && bytes > 0) {
        (void)snprintf(text, bytes, "%s", fi_strerror(error));
    }
    return fi_strerror(error);
}

static void close_descriptors(struct prov_eq *eq)
{
    if (eq->wait_fd >= 0) {
        (void)close(eq->wait_fd);
    }
    if (eq->wake_fd >= 0) {
        (void)close(eq->wake_fd);
    }
}

static int eq_close(struct fid *fid)
{
    struct prov_eq *eq = container_of(fid, struct prov_eq, fid.fid);
    prov_nic_lock(eq->fabric->nic);
    if (eq->users > 0) {
        prov_nic_unlock(eq->fabric->nic);
        return -FI_EBUSY;
    }
    while (!list_is_alone(&eq->events)) { /* those of other objects went with them */
        taken(eq, container_of(list_pop(&eq->events), struct prov_event, of_eq));
    }
    eq->fabric->users--;
    prov_nic_unlock(eq->fabric->nic);
    close_descriptors(eq);
    free(eq);
    return 0;
}

static int eq_control(struct fid *fid, int command, void *argument)
{
    struct prov_eq *eq = container_of(fid, struct prov_eq, fid.fid);
    if (command == FI_GETWAIT && eq->wait_fd >= 0) {
        int rc = begin_sleep(eq);
        if (rc == 0) {
            *(int *)argument = eq->wait_fd;
        }
        return rc;
    }
    if (command == FI_GETWAITOBJ) {
        *(enum fi_wait_obj *)argument = eq->wait_fd >= 0 ? FI_WAIT_FD : FI_WAIT_NONE;
        return 0;
    }
    return -FI_ENOSYS;
}

static struct fi_ops eq_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = eq_close,
    .bind = prov_no_bind,
    .control = eq_control,
    .ops_open = prov_no_ops_open,
};

static struct fi_ops_eq eq_ops = {
    .size = sizeof(struct fi_ops_eq),
    .read = eq_read,
    .readerr = eq_readerr,
    .write = eq_write,
    .sread = eq_sread,
    .strerror = eq_strerror,
};

static int open_descriptors(struct prov_eq *eq)
{
    struct epoll_event event = {.events = EPOLLIN};
    eq->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    eq->wait_fd = epoll_create1(EPOLL_CLOEXEC);
    if (eq->wake_fd < 0 || eq->wait_fd < 0 ||
        epoll_ctl(eq->wait_fd, EPOLL_CTL_ADD, eq->wake_fd, &event) != 0) {
        int rc = -errno;
        close_descriptors(eq);
        return rc;
    }
    return 0;
}

int prov_eq_open(struct fid_fabric *fid, struct fi_eq_attr *attributes, struct fid_eq **out, void *context)
{
    enum fi_wait_obj wait = attributes != NULL ? attributes->wait_obj : FI_WAIT_UNSPEC;
    if (wait != FI_WAIT_NONE && wait != FI_WAIT_UNSPEC && wait != FI_WAIT_FD) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_EQ, "event queues wait by FI_WAIT_FD, not by %d\n", (int)wait);
        return -FI_ENOSYS;
    }
    struct prov_eq *eq = calloc(1, sizeof(*eq));
    if (eq == NULL) {
        return -FI_ENOMEM;
    }
    eq->wake_fd = -1;
    eq->wait_fd = -1;
    int rc = wait != FI_WAIT_NONE ? open_descriptors(eq) : 0;
    if (rc != 0) {
        free(eq);
        return rc;
    }
    list_init(&eq->events);
    eq->fabric = container_of(fid, struct prov_fabric, fid);
    eq->fid.fid.fclass = FI_CLASS_EQ;
    eq->fid.fid.context = context;
    eq->fid.fid.ops = &eq_fid_ops;
    eq->fid.ops = &eq_ops;
    prov_nic_lock(eq->fabric->nic);
    eq->fabric->users++;
    prov_nic_unlock(eq->fabric->nic);
    *out = &eq->fid;
    return 0;
}
