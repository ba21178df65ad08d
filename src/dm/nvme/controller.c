/* SPDX-License-Identifier: MIT */
/* Starting and stopping a controller; see controller.h. */
#include "dm/nvme/controller.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "dm/bytes.h"
#include "dm/reason.h"

enum {
    ADMIN_ENTRIES = 16,
    IO_QUEUE = 1,
    NAMESPACE = 1,
    MIN_BLOCK_LOG2 = 9,
    MAX_BLOCK_LOG2 = 12,
    /* Pages of the memory that the controller is given. */
    ADMIN_PAGES = 2,
    IDENTITY_PAGE = ADMIN_PAGES,
    IO_PAGE, /* two of them */
    BOUNCE_PAGE = IO_PAGE + 2,
    LIST_PAGE = BOUNCE_PAGE + DM_NVME_BOUNCE / DM_NVME_PAGE,
    ALL_PAGES = LIST_PAGE + DM_NVME_ENTRIES
};
static const uint32_t ALL_ONES = UINT32_MAX; /* what a function reads as that is gone */
static const uint64_t READY_UNIT_NS = 500000000;
static const uint64_t ADMIN_NS = UINT64_C(10000000000); /* the longest time for a command */
static const uint64_t SPIN_NS = 100000;                 /* then pauses are sleeps */
static const uint64_t SLEEP_NS = 200000;

static uint32_t read_register(const struct dm_nvme *nvme, uint32_t offset)
{
    return nvme->pci->ops->read(nvme->pci, offset);
}

static void write_register(const struct dm_nvme *nvme, uint32_t offset, uint32_t value)
{
    nvme->pci->ops->write(nvme->pci, offset, value);
}

static void write_address(const struct dm_nvme *nvme, uint32_t offset, uint64_t address)
{
    write_register(nvme, offset, (uint32_t)address);
    write_register(nvme, offset + 4, (uint32_t)(address >> 32));
}

uint64_t dm_nvme_now(const struct dm_nvme *nvme)
{
    return nvme->clock->now(nvme->clock->context);
}

void dm_nvme_pause(const struct dm_nvme *nvme, uint64_t since)
{
    uint64_t now = dm_nvme_now(nvme);

    if (now - since >= SPIN_NS) {
        nvme->clock->wait_until(nvme->clock->context, now + SLEEP_NS);
    }
}

/* --- enabling --------------------------------------------------------------------------------- */

int dm_nvme_look(struct dm_nvme *nvme)
{
    uint32_t status = read_register(nvme, NVME_CSTS);

    if (status == ALL_ONES) {
        return ENODEV;
    }
    return (status & NVME_CSTS_FATAL) != 0 || (status & NVME_CSTS_READY) == 0 ? EIO : 0;
}

/* Waits until CSTS.RDY is that. */
static int wait_ready(const struct dm_nvme *nvme, uint32_t ready)
{
    uint64_t start = dm_nvme_now(nvme);

    for (;;) {
        uint32_t status = read_register(nvme, NVME_CSTS);
        if (status == ALL_ONES) {
            return ENODEV;
        }
        if (ready != 0 && (status & NVME_CSTS_FATAL) != 0) {
            return EIO;
        }
        if ((status & NVME_CSTS_READY) == ready) {
            return 0;
        }
        if (dm_nvme_now(nvme) - start >= nvme->ready_ns) {
            return ETIMEDOUT;
        }
        dm_nvme_pause(nvme, start);
    }
}

/* A controller that does not stop by itself is reset by its function. */
static int disable(const struct dm_nvme *nvme)
{
    int error;

    write_register(nvme, NVME_CC, 0);
    error = wait_ready(nvme, 0);
    if (error == ETIMEDOUT && nvme->pci->ops->reset(nvme->pci) == 0) {
        error = wait_ready(nvme, 0);
    }
    return error;
}

/* A memory buffer that a former user has enabled would still be at that user's address, in front of
 * memory that we map there: neither a reset nor another process changes that. */
static void hide_buffer(const struct dm_nvme *nvme)
{
    if (NVME_CAP_CMBS(nvme->cap_high) != 0) {
        write_register(nvme, NVME_CMBMSC, 0);
        write_register(nvme, NVME_CMBMSC + 4, 0);
    }
}

