/* SPDX-License-Identifier: MIT */
/* open_rnic: a function from its reset to its end. Registers and doorbells. */
#include "backends/rnic/verbs/function.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "os/os.h"
#include "rnic/entry.h"

enum {
    SPIN_US = 200, /* a card that is awake takes some microseconds */
    /* the first: one that works for others, or waits for a processor, takes longer */
    PAUSE_US = 20,
    ROUNDS_PER_CLOCK = 16,
    ASK_MS = 200, /* until a card that says nothing is asked whether it is there */
    LATE_MS = 20  /* between two looks at the clock: then this thread was not run */
};
enum { PCI_COMMAND = 4, PCI_MEMORY_AND_MASTER = 6 };
static const uint32_t ALL_ONES = 0xFFFFFFFFu;
static const uint64_t ns_per_ms = 1000000;

void vipl_rnic_fail(struct vipl_rnic *rnic, const char *why)
{
    if (rnic->generation == vipl_fork_generation() && vipl_exchange(&rnic->dead, 1) == 0) {
        vipl_log(VIPL_LOG_ERROR, "rnic: %s", why);
        (void)rnic->pci->ops->reset(rnic->pci);
    }
}

/* --- doorbells --- */

static uint32_t *word_at(const struct vipl_rnic *rnic, uint32_t doorbell)
{
    return (uint32_t *)(void *)(rnic->pci->doorbells + doorbell);
}

void vipl_rnic_store(struct vipl_rnic *rnic, uint32_t doorbell, uint32_t value)
{
    if (rnic->pci->doorbells == NULL) {
        rnic->pci->ops->write(rnic->pci, 2, doorbell, value);
    } else {
        /* pairs with the card's load, acquire */
        vipl_store_release(word_at(rnic, doorbell), value);
    }
}

void vipl_rnic_hint(struct vipl_rnic *rnic, uint32_t hint)
{
    if (rnic->pci->doorbells != NULL) {
        /* pairs with the card's exchange */
        vipl_store_byte_ordered(rnic->pci->doorbells + hint, 1);
    }
}

/* The fence is in the two ordered accesses. They pair with the card's fence between its store of
 * ASLEEP and its last scan. */
void vipl_rnic_ring(struct vipl_rnic *rnic, uint32_t doorbell, uint32_t value, uint32_t hint)
{
    uint8_t *doorbells = rnic->pci->doorbells;
    vipl_rnic_store(rnic, doorbell, value);
    if (doorbells == NULL) {
        return; /* such a store wakes the card by itself */
    }
    if (hint != 0) {
        vipl_rnic_hint(rnic, hint);
    } else {
        vipl_store_ordered(word_at(rnic, doorbell), value);
    }
    if (vipl_load_ordered(word_at(rnic, RNIC_DB_ASLEEP)) != 0) {
        rnic->pci->ops->write(rnic->pci, 0, RNIC_REG_WAKE, 1);
    }
}

/* --- opening --- */

static void read_mac(struct vipl_rnic *rnic)
{
    uint32_t low = rnic_register(rnic, RNIC_REG_MAC_LO);
    uint32_t high = rnic_register(rnic, RNIC_REG_MAC_HI);
    for (unsigned i = 0; i < 6; i++) {
        rnic->caps.mac[i] = (uint8_t)((i < 4 ? low >> 8 * i : high >> 8 * (i - 4)) & 0xFF);
    }
}

