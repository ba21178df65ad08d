/* SPDX-License-Identifier: MIT */
/*
 * Links between datagram endpoints, and the thread that watches for news of them. A link that has
 * ended stays until its endpoint is closed: completions of what it carried are the program's to
 * read. A message to a peer whose link has ended makes a new one; where the peer has not accepted
 * the link, the next message asks again.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "rdm.h"

/* --- receives --- */

void rdm_link_post(struct rdm_link *link, struct prov_op *op)
{
    struct prov_ep *ep = link->ep;
    VIP_DESCRIPTOR_SEGMENT *segment = prov_op_begin(op, PROV_OP_RECV, VIP_CONTROL_OP_SENDRECV);
    segment->Local.Data.AddressBits = (uintptr_t)op->of;
    segment->Local.Handle = link->buffers_handle;
    segment->Local.Length = (VIP_UINT32)link->buffer_bytes;
    op->descriptor.CS.SegCount = 1;
    if (VipPostRecv(ep->vi, &op->descriptor, ep->pool_handle) == VIP_SUCCESS) {
        ep->posted++;
    } else {
        prov_op_give(op); /* the connection has ended */
    }
}

static int post_all(struct rdm_link *link)
{
    struct prov_ep *ep = link->ep;
    VIP_MEM_ATTRIBUTES rights = {.Ptag = ep->domain->ptag};
    void *memory = NULL;
    size_t bytes = RDM_RECEIVES * link->buffer_bytes;
    if (posix_memalign(&memory, 4096, bytes) != 0) {
        return -FI_ENOMEM;
    }
    link->buffers = memory;
    int rc = prov_error(VipRegisterMem(ep->nic->handle, memory, bytes, &rights, &link->buffers_handle));
    prov_nic_lock(ep->nic);
    for (size_t i = 0; i < RDM_RECEIVES && rc == 0; i++) {
        struct prov_op *op = prov_op_take(&ep->rx_free);
        op->of = link->buffers + i * link->buffer_bytes;
        rdm_link_post(link, op);
    }
    prov_nic_unlock(ep->nic);
    return rc;
}

/* --- what links carry --- */

void rdm_link_refuse(struct rdm_link *link, const char *what)
{
    PROV_LOG(FI_LOG_WARN, FI_LOG_EP_DATA, "a peer's link ends: %s\n", what);
    link->refused = true;
    prov_ep_gone(link->ep);
}

void rdm_link_received(struct rdm_link *link, struct prov_op *op)
{
    struct rdm_head head;
    const uint8_t *bytes = op->of;
    if (op->entry.error != 0 || link->refused) {
        rdm_parts_abandon(link);
        prov_op_give(op);
        return;
    }
    size_t at = rdm_head_read(bytes, op->descriptor.CS.Length, &head);
    if (at == 0 || link->outgoing != (head.kind == RDM_DONE)) {
        rdm_link_refuse(link, "what came is not a message");
    } else if (head.kind != RDM_DONE) {
        if (!rdm_arrived(link, &head, bytes + at, op->descriptor.CS.Length - at)) {
            rdm_link_refuse(link, "what came is not the rest of a message, or behind one without its rest");
        }
    } else if (!rdm_offer_done(link, head.id)) {
        rdm_link_refuse(link, "what was not offered has been read");
    }
    rdm_link_post(link, op); /* which fails once the connection has ended */
}

void rdm_link_await(struct rdm_link *link)
{
    if (!link->ep->reports_sends) {
        prov_cq_await(link->owner->queues.rx, link->ep);
    }
}

void rdm_link_done(struct rdm_link *link, struct prov_op *op)
{
    bool awaited = op->kind == PROV_OP_READ || (op->kind != PROV_OP_NOTE && op->wanted);
    if (awaited && !link->ep->reports_sends) {
        prov_cq_awaits_less(link->owner->queues.rx, link->ep);
    }
    if (op->kind == PROV_OP_READ) {
        rdm_read_done(op);
    } else {
        rdm_sent(link, op);
    }
    if (!list_is_alone(&link->reads)) {
        rdm_reads_continue(link);
    }
}

void rdm_link_forget(struct rdm_link *link)
{
    if (link->owner->queues.tx != NULL) {
        prov_cq_forget(link->owner->queues.tx, link->ep);
    }
}

/* --- making links --- */

static struct rdm_link *new_link(struct rdm_ep *owner, bool outgoing)
{
    struct rdm_link *link = calloc(1, sizeof(*link));
    if (link != NULL) {
        link->owner = owner;
        link->outgoing = outgoing;
        link->source = FI_ADDR_NOTAVAIL;
        link->buffer_bytes = outgoing ? RDM_ANSWER_BYTES : RDM_BUFFER_BYTES;
        list_init(&link->of_ep);
        list_init(&link->offers);
        list_init(&link->reads);
    }
    return link;
}

