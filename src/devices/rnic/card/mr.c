/* SPDX-License-Identifier: MIT */
/*
 * Registered memory. DMA is over when the function that asked for it returns, so that a tag that
 * has ended or changed has no DMA under way: INVALIDATE and CHANGE_MR are answered at once.
 */
#include "devices/rnic/card/mr.h"

#include "devices/rnic/card/devmem.h"
#include "devices/rnic/card/dma.h"
#include "devices/rnic/card/numbers.h"
#include "devices/rnic/card/pbl.h"
#include "devices/rnic/efe/rng.h"

enum { PAGE_MIN = 12, PAGE_MAX = 30, LIST_PART = 512 };

static uint32_t index_of(uint32_t tag)
{
    return tag >> 16;
}

/* --- access --- */

static bool is_live(const struct rnic_card *card, unsigned fn, uint32_t tag)
{
    return rnic_numbers_owns(card, &rnic_state(card)->mrs, fn, index_of(tag)) &&
           rnic_mr(card, index_of(tag))->tag == tag;
}

static bool has_right(const struct rnic_qp *qp, const struct rnic_mr *mr, enum rnic_access access)
{
    uint8_t both = (uint8_t)(qp->rights & mr->rights);
    switch (access) {
    case RNIC_ACCESS_LOCAL_READ:
        return true;
    case RNIC_ACCESS_LOCAL_WRITE:
        return (mr->rights & RNIC_RIGHT_LOCAL_READ_ONLY) == 0;
    case RNIC_ACCESS_REMOTE_WRITE:
        return (both & RNIC_RIGHT_REMOTE_WRITE) != 0;
    default:
        return (both & RNIC_RIGHT_REMOTE_READ) != 0;
    }
}

enum rnic_refusal rnic_mr_check(const struct rnic_card *card, uint32_t qp, enum rnic_access access,
                                const struct rnic_segment *range)
{
    const struct rnic_qp *row = rnic_qp(card, qp);
    if (range->length == 0) {
        return RNIC_ALLOWED;
    }
    if (!is_live(card, row->fn, range->stag)) {
        return RNIC_REFUSED_TAG;
    }
    const struct rnic_mr *mr = rnic_mr(card, index_of(range->stag));
    if (mr->realm != row->realm || (row->domain != 0 && mr->domain != row->domain)) {
        return RNIC_REFUSED_DOMAIN;
    }
    if (!has_right(row, mr, access)) {
        return RNIC_REFUSED_RIGHT;
    }
    if (range->address + range->length - 1 < range->address) {
        return RNIC_REFUSED_WRAP;
    }
    bool inside = range->address >= mr->address && range->length <= mr->length &&
                  range->address - mr->address <= mr->length - range->length;
    return inside ? RNIC_ALLOWED : RNIC_REFUSED_BOUNDS;
}

/* Finds the bytes from an address on that are contiguous on the bus: stores their bus address, and
 * returns how many of `bytes` they are. */
static uint32_t piece(const struct rnic_card *card, const struct rnic_mr *mr, uint64_t address,
                      uint32_t bytes, uint64_t *iova)
{
    if (mr->pages == 0) {
        *iova = mr->iova + (address - mr->address);
        return bytes;
    }
    uint64_t page = UINT64_C(1) << mr->page_shift;
    uint64_t from_first = (mr->address & (page - 1)) + (address - mr->address);
    uint64_t in_page = from_first & (page - 1);
    *iova = *rnic_pbl_entry(card, mr->first_page + (uint32_t)(from_first >> mr->page_shift)) + in_page;
    return page - in_page < bytes ? (uint32_t)(page - in_page) : bytes;
}

static bool is_device(const struct rnic_mr *mr)
{
    return (mr->rights & RNIC_RIGHT_DEVICE) != 0;
}

