/* SPDX-License-Identifier: MIT */
/*
 * Requests: a table for each function, so that a function whose peers are slow takes nothing from
 * another. A queue pair's requests are linked from the oldest to the latest, and complete in that
 * order.
 */
#include "devices/rnic/card/request.h"

#include "devices/rnic/card/list.h"
#include "devices/rnic/card/numbers.h"
#include "devices/rnic/card/schedule.h"

void rnic_requests_reset(struct rnic_card *card, unsigned fn)
{
    uint64_t links = rnic_state(card)->request_links + (uint64_t)fn * RNIC_REQUESTS * sizeof(uint32_t);
    rnic_fn(card, fn)->requests = (struct rnic_numbers){.limit = RNIC_REQUESTS, .links = links};
}

static struct rnic_request *row_of(const struct rnic_card *card, uint32_t qp, uint32_t number)
{
    return number == 0 ? NULL : rnic_request(card, rnic_qp(card, qp)->fn, number - 1);
}

static uint32_t index_of(const struct rnic_card *card, const struct rnic_request *request)
{
    return (uint32_t)(request - rnic_request(card, rnic_qp(card, request->qp)->fn, 0));
}

struct rnic_request *rnic_request_take(struct rnic_card *card, uint32_t qp)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    struct rnic_fn *f = rnic_fn(card, row->fn);
    uint32_t index;
    if (row->requests == RNIC_REQUESTS_OF_QP) {
        return NULL;
    }
    if (!rnic_numbers_take(card, &f->requests, row->fn, &index)) {
        rnic_list_append(card, &f->waiting, RNIC_LIST_REQUEST, qp);
        return NULL;
    }
    f->serial += f->serial == UINT32_MAX ? 2 : 1;
    struct rnic_request *request = rnic_request(card, row->fn, index);
    *request = (struct rnic_request){.serial = f->serial, .qp = qp};
    if (row->last_request != 0) {
        row_of(card, qp, row->last_request)->behind = index + 1;
    } else {
        row->first_request = index + 1;
    }
    row->last_request = index + 1;
    row->requests++;
    return request;
}

struct rnic_request *rnic_request_first(const struct rnic_card *card, uint32_t qp)
{
    return row_of(card, qp, rnic_qp(card, qp)->first_request);
}

struct rnic_request *rnic_request_behind(const struct rnic_card *card, const struct rnic_request *request)
{
    return row_of(card, request->qp, request->behind);
}

struct rnic_request *rnic_request_current(const struct rnic_card *card, uint32_t qp)
{
    struct rnic_request *request = row_of(card, qp, rnic_qp(card, qp)->last_request);
    return request != NULL && request->wait == RNIC_WAIT_COPY ? request : NULL;
}

uint64_t rnic_request_tag(const struct rnic_card *card, const struct rnic_request *request)
{
    return (uint64_t)index_of(card, request) << 32 | request->serial;
}

struct rnic_request *rnic_request_find(const struct rnic_card *card, unsigned fn, uint64_t tag)
{
    uint32_t index = (uint32_t)(tag >> 32);
    if ((uint32_t)tag == 0 || index >= rnic_fn(card, fn)->requests.fresh) {
        return NULL;
    }
    struct rnic_request *request = rnic_request(card, fn, index);
    return request->serial == (uint32_t)tag ? request : NULL;
}

/* The row is free; who waited for one may go on. */
static void give(struct rnic_card *card, unsigned fn, struct rnic_request *request)
{
    struct rnic_fn *f = rnic_fn(card, fn);
    uint32_t waiting;
    uint32_t index = (uint32_t)(request - rnic_request(card, fn, 0));
    request->serial = 0;
    rnic_numbers_give(card, &f->requests, index);
    if (rnic_list_pop(card, &f->waiting, RNIC_LIST_REQUEST, &waiting)) {
        rnic_schedule(card, waiting);
    }
}

void rnic_request_drop_first(struct rnic_card *card, uint32_t qp)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    struct rnic_request *request = rnic_request_first(card, qp);
    row->first_request = request->behind;
    row->last_request = request->behind == 0 ? 0 : row->last_request;
    row->requests--;
    give(card, row->fn, request);
}

void rnic_requests_drop(struct rnic_card *card, uint32_t qp)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    rnic_list_remove(card, &rnic_fn(card, row->fn)->waiting, RNIC_LIST_REQUEST, qp);
    while (row->first_request != 0) {
        rnic_request_drop_first(card, qp);
    }
    row->reads_out = 0;
}
