/* SPDX-License-Identifier: MIT */
/* Writing and reading a saved card. Blocks of zeros are left out: most of a card was never used. */
#include "saved.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rnic/registers.h"

enum {
    VERSION = 1,
    ORDER = 0x01020304,
    BLOCK = 4096,
    TEXT = RNIC_CARD_TEXT /* of the configuration, with zeros behind it */
};
enum saved_part { PART_END, PART_AREA, PART_BAR2, PART_BAR4, PART_KINDS };
static const char magic[8] = {'V', 'I', 'P', 'L', 'C', 'A', 'R', 'D'};

struct head {
    char magic[8];
    uint32_t order;
    uint32_t version;
    uint64_t number;
    char text[TEXT];
};

/* Stands in front of a block's bytes; with no bytes: there is such a BAR. */
struct block {
    uint32_t part; /* enum saved_part */
    uint32_t fn;
    uint64_t offset;
    uint64_t bytes;
};

/* --- writing --- */

static bool is_zero(const uint8_t *bytes, size_t count)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0;
}

static bool put_block(FILE *file, enum saved_part part, unsigned fn, const uint8_t *from, uint64_t offset,
                      size_t bytes)
{
    struct block block = {(uint32_t)part, fn, offset, bytes};
    return fwrite(&block, sizeof(block), 1, file) == 1 &&
           (bytes == 0 || fwrite(from + offset, bytes, 1, file) == 1);
}

static bool put_part(FILE *file, enum saved_part part, unsigned fn, const uint8_t *from, size_t bytes)
{
    bool good = from == NULL || put_block(file, part, fn, from, 0, 0);
    for (size_t at = 0; from != NULL && at < bytes && good; at += BLOCK) {
        size_t count = bytes - at < BLOCK ? bytes - at : BLOCK;
        good = is_zero(from + at, count) || put_block(file, part, fn, from, at, count);
    }
    return good;
}

static bool put_card(FILE *file, const struct saved_card *card)
{
    size_t bar4 = (size_t)rnic_card_bar4_bytes(&card->config);
    struct head head = {.order = ORDER, .version = VERSION, .number = card->number};
    memcpy(head.magic, magic, sizeof(magic));
    bool good = rnic_card_describe(&card->config, head.text, sizeof(head.text)) &&
                fwrite(&head, sizeof(head), 1, file) == 1 &&
                put_part(file, PART_AREA, 0, card->area, rnic_card_bytes(&card->config));
    for (unsigned fn = 0; fn < card->config.functions && good; fn++) {
        good = put_part(file, PART_BAR2, fn, card->bar2[fn], RNIC_BAR2_BYTES) &&
               put_part(file, PART_BAR4, fn, card->bar4[fn], bar4);
    }
    return good && put_block(file, PART_END, 0, NULL, 0, 0);
}

int saved_write(const char *path, const struct saved_card *card)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        return errno;
    }
    errno = 0;
    int error = put_card(file, card) ? 0 : errno != 0 ? errno : EIO;
    return fclose(file) != 0 && error == 0 ? errno : error;
}

/* --- reading --- */

static uint32_t turned32(uint32_t value, bool swaps)
{
    return swaps ? value >> 24 | (value >> 8 & 0xFF00) | (value << 8 & 0xFF0000) | value << 24 : value;
}

static uint64_t turned64(uint64_t value, bool swaps)
{
    return swaps ? (uint64_t)turned32((uint32_t)value, true) << 32 | turned32((uint32_t)(value >> 32), true)
                 : value;
}

static const char *read_head(FILE *file, struct saved_card *card)
{
    struct head head;
    if (fread(&head, sizeof(head), 1, file) != 1 || memcmp(head.magic, magic, sizeof(magic)) != 0) {
        return "it is no saved card";
    }
    card->swaps = head.order != ORDER;
    if (turned32(head.order, card->swaps) != ORDER || turned32(head.version, card->swaps) != VERSION) {
        return "it is a saved card of another version";
    }
    card->number = turned64(head.number, card->swaps);
    head.text[sizeof(head.text) - 1] = '\0';
    return rnic_card_understand(head.text, &card->config) ? NULL
                                                          : "it is a card that this version does not have";
}

/* The memory that a block goes to, made when it is first named; NULL: there is none. */
static uint8_t **target_of(struct saved_card *card, const struct block *block, size_t *bytes)
{
    if (block->part == PART_AREA) {
        *bytes = rnic_card_bytes(&card->config);
        return &card->area;
    }
    if (block->fn >= card->config.functions) {
        return NULL;
    }
    *bytes = block->part == PART_BAR2 ? RNIC_BAR2_BYTES : (size_t)rnic_card_bar4_bytes(&card->config);
    return block->part == PART_BAR2 ? &card->bar2[block->fn] : &card->bar4[block->fn];
}

static const char *read_block(FILE *file, struct saved_card *card, const struct block *block,
                              uint8_t *(*pages)(size_t bytes))
{
    size_t all = 0;
    uint8_t **target = block->part < PART_KINDS ? target_of(card, block, &all) : NULL;
    if (target == NULL || block->bytes > all || block->offset > all - block->bytes) {
        return "it has a block that the card has no room for";
    }
    *target = *target != NULL ? *target : pages(all);
    if (*target == NULL) {
        return "there is no memory for it";
    }
    return block->bytes == 0 || fread(*target + block->offset, (size_t)block->bytes, 1, file) == 1
               ? NULL
               : "it is cut off";
}

static const char *read_blocks(FILE *file, struct saved_card *card, uint8_t *(*pages)(size_t bytes))
{
    struct block block;
    const char *wrong = NULL;
    while (wrong == NULL) {
        if (fread(&block, sizeof(block), 1, file) != 1) {
            return "it is cut off";
        }
        block.part = turned32(block.part, card->swaps);
        block.fn = turned32(block.fn, card->swaps);
        block.offset = turned64(block.offset, card->swaps);
        block.bytes = turned64(block.bytes, card->swaps);
        if (block.part == PART_END) {
            return card->area == NULL ? "it has no card" : NULL;
        }
        wrong = read_block(file, card, &block, pages);
    }
    return wrong;
}

const char *saved_read(const char *path, struct saved_card *card, uint8_t *(*pages)(size_t bytes))
{
    FILE *file = fopen(path, "rb");
    *card = (struct saved_card){0};
    if (file == NULL) {
        return strerror(errno);
    }
    const char *wrong = read_head(file, card);
    wrong = wrong == NULL ? read_blocks(file, card, pages) : wrong;
    (void)fclose(file);
    return wrong;
}
