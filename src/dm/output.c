/* SPDX-License-Identifier: MIT */
/* The files of a capture; see output.h. */
#include "dm/output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dm/reason.h"

static int cannot_write(int error, struct vipl_dm_reason *reason)
{
    return dm_fail(reason, error, "the capture cannot be written: %s", strerror(error));
}

bool dm_output_name(const char *name, uint64_t number, char *text, size_t room)
{
    const char *folder = strrchr(name, '/');
    const char *end = strrchr(name, '.');
    size_t stem;

    if (end == NULL || (folder != NULL && end < folder)) {
        end = name + strlen(name);
    }
    stem = (size_t)(end - name);
    return snprintf(text, room, "%.*s.%05" PRIu64 "%s", (int)stem, name, number, end) < (int)room;
}

/* --- one file --------------------------------------------------------------------------------- */

static int begin_file(struct dm_outputs *outputs, struct dm_output *output, struct vipl_dm_reason *reason)
{
    struct dm_store_wish wish = {DM_WRITE, outputs->is_compact, outputs->memory};
    char name[sizeof(outputs->name) + 32];
    uint32_t bytes;
    int error;

    snprintf(name, sizeof(name), "%s", outputs->name);
    if (outputs->ring_bytes != 0 && !dm_output_name(outputs->name, ++outputs->number, name, sizeof(name))) {
        return cannot_write(ENAMETOOLONG, reason);
    }
    memset(output, 0, sizeof(*output));
    error = dm_store_open(name, &wish, &output->store, reason);
    if (error != 0) {
        return error;
    }
    bytes = outputs->is_compact ? dm_section_compact_head(&outputs->section, outputs->head)
                                : dm_section_head(&outputs->section, outputs->slot_bytes, outputs->head);
    error = output->store->kind->write(output->store, 0, outputs->head, bytes);
    output->bytes = bytes;
    return error != 0 ? cannot_write(error, reason) : 0;
}

/* The last file that is not part of the ring any more. */
static void remove_oldest(const struct dm_outputs *outputs, const struct dm_store *store)
{
    char name[sizeof(outputs->name) + 32];

    if (outputs->ring_bytes != 0 && outputs->ring_files != 0 && outputs->number > outputs->ring_files &&
        dm_output_name(outputs->name, outputs->number - outputs->ring_files, name, sizeof(name))) {
        (void)store->kind->remove(strchr(name, ':') + 1); /* the user may have taken it away */
    }
}

static int end_file(struct dm_outputs *outputs, struct dm_output *output, struct vipl_dm_reason *reason)
{
    struct dm_store *store = output->store;
    struct dm_statistics statistics = outputs->statistics;
    uint8_t tail[DM_TAIL_ROOM];
    uint32_t bytes;
    int error;

    statistics.first = output->first;
    statistics.last = output->last;
    bytes = outputs->is_compact ? dm_section_statistics(&statistics, tail)
                                : dm_section_tail(&statistics, outputs->slot_bytes, tail);
    error = store->kind->write(store, output->bytes, tail, bytes);
    if (error == 0) {
        error = store->kind->truncate(store, output->bytes + bytes);
    }
    dm_store_close(store);
    output->store = NULL;
    return error != 0 ? cannot_write(error, reason) : 0;
}

/* --- the ring --------------------------------------------------------------------------------- */

int dm_outputs_begin(struct dm_outputs *outputs, struct vipl_dm_reason *reason)
{
    outputs->head = malloc(DM_HEAD_ROOM);
    if (outputs->head == NULL) {
        return cannot_write(ENOMEM, reason);
    }
    return begin_file(outputs, &outputs->outputs[0], reason);
}

/* A place that is free, or becomes so when the transfers into a full file have ended. */
static int find_place(struct dm_outputs *outputs, unsigned *place, struct vipl_dm_reason *reason)
{
    for (unsigned i = 0; i < DM_MAX_OUTPUTS; i++) {
        if (outputs->outputs[i].store == NULL) {
            *place = i;
            return 0;
        }
    }
    return dm_fail(reason, EBUSY, "the store takes longer for a file than three more files take to fill");
}

