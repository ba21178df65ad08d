/* SPDX-License-Identifier: MIT */
/*
 * Reading a plan of faults and deciding by it. Each fault counts for itself how often it could have
 * happened, so that the same plan strikes the same things again; probabilities are random numbers
 * of the plan's seed. The area has no pointers, so that no name is kept.
 */
#include "devices/rnic/card/faults.h"

#include <stdio.h>
#include <string.h>

#include "devices/rnic/card/schedule.h"
#include "devices/rnic/efe/layout.h"
#include "devices/rnic/efe/rng.h"

enum { RULES = 16, CERTAIN = 1000000000, ITEM = 64, LATE_US = 1000 };

struct rule {
    uint8_t kind;
    uint8_t counted; /* by number; otherwise by chance */
    uint16_t reserved;
    uint32_t chance; /* of CERTAIN */
    uint32_t first;
    uint32_t every; /* 0: only the first */
};

/* In the card's area. */
struct faults {
    struct rule rule[RULES];
    uint32_t rules;
    uint32_t late_us;
    uint64_t random;
    uint32_t calls[RNIC_FAULT_KINDS]; /* how often each could have happened */
    uint32_t late_cq;                 /* whose OWNER words wait, plus 1 ... */
    uint64_t late_until;              /* ... until then */
    uint64_t link_until;              /* the link is down until then; 0: it is not by a fault */
    /* when a function is to be looked at again; UINT64_MAX: none is */
    uint64_t due;
};

static struct faults *faults_of(const struct rnic_card *card)
{
    return rnic_at(card, rnic_state(card)->faults);
}

size_t rnic_fault_bytes(void)
{
    return sizeof(struct faults);
}

bool rnic_fault_swap(struct rnic_card *card)
{
    rnic_layout_swap(&rnic_layout_faults, faults_of(card), 1);
    return rnic_layout_faults.bytes == sizeof(struct faults);
}

/* --- reading: each function reads its part at *at and moves *at behind it, or returns false --- */

static const char *const names[RNIC_FAULT_KINDS] = {
    [RNIC_FAULT_DMA_FAIL] = "dma_fail",
    [RNIC_FAULT_DMA_LATE] = "dma_late",
    [RNIC_FAULT_DMA_POISON] = "dma_poison",
    [RNIC_FAULT_DOORBELL_LATE] = "doorbell_late",
    [RNIC_FAULT_COMPLETION_LATE] = "completion_late",
    [RNIC_FAULT_INTERRUPT_LOST] = "interrupt_lost",
    [RNIC_FAULT_INTERRUPT_LATE] = "interrupt_late",
    [RNIC_FAULT_INTERRUPT_SPURIOUS] = "interrupt_spurious",
    [RNIC_FAULT_COMMAND_FAIL] = "command_fail",
    [RNIC_FAULT_COMMAND_TIMEOUT] = "command_timeout",
    [RNIC_FAULT_REMOVED] = "removed",
    [RNIC_FAULT_RESET] = "reset",
    [RNIC_FAULT_LINK_DOWN] = "link_down",
    [RNIC_FAULT_MEMORY_FLIP] = "memory_flip",
    [RNIC_FAULT_WINDOW_LOST] = "window_lost",
    [RNIC_FAULT_AOTF_FULL] = "aotf_full",
};

static bool take_char(const char **at, char wanted)
{
    if (**at != wanted) {
        return false;
    }
    ++*at;
    return true;
}

static bool take_number(const char **at, uint32_t *out)
{
    uint64_t value = 0;
    const char *start = *at;
    for (; **at >= '0' && **at <= '9'; ++*at) {
        value = value * 10 + (uint32_t)(**at - '0');
        if (value > UINT32_MAX) {
            return false;
        }
    }
    *out = (uint32_t)value;
    return *at != start;
}

/* A fraction from 0 to 1; what is beyond its ninth place is not looked at. */
static bool take_chance(const char **at, uint32_t *out)
{
    uint32_t whole = 0;
    uint32_t part = 0;
    bool any = **at != '.' && take_number(at, &whole);
    if (take_char(at, '.')) {
        for (uint32_t place = CERTAIN / 10; **at >= '0' && **at <= '9'; ++*at, place /= 10) {
            part += (uint32_t)(**at - '0') * place;
            any = true;
        }
    }
    if (!any || whole > 1 || (whole == 1 && part > 0)) {
        return false;
    }
    *out = whole * (uint32_t)CERTAIN + part;
    return true;
}