static void read_caps(struct vipl_rnic *rnic)
{
    struct vipl_rnic_caps *caps = &rnic->caps;
    uint32_t slots = rnic_register(rnic, RNIC_REG_READ_SLOTS);
    caps->version = rnic_register(rnic, RNIC_REG_VERSION);
    caps->qps = rnic_register(rnic, RNIC_REG_MAX_QPS);
    caps->cqs = rnic_register(rnic, RNIC_REG_MAX_CQS);
    caps->stags = rnic_register(rnic, RNIC_REG_MAX_STAGS);
    caps->pbl_entries = rnic_register(rnic, RNIC_REG_MAX_PBL);
    caps->listens = rnic_register(rnic, RNIC_REG_MAX_LISTENS);
    caps->work_log2 = rnic_register(rnic, RNIC_REG_MAX_WORK);
    caps->completions_log2 = rnic_register(rnic, RNIC_REG_MAX_COMPLETIONS);
    caps->segments = rnic_register(rnic, RNIC_REG_MAX_SEGMENTS);
    caps->transfer = rnic_register(rnic, RNIC_REG_MAX_TRANSFER);
    caps->mtu = rnic_register(rnic, RNIC_REG_MTU);
    caps->ird = (uint16_t)(slots >> RNIC_READ_SLOTS_IRD_SHIFT & RNIC_READ_SLOTS_IRD_MASK);
    caps->ord = (uint16_t)(slots >> RNIC_READ_SLOTS_ORD_SHIFT & RNIC_READ_SLOTS_ORD_MASK);
    uint32_t function = rnic_register(rnic, RNIC_REG_FUNCTION);
    caps->function = (uint16_t)(function >> RNIC_FUNCTION_NUMBER_SHIFT & RNIC_FUNCTION_NUMBER_MASK);
    caps->functions = (uint16_t)(function >> RNIC_FUNCTION_COUNT_SHIFT & RNIC_FUNCTION_COUNT_MASK);
    caps->link_mbits = rnic_register(rnic, RNIC_REG_LINK_MBITS);
    caps->features = rnic_register(rnic, RNIC_REG_CAPS);
    if ((caps->features & RNIC_CAPS_DEVICE_MEMORY) != 0) {
        caps->dram_bytes = rnic_register(rnic, RNIC_REG_DRAM_BYTES);
        caps->sram_bytes = rnic_register(rnic, RNIC_REG_SRAM_BYTES);
    }
    read_mac(rnic);
}

/* Numbers that the driver counts on, from a card that may be broken. */
static bool caps_are_valid(const struct vipl_rnic_caps *caps)
{
    return caps->version >> 16 == 1 && caps->qps - 1 < RNIC_QP_LIMIT && caps->cqs - 1 < RNIC_QP_LIMIT &&
           caps->work_log2 >= 4 && caps->work_log2 <= 16 && caps->completions_log2 >= 4 &&
           caps->completions_log2 <= 24 && caps->segments >= RNIC_INLINE_SEGMENTS && caps->transfer >= 4096 &&
           caps->dram_bytes % RNIC_MEMORY_GRANULE == 0 && caps->sram_bytes % RNIC_MEMORY_GRANULE == 0;
}

static bool await_status(struct vipl_rnic *rnic, uint32_t bit)
{
    uint64_t deadline = vipl_now_ns() + VIPL_RNIC_PATIENCE_MS * ns_per_ms;
    for (;;) {
        uint32_t status = rnic_register(rnic, RNIC_REG_STATUS);
        if (status == ALL_ONES) {
            return false;
        }
        if ((status & bit) != 0) {
            return true;
        }
        if (vipl_now_ns() > deadline) {
            return false;
        }
        vipl_rnic_progress(rnic);
    }
}

static void set_base(struct vipl_rnic *rnic, uint32_t low, uint64_t iova)
{
    rnic->pci->ops->write(rnic->pci, 0, low, (uint32_t)iova);
    rnic->pci->ops->write(rnic->pci, 0, low + 4, (uint32_t)(iova >> 32));
}

static int enable(struct vipl_rnic *rnic)
{
    struct rnic_pci *pci = rnic->pci;
    set_base(rnic, RNIC_REG_COMMAND_BASE_LO, rnic->commands.ring.iova);
    set_base(rnic, RNIC_REG_ANSWER_BASE_LO, rnic->commands.answers.iova);
    set_base(rnic, RNIC_REG_EVENT_BASE_LO, rnic->events.ring.iova);
    pci->ops->write(pci, 0, RNIC_REG_COMMAND_LOG2, RNIC_COMMANDS_LOG2);
    pci->ops->write(pci, 0, RNIC_REG_EVENT_LOG2, RNIC_EVENTS_LOG2);
    uint32_t ctrl = (rnic->big ? RNIC_CTRL_BYTE_ORDER : 0) |
                    RNIC_CTRL_QUIET; /* who sleeps is not woken by other threads' commands */
    pci->ops->write(pci, 0, RNIC_REG_CTRL, ctrl);
    pci->ops->write(pci, 0, RNIC_REG_CTRL, ctrl | RNIC_CTRL_ENABLE);
    return await_status(rnic, RNIC_STATUS_ENABLED) ? 0 : EIO;
}