bool rnic_mr_read(struct rnic_card *card, uint32_t qp, const struct rnic_segment *range, uint8_t *out)
{
    const struct rnic_mr *mr = rnic_mr(card, index_of(range->stag));
    unsigned fn = rnic_qp(card, qp)->fn;
    if (is_device(mr)) {
        rnic_devmem_read(card, fn, mr->iova + (range->address - mr->address), out, range->length);
        return true;
    }
    for (uint32_t done = 0; done < range->length;) {
        uint64_t iova;
        uint32_t bytes = piece(card, mr, range->address + done, range->length - done, &iova);
        if (!rnic_dma_read(card, fn, qp, iova, out + done, bytes)) {
            return false;
        }
        done += bytes;
    }
    return true;
}

bool rnic_mr_write(struct rnic_card *card, uint32_t qp, const struct rnic_segment *range, const uint8_t *in)
{
    const struct rnic_mr *mr = rnic_mr(card, index_of(range->stag));
    unsigned fn = rnic_qp(card, qp)->fn;
    if (is_device(mr)) {
        rnic_devmem_write(card, fn, mr->iova + (range->address - mr->address), in, range->length);
        return true;
    }
    for (uint32_t done = 0; done < range->length;) {
        uint64_t iova;
        uint32_t bytes = piece(card, mr, range->address + done, range->length - done, &iova);
        if (!rnic_dma_write(card, fn, qp, iova, in + done, bytes)) {
            return false;
        }
        done += bytes;
    }
    return true;
}

/* --- commands --- */

/* The tag of a row's next life. */
static uint32_t next_tag(struct rnic_card *card, uint32_t index)
{
    uint32_t generation = ((rnic_mr(card, index)->tag >> 8 & 0xFF) + 1) & 0xFF;
    uint32_t tag =
        index << 16 | generation << 8 | (uint32_t)(rnic_rng_next(&rnic_state(card)->random) & 0xFF);
    return tag == 0 || tag == UINT32_MAX ? tag ^ 1 : tag;
}

/* What the command asks for. False: it is not allowed. */
static bool read_memory(const struct rnic_command *command, struct rnic_mr *mr)
{
    mr->realm = rnic_command16(command, RNIC_CMD_MR_REALM);
    mr->rights = command->bytes[RNIC_CMD_MR_RIGHTS];
    mr->page_shift = command->bytes[RNIC_CMD_MR_PAGE_SHIFT];
    mr->domain = rnic_command32(command, RNIC_CMD_MR_DOMAIN);
    mr->pages = rnic_command32(command, RNIC_CMD_MR_PAGES);
    mr->address = rnic_command64(command, RNIC_CMD_MR_VIRTUAL);
    mr->length = rnic_command64(command, RNIC_CMD_MR_LENGTH);
    mr->iova = rnic_command64(command, RNIC_CMD_MR_IOVA);
    return mr->domain != 0 && mr->length > 0 && mr->address + mr->length - 1 >= mr->address;
}

static bool good_rights(unsigned rights)
{
    return (rights & ~(RNIC_RIGHT_REMOTE_WRITE | RNIC_RIGHT_REMOTE_READ | RNIC_RIGHT_LOCAL_READ_ONLY)) == 0;
}

/* Linear memory lies in one range of the bus, or of device memory; a list has just the pages that
 * the memory touches. */
static bool good_place(const struct rnic_card *card, unsigned fn, const struct rnic_mr *mr)
{
    if (is_device(mr)) {
        return mr->pages == 0 && mr->page_shift == 0 && rnic_devmem_has(card, fn, mr->iova, mr->length);
    }
    if (mr->pages == 0) {
        return mr->page_shift == 0 && mr->iova + mr->length - 1 >= mr->iova;
    }
    if (mr->page_shift < PAGE_MIN || mr->page_shift > PAGE_MAX) {
        return false;
    }
    uint64_t first = mr->address >> mr->page_shift;
    uint64_t last = (mr->address + mr->length - 1) >> mr->page_shift;
    return last - first == mr->pages - 1;
}

