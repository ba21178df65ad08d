/* SPDX-License-Identifier: MIT */
/*
 * Reading a fault plan, and deciding by the plan. A plan is a list of items, NAME[=[VALUE]WHEN],
 * where WHEN is a probability or @N[/M]. Fractions are read here, because the functions of the C
 * library depend on the program's locale.
 */
#include "hook/faults.h"

#include <string.h>

#include "base/log.h"
#include "os/os_atomic.h"
#include "vipl/vipl.h"

enum { CERTAIN = 1000000000, MAX_POLLS = 8 };

static const char *const fault_names[VIPL_FAULT_KINDS] = {
    [VIPL_FAULT_DROP] = "drop",         [VIPL_FAULT_CORRUPT] = "corrupt",
    [VIPL_FAULT_DELAY] = "delay",       [VIPL_FAULT_DISCONNECT] = "disconnect",
    [VIPL_FAULT_STATUS] = "status",     [VIPL_FAULT_EVENT] = "event",
    [VIPL_FAULT_RESOURCE] = "resource", [VIPL_FAULT_REACH] = "reach",
    [VIPL_FAULT_NAMES] = "names",       [VIPL_FAULT_RDMAREAD] = "rdmaread",
};

static const char *const event_names[] = {"POST_DESC",  "CONN_LOST",      "RECVQ_EMPTY", "VI_OVERRUN",
                                          "RDMAW_PROT", "RDMAW_DATA",     "RDMAW_ABORT", "RDMAR_PROT",
                                          "COMP_PROT",  "RDMA_TRANSPORT", "CATASTROPHIC"};

enum { EVENTS = sizeof(event_names) / sizeof(event_names[0]) };

/* --- reading: each function reads its part at *at and moves *at behind it, or returns false --- */

static bool take_fault_char(const char **at, char wanted)
{
    if (**at != wanted) {
        return false;
    }
    ++*at;
    return true;
}

static int digit_of(char c, uint32_t base)
{
    int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    value = c >= 'A' && c <= 'F' ? c - 'A' + 10 : value;
    return value < (int)base ? value : -1;
}

static bool take_number(const char **at, uint32_t base, uint32_t *out)
{
    uint64_t value = 0;
    const char *start = *at;
    for (int digit; (digit = digit_of(**at, base)) >= 0; ++*at) {
        value = value * base + (uint32_t)digit;
        if (value > UINT32_MAX) {
            return false;
        }
    }
    *out = (uint32_t)value;
    return *at != start;
}

/* Reads a fraction from 0 to 1; digits after the ninth decimal place are ignored. */
static bool take_chance(const char **at, uint32_t *out)
{
    uint32_t whole = 0;
    uint32_t part = 0;
    uint32_t place = CERTAIN / 10;
    bool any = **at != '.' && take_number(at, 10, &whole);
    if (take_fault_char(at, '.')) {
        for (int digit; (digit = digit_of(**at, 10)) >= 0; ++*at) {
            part += (uint32_t)digit * place;
            place /= 10;
            any = true;
        }
    }
    *out = whole * (uint32_t)CERTAIN + part;
    return any && (whole == 0 || (whole == 1 && part == 0));
}

/* Reads @N, @N/M or a probability; after a value a colon precedes the probability. */
static bool take_when(const char **at, bool behind_value, struct vipl_fault_rule *rule)
{
    if (take_fault_char(at, '@')) {
        rule->counted = true;
        return take_number(at, 10, &rule->first) && rule->first > 0 &&
               (!take_fault_char(at, '/') || (take_number(at, 10, &rule->every) && rule->every > 0));
    }
    return (!behind_value || take_fault_char(at, ':')) && take_chance(at, &rule->chance);
}

static bool take_status(const char **at, uint32_t *out)
{
    if (strncmp(*at, "0x", 2) == 0) {
        *at += 2;
    }
    return take_number(at, 16, out) && *out != 0 && (*out & ~(uint32_t)VIP_STATUS_ERROR_MASK) == 0;
}

static bool take_event(const char **at, uint32_t *out)
{
    static const char prefix[] = "VIP_ERROR_";
    if (digit_of(**at, 10) >= 0) {
        return take_number(at, 10, out) && *out < EVENTS;
    }
    if (strncmp(*at, prefix, sizeof(prefix) - 1) == 0) {
        *at += sizeof(prefix) - 1;
    }
    size_t length = strcspn(*at, "@:");
    for (*out = 0; *out < EVENTS; ++*out) {
        if (strlen(event_names[*out]) == length && strncmp(*at, event_names[*out], length) == 0) {
            *at += length;
            return true;
        }
    }
    return false;
}

static bool find_kind(const char *item, size_t length, uint8_t *out)
{
    for (unsigned kind = 0; kind < VIPL_FAULT_KINDS; kind++) {
        if (strlen(fault_names[kind]) == length && strncmp(item, fault_names[kind], length) == 0) {
            *out = (uint8_t)kind;
            return true;
        }
    }
    return false;
}

