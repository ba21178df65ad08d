/* SPDX-License-Identifier: MIT */
/* Following the rings of the functions. */
#include "rings.h"

#include <stdlib.h>
#include <string.h>

#include "rnic/entry.h"
#include "rnic/registers.h"

enum {
    MAX_LOG2 = 30, /* of a ring: more is no size */
    REGISTERS = RNIC_REG_WAKE / 4
};

/* A completion queue's or a work queue's ring. */
struct ring {
    enum ring_kind kind;
    uint32_t object;
    uint64_t base;
    uint64_t bytes;
};

/* What stores into a page of the AOTF space become. */
struct page_template {
    uint32_t qp; /* + 1; 0: not known */
    uint32_t stag;
    uint64_t address;
};

struct function {
    uint32_t registers[REGISTERS]; /* what the driver has stored */
    bool enabled;
    uint64_t command_count; /* entries of the command ring, and of the answer ring, since ENABLE */
    uint8_t *commands;      /* as they were read, for their answers */
    struct ring *rings;
    size_t count;
    size_t room;
    uint32_t *windows; /* whose each window is: the queue pair + 1; 0: not known. NULL: no windows */
    struct page_template *templates; /* of the pages of the AOTF space; NULL: there are none */
};

struct rings {
    struct function functions[RNIC_CARD_MAX_FUNCTIONS];
};

struct rings *rings_new(void)
{
    return calloc(1, sizeof(struct rings));
}

static void forget(struct function *f)
{
    free(f->commands);
    free(f->rings);
    free(f->windows);
    free(f->templates);
    *f = (struct function){0};
}

void rings_free(struct rings *rings)
{
    if (rings != NULL) {
        for (unsigned i = 0; i < RNIC_CARD_MAX_FUNCTIONS; i++) {
            forget(&rings->functions[i]);
        }
        free(rings);
    }
}

static uint32_t stored(const struct function *f, unsigned offset)
{
    return f->registers[offset / 4];
}

static uint64_t stored64(const struct function *f, unsigned offset)
{
    return (uint64_t)stored(f, offset + 4) << 32 | stored(f, offset);
}

static bool is_big(const struct function *f)
{
    return (stored(f, RNIC_REG_CTRL) & RNIC_CTRL_BYTE_ORDER) != 0;
}

static uint64_t entries(const struct function *f, unsigned log2_offset)
{
    uint32_t log2 = stored(f, log2_offset);
    return log2 > 12 ? 0 : UINT64_C(1) << log2;
}

/* --- registers --- */

static void follow_store(struct function *f, const struct rnic_transaction *c)
{
    if (c->bar != 0 || c->bytes != 4 || c->address % 4 != 0 || c->address / 4 >= REGISTERS) {
        return;
    }
    f->registers[c->address / 4] = (uint32_t)c->value;
    if (c->address != RNIC_REG_CTRL) {
        return;
    }
    if ((c->value & RNIC_CTRL_ENABLE) == 0) {
        f->enabled = false;
        f->count = 0;
    } else if (!f->enabled) {
        free(f->commands);
        f->command_count = entries(f, RNIC_REG_COMMAND_LOG2);
        f->commands = calloc(f->command_count + 1, RNIC_COMMAND_BYTES);
        f->enabled = f->commands != NULL;
    }
}

/* --- rings of queues --- */

static void drop(struct function *f, size_t at)
{
    f->rings[at] = f->rings[--f->count];
}

static void drop_of(struct function *f, enum ring_kind kind, uint32_t object)
{
    for (size_t i = f->count; i-- > 0;) {
        if (f->rings[i].kind == kind && f->rings[i].object == object) {
            drop(f, i);
        }
    }
}

/* Memory that is a ring now is no other ring any more. */
static void add(struct function *f, struct ring ring)
{
    for (size_t i = f->count; i-- > 0;) {
        if (f->rings[i].base < ring.base + ring.bytes && ring.base < f->rings[i].base + f->rings[i].bytes) {
            drop(f, i);
        }
    }
    if (f->count == f->room) {
        size_t room = f->room == 0 ? 16 : 2 * f->room;
        struct ring *larger = realloc(f->rings, room * sizeof(*larger));
        if (larger == NULL) {
            return; /* its entries are not known as such */
        }
        f->rings = larger;
        f->room = room;
    }
    f->rings[f->count++] = ring;
}

static void add_ring(struct function *f, enum ring_kind kind, uint32_t object, const uint8_t *command,
                     uint64_t entry_bytes)
{
    uint16_t log2 =
        rnic_get16(command + RNIC_CMD_RING_LOG2, is_big(f)); /* at the same places for both kinds */
    uint64_t base = rnic_get64(command + RNIC_CMD_RING_BASE, is_big(f));
    if (log2 <= MAX_LOG2) {
        add(f, (struct ring){kind, object, base, entry_bytes << log2});
    }
}