/* Copies the list's entries, each of which must be a page's address. */
static uint16_t copy_list(struct rnic_card *card, const struct rnic_command *command,
                          const struct rnic_mr *mr)
{
    uint8_t part[LIST_PART * 8];
    for (uint32_t done = 0; done < mr->pages;) {
        uint32_t count = mr->pages - done < LIST_PART ? mr->pages - done : LIST_PART;
        if (!rnic_dma_read(card, command->fn, 0, mr->iova + (uint64_t)done * 8, part, count * 8)) {
            return RNIC_STATUS_DMA;
        }
        for (uint32_t i = 0; i < count; i++, done++) {
            uint64_t page = rnic_get64(part + (size_t)8 * i, command->big);
            if ((page & ((UINT64_C(1) << mr->page_shift) - 1)) != 0) {
                return RNIC_STATUS_INVALID;
            }
            *rnic_pbl_entry(card, mr->first_page + done) = page;
        }
    }
    return RNIC_STATUS_OK;
}

/* Gives a new tag its entries of the list table, if it needs any. */
static uint16_t take_list(struct rnic_card *card, const struct rnic_command *command, struct rnic_mr *mr)
{
    if (mr->pages == 0) {
        return RNIC_STATUS_OK;
    }
    if (!rnic_pbl_take(card, mr->pages, &mr->first_page)) {
        return RNIC_STATUS_NO_ROOM;
    }
    uint16_t status = copy_list(card, command, mr);
    if (status != RNIC_STATUS_OK) {
        rnic_pbl_give(card, mr->first_page, mr->pages);
        return status;
    }
    rnic_fn(card, command->fn)->used_pbl += rnic_pbl_taken(mr->pages);
    return RNIC_STATUS_OK;
}

uint16_t rnic_mr_register(struct rnic_card *card, struct rnic_command *command)
{
    struct rnic_mr mr = {0};
    struct rnic_numbers *mrs = &rnic_state(card)->mrs;
    uint32_t index;
    if (!read_memory(command, &mr) || !good_rights(mr.rights & ~RNIC_RIGHT_DEVICE) ||
        !good_place(card, command->fn, &mr)) {
        return RNIC_STATUS_INVALID;
    }
    if (!rnic_numbers_take(card, mrs, command->fn, &index)) {
        return RNIC_STATUS_NO_ROOM;
    }
    uint16_t status = take_list(card, command, &mr);
    if (status != RNIC_STATUS_OK) {
        rnic_numbers_give(card, mrs, index);
        return status;
    }
    mr.tag = next_tag(card, index);
    *rnic_mr(card, index) = mr;
    rnic_fn(card, command->fn)->used_stags++;
    command->answer.info = mr.tag;
    return RNIC_STATUS_OK;
}

uint16_t rnic_mr_change(struct rnic_card *card, struct rnic_command *command)
{
    uint8_t rights = command->bytes[RNIC_CMD_MR_RIGHTS];
    uint32_t domain = rnic_command32(command, RNIC_CMD_MR_DOMAIN);
    if (!is_live(card, command->fn, command->object)) {
        return RNIC_STATUS_NO_OBJECT;
    }
    if (domain == 0 || !good_rights(rights)) {
        return RNIC_STATUS_INVALID;
    }
    struct rnic_mr *mr = rnic_mr(card, index_of(command->object));
    mr->rights = rights | (mr->rights & RNIC_RIGHT_DEVICE); /* where it is does not change */
    mr->domain = domain;
    return RNIC_STATUS_OK;
}

uint16_t rnic_mr_invalidate(struct rnic_card *card, struct rnic_command *command)
{
    if (!is_live(card, command->fn, command->object)) {
        return RNIC_STATUS_NO_OBJECT;
    }
    rnic_mr_free(card, command->fn, index_of(command->object));
    return RNIC_STATUS_OK;
}

void rnic_mr_free(struct rnic_card *card, unsigned fn, uint32_t index)
{
    const struct rnic_mr *mr = rnic_mr(card, index);
    struct rnic_fn *f = rnic_fn(card, fn);
    if (mr->pages != 0) {
        rnic_pbl_give(card, mr->first_page, mr->pages);
        f->used_pbl -= rnic_pbl_taken(mr->pages);
    }
    f->used_stags--;
    rnic_numbers_give(card, &rnic_state(card)->mrs, index);
}