/* Reads an item that is a rule, from its name to its end. */
static bool read_rule(const char *item, struct vipl_fault_rule *rule)
{
    size_t name = strcspn(item, "=");
    const char *at = item + name;
    memset(rule, 0, sizeof(*rule));
    rule->chance = CERTAIN;
    if (!find_kind(item, name, &rule->kind)) {
        return false;
    }
    bool good = true;
    bool behind_value = rule->kind == VIPL_FAULT_STATUS || rule->kind == VIPL_FAULT_EVENT;
    if (rule->kind == VIPL_FAULT_RDMAREAD) {
        return strcmp(at, "=off") == 0;
    }
    if (behind_value) {
        good = take_fault_char(&at, '=') && (rule->kind == VIPL_FAULT_STATUS ? take_status(&at, &rule->value)
                                                                             : take_event(&at, &rule->value));
        good = good && (*at == '\0' || take_when(&at, true, rule));
    } else if (take_fault_char(&at, '=')) {
        good = take_when(&at, false, rule);
    }
    return good && *at == '\0';
}

static bool read_seed(const char *item, uint64_t *seed)
{
    static const char name[] = "seed=";
    const char *at = item + sizeof(name) - 1;
    uint32_t value;
    if (strncmp(item, name, sizeof(name) - 1) != 0 || !take_number(&at, 10, &value) || *at != '\0') {
        return false;
    }
    *seed = value;
    return true;
}

static void read_item(struct vipl_faults *faults, const char *item, size_t place)
{
    if (read_seed(item, &faults->seed)) {
        return;
    }
    if (faults->count == VIPL_FAULT_RULES) {
        vipl_log(VIPL_LOG_ERROR, "VIPL_FAULTS, character %u: more than %d faults; \"%s\" is left out",
                 (unsigned)place + 1, (int)VIPL_FAULT_RULES, item);
    } else if (!read_rule(item, &faults->rules[faults->count])) {
        vipl_log(VIPL_LOG_ERROR, "VIPL_FAULTS, character %u: \"%s\" is no fault and is left out",
                 (unsigned)place + 1, item);
    } else {
        faults->count++;
    }
}

void vipl_faults_read(struct vipl_faults *faults, const char *plan)
{
    memset(faults, 0, sizeof(*faults));
    for (size_t at = 0; plan[at] != '\0';) {
        char item[64];
        at += strspn(plan + at, ", \t");
        size_t length = strcspn(plan + at, ", \t");
        size_t kept = length < sizeof(item) ? length : sizeof(item) - 1;
        memcpy(item, plan + at, kept);
        item[kept] = '\0';
        if (length > 0) {
            read_item(faults, item, at);
        }
        at += length;
    }
}

/* --- deciding --- */

/* Mixes 64 bits so that each bit of the result depends on all bits of x (splitmix64). */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

/* Draws the random number of rule `index` for call `number`. */
static uint64_t rng_draw(const struct vipl_faults *faults, uint32_t index, uint32_t number)
{
    return mix(mix(faults->seed) ^ ((uint64_t)index << 32 | number));
}

static bool rule_strikes(const struct vipl_faults *faults, uint32_t index, uint32_t number)
{
    const struct vipl_fault_rule *rule = &faults->rules[index];
    if (!rule->counted) {
        return rng_draw(faults, index, number) % CERTAIN < rule->chance;
    }
    return number == rule->first ||
           (rule->every > 0 && number > rule->first && (number - rule->first) % rule->every == 0);
}

bool vipl_faults_has(const struct vipl_faults *faults, enum vipl_fault kind)
{
    for (uint32_t i = 0; i < faults->count; i++) {
        if (faults->rules[i].kind == kind) {
            return true;
        }
    }
    return false;
}

bool vipl_faults_strikes(struct vipl_faults *faults, enum vipl_fault kind)
{
    if (faults->count == 0) {
        return false;
    }
    uint32_t number = vipl_fetch_add(&faults->calls[kind], 1) + 1;
    bool strikes = false;
    for (uint32_t i = 0; i < faults->count; i++) {
        strikes |= faults->rules[i].kind == kind && rule_strikes(faults, i, number);
    }
    return strikes;
}

void vipl_faults_of_send(const struct vipl_faults *faults, uint32_t number, struct vipl_send_faults *out)
{
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i < faults->count; i++) {
        const struct vipl_fault_rule *rule = &faults->rules[i];
        if (rule->kind > VIPL_FAULT_EVENT || !rule_strikes(faults, i, number)) {
            continue;
        }
        out->drop |= rule->kind == VIPL_FAULT_DROP;
        out->disconnect |= rule->kind == VIPL_FAULT_DISCONNECT;
        out->status |= rule->kind == VIPL_FAULT_CORRUPT ? VIP_STATUS_TRANSPORT_ERROR : 0u;
        out->status |= rule->kind == VIPL_FAULT_STATUS ? rule->value : 0u;
        out->events |= rule->kind == VIPL_FAULT_EVENT ? 1u << rule->value : 0u;
        if (rule->kind == VIPL_FAULT_DELAY) {
            out->polls = 1 + (uint32_t)(rng_draw(faults, i, ~number) % MAX_POLLS);
        }
    }
}
