/* SPDX-License-Identifier: MIT */
/* Walks: our own search among other processes. */
#include <errno.h>
#include <string.h>

#include "backends/loopback/loopback_rendezvous.h"
#include "core/log.h"
#include "os/os_atomic.h"

enum {
    ASK_MS = 100, /* to get a first answer, before asking elsewhere */
    FIRST_RETRY_MS = 1,
    LAST_RETRY_MS = 16
};

void vipl_lo_walk_hang_up(struct lo_walk *walk)
{
    if (walk->source.fd >= 0) {
        vipl_pollset_remove(&walk->remote->set, walk->source.fd);
        vipl_fd_close(walk->source.fd);
        walk->source.fd = -1;
    }
    walk->state = WALK_SEEKING;
}

static void walk_later(struct lo_walk *walk)
{
    vipl_lo_walk_hang_up(walk);
    walk->place = 0;
    walk->next_try = vipl_lo_in_ms(walk->retry_ms);
    walk->retry_ms = walk->retry_ms * 2 > LAST_RETRY_MS ? LAST_RETRY_MS : walk->retry_ms * 2;
}

static bool say_hello(struct lo_walk *walk)
{
    struct lo_request *request = walk->request;
    uint8_t bytes[LO_PACKET];
    struct lo_hello hello = {
        .peer = request->peer,
        .id = walk->id,
        .probe_address = (uint64_t)(uintptr_t)vipl_lo_probe(),
        .probe_value = *vipl_lo_probe(),
        .tag = vipl_up_vi_tag(request->vi),
        .facts = request->facts,
        .local = request->local,
        .remote = request->remote,
    };
    vipl_lo_hello_identify(&hello);
    memcpy(hello.process, vipl_lo_process_uid, LO_UID);
    memcpy(hello.nic, walk->remote->uid, LO_UID);
    int window = vipl_lo_own_window(walk->remote->be);
    return vipl_local_send(walk->source.fd, bytes, vipl_lo_hello_write(&hello, bytes), &window, 1) == 0;
}

/* Connects to the next place where somebody is, and asks there. */
static void walk_on(struct lo_walk *walk)
{
    char name[96];
    char kind = walk->request->peer ? 'p' : 'w';
    uint64_t hash = vipl_lo_hash_of(&walk->request->remote);
    vipl_lo_walk_hang_up(walk);
    while (walk->place < LO_PLACES) {
        size_t n = vipl_lo_name_of(name, kind, hash, walk->place++);
        if (vipl_local_connect(name, n, &walk->source.fd) != 0) {
            walk->source.fd = -1;
            continue;
        }
        if (vipl_pollset_add(&walk->remote->set, walk->source.fd, &walk->source) == 0 && say_hello(walk)) {
            walk->state = WALK_ASKED;
            walk->next_try = vipl_lo_in_ms(ASK_MS);
            return;
        }
        vipl_lo_walk_hang_up(walk);
    }
    walk_later(walk);
}

VIP_RETURN vipl_lo_walk_begin(struct lo_request *request)
{
    struct lo_remote *remote = vipl_lo_prepare(request->nic);
    struct lo_walk *walk = remote == NULL ? NULL : vipl_zalloc(sizeof(*walk));
    if (walk == NULL || vipl_entropy(&walk->id, sizeof(walk->id)) != 0) {
        vipl_free(walk);
        return VIP_ERROR_RESOURCE;
    }
    walk->source.kind = LO_SOURCE_WALK;
    walk->source.fd = -1;
    walk->remote = remote;
    walk->request = request;
    walk->retry_ms = FIRST_RETRY_MS;
    if (request->peer) {
        walk->listening = vipl_lo_open_listening(remote, 'p', vipl_lo_hash_of(&request->local));
        if (walk->listening == NULL) {
            vipl_free(walk);
            return VIP_ERROR_RESOURCE;
        }
    }
    vipl_list_append(&remote->walks, &walk->link);
    vipl_store_relaxed(&remote->walk_count, remote->walk_count + 1);
    request->walk = walk;
    walk_on(walk);
    vipl_up_wake(remote->be->core);
    return VIP_SUCCESS;
}

void vipl_lo_walk_end(struct lo_request *request)
{
    struct lo_walk *walk = request->walk;
    if (request->matched != NULL) {
        struct lo_call *call = request->matched;
        bool dead;
        if (!vipl_lo_call_is_opened(call, &dead)) {
            vipl_lo_session_forget(call->session);
        }
        vipl_lo_call_end(call);
    }
    if (walk == NULL) {
        return;
    }
    vipl_lo_walk_hang_up(walk);
    vipl_lo_close_listening(walk->remote, walk->listening);
    vipl_list_remove(&walk->link);
    vipl_store_relaxed(&walk->remote->walk_count, walk->remote->walk_count - 1);
    request->walk = NULL;
    vipl_free(walk);
}

