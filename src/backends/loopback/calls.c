/* SPDX-License-Identifier: MIT */
/* Incoming requests: receiving, accepting and rejecting requests of other processes. */
#include "backends/loopback/calls.h"

#include <errno.h>
#include <string.h>

#include "backends/loopback/claims.h"
#include "backends/loopback/exports.h"
#include "backends/loopback/link.h"
#include "backends/loopback/offers.h"
#include "backends/loopback/tx.h"
#include "base/deadline.h"
#include "base/log.h"
#include "os/os_atomic.h"

enum {
    MAX_INCOMING = 1024, /* unanswered requests per NIC handle */
    FIRST_WORD_MS = 10000,
    OPEN_MS = 5000, /* for a requester to take up an acceptance */
    LOOK_MS = 20,   /* between checks whether the requester is still there */
    GONE_MS = 200   /* to receive what a requester that hung up has sent before */
};

/* --- one incoming request --- */

/* fd -1: the request came as a control message. NULL: no resources, or there are too many
 * requests. */
static struct lo_incoming *incoming_new(struct lo_remote *remote, int fd)
{
    struct lo_incoming *in = remote->incoming_count < MAX_INCOMING ? vipl_zalloc(sizeof(*in)) : NULL;
    if (in == NULL || (fd >= 0 && vipl_pollset_add(&remote->setup, fd, &in->source) != 0)) {
        vipl_free(in);
        return NULL;
    }
    in->source.kind = LO_SOURCE_INCOMING;
    in->source.fd = fd;
    in->exports_fd = -1;
    in->claims.fd = -1;
    in->remote = remote;
    vipl_list_append(&remote->incomings, &in->link);
    remote->incoming_count++;
    return in;
}

/* Returns the socket on which replies to the requester are sent. */
static int requester_fd(const struct lo_incoming *in)
{
    return in->via != NULL ? in->via->source.fd : in->source.fd;
}

static void send_reply_packet(int fd, const struct lo_connect_request *to, enum lo_reply_type type,
                              uint8_t code)
{
    uint8_t bytes[LO_PACKET];
    struct lo_reply r = {.type = (uint8_t)type,
                         .code = code,
                         .number = to->number,
                         .slot = to->slot,
                         .generation = to->generation};
    /* if this fails, the requester has died */
    vipl_local_send(fd, bytes, vipl_lo_reply_write(&r, bytes), NULL, 0);
}

static void reply_incoming(struct lo_incoming *in, enum lo_reply_type type, uint8_t code)
{
    send_reply_packet(requester_fd(in), &in->wanted, type, code);
    in->answered = true;
}

static void incoming_end(struct lo_incoming *in)
{
    struct lo_remote *remote = in->remote;
    if (in->via != NULL && !in->answered) {
        reply_incoming(in, LO_REPLY_GONE, 0);
    }
    if (in->conn != NULL) {
        lo_conn_of(in->conn)->incoming = NULL;
        vipl_up_conn_gone(in->conn);
    }
    if (in->request != NULL) {
        in->request->matched = NULL;
    }
    if (in->source.fd >= 0) {
        vipl_pollset_remove(&remote->setup, in->source.fd);
        vipl_fd_close(in->source.fd);
    }
    vipl_fd_close(in->exports_fd);
    vipl_shm_release(&in->claims);
    vipl_list_remove(&in->link);
    remote->incoming_count--;
    vipl_free(in);
}

void vipl_lo_incoming_begin(struct lo_remote *remote, const struct lo_socket *to, int fd)
{
    int pid;
    uint32_t user;
    bool ours = vipl_local_peer(fd, &pid, &user) == 0 && user == vipl_local_user();
    struct lo_incoming *in = ours ? incoming_new(remote, fd) : NULL;
    if (in == NULL) {
        vipl_log(VIPL_LOG_INFO, "another process was not taken in: %s",
                 ours ? "there are too many" : "it is another user's");
        vipl_fd_close(fd);
        return;
    }
    in->kind = to->kind;
    in->hash = to->hash;
    in->deadline = vipl_deadline(FIRST_WORD_MS);
    lo_set_timed(remote);
}

