/* SPDX-License-Identifier: MIT */
/* A capture at work: posting slots, making blocks of packets, writing chunks; see capture.h. */
#include "dm/capture.h"

#include <errno.h>
#include <string.h>

#include "dm/bytes.h"
#include "dm/reason.h"
#include "dm/slot.h"

/* The longest sleep: after it, the store is looked at. */
#define CAPTURE_WAIT_NS UINT64_C(1000000)
#define REAP_AT_ONCE 16U /* chunks */

static uint8_t *slot_at(const struct vipl_dm_capture *capture, const struct dm_room *room, uint32_t slot)
{
    return room->at + (uint64_t)slot * capture->slot_bytes;
}

static uint32_t next_room(const struct vipl_dm_capture *capture, uint32_t room)
{
    return room + 1 < capture->ring ? room + 1 : 0;
}

/* --- what the port drops ---------------------------------------------------------------------- */

/* Drops since the last look are for want of a slot, or not. */
static void count_drops(struct vipl_dm_capture *capture)
{
    uint64_t dropped = capture->parts.port->kind->dropped(capture->parts.port);

    if (capture->is_starved) {
        capture->counters.no_slot += dropped;
    } else {
        capture->counters.missed += dropped;
    }
    capture->counters.lost += dropped;
}

static void set_starved(struct vipl_dm_capture *capture, bool is_starved)
{
    if (capture->is_starved != is_starved) {
        count_drops(capture);
        capture->counters.store_behind += is_starved ? 1 : 0;
        capture->is_starved = is_starved;
    }
}

/* --- slots ------------------------------------------------------------------------------------ */

/* A chunk is posted whole before the next one. If the next one is posted already, the port has the
 * whole ring. */
void dm_capture_post(struct vipl_dm_capture *capture)
{
    struct dm_port *port = capture->parts.port;
    struct dm_room *room = &capture->rooms[capture->post_room];

    while (room->state == DM_ROOM_FREE || (room->state == DM_ROOM_POSTED && room->posted < capture->slots)) {
        if (room->state == DM_ROOM_FREE) {
            *room = (struct dm_room){.state = DM_ROOM_POSTED, .at = room->at};
        }
        while (room->posted < capture->slots &&
               port->kind->post(port, slot_at(capture, room, room->posted) + DM_SLOT_HEADROOM,
                                capture->snaplen)) {
            room->posted++;
            capture->posted++;
        }
        if (room->posted < capture->slots) {
            break; /* the port has as many as it can have */
        }
        capture->post_room = next_room(capture, capture->post_room);
        room = &capture->rooms[capture->post_room];
    }
    set_starved(capture, capture->posted == 0);
}

static int write_room(struct vipl_dm_capture *capture, struct dm_room *room, struct vipl_dm_reason *reason)
{
    uint32_t used = capture->receive.compact != 0 ? room->dense : room->filled * capture->slot_bytes;
    struct dm_transfer transfer = {room->at, 0, used, (uint32_t)(room - capture->rooms)};

    if (capture->receive.compact == 0) { /* the last chunk may end inside a unit of the store */
        transfer.bytes =
            (uint32_t)dm_round_up(used, capture->outputs.outputs[capture->outputs.current].store->align);
    }
    room->state = DM_ROOM_WRITING;
    return dm_outputs_write(&capture->outputs, &transfer, used, room->first, room->last, reason);
}

static int take_arrival(struct vipl_dm_capture *capture, const struct dm_arrival *arrival,
                        struct vipl_dm_reason *reason)
{
    struct dm_room *room = &capture->rooms[capture->fill_room];
    uint8_t *slot = slot_at(capture, room, room->filled);
    bool is_partial = arrival->bytes < arrival->original;

    if (capture->receive.compact != 0) {
        room->dense += dm_slot_compact(slot, arrival, room->at + room->dense);
    } else {
        dm_slot_fill(slot, capture->slot_bytes, arrival);
    }
    capture->counters.received++;
    capture->counters.received_bytes += arrival->bytes;
    capture->counters.truncated += is_partial ? 1 : 0;
    capture->counters.lost += is_partial && capture->receive.snaplen == 0 ? 1 : 0;
    room->first = room->first == 0 ? arrival->time : room->first;
    room->last = arrival->time;
    room->filled++;
    capture->posted--;
    if (room->filled < capture->slots) {
        return 0;
    }
    capture->fill_room = next_room(capture, capture->fill_room);
    return write_room(capture, room, reason);
}

/* What has arrived, at most one batch. Returns how many packets, or a negative errno value. */
static int take_arrivals(struct vipl_dm_capture *capture, struct vipl_dm_reason *reason)
{
    struct dm_arrival arrivals[DM_BATCH];
    struct dm_port *port = capture->parts.port;
    unsigned room = DM_BATCH;
    int count;

    if (capture->receive.count != 0 && capture->receive.count - capture->counters.received < room) {
        room = (unsigned)(capture->receive.count - capture->counters.received);
    }
    if (room == 0) {
        return 0;
    }
    count = port->kind->receive(port, arrivals, room);
    if (count < 0) {
        dm_fail(reason, -count, "the port cannot receive: %s", strerror(-count));
        return count;
    }
    for (int i = 0; i < count; i++) {
        int error = take_arrival(capture, &arrivals[i], reason);
        if (error != 0) {
            return -error;
        }
    }
    return count;
}

