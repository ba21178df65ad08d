/* SPDX-License-Identifier: MIT */
/* A function of the card with a raw queue pair; see card.h. */
#include "dm/rnic/card.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "dm/reason.h"
#include "os/os.h"
#include "rnic/registers.h"

enum {
    VECTOR = 1,       /* of the completion queue */
    CQ_LOG2 = 15,     /* room for DM_RNIC_POSTED entries, and for DRAINED */
    MS_LONGEST = 1000 /* sleep; a caller's is shorter */
};
static const uint64_t SILENT_NS = 400000000; /* then the card is asked whether it is there */
static const uint64_t NS_PER_MS = 1000000;

static int fail_card(struct vipl_dm_reason *reason, const char *what, int error)
{
    return dm_fail(reason, error, "the card: %s: %s", what, strerror(error));
}

/* --- opening and closing ---------------------------------------------------------------------- */

static int make_queue_pair(struct dm_rnic_card *card, struct vipl_dm_reason *reason)
{
    const struct vipl_rnic_caps *caps = vipl_rnic_query(card->rnic);
    unsigned log2 = caps->completions_log2 < CQ_LOG2 ? caps->completions_log2 : CQ_LOG2;
    struct vipl_rnic_qp_attributes raw = {.level = RNIC_LEVEL_RAW};
    int error = vipl_rnic_allocate_pd(card->rnic, &card->pd);

    if (error == 0) {
        error = vipl_rnic_create_cq(card->rnic, log2, VECTOR, &card->cq);
    }
    if (error != 0) {
        return fail_card(reason, "a completion queue", error);
    }
    raw.pd = card->pd;
    raw.rights = card->queue == VIPL_RNIC_RQ ? RNIC_FILTER_MULTICAST | RNIC_FILTER_PROMISCUOUS : 0;
    error = vipl_rnic_create_qp(card->rnic, card->cq, &raw, &card->qp);
    card->has_qp = error == 0;
    return error == 0 ? 0 : fail_card(reason, "a raw queue pair", error);
}

int dm_rnic_card_open(struct dm_rnic_card *card, struct vipl_rnic *rnic, const struct dm_clock *host,
                      unsigned queue, struct vipl_dm_reason *reason)
{
    const struct vipl_rnic_caps *caps = vipl_rnic_query(rnic);
    int error = 0;

    *card = (struct dm_rnic_card){.rnic = rnic, .host = host, .queue = queue};
    card->seen_at = host->now(host->context);
    if ((caps->features & RNIC_CAPS_RAW) == 0) {
        error = dm_fail(reason, ENOTSUP,
                        "function %u of the card may not have raw queue pairs (vipl-rnicd --raw names those "
                        "that may)",
                        (unsigned)caps->function);
    } else {
        error = make_queue_pair(card, reason);
    }
    if (error != 0) {
        dm_rnic_card_close(card);
    }
    return error;
}

/* The reset of the function, in vipl_rnic_close(), ends what is under way; but these objects have
 * memory of the driver's. */
void dm_rnic_card_close(struct dm_rnic_card *card)
{
    struct vipl_rnic_completion ignored[16];

    if (card->has_qp) {
        dm_rnic_card_halt(card);
        while (vipl_rnic_poll_cq(card->cq, ignored, 16) > 0) {
        }
        (void)vipl_rnic_destroy_qp(&card->qp);
    }
    if (card->cq != NULL) {
        (void)vipl_rnic_destroy_cq(card->cq);
    }
    vipl_rnic_close(card->rnic);
}

int dm_rnic_card_register(struct dm_rnic_card *card, void *at, uint64_t bytes, struct vipl_rnic_mr *mr,
                          struct vipl_dm_reason *reason)
{
    int error = vipl_rnic_allocate_mr(card->rnic, &card->pd, at, (size_t)bytes, 0, mr);

    if (error == ENOSPC) {
        return dm_fail(reason, error, "the card's table of pages has no room for %" PRIu64 " bytes", bytes);
    }
    return error == 0 ? 0 : fail_card(reason, "registering memory", error);
}

