/* SPDX-License-Identifier: MIT */
/* An intrusive doubly linked list, the container of this library. A link that is on no list points
 * to itself. */
#ifndef VIPL_BASE_LIST_H
#define VIPL_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct vipl_list {
    struct vipl_list *next;
    struct vipl_list *prev;
};

/* The object that holds `link` as its member `member`. */
#define VIPL_CONTAINER(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

static inline void vipl_list_init(struct vipl_list *list)
{
    list->next = list;
    list->prev = list;
}

static inline bool vipl_list_empty(const struct vipl_list *list)
{
    return list->next == list;
}

static inline void vipl_list_append(struct vipl_list *list, struct vipl_list *link)
{
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}

/* Harmless on a link that is on no list. */
static inline void vipl_list_remove(struct vipl_list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    vipl_list_init(link);
}

/* Puts `to` where `from` is: an element moves in memory. */
static inline void vipl_list_replace(struct vipl_list *from, struct vipl_list *to)
{
    if (vipl_list_empty(from)) {
        vipl_list_init(to);
        return;
    }
    *to = *from;
    to->prev->next = to;
    to->next->prev = to;
}

static inline struct vipl_list *vipl_list_take(struct vipl_list *list)
{
    struct vipl_list *first = list->next;
    if (first == list) {
        return NULL;
    }
    vipl_list_remove(first);
    return first;
}

#endif
