/* SPDX-License-Identifier: MIT */
/*
 * vipl-ping's client: connects, sends, judges the echoes, reports; and the self-test, which
 * corrupts a byte on purpose to prove that the judging works.
 */
#include "ping.h"

#include <string.h>

#include "tool_os.h"
#include "tool_pattern.h"
#include "tool_text.h"

struct ping_result {
    uint64_t sent;
    uint64_t intact;
    uint64_t lost;
    uint64_t corrupt;
    uint64_t min_ns;
    uint64_t max_ns;
    uint64_t total_ns;
};

/* What can be wrong with an echo. */
enum { WRONG_AT_SERVER = 1, WRONG_BYTES = 2, WRONG_GUARD = 4 };

/* What one exchange came to. */
enum outcome { OUTCOME_INTACT, OUTCOME_LOST, OUTCOME_CORRUPT, OUTCOME_BROKEN };

static bool connect_client(const struct ping_options *options, struct ping_end *end)
{
    VIP_VI_ATTRIBUTES attributes = {options->level, end->size, NULL, NULL, VIP_FALSE, VIP_FALSE};
    VIP_VI_ATTRIBUTES remote_attributes;
    struct tool_address local;
    struct tool_address remote;
    VIP_RETURN rc;

    if (!tool_address_find(end->nic, options->host, options->discriminator, &remote) ||
        !tool_address_local(end->nic, "ping", 4, &local) || !ping_end_create(end, &attributes)) {
        return false;
    }
    rc = VipConnectRequest(end->vi, &local.u.net, &remote.u.net, end->timeout_ms, &remote_attributes);
    if (rc != VIP_SUCCESS) {
        tool_complain_connect(&remote, rc);
        return false;
    }
    return true;
}

/* What is wrong with the echo in `desc`: WRONG_... bits. */
static unsigned judge(struct ping_end *end, const VIP_DESCRIPTOR *desc, uint32_t seed)
{
    const unsigned char *in = ping_received(desc);
    unsigned wrong = 0;

    if (desc->CS.ImmediateData != seed) {
        wrong |= WRONG_AT_SERVER;
    }
    if (desc->CS.Length != end->size || tool_pattern_check(in, end->size, seed) != TOOL_ALL_RIGHT) {
        wrong |= WRONG_BYTES;
    }
    if (!tool_guarded_intact(in, end->size)) {
        wrong |= WRONG_GUARD;
    }
    return wrong;
}

static void complain_wrong(struct ping_end *end, const VIP_DESCRIPTOR *desc, uint32_t seed, unsigned wrong)
{
    size_t first = tool_pattern_check(ping_received(desc), end->size, seed);

    if (wrong & WRONG_AT_SERVER) {
        tool_complain("message %u was wrong when the server got it", seed);
    }
    if (wrong & WRONG_BYTES) {
        tool_complain("echo %u: %u bytes came, the first wrong one is number %lld", seed, desc->CS.Length,
                      first != TOOL_ALL_RIGHT ? (long long)first : -1);
    }
    if (wrong & WRONG_GUARD) {
        tool_complain("echo %u: bytes outside the buffer were written", seed);
    }
}

/* An old echo, late on an unreliable VI, is neither of this seed nor of its complement. */
static bool is_late(const VIP_DESCRIPTOR *desc, uint32_t seed)
{
    return desc->CS.ImmediateData != seed && desc->CS.ImmediateData != ~seed;
}

/* Wait for this message's own echo; echoes of earlier ones are put back. */
static VIP_RETURN await_echo(struct ping_end *end, uint32_t seed, VIP_DESCRIPTOR **desc)
{
    VIP_RETURN rc = ping_wait(end, true, end->timeout_ms, desc);

    while (rc == VIP_SUCCESS && is_late(*desc, seed)) {
        rc = ping_repost(end, *desc);
        if (rc == VIP_SUCCESS) {
            rc = ping_wait(end, true, end->timeout_ms, desc);
        }
    }
    return rc;
}

/* Send what lies in the send buffer and judge the echo; *wrong says what a corrupt one suffers
 * from. */
static enum outcome exchange(struct ping_end *end, uint32_t seed, bool quiet, unsigned *wrong)
{
    VIP_DESCRIPTOR *desc = NULL;
    VIP_RETURN rc = ping_send(end, end->size, seed);

    if (rc == VIP_SUCCESS) {
        rc = await_echo(end, seed, &desc);
    }
    if (rc == VIP_TIMEOUT) {
        return OUTCOME_LOST;
    }
    if (rc != VIP_SUCCESS) {
        if (rc != VIP_INTERRUPTED) {
            tool_complain_rc("the connection broke", rc);
        }
        return OUTCOME_BROKEN;
    }
    *wrong = judge(end, desc, seed);
    if (!quiet) {
        complain_wrong(end, desc, seed, *wrong);
    }
    if (ping_repost(end, desc) != VIP_SUCCESS) {
        return OUTCOME_BROKEN;
    }
    return *wrong == 0 ? OUTCOME_INTACT : OUTCOME_CORRUPT;
}

static void count_intact(struct ping_result *result, uint64_t took)
{
    result->intact++;
    result->total_ns += took;
    result->min_ns = result->intact == 1 || took < result->min_ns ? took : result->min_ns;
    result->max_ns = took > result->max_ns ? took : result->max_ns;
}

/* One numbered message. Returns false when there is no point in going on. */
static bool ping_once(const struct ping_options *options, struct ping_end *end, uint32_t number,
                      struct ping_result *result)
{
    unsigned wrong;
    uint64_t start;
    uint64_t took;
    enum outcome outcome;
    char text[32];

