/* SPDX-License-Identifier: MIT */
/*
 * Transfers between the namespace and memory. A transfer is divided into commands of what the
 * controller moves at a time; the older transfer's come first.
 */
#include <errno.h>
#include <string.h>

#include "dm/bytes.h"
#include "dm/nvme/controller.h"

enum { NAMESPACE = 1 };
static const uint64_t ASK_NS = 100000000; /* of silence, then the controller is asked how it is */
static const uint64_t SILENT_NS = UINT64_C(30000000000); /* then it is dead */

/* --- posting ---------------------------------------------------------------------------------- */

/* The second word of addresses: nothing, the second page, or a list of all pages behind the
 * first, which DM_NVME_MOST bytes at any address fit into. */
static uint64_t second_address(const struct dm_nvme *nvme, unsigned number, uint64_t bus, uint32_t bytes)
{
    uint64_t first = dm_round_down(bus, DM_NVME_PAGE);
    uint32_t pages = (uint32_t)(dm_round_up(bus - first + bytes, DM_NVME_PAGE) / DM_NVME_PAGE);
    uint8_t *list = nvme->lists + (size_t)number * DM_NVME_PAGE;

    if (pages <= 2) {
        return pages < 2 ? 0 : first + DM_NVME_PAGE;
    }
    for (uint32_t i = 1; i < pages; i++) {
        dm_put_little(list + (size_t)(i - 1) * 8, first + (uint64_t)i * DM_NVME_PAGE, 8);
    }
    return nvme->lists_bus + (uint64_t)number * DM_NVME_PAGE;
}

/* One command, with the next bytes of a transfer. */
static void post(struct dm_nvme *nvme, unsigned number, unsigned index)
{
    struct dm_nvme_transfer *transfer = &nvme->transfers[index];
    uint32_t bytes = transfer->left < nvme->most_bytes ? transfer->left : nvme->most_bytes;
    uint32_t blocks = bytes / nvme->block_bytes;
    uint8_t *entry = dm_nvme_queue_entry(&nvme->io, transfer->opcode, (uint16_t)number);

    dm_put_little(entry + NVME_ENTRY_NAMESPACE, NAMESPACE, 4);
    if (bytes > 0) {
        dm_put_little(entry + NVME_ENTRY_PRP1, transfer->bus, 8);
        dm_put_little(entry + NVME_ENTRY_PRP2, second_address(nvme, number, transfer->bus, bytes), 8);
        dm_put_little(entry + NVME_ENTRY_WORD10, transfer->block, 8); /* and word 11 */
        dm_put_little(entry + NVME_ENTRY_WORD12, blocks - 1, 4);
    }
    nvme->commands[number] = (struct dm_nvme_command){true, (uint16_t)index};
    if (nvme->pending++ == 0) {
        nvme->heard_at = nvme->asked_at = dm_nvme_now(nvme);
    }
    transfer->pending++;
    transfer->left -= bytes;
    transfer->bus += bytes;
    transfer->block += blocks;
    dm_nvme_queue_ring(&nvme->io);
}

static bool find_command(const struct dm_nvme *nvme, unsigned *number)
{
    for (unsigned i = 0; i < nvme->io.entries - 1; i++) {
        if (!nvme->commands[i].is_busy) {
            *number = i;
            return true;
        }
    }
    return false;
}

static bool find_oldest(const struct dm_nvme *nvme, unsigned *index)
{
    bool is_found = false;

    for (unsigned i = 0; i <= DM_MAX_TRANSFERS; i++) {
        const struct dm_nvme_transfer *transfer = &nvme->transfers[i];
        if (transfer->is_busy && transfer->left > 0 &&
            (!is_found || transfer->serial < nvme->transfers[*index].serial)) {
            *index = i;
            is_found = true;
        }
    }
    return is_found;
}

static void post_all(struct dm_nvme *nvme)
{
    unsigned number = 0;
    unsigned index = 0;

    while (find_command(nvme, &number) && find_oldest(nvme, &index)) {
        post(nvme, number, index);
    }
}

static void start_transfer(struct dm_nvme *nvme, unsigned index, const struct dm_nvme_transfer *transfer)
{
    nvme->transfers[index] = *transfer;
    nvme->transfers[index].is_busy = true;
    nvme->transfers[index].serial = nvme->serial++;
}

/* --- ends ------------------------------------------------------------------------------------- */

static int error_of(unsigned status)
{
    switch (status) {
    case 0:
        return 0;
    case NVME_STATUS_PROTECTED:
        return EROFS;
    case NVME_STATUS_OUT_OF_RANGE:
        return ENXIO;
    default:
        return EIO;
    }
}

