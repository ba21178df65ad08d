/* SPDX-License-Identifier: MIT */
/*
 * How the two ends meet. A client has threads, each with an end of its own; an end has connections.
 * It asks for them one after the other, and each request's name says how many there are to be and
 * whose they are (perf_name). The server accepts until all are there, and then serves each end in a
 * thread; it serves one client at a time.
 */
#include "perf.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool_os.h"
#include "tool_text.h"

/* ---- the client ------------------------------------------------------------------------------ */

static VIP_VI_ATTRIBUTES vi_attributes(const struct perf_options *options, uint32_t stride)
{
    VIP_VI_ATTRIBUTES attributes;

    memset(&attributes, 0, sizeof(attributes));
    attributes.ReliabilityLevel = options->level;
    attributes.MaxTransferSize = stride;
    attributes.EnableRdmaWrite = (options->ops & (1u << PERF_WRITE)) != 0;
    attributes.EnableRdmaRead = (options->ops & (1u << PERF_READ)) != 0;
    return attributes;
}

static bool request_connection(const struct perf_options *options, const struct perf_end *end,
                               const struct perf_name *whose, VIP_VI_HANDLE vi)
{
    unsigned char name[PERF_NAME_BYTES];
    struct tool_address local;
    struct tool_address remote;
    VIP_VI_ATTRIBUTES remote_attributes;
    VIP_RETURN rc;

    perf_name_encode(whose, name);
    if (!tool_address_local(end->nic, name, sizeof(name), &local) ||
        !tool_address_find(end->nic, options->host, options->discriminator, &remote)) {
        return false;
    }
    rc = VipConnectRequest(vi, &local.u.net, &remote.u.net, end->timeout_ms, &remote_attributes);
    if (rc != VIP_SUCCESS) {
        tool_complain_connect(&remote, rc);
    }
    return rc == VIP_SUCCESS;
}

static bool choose_shape(const struct perf_options *options, struct perf_shape *shape)
{
    *shape = (struct perf_shape){
        .size = (uint32_t)options->max_size,
        .depth = (uint32_t)options->depth,
        .verify = options->verify,
        .rdma = (options->ops & ~(1u << PERF_SEND)) != 0,
        .cq = options->cq,
        .connections = (uint32_t)options->connections,
    };
    while (!perf_shape_fits(shape) && shape->depth > 1) {
        shape->depth /= 2; /* large messages need no deep queue, and their buffers would not fit */
    }
    if (!perf_shape_fits(shape)) {
        tool_complain("messages of %u bytes need too much memory", shape->size);
        return false;
    }
    return true;
}

static bool connect_end(const struct perf_options *options, const struct perf_name *whose,
                        const struct perf_shape *shape, struct perf_end *end)
{
    VIP_VI_ATTRIBUTES attributes = vi_attributes(options, (shape->size + 63) / 64 * 64);

    end->timeout_ms = (uint32_t)options->timeout_ms;
    if (!perf_end_create(end, shape, &attributes)) {
        return false;
    }
    for (uint32_t i = 0; i < end->connections; i++) {
        if (!request_connection(options, end, whose, end->vis[i])) {
            return false;
        }
    }
    return true;
}

bool perf_team_connect(const struct perf_options *options, VIP_NIC_HANDLE nic, struct perf_team *team)
{
    /* Limits are measured between runs; on a busy machine nobody knows how long that takes. The
     * server has a limit of its own. */
    uint32_t patience_ms = options->limits != 0 ? UINT32_MAX : (uint32_t)options->timeout_ms;
    struct perf_name whose = {(uint32_t)(tool_now_ns() ^ (uint64_t)getpid() << 16),
                              (uint32_t)options->threads, (uint32_t)options->connections, options->cq};
    struct perf_shape shape;
    uint32_t i;

    team->threads = whose.threads;
    team->ends = calloc(team->threads, sizeof(*team->ends));
    team->hists = calloc(team->threads, sizeof(*team->hists));
    if (team->ends == NULL || team->hists == NULL) {
        tool_complain("no memory");
        return false;
    }
    for (i = 0; i < team->threads; i++) {
        team->ends[i].nic = nic;
    }
    if (!choose_shape(options, &shape)) {
        return false;
    }
    for (i = 0; i < team->threads && connect_end(options, &whose, &shape, &team->ends[i]); i++) {
    }
    if (i < team->threads) {
        return false;
    }
    for (i = 0; i < team->threads; i++) {
        if (perf_client_hello(&team->ends[i], patience_ms) != VIP_SUCCESS) {
            return false;
        }
    }
    return true;
}

