/* SPDX-License-Identifier: MIT */
/*
 * NVMe namespaces as stores, `nvme:ADDRESS[,lba=N][,blocks=N]`: a label, and the recording behind
 * it (label.h). Chunks are moved by the controller between the namespace and any memory that it
 * reaches; what is read and written at once goes through main memory.
 */
#include "dm/nvme/store_nvme.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dm/bytes.h"
#include "dm/nvme/label.h"
#include "dm/nvme/reach.h"
#include "dm/nvme/shared.h"
#include "dm/reason.h"
#include "dm/section.h"

struct nvme_store {
    struct dm_store base;
    struct dm_nvme *nvme;
    uint64_t first;  /* block of the recording */
    uint64_t room;   /* bytes for it, whole blocks */
    uint8_t opcode;  /* of transfers */
    uint8_t *memory; /* where transfers may be; NULL: there are none */
    uint64_t memory_bytes;
    uint64_t memory_bus;
};

static struct nvme_store *nvme_of(struct dm_store *store)
{
    return (struct nvme_store *)store;
}

/* --- names ------------------------------------------------------------------------------------ */

/* Takes ",NAME=NUMBER", and goes on behind it. */
static bool take_option(const char **text, const char *name, uint64_t *number, bool *is_there)
{
    size_t length = strlen(name);
    char *end = NULL;

    if (strncmp(*text, name, length) != 0) {
        return true;
    }
    errno = 0;
    *number = (*text)[length] >= '0' && (*text)[length] <= '9' ? strtoull(*text + length, &end, 10) : 0;
    if (end == NULL || errno != 0 || *is_there) {
        return false;
    }
    *is_there = true;
    *text = end;
    return true;
}

bool dm_nvme_range_read(const char *text, struct dm_nvme_range *range)
{
    size_t length = strcspn(text, ",");
    bool has_blocks = false;

    memset(range, 0, sizeof(*range));
    if (length == 0 || length >= sizeof(range->address)) {
        return false;
    }
    memcpy(range->address, text, length);
    for (text += length; *text != '\0';) {
        const char *before = text;
        if (!take_option(&text, ",lba=", &range->lba, &range->has_lba) ||
            !take_option(&text, ",blocks=", &range->blocks, &has_blocks) || text == before) {
            return false;
        }
    }
    return !has_blocks || range->blocks > 0;
}

/* --- bytes, through main memory --------------------------------------------------------------- */

/* The part of the bounce buffer for some bytes: whole blocks around them. */
struct window {
    uint64_t block; /* of the namespace */
    uint32_t bytes;
    uint32_t before; /* bytes in it that are not asked for */
    uint32_t wanted;
};

static struct window window_of(const struct nvme_store *store, uint64_t offset, uint64_t bytes)
{
    uint32_t unit = store->base.align;
    struct window window;

    window.before = (uint32_t)(offset % unit);
    window.block = store->first + offset / unit;
    window.wanted = bytes < DM_NVME_BOUNCE - window.before ? (uint32_t)bytes : DM_NVME_BOUNCE - window.before;
    window.bytes = (uint32_t)dm_round_up((uint64_t)window.before + window.wanted, unit);
    return window;
}

static bool is_inside(const struct nvme_store *store, uint64_t offset, uint64_t bytes)
{
    return offset <= store->room && bytes <= store->room - offset;
}

static int64_t nvme_read(struct dm_store *base, uint64_t offset, uint8_t *to, uint32_t bytes)
{
    struct nvme_store *store = nvme_of(base);
    uint32_t got = 0;

    if (offset >= base->bytes) {
        return 0;
    }
    bytes = bytes < base->bytes - offset ? bytes : (uint32_t)(base->bytes - offset);
    while (got < bytes) {
        struct window window = window_of(store, offset + got, bytes - got);
        int error = dm_nvme_do(store->nvme, NVME_READ, window.block, window.bytes);
        if (error != 0) {
            return -error;
        }
        memcpy(to + got, store->nvme->bounce + window.before, window.wanted);
        got += window.wanted;
    }
    return got;
}

/* Blocks that are not written whole are read first. */
static int write_window(struct nvme_store *store, const struct window *window, const uint8_t *from)
{
    int error = 0;

    if (window->wanted != window->bytes) {
        error = dm_nvme_do(store->nvme, NVME_READ, window->block, window->bytes);
    }
    if (error != 0) {
        return error;
    }
    memcpy(store->nvme->bounce + window->before, from, window->wanted);
    return dm_nvme_do(store->nvme, NVME_WRITE, window->block, window->bytes);
}

