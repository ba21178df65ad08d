/* SPDX-License-Identifier: MIT */
/*
 * PCI configuration space: a type 0 header, MSI-X at 0x40, PCI Express at 0x60. Read-only fields
 * come from the image below; the few that may be written are put over it. Little-endian always.
 */
#include "devices/rnic/card/config.h"

#include <string.h>

#include "devices/rnic/card/dma.h"
#include "devices/rnic/card/interrupt.h"
#include "rnic/entry.h"

enum {
    COMMAND = 0x04,
    STATUS = 0x06,
    BARS = 0x10,
    BAR_COUNT = 6,
    LINE = 0x3C,
    MSIX = 0x40,
    EXPRESS = 0x60,
    DEVICE_CONTROL = EXPRESS + 8,
    SPACE = 0x100,
    /* I/O space too, as of every device, though there is none; parity, SERR, INTx disable */
    COMMAND_WRITABLE = 0x0547,
    DEVICE_CONTROL_WRITABLE = 0x7FFF,
    FUNCTION_RESET = 0x8000, /* of device control; reads as 0 */
    MSIX_WRITABLE = RNIC_MSIX_ENABLE | RNIC_MSIX_MASK_ALL,
    BAR_64 = 0x4,
    BAR_PREFETCH = 0x8
};

/* Sizes of BARs of 64 bits, which take two registers each. BAR4 is there if there is device
 * memory. */
static uint64_t bar_bytes(const struct rnic_card *card, unsigned i)
{
    switch (i / 2) {
    case 0:
        return RNIC_BAR0_BYTES;
    case 1:
        return RNIC_BAR2_BYTES;
    default:
        return rnic_card_bar4_bytes(&rnic_state(card)->config);
    }
}

/* What a BAR's register keeps of what is written: its size is what that leaves out. */
static uint32_t bar_writable(const struct rnic_card *card, unsigned i)
{
    uint64_t bytes = bar_bytes(card, i);
    uint64_t kept = bytes != 0 ? ~(bytes - 1) : 0;
    return (uint32_t)(i % 2 == 0 ? kept : kept >> 32);
}

static uint32_t bar_kind(const struct rnic_card *card, unsigned i)
{
    uint32_t kind = i == 0 ? (uint32_t)BAR_64 : (uint32_t)BAR_64 | BAR_PREFETCH;
    return i % 2 == 0 && bar_bytes(card, i) != 0 ? kind : 0;
}

static void put_config16(uint8_t *image, unsigned at, uint16_t value)
{
    rnic_put16(image + at, value, false);
}
static void put_config32(uint8_t *image, unsigned at, uint32_t value)
{
    rnic_put32(image + at, value, false);
}

static void put_msix(uint8_t *image, const struct rnic_fn *f)
{
    image[MSIX] = 0x11;
    image[MSIX + 1] = EXPRESS;
    put_config16(image, MSIX + 2, (uint16_t)((RNIC_VECTORS - 1) | f->msix_control));
    put_config32(image, MSIX + 4, RNIC_MSIX_TABLE); /* both in BAR0 */
    put_config32(image, MSIX + 8, RNIC_MSIX_PBA);
}

/* An endpoint of version 2 that is reset by its function's reset; a link of 8 GT/s and 4 lanes. */
static void put_express(uint8_t *image, const struct rnic_fn *f)
{
    image[EXPRESS] = 0x10;
    put_config16(image, EXPRESS + 2, 0x0002);
    put_config32(image, EXPRESS + 4,
                 0x10008001); /* function-level reset, role-based errors, 256 bytes of payload */
    put_config16(image, DEVICE_CONTROL, f->device_control);
    put_config32(image, EXPRESS + 0x0C, 0x00000043);
    put_config16(image, EXPRESS + 0x12, 0x0043);
    put_config32(image, EXPRESS + 0x2C, 0x0000000E);
}

