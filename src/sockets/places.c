/* SPDX-License-Identifier: MIT */
#include "sockets/places.h"

#include <string.h>

#include "base/hash.h"
#include "base/lock_rank.h"
#include "os/os.h"
#include "os/os_mutex.h"

enum {
    PLACES = 64,         /* that are remembered: each in the row that its hash says */
    WORTH_MESSAGES = 64, /* of the program, both ways, that make up for a move */
    LOSSES_AT_ONCE = 16, /* that a place may have */
    LOSS_MS = 200,       /* after which it may have another one */
    PLAIN_US = 1000      /* for which a place is remembered as one without a VIPL program */
};
static const uint64_t loss_ns = LOSS_MS * (uint64_t)1000000;

/* Guarded by lock. */
struct known {
    struct sock_address place;
    uint64_t plain_until;
    /* When the last of the place's losses is forgotten, which are so LOSS_MS after each other. */
    uint64_t losses_until;
};

static struct vipl_mutex lock = VIPL_MUTEX_INIT(VIPL_RANK_SOCK_PLACES);
static struct known knowns[PLACES];

static struct known *row_of(const struct sock_address *place)
{
    uint64_t hash = vipl_hash(VIPL_HASH_OF_NOTHING, &place->host, sizeof(place->host));
    return &knowns[vipl_hash(hash, &place->port, sizeof(place->port)) % PLACES];
}

static bool is_of(const struct known *known, const struct sock_address *place)
{
    return known->place.port == place->port && IN6_ARE_ADDR_EQUAL(&known->place.host, &place->host);
}

/* Returns the row of a place, without what was remembered of another one. */
static struct known *own_row(const struct sock_address *place)
{
    struct known *known = row_of(place);
    if (!is_of(known, place)) {
        *known = (struct known){.place = *place};
    }
    return known;
}

bool sock_place_was_plain(const struct sock_address *place, uint64_t now)
{
    const struct known *known = row_of(place);
    vipl_mutex_lock(&lock);
    bool was = is_of(known, place) && now < known->plain_until;
    vipl_mutex_unlock(&lock);
    return was;
}

void sock_place_is_plain(const struct sock_address *place, uint64_t now)
{
    vipl_mutex_lock(&lock);
    own_row(place)->plain_until = now + PLAIN_US * (uint64_t)1000;
    vipl_mutex_unlock(&lock);
}

bool sock_place_is_for_short(const struct sock_address *place, uint64_t now)
{
    const struct known *known = row_of(place);
    vipl_mutex_lock(&lock);
    bool is = is_of(known, place) && known->losses_until > now + LOSSES_AT_ONCE * loss_ns;
    vipl_mutex_unlock(&lock);
    return is;
}

void sock_place_has_ended(const struct sock_address *place, uint64_t messages, uint64_t now)
{
    vipl_mutex_lock(&lock);
    struct known *known = own_row(place);
    if (messages >= WORTH_MESSAGES) {
        known->losses_until = 0;
    } else {
        /* Connections that were moved at once may all be losses: at most twice those that a place
         * may have are remembered. */
        uint64_t most = now + 2 * LOSSES_AT_ONCE * loss_ns;
        uint64_t until = (known->losses_until > now ? known->losses_until : now) + loss_ns;
        known->losses_until = until < most ? until : most;
    }
    vipl_mutex_unlock(&lock);
}

void sock_places_forked(void)
{
    vipl_mutex_init(&lock, VIPL_RANK_SOCK_PLACES);
}