/* From any state that another driver has left. */
static int initialize(struct vipl_rnic *rnic)
{
    struct rnic_pci *pci = rnic->pci;
    if (rnic_register(rnic, RNIC_REG_ID) != RNIC_ID_VALUE) {
        return ENODEV;
    }
    int error = pci->ops->reset(pci);
    if (error != 0) {
        return error;
    }
    uint32_t command = pci->ops->config_read(pci, PCI_COMMAND, 2);
    pci->ops->config_write(pci, PCI_COMMAND, 2, command | PCI_MEMORY_AND_MASTER);
    if (!await_status(rnic, RNIC_STATUS_READY)) {
        return ENODEV;
    }
    read_caps(rnic);
    return caps_are_valid(&rnic->caps) ? 0 : ENOTSUP;
}

static bool processor_is_big(void)
{
    const uint32_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    return first == 0;
}

bool vipl_rnic_has_model(void)
{
    return rnic_pci_open_model != NULL;
}

bool vipl_rnic_say_adapter(char *text, size_t size)
{
    if (rnic_pci_say_adapter != NULL) {
        rnic_pci_say_adapter(text, size);
    }
    return rnic_pci_say_adapter != NULL;
}

int vipl_rnic_start(struct rnic_pci *pci, struct vipl_rnic **out)
{
    struct vipl_rnic *rnic = vipl_zalloc(sizeof(*rnic));
    if (rnic == NULL) {
        return ENOMEM;
    }
    rnic->pci = pci;
    rnic->big = processor_is_big();
    rnic->generation = vipl_fork_generation();
    vipl_rnic_slabs_init(&rnic->slabs, pci);
    int error = initialize(rnic);
    error = error != 0 ? error : vipl_rnic_commands_open(rnic);
    error = error != 0 ? error : vipl_rnic_events_open(rnic);
    error = error != 0 ? error : enable(rnic);
    if (error != 0) {
        (void)pci->ops->reset(pci);
        vipl_rnic_slabs_fini(&rnic->slabs);
        vipl_free(rnic);
        return error;
    }
    vipl_rnic_memory_init(&rnic->memory, pci, rnic->caps.dram_bytes, rnic->caps.sram_bytes);
    *out = rnic;
    return 0;
}

int vipl_rnic_open(const char *device, struct vipl_rnic **out)
{
    struct rnic_pci *pci;
    int error = rnic_pci_open(device, &pci);
    if (error != 0) {
        return error;
    }
    error = vipl_rnic_start(pci, out);
    if (error != 0) {
        pci->ops->close(pci);
    }
    return error;
}

void vipl_rnic_close(struct vipl_rnic *rnic)
{
    struct rnic_pci *pci = rnic->pci;
    (void)pci->ops->reset(pci); /* of one that is gone it fails, and closing ends what it may do */
    vipl_rnic_slabs_fini(&rnic->slabs);
    vipl_rnic_memory_fini(&rnic->memory);
    pci->ops->close(pci);
    vipl_free(rnic);
}

void vipl_rnic_abandon(struct vipl_rnic *rnic)
{
    rnic->pci->ops->abandon(rnic->pci);
}

/* --- what it is --- */

const struct vipl_rnic_caps *vipl_rnic_query(const struct vipl_rnic *rnic)
{
    return &rnic->caps;
}

const struct rnic_pci *vipl_rnic_access(const struct vipl_rnic *rnic)
{
    return rnic->pci;
}

bool vipl_rnic_has_link(struct vipl_rnic *rnic)
{
    return (rnic_register(rnic, RNIC_REG_STATUS) & RNIC_STATUS_LINK_UP) != 0;
}

uint64_t vipl_rnic_raw_missed(struct vipl_rnic *rnic)
{
    uint32_t high = rnic_register(rnic, RNIC_REG_RAW_MISSED_HI);
    for (;;) { /* until both halves are of one number */
        uint32_t low = rnic_register(rnic, RNIC_REG_RAW_MISSED_LO);
        uint32_t after = rnic_register(rnic, RNIC_REG_RAW_MISSED_HI);
        if (after == high) {
            return (uint64_t)high << 32 | low;
        }
        high = after;
    }
}

