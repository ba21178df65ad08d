/* SPDX-License-Identifier: MIT */
/* A sender at work: which packet is next, when it may leave, and giving it to the port; see
 * sender.h. */
#include "dm/sender.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "dm/reason.h"

/* A port that has no room is asked again after this time. */
#define RETRY_NS UINT64_C(10000)

static uint64_t read_clock(const struct dm_clock *clock)
{
    return clock->now(clock->context);
}

/* --- which packet is next --------------------------------------------------------------------- */

static void begin_pass(struct vipl_dm_sender *sender)
{
    sender->entry = 0;
    sender->counters.refused += sender->parts.index.left_out;
    sender->counters.lost += sender->parts.index.left_out;
    if (sender->passes > 0) {
        dm_pace_before(&sender->pace, sender->mean_gap);
    }
}

/* Goes on to the next packet of the index, and tells the pace of the gaps up to it. */
static void find_packet(struct vipl_dm_sender *sender, struct dm_entry *entry)
{
    const struct vipl_dm_send *send = &sender->send;

    if (!sender->has_entry && send->count != 0 && sender->taken == send->count) {
        sender->is_taken = true;
    }
    while (!sender->is_taken) {
        if (sender->entry == sender->parts.index.entries) {
            sender->passes++;
            if (send->loops != 0 && sender->passes == send->loops) {
                sender->is_taken = true;
                return;
            }
            begin_pass(sender);
        }
        dm_index_get(&sender->parts.index, sender->entry, entry);
        if (sender->has_entry) {
            return;
        }
        dm_pace_before(&sender->pace, entry->bytes == 0 ? entry->offset : entry->gap);
        if (entry->bytes > 0) {
            sender->has_entry = true;
            return;
        }
        sender->entry++;
    }
}

/* The chunk that has the next packet, or NULL: the store is behind, or the batch has to leave
 * first, because a chunk is given up only when all its packets are the port's. */
static const struct dm_chunk *find_chunk(struct vipl_dm_sender *sender)
{
    for (;;) {
        struct dm_chunk *chunk = &sender->chunks[sender->chunk];

        if (chunk->state != DM_CHUNK_READY) {
            sender->counters.store_behind += sender->is_waiting ? 0 : 1;
            sender->is_waiting = true;
            return NULL;
        }
        if (sender->entry >= chunk->first && sender->entry < chunk->end) {
            sender->is_waiting = false;
            return chunk;
        }
        if (sender->batch_count > 0) {
            return NULL;
        }
        if (!sender->is_resident) {
            chunk->state = DM_CHUNK_SENDING;
            chunk->last = sender->handed;
        }
        sender->chunk = sender->chunk + 1 < sender->ring ? sender->chunk + 1 : 0;
    }
}

static bool is_over(const struct vipl_dm_sender *sender, uint64_t release, uint64_t now)
{
    uint64_t time = sender->pace.kind == VIPL_DM_TOP_SPEED ? now : release;

    return sender->send.duration_ns != 0 && time - sender->start >= sender->send.duration_ns;
}

/* Collects packets that are due. Returns the time at which the next one is. */
static uint64_t gather(struct vipl_dm_sender *sender, uint64_t now)
{
    struct dm_entry entry = {0, 0, 0, false};

    sender->batch_first = 0;
    sender->batch_count = 0;
    while (sender->batch_count < DM_BATCH) {
        const struct dm_chunk *chunk;
        uint64_t release;

        find_packet(sender, &entry);
        if (sender->is_taken) {
            return now;
        }
        release = dm_pace_release(&sender->pace);
        if (is_over(sender, release, now)) {
            sender->is_taken = true;
            return now;
        }
        if (release > now) {
            return release;
        }
        chunk = find_chunk(sender);
        if (chunk == NULL) {
            return now;
        }
        sender->batch[sender->batch_count] = (struct dm_packet){chunk->at + (entry.offset - chunk->base),
                                                                entry.bytes, sender->launches ? release : 0};
        sender->released[sender->batch_count] = release;
        sender->is_partial[sender->batch_count++] = entry.is_partial;
        dm_pace_after(&sender->pace, entry.bytes);
        sender->has_entry = false;
        sender->entry++;
        sender->taken++;
    }
    return now;
}

/* --- giving packets to the port --------------------------------------------------------------- */

static void count_sent(struct vipl_dm_sender *sender, unsigned sent, uint64_t now)
{
    struct vipl_dm_counters *counters = &sender->counters;

    for (unsigned i = sender->batch_first; i < sender->batch_first + sent; i++) {
        counters->sent++;
        counters->sent_bytes += sender->batch[i].bytes;
        counters->truncated += sender->is_partial[i] ? 1 : 0;
        if (!sender->launches && sender->pace.kind != VIPL_DM_TOP_SPEED) {
            uint64_t late = now - sender->released[i];
            counters->late_ns = late > counters->late_ns ? late : counters->late_ns;
        }
    }
    if (!sender->launches) {
        counters->elapsed_ns = now - sender->start;
    }
    sender->handed += sent;
    sender->batch_first += sent;
}

