/* SPDX-License-Identifier: MIT */
/*
 * Finding each other between processes. A discriminator hashes to a name; whoever waits for it binds the
 * first free of a few numbered sockets of that name, whoever looks for it walks all of them, again
 * and again, until its time is up. No daemon, nothing on disk, nothing left behind.
 *
 * A call is a connection somebody made to one of our sockets; a walk is our own search. The socket
 * over which a connection comes about becomes the link's, if the two NIC handles have none yet.
 * Everything runs under the registry's lock.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backends/loopback/loopback_hello.h"
#include "backends/loopback/loopback_remote.h"
#include "core/log.h"
#include "os/os_atomic.h"

enum {
    PLACES = 16,       /* sockets of one name: processes that wait for one discriminator */
    MOST_CALLS = 1024, /* unanswered, a NIC handle */
    HELLO_MS = 10000,  /* to say what one wants */
    ASK_MS = 100,      /* to get a first answer, before asking elsewhere */
    OPEN_MS = 5000,    /* for a requester to take up an acceptance */
    LOOK_MS = 20,      /* between looks whether it is still there */
    GONE_MS = 200,     /* to find what a caller that hung up had said before */
    FIRST_RETRY_MS = 1,
    LAST_RETRY_MS = 16,
    NS_PER_MS = 1000000
};

struct lo_listening {
    struct lo_source source;
    struct vipl_list link; /* remote->sockets */
    uint64_t hash;
    char kind;      /* 'w' for VipConnectWait(), 'p' for symmetric requests */
    uint32_t users; /* listeners, or walks, that need it */
};

enum call_state { CALL_NEW, CALL_QUEUED, CALL_ACCEPTING };

struct lo_call {
    struct lo_source source;
    struct vipl_list link; /* remote->calls */
    struct lo_remote *remote;
    enum call_state state;
    uint64_t deadline;
    struct lo_hello hello;
    struct vipl_conn *conn;     /* where it waits */
    struct lo_request *request; /* symmetric: what it met */
    struct lo_session *session; /* what came of it */
    bool opened;                /* the caller took it up; the session may be over again. rx */
    int window_fd;              /* of the caller's registered memory; -1: none, or the link has it */
    bool gone;                  /* the caller hung up */
};

enum walk_state { WALK_SEEKING, WALK_ASKED, WALK_QUEUED };

struct lo_walk {
    struct lo_source source;
    struct vipl_list link; /* remote->walks */
    struct lo_remote *remote;
    struct lo_request *request;
    struct lo_listening *listening; /* symmetric: where others find us */
    enum walk_state state;
    unsigned place;
    uint64_t id;
    uint64_t next_try; /* also: when to stop waiting for a first answer */
    uint32_t retry_ms;
};

uint8_t vipl_lo_process_uid[LO_UID];
static uint32_t probe_word; /* what a peer has to be able to read; constant once set */

static struct lo_remote *prepare(struct vipl_be_nic *be)
{
    static const uint8_t none[LO_UID] = {0};
    struct lo_remote *remote = vipl_lo_remote_get(be);
    if (remote != NULL && memcmp(vipl_lo_process_uid, none, LO_UID) == 0 &&
        (vipl_entropy(&probe_word, sizeof(probe_word)) != 0 ||
         vipl_entropy(vipl_lo_process_uid, sizeof(vipl_lo_process_uid)) != 0)) {
        return NULL;
    }
    return remote;
}

void vipl_lo_rendezvous_abandon(void)
{
    memset(vipl_lo_process_uid, 0, sizeof(vipl_lo_process_uid)); /* a forked child is another process */
}

static uint64_t in_ms(uint32_t ms)
{
    return vipl_now_ns() + (uint64_t)ms * NS_PER_MS;
}

/* --- names and sockets --- */

static uint64_t hash_of(const struct vipl_address *address)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (unsigned i = 0; i < address->disc_len; i++) {
        h = (h ^ address->disc[i]) * 0x100000001b3u;
    }
    return h;
}

