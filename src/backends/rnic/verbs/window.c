/* SPDX-License-Identifier: MIT */
/*
 * Copying to windows. BEGIN is stored first, END last; all stores are release stores of words, so
 * that the card, which loads END first and BEGIN last, knows a slot that is being written.
 *
 * A slot is stored to only when the entry that it has is complete: otherwise a queue of more
 * entries than slots would take from the card each copy before it looks there. And an entry that
 * is not copied must not find its own index in its slot, which would be 2^32 entries old: so the
 * slot loses its index when an entry passes it.
 */
#include "backends/rnic/verbs/window.h"

#include <string.h>

#include "os/os.h"
#include "rnic/entry.h"

enum { WORD = 4 };

void vipl_rnic_set_windows(struct vipl_rnic *rnic, uint32_t most)
{
    bool has = (rnic->caps.features & RNIC_CAPS_BOTF) != 0 && rnic->pci->doorbells != NULL;
    rnic->window_bytes = !has ? 0 : most < RNIC_WINDOW_PAYLOAD ? most : RNIC_WINDOW_PAYLOAD;
}

uint32_t vipl_rnic_windows(const struct vipl_rnic *rnic)
{
    return rnic->window_bytes;
}

void vipl_rnic_window_get(struct vipl_rnic_qp *qp)
{
    struct rnic_command command;
    struct rnic_answer answer;
    if (qp->rnic->window_bytes == 0) {
        return;
    }
    vipl_rnic_command_init(&command, qp->rnic, RNIC_COMMAND_ASSIGN_WINDOW, qp->number);
    if (vipl_rnic_execute(qp->rnic, &command, &answer) != 0) {
        return; /* the card has no more of them, or is dead */
    }
    if (answer.info >= RNIC_WINDOWS) {
        vipl_rnic_fail(qp->rnic, "the card numbers a window wrongly");
        return;
    }
    qp->window = qp->rnic->pci->doorbells + RNIC_DB_WINDOWS + (size_t)answer.info * RNIC_WINDOW_BYTES;
}

/* Pairs with the card's acquire load of the same word. */
static void store_word(uint8_t *to, const void *bytes, size_t count)
{
    uint32_t word = 0;
    memcpy(&word, bytes, count);
    vipl_store_release((uint32_t *)(void *)to, word);
}

static void store_words(uint8_t *to, const uint8_t *from, size_t bytes)
{
    size_t done = 0;
    for (; bytes - done >= WORD; done += WORD) {
        store_word(to + done, from + done, WORD);
    }
    if (done < bytes) {
        store_word(to + done, from + done, bytes - done);
    }
}

static void write_header(uint8_t *header, const struct vipl_rnic_work *work, uint64_t address,
                         uint32_t length, uint32_t stag, bool big)
{
    memset(header, 0, RNIC_WINDOW_HEADER);
    header[RNIC_WINDOW_OPCODE] = work->opcode;
    header[RNIC_WINDOW_FLAGS] = work->flags;
    rnic_put16(header + RNIC_WINDOW_LENGTH, (uint16_t)length, big);
    rnic_put32(header + RNIC_WINDOW_COOKIE, work->cookie, big);
    rnic_put32(header + RNIC_WINDOW_IMMEDIATE, work->immediate, big);
    rnic_put32(header + RNIC_WINDOW_REMOTE_STAG, work->remote_stag, big);
    rnic_put64(header + RNIC_WINDOW_REMOTE_ADDRESS, work->remote_address, big);
    rnic_put64(header + RNIC_WINDOW_LOCAL_ADDRESS, address, big);
    rnic_put32(header + RNIC_WINDOW_LOCAL_STAG, stag, big);
}

/* Memory of the card is not copied: the processor may be slow to read it, and the card is not. */
static bool is_of_card(const struct rnic_pci *pci, uintptr_t address)
{
    return pci->device != NULL && address - (uintptr_t)pci->device < pci->device_bytes;
}

/* Where memory may be missing, the card finds that out without harm; the processor would not. */
static bool is_for_window(const struct vipl_rnic_qp *qp, const struct vipl_rnic_work *work, uint32_t behind)
{
    if (work->segments != 1 || work->opcode == RNIC_WORK_READ || behind == 0) {
        return false;
    }
    struct vipl_rnic_segment segment = rnic_segment_of(work, 0);
    return segment.length > 0 && segment.length <= qp->rnic->window_bytes && !vipl_iov_is_safe() &&
           !is_of_card(qp->rnic->pci, (uintptr_t)segment.address);
}

static void copy_to_slot(const struct vipl_rnic *rnic, uint8_t *slot, const struct vipl_rnic_work *work,
                         uint32_t behind)
{
    struct vipl_rnic_segment segment = rnic_segment_of(work, 0);
    uint8_t header[RNIC_WINDOW_HEADER];
    uint8_t index[WORD];
    rnic_put32(index, behind, rnic->big);
    write_header(header, work, segment.address, segment.length, segment.stag, rnic->big);
    store_word(slot + RNIC_WINDOW_BEGIN, index, WORD);
    store_words(slot + RNIC_WINDOW_LENGTH, header + RNIC_WINDOW_LENGTH,
                RNIC_WINDOW_HEADER - RNIC_WINDOW_LENGTH);
    store_words(slot + RNIC_WINDOW_HEADER, (const uint8_t *)(uintptr_t)segment.address, segment.length);
    store_word(slot + RNIC_WINDOW_END, index, WORD);
}

void vipl_rnic_window_post(struct vipl_rnic_qp *qp, const struct vipl_rnic_work *work, uint32_t behind)
{
    static const uint8_t none[WORD];
    uint32_t number = (behind - 1) % RNIC_WINDOW_SLOTS;
    uint8_t *slot = qp->window + number * (size_t)RNIC_WINDOW_SLOT_BYTES;
    uint32_t *has = &qp->in_window[number];
    /* pairs with vipl_rnic_retire() */
    uint32_t complete = vipl_load_acquire(&qp->queues[VIPL_RNIC_SQ].consumer);
    if (*has != 0 && (int32_t)(complete - *has) < 0) {
        return;
    }
    if (is_for_window(qp, work, behind)) {
        copy_to_slot(qp->rnic, slot, work, behind);
        *has = behind;
    } else if (*has != 0) {
        store_word(slot + RNIC_WINDOW_END, none, WORD);
        *has = 0;
    }
}
