/* SPDX-License-Identifier: MIT */
/* allocate_pd, allocate_mr, get_pbl: realms, and memory that the card may use. */
#include <errno.h>
#include <string.h>

#include "backends/rnic/verbs/function.h"
#include "os/os.h"
#include "rnic/entry.h"

enum { SMALLEST_SHIFT = 12, LARGEST_SHIFT = 30 };

/* --- realms --- */

static bool take_realm(struct vipl_rnic *rnic, uint32_t realm)
{
    uint32_t bit = UINT32_C(1) << realm % 32;
    return (vipl_fetch_or(&rnic->realms[realm / 32], bit) & bit) == 0; /* pairs with free_pd */
}

int vipl_rnic_allocate_pd(struct vipl_rnic *rnic, struct vipl_rnic_pd *out)
{
    uint32_t first = vipl_load_relaxed(&rnic->last_realm) + 1;
    for (uint32_t i = 0; i < RNIC_REALMS; i++) {
        uint32_t realm = (first + i) % RNIC_REALMS;
        if (take_realm(rnic, realm)) {
            vipl_store_relaxed(&rnic->last_realm, realm);
            out->realm = (uint16_t)realm;
            out->domain = 1;
            return 0;
        }
    }
    return ENOSPC;
}

void vipl_rnic_free_pd(struct vipl_rnic *rnic, const struct vipl_rnic_pd *pd)
{
    vipl_fetch_and(&rnic->realms[pd->realm / 32],
                   ~(UINT32_C(1) << pd->realm % 32)); /* pairs with take_realm */
}

/* --- lists of pages --- */

/*
 * Whether pages of twice the size make the same list: each of them has both halves, or the one half
 * that there is where it lies in the larger page. `number`: of the first page of 1 << shift bytes,
 * in the addresses by which the memory is named.
 */
static bool can_merge(const uint64_t *pages, size_t count, unsigned shift, uint64_t number)
{
    for (size_t i = 0; i < count; i++) {
        bool upper = ((number + i) & 1) != 0;
        if ((pages[i] >> shift & 1) != (upper ? 1 : 0) ||
            (upper && i > 0 && pages[i] != pages[i - 1] + (UINT64_C(1) << shift))) {
            return false;
        }
    }
    return true;
}

static size_t merge_once(uint64_t *pages, size_t count, unsigned shift, uint64_t number)
{
    size_t merged = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || ((number + i) & 1) == 0) {
            pages[merged++] = pages[i] & ~(UINT64_C(1) << shift);
        }
    }
    return merged;
}

static size_t merge_pages(uint64_t *pages, size_t count, uint64_t virtual_address, unsigned *shift)
{
    while (count > 1 && *shift < LARGEST_SHIFT &&
           can_merge(pages, count, *shift, virtual_address >> *shift)) {
        count = merge_once(pages, count, *shift, virtual_address >> *shift);
        ++*shift;
    }
    return count;
}

static unsigned shift_of(size_t page_bytes)
{
    unsigned shift = 0;
    while (shift < LARGEST_SHIFT && (size_t)1 << shift < page_bytes) {
        shift++;
    }
    return (size_t)1 << shift == page_bytes ? shift : 0;
}

static int list_pages(struct vipl_rnic *rnic, const void *address, size_t bytes, uint64_t *pages, size_t most,
                      struct vipl_rnic_pbl *out)
{
    size_t page_bytes;
    int error = rnic->pci->ops->pages(rnic->pci, address, bytes, pages, most, &out->count, &page_bytes);
    if (error != 0) {
        return error;
    }
    out->page_shift = shift_of(page_bytes);
    if (out->page_shift < SMALLEST_SHIFT || out->count == 0 || out->count > most) {
        return EINVAL;
    }
    out->count = merge_pages(pages, out->count, (uint64_t)(uintptr_t)address, &out->page_shift);
    return 0;
}

static void write_list(const struct vipl_rnic *rnic, const uint64_t *pages, size_t count, uint8_t *list)
{
    for (size_t i = 0; i < count; i++) {
        rnic_put64(list + i * sizeof(pages[0]), pages[i], rnic->big);
    }
}

int vipl_rnic_get_pbl(struct vipl_rnic *rnic, const void *address, size_t bytes, struct vipl_rnic_pbl *out)
{
    size_t most = (bytes >> SMALLEST_SHIFT) + 2;
    uint64_t *pages = vipl_alloc(most * sizeof(pages[0]));
    struct rnic_block block = {.base = NULL};
    struct vipl_rnic_pbl pbl;
    if (pages == NULL) {
        return ENOMEM;
    }
    int error = list_pages(rnic, address, bytes, pages, most, &pbl);
    if (error == 0) {
        error = vipl_rnic_block_get(&rnic->slabs, pbl.count * sizeof(pages[0]), true, &block);
    }
    if (error == 0) {
        write_list(rnic, pages, pbl.count, block.base);
        pbl.list = block.base;
        pbl.iova = block.iova;
        pbl.room = block.bytes;
        *out = pbl;
    }
    vipl_free(pages);
    return error;
}

void vipl_rnic_free_pbl(struct vipl_rnic *rnic, const struct vipl_rnic_pbl *pbl)
{
    struct rnic_block block = {.base = pbl->list, .iova = pbl->iova, .bytes = pbl->room};
    vipl_rnic_block_put(&rnic->slabs, &block);
}

/* --- registered memory --- */