static size_t name_of(char name[96], char kind, uint64_t hash, unsigned place)
{
    return (size_t)snprintf(name, 96, "vipl/loopback/%u/%c%016llx/%u", (unsigned)vipl_local_user(), kind,
                            (unsigned long long)hash, place);
}

static struct lo_listening *find_listening(struct lo_remote *remote, char kind, uint64_t hash)
{
    for (struct vipl_list *l = remote->sockets.next; l != &remote->sockets; l = l->next) {
        struct lo_listening *s = VIPL_CONTAINER(l, struct lo_listening, link);
        if (s->kind == kind && s->hash == hash) {
            return s;
        }
    }
    return NULL;
}

static int bind_somewhere(char kind, uint64_t hash, int *fd)
{
    char name[96];
    int error = EADDRINUSE;
    for (unsigned place = 0; place < PLACES && error == EADDRINUSE; place++) {
        error = vipl_local_listen(name, name_of(name, kind, hash, place), fd);
    }
    return error;
}

static struct lo_listening *open_listening(struct lo_remote *remote, char kind, uint64_t hash)
{
    struct lo_listening *s = find_listening(remote, kind, hash);
    if (s != NULL) {
        s->users++;
        return s;
    }
    s = vipl_zalloc(sizeof(*s));
    if (s == NULL) {
        return NULL;
    }
    s->source.kind = LO_SOURCE_LISTENER;
    s->kind = kind;
    s->hash = hash;
    s->users = 1;
    int error = bind_somewhere(kind, hash, &s->source.fd);
    if (error == 0) {
        error = vipl_pollset_add(&remote->set, s->source.fd, &s->source);
        if (error != 0) {
            vipl_fd_close(s->source.fd);
        }
    }
    if (error != 0) {
        vipl_log_os("listening for other processes", error);
        vipl_free(s);
        return NULL;
    }
    vipl_list_append(&remote->sockets, &s->link);
    vipl_up_wake(remote->be->core); /* a sleeper may not know the poll set yet */
    return s;
}

static void close_listening(struct lo_remote *remote, struct lo_listening *s)
{
    if (s == NULL || --s->users > 0) {
        return;
    }
    vipl_list_remove(&s->link);
    vipl_pollset_remove(&remote->set, s->source.fd);
    vipl_fd_close(s->source.fd);
    vipl_free(s);
}

VIP_RETURN vipl_lo_remote_listen(struct vipl_be_nic *be, const struct vipl_address *local)
{
    struct lo_remote *remote = prepare(be);
    if (remote == NULL || open_listening(remote, 'w', hash_of(local)) == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    return VIP_SUCCESS;
}

void vipl_lo_remote_unlisten(struct vipl_be_nic *be, const struct vipl_address *local)
{
    struct lo_remote *remote = vipl_load_ptr(&be->remote);
    close_listening(remote, find_listening(remote, 'w', hash_of(local)));
}

/* --- reaching into each other's memory --- */

static bool can_reach(const struct lo_remote *remote, int pid, uint64_t address, uint32_t value)
{
    uint32_t seen = 0;
    struct vipl_iov local = {&seen, sizeof(seen)};
    struct vipl_iov there = {(void *)(uintptr_t)address, sizeof(seen)};
    if (remote->be->settings_pull == LO_PULL_OFF) {
        return false;
    }
    int error = vipl_peer_read(pid, &local, 1, &there, 1, sizeof(seen));
    if (error != 0 && remote->be->settings_pull == LO_PULL_ON) {
        vipl_log_os("VIPL_LOOPBACK_PULL=on, but the peer's memory is out of reach", error);
    }
    return error == 0 && seen == value;
}

/* --- calls: others who want to connect to us --- */

static void call_end(struct lo_call *call)
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

static void call_begin(struct lo_remote *remote, int fd)
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
    call->remote = remote;
    call->deadline = vipl_now_ns() + (uint64_t)HELLO_MS * NS_PER_MS;
    vipl_list_append(&remote->calls, &call->link);
    remote->call_count++;
}