static void free_link(struct rdm_link *link)
{
    if (link->buffers_handle != 0) {
        (void)VipDeregisterMem(link->owner->nic->handle, link->buffers, link->buffers_handle);
    }
    free(link->buffers);
    free(link);
}

/* Opens the connected endpoint of a link. All its completions come by the queue of the receives. */
static int open_link(struct rdm_link *link, struct fi_info *info)
{
    struct rdm_ep *owner = link->owner;
    struct fid_ep *fid = NULL;
    int rc = prov_ep_open(&owner->domain->fid, info, &fid, NULL);
    if (rc != 0) {
        return rc;
    }
    link->ep = prov_ep_of(fid);
    link->ep->rdm = link;
    link->ep->reports_sends = owner->queues.rx->wait != FI_WAIT_NONE;
    rc = fi_ep_bind(fid, &owner->eq->fid, 0);
    if (rc == 0) {
        rc = fi_ep_bind(fid, &owner->queues.rx->fid.fid, FI_TRANSMIT | FI_RECV);
    }
    if (rc == 0) {
        rc = fi_enable(fid);
    }
    if (rc == 0) {
        rc = post_all(link);
    }
    if (rc != 0) {
        (void)fi_close(&fid->fid);
    }
    return rc;
}

/* Locked. The link is not connected, or no longer: what it had to carry completes with errors. */
static void stop_link(struct rdm_link *link)
{
    link->connects = false;
    prov_cancel_waiting(link->ep);
    rdm_offers_cancel(link);
}

/* Not locked. Connects to a peer; what is sent meanwhile waits for credit. */
static int connect_link(struct rdm_link *link)
{
    struct rdm_ep *owner = link->owner;
    struct sockaddr_storage to = {.ss_family = AF_UNSPEC}, own = to;
    size_t to_bytes = sizeof(to), own_bytes = sizeof(own);
    uint8_t name[RDM_NAME_BYTES];
    int rc = prov_address_copy(owner->nic, link->peer.host, link->peer.port, &to, &to_bytes);
    if (rc == 0) {
        rc = fi_getname(&owner->pep->fid, &own, &own_bytes);
    }
    rc = rc == 0 ? fi_connect(&link->ep->fid, &to, name, rdm_name_write(&own, name)) : rc;
    if (rc != 0) {
        prov_nic_lock(owner->nic);
        stop_link(link); /* another thread may have sent meanwhile */
        prov_nic_unlock(owner->nic);
    }
    return rc;
}

/* Locked. The link to a peer; NULL: there is none. */
static struct rdm_link *find_link(const struct rdm_ep *ep, fi_addr_t to)
{
    return to < ep->to_count ? ep->to[to] : NULL;
}

/* Locked. Room for the link to a peer. */
static bool make_room(struct rdm_ep *ep, fi_addr_t to)
{
    if (to < ep->to_count) {
        return true;
    }
    size_t count = ep->av->room;
    struct rdm_link **more = realloc(ep->to, count * sizeof(struct rdm_link *));
    if (more == NULL) {
        return false;
    }
    for (size_t i = ep->to_count; i < count; i++) {
        more[i] = NULL;
    }
    ep->to = more;
    ep->to_count = count;
    return true;
}

/* Not locked. Makes the link to a peer, unless another thread has; it does not connect yet. */
static int make_link(struct rdm_ep *ep, fi_addr_t to, const struct rdm_address *peer)
{
    struct rdm_link *link = new_link(ep, true);
    int rc = link != NULL ? open_link(link, ep->link_info) : -FI_ENOMEM;
    if (rc != 0) {
        if (link != NULL) {
            free_link(link);
        }
        return rc;
    }
    link->peer = *peer;
    prov_nic_lock(ep->nic);
    bool is_first = find_link(ep, to) == NULL && make_room(ep, to);
    if (is_first) {
        ep->to[to] = link;
        list_append(&ep->links, &link->of_ep);
    }
    prov_nic_unlock(ep->nic);
    if (!is_first) {
        (void)fi_close(&link->ep->fid.fid);
        free_link(link);
    }
    return 0;
}