static void put_image(uint8_t image[SPACE], const struct rnic_card *card, unsigned fn)
{
    const struct rnic_fn *f = rnic_fn(card, fn);
    memset(image, 0, SPACE);
    put_config16(image, 0x00, RNIC_PCI_VENDOR);
    put_config16(image, 0x02, RNIC_PCI_DEVICE);
    put_config16(image, COMMAND, f->pci_command);
    put_config16(image, STATUS, 0x0010); /* a list of capabilities */
    put_config32(image, 0x08, (uint32_t)RNIC_PCI_CLASS << 8 | 0x01);
    for (unsigned i = 0; i < BAR_COUNT; i++) {
        put_config32(image, BARS + 4 * i, f->bar[i] | bar_kind(card, i));
    }
    put_config16(image, 0x2C, RNIC_PCI_VENDOR);
    put_config16(image, 0x2E, RNIC_PCI_DEVICE);
    image[0x34] = MSIX;
    image[LINE] = f->interrupt_line;
    put_msix(image, f);
    put_express(image, f);
}

uint32_t rnic_config_read(struct rnic_card *card, unsigned fn, uint32_t offset, unsigned bytes)
{
    uint8_t image[SPACE];
    put_image(image, card, fn);
    uint32_t value = 0;
    for (unsigned i = 0; i < bytes && i < 4; i++) {
        uint32_t byte = rnic_state(card)->removed ? 0xFF : offset < SPACE - i ? image[offset + i] : 0;
        value |= byte << 8 * i;
    }
    rnic_transact(card, (struct rnic_transaction){.kind = RNIC_TRANSACTION_CONFIG_READ,
                                                  .fn = (uint16_t)fn,
                                                  .address = offset,
                                                  .value = value,
                                                  .bytes = bytes});
    return value;
}

/* The 32-bit word at `at` becomes this, where it may be written. True: it asks for a reset. */
static bool write_word(struct rnic_card *card, unsigned fn, unsigned at, uint32_t value)
{
    struct rnic_fn *f = rnic_fn(card, fn);
    if (at == COMMAND) {
        f->pci_command = (uint16_t)(value & COMMAND_WRITABLE);
    } else if (at >= BARS && at < BARS + 4 * BAR_COUNT) {
        f->bar[(at - BARS) / 4] = value & bar_writable(card, (at - BARS) / 4);
    } else if (at == LINE) {
        f->interrupt_line = (uint8_t)value;
    } else if (at == MSIX) {
        f->msix_control = (uint16_t)(value >> 16 & MSIX_WRITABLE);
    } else if (at == DEVICE_CONTROL) {
        f->device_control = (uint16_t)(value & DEVICE_CONTROL_WRITABLE);
        return (value & FUNCTION_RESET) != 0;
    }
    return false;
}

/* The bytes of a write that fall into the word at `at`, over what it has. */
static uint32_t merge_word(const uint8_t *image, unsigned at, uint32_t offset, unsigned bytes, uint32_t value)
{
    uint8_t word[4];
    memcpy(word, image + at, sizeof(word));
    for (unsigned i = 0; i < bytes; i++) {
        if (offset + i >= at && offset + i < at + 4) {
            word[offset + i - at] = (uint8_t)(value >> 8 * i);
        }
    }
    return rnic_get32(word, false);
}

bool rnic_config_write(struct rnic_card *card, unsigned fn, uint32_t offset, unsigned bytes, uint32_t value)
{
    rnic_transact(card, (struct rnic_transaction){.kind = RNIC_TRANSACTION_CONFIG_WRITE,
                                                  .fn = (uint16_t)fn,
                                                  .address = offset,
                                                  .value = value,
                                                  .bytes = bytes});
    bytes = bytes < 4 ? bytes : 4;
    if (offset >= SPACE || bytes == 0 || rnic_state(card)->removed) {
        return false;
    }
    bool resets = false;
    uint8_t image[SPACE];
    put_image(image, card, fn);
    for (unsigned at = offset & ~3u; at < offset + bytes && at < SPACE; at += 4) {
        resets |= write_word(card, fn, at, merge_word(image, at, offset, bytes, value));
    }
    rnic_interrupt_unmasked(card, fn);
    return resets;
}

void rnic_config_reset(struct rnic_fn *f)
{
    f->pci_command = 0;
    f->msix_control = 0;
    f->device_control = 0;
    f->interrupt_line = 0;
    memset(f->bar, 0, sizeof(f->bar));
}