static int enable_controller(struct dm_nvme *nvme, uint64_t commands_bus, uint64_t answers_bus)
{
    write_register(nvme, NVME_AQA, (ADMIN_ENTRIES - 1) << 16 | (ADMIN_ENTRIES - 1));
    write_address(nvme, NVME_ASQ, commands_bus);
    write_address(nvme, NVME_ACQ, answers_bus);
    write_register(nvme, NVME_CC, NVME_CC_ENABLE | NVME_CC_ENTRIES);
    return wait_ready(nvme, NVME_CSTS_READY);
}

void dm_nvme_fail(struct dm_nvme *nvme, int error)
{
    if (nvme->error != 0) {
        return;
    }
    nvme->error = error;
    (void)disable(nvme); /* closing the function is the last resort */
    for (unsigned i = 0; i <= DM_MAX_TRANSFERS; i++) {
        struct dm_nvme_transfer *transfer = &nvme->transfers[i];
        if (transfer->is_busy && (transfer->left > 0 || transfer->pending > 0)) {
            transfer->error = error;
            transfer->left = 0;
            transfer->pending = 0;
        }
    }
    memset(nvme->commands, 0, sizeof(nvme->commands));
    nvme->pending = 0;
}

/* --- admin commands --------------------------------------------------------------------------- */

int dm_nvme_admin(struct dm_nvme *nvme, const uint8_t *command, unsigned *status)
{
    uint64_t start = dm_nvme_now(nvme);
    struct dm_nvme_answer answer;
    uint8_t *entry;

    if (nvme->error != 0) {
        return nvme->error;
    }
    entry = dm_nvme_queue_entry(&nvme->admin, 0, 0);
    memcpy(entry, command, NVME_ENTRY_BYTES);
    dm_nvme_queue_ring(&nvme->admin);
    while (!dm_nvme_queue_take(&nvme->admin, &answer)) {
        int error = dm_nvme_look(nvme);
        if (error == 0 && dm_nvme_now(nvme) - start >= ADMIN_NS) {
            error = ETIMEDOUT;
        }
        if (error != 0) {
            dm_nvme_fail(nvme, error);
            return error;
        }
        dm_nvme_pause(nvme, start);
    }
    if (answer.id != 0) { /* of no command that there is */
        dm_nvme_fail(nvme, EIO);
        return EIO;
    }
    *status = answer.status;
    return answer.status == 0 ? 0 : EIO;
}

int dm_nvme_identify(struct dm_nvme *nvme, unsigned what, uint32_t name_space, uint64_t bus, unsigned *status)
{
    uint8_t command[NVME_ENTRY_BYTES] = {NVME_IDENTIFY};

    dm_put_little(command + NVME_ENTRY_NAMESPACE, name_space, 4);
    dm_put_little(command + NVME_ENTRY_PRP1, bus, 8);
    dm_put_little(command + NVME_ENTRY_WORD10, what, 4);
    return dm_nvme_admin(nvme, command, status);
}

static int create_queue(struct dm_nvme *nvme, unsigned opcode, uint64_t bus, uint32_t flags, unsigned *status)
{
    uint8_t command[NVME_ENTRY_BYTES] = {(uint8_t)opcode};

    dm_put_little(command + NVME_ENTRY_PRP1, bus, 8);
    dm_put_little(command + NVME_ENTRY_WORD10, (nvme->io.entries - 1) << 16 | IO_QUEUE, 4);
    dm_put_little(command + NVME_ENTRY_WORD11, flags, 4);
    return dm_nvme_admin(nvme, command, status);
}

/* One pair; "1" is "physically contiguous". Completion queue first: the other one names it. */
static int create_queues(struct dm_nvme *nvme, uint64_t commands_bus, uint64_t answers_bus, unsigned *status)
{
    uint8_t command[NVME_ENTRY_BYTES] = {NVME_SET_FEATURES};
    int error;

    dm_put_little(command + NVME_ENTRY_WORD10, NVME_FEATURE_QUEUES, 4);
    error = dm_nvme_admin(nvme, command, status);
    if (error == 0) {
        error = create_queue(nvme, NVME_CREATE_CQ, answers_bus, 1, status);
    }
    if (error == 0) {
        error = create_queue(nvme, NVME_CREATE_SQ, commands_bus, IO_QUEUE << 16 | 1, status);
    }
    return error;
}

/* --- what the controller says of itself ------------------------------------------------------- */