/* Chunks that the store has. */
static int free_rooms(struct vipl_dm_capture *capture, bool wait, struct vipl_dm_reason *reason)
{
    uint32_t cookies[REAP_AT_ONCE];
    int count = dm_outputs_reap(&capture->outputs, cookies, REAP_AT_ONCE, wait, reason);

    for (int i = 0; i < count; i++) {
        capture->rooms[cookies[i]].state = DM_ROOM_FREE;
    }
    return count < 0 ? EIO : 0;
}

static void tell_statistics(struct vipl_dm_capture *capture)
{
    struct dm_statistics *statistics = &capture->outputs.statistics;
    const struct vipl_dm_counters *counters = &capture->counters;

    statistics->missed = counters->missed;
    statistics->no_slot = counters->no_slot;
    statistics->received = counters->received + counters->missed + counters->no_slot;
    statistics->kept = counters->received;
}

/* --- the calls -------------------------------------------------------------------------------- */

static bool has_count(const struct vipl_dm_capture *capture)
{
    return capture->receive.count != 0 && capture->counters.received == capture->receive.count;
}

static bool is_past(const struct vipl_dm_capture *capture, uint64_t now)
{
    return capture->receive.duration_ns != 0 && now - capture->start >= capture->receive.duration_ns;
}

int vipl_dm_capture_run(struct vipl_dm_capture *capture, uint64_t nanoseconds, int *is_done,
                        struct vipl_dm_reason *reason)
{
    const struct dm_clock *clock = capture->parts.clock;
    uint64_t now = clock->now(clock->context);
    uint64_t end = dm_add_time(now, nanoseconds);
    int error = 0;

    *is_done = 0;
    while (now < end) {
        int count;

        dm_capture_post(capture);
        count = take_arrivals(capture, reason);
        if (count < 0) {
            return -count;
        }
        tell_statistics(capture);
        error = free_rooms(capture, false, reason);
        if (error != 0) {
            return error;
        }
        now = clock->now(clock->context);
        capture->counters.elapsed_ns = now - capture->start;
        if (has_count(capture) || is_past(capture, now)) {
            *is_done = 1;
            break;
        }
        if (count == 0 && now < end) {
            uint64_t most = end - now < CAPTURE_WAIT_NS ? end - now : CAPTURE_WAIT_NS;
            if (capture->posted > 0) {
                capture->parts.port->kind->wait(capture->parts.port, most);
            } else {
                error = free_rooms(capture, true, reason); /* only the store can change that */
                if (error != 0) {
                    return error;
                }
            }
            now = clock->now(clock->context);
        }
    }
    count_drops(capture);
    return 0;
}

/* Waits for the store until nothing is on its way. */
static int quiet(struct vipl_dm_capture *capture, struct vipl_dm_reason *reason)
{
    struct vipl_dm_reason later = {""};
    int error = 0;

    while (dm_outputs_pending(&capture->outputs) > 0) {
        int bad = free_rooms(capture, true, error == 0 ? reason : &later);
        error = error == 0 ? bad : error;
    }
    return error;
}

/* What had arrived before the end. */
static int take_rest(struct vipl_dm_capture *capture, struct vipl_dm_reason *reason)
{
    int count;

    capture->parts.port->kind->halt(capture->parts.port);
    do {
        int error = free_rooms(capture, capture->posted == 0, reason);
        if (error != 0) {
            return error;
        }
        dm_capture_post(capture);
        count = take_arrivals(capture, reason);
        if (count < 0) {
            return -count;
        }
    } while (count > 0 || (capture->posted == 0 && dm_outputs_pending(&capture->outputs) > 0));
    return 0;
}

int vipl_dm_capture_stop(struct vipl_dm_capture *capture, struct vipl_dm_reason *reason)
{
    struct dm_room *room;
    struct vipl_dm_reason later = {""};
    int error = take_rest(capture, reason);
    int bad;

    if (!has_count(capture)) { /* what comes later is not wanted */
        count_drops(capture);
    }
    tell_statistics(capture);
    room = &capture->rooms[capture->fill_room];
    if (room->state == DM_ROOM_POSTED && room->filled > 0) { /* also if the port has failed */
        bad = write_room(capture, room, error == 0 ? reason : &later);
        error = error == 0 ? bad : error;
    }
    bad = quiet(capture, error == 0 ? reason : &later);
    error = error == 0 ? bad : error;
    bad = dm_outputs_end(&capture->outputs, error == 0 ? reason : &later);
    return error == 0 ? bad : error;
}

void vipl_dm_capture_counters(const struct vipl_dm_capture *capture, struct vipl_dm_counters *counters)
{
    *counters = capture->counters;
}
