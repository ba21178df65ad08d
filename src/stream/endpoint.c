/* SPDX-License-Identifier: MIT */
/* One end of a stream: its life, its events and its watches. */
#include "stream/endpoint.h"

#include <errno.h>
#include <string.h>

#include "base/lock_rank.h"
#include "base/log.h"
#include "stream/nic.h"
#include "vipl/posix.h"

enum {
    DESCRIPTORS = VIPL_STREAM_MESSAGES + VIPL_STREAM_SEND_SLOTS + 1,
    BUFFERS_AT = (DESCRIPTORS * sizeof(VIP_DESCRIPTOR) + 4095) / 4096 * 4096,
    MEMORY_BYTES = BUFFERS_AT + (VIPL_STREAM_MESSAGES + VIPL_STREAM_SEND_SLOTS) * VIPL_STREAM_MESSAGE_BYTES
};

VIP_VI_ATTRIBUTES vipl_stream_attributes(void)
{
    return (VIP_VI_ATTRIBUTES){.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY,
                               .MaxTransferSize = VIPL_STREAM_MAX_BYTES,
                               .EnableRdmaRead = VIP_TRUE};
}

struct vipl_stream_window vipl_stream_own_window(void)
{
    return (struct vipl_stream_window){VIPL_STREAM_MESSAGES, VIPL_STREAM_MESSAGE_BYTES};
}

/* Makes the VI and its memory, and posts the receives. */
static VIP_RETURN make_vi(struct vipl_stream *stream)
{
    VIP_MEM_ATTRIBUTES memory = {NULL, VIP_FALSE, VIP_FALSE};
    VIP_VI_ATTRIBUTES vi = vipl_stream_attributes();
    VIP_NIC_HANDLE nic = stream->nic->nic;
    VIP_RETURN rc = VipRegisterMem(nic, stream->memory, MEMORY_BYTES, &memory, &stream->region);
    if (rc != VIP_SUCCESS) {
        return rc;
    }
    rc = VipCreateVi(nic, &vi, NULL, stream->nic->cq, &stream->vi);
    if (rc != VIP_SUCCESS) {
        VipDeregisterMem(nic, stream->memory, stream->region);
    }
    return rc;
}

static struct vipl_stream *allocate(struct vipl_stream_nic *nic)
{
    struct vipl_stream *stream = vipl_zalloc(sizeof(*stream));
    if (stream == NULL) {
        return NULL;
    }
    stream->nic = nic;
    stream->memory = vipl_reserve(MEMORY_BYTES);
    if (stream->memory == NULL || make_vi(stream) != VIP_SUCCESS) {
        vipl_unreserve(stream->memory, MEMORY_BYTES);
        vipl_free(stream);
        return NULL;
    }
    stream->receives = (VIP_DESCRIPTOR *)(void *)stream->memory;
    stream->sends = stream->receives + VIPL_STREAM_MESSAGES;
    stream->read = stream->sends + VIPL_STREAM_SEND_SLOTS;
    return stream;
}

int vipl_stream_new(struct vipl_stream_nic *nic, struct vipl_stream **out)
{
    struct vipl_stream *stream = allocate(nic);
    *out = stream;
    if (stream == NULL) {
        return ENOMEM;
    }
    stream->generation = vipl_fork_generation();
    vipl_mutex_init(&stream->lock, VIPL_RANK_STREAM);
    vipl_list_init(&stream->watches);
    vipl_list_init(&stream->nic_link);
    vipl_list_init(&stream->attended_link);
    for (uint32_t slot = VIPL_STREAM_SEND_SLOTS; slot-- > 0;) {
        stream->free_slots[stream->free_count++] = (uint8_t)slot;
    }
    for (uint32_t slot = 0; slot < VIPL_STREAM_MESSAGES; slot++) {
        vipl_stream_post_receive_locked(stream, slot);
    }
    vipl_stream_nic_add(nic, stream);
    return 0;
}

void vipl_stream_refuse_offers(struct vipl_stream *stream)
{
    vipl_mutex_lock(&stream->lock);
    stream->state.refuses_offers = true;
    vipl_mutex_unlock(&stream->lock);
}

void vipl_stream_begin(struct vipl_stream *stream, struct vipl_stream_window peer)
{
    vipl_mutex_lock(&stream->lock);
    vipl_stream_state_begin(&stream->state, vipl_stream_own_window(), peer);
    stream->begun = true;
    vipl_stream_flush_locked(stream);
    vipl_stream_attend_locked(stream);
    vipl_stream_notify_locked(stream); /* the stream is writable now */
    vipl_mutex_unlock(&stream->lock);
}

