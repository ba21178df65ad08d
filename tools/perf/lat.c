/* SPDX-License-Identifier: MIT */
/*
 * The latency loops: one message at a time, back and forth, or one RDMA Read at a time.
 *
 * A sample is the time from one post to the next, which is one round trip. The clock is read right
 * after posting, while the message is on its way, so its cost hides there. With verification the
 * buffer is filled before and checked after the timed part; the server checks once its answer is on
 * the way and fills the next answer ahead, so little of that is in a sample either.
 *
 * RDMA Writes: when polling, the receiver spins on the last byte of a slot, which carries the
 * number of the message (a byte, so that ends of different byte order agree), and calls the library
 * in between if it is asked to; when blocking, each write has immediate data and completes a
 * receive.
 */
#include "perf.h"

#include "tool_os.h"
#include "tool_pattern.h"
#include "tool_text.h"

/* One run on one end. */
struct lat {
    struct perf_end *end;
    const struct perf_run *run;
    struct perf_tally *tally;
    bool client;
    bool spins;            /* on memory rather than on a completion */
    VIP_DESCRIPTOR *taken; /* a receive to give back */
};

uint32_t perf_seed(bool from_client, uint64_t number)
{
    return (uint32_t)(number & 0x7fffffffu) | (from_client ? 0 : 0x80000000u);
}

uint32_t perf_slot_seed(uint32_t slot)
{
    return 0x51075107u + slot;
}

static bool is_write(const struct lat *lat)
{
    return lat->run->op == PERF_WRITE;
}

/* The slot that message `number` lands in: both ends use two turns. */
static unsigned char *landing(const struct lat *lat, uint64_t number)
{
    return perf_window_slot(lat->end, (uint32_t)((number - 1) % 2) % lat->end->window_slots);
}

/* Fill the next message. Its descriptor is not posted: at most one message is out. */
static void fill(const struct lat *lat, uint64_t number)
{
    unsigned char *local = perf_next_local(lat->end);

    if (lat->run->verify) {
        tool_pattern_fill(local, lat->run->size, perf_seed(lat->client, number));
    }
    if (is_write(lat)) {
        local[lat->run->size - 1] = (unsigned char)number;
    }
}

static void check(struct lat *lat, uint64_t number)
{
    uint32_t size = lat->run->size;
    const unsigned char *data = is_write(lat) ? landing(lat, number) : perf_received(lat->taken);
    uint32_t compared = is_write(lat) ? size - 1 : size;
    bool right;

    if (!lat->run->verify) {
        return;
    }
    right = tool_pattern_check(data, compared, perf_seed(!lat->client, number)) == TOOL_ALL_RIGHT;
    if (is_write(lat)) {
        right = right && data[size - 1] == (unsigned char)number;
    } else {
        right = right && lat->taken->CS.Length == size;
    }
    lat->tally->wrong += !right;
}

/* Until message `number` is here. */
static VIP_RETURN await(struct lat *lat, uint64_t number)
{
    struct perf_event event;
    VIP_RETURN rc = VIP_SUCCESS;

    if (lat->spins) {
        const unsigned char *last = landing(lat, number) + lat->run->size - 1;
        struct perf_watch watch = {0, 0};

        /* pairs with the peer's library, which writes the tail of an RDMA Write last */
        while (rc == VIP_SUCCESS && __atomic_load_n(last, __ATOMIC_ACQUIRE) != (unsigned char)number) {
            rc = lat->run->polls ? perf_poll_end(lat->end) : VIP_SUCCESS;
            rc = rc == VIP_SUCCESS ? perf_watch(lat->end, &watch) : rc;
        }
        return rc;
    }
    rc = perf_next_receive(lat->end, &event);
    if (rc != VIP_SUCCESS) {
        return rc;
    }
    lat->taken = event.desc;
    if (event.kind != (is_write(lat) ? PERF_KIND_WRITTEN : PERF_KIND_DATA)) {
        tool_complain("message of kind %d out of turn", (int)event.kind);
        return VIP_ERROR_NOT_SUPPORTED;
    }
    return VIP_SUCCESS;
}

static VIP_RETURN give_back(struct lat *lat)
{
    VIP_RETURN rc = VIP_SUCCESS;

    if (lat->taken != NULL) {
        rc = perf_repost(lat->end, lat->taken);
        lat->taken = NULL;
    }
    return rc;
}

