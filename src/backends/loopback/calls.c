/* SPDX-License-Identifier: MIT */
/* Calls: others who want to connect to us. */
#include <errno.h>
#include <string.h>

#include "backends/loopback/exports.h"
#include "backends/loopback/names.h"
#include "backends/loopback/tx.h"
#include "base/log.h"
#include "os/os_atomic.h"

enum {
    MOST_CALLS = 1024, /* unanswered, a NIC handle */
    HELLO_MS = 10000,  /* to say what one wants */
    OPEN_MS = 5000,    /* for a requester to take up an acceptance */
    LOOK_MS = 20,      /* between looks whether it is still there */
    GONE_MS = 200      /* to find what a caller that hung up had said before */
};

void vipl_lo_call_end(struct lo_call *call)
{
    struct lo_remote *remote = call->remote;
    if (call->conn != NULL) {
        lo_conn_of(call->conn)->call = NULL;
        vipl_up_conn_gone(call->conn);
    }
    if (call->request != NULL) {
        call->request->matched = NULL;
    }
    if (call->source.fd >= 0) {
        vipl_pollset_remove(&remote->set, call->source.fd);
        vipl_fd_close(call->source.fd);
    }
    vipl_fd_close(call->window_fd);
    vipl_fd_close(call->token_fd);
    vipl_list_remove(&call->link);
    remote->call_count--;
    vipl_free(call);
}

static void answer(struct lo_call *call, enum lo_answer_type type, uint8_t code)
{
    uint8_t bytes[LO_PACKET];
    struct lo_answer a = {.type = (uint8_t)type, .code = code};
    vipl_local_send(call->source.fd, bytes, vipl_lo_answer_write(&a, bytes), NULL,
                    0); /* a dead one hangs up */
}

void vipl_lo_call_begin(struct lo_remote *remote, int fd)
{
    int pid;
    uint32_t user;
    bool ours = vipl_local_peer(fd, &pid, &user) == 0 && user == vipl_local_user();
    struct lo_call *call = ours && remote->call_count < MOST_CALLS ? vipl_zalloc(sizeof(*call)) : NULL;
    if (call == NULL || vipl_pollset_add(&remote->set, fd, &call->source) != 0) {
        vipl_log(VIPL_LOG_INFO, "a call was not taken: %s", ours ? "too many" : "another user");
        vipl_free(call);
        vipl_fd_close(fd);
        return;
    }
    call->source.kind = LO_SOURCE_CALL;
    call->source.fd = fd;
    call->window_fd = -1;
    call->token_fd = -1;
    call->remote = remote;
    call->deadline = vipl_lo_in_ms(HELLO_MS);
    vipl_list_append(&remote->calls, &call->link);
    remote->call_count++;
}

bool vipl_lo_call_taken(struct lo_call *call)
{
    bool has_it = vipl_lo_token_take(call->token_fd);
    if (has_it && vipl_local_has_hung_up(call->source.fd)) { /* it was put in again after that, for another */
        vipl_lo_token_give_back(call->token_fd);
        has_it = false;
    }
    if (has_it) {
        call->taken = true;
        answer(call, LO_ANSWER_TAKEN, 0);
        return true;
    }
    lo_conn_of(call->conn)->call = NULL;
    call->conn = NULL;             /* core ends it */
    answer(call, LO_ANSWER_NO, 0); /* it may come again: for moments the requester has the token itself */
    vipl_lo_call_end(call);
    return false;
}

void vipl_lo_call_reject(struct lo_call *call)
{
    lo_conn_of(call->conn)->call = NULL;
    call->conn = NULL; /* core ends it */
    answer(call, LO_ANSWER_REJECT, 0);
    vipl_lo_call_end(call);
}

/* A link to the caller: the one there is, or a new one over the call's socket. */
static struct lo_link *link_for(struct lo_call *call, bool *is_new)
{
    struct lo_remote *remote = call->remote;
    struct lo_link *link = vipl_lo_link_by_uid(remote, call->hello.nic);
    *is_new = link == NULL;
    if (link == NULL) {
        link = vipl_lo_link_create(remote, call->source.fd, call->window_fd, call->hello.nic);
    }
    if (link != NULL && *is_new) {
        call->window_fd = -1; /* the link's now */
        bool reach = vipl_lo_can_reach(remote, link->pid, call->hello.probe_address, call->hello.probe_value);
        vipl_store_relaxed(&link->can_reach, reach ? 1 : 0);
    }
    return link;
}