struct vipl_stream_nic *vipl_stream_device(const struct vipl_stream *stream)
{
    return stream->nic;
}

VIP_VI_HANDLE vipl_stream_vi(const struct vipl_stream *stream)
{
    return stream->vi;
}

void vipl_stream_lose_locked(struct vipl_stream *stream, const char *reason)
{
    if (reason != NULL && !stream->lost) {
        vipl_log(VIPL_LOG_ERROR, "a stream is reset: %s", reason);
        VipDisconnect(stream->vi);
    }
    stream->lost = true;
    stream->arrivals++;
}

unsigned vipl_stream_events_locked(struct vipl_stream *stream)
{
    bool ended = stream->lost || stream->state.fin_received;
    bool aborted = vipl_stream_is_aborted(stream);
    bool broken = aborted || (stream->lost && !stream->state.fin_received);
    bool refuses = ended && (stream->lost || stream->state.close_received);
    unsigned events = 0;
    if (stream->first != stream->last || stream->offered.length > 0 || ended || aborted || stream->stopped) {
        events |= VIPL_STREAM_READABLE;
    }
    if (refuses || stream->state.finishing || aborted ||
        (stream->begun && vipl_stream_can_send_locked(stream, VIPL_STREAM_DATA))) {
        events |= VIPL_STREAM_WRITABLE;
    }
    events |= ended || broken ? VIPL_STREAM_ENDED : 0;
    events |= broken ? VIPL_STREAM_BROKEN : 0;
    events |= !broken && stream->lost && !stream->state.close_received ? VIPL_STREAM_RESET : 0;
    events |= stream->state.offering && !stream->lost ? VIPL_STREAM_OFFERING : 0;
    return events;
}

void vipl_stream_notify_locked(struct vipl_stream *stream)
{
    for (struct vipl_list *l = stream->watches.next; l != &stream->watches; l = l->next) {
        struct vipl_stream_watch *watch = VIPL_CONTAINER(l, struct vipl_stream_watch, link);
        watch->notify(watch);
    }
}

void vipl_stream_add_watch(struct vipl_stream *stream, struct vipl_stream_watch *watch)
{
    vipl_mutex_lock(&stream->lock);
    vipl_list_append(&stream->watches, &watch->link);
    vipl_mutex_unlock(&stream->lock);
}

void vipl_stream_remove_watch(struct vipl_stream *stream, struct vipl_stream_watch *watch)
{
    vipl_mutex_lock(&stream->lock);
    vipl_list_remove(&watch->link);
    vipl_mutex_unlock(&stream->lock);
}

unsigned vipl_stream_events(struct vipl_stream *stream)
{
    vipl_mutex_lock(&stream->lock);
    vipl_stream_take_locked(stream);
    unsigned events = vipl_stream_events_locked(stream);
    vipl_mutex_unlock(&stream->lock);
    return events;
}

uint32_t vipl_stream_arrivals(struct vipl_stream *stream)
{
    vipl_mutex_lock(&stream->lock);
    uint32_t arrivals = stream->arrivals;
    vipl_mutex_unlock(&stream->lock);
    return arrivals;
}

uint32_t vipl_stream_rooms(struct vipl_stream *stream)
{
    vipl_mutex_lock(&stream->lock);
    uint32_t rooms = stream->rooms;
    vipl_mutex_unlock(&stream->lock);
    return rooms;
}

struct vipl_stream_use vipl_stream_used(struct vipl_stream *stream)
{
    vipl_mutex_lock(&stream->lock);
    struct vipl_stream_use use = {(uint64_t)stream->sent + stream->last, stream->peer_began};
    vipl_mutex_unlock(&stream->lock);
    return use;
}

size_t vipl_stream_unsent(struct vipl_stream *stream)
{
    vipl_mutex_lock(&stream->lock);
    vipl_stream_reap_locked(stream);
    size_t bytes = stream->unsent + stream->held;
    vipl_mutex_unlock(&stream->lock);
    return bytes;
}

/* Returns true, once, if a closed stream has nothing to wait for any more. */
static bool is_over_locked(struct vipl_stream *stream)
{
    bool delivered =
        stream->state.close_received || (stream->state.close_sent && stream->state.unacknowledged == 0);
    if (!stream->state.closing || stream->over ||
        !(stream->lost || vipl_stream_is_aborted(stream) || delivered)) {
        return false;
    }
    stream->over = true;
    return true;
}

