/* SPDX-License-Identifier: MIT */
/*
 * A bad wire: decides at random, by a seed, what happens to each frame. The switch holds the
 * frames. Pure and deterministic, in the model's time.
 */
#ifndef DEVICES_RNIC_EFE_IMPAIR_H
#define DEVICES_RNIC_EFE_IMPAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Probabilities are in parts per thousand million. All zero but `queue`: a perfect wire. */
struct rnic_impair_config {
    uint64_t seed;
    uint32_t loss;
    uint32_t reorder;   /* held back for up to 100 us more than the others, which overtake it */
    uint32_t duplicate; /* comes twice */
    uint32_t corrupt;   /* one to seven of its bits are flipped */
    uint64_t delay_ns;
    uint64_t jitter_ns; /* the delay is at most so much longer or shorter, evenly */
    uint64_t rate;      /* bits in a second; 0: any number */
    /* bytes that wait for the rate; a frame that exceeds them is lost, unless it is alone */
    uint32_t queue;
};

/*
 * The words of a text such as
 * "seed=7,loss=0.05,delay=100us,jitter=20us,reorder=0.05,duplicate=0.01,corrupt=0.01,rate=1G,queue=100K".
 * Keys may be left out; none may come twice. Probabilities are decimal fractions of 0 to 1; times
 * end in ns, us, ms or s and are at most 10 s; rates are bits in a second, 1K to 1T, queues bytes,
 * 1 to 1G, and 1M unless given; both end in K, M, G, T or in nothing. An empty text is a perfect
 * wire. False: `error` has why, in one line, and *out is as it was.
 */
bool rnic_impair_parse(const char *text, struct rnic_impair_config *out, char *error, size_t error_bytes);
/* Whether frames pass as if there was none. */
bool rnic_impair_is_perfect(const struct rnic_impair_config *config);

/* The state of the wire. */
struct rnic_impair {
    struct rnic_impair_config config;
    uint64_t random;
    uint64_t busy_until; /* by the rate */
};

/* What becomes of a frame: it comes `copies` times, at these times. */
struct rnic_fate {
    unsigned copies;   /* 0 to 2 */
    bool overflow;     /* lost because too much waits for the rate; copies is 0 */
    uint64_t due[2];   /* never before now */
    bool corrupted[2]; /* rnic_impair_corrupt() is to be called for that copy, in this order */
};

void rnic_impair_init(struct rnic_impair *impair, const struct rnic_impair_config *config);
void rnic_impair_decide(struct rnic_impair *impair, uint64_t now, uint32_t bytes, struct rnic_fate *out);
/* Returns from when on rnic_impair_decide() lets a frame wait for the rate: 0: there is no rate. */
uint64_t rnic_impair_room(const struct rnic_impair *impair, uint32_t bytes);
void rnic_impair_corrupt(struct rnic_impair *impair, uint8_t *frame, uint32_t bytes);

#endif
