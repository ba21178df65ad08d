/* SPDX-License-Identifier: MIT */
/*
 * How the two ends agree. All of it travels over the measured VI itself:
 *
 *   client                                server
 *   connect                               (meet.c: all connections of all threads)
 *   HELLO   sizes, depth, window    ->
 *                                   <-    WELCOME  window
 *   RUN     what to measure         ->
 *                                   <-    READY
 *   GO                              ->
 *   ... perf_lat() or perf_stream() on both ends ...
 *   END                             ->
 *                                   <-    RESULT   messages found wrong
 *   the next RUN, or a disconnect
 *
 * Neither end sends a payload while the other may still read an earlier one, so receive buffers may
 * be shared. A server believes nothing it has not checked.
 */
#include "perf.h"

#include <string.h>

#include "tool_os.h"
#include "tool_text.h"

/* A server's longest wait for a client that has stopped talking; one that dies is noticed at
 * once. */
#define MAX_PATIENCE_MS 600000

/* ---- both ends ------------------------------------------------------------------------------- */

/* The next control message, which has to be of this type. */
static VIP_RETURN expect_message(struct perf_end *end, enum perf_type type, struct perf_message *message)
{
    struct perf_event event;
    VIP_RETURN rc = perf_next_receive(end, &event);

    if (rc != VIP_SUCCESS) {
        return rc;
    }
    if (event.kind != PERF_KIND_MESSAGE ||
        !perf_message_decode(perf_received(event.desc), event.desc->CS.Length, message) ||
        message->type != type) {
        tool_complain("the other end does not keep to the protocol");
        return VIP_ERROR_NOT_SUPPORTED;
    }
    return perf_repost(end, event.desc);
}

static VIP_RETURN expect_note(struct perf_end *end, enum perf_kind kind)
{
    struct perf_event event;
    VIP_RETURN rc = perf_next_receive(end, &event);

    if (rc == VIP_SUCCESS && event.kind != kind) {
        tool_complain("the other end does not keep to the protocol");
        return VIP_ERROR_NOT_SUPPORTED;
    }
    return rc == VIP_SUCCESS ? perf_repost(end, event.desc) : rc;
}

static void describe_window(const struct perf_end *end, struct perf_message *message)
{
    message->address = (uint64_t)(uintptr_t)end->window.base;
    message->handle = end->window.handle;
    message->stride = end->stride;
    message->slots = end->window.base != NULL ? end->window_slots : 0;
}

static VIP_RETURN run_loops(struct perf_end *end, const struct perf_run *run, bool client,
                            struct perf_tally *tally, bool *peer_ended)
{
    *peer_ended = false;
    if (run->test == PERF_LAT) {
        return perf_lat(end, run, client, tally);
    }
    return perf_stream(end, run, client, tally, peer_ended);
}

/* ---- client ---------------------------------------------------------------------------------- */

/* `patience` is how long the server shall wait for the next run, in ms. */
VIP_RETURN perf_client_hello(struct perf_end *end, uint32_t patience)
{
    struct perf_message hello = {.type = PERF_HELLO};
    VIP_RETURN rc;

    hello.size = end->shape.size;
    hello.depth = end->shape.depth;
    hello.verify = end->shape.verify;
    hello.timeout_ms = patience;
    describe_window(end, &hello);
    rc = perf_send_message(end, &hello);
    return rc == VIP_SUCCESS ? expect_message(end, PERF_WELCOME, &end->peer) : rc;
}

static VIP_RETURN finish_run(struct perf_end *end, struct perf_tally *tally)
{
    struct perf_message result;
    VIP_RETURN rc = perf_note(end, PERF_KIND_END, 0);

    if (rc == VIP_SUCCESS) {
        rc = expect_message(end, PERF_RESULT, &result);
    }
    if (rc == VIP_SUCCESS) {
        tally->wrong += result.count;
        rc = perf_drain(end);
    }
    return rc;
}

VIP_RETURN perf_client_run(struct perf_end *end, const struct perf_run *run, struct perf_tally *tally)
{
    struct perf_message message = {.type = PERF_RUN};
    bool peer_ended;
    VIP_RETURN rc;

    message.test = (uint8_t)run->test;
    message.op = (uint8_t)run->op;
    message.block = run->block;
    message.verify = run->verify;
    message.polls = run->polls;
    message.size = run->size;
    message.count = run->count;
    perf_prepare(end, run);
    rc = perf_send_message(end, &message);
    if (rc == VIP_SUCCESS) {
        rc = expect_message(end, PERF_READY, &message);
    }
    if (rc == VIP_SUCCESS) {
        rc = perf_note(end, PERF_KIND_GO, 0);
    }
    if (rc == VIP_SUCCESS) {
        rc = perf_drain(end);
    }
    if (rc == VIP_SUCCESS) {
        rc = run_loops(end, run, true, tally, &peer_ended);
    }
    return rc == VIP_SUCCESS ? finish_run(end, tally) : rc;
}

