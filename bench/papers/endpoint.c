/* SPDX-License-Identifier: MIT */
/* Queue pairs for the papers' tables. */
#include "endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rnic/registers.h"

enum { PAGE = 4096, COMPLETIONS_LOG2 = 8 };

void endpoint_must(const char *what, int error)
{
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", what, strerror(error));
        exit(2);
    }
}

uint8_t *endpoint_device_memory(struct vipl_rnic *rnic, enum vipl_rnic_memory kind, uint32_t bytes)
{
    void *memory = NULL;
    endpoint_must("alloc_memory", vipl_rnic_alloc_memory(rnic, bytes, kind, rnic, &memory));
    return memory;
}

void endpoint_init(struct endpoint *end, struct vipl_rnic *rnic, uint32_t bytes, uint8_t *memory)
{
    memset(end, 0, sizeof(*end));
    end->rnic = rnic;
    end->bytes = memory != NULL ? bytes : (bytes + PAGE - 1) / PAGE * PAGE;
    end->owns = memory == NULL;
    end->memory = memory != NULL ? memory : aligned_alloc(PAGE, end->bytes);
    endpoint_must("memory", end->memory == NULL ? ENOMEM : 0);
    memset(end->memory, 0, end->bytes);
    endpoint_must("allocate_pd", vipl_rnic_allocate_pd(rnic, &end->pd));
    endpoint_must("create_cq", vipl_rnic_create_cq(rnic, COMPLETIONS_LOG2, 1, &end->cq));
    struct vipl_rnic_qp_attributes attributes = {end->pd, RNIC_LEVEL_DELIVERY, RNIC_RIGHT_REMOTE_WRITE};
    endpoint_must("create_qp", vipl_rnic_create_qp(rnic, end->cq, &attributes, &end->qp));
    endpoint_must("allocate_mr", vipl_rnic_allocate_mr(rnic, &end->pd, end->memory, end->bytes,
                                                       RNIC_RIGHT_REMOTE_WRITE, &end->mr));
}

static bool take_one(struct endpoint *end)
{
    struct vipl_rnic_completion completion;
    if (vipl_rnic_poll_cq(end->cq, &completion, 1) == 0) {
        return false;
    }
    if (completion.opcode == RNIC_WORK_DRAINED) {
        end->drained = true;
        return true;
    }
    endpoint_must("a completion's status", completion.status == RNIC_STATUS_OK ? 0 : EIO);
    endpoint_must("the order of completions", completion.cookie == (uint32_t)end->done ? 0 : EPROTO);
    endpoint_must("retire", vipl_rnic_retire(&end->qp, &completion) ? 0 : EPROTO);
    end->done++;
    return true;
}

void endpoint_take(struct endpoint *end)
{
    while (take_one(end)) {
    }
}

void endpoint_fini(struct endpoint *end)
{
    int error = vipl_rnic_modify_qp(&end->qp, RNIC_QP_STATE_ERROR, NULL);
    endpoint_must("modify_qp", error == EALREADY ? 0 : error); /* the peer's end was its own */
    while (!end->drained) {
        endpoint_must("the card", vipl_rnic_is_dead(end->rnic) ? ENODEV : 0);
        endpoint_take(end);
        vipl_rnic_progress(end->rnic);
    }
    endpoint_must("destroy_qp", vipl_rnic_destroy_qp(&end->qp));
    endpoint_must("destroy_cq", vipl_rnic_destroy_cq(end->cq));
    endpoint_must("free_mr", vipl_rnic_free_mr(end->rnic, &end->mr));
    vipl_rnic_free_pd(end->rnic, &end->pd);
    if (end->owns) {
        free(end->memory);
    }
}

static void connect_to(struct endpoint *end, const struct endpoint *peer)
{
    const struct vipl_rnic_caps *caps = vipl_rnic_query(peer->rnic);
    struct vipl_rnic_qp_connection connection = {.ird = 1, .ord = 1, .max_message = end->bytes};
    memcpy(connection.peer.mac, caps->mac, sizeof(connection.peer.mac));
    connection.peer.function = caps->function;
    connection.peer.qp = peer->qp.number;
    endpoint_must("modify_qp", vipl_rnic_modify_qp(&end->qp, RNIC_QP_STATE_CONNECTED, &connection));
}

void endpoint_connect(struct endpoint *end, struct endpoint *peer)
{
    connect_to(peer, end);
    connect_to(end, peer);
}

bool endpoint_post(struct endpoint *end, const struct endpoint *peer, uint32_t bytes)
{
    struct vipl_rnic_segment segment = {(uint64_t)(uintptr_t)end->memory, bytes, end->mr.stag};
    struct vipl_rnic_work work = {.opcode = RNIC_WORK_WRITE,
                                  .segments = 1,
                                  .cookie = (uint32_t)end->posted,
                                  .remote_stag = peer->mr.stag,
                                  .remote_address = (uint64_t)(uintptr_t)peer->memory,
                                  .segment = &segment};
    int error = vipl_rnic_post_sq(&end->qp, &work);
    if (error == EAGAIN) { /* the ring grows, if it may */
        error = vipl_rnic_grow_queue(&end->qp, VIPL_RNIC_SQ);
        error = error == 0 ? vipl_rnic_post_sq(&end->qp, &work) : error;
    }
    endpoint_must("post_sq", error == EAGAIN ? 0 : error);
    end->posted += error == 0 ? 1 : 0;
    return error == 0;
}