struct rdm_link *rdm_link_to(struct rdm_ep *ep, fi_addr_t to, int *rc)
{
    *rc = to < ep->av->count && ep->av->addresses[to].used ? 0 : -FI_EINVAL;
    if (*rc != 0) {
        return NULL;
    }
    struct rdm_link *link = find_link(ep, to);
    if (link != NULL && link->ep->state == PROV_GONE) {
        *rc = -FI_EAGAIN; /* which rdm_progress() is about to see */
        return NULL;
    }
    if (link != NULL && link->connects) {
        return link;
    }
    if (link == NULL) {
        const struct rdm_address peer = ep->av->addresses[to];
        prov_nic_unlock(ep->nic);
        *rc = make_link(ep, to, &peer);
        prov_nic_lock(ep->nic);
        link = find_link(ep, to);
    }
    if (*rc == 0 && link != NULL && !link->connects) {
        link->connects = true; /* what another thread sends waits from now on */
        prov_nic_unlock(ep->nic);
        *rc = connect_link(link);
        prov_nic_lock(ep->nic);
    }
    if (*rc == 0 && (link == NULL || !link->connects)) {
        *rc = -FI_EAGAIN; /* it has ended meanwhile */
    }
    return *rc == 0 ? link : NULL;
}

void rdm_links_resolve(struct rdm_ep *ep)
{
    for (struct list *one = ep->links.next; one != &ep->links; one = one->next) {
        struct rdm_link *link = container_of(one, struct rdm_link, of_ep);
        if (!link->outgoing && link->source == FI_ADDR_NOTAVAIL) {
            link->source = rdm_av_find(ep->av, &link->peer);
        }
    }
}

/* --- the links' news --- */

/* Accepts a link; the request's private data is the peer's address. */
static void accept_link(struct rdm_ep *ep, struct fi_info *info, const uint8_t *name, size_t bytes)
{
    struct rdm_link *link = new_link(ep, false);
    struct sockaddr_storage from;
    size_t from_bytes = rdm_name_read(name, bytes, &from);
    int rc = link != NULL ? prov_address_read(ep->nic, &from, from_bytes, link->peer.host, &link->peer.port)
                          : -FI_ENOMEM;
    if (rc == 0) {
        rc = open_link(link, info);
    }
    if (rc != 0) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_EP_CTRL, "a peer's link is refused: %s\n", fi_strerror(-rc));
        (void)fi_reject(ep->pep, info->handle, NULL, 0);
        if (link != NULL) {
            free_link(link);
        }
        return;
    }
    prov_nic_lock(ep->nic);
    link->source = rdm_av_find(ep->av, &link->peer);
    list_append(&ep->links, &link->of_ep);
    prov_nic_unlock(ep->nic);
    (void)fi_accept(&link->ep->fid, NULL, 0);
}

/* Locked. The link of a connected endpoint; NULL: it is of none. */
static struct rdm_link *link_of(const struct rdm_ep *ep, const struct fid *fid)
{
    for (struct list *one = ep->links.next; one != &ep->links; one = one->next) {
        struct rdm_link *link = container_of(one, struct rdm_link, of_ep);
        if (&link->ep->fid.fid == fid) {
            return link;
        }
    }
    return NULL;
}

/* A link has ended, or has not been made. What it carried completes with errors. */
static void end_link(struct rdm_ep *ep, const struct fid *fid)
{
    prov_nic_lock(ep->nic);
    struct rdm_link *link = link_of(ep, fid);
    bool ends = link != NULL && link->ep->state == PROV_GONE;
    if (link != NULL) {
        stop_link(link);
    }
    if (ends) {
        for (size_t i = 0; i < ep->to_count; i++) {
            ep->to[i] = ep->to[i] == link ? NULL : ep->to[i];
        }
    }
    prov_nic_unlock(ep->nic);
    if (ends) {
        (void)VipDisconnect(link->ep->vi); /* what was posted is complete now */
    }
}

static void link_is_made(struct rdm_ep *ep, const struct fid *fid)
{
    prov_nic_lock(ep->nic);
    struct rdm_link *link = link_of(ep, fid);
    if (link != NULL) {
        prov_push_ep(link->ep);
    }
    prov_nic_unlock(ep->nic);
}

/* Handles one event; false: there is none. */
static bool handle_event(struct rdm_ep *ep)
{
    union {
        struct fi_eq_cm_entry entry;
        uint8_t bytes[sizeof(struct fi_eq_cm_entry) + PROV_CM_DATA];
    } event;
    uint32_t type = 0;
    ssize_t got = fi_eq_read(ep->eq, &type, &event, sizeof(event), 0);
    if (got == -FI_EAVAIL) {
        struct fi_eq_err_entry error = {.err_data_size = 0};
        if (fi_eq_readerr(ep->eq, &error, 0) > 0) {
            PROV_LOG(FI_LOG_WARN, FI_LOG_EP_CTRL, "a link is not made: %s\n", fi_strerror(error.err));
            end_link(ep, error.fid);
        }
        return true;
    }
    if (got < 0) {
        return false;
    }
    size_t head = offsetof(struct fi_eq_cm_entry, data);
    switch (type) {
    case FI_CONNREQ:
        accept_link(ep, event.entry.info, event.bytes + head, (size_t)got - head);
        prov_info_free(event.entry.info);
        break;
    case FI_CONNECTED:
        link_is_made(ep, event.entry.fid);
        break;
    case FI_SHUTDOWN:
        end_link(ep, event.entry.fid);
        break;
    default: /* that the watch is to end */
        break;
    }
    return true;
}