/* The next file. The full one is ended here, or when its last transfer ends. */
static int go_on(struct dm_outputs *outputs, struct vipl_dm_reason *reason)
{
    struct dm_output *full = &outputs->outputs[outputs->current];
    unsigned place = 0;
    int error = find_place(outputs, &place, reason);

    if (error != 0) {
        return error;
    }
    error = begin_file(outputs, &outputs->outputs[place], reason);
    if (error != 0) {
        return error;
    }
    outputs->current = place;
    full->is_full = true;
    remove_oldest(outputs, outputs->outputs[place].store);
    return full->pending == 0 ? end_file(outputs, full, reason) : 0;
}

int dm_outputs_write(struct dm_outputs *outputs, struct dm_transfer *transfer, uint32_t used, uint64_t first,
                     uint64_t last, struct vipl_dm_reason *reason)
{
    struct dm_output *output = &outputs->outputs[outputs->current];
    int error;

    if (outputs->ring_bytes != 0 && output->first != 0 && output->bytes + used > outputs->ring_bytes) {
        error = go_on(outputs, reason);
        if (error != 0) {
            return error;
        }
        output = &outputs->outputs[outputs->current];
    }
    transfer->offset = output->bytes;
    error = output->store->kind->submit(output->store, transfer);
    if (error != 0) {
        return cannot_write(error, reason);
    }
    output->pending++;
    output->bytes += used;
    output->first = output->first == 0 ? first : output->first;
    output->last = last;
    return 0;
}

/* Ended transfers of one file into `cookies`; returns how many, or -1. */
static int reap_file(struct dm_outputs *outputs, struct dm_output *output, uint32_t *cookies, unsigned room,
                     bool wait, struct vipl_dm_reason *reason)
{
    struct dm_transferred ended[16];
    unsigned count = output->store->kind->reap(output->store, ended, room < 16 ? room : 16, wait);
    int error = 0;

    for (unsigned i = 0; i < count; i++) {
        cookies[i] = ended[i].cookie;
        error = ended[i].error != 0 ? ended[i].error : error;
    }
    output->pending -= count;
    if (error != 0) {
        cannot_write(error, reason);
        return -1;
    }
    if (output->is_full && output->pending == 0 && end_file(outputs, output, reason) != 0) {
        return -1;
    }
    return (int)count;
}

int dm_outputs_reap(struct dm_outputs *outputs, uint32_t *cookies, unsigned room, bool wait,
                    struct vipl_dm_reason *reason)
{
    unsigned count = 0;

    for (unsigned i = 0; i < DM_MAX_OUTPUTS && count < room; i++) {
        struct dm_output *output = &outputs->outputs[i];
        int got;

        if (output->store == NULL || output->pending == 0) {
            continue;
        }
        got = reap_file(outputs, output, cookies + count, room - count, wait && count == 0, reason);
        if (got < 0) {
            return -1;
        }
        count += (unsigned)got;
    }
    return (int)count;
}

uint32_t dm_outputs_pending(const struct dm_outputs *outputs)
{
    uint32_t pending = 0;

    for (unsigned i = 0; i < DM_MAX_OUTPUTS; i++) {
        pending += outputs->outputs[i].store != NULL ? outputs->outputs[i].pending : 0;
    }
    return pending;
}

int dm_outputs_end(struct dm_outputs *outputs, struct vipl_dm_reason *reason)
{
    return end_file(outputs, &outputs->outputs[outputs->current], reason);
}

void dm_outputs_close(struct dm_outputs *outputs)
{
    for (unsigned i = 0; i < DM_MAX_OUTPUTS; i++) {
        dm_store_close(outputs->outputs[i].store);
        outputs->outputs[i].store = NULL;
    }
    free(outputs->head);
    outputs->head = NULL;
}