/* What became of packets after the port has taken them, where it says so. */
static int count_left(struct vipl_dm_sender *sender, struct vipl_dm_reason *reason)
{
    struct dm_port *port = sender->parts.port;
    struct vipl_dm_counters *counters = &sender->counters;
    struct dm_sent sent = {0};

    if (port->kind->sent == NULL) {
        return 0;
    }
    port->kind->sent(port, &sent);
    counters->refused += sent.refused - sender->left.refused;
    counters->lost += sent.refused - sender->left.refused;
    counters->sent -= sent.refused - sender->left.refused;
    counters->sent_bytes -= sent.refused_bytes - sender->left.refused_bytes;
    sender->left = sent;
    if (sender->launches) {
        counters->late_ns = sent.late_ns;
        counters->elapsed_ns = sent.last;
    } else if (port->kind->completed(port) < sender->handed) {
        counters->elapsed_ns = read_clock(sender->clock) - sender->start;
    }
    return sent.error == 0 ? 0 : dm_fail(reason, sent.error, "the port has failed: %s", strerror(sent.error));
}

static int send_batch(struct vipl_dm_sender *sender, uint64_t now, struct vipl_dm_reason *reason)
{
    struct dm_port *port = sender->parts.port;
    enum dm_send_end end = DM_SEND_ALL;
    unsigned sent = port->kind->send(port, sender->batch + sender->batch_first,
                                     sender->batch_count - sender->batch_first, &end);
    int error = errno;

    count_sent(sender, sent, now);
    switch (end) {
    case DM_SEND_ALL:
        sender->is_full = false;
        break;
    case DM_SEND_FULL:
        if (sent == 0) {
            sender->counters.no_slot += sender->is_full ? 0 : 1;
            sender->is_full = true;
            port->kind->wait(port, RETRY_NS);
        }
        break;
    case DM_SEND_REFUSED:
        sender->is_full = false;
        sender->counters.refused++;
        sender->counters.lost++;
        sender->batch_first++;
        break;
    case DM_SEND_FAILED:
        return dm_fail(reason, error, "the port cannot send: %s", strerror(error));
    }
    return 0;
}

static bool is_all_sent(const struct vipl_dm_sender *sender)
{
    return sender->is_taken && sender->batch_first == sender->batch_count &&
           sender->parts.port->kind->completed(sender->parts.port) == sender->handed;
}

/* Nothing is due before `next`, or the port has packets to send. `most`: nanoseconds. */
static void rest(struct vipl_dm_sender *sender, uint64_t now, uint64_t next, uint64_t most)
{
    if (next > now) {
        uint64_t until = next - now < most ? next : now + most;
        sender->clock->wait_until(sender->clock->context, until);
    } else if (sender->is_taken) {
        sender->parts.port->kind->wait(sender->parts.port, RETRY_NS);
    }
}

static void start_sending(struct vipl_dm_sender *sender)
{
    sender->is_started = true;
    sender->start = read_clock(sender->clock);
    dm_pace_start(&sender->pace, sender->send.pace, sender->send.rate, sender->send.burst, sender->start);
    begin_pass(sender);
}

/* One batch, or a rest of `most` nanoseconds. */
static int take_turn(struct vipl_dm_sender *sender, uint64_t most, int *is_done,
                     struct vipl_dm_reason *reason)
{
    uint64_t now = read_clock(sender->clock);
    uint64_t next = now;
    int error = 0;

    if (!sender->is_resident || sender->reading > 0) {
        dm_sender_free_chunks(sender);
        error = dm_sender_read(sender, false, reason);
    }
    if (error == 0 && sender->batch_first == sender->batch_count) {
        next = gather(sender, now);
    }
    if (error == 0 && sender->batch_first < sender->batch_count) {
        error = send_batch(sender, now, reason);
    } else if (error == 0 && is_all_sent(sender)) {
        *is_done = 1;
    } else if (error == 0) {
        rest(sender, now, next, most);
    }
    return error == 0 ? count_left(sender, reason) : error;
}

int vipl_dm_sender_run(struct vipl_dm_sender *sender, uint64_t nanoseconds, int *is_done,
                       struct vipl_dm_reason *reason)
{
    uint64_t now = read_clock(sender->parts.clock);
    uint64_t end = dm_add_time(now, nanoseconds);
    int error = 0;

    if (!sender->is_started) {
        start_sending(sender);
    }
    *is_done = 0;
    while (error == 0 && *is_done == 0 && now < end) {
        error = take_turn(sender, end - now, is_done, reason);
        now = read_clock(sender->parts.clock);
    }
    return error;
}

void vipl_dm_sender_counters(const struct vipl_dm_sender *sender, struct vipl_dm_counters *counters)
{
    *counters = sender->counters;
}
