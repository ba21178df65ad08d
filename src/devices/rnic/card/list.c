/* SPDX-License-Identifier: MIT */
/* Lists of queue pairs. All links are numbers plus 1, so that zeroed rows are in no list. */
#include "devices/rnic/card/list.h"

bool rnic_list_has(const struct rnic_card *card, enum rnic_list_kind kind, uint32_t qp)
{
    return (rnic_qp(card, qp)->lists & 1u << kind) != 0;
}

static void mark(struct rnic_qp *row, enum rnic_list_kind kind, bool in)
{
    row->lists = (uint8_t)(in ? row->lists | 1u << kind : row->lists & ~(1u << kind));
}

void rnic_list_append(const struct rnic_card *card, struct rnic_list *list, enum rnic_list_kind kind,
                      uint32_t qp)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    if (rnic_list_has(card, kind, qp)) {
        return;
    }
    mark(row, kind, true);
    row->link[kind] = (struct rnic_link){.before = list->last};
    if (list->last != 0) {
        rnic_qp(card, list->last - 1)->link[kind].behind = qp + 1;
    } else {
        list->first = qp + 1;
    }
    list->last = qp + 1;
}

void rnic_list_prepend(const struct rnic_card *card, struct rnic_list *list, enum rnic_list_kind kind,
                       uint32_t qp)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    if (rnic_list_has(card, kind, qp)) {
        return;
    }
    mark(row, kind, true);
    row->link[kind] = (struct rnic_link){.behind = list->first};
    if (list->first != 0) {
        rnic_qp(card, list->first - 1)->link[kind].before = qp + 1;
    } else {
        list->last = qp + 1;
    }
    list->first = qp + 1;
}

void rnic_list_remove(const struct rnic_card *card, struct rnic_list *list, enum rnic_list_kind kind,
                      uint32_t qp)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    if (!rnic_list_has(card, kind, qp)) {
        return;
    }
    struct rnic_link link = row->link[kind];
    mark(row, kind, false);
    if (link.before != 0) {
        rnic_qp(card, link.before - 1)->link[kind].behind = link.behind;
    } else {
        list->first = link.behind;
    }
    if (link.behind != 0) {
        rnic_qp(card, link.behind - 1)->link[kind].before = link.before;
    } else {
        list->last = link.before;
    }
}

bool rnic_list_pop(const struct rnic_card *card, struct rnic_list *list, enum rnic_list_kind kind,
                   uint32_t *qp)
{
    if (list->first == 0) {
        return false;
    }
    *qp = list->first - 1;
    rnic_list_remove(card, list, kind, *qp);
    return true;
}