static bool take_when(const char **at, struct rule *rule)
{
    if (!take_char(at, '@')) {
        return take_chance(at, &rule->chance);
    }
    rule->counted = true;
    return take_number(at, &rule->first) && rule->first > 0 &&
           (!take_char(at, '/') || (take_number(at, &rule->every) && rule->every > 0));
}

static bool find_kind(const char *item, size_t length, uint8_t *out)
{
    for (unsigned kind = 0; kind < RNIC_FAULT_KINDS; kind++) {
        if (strlen(names[kind]) == length && strncmp(item, names[kind], length) == 0) {
            *out = (uint8_t)kind;
            return true;
        }
    }
    return false;
}

static bool read_setting(const char *item, const char *name, uint32_t *value)
{
    size_t length = strlen(name);
    if (strncmp(item, name, length) != 0 || item[length] != '=') {
        return false;
    }
    const char *at = item + length + 1;
    return take_number(&at, value) && *at == '\0';
}

static bool read_rule(const char *item, struct faults *plan)
{
    struct rule rule = {.chance = CERTAIN};
    size_t length = strcspn(item, "=");
    const char *at = item + length;
    if (plan->rules == RULES || !find_kind(item, length, &rule.kind)) {
        return false;
    }
    if ((take_char(&at, '=') && !take_when(&at, &rule)) || *at != '\0') {
        return false;
    }
    plan->rule[plan->rules++] = rule;
    return true;
}

static bool read_item(const char *item, struct faults *plan)
{
    uint32_t seed;
    if (read_setting(item, "seed", &seed)) {
        plan->random = seed;
        return true;
    }
    return read_setting(item, "late", &plan->late_us) || read_rule(item, plan);
}

bool rnic_fault_plan(struct rnic_card *card, const char *text, char *error, size_t error_bytes)
{
    struct faults *faults = faults_of(card);
    struct faults plan = {.late_us = LATE_US, .due = UINT64_MAX};
    for (size_t at = 0; text[at] != '\0';) {
        char item[ITEM] = "";
        size_t length = strcspn(text + at, ",");
        memcpy(item, text + at, length < ITEM ? length : ITEM - 1);
        if (length >= ITEM || !read_item(item, &plan)) {
            snprintf(error, error_bytes, "character %zu: \"%s\" is no fault, or one too many", at + 1, item);
            return false;
        }
        at += length;
        at += text[at] == ',';
    }
    plan.late_cq = faults->late_cq;
    plan.late_until = faults->late_until;
    plan.link_until = faults->link_until;
    plan.due = faults->due;
    *faults = plan;
    return true;
}

/* --- deciding --- */

static bool rule_strikes(struct faults *faults, const struct rule *rule, uint32_t number)
{
    if (!rule->counted) {
        return rule->chance == CERTAIN || rnic_rng_below(&faults->random, CERTAIN) < rule->chance;
    }
    return number == rule->first ||
           (rule->every > 0 && number > rule->first && (number - rule->first) % rule->every == 0);
}

static bool strikes(struct rnic_card *card, enum rnic_fault fault)
{
    struct faults *faults = faults_of(card);
    bool any = false;
    if (faults->rules == 0) {
        return false;
    }
    uint32_t number = ++faults->calls[fault];
    for (uint32_t i = 0; i < faults->rules; i++) {
        any |= faults->rule[i].kind == fault && rule_strikes(faults, &faults->rule[i], number);
    }
    return any;
}

bool rnic_fault_strikes(struct rnic_card *card, unsigned fn, enum rnic_fault fault)
{
    (void)fn;
    return strikes(card, fault);
}

uint64_t rnic_fault_lateness(const struct rnic_card *card)
{
    return (uint64_t)faults_of(card)->late_us * 1000;
}