static int nvme_write(struct dm_store *base, uint64_t offset, const uint8_t *from, uint32_t bytes)
{
    struct nvme_store *store = nvme_of(base);
    uint32_t put = 0;

    if (!is_inside(store, offset, bytes)) {
        return ENOSPC;
    }
    while (put < bytes) {
        struct window window = window_of(store, offset + put, bytes - put);
        int error = write_window(store, &window, from + put);
        if (error != 0) {
            return error;
        }
        put += window.wanted;
    }
    return 0;
}

/* --- the label -------------------------------------------------------------------------------- */

static uint64_t label_blocks(const struct nvme_store *store)
{
    return DM_LABEL_BYTES / store->base.align;
}

static int flush(const struct nvme_store *store)
{
    return store->nvme->has_cache ? dm_nvme_do(store->nvme, NVME_FLUSH, 0, 0) : 0;
}

static int write_label(const struct nvme_store *store, uint64_t bytes)
{
    struct dm_label label = {bytes, dm_clock_day()};

    dm_label_write(&label, store->nvme->bounce);
    return dm_nvme_do(store->nvme, NVME_WRITE, store->first - label_blocks(store), DM_LABEL_BYTES);
}

/* The recording is on the medium before the label says so. */
static int nvme_truncate(struct dm_store *base, uint64_t bytes)
{
    const struct nvme_store *store = nvme_of(base);
    int error = flush(store);

    if (error == 0) {
        error = write_label(store, bytes);
    }
    return error == 0 ? flush(store) : error;
}

static int read_label(struct nvme_store *store, const char *name, struct vipl_dm_reason *reason)
{
    struct dm_label label = {0, 0};
    uint64_t lba = store->first - label_blocks(store);
    int error = dm_nvme_do(store->nvme, NVME_READ, lba, DM_LABEL_BYTES);

    if (error != 0) {
        return dm_fail(reason, error, "%s: the label cannot be read: %s", name, strerror(error));
    }
    if (!dm_label_read(store->nvme->bounce, &label)) {
        return dm_fail(reason, EINVAL, "%s: at block %" PRIu64 " is no label of a recording", name, lba);
    }
    if (label.bytes == 0) {
        return dm_fail(reason, EINVAL, "%s: the capture there was not ended", name);
    }
    if (label.bytes > store->room) {
        return dm_fail(reason, EINVAL,
                       "%s: the recording has %" PRIu64 " bytes, and its blocks have %" PRIu64, name,
                       label.bytes, store->room);
    }
    store->base.bytes = label.bytes;
    store->base.identity = label.written;
    return 0;
}

/* --- transfers -------------------------------------------------------------------------------- */

/* A capture keeps room for its end: one that has filled its blocks can be read. */
static int nvme_submit(struct dm_store *base, const struct dm_transfer *transfer)
{
    const struct nvme_store *store = nvme_of(base);
    uint32_t rest = store->opcode == NVME_WRITE ? DM_TAIL_ROOM : 0;
    uint64_t at = (uint64_t)((uintptr_t)transfer->at - (uintptr_t)store->memory); /* in the memory */

    if (!is_inside(store, transfer->offset, (uint64_t)transfer->bytes + rest)) {
        return ENOSPC;
    }
    if (store->memory == NULL || at > store->memory_bytes || transfer->bytes > store->memory_bytes - at) {
        return EFAULT;
    }
    return dm_nvme_submit(store->nvme, store->opcode, store->memory_bus + at,
                          store->first + transfer->offset / base->align, transfer->bytes, transfer->cookie);
}

static unsigned nvme_reap(struct dm_store *base, struct dm_transferred *ended, unsigned room, bool wait)
{
    return dm_nvme_reap(nvme_of(base)->nvme, ended, room, wait);
}

/* --- opening and closing ---------------------------------------------------------------------- */

static int take_range(struct nvme_store *store, const struct dm_nvme_range *range, const char *name,
                      struct vipl_dm_reason *reason)
{
    uint64_t whole = store->nvme->blocks;
    uint64_t label = label_blocks(store);
    uint64_t blocks = range->blocks;

