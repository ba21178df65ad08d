/* SPDX-License-Identifier: MIT */
/* The card's configuration as a text, for logs and saved cards: each field by its name. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/rnic/card/card.h"

enum { MAC_BYTES = 6 };

struct field {
    const char *name;
    size_t offset;
    size_t bytes;
};

#define FIELD(name) \
    { \
#name, offsetof(struct rnic_card_config, name), sizeof(((struct rnic_card_config *)0)->name) \
    }
#define RAW(word) \
    { \
        "raw." #word, offsetof(struct rnic_card_config, raw) + (word) * sizeof(uint64_t), sizeof(uint64_t) \
    }
static const struct field fields[] = {FIELD(functions),
                                      FIELD(qps),
                                      FIELD(cqs),
                                      FIELD(stags),
                                      FIELD(pbl_entries),
                                      FIELD(flows),
                                      FIELD(frames),
                                      FIELD(mtu),
                                      FIELD(mac),
                                      FIELD(seed),
                                      FIELD(dram_bytes),
                                      FIELD(sram_bytes),
                                      FIELD(profile),
                                      FIELD(simulated),
                                      RAW(0),
                                      RAW(1),
                                      RAW(2),
                                      RAW(3)};
_Static_assert(sizeof(((struct rnic_card_config *)0)->raw) == 4 * sizeof(uint64_t), "RAW() of each word");
enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };

static uint64_t get_field(const struct rnic_card_config *config, const struct field *field)
{
    const uint8_t *at = (const uint8_t *)config + field->offset;
    uint64_t value = 0;
    uint32_t word;
    if (field->bytes == sizeof(value)) {
        memcpy(&value, at, sizeof(value));
    } else if (field->bytes == sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        value = word;
    } else { /* an address, or one byte */
        for (size_t i = 0; i < field->bytes; i++) {
            value = value << 8 | at[i];
        }
    }
    return value;
}

/* Returns false if the field has no room for the value. */
static bool put_field(struct rnic_card_config *config, const struct field *field, uint64_t value)
{
    uint8_t *at = (uint8_t *)config + field->offset;
    uint32_t word = (uint32_t)value;
    if (field->bytes == sizeof(value)) {
        memcpy(at, &value, sizeof(value));
    } else if (field->bytes == sizeof(word)) {
        memcpy(at, &word, sizeof(word));
    } else {
        for (size_t i = 0; i < field->bytes; i++) {
            at[i] = (uint8_t)(value >> 8 * (field->bytes - 1 - i));
        }
    }
    return get_field(config, field) == value;
}

bool rnic_card_describe(const struct rnic_card_config *config, char *text, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < FIELDS; i++) {
        int length = snprintf(text + used, size - used, "%s%s=0x%" PRIx64, i == 0 ? "" : " ", fields[i].name,
                              get_field(config, &fields[i]));
        if (length < 0 || (size_t)length >= size - used) {
            return false;
        }
        used += (size_t)length;
    }
    return true;
}

static const struct field *find_field(const char *name, size_t length)
{
    for (size_t i = 0; i < FIELDS; i++) {
        if (strlen(fields[i].name) == length && memcmp(fields[i].name, name, length) == 0) {
            return &fields[i];
        }
    }
    return NULL;
}

/* What rnic_card_init() asks for. */
static bool is_possible(const struct rnic_card_config *config)
{
    enum { MOST = 1 << 20, PROFILES = RNIC_PROFILE_MARTINI_OVERLAPPED + 1 };
    return config->functions >= 1 && config->functions <= RNIC_CARD_MAX_FUNCTIONS && config->qps >= 1 &&
           config->qps <= 65536 && config->cqs >= 1 && config->cqs <= MOST && config->stags >= 1 &&
           config->stags <= MOST && config->pbl_entries >= 1 && config->pbl_entries <= 64 * MOST &&
           config->flows >= 1 && config->flows <= 65536 && config->frames >= 16 && config->frames <= MOST &&
           config->mtu >= 576 && config->mtu <= 9000 && config->dram_bytes <= RNIC_DRAM_MOST &&
           config->sram_bytes <= RNIC_SRAM_MOST && config->dram_bytes % RNIC_MEMORY_UNIT == 0 &&
           config->sram_bytes % RNIC_MEMORY_UNIT == 0 && (unsigned)config->profile < PROFILES;
}

bool rnic_card_understand(const char *text, struct rnic_card_config *out)
{
    struct rnic_card_config config = {0};
    while (*text != '\0') {
        size_t length = strcspn(text, "=");
        const struct field *field = find_field(text, length);
        char *end;
        if (field == NULL || text[length] != '=') {
            return false;
        }
        uint64_t value = strtoull(text + length + 1, &end, 0);
        if ((*end != ' ' && *end != '\0') || !put_field(&config, field, value)) {
            return false;
        }
        text = *end == ' ' ? end + 1 : end;
    }
    if (!is_possible(&config)) {
        return false;
    }
    *out = config;
    return true;
}
