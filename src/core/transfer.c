/* SPDX-License-Identifier: MIT */
/*
 * Core's part of moving data. Sends are executed in posting order, as far as fences and the backend
 * allow; messages claim receives in posting order. The calls of backend_up.h for both are here too.
 */
#include "core/transfer.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "core/backend_up.h"
#include "core/descriptor.h"
#include "core/nic.h"
#include "core/vi.h"
#include "os/os_compiler.h"

/* --- sending: under the send lock --- */

/* Finishes a send. A failed send ends a reliable connection, unless the backend refused the send
 * before the peer saw any of it. */
static inline void finish_send(struct vipl_vi *vi, struct vipl_work *work, uint32_t status, size_t bytes,
                               bool refused)
{
    bool failed = (status & VIP_STATUS_ERROR_MASK) != 0;
    vipl_queue_finish_locked(&vi->send, work, status | vipl_send_status_op[work->op],
                             failed ? 0 : (uint32_t)bytes);
    if (VIPL_UNLIKELY(failed) && !refused && vipl_vi_is_reliable(vi)) {
        vipl_vi_fail(vi, VIP_ERROR_CONN_LOST);
    }
    if (VIPL_UNLIKELY(vi->send.overrun)) {
        vipl_vi_fail(vi, VIP_ERROR_VI_OVERRUN);
    }
}

/* Announces a success that the fast path has published in a watched queue. */
static VIPL_NOINLINE void announce_fast(struct vipl_vi *vi, struct vipl_queue *q, struct vipl_work *work)
{
    vipl_queue_announce_locked(q, work);
    if (VIPL_UNLIKELY(q->overrun)) {
        vipl_vi_fail(vi, VIP_ERROR_VI_OVERRUN);
    }
}

/* Returns true if the send has to wait for pending RDMA Reads. */
static bool is_fenced(struct vipl_vi *vi, const struct vipl_work *work)
{
    return vi->reads > 0 && vipl_descriptor_is_fenced(work);
}

/* Hands a send over to the backend. False: the backend has no room, and this send and all later
 * ones wait. */
static inline bool hand_to_backend(struct vipl_vi *vi, struct vipl_work *work, struct vipl_send *send)
{
    struct vipl_queue *q = &vi->send;
    work->op = send->op;
    send->sequence = q->executed;
    send->has_outstanding = q->completed != q->executed;
    send->has_unreaped = vipl_load_relaxed(&q->reaped) != q->executed;
    switch (vi->nic->ops->post_send(vi->nic->be, vi, send)) {
    case VIPL_POSTED_DONE:
        q->executed++;
        finish_send(vi, work, send->status, send->local.bytes, send->refused);
        return true;
    case VIPL_POSTED_PENDING:
        q->executed++;
        work->state = VIPL_WORK_PENDING;
        vi->reads += work->op == VIP_CONTROL_OP_RDMAREAD ? 1 : 0;
        return true;
    case VIPL_POSTED_AGAIN:
        break;
    }
    return false;
}

/* Reads a send and executes it. False: as hand_to_backend(). */
static bool execute_one(struct vipl_vi *vi, struct vipl_work *work)
{
    struct vipl_send send; /* not cleared: vipl_descriptor_read_send() fills what is used */
    uint32_t status = vipl_descriptor_read_send(vi, work, &send);
    if (status != 0) {
        work->op = send.op;
        vi->send.executed++;
        finish_send(vi, work, status, 0, false);
        return true;
    }
    return hand_to_backend(vi, work, &send);
}

/* --- short sends: the backend completes the message before core posts its descriptor --- */

enum { MAX_SHORT_SEGMENTS = 2 };

static inline bool can_post_short(struct vipl_vi *vi)
{
    struct vipl_queue *q = &vi->send;
    return vi->sends_short && vipl_queue_is_idle(q) && vipl_queue_has_room(q) &&
           vi->state == VIP_STATE_CONNECTED && !vipl_up_has_failed(vi);
}