/* Whether this is a child that was forked meanwhile: the function is its parent's, and the rings
 * are not there. */
static bool is_inherited(const struct vipl_rnic *rnic)
{
    return rnic->generation != vipl_fork_generation();
}

bool vipl_rnic_is_dead(struct vipl_rnic *rnic)
{
    if (is_inherited(rnic)) {
        return true;
    }
    if (vipl_load_relaxed(&rnic->dead) == 0 && rnic->pci->ops->is_gone(rnic->pci)) {
        const struct rnic_pci_ops *ops = rnic->pci->ops;
        const char *why = ops->gone_because != NULL ? ops->gone_because(rnic->pci) : NULL;
        vipl_rnic_fail(rnic, why != NULL ? why : "the card is gone");
    }
    return vipl_load_relaxed(&rnic->dead) != 0;
}

bool vipl_rnic_probe(struct vipl_rnic *rnic)
{
    if (vipl_rnic_is_dead(rnic)) {
        return true;
    }
    uint32_t status = rnic_register(rnic, RNIC_REG_STATUS);
    if (status == ALL_ONES) {
        vipl_rnic_fail(rnic, "the card does not answer any more");
    } else if ((status & RNIC_STATUS_CATASTROPHIC) != 0 || (status & RNIC_STATUS_ENABLED) == 0) {
        vipl_rnic_fail(rnic, "the card has stopped");
    }
    return vipl_load_relaxed(&rnic->dead) != 0;
}

/* The time since the last look, as far as this thread has run. */
static uint64_t time_waited(const struct vipl_rnic_wait *wait, uint64_t now)
{
    uint64_t time = now - wait->looked;
    return time < LATE_MS * ns_per_ms ? time : LATE_MS * ns_per_ms;
}

static bool check_card(struct vipl_rnic *rnic, struct vipl_rnic_wait *wait)
{
    if (wait->looked - wait->asked <= ASK_MS * ns_per_ms) {
        return vipl_rnic_is_dead(rnic);
    }
    bool is_dead = vipl_rnic_probe(rnic);
    wait->asked = wait->looked = vipl_now_ns(); /* a process answers when it is run */
    return is_dead;
}

static bool wait_once(struct vipl_rnic *rnic, struct vipl_rnic_wait *wait)
{
    vipl_rnic_progress(rnic);
    if (wait->turns++ % ROUNDS_PER_CLOCK != 0) {
        return true;
    }
    uint64_t now = vipl_now_ns();
    if (wait->looked == 0) {
        wait->looked = wait->asked = now;
        wait->pause = PAUSE_US * UINT64_C(1000);
    }
    wait->waited += time_waited(wait, now);
    wait->looked = now;
    if (check_card(rnic, wait)) {
        return false;
    }
    if (wait->waited > SPIN_US * UINT64_C(1000)) {
        vipl_pause(wait->pause);
        wait->pause = wait->pause < ns_per_ms / 2 ? 2 * wait->pause : ns_per_ms;
    }
    return wait->waited <= VIPL_RNIC_PATIENCE_MS * ns_per_ms;
}

/* A signal handler may have forked at any moment of it. */
bool vipl_rnic_wait_on(struct vipl_rnic *rnic, struct vipl_rnic_wait *wait)
{
    return !is_inherited(rnic) && wait_once(rnic, wait) && !is_inherited(rnic);
}

void vipl_rnic_progress(struct vipl_rnic *rnic)
{
    if (rnic->pci->ops->progress != NULL) {
        rnic->pci->ops->progress(rnic->pci);
    }
}

int vipl_rnic_interrupt_fd(struct vipl_rnic *rnic, unsigned vector)
{
    return rnic->pci->ops->interrupt_fd(rnic->pci, vector);
}

void vipl_rnic_interrupt_clear(struct vipl_rnic *rnic, unsigned vector)
{
    rnic->pci->ops->interrupt_clear(rnic->pci, vector);
}

void vipl_rnic_wait_hint(struct vipl_rnic *rnic, int *fd, int *ms)
{
    rnic->pci->ops->wait_hint(rnic->pci, fd, ms);
}