/* The client's messages, not verified: samples from post to post. */
static VIP_RETURN ping(struct lat *lat)
{
    uint64_t last = 0;
    VIP_RETURN rc = VIP_SUCCESS;

    for (uint64_t number = 1; number <= lat->run->count && rc == VIP_SUCCESS; number++) {
        uint64_t now;

        fill(lat, number);
        rc = perf_post(lat->end);
        now = tool_now_ns();
        if (number > 1) {
            perf_hist_add(lat->tally->hist, now - last);
        }
        last = now;
        if (rc == VIP_SUCCESS) {
            rc = give_back(lat);
        }
        if (rc == VIP_SUCCESS && !lat->run->block) { /* while the message is on its way */
            rc = perf_reap_done(lat->end);
        }
        if (rc == VIP_SUCCESS) {
            rc = await(lat, number);
        }
        if (rc == VIP_SUCCESS) {
            rc = perf_reap_sends(lat->end, 0);
        }
    }
    perf_hist_add(lat->tally->hist, tool_now_ns() - last);
    return rc;
}

/* The same with verification: the clock stands still while buffers are filled and checked. */
static VIP_RETURN ping_verified(struct lat *lat)
{
    VIP_RETURN rc = VIP_SUCCESS;

    for (uint64_t number = 1; number <= lat->run->count && rc == VIP_SUCCESS; number++) {
        uint64_t start;

        fill(lat, number);
        start = tool_now_ns();
        rc = perf_post(lat->end);
        if (rc == VIP_SUCCESS) {
            rc = await(lat, number);
        }
        perf_hist_add(lat->tally->hist, tool_now_ns() - start);
        if (rc == VIP_SUCCESS) {
            rc = perf_reap_sends(lat->end, 0);
        }
        if (rc == VIP_SUCCESS) {
            check(lat, number);
            rc = give_back(lat);
        }
    }
    return rc;
}

/* The server's side of both. */
static VIP_RETURN pong(struct lat *lat)
{
    VIP_RETURN rc = VIP_SUCCESS;

    for (uint64_t number = 1; number <= lat->run->count && rc == VIP_SUCCESS; number++) {
        fill(lat, number);
        rc = await(lat, number);
        if (rc == VIP_SUCCESS) {
            rc = perf_post(lat->end);
        }
        if (rc == VIP_SUCCESS) {
            check(lat, number);
            rc = give_back(lat);
        }
        if (rc == VIP_SUCCESS) {
            rc = perf_reap_sends(lat->end, 0);
        }
    }
    return rc;
}

/* What the last read should have fetched; spoils it, so that the next read has to fetch again. */
static void check_read(struct lat *lat, unsigned char *local, uint32_t slot)
{
    uint32_t size = lat->run->size;

    if (lat->run->verify) {
        lat->tally->wrong += tool_pattern_check(local, size, perf_slot_seed(slot)) != TOOL_ALL_RIGHT;
        tool_pattern_fill(local, size, 0);
    }
}

/* RDMA Reads, one at a time, each from post to completion; the server has nothing to do. */
static VIP_RETURN read_loop(struct lat *lat)
{
    struct perf_end *end = lat->end;
    VIP_RETURN rc = VIP_SUCCESS;

    for (uint64_t number = 1; number <= lat->run->count && rc == VIP_SUCCESS; number++) {
        unsigned char *local = perf_next_local(end);
        uint32_t slot = end->turn % end->peer.slots;
        uint64_t start = tool_now_ns();

        rc = perf_post(end);
        if (rc == VIP_SUCCESS) {
            rc = perf_reap_sends(end, 0);
        }
        perf_hist_add(lat->tally->hist, tool_now_ns() - start);
        check_read(lat, local, slot);
    }
    return rc;
}

VIP_RETURN perf_lat(struct perf_end *end, const struct perf_run *run, bool client, struct perf_tally *tally)
{
    struct lat lat = {end, run, tally, client, run->op == PERF_WRITE && !run->block, NULL};
    uint64_t start = tool_now_ns();
    VIP_RETURN rc;

    if (run->op == PERF_READ) {
        rc = client ? read_loop(&lat) : VIP_SUCCESS;
    } else if (!client) {
        rc = pong(&lat);
    } else {
        rc = run->verify ? ping_verified(&lat) : ping(&lat);
    }
    if (rc == VIP_SUCCESS) {
        rc = give_back(&lat);
    }
    tally->elapsed_ns = tool_now_ns() - start;
    return rc;
}