void vipl_stream_progress(struct vipl_stream *stream)
{
    vipl_mutex_lock(&stream->lock);
    vipl_stream_take_locked(stream);
    bool over = is_over_locked(stream);
    vipl_stream_attend_locked(stream);
    vipl_mutex_unlock(&stream->lock);
    if (over) {
        vipl_stream_put(stream);
    }
}

static uint32_t ending; /* atomic: the fork generation, plus 1, of a process that ends; 0: none */

void vipl_stream_process_ends(void)
{
    vipl_store_relaxed(&ending, vipl_fork_generation() + 1);
}

void vipl_stream_destroy(struct vipl_stream *stream)
{
    if (vipl_load_relaxed(&ending) == vipl_fork_generation() + 1) {
        return;
    }
    VipDisconnect(stream->vi);
    VipDestroyVi(stream->vi);
    if (stream->offer_memory != NULL) {
        VipDeregisterMem(stream->nic->nic, stream->offer_memory, stream->offer_region);
    }
    VipDeregisterMem(stream->nic->nic, stream->memory, stream->region);
    vipl_unreserve(stream->memory, MEMORY_BYTES);
    vipl_free(stream);
}

void vipl_stream_stop(struct vipl_stream *stream)
{
    vipl_mutex_lock(&stream->lock);
    stream->stopped = true;
    stream->arrivals++;
    vipl_stream_attend_locked(stream);
    vipl_stream_notify_locked(stream);
    vipl_mutex_unlock(&stream->lock);
}

void vipl_stream_abort(struct vipl_stream *stream)
{
    vipl_store_release(&stream->aborted, 1);
    VipDisconnect(stream->vi); /* without the lock: a call that has it may wait for the peer */
    vipl_mutex_lock(&stream->lock);
    stream->lost = true;
    stream->arrivals++;
    vipl_stream_attend_locked(stream);
    vipl_stream_notify_locked(stream);
    vipl_mutex_unlock(&stream->lock);
}

/* Begins to close. Returns true if nothing is left to wait for. */
static bool close_locked(struct vipl_stream *stream)
{
    vipl_stream_take_locked(stream);
    bool unread = stream->first != stream->last || stream->offered.length > 0;
    stream->state.closing = true;
    if (!stream->begun || unread) {
        vipl_store_release(&stream->aborted, 1); /* the peer sees a reset */
    } else {
        vipl_stream_flush_locked(stream);
    }
    bool over = is_over_locked(stream);
    vipl_stream_attend_locked(stream);
    return over;
}

void vipl_stream_close(struct vipl_stream *stream)
{
    if (stream->generation != vipl_fork_generation()) {
        vipl_stream_abandon(stream);
        return;
    }
    vipl_mutex_lock(&stream->lock);
    bool over = close_locked(stream);
    vipl_mutex_unlock(&stream->lock);
    if (over) {
        vipl_stream_put(stream);
    }
}

void vipl_stream_abandon(struct vipl_stream *stream)
{
    vipl_unreserve(stream->memory, MEMORY_BYTES);
    vipl_free(stream);
}

size_t vipl_stream_length(const struct vipl_iov *pieces, unsigned count)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < count; i++) {
        bytes += pieces[i].len;
    }
    return bytes;
}

/* Copies between a buffer and the bytes of pieces from `offset` on. */
static void copy(const struct vipl_iov *pieces, unsigned count, size_t offset, char *buffer, size_t bytes,
                 bool gather)
{
    for (unsigned i = 0; i < count && bytes > 0; i++) {
        if (offset >= pieces[i].len) {
            offset -= pieces[i].len;
            continue;
        }
        size_t part = pieces[i].len - offset < bytes ? pieces[i].len - offset : bytes;
        char *piece = (char *)pieces[i].base + offset;
        memcpy(gather ? buffer : piece, gather ? piece : buffer, part);
        buffer += part;
        bytes -= part;
        offset = 0;
    }
}

void vipl_stream_gather(void *to, const struct vipl_iov *pieces, unsigned count, size_t offset, size_t bytes)
{
    copy(pieces, count, offset, to, bytes, true);
}

void vipl_stream_scatter(const struct vipl_iov *pieces, unsigned count, size_t offset, const void *from,
                         size_t bytes)
{
    copy(pieces, count, offset, (char *)(uintptr_t)from, bytes, false);
}