void perf_team_destroy(struct perf_team *team)
{
    for (uint32_t i = 0; team->ends != NULL && i < team->threads; i++) {
        perf_end_destroy(&team->ends[i]);
    }
    free(team->ends);
    free(team->hists);
}

/* One thread's part of a run. */
struct part {
    pthread_t thread;
    struct perf_end *end;
    const struct perf_run *run;
    struct perf_tally tally;
    VIP_RETURN rc;
};

static void *run_part(void *arg)
{
    struct part *part = arg;

    part->rc = perf_client_run(part->end, part->run, &part->tally);
    return NULL;
}

/* What a thread found joins what the others did: the run is over when the last one's is. */
static VIP_RETURN add_part(struct perf_tally *tally, const struct part *part)
{
    perf_hist_merge(tally->hist, part->tally.hist);
    tally->elapsed_ns =
        part->tally.elapsed_ns > tally->elapsed_ns ? part->tally.elapsed_ns : tally->elapsed_ns;
    tally->window += part->tally.window; /* the others' windows took as long as this one's */
    tally->wrong += part->tally.wrong;
    tally->messages += part->run->count;
    return part->rc;
}

VIP_RETURN perf_team_run(struct perf_team *team, const struct perf_run *run, struct perf_tally *tally)
{
    struct part parts[PERF_MAX_THREADS] = {0};
    VIP_RETURN rc = VIP_SUCCESS;
    uint32_t started = 1;

    for (uint32_t i = 0; i < team->threads; i++) {
        perf_hist_clear(&team->hists[i]);
        parts[i] = (struct part){.end = &team->ends[i], .run = run, .tally = {.hist = &team->hists[i]}};
    }
    while (started < team->threads &&
           pthread_create(&parts[started].thread, NULL, run_part, &parts[started]) == 0) {
        started++;
    }
    run_part(&parts[0]);
    for (uint32_t i = 0; i < started; i++) {
        if (i > 0) {
            pthread_join(parts[i].thread, NULL);
        }
        VIP_RETURN own = add_part(tally, &parts[i]);
        rc = rc == VIP_SUCCESS ? own : rc;
    }
    if (started < team->threads) {
        tool_complain("no more than %u threads", started);
        return VIP_ERROR_RESOURCE;
    }
    return rc;
}

/* ---- the server ------------------------------------------------------------------------------ */

/* Where one end of a client is served. */
struct seat {
    pthread_t thread;
    struct perf_end end;
    struct tool_mem first; /* a descriptor and room for the client's first message */
    VIP_DESCRIPTOR *desc;
    VIP_VI_ATTRIBUTES attributes;
    uint32_t accepted; /* of its connections */
};

/* A client, once its first request was taken. */
struct party {
    const struct perf_options *options;
    VIP_NIC_HANDLE nic;
    struct perf_name name;
    struct seat *seats;
    uint32_t seated; /* seats that are complete */
};

static bool prepare_seat(struct party *party, struct seat *seat, const VIP_VI_ATTRIBUTES *attributes)
{
    seat->end = (struct perf_end){
        .nic = party->nic, .timeout_ms = (uint32_t)party->options->timeout_ms, .quiet = true, .block = true};
    seat->end.says = party->options->role == PERF_ROLE_SERVER && party->seated == 0;
    seat->attributes = *attributes;
    seat->attributes.Ptag = NULL;
    if (!tool_mem_create(party->nic, sizeof(*seat->desc) + PERF_MESSAGE_BYTES, false, false, &seat->first)) {
        return false;
    }
    seat->desc = (VIP_DESCRIPTOR *)(void *)seat->first.base;
    tool_desc_local(seat->desc, 0, seat->first.base + sizeof(*seat->desc), seat->first.handle,
                    PERF_MESSAGE_BYTES);
    return perf_end_create_vis(&seat->end, party->name.cq, party->name.connections, &seat->attributes) &&
           VipPostRecv(seat->end.vi, seat->desc, seat->first.handle) == VIP_SUCCESS;
}