/* --- windows --- */

static void give_window(struct function *f, uint32_t window, uint32_t qp)
{
    if (f->windows == NULL) {
        f->windows = calloc(RNIC_WINDOWS, sizeof(f->windows[0]));
    }
    if (f->windows != NULL && window < RNIC_WINDOWS) {
        f->windows[window] = qp + 1;
    }
}

static void take_window(struct function *f, uint32_t qp)
{
    for (uint32_t i = 0; f->windows != NULL && i < RNIC_WINDOWS; i++) {
        f->windows[i] = f->windows[i] == qp + 1 ? 0 : f->windows[i];
    }
}

static bool follow_window(const struct function *f, const struct rnic_transaction *c,
                          struct ring_entry *entry)
{
    uint64_t window = (c->address - RNIC_DB_WINDOWS) / RNIC_WINDOW_BYTES;
    bool is_header = c->address % RNIC_WINDOW_SLOT_BYTES == 0 && c->bytes == RNIC_WINDOW_HEADER;
    if (c->address < RNIC_DB_WINDOWS || window >= RNIC_WINDOWS || f->windows == NULL ||
        f->windows[window] == 0) {
        return false;
    }
    entry->kind = is_header ? RING_WINDOW : RING_PAYLOAD;
    entry->object = f->windows[window] - 1;
    return true;
}

/* --- the AOTF space --- */

static void set_template(struct function *f, const uint8_t *command, uint16_t kind, uint32_t qp)
{
    bool big = is_big(f);
    uint16_t page = rnic_get16(command + RNIC_CMD_TEMPLATE_PAGE, big);
    if (f->templates == NULL) {
        f->templates = calloc(RNIC_AOTF_PAGES, sizeof(f->templates[0]));
    }
    if (f->templates != NULL && page < RNIC_AOTF_PAGES) {
        f->templates[page] =
            (struct page_template){.qp = kind == 0 ? qp + 1 : 0,
                                   .stag = rnic_get32(command + RNIC_CMD_TEMPLATE_REMOTE_STAG, big),
                                   .address = rnic_get64(command + RNIC_CMD_TEMPLATE_REMOTE_ADDRESS, big)};
    }
}

static void take_templates(struct function *f, uint32_t qp)
{
    for (uint32_t i = 0; f->templates != NULL && i < RNIC_AOTF_PAGES; i++) {
        f->templates[i].qp = f->templates[i].qp == qp + 1 ? 0 : f->templates[i].qp;
    }
}

static bool follow_single(const struct function *f, const struct rnic_transaction *c,
                          struct ring_entry *entry)
{
    uint64_t page = (c->address - RNIC_REG_AOTF) / RNIC_AOTF_PAGE_BYTES;
    if (c->address < RNIC_REG_AOTF || page >= RNIC_AOTF_PAGES || f->templates == NULL ||
        f->templates[page].qp == 0) {
        return false;
    }
    *entry =
        (struct ring_entry){.kind = RING_STORE,
                            .object = f->templates[page].qp - 1,
                            .remote_address = f->templates[page].address + c->address % RNIC_AOTF_PAGE_BYTES,
                            .remote_stag = f->templates[page].stag};
    return true;
}

/* What a command has done that was answered OK. */
static void follow_command(struct function *f, const uint8_t *command, const uint8_t *answer)
{
    bool big = is_big(f);
    uint32_t object = rnic_get32(command + RNIC_CMD_OBJECT, big);
    uint16_t kind = rnic_get16(command + RNIC_CMD_OBJECT_KIND, big);

    switch (rnic_get16(command + RNIC_CMD_OPCODE, big)) {
    case RNIC_COMMAND_CREATE_CQ:
        object = rnic_get32(answer + RNIC_CQE_INFO, big);
        drop_of(f, RING_COMPLETION, object);
        add_ring(f, RING_COMPLETION, object, command, RNIC_COMPLETION_BYTES);
        break;
    case RNIC_COMMAND_RESIZE_CQ: /* entries may still be in the old one */
        add_ring(f, RING_COMPLETION, object, command, RNIC_COMPLETION_BYTES);
        break;
    case RNIC_COMMAND_DESTROY_CQ:
        drop_of(f, RING_COMPLETION, object);
        break;
    case RNIC_COMMAND_SET_RING:
        drop_of(f, kind == 0 ? RING_SEND : RING_RECEIVE, object);
        add_ring(f, kind == 0 ? RING_SEND : RING_RECEIVE, object, command, RNIC_WORK_BYTES);
        break;
    case RNIC_COMMAND_DESTROY_QP:
        drop_of(f, RING_SEND, object);
        drop_of(f, RING_RECEIVE, object);
        take_window(f, object);
        take_templates(f, object);
        break;
    case RNIC_COMMAND_MODIFY_QP:
        if (command[RNIC_CMD_QP_STATE] == RNIC_QP_STATE_IDLE) {
            take_templates(f, object);
        }
        break;
    case RNIC_COMMAND_SET_TEMPLATE:
        set_template(f, command, kind, object);
        break;
    case RNIC_COMMAND_ASSIGN_WINDOW:
        give_window(f, rnic_get32(answer + RNIC_CQE_INFO, big), object);
        break;
    default:
        break;
    }
}