/* Posts a descriptor whose message the backend has completed, and completes the descriptor. */
static inline void post_done(struct vipl_vi *vi, VIP_DESCRIPTOR *descriptor, uint16_t segments, uint16_t op,
                             uint32_t bytes)
{
    struct vipl_queue *q = &vi->send;
    struct vipl_work *work = vipl_queue_put_locked(q, descriptor, segments);
    work->op = op;
    vipl_queue_finish_fast_locked(q, work, vipl_send_status_op[op], bytes);
    if (q->is_watched) {
        announce_fast(vi, q, work);
    }
}

static inline bool send_short(struct vipl_vi *vi, VIP_DESCRIPTOR *descriptor)
{
    VIP_DATA_SEGMENT piece;
    if (descriptor->CS.SegCount != 1 || !vipl_descriptor_cached_piece(vi, &vi->send, descriptor, 0, &piece) ||
        !vi->nic->ops->send_short(vi->nic->be, vi, piece.Data.Address, piece.Length,
                                  !vipl_queue_looks_empty(&vi->send))) {
        return false;
    }
    post_done(vi, descriptor, 1, VIP_CONTROL_OP_SENDRECV, piece.Length);
    return true;
}

static VIPL_NOINLINE bool rdma_short(struct vipl_vi *vi, VIP_DESCRIPTOR *descriptor, uint16_t control)
{
    struct vipl_rdma rdma;
    if (vi->nic->ops->rdma_short == NULL ||
        !vipl_descriptor_read_short_rdma(vi, descriptor, control, &rdma) ||
        !vi->nic->ops->rdma_short(vi->nic->be, vi, &rdma)) {
        return false;
    }
    post_done(vi, descriptor, 2, control, (uint32_t)rdma.bytes);
    return true;
}

/* Sends and posts a short message. On false nothing has happened. */
static inline bool post_short(struct vipl_vi *vi, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory)
{
    if (!can_post_short(vi) ||
        vipl_descriptor_room(vi, &vi->send, descriptor, memory) < vipl_descriptor_bytes(MAX_SHORT_SEGMENTS)) {
        return false;
    }
    uint16_t control = descriptor->CS.Control; /* read once */
    return VIPL_LIKELY(control == VIP_CONTROL_OP_SENDRECV) ? send_short(vi, descriptor)
                                                           : rdma_short(vi, descriptor, control);
}

/* --- any send --- */

/* Executes a send of one piece in the region of the last segment. On false nothing has happened. */
static inline bool send_fast(struct vipl_vi *vi, struct vipl_work *work)
{
    struct vipl_send send; /* not cleared */
    if (!vipl_descriptor_read_send_fast(vi, work, &send)) {
        return false;
    }
    hand_to_backend(vi, work, &send); /* if the backend has no room, the queue goes on later */
    return true;
}

/* Executes the send that was just posted, if it is the only one to execute and send_fast() takes
 * it. False: the caller uses execute_and_unlock(). */
static inline bool execute_fast(struct vipl_vi *vi)
{
    struct vipl_queue *q = &vi->send;
    struct vipl_work *work = vipl_queue_at(q, q->executed);
    bool is_alone = q->executed + 1 == q->posted && work->state == VIPL_WORK_POSTED;
    return is_alone && vi->state == VIP_STATE_CONNECTED && !vipl_up_has_failed(vi) && send_fast(vi, work);
}

/* Executes what is posted and not executed, and releases the send lock. */
static void execute_and_unlock(struct vipl_vi *vi)
{
    struct vipl_queue *q = &vi->send;
    assert(vipl_biased_is_held(&q->lock));
    while (q->executed != q->posted) {
        struct vipl_work *work = vipl_queue_at(q, q->executed);
        if (work->state != VIPL_WORK_POSTED) {
            q->executed++; /* the work was finished when it was posted */
            continue;
        }
        if (vi->state != VIP_STATE_CONNECTED) {
            vipl_queue_flush_locked(q);
            break;
        }
        if (vipl_up_has_failed(vi) || is_fenced(vi, work) || !execute_one(vi, work)) {
            break;
        }
    }
    vipl_biased_unlock(&q->lock);
}