static int check_registers(struct dm_nvme *nvme, const char *what, struct vipl_dm_reason *reason)
{
    uint32_t low = read_register(nvme, NVME_CAP);
    uint32_t high = read_register(nvme, NVME_CAP + 4);
    uint32_t stride = UINT32_C(4) << NVME_CAP_DSTRD(high);
    uint32_t entries = NVME_CAP_MQES(low) + 1;

    if (low == ALL_ONES && high == ALL_ONES) {
        return dm_fail(reason, ENODEV, "%s: the function does not answer", what);
    }
    if (NVME_CAP_NVM(high) == 0 || entries < 2) {
        return dm_fail(reason, ENODEV, "%s: it is no NVMe controller with blocks", what);
    }
    if (NVME_CAP_MPSMIN(high) != 0) {
        return dm_fail(reason, ENOTSUP, "%s: the controller has no pages of 4096 bytes", what);
    }
    if (nvme->pci->register_bytes < NVME_DOORBELLS + 4 * stride) {
        return dm_fail(reason, ENODEV, "%s: the controller's doorbells are outside of its registers", what);
    }
    nvme->cap_high = high;
    nvme->ready_ns = (NVME_CAP_TO(low) + 1) * READY_UNIT_NS;
    dm_nvme_queue_init(&nvme->admin, nvme->pci, 0, ADMIN_ENTRIES, stride);
    dm_nvme_queue_init(&nvme->io, nvme->pci, IO_QUEUE, entries < DM_NVME_ENTRIES ? entries : DM_NVME_ENTRIES,
                       stride);
    return 0;
}

static void take_model(struct dm_nvme *nvme)
{
    const uint8_t *model = nvme->said + NVME_CONTROLLER_MODEL;
    size_t length = sizeof(nvme->model) - 1;

    while (length > 0 && (model[length - 1] == ' ' || model[length - 1] == '\0')) {
        length--;
    }
    for (size_t i = 0; i < length; i++) {
        nvme->model[i] = (char)(model[i] >= ' ' && model[i] < 0x7F ? model[i] : '?');
    }
    nvme->model[length] = '\0';
}

static int check_controller(struct dm_nvme *nvme, const char *what, struct vipl_dm_reason *reason)
{
    uint8_t mdts = nvme->said[NVME_CONTROLLER_MDTS];

    if ((nvme->said[NVME_CONTROLLER_SQES] & 0xF) > 6 || (nvme->said[NVME_CONTROLLER_CQES] & 0xF) > 4) {
        return dm_fail(reason, ENOTSUP, "%s: the controller has queues of another form", what);
    }
    nvme->most_bytes = mdts == 0 || mdts >= 9 ? DM_NVME_MOST : (uint32_t)DM_NVME_PAGE << mdts;
    nvme->has_cache = (nvme->said[NVME_CONTROLLER_VWC] & 1) != 0;
    take_model(nvme);
    return 0;
}

static int check_namespace(struct dm_nvme *nvme, const char *what, struct vipl_dm_reason *reason)
{
    uint8_t flbas = nvme->said[NVME_NAMESPACE_FLBAS];
    unsigned number = (flbas & 0xFU) | (flbas >> 1 & 0x30U);
    const uint8_t *format = nvme->said + NVME_NAMESPACE_FORMATS + (size_t)4 * number;
    uint64_t blocks = dm_get(nvme->said + NVME_NAMESPACE_BLOCKS, 8, false);

    if (blocks == 0) {
        return dm_fail(reason, ENODEV, "%s: the controller has no namespace 1", what);
    }
    if (dm_get16(format, false) != 0) {
        return dm_fail(reason, ENOTSUP, "%s: the blocks of namespace 1 have metadata", what);
    }
    if (format[2] < MIN_BLOCK_LOG2 || format[2] > MAX_BLOCK_LOG2) {
        return dm_fail(reason, ENOTSUP, "%s: the blocks of namespace 1 have 2^%u bytes, not 512 to 4096",
                       what, (unsigned)format[2]);
    }
    if (blocks > UINT64_MAX >> format[2]) {
        return dm_fail(reason, ENODEV, "%s: namespace 1 has %" PRIu64 " blocks, which cannot be", what,
                       blocks);
    }
    nvme->block_bytes = UINT32_C(1) << format[2];
    nvme->blocks = blocks;
    return 0;
}

/* --- opening and closing ---------------------------------------------------------------------- */