/* False: the answer is of no command that there is. */
static bool end_command(struct dm_nvme *nvme, const struct dm_nvme_answer *answer)
{
    struct dm_nvme_transfer *transfer;

    if (answer->id >= DM_NVME_ENTRIES || !nvme->commands[answer->id].is_busy) {
        return false;
    }
    transfer = &nvme->transfers[nvme->commands[answer->id].transfer];
    nvme->commands[answer->id].is_busy = false;
    nvme->pending--;
    transfer->pending--;
    if (answer->status != 0) {
        transfer->error = transfer->error == 0 ? error_of(answer->status) : transfer->error;
        transfer->left = 0;
    }
    return true;
}

/* What a silent controller has come to. */
static void look_after(struct dm_nvme *nvme)
{
    uint64_t now = dm_nvme_now(nvme);
    int error = 0;

    if (nvme->pending == 0 || now - nvme->asked_at < ASK_NS) {
        return;
    }
    nvme->asked_at = now;
    error = dm_nvme_look(nvme);
    if (error == 0 && now - nvme->heard_at >= SILENT_NS) {
        error = ETIMEDOUT;
    }
    if (error != 0) {
        dm_nvme_fail(nvme, error);
    }
}

/* Takes what has ended, at most a queue of it, and posts what there is room for. */
static void progress(struct dm_nvme *nvme)
{
    struct dm_nvme_answer answer;
    unsigned count = 0;

    while (nvme->error == 0 && count < nvme->io.entries && dm_nvme_queue_take(&nvme->io, &answer)) {
        count++;
        if (!end_command(nvme, &answer)) {
            dm_nvme_fail(nvme, EIO);
            return;
        }
    }
    if (nvme->error != 0) {
        return;
    }
    if (count > 0) {
        nvme->heard_at = nvme->asked_at = dm_nvme_now(nvme);
        post_all(nvme);
    } else {
        look_after(nvme);
    }
}

static bool has_ended(const struct dm_nvme_transfer *transfer)
{
    return transfer->is_busy && transfer->left == 0 && transfer->pending == 0;
}

/* --- the calls -------------------------------------------------------------------------------- */

int dm_nvme_submit(struct dm_nvme *nvme, unsigned opcode, uint64_t bus, uint64_t block, uint32_t bytes,
                   uint32_t cookie)
{
    struct dm_nvme_transfer transfer = {.opcode = (uint8_t)opcode,
                                        .cookie = cookie,
                                        .bytes = bytes,
                                        .left = bytes,
                                        .bus = bus,
                                        .block = block};

    if (nvme->error != 0) {
        return nvme->error;
    }
    for (unsigned i = 0; i < DM_MAX_TRANSFERS; i++) {
        if (!nvme->transfers[i].is_busy) {
            start_transfer(nvme, i, &transfer);
            post_all(nvme);
            return 0;
        }
    }
    return EAGAIN;
}

static unsigned collect(struct dm_nvme *nvme, struct dm_transferred *ended, unsigned room, bool *is_any)
{
    unsigned count = 0;

    *is_any = false;
    for (unsigned i = 0; i < DM_MAX_TRANSFERS && count < room; i++) {
        struct dm_nvme_transfer *transfer = &nvme->transfers[i];
        *is_any = *is_any || transfer->is_busy;
        if (has_ended(transfer)) {
            uint32_t moved = transfer->error == 0 ? transfer->bytes : 0;
            ended[count++] = (struct dm_transferred){transfer->cookie, transfer->error, moved};
            transfer->is_busy = false;
        }
    }
    return count;
}

unsigned dm_nvme_reap(struct dm_nvme *nvme, struct dm_transferred *ended, unsigned room, bool wait)
{
    uint64_t start = dm_nvme_now(nvme);
    bool is_any;
    unsigned count;

    progress(nvme);
    count = collect(nvme, ended, room, &is_any);
    while (count == 0 && wait && is_any) {
        dm_nvme_pause(nvme, start);
        progress(nvme);
        count = collect(nvme, ended, room, &is_any);
    }
    return count;
}

int dm_nvme_do(struct dm_nvme *nvme, unsigned opcode, uint64_t block, uint32_t bytes)
{
    struct dm_nvme_transfer *own = &nvme->transfers[DM_NVME_OWN];
    struct dm_nvme_transfer transfer = {
        .opcode = (uint8_t)opcode, .bytes = bytes, .left = bytes, .bus = nvme->bounce_bus, .block = block};
    uint64_t start = dm_nvme_now(nvme);
    unsigned number = 0;

    while (nvme->error == 0 && !find_command(nvme, &number)) {
        dm_nvme_pause(nvme, start);
        progress(nvme);
    }
    if (nvme->error != 0) {
        return nvme->error;
    }
    start_transfer(nvme, DM_NVME_OWN, &transfer);
    if (bytes == 0) {
        post(nvme, number, DM_NVME_OWN);
    } else {
        post_all(nvme);
    }
    while (!has_ended(own)) {
        dm_nvme_pause(nvme, start);
        progress(nvme);
    }
    own->is_busy = false;
    return own->error;
}