/* Finishes the descriptor that was just posted with an error; it completes in its turn. */
static VIPL_COLD void refuse_posted(struct vipl_vi *vi, struct vipl_queue *q, uint32_t status)
{
    struct vipl_work *work = vipl_queue_at(q, q->posted - 1);
    VIP_DESCRIPTOR *descriptor = work->descriptor;
    bool flushed = !q->is_recv && vi->state != VIP_STATE_CONNECTED;
    uint32_t op = q->is_recv ? VIP_STATUS_OP_RECEIVE : vipl_send_status_op[vipl_descriptor_op(work)];
    vipl_queue_finish_locked(q, work, (flushed ? VIP_STATUS_DESC_FLUSHED_ERROR : status) | op, 0);
    if (vipl_vi_is_reliable(vi)) {
        vipl_vi_fail(vi, VIP_ERROR_CONN_LOST);
    }
    if (status == VIP_STATUS_FORMAT_ERROR && ((uintptr_t)descriptor % VIP_DESCRIPTOR_ALIGNMENT) != 0) {
        vipl_vi_report(vi, VIP_RESOURCE_DESCRIPTOR, VIP_ERROR_POST_DESC, op, descriptor);
    }
}

/* The slow path of posting: admits and posts any descriptor. A descriptor with an error is posted
 * and finished with that error. */
static VIPL_COLD VIP_RETURN post_any(struct vipl_vi *vi, struct vipl_queue *q, VIP_DESCRIPTOR *descriptor,
                                     VIP_MEM_HANDLE memory)
{
    uint32_t status;
    uint16_t segments;
    VIP_RETURN rc = vipl_descriptor_admit(q, descriptor, memory, &status, &segments);
    if (rc == VIP_SUCCESS && status == 0 && !vipl_queue_lists(q, segments) &&
        !vipl_queue_make_long_list_locked(q)) {
        rc = VIP_ERROR_RESOURCE;
    }
    if (rc == VIP_SUCCESS) {
        rc = vipl_queue_post_locked(q, descriptor, segments);
    }
    bool flushed = q->is_recv && vi->state == VIP_STATE_ERROR; /* the caller will flush the work */
    if (rc == VIP_SUCCESS && status != 0 && !flushed) {
        refuse_posted(vi, q, status);
    }
    return rc;
}

/* Posts and executes any send, and releases the send lock. */
static VIPL_NOINLINE VIP_RETURN send_and_unlock(struct vipl_vi *vi, VIP_DESCRIPTOR *descriptor,
                                                VIP_MEM_HANDLE memory)
{
    if (VIPL_UNLIKELY(!vipl_post_fast_locked(vi, &vi->send, descriptor, memory))) {
        VIP_RETURN rc = post_any(vi, &vi->send, descriptor, memory);
        if (rc != VIP_SUCCESS) {
            vipl_biased_unlock(&vi->send.lock);
            return rc;
        }
    }
    if (VIPL_LIKELY(execute_fast(vi))) {
        vipl_biased_unlock(&vi->send.lock);
    } else {
        execute_and_unlock(vi);
    }
    return VIP_SUCCESS;
}

