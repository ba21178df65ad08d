/* SPDX-License-Identifier: MIT */
/* The life of a capture: its parts, what is refused, and its end; see capture.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dm/bytes.h"
#include "dm/capture.h"
#include "dm/path.h"
#include "dm/reason.h"
#include "dm/slot.h"

static void close_capture_parts(const struct dm_capture_parts *parts)
{
    dm_port_close(parts->port);
    dm_memory_close(parts->memory);
}

static int check_receive(const struct vipl_dm_receive *receive, struct vipl_dm_reason *reason)
{
    const struct dm_store_kind *kind;
    const char *argument;
    int error;

    if (receive->snaplen > DM_MAX_SNAPLEN) {
        return dm_fail(reason, EINVAL, "%" PRIu32 " bytes of a packet are more than %u", receive->snaplen,
                       DM_MAX_SNAPLEN);
    }
    if ((receive->ring_bytes == 0) != (receive->ring_files == 0)) {
        return dm_fail(reason, EINVAL, "a ring has both a number of files and a size");
    }
    error = dm_path_check(&receive->path, reason);
    if (error != 0) {
        return error;
    }
    kind = dm_store_kind_of(receive->path.store, &argument, reason, &error);
    if (kind == NULL) {
        return error;
    }
    if (receive->ring_bytes != 0 && kind->remove == NULL) {
        return dm_fail(reason, ENOTSUP, "store \"%s\" has no rings of files", receive->path.store);
    }
    if (strlen(receive->path.store) >= sizeof(((struct dm_outputs *)NULL)->name)) {
        return dm_fail(reason, ENAMETOOLONG, "the name of the store is too long");
    }
    return 0;
}

static int choose_snaplen(struct vipl_dm_capture *capture, struct vipl_dm_reason *reason)
{
    const struct dm_port *port = capture->parts.port;

    capture->snaplen = capture->receive.snaplen != 0 ? capture->receive.snaplen : port->longest;
    capture->snaplen = capture->snaplen < DM_MAX_SNAPLEN ? capture->snaplen : DM_MAX_SNAPLEN;
    capture->slot_bytes = dm_slot_bytes(capture->snaplen);
    return capture->snaplen >= port->least
               ? 0
               : dm_fail(reason, ENOTSUP, "port \"%s\" stores whole packets, of up to %" PRIu32 " bytes",
                         port->name, port->least);
}

/* Slots that never change, and chunks of them, whole units of every store. */
static int divide_memory(struct vipl_dm_capture *capture, struct vipl_dm_reason *reason)
{
    const struct dm_memory *memory = capture->parts.memory;
    uint32_t whole = dm_path_chunk_bytes(&capture->receive.path);
    uint32_t eight = 8 * capture->slot_bytes; /* a multiple of 4,096, as a slot is one of 512 */
    uint64_t ring;

    capture->slots = whole / eight * 8;
    ring = capture->slots == 0 ? 0 : memory->bytes / ((uint64_t)capture->slots * capture->slot_bytes);
    if (ring < 2) {
        return dm_fail(reason, EINVAL,
                       "memory of %" PRIu64 " bytes has no room for two chunks of %" PRIu32
                       ", or a chunk for eight slots of %" PRIu32,
                       memory->bytes, whole, capture->slot_bytes);
    }
    /* The store takes this number of chunks at a time, and two are for the port. */
    capture->ring = (uint32_t)(ring < DM_MAX_TRANSFERS ? ring : DM_MAX_TRANSFERS);
    capture->rooms = calloc(capture->ring, sizeof(*capture->rooms));
    if (capture->rooms == NULL) {
        return dm_fail(reason, ENOMEM, "no memory for %" PRIu32 " chunks", capture->ring);
    }
    for (uint32_t i = 0; i < capture->ring; i++) {
        capture->rooms[i].at = memory->base + (uint64_t)i * capture->slots * capture->slot_bytes;
        for (uint32_t slot = 0; slot < capture->slots; slot++) {
            dm_slot_prepare(capture->rooms[i].at + (uint64_t)slot * capture->slot_bytes, capture->slot_bytes);
        }
    }
    return 0;
}

