/* SPDX-License-Identifier: MIT */
/* A treap: a search tree by first addresses, and a heap by priorities. */
#include "base/intervals.h"

#include "os/os.h"

void vipl_intervals_init(struct vipl_intervals *set)
{
    *set = (struct vipl_intervals){NULL, 0, 0};
    /* on failure priorities are foreseeable */
    (void)vipl_entropy(&set->random, sizeof(set->random));
    set->random |= 1;
}

/* Returns the next number of a xorshift generator. */
static uint32_t draw_priority(struct vipl_intervals *set)
{
    set->random ^= set->random << 13;
    set->random ^= set->random >> 17;
    set->random ^= set->random << 5;
    return set->random;
}

/* Intervals with the same first address are ordered by where they lie in memory. */
static bool comes_before(const struct vipl_interval *a, const struct vipl_interval *b)
{
    return a->first != b->first ? a->first < b->first : (uintptr_t)a < (uintptr_t)b;
}

static uintptr_t end_below(const struct vipl_interval *tree)
{
    return tree == NULL ? 0 : tree->largest_end;
}

static void update_end(struct vipl_interval *tree)
{
    uintptr_t lower = end_below(tree->lower);
    uintptr_t higher = end_below(tree->higher);
    uintptr_t below = lower > higher ? lower : higher;
    tree->largest_end = tree->end > below ? tree->end : below;
}

/* Splits a tree into what comes before the interval and the others. */
static void split_at(struct vipl_interval *tree, const struct vipl_interval *at,
                     struct vipl_interval **before, struct vipl_interval **after)
{
    if (tree == NULL) {
        *before = *after = NULL;
    } else if (comes_before(tree, at)) {
        split_at(tree->higher, at, &tree->higher, after);
        *before = tree;
        update_end(tree);
    } else {
        split_at(tree->lower, at, before, &tree->lower);
        *after = tree;
        update_end(tree);
    }
}

/* Joins two trees; all intervals of `before` come before those of `after`. */
static struct vipl_interval *join_trees(struct vipl_interval *before, struct vipl_interval *after)
{
    if (before == NULL || after == NULL) {
        return before == NULL ? after : before;
    }
    struct vipl_interval *root = before->priority > after->priority ? before : after;
    if (root == before) {
        root->higher = join_trees(root->higher, after);
    } else {
        root->lower = join_trees(before, root->lower);
    }
    update_end(root);
    return root;
}

static struct vipl_interval *added(struct vipl_interval *tree, struct vipl_interval *interval)
{
    if (tree == NULL || tree->priority < interval->priority) {
        split_at(tree, interval, &interval->lower, &interval->higher);
        update_end(interval);
        return interval;
    }
    if (comes_before(interval, tree)) {
        tree->lower = added(tree->lower, interval);
    } else {
        tree->higher = added(tree->higher, interval);
    }
    update_end(tree);
    return tree;
}

static struct vipl_interval *without(struct vipl_interval *tree, const struct vipl_interval *interval)
{
    if (tree == interval) {
        return join_trees(tree->lower, tree->higher);
    }
    if (comes_before(interval, tree)) {
        tree->lower = without(tree->lower, interval);
    } else {
        tree->higher = without(tree->higher, interval);
    }
    update_end(tree);
    return tree;
}

void vipl_intervals_add(struct vipl_intervals *set, struct vipl_interval *interval)
{
    interval->priority = draw_priority(set);
    set->root = added(set->root, interval);
    set->count++;
}

void vipl_intervals_remove(struct vipl_intervals *set, struct vipl_interval *interval)
{
    set->root = without(set->root, interval);
    set->count--;
}

/* Tests, in order, the intervals that begin at or before `last_first` and end at or after
 * `least_end`. */
static struct vipl_interval *search_tree(struct vipl_interval *tree, uintptr_t last_first,
                                         uintptr_t least_end, vipl_interval_test *test, void *arg)
{
    while (tree != NULL && tree->largest_end >= least_end) {
        struct vipl_interval *found = search_tree(tree->lower, last_first, least_end, test, arg);
        if (found != NULL) {
            return found;
        }
        if (tree->first > last_first) {
            return NULL;
        }
        if (tree->end >= least_end && test(tree, arg)) {
            return tree;
        }
        tree = tree->higher;
    }
    return NULL;
}

struct vipl_interval *vipl_intervals_containing(const struct vipl_intervals *set, uintptr_t first,
                                                uintptr_t end, vipl_interval_test *test, void *arg)
{
    return search_tree(set->root, first, end, test, arg);
}

struct vipl_interval *vipl_intervals_overlapping(const struct vipl_intervals *set, uintptr_t first,
                                                 uintptr_t end, vipl_interval_test *test, void *arg)
{
    return search_tree(set->root, end - 1, first + 1, test, arg);
}