/* --- memory --- */

/* The place in the ring of the entry that an access reads, or writes but for its owner's word; -1:
 * the access is of no entry. */
static int64_t place_in(const struct rnic_transaction *c, uint64_t base, uint64_t count, uint32_t entry_bytes,
                        uint32_t owner_at)
{
    uint64_t offset = c->address - base;
    return c->address >= base && offset / entry_bytes < count && offset % entry_bytes == 0 &&
                   c->bytes == owner_at
               ? (int64_t)(offset / entry_bytes)
               : -1;
}

static bool follow_read(struct function *f, const struct rnic_transaction *c, struct ring_entry *entry)
{
    int64_t place = place_in(c, stored64(f, RNIC_REG_COMMAND_BASE_LO), f->command_count, RNIC_COMMAND_BYTES,
                             RNIC_COMMAND_BYTES);
    if (place >= 0) {
        memcpy(f->commands + place * RNIC_COMMAND_BYTES, c->data, RNIC_COMMAND_BYTES);
        entry->kind = RING_COMMAND;
        return true;
    }
    for (size_t i = 0; i < f->count; i++) {
        const struct ring *ring = &f->rings[i];
        if ((ring->kind == RING_SEND || ring->kind == RING_RECEIVE) &&
            place_in(c, ring->base, ring->bytes / RNIC_WORK_BYTES, RNIC_WORK_BYTES, RNIC_WORK_BYTES) >= 0) {
            entry->kind = ring->kind;
            entry->object = ring->object;
            return true;
        }
    }
    return false;
}

static bool follow_write(struct function *f, const struct rnic_transaction *c, struct ring_entry *entry)
{
    int64_t place = place_in(c, stored64(f, RNIC_REG_ANSWER_BASE_LO), f->command_count, RNIC_COMPLETION_BYTES,
                             RNIC_CQE_OWNER);
    if (place >= 0) {
        const uint8_t *command = f->commands + place * RNIC_COMMAND_BYTES;
        entry->kind = RING_ANSWER;
        entry->command = command;
        if (rnic_get16(entry->bytes + RNIC_CQE_STATUS, is_big(f)) == RNIC_STATUS_OK) {
            follow_command(f, command, entry->bytes);
        }
        return true;
    }
    if (place_in(c, stored64(f, RNIC_REG_EVENT_BASE_LO), entries(f, RNIC_REG_EVENT_LOG2), RNIC_EVENT_BYTES,
                 RNIC_EVT_OWNER) >= 0) {
        entry->kind = RING_EVENT;
        return true;
    }
    for (size_t i = 0; i < f->count; i++) {
        const struct ring *ring = &f->rings[i];
        if (ring->kind == RING_COMPLETION && place_in(c, ring->base, ring->bytes / RNIC_COMPLETION_BYTES,
                                                      RNIC_COMPLETION_BYTES, RNIC_CQE_OWNER) >= 0) {
            entry->kind = RING_COMPLETION;
            entry->object = ring->object;
            return true;
        }
    }
    return false;
}

bool rings_follow(struct rings *rings, const struct rnic_transaction *c, struct ring_entry *entry)
{
    if (c->fn >= RNIC_CARD_MAX_FUNCTIONS) {
        return false; /* a frame of the adapter itself */
    }
    struct function *f = &rings->functions[c->fn];
    switch (c->kind) {
    case RNIC_TRANSACTION_REGISTER_WRITE:
        follow_store(f, c);
        return c->bar == 0 && follow_single(f, c, entry);
    case RNIC_TRANSACTION_RESET:
        forget(f);
        return false;
    case RNIC_TRANSACTION_DMA_READ:
    case RNIC_TRANSACTION_DMA_WRITE:
        if (!f->enabled || c->failed || c->data == NULL) {
            return false;
        }
        *entry = (struct ring_entry){.bytes = c->data, .big = is_big(f)};
        return c->kind == RNIC_TRANSACTION_DMA_READ ? follow_read(f, c, entry) : follow_write(f, c, entry);
    case RNIC_TRANSACTION_WINDOW:
        if (!f->enabled || c->data == NULL) {
            return false;
        }
        *entry = (struct ring_entry){.bytes = c->data, .big = is_big(f)};
        return follow_window(f, c, entry);
    default:
        return false;
    }
}
