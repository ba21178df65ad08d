/* SPDX-License-Identifier: MIT */
/* Opens the card that a device name names, by the way that the name stands for. */
#include "backends/rnic/pci/pci.h"

#include <errno.h>

#include "os/os.h"
#include "os/os_atomic.h"
#include "rnic/registers.h"

static const uint64_t RESET_NS = UINT64_C(200000000); /* the data sheet promises half of that */
enum { FREE_TRIES = 100, FREE_MS = 10, CHECK_MS = 10, NS_PER_MS = 1000000 };
enum {
    CAPABILITIES = 0x34, /* in configuration space */
    MAX_CAPABILITIES = 48,
    MSIX = 0x11,
    MSIX_CONTROL = 2, /* of the capability */
    MSIX_ENABLE = 0x8000
};
static const uint32_t ALL_ONES = 0xFFFFFFFFu;

int rnic_pci_open(const char *device, struct rnic_pci **out)
{
    int error = rnic_pci_open_model != NULL ? rnic_pci_open_model(device, out) : ENODEV;
    for (unsigned i = 0; error == ENODEV && rnic_pci_openers[i] != NULL; i++) {
        error = rnic_pci_openers[i](device, out);
    }
    return error;
}

int rnic_pci_reset_by_register(struct rnic_pci *pci)
{
    uint64_t end = vipl_now_ns() + RESET_NS;
    pci->ops->write(pci, 0, RNIC_REG_CTRL, RNIC_CTRL_RESET);
    for (;;) {
        uint32_t status = pci->ops->read(pci, 0, RNIC_REG_STATUS);
        if (status == ALL_ONES) {
            return ENODEV;
        }
        if ((status & RNIC_STATUS_READY) != 0) {
            return 0;
        }
        if (vipl_now_ns() > end) {
            return ETIMEDOUT;
        }
    }
}

bool rnic_pci_check_is_due(uint32_t *checked_at)
{
    uint32_t now = (uint32_t)(vipl_now_ns() / NS_PER_MS);
    bool is_due = now - vipl_load_relaxed(checked_at) >= CHECK_MS;
    if (is_due) {
        vipl_store_relaxed(checked_at, now);
    }
    return is_due;
}

void rnic_pci_enable_msix(struct rnic_pci *pci)
{
    uint32_t at = pci->ops->config_read(pci, CAPABILITIES, 1);
    for (unsigned i = 0; i < MAX_CAPABILITIES && at != 0 && at < UINT8_MAX; i++) {
        if (pci->ops->config_read(pci, at, 1) == MSIX) {
            pci->ops->config_write(pci, at + MSIX_CONTROL, 2,
                                   pci->ops->config_read(pci, at + MSIX_CONTROL, 2) | MSIX_ENABLE);
            return;
        }
        at = pci->ops->config_read(pci, at + 1, 1);
    }
}

bool rnic_pci_wait_until_free(unsigned *tried)
{
    if (++*tried > FREE_TRIES) {
        return false;
    }
    (void)vipl_poll(NULL, 0, FREE_MS, NULL);
    return true;
}