void vipl_lo_call_taken(struct lo_call *call)
{
    answer(call, LO_ANSWER_TAKEN, 0);
}

void vipl_lo_call_reject(struct lo_call *call)
{
    lo_conn_of(call->conn)->call = NULL;
    call->conn = NULL; /* core ends it */
    answer(call, LO_ANSWER_REJECT, 0);
    call_end(call);
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
        bool reach = can_reach(remote, link->pid, call->hello.probe_address, call->hello.probe_value);
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
        .probe_value = probe_word,
        .probe_address = (uint64_t)(uintptr_t)&probe_word,
    };
    memcpy(a.nic, remote->uid, LO_UID);
    vipl_up_vi_facts(vi, &a.facts);
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
    call->session = vipl_lo_session_open(link, vi, 0, &call->hello.facts, call->hello.tag, &call->opened);
    if (call->session == NULL) {
        if (is_new) {
            call->source.fd = -1;
        }
        return VIP_ERROR_RESOURCE;
    }
    call->state = CALL_ACCEPTING;
    call->deadline = vipl_now_ns() + (uint64_t)OPEN_MS * NS_PER_MS;
    if (!send_acceptance(call, link, is_new, vi)) {
        call->gone = true;
    }
    return VIP_SUCCESS;
}

/* Whether the caller took up the acceptance. If not, the session is still there, and *dead says whether its
 * link is. */
static bool is_opened(const struct lo_call *call, bool *dead)
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
    return request->matched != NULL && is_opened(request->matched, &dead);
}

VIP_RETURN vipl_lo_call_accept(struct vipl_be_nic *be, struct lo_call *call, struct vipl_vi *vi)
{
    lo_conn_of(call->conn)->call = NULL;
    call->conn = NULL; /* core ends it, or keeps it for another try */
    VIP_RETURN rc = call->gone ? VIP_TIMEOUT : offer(call, vi);
    bool dead = false;
    bool open = false;
    bool hopeless = rc != VIP_SUCCESS;
    while (!hopeless && !(open = is_opened(call, &dead))) {
        hopeless = dead || vipl_now_ns() >= call->deadline;
        if (!hopeless) {
            vipl_mutex_unlock(&vipl_lo_registry.lock);
            vipl_up_await_connected(vi, LOOK_MS);
            vipl_mutex_lock(&vipl_lo_registry.lock);
        }
    }
    if (!open && call->session != NULL) {
        vipl_mutex_unlock(&vipl_lo_registry.lock);
        vipl_lo_remote_poll(be); /* its last word may be in the ring */
        vipl_mutex_lock(&vipl_lo_registry.lock);
        open = is_opened(call, &dead);
    }
    if (!open) {
        rc = rc == VIP_SUCCESS ? VIP_TIMEOUT : rc;
        if (call->session != NULL) {
            vipl_lo_session_forget(call->session);
        }
    }
    call_end(call);
    return rc;
}