int dm_rnic_card_begin(struct dm_rnic_card *card, struct vipl_dm_reason *reason)
{
    int error = vipl_rnic_modify_qp(&card->qp, RNIC_QP_STATE_CONNECTED, NULL);

    if (error == ENOSPC) {
        return dm_fail(reason, error, "the card has as many raw queue pairs at work as it can have");
    }
    return error == 0 ? 0 : fail_card(reason, "starting a raw queue pair", error);
}

/* What was complete before can be taken. */
void dm_rnic_card_halt(struct dm_rnic_card *card)
{
    card->is_halted = true;
    (void)vipl_rnic_modify_qp(&card->qp, RNIC_QP_STATE_ERROR, NULL); /* a card that is dead is halted */
}

/* --- work ------------------------------------------------------------------------------------- */

bool dm_rnic_card_post(struct dm_rnic_card *card, const struct vipl_rnic_work *work)
{
    int error = EAGAIN;

    if (card->is_halted || card->posted - card->done == DM_RNIC_POSTED) {
        return false;
    }
    do {
        error = card->queue == VIPL_RNIC_RQ ? vipl_rnic_post_rq(&card->qp, work)
                                            : vipl_rnic_post_sq(&card->qp, work);
    } while (error == EAGAIN && vipl_rnic_grow_queue(&card->qp, card->queue) == 0);
    card->posted += error == 0 ? 1 : 0;
    return error == 0;
}

/* A card that was pulled out says nothing. */
static void look_after_card(struct dm_rnic_card *card)
{
    uint64_t now = card->host->now(card->host->context);

    if (now - card->seen_at > SILENT_NS) {
        card->seen_at = now;
        (void)vipl_rnic_probe(card->rnic);
    }
    if (vipl_rnic_is_dead(card->rnic)) {
        card->error = ENODEV;
    }
}

unsigned dm_rnic_card_take(struct dm_rnic_card *card, struct vipl_rnic_completion *out, unsigned room)
{
    unsigned count;
    unsigned kept = 0;

    vipl_rnic_progress(card->rnic);
    count = vipl_rnic_poll_cq(card->cq, out, room);
    for (unsigned i = 0; i < count; i++) {
        if (out[i].opcode == RNIC_WORK_DRAINED) {
            card->error = card->is_halted ? card->error : EIO;
        } else if (!vipl_rnic_retire(&card->qp, &out[i])) {
            card->error = ENODEV;
            return kept;
        } else {
            out[kept++] = out[i];
            card->done++;
        }
    }
    if (count > 0) {
        card->seen_at = card->host->now(card->host->context);
    } else if (card->error == 0) {
        look_after_card(card);
    }
    return kept;
}

static int most_ms(int ms, uint64_t nanoseconds)
{
    uint64_t most = (nanoseconds + NS_PER_MS - 1) / NS_PER_MS;

    if (most > MS_LONGEST) {
        most = MS_LONGEST;
    }
    return ms < 0 || (uint64_t)ms > most ? (int)most : ms;
}

void dm_rnic_card_wait(struct dm_rnic_card *card, uint64_t nanoseconds)
{
    int fds[2] = {vipl_rnic_interrupt_fd(card->rnic, VECTOR), -1};
    int ms;

    if (fds[0] < 0) { /* there are no interrupts */
        uint64_t most = nanoseconds < NS_PER_MS ? nanoseconds : NS_PER_MS;
        card->host->wait_until(card->host->context, card->host->now(card->host->context) + most);
        return;
    }
    vipl_rnic_interrupt_clear(card->rnic, VECTOR);
    vipl_rnic_arm_cq(card->cq); /* it fires at once if there is something to be taken */
    vipl_rnic_wait_hint(card->rnic, &fds[1], &ms);
    (void)vipl_poll(fds, 2, most_ms(ms, nanoseconds), NULL);
}
