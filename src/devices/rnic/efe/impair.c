/* SPDX-License-Identifier: MIT */
/* A bad wire: its description as a text, and its decisions. */
#include "devices/rnic/efe/impair.h"

#include <stdio.h>
#include <string.h>

#include "devices/rnic/efe/rng.h"

enum {
    CERTAIN = 1000000000, /* a probability of 1 */
    CHANCE_DIGITS = 9,
    REORDER_NS = 100000,
    QUEUE_DEFAULT = 1000000,
    QUEUE_MAX = 1000000000,
    CORRUPT_BITS_MAX = 8
};
#define SECOND_NS UINT64_C(1000000000)
#define TIME_MAX_NS (10 * SECOND_NS)
#define RATE_MIN UINT64_C(1000)
#define RATE_MAX UINT64_C(1000000000000)

/* --- The text --- */

enum kind { KIND_SEED, KIND_CHANCE, KIND_TIME, KIND_RATE, KIND_QUEUE };
enum key {
    KEY_SEED,
    KEY_LOSS,
    KEY_REORDER,
    KEY_DUPLICATE,
    KEY_CORRUPT,
    KEY_DELAY,
    KEY_JITTER,
    KEY_RATE,
    KEY_QUEUE,
    KEYS
};

static const struct {
    const char *name;
    enum kind kind;
} keys[KEYS] = {
    [KEY_SEED] = {"seed", KIND_SEED},         [KEY_LOSS] = {"loss", KIND_CHANCE},
    [KEY_REORDER] = {"reorder", KIND_CHANCE}, [KEY_DUPLICATE] = {"duplicate", KIND_CHANCE},
    [KEY_CORRUPT] = {"corrupt", KIND_CHANCE}, [KEY_DELAY] = {"delay", KIND_TIME},
    [KEY_JITTER] = {"jitter", KIND_TIME},     [KEY_RATE] = {"rate", KIND_RATE},
    [KEY_QUEUE] = {"queue", KIND_QUEUE},
};

static const char *const kinds[] = {
    [KIND_SEED] = "a number below 2^64",
    [KIND_CHANCE] = "a decimal fraction of 0 to 1",
    [KIND_TIME] = "a time of at most 10 s that ends in ns, us, ms or s",
    [KIND_RATE] = "a rate of 1K to 1T bits in a second",
    [KIND_QUEUE] = "a number of bytes of 1 to 1G",
};