    tool_pattern_fill(end->out, end->size, number);
    start = tool_now_ns();
    outcome = exchange(end, number, false, &wrong);
    took = tool_now_ns() - start;
    result->sent++;
    result->lost += outcome == OUTCOME_LOST || outcome == OUTCOME_BROKEN;
    result->corrupt += outcome == OUTCOME_CORRUPT;
    if (outcome == OUTCOME_INTACT) {
        count_intact(result, took);
    }
    if (outcome == OUTCOME_INTACT && !options->quiet) {
        printf("%u bytes, message %u, %s us\n", end->size, number,
               tool_number_text((double)took / 1e3, 1, text, sizeof(text)));
        fflush(stdout);
    }
    if (outcome == OUTCOME_LOST) {
        tool_complain("message %u: no echo in %u ms", number, end->timeout_ms);
    }
    return outcome != OUTCOME_BROKEN && (outcome != OUTCOME_LOST || options->level == VIP_SERVICE_UNRELIABLE);
}

static void ping(const struct ping_options *options, struct ping_end *end, struct ping_result *result)
{
    for (uint64_t i = 1; i <= options->count && !tool_stop; i++) {
        if (!ping_once(options, end, (uint32_t)i & 0x7fffffffu, result)) {
            return;
        }
    }
}

/*
 * Corrupt a byte of the first message: both ends must see it. Corrupt a guard byte of the buffer
 * that takes the second echo: the client must. The third message is left alone and must be right.
 */
static int selftest(struct ping_end *end)
{
    unsigned byte_wrong = 0;
    unsigned guard_wrong = 0;
    unsigned wrong = 0;

    tool_pattern_fill(end->out, end->size, 1);
    end->out[end->size / 2] ^= 0x10;
    exchange(end, 1, true, &byte_wrong);

    tool_pattern_fill(end->out, end->size, 2);
    ping_received(&end->receives[1])[end->size] ^= 0x10;
    exchange(end, 2, true, &guard_wrong);

    tool_pattern_fill(end->out, end->size, 3);
    if (byte_wrong != (WRONG_AT_SERVER | WRONG_BYTES) || guard_wrong != WRONG_GUARD) {
        tool_complain("self-test: corruption was not noticed (%u, %u)", byte_wrong, guard_wrong);
        return TOOL_FAILED;
    }
    if (exchange(end, 3, false, &wrong) != OUTCOME_INTACT) {
        tool_complain("self-test: the untouched message did not come back");
        return TOOL_FAILED;
    }
    puts("self-test: a corrupted byte and a corrupted guard byte were noticed");
    return TOOL_OK;
}

static double mean_us(const struct ping_result *result)
{
    return result->intact > 0 ? (double)result->total_ns / 1e3 / (double)result->intact : 0;
}

static void report_json(const struct ping_options *options, const struct ping_end *end,
                        const struct ping_result *result)
{
    printf("{\"schema\": 1, \"tool\": \"vipl-ping\", \"device\": ");
    tool_json_string(stdout, tool_device_name(end->nic).text);
    printf(", \"size_bytes\": %llu, \"reliability\": \"%s\", "
           "\"sent\": %llu, \"intact\": %llu, \"lost\": %llu, \"corrupt\": %llu",
           (unsigned long long)options->size, tool_level_text(options->level),
           (unsigned long long)result->sent, (unsigned long long)result->intact,
           (unsigned long long)result->lost, (unsigned long long)result->corrupt);
    printf(", \"round_trip_min_us\": ");
    tool_json_number(stdout, (double)result->min_ns / 1e3, 3);
    printf(", \"round_trip_mean_us\": ");
    tool_json_number(stdout, mean_us(result), 3);
    printf(", \"round_trip_max_us\": ");
    tool_json_number(stdout, (double)result->max_ns / 1e3, 3);
    puts("}");
}

static void report(const struct ping_result *result)
{
    char least[32];
    char mean[32];
    char most[32];

    printf("%llu sent, %llu intact, %llu lost, %llu corrupt; round trip min/mean/max %s/%s/%s us\n",
           (unsigned long long)result->sent, (unsigned long long)result->intact,
           (unsigned long long)result->lost, (unsigned long long)result->corrupt,
           tool_number_text((double)result->min_ns / 1e3, 1, least, sizeof(least)),
           tool_number_text(mean_us(result), 1, mean, sizeof(mean)),
           tool_number_text((double)result->max_ns / 1e3, 1, most, sizeof(most)));
}

static int ping_and_report(const struct ping_options *options, struct ping_end *end)
{
    struct ping_result result = {0};

    ping(options, end, &result);
    if (options->json) {
        report_json(options, end, &result);
    } else {
        report(&result);
    }
    if (tool_stop) {
        return TOOL_INTERRUPTED;
    }
    return result.intact == options->count ? TOOL_OK : TOOL_FAILED;
}

int ping_run_client(const struct ping_options *options)
{
    struct ping_end end = {.size = (uint32_t)options->size, .timeout_ms = (uint32_t)options->timeout_ms};
    int code = TOOL_FAILED;

    if (!tool_open(options->device, &end.nic)) {
        return TOOL_FAILED;
    }
    if (connect_client(options, &end)) {
        code = options->selftest ? selftest(&end) : ping_and_report(options, &end);
    } else if (tool_stop) {
        code = TOOL_INTERRUPTED;
    }
    ping_end_destroy(&end);
    VipCloseNic(end.nic);
    return code;
}