static bool send_acceptance(struct lo_call *call, struct lo_link *link, bool is_new, struct vipl_vi *vi)
{
    struct lo_remote *remote = call->remote;
    uint8_t bytes[LO_PACKET];
    int fds[2] = {link->shm.fd, vipl_lo_own_window(remote->be)};
    struct lo_answer a = {
        .type = LO_ANSWER_ACCEPT,
        .new_link = is_new,
        .can_reach = vipl_load_relaxed(&link->can_reach) != 0,
        .link = link->id,
        .slots = link->out.count,
        .session = call->session->number,
        .tag = vipl_up_vi_tag(vi),
        .probe_value = *vipl_lo_probe(),
        .probe_address = (uint64_t)(uintptr_t)vipl_lo_probe(),
    };
    memcpy(a.nic, remote->uid, LO_UID);
    vipl_up_vi_params(vi, &a.params);
    int error = vipl_local_send(call->source.fd, bytes, vipl_lo_answer_write(&a, bytes), fds, is_new ? 2 : 0);
    if (is_new) {
        vipl_shm_close_fd(&link->shm);
        call->source.fd = -1; /* the link's now */
    }
    return error == 0;
}

/* Offers the VI to the caller. The session opens when the caller takes it up. */
static VIP_RETURN offer(struct lo_call *call, struct vipl_vi *vi)
{
    bool is_new;
    call->opened = false;
    struct lo_link *link = link_for(call, &is_new);
    if (link == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    call->session = vipl_lo_session_open(link, vi, 0, &call->hello.params, call->hello.tag, &call->opened);
    if (call->session == NULL) {
        if (is_new) {
            call->source.fd = -1;
        }
        return VIP_ERROR_RESOURCE;
    }
    call->state = CALL_ACCEPTING;
    call->deadline = vipl_lo_in_ms(OPEN_MS);
    if (!send_acceptance(call, link, is_new, vi)) {
        call->gone = true;
    }
    return VIP_SUCCESS;
}

/* Whether the caller took up the acceptance. If not, the session is still there, and *dead says whether its
 * link is. */
bool vipl_lo_call_is_opened(const struct lo_call *call, bool *dead)
{
    vipl_mutex_lock(&call->remote->rx);
    bool opened = call->opened;
    *dead = !opened && call->session->link->dead != 0;
    vipl_mutex_unlock(&call->remote->rx);
    return opened;
}

bool vipl_lo_call_is_open(const struct lo_request *request)
{
    bool dead;
    return request->matched != NULL && vipl_lo_call_is_opened(request->matched, &dead);
}

VIP_RETURN vipl_lo_call_accept(struct vipl_be_nic *be, struct lo_call *call, struct vipl_vi *vi)
{
    lo_conn_of(call->conn)->call = NULL;
    call->conn = NULL; /* core ends it, or keeps it for another try */
    VIP_RETURN rc = call->gone ? VIP_TIMEOUT : offer(call, vi);
    bool dead = false;
    bool open = false;
    bool hopeless = rc != VIP_SUCCESS;
    while (!hopeless && !(open = vipl_lo_call_is_opened(call, &dead))) {
        hopeless = dead || vipl_now_ns() >= call->deadline;
        if (!hopeless) {
            vipl_mutex_unlock(&vipl_lo_registry.lock);
            if (!vipl_up_await_connected(vi, LOOK_MS)) {
                return VIP_TIMEOUT;
            }
            vipl_mutex_lock(&vipl_lo_registry.lock);
        }
    }
    if (!open && call->session != NULL) {
        vipl_mutex_unlock(&vipl_lo_registry.lock);
        vipl_lo_remote_poll(be); /* its last word may be in the ring */
        vipl_mutex_lock(&vipl_lo_registry.lock);
        open = vipl_lo_call_is_opened(call, &dead);
    }
    if (!open) {
        rc = rc == VIP_SUCCESS ? VIP_TIMEOUT : rc;
        if (call->session != NULL) {
            vipl_lo_session_forget(call->session);
        }
    }
    vipl_lo_call_end(call);
    return rc;
}

/* Of two requests that ask each other at once the one with the smaller id is answered. */
static bool gives_way(const struct lo_request *request, uint64_t id)
{
    return request->walk == NULL || !vipl_lo_walk_asks(request->walk) || request->walk->id > id;
}

/* A symmetric request of ours that the caller asks for, and that is free to answer. */
static struct lo_request *find_peer_request(struct lo_call *call)
{
    for (struct vipl_list *l = vipl_lo_registry.requests.next; l != &vipl_lo_registry.requests; l = l->next) {
        struct lo_request *r = VIPL_CONTAINER(l, struct lo_request, link);
        if (r->peer && r->matched == NULL && r->nic == call->remote->be && gives_way(r, call->hello.id) &&
            vipl_lo_same_address(&r->local, &call->hello.remote) &&
            vipl_lo_same_address(&r->remote, &call->hello.local)) {
            return r;
        }
    }
    return NULL;
}

static bool answer_peer(struct lo_call *call)
{
    struct lo_request *request = find_peer_request(call);
    if (request == NULL) {
        return false;
    }
    VIP_RETURN rc = vipl_params_agree(&request->params, &call->hello.params);
    if (rc != VIP_SUCCESS) {
        struct vipl_vi *vi = request->vi;
        answer(call, LO_ANSWER_DISAGREE, (uint8_t)rc);
        vipl_lo_request_end(request);
        vipl_up_connect_failed(vi, rc);
        vipl_lo_call_end(call);
        return true;
    }
    if (request->walk != NULL) {
        vipl_lo_walk_hang_up(request->walk);
    }
    if (offer(call, request->vi) != VIP_SUCCESS) {
        return false;
    }
    request->matched = call;
    call->request = request;
    return true;
}

static void say_queued(struct lo_call *call, bool idle)
{
    call->idle = idle;
    answer(call, LO_ANSWER_QUEUED, idle ? LO_IDLE : 0);
}

/* Who has a place already is told no where it would wait in vain too. */
static bool queue_client(struct lo_call *call)
{
    struct lo_remote *remote = call->remote;
    const struct lo_listener *listener = vipl_lo_find_listener(remote->be, &call->hello.remote);
    bool idle = listener == NULL || listener->waiting == 0;
    if (listener != NULL && !(idle && call->hello.beside)) {
        call->conn = vipl_up_conn_arrived(remote->be->core, &call->hello.remote, &call->hello.local,
                                          &call->hello.params);
    }
    if (call->conn == NULL) {
        return false;
    }
    lo_conn_of(call->conn)->call = call;
    call->state = CALL_QUEUED;
    say_queued(call, idle);
    return true;
}

void vipl_lo_calls_idle(struct vipl_be_nic *be, const struct vipl_address *local)
{
    struct lo_remote *remote = vipl_load_ptr(&be->remote);
    if (remote == NULL) {
        return;
    }
    for (struct vipl_list *l = remote->calls.next; l != &remote->calls; l = l->next) {
        struct lo_call *call = VIPL_CONTAINER(l, struct lo_call, link);
        if (call->state == CALL_QUEUED && !call->taken && !call->idle &&
            vipl_lo_same_discriminator(&call->hello.remote, local)) {
            say_queued(call, true);
        }
    }
}

static void on_hello(struct lo_call *call)
{
    if (!vipl_lo_hello_fits(&call->hello)) {
        vipl_log(VIPL_LOG_INFO, "refused a process with version %u, byte order %u, %u-byte words",
                 call->hello.version, call->hello.byte_order, call->hello.word_bytes);
        answer(call, LO_ANSWER_REFUSED, LO_VERSION);
        vipl_lo_call_end(call);
        return;
    }
    bool own = memcmp(call->hello.process, vipl_lo_process_uid, LO_UID) == 0;
    bool taken = !own && (call->hello.peer ? answer_peer(call) : queue_client(call));
    if (!taken) {
        answer(call, LO_ANSWER_NO, 0);
        vipl_lo_call_end(call);
    }
}

void vipl_lo_call_event(struct lo_call *call, bool hangup)
{
    uint8_t bytes[LO_PACKET];
    size_t length = 0;
    int fds[2] = {-1, -1};
    int error = hangup ? 0 : vipl_local_receive(call->source.fd, bytes, sizeof(bytes), &length, fds);
    if (error == 0 && fds[0] >= 0) {
        vipl_fd_close(call->window_fd);
        call->window_fd = fds[0];
    }
    if (error == 0 && fds[1] >= 0) {
        vipl_fd_close(call->token_fd);
        call->token_fd = fds[1];
    }
    if (error == EAGAIN) {
        return;
    }
    if (error != 0 || length == 0) { /* gone; the one who is accepting it finds out by the mark */
        if (call->state == CALL_ACCEPTING) {
            call->gone = true;
            call->deadline = vipl_lo_in_ms(GONE_MS); /* its last word may still be in the ring */
            vipl_pollset_remove(&call->remote->set, call->source.fd);
        } else {
            vipl_lo_call_end(call);
        }
        return;
    }
    if (call->state == CALL_NEW && vipl_lo_hello_read(&call->hello, bytes, length)) {
        on_hello(call);
    } else {
        vipl_lo_call_end(call); /* speaks another language, or out of turn */
    }
}

static void check_matched(struct lo_call *call, uint64_t now)
{
    bool dead = false;
    if (vipl_lo_call_is_opened(call, &dead)) {
        vipl_lo_request_end(call->request); /* with the call */
    } else if (dead || now >= call->deadline) {
        vipl_lo_session_forget(call->session);
        call->session = NULL;
        vipl_lo_call_end(call); /* the request goes on seeking */
    }
}

void vipl_lo_calls_tick(struct lo_remote *remote, uint64_t now, uint64_t *soonest)
{
    struct vipl_list *next;
    for (struct vipl_list *l = remote->calls.next; l != &remote->calls; l = next) {
        struct lo_call *call = VIPL_CONTAINER(l, struct lo_call, link);
        next = l->next;
        if (call->state == CALL_ACCEPTING && call->request != NULL) {
            *soonest = call->deadline < *soonest ? call->deadline : *soonest;
            check_matched(call, now);
        } else if (call->state == CALL_NEW && now >= call->deadline) {
            vipl_lo_call_end(call);
        } else if (call->state == CALL_NEW) {
            *soonest = call->deadline < *soonest ? call->deadline : *soonest;
        }
    }
}