/* Of two requests that ask each other at once the one with the smaller id is answered. */
static bool gives_way(const struct lo_request *request, uint64_t id)
{
    return request->walk == NULL || request->walk->state == WALK_SEEKING || request->walk->id > id;
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

static void walk_hang_up(struct lo_walk *walk);

static bool answer_peer(struct lo_call *call)
{
    struct lo_request *request = find_peer_request(call);
    if (request == NULL) {
        return false;
    }
    VIP_RETURN rc = vipl_facts_agree(&request->facts, &call->hello.facts);
    if (rc != VIP_SUCCESS) {
        struct vipl_vi *vi = request->vi;
        answer(call, LO_ANSWER_DISAGREE, (uint8_t)rc);
        vipl_lo_request_end(request);
        vipl_up_connect_failed(vi, rc);
        call_end(call);
        return true;
    }
    if (request->walk != NULL) {
        walk_hang_up(request->walk);
    }
    if (offer(call, request->vi) != VIP_SUCCESS) {
        return false;
    }
    request->matched = call;
    call->request = request;
    return true;
}

static bool waits_for(const struct lo_remote *remote, const struct vipl_address *wanted)
{
    for (struct vipl_list *l = remote->be->listeners.next; l != &remote->be->listeners; l = l->next) {
        if (vipl_lo_same_discriminator(&VIPL_CONTAINER(l, struct lo_listener, link)->local, wanted)) {
            return true;
        }
    }
    return false;
}

static bool queue_client(struct lo_call *call)
{
    struct lo_remote *remote = call->remote;
    if (waits_for(remote, &call->hello.remote)) {
        call->conn = vipl_up_conn_arrived(remote->be->core, &call->hello.remote, &call->hello.local,
                                          &call->hello.facts);
    }
    if (call->conn == NULL) {
        return false;
    }
    lo_conn_of(call->conn)->call = call;
    call->state = CALL_QUEUED;
    answer(call, LO_ANSWER_QUEUED, 0);
    return true;
}

static void on_hello(struct lo_call *call)
{
    if (!vipl_lo_hello_fits(&call->hello)) {
        vipl_log(VIPL_LOG_INFO, "refused a process with version %u, byte order %u, %u-byte words",
                 call->hello.version, call->hello.byte_order, call->hello.word_bytes);
        answer(call, LO_ANSWER_REFUSED, LO_VERSION);
        call_end(call);
        return;
    }
    bool own = memcmp(call->hello.process, vipl_lo_process_uid, LO_UID) == 0;
    bool taken = !own && (call->hello.peer ? answer_peer(call) : queue_client(call));
    if (!taken) {
        answer(call, LO_ANSWER_NO, 0);
        call_end(call);
    }
}

static void on_call(struct lo_call *call, bool hangup)
{
    uint8_t bytes[LO_PACKET];
    size_t length = 0;
    int fds[2] = {-1, -1};
    int error = hangup ? 0 : vipl_local_receive(call->source.fd, bytes, sizeof(bytes), &length, fds);
    vipl_fd_close(fds[1]);
    if (error == 0 && fds[0] >= 0) {
        vipl_fd_close(call->window_fd);
        call->window_fd = fds[0];
    }
    if (error == EAGAIN) {
        return;
    }
    if (error != 0 || length == 0) { /* gone; the one who is accepting it finds out by the mark */
        if (call->state == CALL_ACCEPTING) {
            call->gone = true;
            call->deadline = in_ms(GONE_MS); /* its last word may still be in the ring */
            vipl_pollset_remove(&call->remote->set, call->source.fd);
        } else {
            call_end(call);
        }
        return;
    }
    if (call->state == CALL_NEW && vipl_lo_hello_read(&call->hello, bytes, length)) {
        on_hello(call);
    } else {
        call_end(call); /* speaks another language, or out of turn */
    }
}

/* --- walks: our own search --- */

static void walk_hang_up(struct lo_walk *walk)
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
    walk_hang_up(walk);
    walk->place = 0;
    walk->next_try = in_ms(walk->retry_ms);
    walk->retry_ms = walk->retry_ms * 2 > LAST_RETRY_MS ? LAST_RETRY_MS : walk->retry_ms * 2;
}