static void name_outputs(struct vipl_dm_capture *capture)
{
    const struct vipl_dm_receive *receive = &capture->receive;
    struct dm_outputs *outputs = &capture->outputs;

    memcpy(outputs->name, receive->path.store, strlen(receive->path.store));
    outputs->ring_bytes = receive->ring_bytes;
    outputs->ring_files = receive->ring_files;
    outputs->is_compact = receive->compact != 0;
    outputs->slot_bytes = capture->slot_bytes;
    outputs->memory = capture->parts.memory;
    outputs->section =
        (struct dm_section){capture->parts.port->name, capture->parts.port->clock, capture->snaplen};
}

static int begin_capture(struct vipl_dm_capture *capture, struct vipl_dm_reason *reason)
{
    const struct dm_capture_parts *parts = &capture->parts;
    int error = dm_outputs_begin(&capture->outputs, reason);

    if (error != 0) {
        return error;
    }
    capture->start = parts->clock->now(parts->clock->context);
    (void)parts->port->kind->dropped(parts->port); /* before the start */
    if (parts->port->kind->begin == NULL) {
        return 0;
    }
    dm_capture_post(capture);
    return parts->port->kind->begin(parts->port, reason);
}

int dm_capture_create(const struct vipl_dm_receive *receive, const struct dm_capture_parts *parts,
                      struct vipl_dm_capture **out, struct vipl_dm_reason *reason)
{
    struct vipl_dm_capture *capture = calloc(1, sizeof(*capture));
    int error = ENOMEM;

    if (capture == NULL) {
        close_capture_parts(parts);
        return dm_fail(reason, error, "no memory for a capture");
    }
    capture->parts = *parts;
    capture->receive = *receive;
    error = choose_snaplen(capture, reason);
    if (error == 0) {
        error = divide_memory(capture, reason);
    }
    if (error == 0) {
        name_outputs(capture);
    }
    if (error == 0 && receive->only_explain == 0) {
        error = begin_capture(capture, reason);
    }
    if (error != 0) {
        vipl_dm_capture_close(capture);
        return error;
    }
    *out = capture;
    return 0;
}

int vipl_dm_capture_open(const struct vipl_dm_receive *receive, struct vipl_dm_capture **capture,
                         struct vipl_dm_reason *reason)
{
    struct dm_capture_parts parts = {NULL, NULL, &dm_clock_system};
    int error = check_receive(receive, reason);

    if (error == 0) {
        error = dm_path_open(&receive->path, DM_RECEIVE, &parts.port, &parts.memory, reason);
    }
    if (error == 0 && receive->compact != 0 && !parts.memory->kind->is_main) {
        error = dm_fail(reason, ENOTSUP,
                        "memory \"%s\": the CPU compacts packets, and is to leave this memory alone",
                        receive->path.memory);
    }
    if (error != 0) {
        close_capture_parts(&parts);
        return error;
    }
    return dm_capture_create(receive, &parts, capture, reason);
}

void vipl_dm_capture_explain(const struct vipl_dm_capture *capture, char *text, size_t room)
{
    const struct dm_outputs *outputs = &capture->outputs;
    const struct dm_store *store = outputs->outputs[outputs->current].store;

    snprintf(text, room,
             "port    %s\nmemory  %s, %" PRIu32 " chunks of %" PRIu32 " slots of %" PRIu32
             " bytes\nstore   %s%s\npackets of at most %" PRIu32 " bytes, time stamps: %s\n",
             capture->parts.port->text, capture->parts.memory->text, capture->ring, capture->slots,
             capture->slot_bytes, store != NULL ? store->text : outputs->name,
             outputs->is_compact ? ", compacted by the CPU" : ", slots as they are", capture->snaplen,
             capture->parts.port->clock);
}

void vipl_dm_capture_close(struct vipl_dm_capture *capture)
{
    if (capture == NULL) {
        return;
    }
    while (dm_outputs_pending(&capture->outputs) > 0) {
        struct vipl_dm_reason ignored = {""};
        uint32_t cookies[1];
        (void)dm_outputs_reap(&capture->outputs, cookies, 1, true, &ignored);
    }
    dm_outputs_close(&capture->outputs);
    close_capture_parts(&capture->parts);
    free(capture->rooms);
    free(capture);
}
