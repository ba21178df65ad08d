/* SPDX-License-Identifier: MIT */
/*
 * The fault plan of a NIC handle: the rules of VIPL_FAULTS, and the decision which calls they
 * strike. docs/use/faults.md is the description for users.
 *
 * A decision depends only on the plan, the seed and the number of the call: the same calls get the
 * same faults, whatever their timing.
 */
#ifndef VIPL_HOOK_FAULTS_H
#define VIPL_HOOK_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

enum vipl_fault {
    VIPL_FAULT_DROP,
    VIPL_FAULT_CORRUPT,
    VIPL_FAULT_DELAY,
    VIPL_FAULT_DISCONNECT,
    VIPL_FAULT_STATUS,
    VIPL_FAULT_EVENT,
    VIPL_FAULT_RESOURCE,
    VIPL_FAULT_REACH,
    VIPL_FAULT_NAMES,
    VIPL_FAULT_RDMAREAD,
    VIPL_FAULT_KINDS
};

enum { VIPL_FAULT_RULES = 32 };

struct vipl_fault_rule {
    uint8_t kind;    /* enum vipl_fault */
    bool counted;    /* strikes call `first` and then every `every`-th; otherwise by chance */
    uint32_t chance; /* in 1,000,000,000ths */
    uint32_t first;
    uint32_t every; /* 0: once */
    uint32_t value; /* status bits, or VIP_ERROR_CODE */
};

/* Constant after vipl_faults_read(), except the counters. */
struct vipl_faults {
    uint64_t seed;
    uint32_t count;
    struct vipl_fault_rule rules[VIPL_FAULT_RULES];
    uint32_t sends;                   /* atomic: sends that have a number */
    uint32_t calls[VIPL_FAULT_KINDS]; /* atomic: calls of vipl_faults_strikes() */
};

/* What the plan does to one send. */
struct vipl_send_faults {
    bool drop;
    bool disconnect;
    uint32_t polls;  /* the number of polls by which the send is delayed */
    uint32_t status; /* VIP_STATUS error bits */
    uint32_t events; /* bit n: report VIP_ERROR_CODE n */
};

static inline bool vipl_faults_strike(const struct vipl_send_faults *faults)
{
    return faults->drop || faults->disconnect || (faults->polls | faults->status | faults->events) != 0;
}

/* Reads a plan. An invalid item is logged and ignored. */
void vipl_faults_read(struct vipl_faults *faults, const char *plan);
bool vipl_faults_has(const struct vipl_faults *faults, enum vipl_fault kind);
/* Counts a call of that kind. Returns true if a rule strikes the call. Not for faults of sends. */
bool vipl_faults_strikes(struct vipl_faults *faults, enum vipl_fault kind);
void vipl_faults_of_send(const struct vipl_faults *faults, uint32_t number, struct vipl_send_faults *out);

#endif