/* One of the client's requests, with a VI like the client's. */
static bool seat_request(struct party *party, VIP_CONN_HANDLE request, const VIP_VI_ATTRIBUTES *attributes)
{
    struct seat *seat = &party->seats[party->seated];

    if (seat->accepted == 0 && !prepare_seat(party, seat, attributes)) {
        VipConnectReject(request);
        return false;
    }
    VIP_RETURN rc = VipConnectAccept(request, seat->end.vis[seat->accepted]);
    if (rc != VIP_SUCCESS) {
        if (rc != VIP_TIMEOUT) {
            VipConnectReject(request);
        }
        return false;
    }
    if (++seat->accepted == party->name.connections) {
        party->seated++;
    }
    return true;
}

/* The next request of a vipl-perf of this version: its name, and what its VI is like. */
static VIP_RETURN next_request(VIP_NIC_HANDLE nic, struct tool_address *local, uint32_t timeout_ms,
                               struct tool_address *remote, struct perf_name *name,
                               VIP_VI_ATTRIBUTES *attributes, VIP_CONN_HANDLE *request)
{
    size_t length;
    VIP_RETURN rc = tool_connect_wait(nic, local, timeout_ms, remote, attributes, request);

    if (rc != VIP_SUCCESS) {
        return rc;
    }
    const unsigned char *bytes = tool_address_discriminator(remote, &length);
    if (!perf_name_decode(bytes, length, name)) {
        tool_complain("a client that is not vipl-perf, or of another version, was rejected");
        VipConnectReject(*request);
        return VIP_REJECT;
    }
    return VIP_SUCCESS;
}

/* The client's further requests, until all its connections are there. Others are rejected
 * meanwhile. */
static bool gather(struct party *party, struct tool_address *local)
{
    while (party->seated < party->name.threads) {
        VIP_VI_ATTRIBUTES attributes;
        VIP_CONN_HANDLE request;
        struct tool_address remote;
        struct perf_name name;
        VIP_RETURN rc = next_request(party->nic, local, (uint32_t)party->options->timeout_ms, &remote, &name,
                                     &attributes, &request);

        if (rc == VIP_SUCCESS && name.party != party->name.party) {
            VipConnectReject(request);
        } else if (rc == VIP_SUCCESS ? !seat_request(party, request, &attributes) : rc != VIP_REJECT) {
            return false;
        }
    }
    return true;
}

static void *serve_seat(void *arg)
{
    struct seat *seat = arg;

    perf_serve_end(&seat->end, seat->desc, &seat->attributes);
    return NULL;
}

static void serve_party(struct party *party)
{
    uint32_t started = 1;

    while (started < party->name.threads &&
           pthread_create(&party->seats[started].thread, NULL, serve_seat, &party->seats[started]) == 0) {
        started++;
    }
    if (started == party->name.threads) {
        serve_seat(&party->seats[0]);
    } else {
        tool_complain("no more than %u threads", started);
    }
    for (uint32_t i = 1; i < started; i++) {
        pthread_join(party->seats[i].thread, NULL);
    }
}

static void end_party(struct party *party)
{
    for (uint32_t i = 0; i < party->name.threads; i++) {
        perf_end_destroy(&party->seats[i].end);
        tool_mem_destroy(&party->seats[i].first);
    }
    free(party->seats);
}

static VIP_RETURN serve_next(const void *its_options, VIP_NIC_HANDLE nic, struct tool_address *local)
{
    const struct perf_options *options = its_options;
    uint32_t timeout_ms = options->once ? (uint32_t)options->timeout_ms : UINT32_MAX;
    struct party party = {.options = options, .nic = nic};
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE request;
    struct tool_address remote;
    VIP_RETURN rc = next_request(nic, local, timeout_ms, &remote, &party.name, &attributes, &request);

    if (rc != VIP_SUCCESS) {
        return rc == VIP_REJECT ? VIP_SUCCESS : rc;
    }
    party.seats = calloc(party.name.threads, sizeof(*party.seats));
    if (party.seats == NULL) {
        tool_complain("no memory");
        VipConnectReject(request);
        return VIP_SUCCESS;
    }
    if (seat_request(&party, request, &attributes) && gather(&party, local)) {
        if (options->role == PERF_ROLE_SERVER) {
            tool_say_who(&remote, &attributes);
        }
        serve_party(&party);
        if (options->role == PERF_ROLE_SERVER) {
            puts("client gone");
            fflush(stdout);
        }
    }
    end_party(&party);
    return VIP_SUCCESS;
}

int perf_serve(const struct perf_options *options)
{
    return tool_serve(options->device, options->discriminator, options->role == PERF_ROLE_SERVER,
                      options->once, serve_next, options);
}
