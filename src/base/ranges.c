/* SPDX-License-Identifier: MIT */
/* A treap: a search tree by numbers, and a heap by priorities. */
#include "base/ranges.h"

#include "os/os.h"

void vipl_ranges_init(struct vipl_ranges *set)
{
    *set = (struct vipl_ranges){NULL, 0, 0};
    /* on failure priorities are foreseeable */
    (void)vipl_entropy(&set->random, sizeof(set->random));
    set->random |= 1;
}

/* Returns the next number of a xorshift generator. */
static uint64_t next_priority(struct vipl_ranges *set)
{
    set->random ^= set->random << 13;
    set->random ^= set->random >> 7;
    set->random ^= set->random << 17;
    return set->random;
}

struct vipl_range *vipl_ranges_at_or_after(const struct vipl_ranges *set, uint64_t number)
{
    struct vipl_range *found = NULL;
    for (struct vipl_range *r = set->root; r != NULL;) {
        if (r->last >= number) {
            found = r;
            r = r->lower;
        } else {
            r = r->higher;
        }
    }
    return found;
}

/* Splits a tree into the ranges below the number and the others. */
static void split_tree(struct vipl_range *tree, uint64_t number, struct vipl_range **below,
                       struct vipl_range **others)
{
    while (tree != NULL) {
        if (tree->first < number) {
            *below = tree;
            below = &tree->higher;
            tree = tree->higher;
        } else {
            *others = tree;
            others = &tree->lower;
            tree = tree->lower;
        }
    }
    *below = *others = NULL;
}

/* Joins two trees; all ranges of `lower` are below those of `higher`. */
static struct vipl_range *merge_trees(struct vipl_range *lower, struct vipl_range *higher)
{
    struct vipl_range *root = NULL;
    struct vipl_range **at = &root;
    while (lower != NULL && higher != NULL) {
        if (lower->priority > higher->priority) {
            *at = lower;
            at = &lower->higher;
            lower = lower->higher;
        } else {
            *at = higher;
            at = &higher->lower;
            higher = higher->lower;
        }
    }
    *at = lower != NULL ? lower : higher;
    return root;
}

bool vipl_ranges_add(struct vipl_ranges *set, struct vipl_range *range)
{
    const struct vipl_range *next = vipl_ranges_at_or_after(set, range->first);
    if (next != NULL && next->first <= range->last) {
        return false;
    }
    struct vipl_range **at = &set->root;
    range->priority = next_priority(set);
    while (*at != NULL && (*at)->priority > range->priority) {
        at = range->first < (*at)->first ? &(*at)->lower : &(*at)->higher;
    }
    split_tree(*at, range->first, &range->lower, &range->higher);
    *at = range;
    set->count++;
    return true;
}

void vipl_ranges_remove(struct vipl_ranges *set, struct vipl_range *range)
{
    struct vipl_range **at = &set->root;
    while (*at != range) {
        at = range->first < (*at)->first ? &(*at)->lower : &(*at)->higher;
    }
    *at = merge_trees(range->lower, range->higher);
    set->count--;
}