/* ---- server ---------------------------------------------------------------------------------- */

/* What a RUN asks for, if it is possible with this end. */
static bool read_run(const struct perf_end *end, const struct perf_message *message, struct perf_run *run)
{
    run->test = (enum perf_test)message->test;
    run->op = (enum perf_op)message->op;
    run->block = message->block != 0;
    run->verify = message->verify != 0;
    run->polls = message->polls != 0;
    run->size = message->size;
    run->count = message->count;
    return message->test < PERF_TESTS && message->op < PERF_OPS && run->size > 0 &&
           run->size <= end->shape.size && run->count > 0 && run->verify == end->shape.verify &&
           (run->op == PERF_SEND || (end->window.base != NULL && end->peer.slots > 0));
}

static VIP_RETURN serve_run(struct perf_end *end, const struct perf_run *run)
{
    static _Thread_local struct perf_hist scratch; /* the samples of a server are not reported */
    struct perf_tally tally = {.hist = &scratch};
    struct perf_message answer = {.type = PERF_READY};
    bool peer_ended = false;
    VIP_RETURN rc;

    perf_prepare(end, run);
    if (end->says) {
        printf("  %s %s, %u bytes\n", perf_test_text(run->test), perf_op_text(run->op), run->size);
        fflush(stdout);
    }
    rc = perf_send_message(end, &answer);
    if (rc == VIP_SUCCESS) {
        rc = expect_note(end, PERF_KIND_GO);
    }
    if (rc == VIP_SUCCESS) {
        rc = perf_drain(end);
    }
    if (rc == VIP_SUCCESS) {
        rc = run_loops(end, run, false, &tally, &peer_ended);
    }
    if (rc == VIP_SUCCESS && !peer_ended) {
        rc = expect_note(end, PERF_KIND_END);
    }
    if (rc != VIP_SUCCESS) {
        return rc;
    }
    answer.type = PERF_RESULT;
    answer.count = tally.wrong;
    return perf_send_message(end, &answer);
}

/* One client from WELCOME to its end. */
static VIP_RETURN serve_runs(struct perf_end *end)
{
    struct perf_message message = {.type = PERF_WELCOME};
    struct perf_run run;
    VIP_RETURN rc;

    describe_window(end, &message);
    rc = perf_send_message(end, &message);
    while (rc == VIP_SUCCESS) {
        end->block = true; /* the client may be busy with other things on this CPU */
        rc = expect_message(end, PERF_RUN, &message);
        if (rc == VIP_SUCCESS && !read_run(end, &message, &run)) {
            tool_complain("a client asks for something impossible");
            rc = VIP_ERROR_NOT_SUPPORTED;
        }
        if (rc == VIP_SUCCESS) {
            rc = serve_run(end, &run);
        }
    }
    return rc;
}

/* The first message of a client, and the rings it asks for. */
static bool take_hello(struct perf_end *end, VIP_DESCRIPTOR *desc, const VIP_VI_ATTRIBUTES *attributes)
{
    struct perf_shape shape;
    struct perf_event event;

    if (perf_next_receive(end, &event) != VIP_SUCCESS || event.desc != desc ||
        event.kind != PERF_KIND_MESSAGE ||
        !perf_message_decode(perf_received(desc), desc->CS.Length, &end->peer) ||
        end->peer.type != PERF_HELLO) {
        return false;
    }
    end->timeout_ms = end->peer.timeout_ms < MAX_PATIENCE_MS ? end->peer.timeout_ms : MAX_PATIENCE_MS;
    shape.size = end->peer.size;
    shape.depth = end->peer.depth;
    shape.verify = end->peer.verify != 0;
    shape.rdma = attributes->EnableRdmaWrite || attributes->EnableRdmaRead;
    shape.cq = end->cq != NULL;
    shape.connections = end->connections;
    return perf_shape_fits(&shape) && perf_end_create_rings(end, &shape);
}

void perf_serve_end(struct perf_end *end, VIP_DESCRIPTOR *desc, const VIP_VI_ATTRIBUTES *attributes)
{
    if (take_hello(end, desc, attributes)) {
        serve_runs(end);
    }
}