static int take_memory(struct dm_nvme *nvme, uint64_t *bus)
{
    uint8_t *at = NULL;
    int error = nvme->pci->ops->take_pages(nvme->pci, (uint64_t)ALL_PAGES * DM_NVME_PAGE, &at, bus);

    if (error != 0) {
        return error;
    }
    nvme->admin.commands = at;
    nvme->admin.answers = at + DM_NVME_PAGE;
    nvme->identity = at + (size_t)IDENTITY_PAGE * DM_NVME_PAGE;
    nvme->identity_bus = *bus + (uint64_t)IDENTITY_PAGE * DM_NVME_PAGE;
    nvme->io.commands = at + (size_t)IO_PAGE * DM_NVME_PAGE;
    nvme->io.answers = nvme->io.commands + DM_NVME_PAGE;
    nvme->bounce = at + (size_t)BOUNCE_PAGE * DM_NVME_PAGE;
    nvme->bounce_bus = *bus + (uint64_t)BOUNCE_PAGE * DM_NVME_PAGE;
    nvme->lists = at + (size_t)LIST_PAGE * DM_NVME_PAGE;
    nvme->lists_bus = *bus + (uint64_t)LIST_PAGE * DM_NVME_PAGE;
    return 0;
}

static int fail_command(const char *what, const char *command, int error, unsigned status,
                        struct vipl_dm_reason *reason)
{
    if (status != 0) {
        return dm_fail(reason, error, "%s: the controller refuses %s: status 0x%x", what, command, status);
    }
    return dm_fail(reason, error, "%s: the controller does not answer %s: %s", what, command,
                   strerror(error));
}

/* Identify into main memory, from where the answer is copied before anything is made of it. */
static int ask(struct dm_nvme *nvme, unsigned what, uint32_t name_space, unsigned *status)
{
    int error = dm_nvme_identify(nvme, what, name_space, nvme->identity_bus, status);

    memcpy(nvme->said, nvme->identity, sizeof(nvme->said));
    return error;
}

static int learn(struct dm_nvme *nvme, const char *what, struct vipl_dm_reason *reason)
{
    unsigned status = 0;
    int error = ask(nvme, NVME_IDENTIFY_CONTROLLER, 0, &status);

    if (error != 0) {
        return fail_command(what, "Identify", error, status, reason);
    }
    error = check_controller(nvme, what, reason);
    if (error != 0) {
        return error;
    }
    error = ask(nvme, NVME_IDENTIFY_NAMESPACE, NAMESPACE, &status);
    if (error != 0 && status != 0) {
        return dm_fail(reason, ENODEV, "%s: the controller has no namespace 1: status 0x%x", what, status);
    }
    return error != 0 ? fail_command(what, "Identify", error, status, reason)
                      : check_namespace(nvme, what, reason);
}

static int start_controller(struct dm_nvme *nvme, const char *what, struct vipl_dm_reason *reason)
{
    uint64_t bus = 0;
    unsigned status = 0;
    int error = take_memory(nvme, &bus);

    if (error != 0) {
        return dm_fail(reason, error, "%s: memory for its queues: %s", what, strerror(error));
    }
    error = disable(nvme);
    if (error == 0) {
        hide_buffer(nvme);
        error = enable_controller(nvme, bus, bus + DM_NVME_PAGE);
    }
    if (error != 0) {
        return dm_fail(reason, error, "%s: the controller does not start: %s", what, strerror(error));
    }
    error = learn(nvme, what, reason);
    if (error != 0) {
        return error;
    }
    error = create_queues(nvme, bus + (uint64_t)IO_PAGE * DM_NVME_PAGE,
                          bus + (uint64_t)(IO_PAGE + 1) * DM_NVME_PAGE, &status);
    return error == 0 ? 0 : fail_command(what, "a pair of queues", error, status, reason);
}

int dm_nvme_open(struct dm_pci *pci, const struct dm_clock *clock, const char *what, struct dm_nvme **out,
                 struct vipl_dm_reason *reason)
{
    struct dm_nvme *nvme = calloc(1, sizeof(*nvme));
    int error;

    if (nvme == NULL) {
        pci->ops->close(pci);
        return dm_fail(reason, ENOMEM, "%s: no memory", what);
    }
    nvme->pci = pci;
    nvme->clock = clock;
    error = pci->ops->begin(pci);
    error = error == 0
                ? check_registers(nvme, what, reason)
                : dm_fail(reason, error, "%s: its registers cannot be used: %s", what, strerror(error));
    if (error == 0) {
        error = start_controller(nvme, what, reason);
    }
    if (error != 0) {
        dm_nvme_close(nvme);
        return error;
    }
    *out = nvme;
    return 0;
}

void dm_nvme_close(struct dm_nvme *nvme)
{
    if (nvme->admin.commands != NULL && nvme->error == 0) {
        (void)disable(nvme);
    }
    nvme->pci->ops->close(nvme->pci);
    free(nvme);
}