bool vipl_lo_walk_is_queued(const struct lo_request *request)
{
    return (request->walk != NULL && request->walk->state == WALK_QUEUED) || request->matched != NULL;
}

/* The link of an acceptance: one we have, or a new one over the walk's socket. */
static struct lo_link *link_of(struct lo_walk *walk, const struct lo_answer *a, int fds[2])
{
    struct lo_remote *remote = walk->remote;
    if (!a->new_link) {
        return vipl_lo_link_by_id(remote, a->link);
    }
    struct lo_link *link =
        vipl_lo_link_attach(remote, walk->source.fd, fds[0], fds[1], a->link, a->slots, a->nic);
    if (link == NULL) {
        return NULL;
    }
    fds[0] = fds[1] = -1; /* the link's now, */
    walk->source.fd = -1; /* and so is this */
    bool reach = vipl_lo_can_reach(remote, link->pid, a->probe_address, a->probe_value);
    vipl_store_relaxed(&link->can_reach, reach ? 1 : 0);
    vipl_store_relaxed(&link->peer_can_reach, a->can_reach ? 1 : 0);
    return link;
}

static void on_acceptance(struct lo_walk *walk, const struct lo_answer *a, int fds[2])
{
    struct lo_request *request = walk->request;
    struct vipl_vi *vi = request->vi;
    struct lo_link *link = link_of(walk, a, fds);
    struct lo_session *session =
        link == NULL ? NULL : vipl_lo_session_open(link, vi, a->session, &a->facts, a->tag, NULL);
    bool opened = false;
    if (session != NULL) {
        struct lo_message open = {
            .type = LO_OPEN,
            .session = a->session,
            .total = session->number,
            .immediate = vipl_load_relaxed(&link->can_reach),
        };
        vipl_lo_session_begin(session);
        opened = vipl_lo_link_reply(link, &open);
        if (!opened) {
            vipl_lo_session_forget(session);
        }
    }
    vipl_lo_request_end(request);
    if (opened) {
        vipl_up_connected(vi, &a->facts);
    } else {
        vipl_up_connect_failed(vi, VIP_ERROR_RESOURCE);
    }
}

static void fail(struct lo_walk *walk, VIP_RETURN rc)
{
    struct vipl_vi *vi = walk->request->vi;
    vipl_lo_request_end(walk->request);
    vipl_up_connect_failed(vi, rc);
}

static void on_answer(struct lo_walk *walk, const struct lo_answer *a, int fds[2])
{
    switch (a->type) {
    case LO_ANSWER_QUEUED:
        walk->state = WALK_QUEUED;
        break;
    case LO_ANSWER_TAKEN:
        walk->request->taken = true;
        break;
    case LO_ANSWER_REJECT:
        fail(walk, VIP_REJECT);
        break;
    case LO_ANSWER_DISAGREE:
        fail(walk, a->code <= VIP_INTERRUPTED ? (VIP_RETURN)a->code : VIP_REJECT);
        break;
    case LO_ANSWER_ACCEPT:
        on_acceptance(walk, a, fds);
        break;
    case LO_ANSWER_REFUSED:
        vipl_log(VIPL_LOG_ERROR,
                 "another process refused us: its loopback has version %u or another byte order", a->code);
        walk_on(walk);
        break;
    default:
        walk_on(walk);
        break;
    }
}

void vipl_lo_walk_event(struct lo_walk *walk)
{
    uint8_t bytes[LO_PACKET];
    struct lo_answer a;
    size_t length = 0;
    int fds[2] = {-1, -1};
    int error = vipl_local_receive(walk->source.fd, bytes, sizeof(bytes), &length, fds);
    if (error == EAGAIN) {
        return;
    }
    if (error == 0 && length > 0 && vipl_lo_answer_read(&a, bytes, length)) {
        on_answer(walk, &a, fds);
    } else {
        walk->request->taken = false; /* whoever had it has gone */
        walk_on(walk);
    }
    vipl_fd_close(fds[0]);
    vipl_fd_close(fds[1]);
}

void vipl_lo_walks_tick(struct lo_remote *remote, uint64_t now, uint64_t *soonest)
{
    struct vipl_list *next;
    for (struct vipl_list *l = remote->walks.next; l != &remote->walks; l = next) {
        struct lo_walk *walk = VIPL_CONTAINER(l, struct lo_walk, link);
        next = l->next;
        if (walk->state == WALK_QUEUED || walk->request->matched != NULL) {
            continue;
        }
        if (now >= walk->next_try) {
            walk_on(walk);
        }
        *soonest = walk->next_try < *soonest ? walk->next_try : *soonest;
    }
}