static uint64_t min_due(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The function does nothing for some time. */
static void deafen(struct rnic_card *card, unsigned fn)
{
    struct faults *faults = faults_of(card);
    rnic_fn(card, fn)->deaf_until = rnic_state(card)->now + rnic_fault_lateness(card);
    faults->due = min_due(faults->due, rnic_fn(card, fn)->deaf_until);
}

void rnic_fault_dma(struct rnic_card *card, unsigned fn)
{
    if (strikes(card, RNIC_FAULT_DMA_LATE)) {
        deafen(card, fn);
    }
    if (strikes(card, RNIC_FAULT_RESET) && !rnic_fn(card, fn)->reset_due) {
        rnic_fn(card, fn)->reset_due = true;
        rnic_state(card)->cut++;
    }
}

bool rnic_fault_doorbell(struct rnic_card *card, unsigned fn)
{
    bool late = strikes(card, RNIC_FAULT_DOORBELL_LATE);
    if (late) {
        deafen(card, fn);
    }
    return late;
}

uint32_t rnic_fault_bit(struct rnic_card *card, uint32_t bytes)
{
    return (uint32_t)rnic_rng_below(&faults_of(card)->random, (uint64_t)bytes * 8);
}

void rnic_fault_poison(struct rnic_card *card, uint8_t *bytes, uint32_t count)
{
    struct faults *faults = faults_of(card);
    for (unsigned i = 0; i < 4; i++) {
        bytes[rnic_rng_below(&faults->random, count)] ^= (uint8_t)(1 + rnic_rng_below(&faults->random, 255));
    }
}

bool rnic_fault_keeps_back(struct rnic_card *card, uint32_t cq)
{
    struct faults *faults = faults_of(card);
    if (strikes(card, RNIC_FAULT_COMPLETION_LATE) && faults->late_cq == 0) {
        faults->late_cq = cq + 1;
        faults->late_until = rnic_state(card)->now + rnic_fault_lateness(card);
    }
    return faults->late_cq == cq + 1;
}

bool rnic_fault_releases(struct rnic_card *card, uint32_t *cq)
{
    struct faults *faults = faults_of(card);
    if (faults->late_cq == 0 || faults->late_until > rnic_state(card)->now) {
        return false;
    }
    *cq = faults->late_cq - 1;
    faults->late_cq = 0;
    return true;
}

void rnic_fault_forgets(struct rnic_card *card, uint32_t cq)
{
    struct faults *faults = faults_of(card);
    faults->late_cq = faults->late_cq == cq + 1 ? 0 : faults->late_cq;
}

bool rnic_fault_link(struct rnic_card *card)
{
    struct faults *faults = faults_of(card);
    bool down = strikes(card, RNIC_FAULT_LINK_DOWN);
    if (down) {
        faults->link_until = rnic_state(card)->now + rnic_fault_lateness(card);
    }
    return down;
}

bool rnic_fault_link_returns(struct rnic_card *card)
{
    struct faults *faults = faults_of(card);
    bool up = faults->link_until != 0 && faults->link_until <= rnic_state(card)->now;
    faults->link_until = up ? 0 : faults->link_until;
    return up;
}

/* When the next function that does nothing is to go on. */
static uint64_t next_due(const struct rnic_card *card)
{
    const struct rnic_state *state = rnic_state(card);
    uint64_t due = UINT64_MAX;
    for (unsigned fn = 0; fn < state->config.functions; fn++) {
        uint64_t until = rnic_fn(card, fn)->deaf_until;
        due = until > state->now ? min_due(due, until) : due;
    }
    return due;
}

void rnic_fault_advance(struct rnic_card *card)
{
    struct rnic_state *state = rnic_state(card);
    struct faults *faults = faults_of(card);
    if (faults->due <= state->now) {
        faults->due = next_due(card); /* doorbells are looked at in each advance anyway */
        rnic_schedule_revive(card);
    }
}

uint64_t rnic_fault_deadline(const struct rnic_card *card)
{
    const struct faults *faults = faults_of(card);
    uint64_t due = faults->due;
    due = faults->late_cq != 0 ? min_due(due, faults->late_until) : due;
    return faults->link_until != 0 ? min_due(due, faults->link_until) : due;
}