/* vipl_post_send() of a thread that does not own the send queue's lock. */
static VIPL_NOINLINE VIP_RETURN lock_and_send(void *handle, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory)
{
    struct vipl_vi *vi = vipl_vi_lock_send(handle);
    if (vi == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    vipl_biased_own(&vi->send.lock);
    if (post_short(vi, descriptor, memory)) {
        vipl_biased_unlock(&vi->send.lock);
        return VIP_SUCCESS;
    }
    return send_and_unlock(vi, descriptor, memory);
}

VIP_RETURN vipl_post_send(void *handle, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory)
{
    struct vipl_vi *vi = (struct vipl_vi *)vipl_handle_find(VIPL_KIND_VI, handle);
    VIP_RETURN rc = VIP_SUCCESS;
    /* A thread that enters as the owner of the lock may use the VI, as in VipPostRecv(). */
    if (vi == NULL || !vipl_biased_enter(&vi->send.lock)) {
        rc = lock_and_send(handle, descriptor, memory);
    } else if (VIPL_LIKELY(post_short(vi, descriptor, memory))) {
        vipl_biased_leave(&vi->send.lock);
    } else {
        rc = send_and_unlock(vi, descriptor, memory);
    }
    vipl_deferred_run();
    return rc;
}

/* Flushes the receive that was just posted if the VI is in ERROR, or hands it over to a device that
 * takes receives. */
static VIPL_COLD void hand_over_posted_recv(struct vipl_vi *vi)
{
    if (vi->state == VIP_STATE_ERROR) {
        vipl_queue_flush_locked(&vi->recv);
    }
    vipl_recvs_hand_over_locked(vi);
}

VIP_RETURN vipl_post_recv(void *handle, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory)
{
    struct vipl_vi *vi = vipl_vi_lock_recv(handle);
    VIP_RETURN rc = VIP_SUCCESS;
    if (vi == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    vipl_biased_own(&vi->recv.lock);
    if (VIPL_UNLIKELY(!vipl_post_fast_locked(vi, &vi->recv, descriptor, memory))) {
        rc = post_any(vi, &vi->recv, descriptor, memory);
    }
    if (VIPL_UNLIKELY(vi->takes_recvs || vi->state == VIP_STATE_ERROR)) {
        hand_over_posted_recv(vi);
    }
    vipl_biased_unlock(&vi->recv.lock);
    vipl_deferred_run();
    return rc;
}

/* Finds the pending work with the number `sequence`; NULL: the backend does not have it. */
static struct vipl_work *pending_work(struct vipl_queue *q, uint32_t sequence)
{
    if (sequence - q->completed >= q->executed - q->completed) {
        return NULL;
    }
    struct vipl_work *work = vipl_queue_at(q, sequence);
    return work->state == VIPL_WORK_PENDING ? work : NULL;
}

static void finish_pending(struct vipl_vi *vi, uint32_t sequence, uint32_t status, uint32_t length)
{
    struct vipl_work *work = pending_work(&vi->send, sequence);
    if (work != NULL) {
        vi->reads -= work->op == VIP_CONTROL_OP_RDMAREAD ? 1 : 0;
        finish_send(vi, work, status, length, false);
    }
}

void vipl_up_send_done(struct vipl_vi *vi, uint32_t sequence, uint32_t status, uint32_t length)
{
    vipl_biased_lock(&vi->send.lock);
    finish_pending(vi, sequence, status, length);
    execute_and_unlock(vi); /* a fenced send may be able to go on now */
}

void vipl_up_sends_done(struct vipl_vi *vi, const struct vipl_send_done *done, unsigned count)
{
    vipl_biased_lock(&vi->send.lock);
    for (unsigned i = 0; i < count; i++) {
        finish_pending(vi, done[i].sequence, 0, done[i].length);
    }
    execute_and_unlock(vi);
}

void vipl_up_send_resume(struct vipl_vi *vi)
{
    vipl_biased_lock(&vi->send.lock);
    execute_and_unlock(vi);
}

void vipl_up_send_lock(struct vipl_vi *vi)
{
    vipl_biased_lock(&vi->send.lock);
}

void vipl_up_send_unlock(struct vipl_vi *vi)
{
    vipl_biased_unlock(&vi->send.lock);
}

bool vipl_up_read_target(struct vipl_vi *vi, uint32_t sequence, struct vipl_sg *out)
{
    struct vipl_send send;
    assert(vipl_biased_is_held(&vi->send.lock));
    struct vipl_work *work = pending_work(&vi->send, sequence);
    if (work == NULL || work->op != VIP_CONTROL_OP_RDMAREAD ||
        vipl_descriptor_read_send(vi, work, &send) != 0) {
        return false;
    }
    *out = send.local;
    out->iov = send.local.iov == send.local.few ? out->few : send.local.iov;
    return true;
}

bool vipl_up_pending_send(struct vipl_vi *vi, uint32_t sequence, struct vipl_send *out)
{
    assert(vipl_biased_is_held(&vi->send.lock));
    struct vipl_work *work = pending_work(&vi->send, sequence);
    return work != NULL && vipl_send_status_op[work->op] == VIP_STATUS_OP_SEND &&
           vipl_descriptor_read_send(vi, work, out) == 0 &&
           vipl_send_status_op[out->op] == VIP_STATUS_OP_SEND;
}

/* --- receiving: under the receive lock --- */

void vipl_up_recv_lock(struct vipl_vi *vi)
{
    vipl_biased_lock_own(&vi->recv.lock);
}

void vipl_up_recv_unlock(struct vipl_vi *vi)
{
    vipl_biased_unlock(&vi->recv.lock);
}

static void finish_recv(struct vipl_vi *vi, struct vipl_work *work, uint32_t status, uint32_t length)
{
    bool failed = (status & VIP_STATUS_ERROR_MASK) != 0;
    vipl_queue_finish_locked(&vi->recv, work, status, failed ? 0 : length);
    if (VIPL_UNLIKELY(failed) && vipl_vi_is_reliable(vi)) {
        vipl_vi_fail(vi, VIP_ERROR_CONN_LOST);
    }
    if (VIPL_UNLIKELY(vi->recv.overrun)) {
        vipl_vi_fail(vi, VIP_ERROR_VI_OVERRUN);
    }
}

/* Finds the oldest receive that is posted, and not handed over or finished; NULL: none. */
static struct vipl_work *next_recv(struct vipl_queue *q)
{
    while (q->executed != q->posted && vipl_queue_at(q, q->executed)->state != VIPL_WORK_POSTED) {
        q->executed++;
    }
    return q->executed == q->posted ? NULL : vipl_queue_at(q, q->executed);
}

static VIPL_COLD void report_empty(struct vipl_vi *vi)
{
    if (vipl_vi_is_reliable(vi)) {
        vipl_vi_fail(vi, VIP_ERROR_RECVQ_EMPTY); /* reported when the connection ends */
    } else {
        vipl_vi_report(vi, VIP_RESOURCE_VI, VIP_ERROR_RECVQ_EMPTY, VIP_STATUS_OP_RECEIVE, NULL);
    }
}

/* Returns true if messages may consume receives. */
static inline bool is_receiving(const struct vipl_vi *vi)
{
    bool open =
        vi->handle != NULL && (vi->state == VIP_STATE_CONNECTED || vi->state == VIP_STATE_CONNECT_PENDING);
    return open && !vipl_up_has_failed(vi);
}

enum vipl_claim vipl_up_recv_claim(struct vipl_vi *vi, size_t bytes, struct vipl_sg *out)
{
    struct vipl_queue *q = &vi->recv;
    assert(vipl_biased_is_held(&q->lock));
    if (!is_receiving(vi)) {
        return VIPL_CLAIM_GONE;
    }
    struct vipl_work *work = next_recv(q);
    if (work == NULL) {
        report_empty(vi);
        return VIPL_CLAIM_EMPTY;
    }
    if (out == NULL) {
        return VIPL_CLAIM_OK;
    }
    uint32_t status = vipl_descriptor_read_recv(vi, work, bytes, out);
    if (status != 0) {
        q->executed++;
        finish_recv(vi, work, status | VIP_STATUS_OP_RECEIVE, 0);
        return VIPL_CLAIM_FAILED;
    }
    return VIPL_CLAIM_OK;
}

/* Returns the VIP_STATUS_OP_... and immediate bits of a receive, and notes its immediate data. */
static inline uint32_t recv_op_bits(struct vipl_work *work, bool rdma, const uint32_t *immediate)
{
    uint32_t bits = rdma ? VIP_STATUS_OP_REMOTE_RDMA_WRITE : VIP_STATUS_OP_RECEIVE;
    if (immediate != NULL) {
        bits |= VIP_STATUS_IMMEDIATE;
        work->immediate = *immediate;
    }
    return bits;
}

void vipl_up_recv_finish(struct vipl_vi *vi, uint32_t status, uint32_t length, bool rdma,
                         const uint32_t *immediate)
{
    struct vipl_work *work = next_recv(&vi->recv);
    if (work == NULL) { /* flushed since it was claimed */
        return;
    }
    vi->recv.executed++;
    status |= recv_op_bits(work, rdma, immediate);
    finish_recv(vi, work, status, length);
}

/* vipl_up_recv_take(), under the receive lock. */
static inline bool recv_take_locked(struct vipl_vi *vi, const void *from, size_t bytes)
{
    struct vipl_queue *q = &vi->recv;
    if (q->executed == q->posted || !is_receiving(vi)) {
        return false;
    }
    struct vipl_work *work = vipl_queue_at(q, q->executed);
    void *to = work->state == VIPL_WORK_POSTED && bytes > 0
                   ? vipl_descriptor_recv_target_fast(vi, work, bytes)
                   : NULL;
    if (to == NULL) {
        return false;
    }
    memmove(to, from, bytes);
    if (VIPL_LIKELY(vipl_queue_may_finish_fast(q))) {
        vipl_queue_finish_fast_locked(q, work, VIP_STATUS_OP_RECEIVE, (uint32_t)bytes);
        if (q->is_watched) {
            announce_fast(vi, q, work);
        }
    } else {
        q->executed++;
        finish_recv(vi, work, VIP_STATUS_OP_RECEIVE, (uint32_t)bytes);
    }
    return true;
}

bool vipl_up_recv_take(struct vipl_vi *vi, const void *from, size_t bytes)
{
    vipl_biased_lock_own(&vi->recv.lock);
    bool taken = recv_take_locked(vi, from, bytes);
    vipl_biased_unlock(&vi->recv.lock);
    return taken;
}

/* --- receives that a device takes when they are posted: under the receive lock --- */

/* Hands the next receive over to the backend; false: the device has no room. */
static bool hand_over(struct vipl_vi *vi, struct vipl_work *work)
{
    struct vipl_recv recv; /* not cleared */
    work->status = vipl_descriptor_read_posted(vi, work, &recv, &work->length);
    work->invalid = recv.invalid;
    recv.sequence = vi->recv.executed;
    if (vi->nic->ops->post_recv(vi->nic->be, vi, &recv) != VIPL_POSTED_PENDING) {
        return false;
    }
    vi->recv.executed++;
    vi->recvs_given = true;
    work->state = VIPL_WORK_PENDING;
    return true;
}

void vipl_recvs_hand_over_locked(struct vipl_vi *vi)
{
    struct vipl_work *work;
    assert(vipl_biased_is_held(&vi->recv.lock));
    if (!vi->takes_recvs || !is_receiving(vi)) {
        return;
    }
    do {
        work = next_recv(&vi->recv);
    } while (work != NULL && hand_over(vi, work));
}

void vipl_recvs_take_back_locked(struct vipl_vi *vi)
{
    struct vipl_queue *q = &vi->recv;
    assert(vipl_biased_is_held(&q->lock));
    if (!vi->takes_recvs) {
        return;
    }
    for (uint32_t i = q->completed; i != q->executed; i++) {
        struct vipl_work *work = vipl_queue_at(q, i);
        if (work->state == VIPL_WORK_PENDING) {
            work->state = VIPL_WORK_POSTED;
        }
    }
    q->executed = q->completed;
}

void vipl_up_recv_resume(struct vipl_vi *vi)
{
    vipl_biased_lock(&vi->recv.lock);
    vipl_recvs_hand_over_locked(vi);
    vipl_biased_unlock(&vi->recv.lock);
}

void vipl_up_recv_missing(struct vipl_vi *vi)
{
    vipl_biased_lock(&vi->recv.lock);
    if (is_receiving(vi)) {
        report_empty(vi);
    }
    vipl_biased_unlock(&vi->recv.lock);
}

/* The status of a receive that a device has finished. The device knows only the memory that was
 * handed over: a message that was too long for that memory may have fitted into the receive, and
 * then the status is the one that vipl_descriptor_read_posted() found. */
static uint32_t device_recv_status(const struct vipl_work *work, uint32_t status, uint32_t length)
{
    bool beyond = (status & VIP_STATUS_LENGTH_ERROR) != 0 && length <= work->length;
    return work->status != 0 && (work->invalid || beyond) ? work->status : status;
}

void vipl_up_recv_done(struct vipl_vi *vi, uint32_t sequence, uint32_t status, uint32_t length, bool rdma,
                       const uint32_t *immediate)
{
    vipl_biased_lock(&vi->recv.lock);
    struct vipl_work *work = pending_work(&vi->recv, sequence);
    if (work != NULL) {
        status = rdma ? status : device_recv_status(work, status, length);
        finish_recv(vi, work, status | recv_op_bits(work, rdma, immediate), length);
    } else if (!vi->unknown_done_logged) {
        vi->unknown_done_logged = true;
        vipl_log(VIPL_LOG_ERROR, "the device reports receive %u of vi %p, which it does not have",
                 (unsigned)sequence, vi->handle);
    }
    vipl_biased_unlock(&vi->recv.lock);
}

/* --- RDMA: under the receive lock --- */

bool vipl_up_rdma_allows(struct vipl_vi *vi, bool write, VIP_MEM_HANDLE handle, uint64_t address,
                         uint64_t bytes)
{
    assert(vipl_biased_is_held(&vi->recv.lock));
    bool enabled = (write ? vi->attributes.EnableRdmaWrite : vi->attributes.EnableRdmaRead) != VIP_FALSE;
    vipl_queue_reads(&vi->recv);
    return enabled && vi->handle != NULL &&
           (bytes == 0 || vipl_mem_covers(&vi->nic->mem, handle, address, bytes, vi->tag,
                                          write ? VIPL_RIGHT_RDMA_WRITE : VIPL_RIGHT_RDMA_READ));
}

bool vipl_up_rdma_allowed(struct vipl_vi *vi, bool write, VIP_MEM_HANDLE handle, uint64_t address,
                          uint64_t bytes)
{
    bool allowed = vipl_up_rdma_allows(vi, write, handle, address, bytes);
    if (VIPL_UNLIKELY(!allowed)) {
        vipl_up_rdma_refuse(vi, write);
    }
    return allowed;
}

void vipl_up_rdma_refuse(struct vipl_vi *vi, bool write)
{
    VIP_ERROR_CODE code = write ? VIP_ERROR_RDMAW_PROT : VIP_ERROR_RDMAR_PROT;
    assert(vipl_biased_is_held(&vi->recv.lock));
    if (vipl_vi_is_reliable(vi)) {
        vipl_vi_fail(vi, code);
    } else {
        vipl_vi_report(vi, VIP_RESOURCE_VI, code,
                       write ? VIP_STATUS_OP_REMOTE_RDMA_WRITE : VIP_STATUS_OP_RDMA_READ, NULL);
    }
}

enum vipl_mem_fault vipl_up_rdma_fault(struct vipl_vi *vi, bool write, VIP_MEM_HANDLE handle,
                                       uint64_t address, uint64_t bytes)
{
    assert(vipl_biased_is_held(&vi->recv.lock));
    if ((write ? vi->attributes.EnableRdmaWrite : vi->attributes.EnableRdmaRead) == VIP_FALSE) {
        return VIPL_MEM_NO_RIGHT;
    }
    vipl_queue_reads(&vi->recv);
    return vipl_mem_fault(&vi->nic->mem, handle, address, bytes, vi->tag,
                          write ? VIPL_RIGHT_RDMA_WRITE : VIPL_RIGHT_RDMA_READ);
}
