/* SPDX-License-Identifier: MIT */
/* The completion of entries of a send queue, and what follows it: a queue pair that has nothing
 * more to close for, or that has failed. */
#include "devices/rnic/card/request.h"

#include "devices/rnic/card/cost.h"
#include "devices/rnic/card/cq.h"
#include "devices/rnic/card/qp.h"
#include "devices/rnic/card/schedule.h"

/* The engine that sends writes the entry, also where a frame that has arrived is the reason: then
 * it begins when that frame has been taken. */
void rnic_complete_alone(struct rnic_card *card, uint32_t qp, const struct rnic_request *request)
{
    const struct rnic_work *work = &request->work;
    struct rnic_completion completion = {.qp = qp,
                                         .cookie = work->cookie,
                                         .length = request->status == RNIC_STATUS_OK ? work->length : 0,
                                         .info = work->behind,
                                         .status = request->status,
                                         .opcode = work->opcode};
    enum rnic_engine_kind engine = rnic_cost_hand_over(card, RNIC_ENGINE_SEND);
    rnic_cq_complete(card, rnic_qp(card, qp)->send_cq, &completion);
    rnic_cost_take_back(card, engine);
}

void rnic_complete_before(struct rnic_card *card, uint32_t qp, const struct rnic_request *end)
{
    for (const struct rnic_request *request = rnic_request_first(card, qp); request != end;
         request = rnic_request_behind(card, request)) {
        if (request->wait != RNIC_WAIT_DATA) {
            rnic_complete_alone(card, qp, request);
        }
    }
}

void rnic_complete_requests(struct rnic_card *card, uint32_t qp)
{
    struct rnic_request *request;
    while ((request = rnic_request_first(card, qp)) != NULL && request->wait == RNIC_WAIT_NOTHING) {
        uint16_t error = request->error;
        rnic_complete_alone(card, qp, request);
        rnic_request_drop_first(card, qp);
        if (error != RNIC_ERROR_NONE) {
            rnic_qp_fail(card, qp, error,
                         &(struct vipl_rdmap_terminate){.reason = VIPL_TERM_RDMAP_LOCAL_CATASTROPHIC});
            return;
        }
    }
    rnic_schedule(card, qp);
    rnic_qp_check_closing(card, qp);
}