    if (blocks == 0) {
        blocks = range->lba < whole ? whole - range->lba : 0;
    }
    if (range->lba > whole || blocks > whole - range->lba) {
        return dm_fail(reason, EINVAL, "%s: the namespace has %" PRIu64 " blocks", name, whole);
    }
    if (blocks <= label) {
        return dm_fail(reason, EINVAL, "%s: %" PRIu64 " blocks have no room for a label and a recording",
                       name, blocks);
    }
    store->first = range->lba + label;
    store->room = (blocks - label) * store->base.align;
    return 0;
}

/* A capture overwrites what is there: it is told where. */
static int check_wish(const struct dm_nvme_range *range, const struct dm_store_wish *wish, const char *name,
                      struct vipl_dm_reason *reason)
{
    if (wish->direction == DM_WRITE && (!range->has_lba || range->blocks == 0)) {
        return dm_fail(reason, EINVAL, "%s: a capture needs lba= and blocks=, which it overwrites", name);
    }
    if (wish->direction == DM_WRITE && wish->any_offset) {
        return dm_fail(reason, ENOTSUP, "%s: compacted packets do not end with a block", name);
    }
    return 0;
}

static int prepare_store(struct nvme_store *store, const struct dm_nvme_range *range,
                         const struct dm_store_wish *wish, struct vipl_dm_reason *reason)
{
    char name[64];
    int error;

    snprintf(name, sizeof(name), "store \"nvme:%s\"", range->address);
    error = take_range(store, range, name, reason);
    if (error == 0 && wish->memory != NULL) {
        store->memory = wish->memory->base;
        store->memory_bytes = wish->memory->bytes;
        error = dm_nvme_reach(store->nvme, wish->memory, wish->direction, &store->memory_bus, reason);
    }
    if (error != 0) {
        return error;
    }
    if (wish->direction == DM_READ) {
        return read_label(store, name, reason);
    }
    error = write_label(store, 0);
    return error == 0 ? 0 : dm_fail(reason, error, "%s: it cannot be written: %s", name, strerror(error));
}

static void nvme_close(struct dm_store *base)
{
    dm_nvme_give(nvme_of(base)->nvme, true);
    free(base);
}

int dm_nvme_store_open(struct dm_nvme *nvme, const struct dm_nvme_range *range,
                       const struct dm_store_wish *wish, struct dm_store **out, struct vipl_dm_reason *reason)
{
    struct nvme_store *store = calloc(1, sizeof(*store));
    int error;

    if (store == NULL) {
        dm_nvme_give(nvme, true);
        return dm_fail(reason, ENOMEM, "store \"nvme:%s\": no memory", range->address);
    }
    store->base.kind = &dm_store_nvme;
    store->base.align = nvme->block_bytes;
    store->nvme = nvme;
    store->opcode = wish->direction == DM_READ ? NVME_READ : NVME_WRITE;
    error = prepare_store(store, range, wish, reason);
    if (error != 0) {
        nvme_close(&store->base);
        return error;
    }
    snprintf(store->base.text, sizeof(store->base.text),
             "nvme:%s (%.40s, namespace 1, from block %" PRIu64 ", blocks of %" PRIu32 " bytes)",
             range->address, nvme->model, store->first, nvme->block_bytes);
    *out = &store->base;
    return 0;
}

static int nvme_open(const char *argument, const struct dm_store_wish *wish, struct dm_store **store,
                     struct vipl_dm_reason *reason)
{
    struct dm_nvme *nvme = NULL;
    struct dm_nvme_range range;
    char name[64];
    int error;

    snprintf(name, sizeof(name), "store \"nvme:%.40s\"", argument);
    if (!dm_nvme_range_read(argument, &range)) {
        return dm_fail(reason, EINVAL, "%s is not nvme:ADDRESS[,lba=N][,blocks=N]", name);
    }
    error = check_wish(&range, wish, name, reason);
    if (error == 0) {
        error = dm_nvme_take(range.address, name, true, &nvme, reason);
    }
    return error == 0 ? dm_nvme_store_open(nvme, &range, wish, store, reason) : error;
}

const struct dm_store_kind dm_store_nvme = {
    .name = "nvme",
    .open = nvme_open,
    .close = nvme_close,
    .submit = nvme_submit,
    .reap = nvme_reap,
    .read = nvme_read,
    .write = nvme_write,
    .truncate = nvme_truncate,
};