struct unit {
    const char *name;
    uint64_t factor;
};
static const struct unit times[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", SECOND_NS}, {NULL, 0}};
static const struct unit amounts[] = {{"", 1},          {"K", 1000},           {"M", 1000000},
                                      {"G", SECOND_NS}, {"T", 1000000000000u}, {NULL, 0}};

/* A part of a text, not ended by a zero byte. */
struct part {
    const char *at;
    size_t length;
};

static bool part_is(struct part part, const char *word)
{
    return part.length == strlen(word) && memcmp(part.at, word, part.length) == 0;
}

/* Takes off what stands before the first `mark`, and the mark. False: there is no mark; the whole
 * is taken. */
static bool part_split(struct part *part, char mark, struct part *head)
{
    const char *end = memchr(part->at, mark, part->length);
    *head = *part;
    if (end == NULL) {
        part->length = 0;
        return false;
    }
    head->length = (size_t)(end - part->at);
    part->at = end + 1;
    part->length -= head->length + 1;
    return true;
}

/* Takes off the digits that the part begins with. False: there are none, or the number is too
 * great. */
static bool part_number(struct part *part, uint64_t *out)
{
    uint64_t number = 0;
    size_t digits = 0;
    for (; digits < part->length && part->at[digits] >= '0' && part->at[digits] <= '9'; digits++) {
        unsigned digit = (unsigned)(part->at[digits] - '0');
        if (number > (UINT64_MAX - digit) / 10) {
            return false;
        }
        number = number * 10 + digit;
    }
    part->at += digits;
    part->length -= digits;
    *out = number;
    return digits > 0;
}

/* "0.05", in thousand millionths. */
static bool read_chance(struct part part, uint64_t *out)
{
    struct part whole;
    uint64_t value, fraction = 0;
    if (part_split(&part, '.', &whole)) {
        size_t digits = part.length;
        if (digits > CHANCE_DIGITS || !part_number(&part, &fraction)) {
            return false;
        }
        for (; digits < CHANCE_DIGITS; digits++) {
            fraction *= 10;
        }
    }
    if (!part_number(&whole, &value) || whole.length > 0 || part.length > 0 || value > 1) {
        return false;
    }
    *out = value * CERTAIN + fraction;
    return *out <= CERTAIN;
}

/* A number with a unit behind it. */
static bool read_with_unit(struct part part, const struct unit *units, uint64_t least, uint64_t most,
                           uint64_t *out)
{
    uint64_t number;
    if (!part_number(&part, &number)) {
        return false;
    }
    for (; units->name != NULL; units++) {
        if (part_is(part, units->name)) {
            *out = number * units->factor;
            return number <= most / units->factor && *out >= least;
        }
    }
    return false;
}

static bool read_value(enum kind kind, struct part part, uint64_t *out)
{
    static const struct unit plain[] = {{"", 1}, {NULL, 0}};
    switch (kind) {
    case KIND_CHANCE:
        return read_chance(part, out);
    case KIND_TIME:
        return read_with_unit(part, times, 0, TIME_MAX_NS, out);
    case KIND_RATE:
        return read_with_unit(part, amounts, RATE_MIN, RATE_MAX, out);
    case KIND_QUEUE:
        return read_with_unit(part, amounts, 1, QUEUE_MAX, out);
    default:
        return read_with_unit(part, plain, 0, UINT64_MAX, out);
    }
}

static enum key key_find(struct part name)
{
    unsigned key = 0;
    while (key < KEYS && !part_is(name, keys[key].name)) {
        key++;
    }
    return (enum key)key;
}

/* How much of a foreign text an error shows. */
static int shown(struct part part)
{
    return part.length < 40 ? (int)part.length : 40;
}

/* One "key=value". */
static bool parse_word(struct part word, uint64_t values[KEYS], bool given[KEYS], char *error,
                       size_t error_bytes)
{
    struct part name, value = word;
    bool has_value = part_split(&value, '=', &name);
    enum key key = key_find(name);
    if (key == KEYS) {
        snprintf(error, error_bytes, "there is no '%.*s'", shown(name), name.at);
        return false;
    }
    if (given[key]) {
        snprintf(error, error_bytes, "'%s' is given twice", keys[key].name);
        return false;
    }
    if (!has_value || !read_value(keys[key].kind, value, &values[key])) {
        snprintf(error, error_bytes, "'%s' is %s, not '%.*s'", keys[key].name, kinds[keys[key].kind],
                 shown(value), has_value ? value.at : "");
        return false;
    }
    given[key] = true;
    return true;
}

bool rnic_impair_parse(const char *text, struct rnic_impair_config *out, char *error, size_t error_bytes)
{
    uint64_t values[KEYS] = {[KEY_QUEUE] = QUEUE_DEFAULT};
    bool given[KEYS] = {false};
    struct part rest = {text, strlen(text)}, word;
    bool more = rest.length > 0;
    while (more) {
        more = part_split(&rest, ',', &word);
        if (!parse_word(word, values, given, error, error_bytes)) {
            return false;
        }
    }
    *out = (struct rnic_impair_config){
        .seed = values[KEY_SEED],
        .loss = (uint32_t)values[KEY_LOSS],
        .reorder = (uint32_t)values[KEY_REORDER],
        .duplicate = (uint32_t)values[KEY_DUPLICATE],
        .corrupt = (uint32_t)values[KEY_CORRUPT],
        .delay_ns = values[KEY_DELAY],
        .jitter_ns = values[KEY_JITTER],
        .rate = values[KEY_RATE],
        .queue = (uint32_t)values[KEY_QUEUE],
    };
    return true;
}

bool rnic_impair_is_perfect(const struct rnic_impair_config *config)
{
    return config->loss == 0 && config->reorder == 0 && config->duplicate == 0 && config->corrupt == 0 &&
           config->delay_ns == 0 && config->jitter_ns == 0 && config->rate == 0;
}

/* --- Random decisions --- */

void rnic_impair_init(struct rnic_impair *impair, const struct rnic_impair_config *config)
{
    *impair = (struct rnic_impair){.config = *config, .random = config->seed};
}

static bool impair_happens(struct rnic_impair *impair, uint32_t chance)
{
    return chance > 0 && rnic_rng_below(&impair->random, CERTAIN) < chance;
}

/* When the last bit of a frame is through, by the rate. False: too much waits for that. */
static bool impair_queue(struct rnic_impair *impair, uint64_t now, uint32_t bytes, uint64_t *through)
{
    if (impair->config.rate == 0) {
        *through = now;
        return true;
    }
    uint64_t takes = (uint64_t)bytes * 8 * SECOND_NS / impair->config.rate;
    uint64_t start = impair->busy_until > now ? impair->busy_until : now;
    uint64_t queue_takes = (uint64_t)impair->config.queue * 8 * SECOND_NS / impair->config.rate;
    if (start + takes - now > queue_takes && start > now) {
        return false;
    }
    impair->busy_until = start + takes;
    *through = impair->busy_until;
    return true;
}

uint64_t rnic_impair_room(const struct rnic_impair *impair, uint32_t bytes)
{
    if (impair->config.rate == 0) {
        return 0;
    }
    uint64_t takes = (uint64_t)bytes * 8 * SECOND_NS / impair->config.rate;
    uint64_t queue_takes = (uint64_t)impair->config.queue * 8 * SECOND_NS / impair->config.rate;
    uint64_t waits = queue_takes > takes ? queue_takes - takes : 0;
    return impair->busy_until > waits ? impair->busy_until - waits : 0;
}

static uint64_t impair_delay(struct rnic_impair *impair)
{
    const struct rnic_impair_config *config = &impair->config;
    uint64_t delay = config->delay_ns;
    if (config->jitter_ns > 0) {
        uint64_t longer = delay + rnic_rng_next(&impair->random) % (2 * config->jitter_ns + 1);
        delay = longer > config->jitter_ns ? longer - config->jitter_ns : 0;
    }
    if (impair_happens(impair, config->reorder)) {
        delay += 1 + rnic_rng_below(&impair->random, REORDER_NS);
    }
    return delay;
}

void rnic_impair_decide(struct rnic_impair *impair, uint64_t now, uint32_t bytes, struct rnic_fate *out)
{
    uint64_t through;
    *out = (struct rnic_fate){.copies = 0};
    out->overflow = !impair_queue(impair, now, bytes, &through);
    if (out->overflow || impair_happens(impair, impair->config.loss)) {
        return;
    }
    out->copies = impair_happens(impair, impair->config.duplicate) ? 2 : 1;
    for (unsigned i = 0; i < out->copies; i++) {
        out->corrupted[i] = impair_happens(impair, impair->config.corrupt);
        out->due[i] = through + impair_delay(impair);
    }
}

void rnic_impair_corrupt(struct rnic_impair *impair, uint8_t *frame, uint32_t bytes)
{
    /* An odd number of bits: two flips of one bit would leave the frame as it was. */
    uint64_t flips = 1 + 2 * rnic_rng_below(&impair->random, CORRUPT_BITS_MAX / 2);
    for (uint64_t i = 0; i < flips; i++) {
        uint64_t bit = rnic_rng_below(&impair->random, (uint64_t)bytes * 8);
        frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}