/* --- requests --- */

static bool claim_incoming(const struct lo_incoming *in)
{
    return lo_claim_take(in->word, in->wanted.generation, in->wanted.number);
}

static bool is_claimable(const struct lo_incoming *in)
{
    return vipl_load_ordered(in->word) == /* pairs with lo_claim_take */
           lo_claim_word(in->wanted.generation, LO_PENDING, 0);
}

/* Hands the request to core, if the program listens for it and core does not have it. Core may have
 * no room: the next vipl_lo_incomings_look() tries again. */
static void hand_incoming_to_core(struct lo_incoming *in)
{
    struct vipl_nic *core = in->remote->be->core;
    if (in->conn == NULL && vipl_up_listens(core, &in->wanted.remote)) {
        in->conn = vipl_up_conn_arrived(core, &in->wanted.remote, &in->wanted.local, &in->wanted.params);
        if (in->conn != NULL) {
            lo_conn_of(in->conn)->incoming = in;
        }
    }
}

void vipl_lo_incomings_look(struct lo_remote *remote)
{
    for (struct vipl_list *l = remote->incomings.next; l != &remote->incomings; l = l->next) {
        struct lo_incoming *in = VIPL_CONTAINER(l, struct lo_incoming, link);
        if (in->state == LO_INCOMING_KNOWN && in->kind == 'w' && is_claimable(in)) {
            hand_incoming_to_core(in);
        }
    }
}

/* Whether the requester is known to have gone. A dead link whose end is not known yet makes the
 * sending of the answer fail. */
static bool requester_has_hung_up(const struct lo_incoming *in)
{
    return in->via != NULL ? vipl_load_relaxed(&in->via->dead) != 0 : vipl_local_has_hung_up(in->source.fd);
}

bool vipl_lo_incoming_taken(struct lo_incoming *in)
{
    in->taken = claim_incoming(in) && !requester_has_hung_up(in);
    if (!in->taken) { /* core drops its part; the request may become available again */
        lo_conn_of(in->conn)->incoming = NULL;
        in->conn = NULL;
    }
    return in->taken;
}

void vipl_lo_incoming_reject(struct lo_incoming *in, bool answer)
{
    lo_conn_of(in->conn)->incoming = NULL;
    in->conn = NULL; /* core frees it */
    if (answer) {
        reply_incoming(in, LO_REPLY_REJECT, 0);
    }
    incoming_end(in);
}

/* --- accepting --- */

/* Returns the link to the requester, or makes one over the request's socket. NULL: no resources. */
static struct lo_link *link_to_requester(struct lo_incoming *in, bool *is_new)
{
    struct lo_remote *remote = in->remote;
    struct lo_link *link = in->via != NULL ? in->via : vipl_lo_link_find(remote, in->wanted.nic, 0);
    *is_new = link == NULL;
    if (link == NULL) {
        link = vipl_lo_link_create(remote, in->source.fd, in->exports_fd, in->wanted.nic);
    }
    if (link != NULL && *is_new) {
        in->exports_fd = -1; /* the link owns it now */
        vipl_lo_link_probe(link, &in->wanted.mark);
    }
    return link;
}

static bool send_acceptance(struct lo_incoming *in, struct lo_link *link, bool is_new, struct vipl_vi *vi)
{
    struct lo_remote *remote = in->remote;
    uint8_t bytes[LO_PACKET];
    int fds[2] = {link->shm.fd, vipl_lo_own_exports(remote->be)};
    struct lo_reply r = {
        .type = LO_REPLY_ACCEPT,
        .number = in->wanted.number,
        .slot = in->wanted.slot,
        .generation = in->wanted.generation,
        .new_link = is_new,
        .direct_access = vipl_load_relaxed(&link->direct_access) != 0,
        .link = link->id,
        .slots = link->out.count,
        .session = in->session->number,
        .tag = vipl_up_vi_tag(vi),
        .mark = vipl_lo_mark,
    };
    memcpy(r.nic, remote->uid, LO_UID);
    vipl_up_vi_params(vi, &r.params);
    int error = vipl_local_send(requester_fd(in), bytes, vipl_lo_reply_write(&r, bytes), fds, is_new ? 2 : 0);
    in->answered = error == 0;
    if (is_new) {
        vipl_shm_close_fd(&link->shm);
        in->source.fd = -1; /* the link owns it now */
    }
    return error == 0;
}