static void write_mr(struct rnic_command *command, const struct vipl_rnic *rnic,
                     const struct vipl_rnic_pd *pd, unsigned rights)
{
    rnic_put16(command->entry + RNIC_CMD_MR_REALM, pd->realm, rnic->big);
    command->entry[RNIC_CMD_MR_RIGHTS] = (uint8_t)rights;
    rnic_put32(command->entry + RNIC_CMD_MR_DOMAIN, pd->domain, rnic->big);
}

/* The tag of memory that is mapped at mr->iova, or of device memory there. */
static int allocate_tag(struct vipl_rnic *rnic, const struct vipl_rnic_pd *pd, const void *address,
                        size_t bytes, unsigned rights, struct vipl_rnic_mr *mr)
{
    struct rnic_command command;
    struct rnic_answer answer;
    struct vipl_rnic_pbl pbl = {.iova = mr->iova};
    bool has_list = !rnic->pci->linear && mr->block == NULL;
    int error = !has_list ? 0 : vipl_rnic_get_pbl(rnic, address, bytes, &pbl);
    if (error != 0) {
        return error;
    }
    vipl_rnic_command_init(&command, rnic, RNIC_COMMAND_REGISTER, 0);
    write_mr(&command, rnic, pd, rights | (mr->block != NULL ? (unsigned)RNIC_RIGHT_DEVICE : 0));
    command.entry[RNIC_CMD_MR_PAGE_SHIFT] = (uint8_t)pbl.page_shift;
    rnic_put32(command.entry + RNIC_CMD_MR_PAGES, (uint32_t)pbl.count, rnic->big);
    rnic_put64(command.entry + RNIC_CMD_MR_VIRTUAL, (uint64_t)(uintptr_t)address, rnic->big);
    rnic_put64(command.entry + RNIC_CMD_MR_LENGTH, bytes, rnic->big);
    rnic_put64(command.entry + RNIC_CMD_MR_IOVA, pbl.iova, rnic->big);
    error = vipl_rnic_execute(rnic, &command, &answer);
    mr->stag = error == 0 ? answer.info : 0;
    if (has_list) {
        vipl_rnic_free_pbl(rnic, &pbl); /* the card has copied it */
    }
    return error;
}

/* Whether any of the memory is in the mapped BAR4. */
static bool is_in_device(const struct rnic_pci *pci, const void *address, size_t bytes)
{
    uintptr_t device = (uintptr_t)pci->device, first = (uintptr_t)address;
    return device != 0 && (first < device ? device - first < bytes : first - device < pci->device_bytes);
}

static int allocate_device_mr(struct vipl_rnic *rnic, const struct vipl_rnic_pd *pd, const void *address,
                              size_t bytes, unsigned rights, struct vipl_rnic_mr *out)
{
    struct vipl_rnic_mr mr = {.bytes = bytes};
    mr.block = vipl_rnic_memory_hold(&rnic->memory, address, bytes, &mr.iova);
    if (mr.block == NULL) {
        return EINVAL;
    }
    int error = allocate_tag(rnic, pd, address, bytes, rights, &mr);
    if (error != 0) {
        vipl_rnic_memory_release(&rnic->memory, mr.block);
        return error;
    }
    *out = mr;
    return 0;
}

int vipl_rnic_allocate_mr(struct vipl_rnic *rnic, const struct vipl_rnic_pd *pd, void *address, size_t bytes,
                          unsigned rights, struct vipl_rnic_mr *out)
{
    const struct rnic_pci_ops *ops = rnic->pci->ops;
    struct vipl_rnic_mr mr = {.bytes = bytes};
    if (is_in_device(rnic->pci, address, bytes)) {
        return allocate_device_mr(rnic, pd, address, bytes, rights, out);
    }
    unsigned access = RNIC_PCI_READ | ((rights & RNIC_RIGHT_LOCAL_READ_ONLY) != 0 ? 0u : RNIC_PCI_WRITE);
    int error = ops->map(rnic->pci, address, bytes, access, &mr.iova);
    if (error != 0) {
        return error;
    }
    error = allocate_tag(rnic, pd, address, bytes, rights, &mr);
    if (error != 0) {
        ops->unmap(rnic->pci, mr.iova, bytes);
        return error;
    }
    *out = mr;
    return 0;
}

int vipl_rnic_change_mr(struct vipl_rnic *rnic, const struct vipl_rnic_mr *mr, uint32_t domain,
                        unsigned rights)
{
    struct rnic_command command;
    struct vipl_rnic_pd pd = {.domain = domain};
    vipl_rnic_command_init(&command, rnic, RNIC_COMMAND_CHANGE_MR, mr->stag);
    write_mr(&command, rnic, &pd, rights);
    return vipl_rnic_execute(rnic, &command, NULL);
}

int vipl_rnic_free_mr(struct vipl_rnic *rnic, const struct vipl_rnic_mr *mr)
{
    struct rnic_command command;
    vipl_rnic_command_init(&command, rnic, RNIC_COMMAND_INVALIDATE, mr->stag);
    int error = vipl_rnic_execute(rnic, &command, NULL);
    if (error != 0 && error != ENODEV) {
        return error;
    }
    if (mr->block != NULL) {
        vipl_rnic_memory_release(&rnic->memory, mr->block);
    } else {
        rnic->pci->ops->unmap(rnic->pci, mr->iova, mr->bytes);
    }
    return error;
}