/* Locked. Completion queues handle the news, or have handled it. */
static void set_events(struct rdm_ep *ep, bool has)
{
    struct prov_cq *const queues[] = {ep->queues.tx, ep->queues.rx};
    prov_set(&ep->has_events, has);
    for (size_t i = 0; i < 2; i++) {
        bool any = false;
        for (size_t k = 0; k < PROV_CQ_DATAGRAMS; k++) {
            any = any || (queues[i]->datagrams[k] != NULL && queues[i]->datagrams[k]->has_events);
        }
        prov_set(&queues[i]->has_events, any);
        prov_cq_update_wake(queues[i]);
    }
}

/* Not locked. Another thread may be at it: then this one goes on. */
static void handle_events(struct rdm_ep *ep)
{
    if (pthread_mutex_trylock(&ep->events) != 0) {
        return;
    }
    while (handle_event(ep)) {
    }
    if (rdm_may_sleep(ep)) {
        prov_nic_lock(ep->nic);
        set_events(ep, false);
        (void)pthread_cond_signal(&ep->watch_goes_on);
        prov_nic_unlock(ep->nic);
    }
    (void)pthread_mutex_unlock(&ep->events);
}

void rdm_progress(struct prov_cq *cq)
{
    for (size_t i = 0; i < PROV_CQ_DATAGRAMS; i++) {
        if (cq->datagrams[i] != NULL && (cq->looks || prov_is(&cq->datagrams[i]->has_events))) {
            handle_events(cq->datagrams[i]);
        }
    }
}

/* --- the watch --- */

/* Waits for news, and until it is handled; false: the watch is to end. */
static bool watch_once(struct rdm_ep *ep, int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    (void)poll(&one, 1, -1);
    prov_nic_lock(ep->nic);
    if ((one.revents & POLLIN) != 0 && !ep->watch_ends) {
        set_events(ep, true);
        while (ep->has_events && !ep->watch_ends) {
            (void)pthread_cond_wait(&ep->watch_goes_on, &ep->nic->lock);
        }
    }
    bool ends = ep->watch_ends;
    prov_nic_unlock(ep->nic);
    return !ends;
}

static void *watch_run(void *argument)
{
    struct rdm_ep *ep = argument;
    int fd = -1;
    if (fi_control(&ep->eq->fid, FI_GETWAIT, &fd) == 0) {
        while (watch_once(ep, fd)) {
        }
    }
    return NULL;
}

int rdm_watch_start(struct rdm_ep *ep)
{
    int rc = ep->listens ? 0 : fi_listen(ep->pep);
    if (rc != 0) {
        return rc;
    }
    ep->listens = true;
    if (!rdm_may_sleep(ep)) {
        return 0;
    }
    rc = prov_thread_start(&ep->watch, watch_run, ep);
    ep->has_watch = rc == 0;
    return rc;
}

void rdm_watch_stop(struct rdm_ep *ep)
{
    const uint8_t nothing = 0;
    if (!ep->has_watch) {
        return;
    }
    prov_nic_lock(ep->nic);
    ep->watch_ends = true;
    (void)pthread_cond_signal(&ep->watch_goes_on);
    prov_nic_unlock(ep->nic);
    while (fi_eq_write(ep->eq, FI_NOTIFY, &nothing, sizeof(nothing), 0) < 0) { /* ends its poll() */
        (void)poll(NULL, 0, 1); /* there is no memory for the event */
    }
    (void)pthread_join(ep->watch, NULL);
    ep->has_watch = false;
}

void rdm_links_close(struct rdm_ep *ep)
{
    while (!list_is_alone(&ep->links)) {
        prov_nic_lock(ep->nic);
        struct rdm_link *link = container_of(list_pop(&ep->links), struct rdm_link, of_ep);
        link->connects = false;
        rdm_offers_cancel(link);
        rdm_parts_abandon(link);
        prov_nic_unlock(ep->nic);
        (void)fi_close(&link->ep->fid.fid);
        free_link(link);
    }
}