static bool say_hello(struct lo_walk *walk)
{
    struct lo_request *request = walk->request;
    uint8_t bytes[LO_PACKET];
    struct lo_hello hello = {
        .peer = request->peer,
        .id = walk->id,
        .probe_address = (uint64_t)(uintptr_t)&probe_word,
        .probe_value = probe_word,
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
    uint64_t hash = hash_of(&walk->request->remote);
    walk_hang_up(walk);
    while (walk->place < PLACES) {
        size_t n = name_of(name, kind, hash, walk->place++);
        if (vipl_local_connect(name, n, &walk->source.fd) != 0) {
            walk->source.fd = -1;
            continue;
        }
        if (vipl_pollset_add(&walk->remote->set, walk->source.fd, &walk->source) == 0 && say_hello(walk)) {
            walk->state = WALK_ASKED;
            walk->next_try = in_ms(ASK_MS);
            return;
        }
        walk_hang_up(walk);
    }
    walk_later(walk);
}

VIP_RETURN vipl_lo_walk_begin(struct lo_request *request)
{
    struct lo_remote *remote = prepare(request->nic);
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
        walk->listening = open_listening(remote, 'p', hash_of(&request->local));
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
        if (!is_opened(call, &dead)) {
            vipl_lo_session_forget(call->session);
        }
        call_end(call);
    }
    if (walk == NULL) {
        return;
    }
    walk_hang_up(walk);
    close_listening(walk->remote, walk->listening);
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
    bool reach = can_reach(remote, link->pid, a->probe_address, a->probe_value);
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

static void on_walk(struct lo_walk *walk)
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

/* --- events and time --- */

static void on_listener(struct lo_remote *remote, const struct lo_listening *s)
{
    int fd;
    for (int i = 0; i < 64 && vipl_local_accept(s->source.fd, &fd) == 0; i++) {
        call_begin(remote, fd);
    }
}

void vipl_lo_rendezvous_event(struct lo_remote *remote, struct lo_source *source, bool hangup)
{
    switch (source->kind) {
    case LO_SOURCE_LISTENER:
        on_listener(remote, (struct lo_listening *)(void *)source);
        break;
    case LO_SOURCE_CALL:
        on_call((struct lo_call *)(void *)source, hangup);
        break;
    case LO_SOURCE_WALK:
        on_walk((struct lo_walk *)(void *)source);
        break;
    case LO_SOURCE_LINK:
        vipl_lo_link_event((struct lo_link *)(void *)source, hangup);
        break;
    }
}

/* A symmetric request that answered a call: connected, or the caller went away again. */
static void check_matched(struct lo_call *call, uint64_t now)
{
    bool dead = false;
    if (is_opened(call, &dead)) {
        vipl_lo_request_end(call->request); /* with the call */
    } else if (dead || now >= call->deadline) {
        vipl_lo_session_forget(call->session);
        call->session = NULL;
        call_end(call); /* the request goes on seeking */
    }
}

static void tick_calls(struct lo_remote *remote, uint64_t now, uint64_t *soonest)
{
    struct vipl_list *next;
    for (struct vipl_list *l = remote->calls.next; l != &remote->calls; l = next) {
        struct lo_call *call = VIPL_CONTAINER(l, struct lo_call, link);
        next = l->next;
        if (call->state == CALL_ACCEPTING && call->request != NULL) {
            *soonest = call->deadline < *soonest ? call->deadline : *soonest;
            check_matched(call, now);
        } else if (call->state == CALL_NEW && now >= call->deadline) {
            call_end(call);
        }
    }
}

int vipl_lo_rendezvous_tick(struct lo_remote *remote)
{
    uint64_t soonest = UINT64_MAX;
    struct vipl_list *next;
    if (vipl_list_empty(&remote->walks) && vipl_list_empty(&remote->calls)) {
        return -1;
    }
    uint64_t now = vipl_now_ns();
    tick_calls(remote, now, &soonest);
    for (struct vipl_list *l = remote->walks.next; l != &remote->walks; l = next) {
        struct lo_walk *walk = VIPL_CONTAINER(l, struct lo_walk, link);
        next = l->next;
        if (walk->state == WALK_QUEUED || walk->request->matched != NULL) {
            continue;
        }
        if (now >= walk->next_try) {
            walk_on(walk);
        }
        soonest = walk->next_try < soonest ? walk->next_try : soonest;
    }
    if (soonest == UINT64_MAX) {
        return -1;
    }
    return soonest <= now ? 1 : (int)((soonest - now) / NS_PER_MS) + 1;
}

void vipl_lo_rendezvous_close(struct lo_remote *remote)
{
    while (!vipl_list_empty(&remote->calls)) {
        call_end(VIPL_CONTAINER(remote->calls.next, struct lo_call, link));
    }
    while (!vipl_list_empty(&remote->sockets)) {
        struct lo_listening *s = VIPL_CONTAINER(remote->sockets.next, struct lo_listening, link);
        s->users = 1;
        close_listening(remote, s);
    }
}
