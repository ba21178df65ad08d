/* SPDX-License-Identifier: MIT */
/* Doubly linked lists, whose links are in the elements. An element that is on no list is alone. */
#ifndef VIPL_PROVIDERS_LIBFABRIC_LIST_H
#define VIPL_PROVIDERS_LIBFABRIC_LIST_H

#include <stdbool.h>

struct list {
    struct list *next, *prev;
};

static inline void list_init(struct list *one)
{
    one->next = one;
    one->prev = one;
}

/* Of a list: it is empty. Of an element: it is on no list. */
static inline bool list_is_alone(const struct list *one)
{
    return one->next == one;
}

static inline void list_append(struct list *all, struct list *one)
{
    one->next = all;
    one->prev = all->prev;
    all->prev->next = one;
    all->prev = one;
}

static inline void list_prepend(struct list *all, struct list *one)
{
    list_append(all->next, one);
}

static inline void list_remove(struct list *one)
{
    one->next->prev = one->prev;
    one->prev->next = one->next;
    list_init(one);
}

static inline unsigned list_length(const struct list *all)
{
    unsigned length = 0;
    for (const struct list *one = all->next; one != all; one = one->next) {
        length++;
    }
    return length;
}

/* Takes the first element of a list that has one. */
static inline struct list *list_pop(struct list *all)
{
    struct list *one = all->next;
    all->next = one->next;
    one->next->prev = all;
    list_init(one);
    return one;
}

#endif