/* Accepts a request that this process has claimed. The VI gets a session, and then the request
 * becomes ACCEPTED: after that only the sending of the reply may fail. The session opens when the
 * requester takes up the acceptance. On failure only `in` is left, which the caller ends: its
 * hang-up makes an ACCEPTED request PENDING again. */
static VIP_RETURN accept_by_link(struct lo_incoming *in, struct vipl_vi *vi)
{
    bool is_new;
    in->opened = false;
    struct lo_link *link = link_to_requester(in, &is_new);
    if (link == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    in->session = vipl_lo_session_open(link, vi, 0, &in->wanted.params, in->wanted.tag, &in->opened);
    in->state = LO_INCOMING_ACCEPTING;
    in->deadline = vipl_deadline(OPEN_MS);
    bool accepted = in->session != NULL &&
                    lo_claim_accept(in->word, in->wanted.generation, in->wanted.number) &&
                    send_acceptance(in, link, is_new, vi);
    if (!accepted) { /* VIP_TIMEOUT: the requester has just gone, perhaps with its link */
        bool short_of = in->session == NULL && vipl_load_relaxed(&link->dead) == 0;
        VIP_RETURN rc = short_of ? VIP_ERROR_RESOURCE : VIP_TIMEOUT;
        if (in->session != NULL) {
            vipl_lo_session_forget(in->session);
        }
        if (is_new) {
            in->source.fd = -1;
            vipl_lo_link_drop(link);
        }
        return rc;
    }
    return VIP_SUCCESS;
}

/* Whether the requester has taken up the acceptance. If not, the session still exists, and *dead
 * says whether its link is dead. */
static bool is_taken_up(const struct lo_incoming *in, bool *dead)
{
    vipl_biased_lock(&in->remote->rx);
    bool opened = in->opened;
    *dead = !opened && in->session->link->dead != 0;
    vipl_biased_unlock(&in->remote->rx);
    return opened;
}

/* Waits until the requester has taken up the acceptance; releases the registry's lock meanwhile.
 * Returns false if the time is over, or if this is a forked child (*forked), which must not touch
 * `in`. */
static bool await_taken_up(struct lo_incoming *in, struct vipl_vi *vi, bool *forked)
{
    bool dead = false;
    bool opened;
    *forked = false;
    while (!(opened = is_taken_up(in, &dead)) && !dead && vipl_now_ns() < in->deadline) {
        vipl_mutex_unlock(&vipl_lo_registry.lock);
        if (!vipl_up_await_connected(vi, LOOK_MS)) {
            *forked = true;
            return false;
        }
        vipl_mutex_lock(&vipl_lo_registry.lock);
    }
    if (!opened) {
        vipl_mutex_unlock(&vipl_lo_registry.lock);
        vipl_lo_remote_poll(in->remote->be); /* LO_OPEN may be in the ring already */
        vipl_mutex_lock(&vipl_lo_registry.lock);
        opened = is_taken_up(in, &dead);
    }
    return opened;
}

VIP_RETURN vipl_lo_incoming_accept(struct lo_incoming *in, struct vipl_vi *vi)
{
    bool forked;
    lo_conn_of(in->conn)->incoming = NULL;
    in->conn = NULL; /* core frees it, or keeps it for another try */
    VIP_RETURN rc = requester_has_hung_up(in) ? VIP_TIMEOUT : accept_by_link(in, vi);
    if (rc == VIP_SUCCESS && !await_taken_up(in, vi, &forked)) {
        if (forked) {
            return VIP_TIMEOUT;
        }
        vipl_lo_session_forget(in->session);
        rc = VIP_TIMEOUT;
    }
    incoming_end(in);
    return rc;
}

/* --- symmetric requests: of two counterparts, the one with the smaller id is answered --- */

static bool asks_for(const struct lo_incoming *in, const struct lo_request *request)
{
    return in->kind == 'p' && in->state == LO_INCOMING_KNOWN && request->peer &&
           request->nic == in->remote->be && request->matched == NULL &&
           lo_same_address(&request->local, &in->wanted.remote) &&
           lo_same_address(&request->remote, &in->wanted.local);
}

/* Answers an incoming symmetric request by a request of this process, which is BUSY meanwhile so
 * that nobody else can answer it. Returns true if the own request is over. */
static bool accept_matched(struct lo_incoming *in, struct lo_request *request)
{
    if (!is_claimable(in) || !vipl_lo_claim_change(&request->claim, LO_PENDING, LO_BUSY)) {
        return false;
    }
    if (!claim_incoming(in)) {
        vipl_lo_request_available(request);
        return false;
    }
    VIP_RETURN rc = vipl_params_agree(&request->params, &in->wanted.params);
    if (rc != VIP_SUCCESS) {
        struct vipl_vi *vi = request->vi;
        reply_incoming(in, LO_REPLY_DISAGREE, (uint8_t)rc);
        incoming_end(in);
        vipl_lo_request_end(request);
        vipl_up_connect_failed(vi, rc);
        return true;
    }
    if (accept_by_link(in, request->vi) != VIP_SUCCESS) {
        incoming_end(in);
        vipl_lo_request_available(request);
        return false;
    }
    request->matched = in;
    in->request = request;
    lo_set_timed(in->remote);
    return false;
}

/* Looks for the counterpart of an incoming request among this process's requests. One with a
 * greater id answers. One with a smaller id is to be answered: it is offered back, for it may have
 * begun before the other side listened. */
static void match_incoming(struct lo_incoming *in)
{
    for (struct vipl_list *l = vipl_lo_registry.requests.next; l != &vipl_lo_registry.requests; l = l->next) {
        struct lo_request *request = VIPL_CONTAINER(l, struct lo_request, link);
        if (!asks_for(in, request)) {
            continue;
        }
        if (request->id < in->wanted.id) {
            vipl_lo_offer_back(request, in->wanted.place);
        } else if (vipl_lo_request_is_pending(request) && is_claimable(in)) {
            accept_matched(in, request);
            return;
        }
    }
}

bool vipl_lo_incomings_match(struct lo_request *request)
{
    struct lo_remote *remote = lo_remote_of(request->nic);
    struct vipl_list *next;
    for (struct vipl_list *l = remote->incomings.next; l != &remote->incomings; l = next) {
        struct lo_incoming *in = VIPL_CONTAINER(l, struct lo_incoming, link);
        next = l->next;
        if (asks_for(in, request) && request->id > in->wanted.id && accept_matched(in, request)) {
            return true;
        }
    }
    return false;
}

bool vipl_lo_incoming_unmatch(struct lo_incoming *in)
{
    bool dead;
    bool opened = is_taken_up(in, &dead);
    if (!opened) {
        vipl_lo_session_forget(in->session);
    }
    incoming_end(in);
    return opened;
}

/* --- packets --- */

/* Whether a request from a process of the same kind is valid. */
static bool is_request_valid(const struct lo_incoming *in, const struct lo_connect_request *r)
{
    bool own = memcmp(r->process, vipl_lo_process_uid, LO_UID) == 0;
    return r->peer == (in->kind == 'p') && !own && r->number != 0 && r->generation < LO_GENERATIONS;
}

static void refuse_writer(struct lo_incoming *in, const struct lo_writer *writer)
{
    vipl_log(VIPL_LOG_INFO, "refused a process with version %u, byte order %u, %u-byte words",
             writer->version, writer->byte_order, writer->word_bytes);
    reply_incoming(in, LO_REPLY_REFUSED, LO_VERSION);
    incoming_end(in);
}

static void on_notice(struct lo_incoming *in, const struct lo_notice *notice)
{
    if (!vipl_lo_writer_fits(&notice->writer)) {
        refuse_writer(in, &notice->writer);
        return;
    }
    vipl_lo_offers_notice(in->remote, in->hash, notice->place);
    incoming_end(in); /* the listener waits for this hang-up */
}

static void on_connect_request(struct lo_incoming *in, const struct lo_connect_request *r, int fds[2])
{
    if (!vipl_lo_writer_fits(&r->writer)) {
        refuse_writer(in, &r->writer);
        return;
    }
    if (in->state == LO_INCOMING_SILENT) {
        in->wanted = *r;
        in->word = is_request_valid(in, r) ? vipl_lo_claims_attach(&in->claims, fds[1], r->slot) : NULL;
        if (in->word == NULL) {
            incoming_end(in);
            return;
        }
        in->exports_fd = fds[0];
        fds[0] = -1;
        in->state = LO_INCOMING_KNOWN;
    }
    if (in->kind == 'p' && in->state == LO_INCOMING_KNOWN) {
        match_incoming(in);
    } else if (in->kind == 'w' && !in->taken) {
        hand_incoming_to_core(in);
    }
}

static void on_packet(struct lo_incoming *in, const uint8_t *bytes, size_t length, int fds[2])
{
    union {
        struct lo_connect_request request;
        struct lo_notice notice;
    } packet;
    if (in->kind != 'r' && vipl_lo_connect_request_read(&packet.request, bytes, length)) {
        on_connect_request(in, &packet.request, fds);
    } else if (in->kind == 'r' && vipl_lo_notice_read(&packet.notice, bytes, length)) {
        on_notice(in, &packet.notice);
    } else {
        incoming_end(in); /* not a valid packet */
    }
}

static void on_requester_hang_up(struct lo_incoming *in)
{
    if (in->state != LO_INCOMING_ACCEPTING) {
        incoming_end(in);
        return;
    }
    in->deadline = vipl_deadline(GONE_MS);
    vipl_pollset_remove(&in->remote->setup, in->source.fd);
}

void vipl_lo_incoming_event(struct lo_incoming *in)
{
    uint8_t bytes[LO_PACKET];
    size_t length = 0;
    int fds[2] = {-1, -1};
    int error = vipl_local_receive(in->source.fd, bytes, sizeof(bytes), &length, fds);
    if (error == ECONNRESET) { /* reported once, before what has been received */
        error = vipl_local_receive(in->source.fd, bytes, sizeof(bytes), &length, fds);
    }
    if (error == EAGAIN) {
        return;
    }
    if (error != 0 || length == 0) {
        on_requester_hang_up(in);
    } else {
        on_packet(in, bytes, length, fds);
    }
    vipl_fd_close(fds[0]);
    vipl_fd_close(fds[1]);
}

/* --- control messages --- */

static struct lo_incoming *find_by_link(const struct lo_link *via, uint16_t slot, uint32_t generation,
                                        uint8_t number)
{
    struct lo_remote *remote = lo_remote_of(via->be);
    for (struct vipl_list *l = remote->incomings.next; l != &remote->incomings; l = l->next) {
        struct lo_incoming *in = VIPL_CONTAINER(l, struct lo_incoming, link);
        if (in->via == via && in->wanted.slot == slot && in->wanted.generation == generation &&
            in->wanted.number == number) {
            return in;
        }
    }
    return NULL;
}

/* Makes an incoming request for a control message. NULL: the program does not listen for it, or
 * there is no room. */
static struct lo_incoming *begin_by_link(struct lo_link *via, const struct lo_connect_request *r,
                                         const int fds[2])
{
    struct lo_remote *remote = lo_remote_of(via->be);
    if (via->claims.base == NULL && vipl_lo_claims_attach(&via->claims, fds[1], r->slot) == NULL) {
        return NULL;
    }
    struct lo_incoming *in = vipl_up_listens(remote->be->core, &r->remote) ? incoming_new(remote, -1) : NULL;
    if (in != NULL) {
        in->via = via;
        in->kind = 'w';
        in->hash = vipl_lo_hash_of(&r->remote);
        in->wanted = *r;
        in->word = (uint32_t *)via->claims.base + r->slot;
        in->state = LO_INCOMING_KNOWN;
    }
    return in;
}

bool vipl_lo_incoming_by_link(struct lo_link *via, const struct lo_connect_request *wanted, const int fds[2])
{
    if (!vipl_lo_writer_fits(&wanted->writer) || wanted->peer || wanted->number == 0 ||
        wanted->generation >= LO_GENERATIONS || wanted->slot >= LO_CLAIMS ||
        memcmp(wanted->nic, via->peer_uid, LO_UID) != 0) {
        return false;
    }
    struct lo_incoming *in = find_by_link(via, wanted->slot, wanted->generation, wanted->number);
    in = in == NULL ? begin_by_link(via, wanted, fds) : in;
    if (in == NULL) {
        send_reply_packet(via->source.fd, wanted, LO_REPLY_GONE, 0);
    } else if (!in->taken) {
        hand_incoming_to_core(in);
    }
    return true;
}

/* The requester has withdrawn the request, or has gone. An accepted request waits another moment,
 * because LO_OPEN may be in the ring. */
static void on_requester_gone(struct lo_incoming *in)
{
    in->answered = true;
    if (in->state == LO_INCOMING_ACCEPTING) {
        in->deadline = vipl_deadline(GONE_MS);
    } else {
        incoming_end(in);
    }
}

void vipl_lo_incoming_withdrawn(struct lo_link *via, const struct lo_reply *which)
{
    struct lo_incoming *in = find_by_link(via, which->slot, which->generation, which->number);
    if (in != NULL) {
        on_requester_gone(in);
    }
}

void vipl_lo_incomings_hang_up(struct lo_link *via)
{
    struct lo_remote *remote = lo_remote_of(via->be);
    struct vipl_list *next;
    for (struct vipl_list *l = remote->incomings.next; l != &remote->incomings; l = next) {
        struct lo_incoming *in = VIPL_CONTAINER(l, struct lo_incoming, link);
        next = l->next;
        if (in->via == via && !in->answered) {
            on_requester_gone(in);
        }
    }
}

/* --- time --- */

static void check_matched(struct lo_incoming *in, uint64_t now)
{
    struct lo_request *request = in->request;
    bool dead = false;
    if (is_taken_up(in, &dead)) {
        vipl_lo_request_end(request); /* ends `in` as well */
    } else if (dead || now >= in->deadline) {
        vipl_lo_session_forget(in->session);
        incoming_end(in);
        vipl_lo_request_available(request);
    }
}

void vipl_lo_incomings_tick(struct lo_remote *remote, uint64_t now, uint64_t *soonest)
{
    struct vipl_list *next;
    for (struct vipl_list *l = remote->incomings.next; l != &remote->incomings; l = next) {
        struct lo_incoming *in = VIPL_CONTAINER(l, struct lo_incoming, link);
        uint64_t deadline = in->deadline;
        next = l->next;
        if (in->state == LO_INCOMING_SILENT && now >= deadline) {
            incoming_end(in);
        } else if (in->state == LO_INCOMING_SILENT || in->request != NULL) {
            *soonest = deadline < *soonest ? deadline : *soonest;
            if (in->request != NULL) {
                check_matched(in, now);
            }
        }
    }
}

/* Whether the incoming request is, or may be, one for that address, and no program has it. */
static bool waits_for_listener(const struct lo_incoming *in, const struct vipl_address *local)
{
    if (in->kind != 'w' || in->taken || in->state == LO_INCOMING_ACCEPTING) {
        return false;
    }
    return in->state == LO_INCOMING_SILENT ? in->hash == vipl_lo_hash_of(local)
                                           : vipl_address_same_discriminator(&in->wanted.remote, local);
}

void vipl_lo_incomings_forget(struct lo_remote *remote, const struct vipl_address *local)
{
    struct vipl_list *next;
    for (struct vipl_list *l = remote->incomings.next; l != &remote->incomings; l = next) {
        struct lo_incoming *in = VIPL_CONTAINER(l, struct lo_incoming, link);
        next = l->next;
        if (waits_for_listener(in, local)) {
            incoming_end(in);
        }
    }
}

void vipl_lo_incomings_close(struct lo_remote *remote)
{
    while (!vipl_list_empty(&remote->incomings)) {
        incoming_end(VIPL_CONTAINER(remote->incomings.next, struct lo_incoming, link));
    }
}
