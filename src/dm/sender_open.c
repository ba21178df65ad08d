/* SPDX-License-Identifier: MIT */
/* The life of a sender: its parts, what is refused, and its end; see sender.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dm/path.h"
#include "dm/reason.h"
#include "dm/sender.h"

static void close_parts(struct dm_sender_parts *parts)
{
    dm_port_close(parts->port);
    dm_store_close(parts->store);
    dm_memory_close(parts->memory);
    dm_index_free(&parts->index);
}

static int check_send(const struct vipl_dm_send *send, struct vipl_dm_reason *reason)
{
    uint64_t most = send->pace == VIPL_DM_RECORDED ? DM_MAX_RATE / 1000 : DM_MAX_RATE;

    if (send->reserved != 0 || (unsigned)send->pace > VIPL_DM_RECORDED) {
        return dm_fail(reason, EINVAL, "this version does not know what it is asked to do");
    }
    if (send->pace == VIPL_DM_TOP_SPEED ? send->rate != 0 : send->rate == 0 || send->rate > most) {
        return dm_fail(reason, EINVAL,
                       "a rate of %" PRIu64 " is outside of 1 to %" PRIu64 ", or there is no pace for it",
                       send->rate, most);
    }
    return dm_path_check(&send->path, reason);
}

static int check_parts(const struct dm_sender_parts *parts, struct vipl_dm_reason *reason)
{
    if (parts->index.packets == 0) {
        return dm_fail(reason, ENODATA, "the recording has no packet that can be sent");
    }
    if (parts->index.longest > parts->port->longest) {
        return dm_fail(reason, EMSGSIZE,
                       "the recording has packets of %" PRIu32 " bytes, and the port sends at most %" PRIu32,
                       parts->index.longest, parts->port->longest);
    }
    return 0;
}

/* The first chunks, as many as the ring has. */
static int fill(struct vipl_dm_sender *sender, struct vipl_dm_reason *reason)
{
    int error = dm_sender_read(sender, true, reason);

    while (error == 0 && sender->reading > 0) {
        error = dm_sender_read(sender, true, reason);
    }
    return error;
}

int dm_sender_create(const struct vipl_dm_send *send, const struct dm_sender_parts *parts,
                     struct vipl_dm_sender **out, struct vipl_dm_reason *reason)
{
    struct vipl_dm_sender *sender = calloc(1, sizeof(*sender));
    int error = ENOMEM;

    if (sender == NULL) {
        struct dm_sender_parts copy = *parts;
        close_parts(&copy);
        return dm_fail(reason, error, "no memory for a sender");
    }
    sender->parts = *parts;
    sender->send = *send;
    sender->chunk_bytes = dm_path_chunk_bytes(&send->path);
    sender->launches = parts->port->launch_clock != NULL && send->pace != VIPL_DM_TOP_SPEED;
    sender->clock = sender->launches ? parts->port->launch_clock : parts->clock;
    if (parts->index.packets > 1) {
        sender->mean_gap = parts->index.span / (parts->index.packets - 1);
    }
    error = check_parts(parts, reason);
    if (error == 0) {
        error = dm_sender_divide(sender, reason);
    }
    if (error == 0) {
        error = fill(sender, reason);
    }
    if (error != 0) {
        vipl_dm_sender_close(sender);
        return error;
    }
    *out = sender;
    return 0;
}

static int64_t read_store(void *context, uint64_t offset, uint8_t *to, uint32_t bytes)
{
    struct dm_store *store = context;

    return store->kind->read(store, offset, to, bytes);
}

static int make_index(struct dm_store *store, struct dm_index *index, struct vipl_dm_reason *reason)
{
    struct dm_source source = {read_store, store, store->bytes};

    return dm_index_make(&source, store->identity, index, reason);
}

int vipl_dm_index_write(const char *store_name, const char *path, struct vipl_dm_reason *reason)
{
    struct dm_store_wish wish = {DM_READ, false, NULL};
    struct dm_store *store = NULL;
    struct dm_index index;
    int error;

    if (store_name == NULL || path == NULL) {
        return dm_fail(reason, EINVAL, "a store and a file for the index are needed");
    }
    error = dm_store_open(store_name, &wish, &store, reason);
    if (error != 0) {
        return error;
    }
    error = make_index(store, &index, reason);
    if (error == 0) {
        error = dm_index_save(&index, path, reason);
        dm_index_free(&index);
    }
    dm_store_close(store);
    return error;
}

static int open_parts(const struct vipl_dm_send *send, struct dm_sender_parts *parts,
                      struct vipl_dm_reason *reason)
{
    struct dm_store_wish wish = {DM_READ, false, NULL};
    int error = dm_path_open(&send->path, DM_SEND, &parts->port, &parts->memory, reason);

    if (error == 0) {
        wish.memory = parts->memory;
        error = dm_store_open(send->path.store, &wish, &parts->store, reason);
    }
    if (error != 0) {
        return error;
    }
    return send->index != NULL ? dm_index_load(send->index, parts->store, &parts->index, reason)
                               : make_index(parts->store, &parts->index, reason);
}

int vipl_dm_sender_open(const struct vipl_dm_send *send, struct vipl_dm_sender **sender,
                        struct vipl_dm_reason *reason)
{
    struct dm_sender_parts parts;
    int error = check_send(send, reason);

    if (error != 0) {
        return error;
    }
    memset(&parts, 0, sizeof(parts));
    parts.clock = &dm_clock_system;
    error = open_parts(send, &parts, reason);
    if (error != 0) {
        close_parts(&parts);
        return error;
    }
    return dm_sender_create(send, &parts, sender, reason);
}

void vipl_dm_sender_explain(const struct vipl_dm_sender *sender, char *text, size_t room)
{
    const struct dm_index *index = &sender->parts.index;

    snprintf(text, room,
             "store   %s\nmemory  %s, %" PRIu32 " chunks of %" PRIu32 " bytes%s\nport    %s\npackets %" PRIu64
             " of at most %" PRIu32 " bytes, recorded in %" PRIu64 ".%09" PRIu64 " s%s\n",
             sender->parts.store->text, sender->parts.memory->text, sender->ring, sender->chunk_bytes,
             sender->is_resident ? ", which hold the whole recording" : "", sender->parts.port->text,
             index->packets, index->longest, index->span / UINT64_C(1000000000),
             index->span % UINT64_C(1000000000), index->is_cut ? ", and cut off behind the last one" : "");
}

void vipl_dm_sender_close(struct vipl_dm_sender *sender)
{
    if (sender == NULL) {
        return;
    }
    if (sender->chunks != NULL) {
        dm_sender_quiet(sender);
    }
    close_parts(&sender->parts);
    free(sender->chunks);
    free(sender);
}
