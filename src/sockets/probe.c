/* SPDX-License-Identifier: MIT */
#include "sockets/probe.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/deadline.h"
#include "base/lock_rank.h"
#include "base/log.h"
#include "os/os.h"
#include "os/os_mutex.h"
#include "sockets/lease.h"
#include "vipl/posix.h"

enum {
    PLACES = 64,    /* that are remembered */
    LIMIT_MS = 500, /* of a probe */
    AGAIN_S = 10    /* for which an answer without a lease is remembered */
};
static const uint64_t ns_per_s = 1000000000;

/* Guarded by lock. */
struct known {
    struct sock_address place;
    const char *device; /* NULL: nothing is known, the row is free */
    bool is_probing;    /* a thread asks, and has a pointer to this row */
    bool has_answer;
    enum sock_reason answer;  /* SOCK_MOVED_TO_VIPL: while there is a lease */
    struct sock_lease *lease; /* perhaps one that the next probe ends first */
    uint64_t used_at;
    uint64_t again_at; /* of another answer: when the next connection asks again */
};

static struct vipl_mutex lock = VIPL_MUTEX_INIT(VIPL_RANK_SOCK_PROBE);
static struct known knowns[PLACES];

/* What a thread has been started for. */
struct question {
    struct known *known;
    struct sock_address place;
    const char *device;
    struct sock_lease *ended; /* a lease that is over; or NULL */
};

/* --- the thread ------------------------------------------------------------------------------ */

static void end_lease(struct sock_lease *lease)
{
    if (lease != NULL) {
        VIP_NIC_HANDLE nic = lease->nic;
        sock_lease_end(lease);
        VipCloseNic(nic);
    }
}

/* Finds the NIC address of the host, which its IP address is the name of. */
static VIP_RETURN find_host(VIP_NIC_HANDLE nic, const struct sock_address *place, union sock_lease_name *out)
{
    char text[SOCK_ADDRESS_BYTES];
    memset(out, 0, sizeof(*out));
    if (IN6_IS_ADDR_V4MAPPED(&place->host)) {
        inet_ntop(AF_INET, &place->host.s6_addr[12], text, sizeof(text));
    } else {
        inet_ntop(AF_INET6, &place->host, text, sizeof(text));
    }
    return VipNSGetHostByName(nic, text, &out->net, 0);
}

/* Returns the name by which this end requests. */
static void own_name(VIP_NIC_HANDLE nic, const char *host, uint16_t port, union sock_lease_name *out)
{
    VIP_NIC_ATTRIBUTES attributes;
    memset(out, 0, sizeof(*out));
    if (VipQueryNic(nic, &attributes) == VIP_SUCCESS) {
        out->net.HostAddressLen = attributes.NicAddressLen;
        memcpy(out->room + offsetof(VIP_NET_ADDRESS, HostAddress), attributes.LocalNicAddress,
               attributes.NicAddressLen);
    }
    sock_lease_name(out, host, port);
}

/* Requests the lease of a listener, by each of the names that it may have. */
static enum sock_reason request(struct sock_lease *lease, const struct question *question,
                                union sock_lease_name *remote)
{
    char host[SOCK_ADDRESS_BYTES];
    const char *names[SOCK_ADDRESS_NAMES];
    uint64_t deadline = vipl_deadline(LIMIT_MS);
    VIP_RETURN rc = VIP_NO_MATCH;
    sock_address_hosts(&question->place, host, names);
    for (unsigned i = 0; i < SOCK_ADDRESS_NAMES && rc == VIP_NO_MATCH; i++) {
        union sock_lease_name own;
        own_name(lease->nic, names[i], question->place.port, &own);
        sock_lease_name(remote, names[i], question->place.port);
        rc = VipxConnectRequest(lease->vi, &own.net, &remote->net, VIPX_AT_ONCE,
                                (VIP_ULONG)vipl_ms_left(deadline), NULL);
    }
    if (rc != VIP_SUCCESS && rc != VIP_NO_MATCH) {
        vipl_log(VIPL_LOG_REASON, "sockets: a probe of %s port %u over %s: %s", host,
                 (unsigned)question->place.port, question->device, VipxStrError(rc));
    }
    return rc == VIP_SUCCESS          ? SOCK_MOVED_TO_VIPL
           : rc == VIP_NO_MATCH       ? SOCK_NO_MARK
           : rc == VIP_REJECT         ? SOCK_NO_STREAM
           : rc == VIP_ERROR_RESOURCE ? SOCK_NO_STREAM
                                      : SOCK_NO_ANSWER;
}

/* The NIC handle starts no thread: the device needs none to keep a connection without messages. */
static enum sock_reason probe(const struct question *question, struct sock_lease **out)
{
    union sock_lease_name remote;
    VIP_NIC_HANDLE nic;
    enum sock_reason answer = SOCK_NO_ANSWER;
    VIP_RETURN rc = VipxOpenNic(question->device, VIPX_INLINE | VIPX_QUIET | VIPX_NO_LINGER, &nic);
    if (rc != VIP_SUCCESS) {
        vipl_log(VIPL_LOG_ERROR, "sockets: the device %s cannot be opened (%s): connections stay with TCP",
                 question->device, VipxStrError(rc));
        return SOCK_NO_DEVICE;
    }
    struct sock_lease *lease = NULL;
    if (find_host(nic, &question->place, &remote) == VIP_SUCCESS) {
        lease = sock_lease_new(nic, NULL);
        answer = lease == NULL ? SOCK_NO_STREAM : request(lease, question, &remote);
    }
    if (answer == SOCK_MOVED_TO_VIPL) {
        *out = lease;
        return answer;
    }
    if (lease != NULL) {
        sock_lease_end(lease);
    }
    VipCloseNic(nic);
    return answer;
}

static void run_probe(void *arg)
{
    struct question *question = arg;
    struct sock_lease *lease = NULL;
    end_lease(question->ended);
    enum sock_reason answer = probe(question, &lease);
    vipl_mutex_lock(&lock);
    struct known *known = question->known;
    known->is_probing = false;
    known->has_answer = true;
    known->answer = answer;
    known->lease = lease;
    known->again_at = vipl_now_ns() + AGAIN_S * ns_per_s;
    vipl_mutex_unlock(&lock);
    vipl_free(question);
}

/* --- what is known --------------------------------------------------------------------------- */

/* Has a thread ask. Without one, the answer is that there is no memory. */
static void begin_locked(struct known *known)
{
    struct vipl_thread thread;
    struct question *question = vipl_zalloc(sizeof(*question));
    if (question != NULL) {
        *question = (struct question){known, known->place, known->device, known->lease};
        known->is_probing = vipl_thread_start(&thread, run_probe, question) == 0;
    }
    if (known->is_probing) {
        known->lease = NULL;
        vipl_thread_detach(&thread);
        return;
    }
    vipl_free(question);
    known->has_answer = true;
    known->answer = SOCK_NO_STREAM;
    known->again_at = vipl_now_ns() + AGAIN_S * ns_per_s;
}

/* Returns the row of a place: a new one, if need be the one that was not used for the longest time.
 * NULL: all are being asked for. */
static struct known *find_locked(const struct sock_address *place, const char *device)
{
    struct known *oldest = NULL;
    for (unsigned i = 0; i < PLACES; i++) {
        struct known *known = &knowns[i];
        if (known->device != NULL && strcmp(known->device, device) == 0 && known->place.port == place->port &&
            IN6_ARE_ADDR_EQUAL(&known->place.host, &place->host)) {
            return known;
        }
        if (!known->is_probing && (oldest == NULL || known->used_at < oldest->used_at)) {
            oldest = known;
        }
    }
    if (oldest != NULL) {
        struct sock_lease *lease = oldest->lease; /* begin_locked() has it ended */
        *oldest = (struct known){.place = *place, .device = device, .lease = lease};
    }
    return oldest;
}

bool sock_probe_ask(const struct sock_address *place, const char *device, enum sock_reason *answer)
{
    vipl_mutex_lock(&lock);
    struct known *known = find_locked(place, device);
    if (known == NULL) {
        vipl_mutex_unlock(&lock);
        *answer = SOCK_NO_STREAM;
        return true;
    }
    known->used_at = vipl_now_ns();
    bool is_lost = known->has_answer && known->lease != NULL && sock_lease_is_over(known->lease);
    if (is_lost) {
        known->has_answer = false; /* another program may listen there now */
    }
    bool is_old =
        known->has_answer && known->answer != SOCK_MOVED_TO_VIPL && known->used_at > known->again_at;
    if (!known->is_probing && (!known->has_answer || is_old)) {
        begin_locked(known);
    }
    bool is_known = known->has_answer;
    *answer = known->answer;
    vipl_mutex_unlock(&lock);
    return is_known;
}

void sock_probe_doubt(const struct sock_address *place, const char *device)
{
    vipl_mutex_lock(&lock);
    struct known *known = find_locked(place, device);
    if (known != NULL && !known->is_probing) {
        known->has_answer = true;
        known->answer = SOCK_NOT_CONNECTED;
        known->again_at = vipl_now_ns() + AGAIN_S * ns_per_s;
    }
    vipl_mutex_unlock(&lock);
}

void sock_probes_forked(void)
{
    vipl_mutex_init(&lock, VIPL_RANK_SOCK_PROBE);
    memset(knowns, 0, sizeof(knowns)); /* the leases are the parent's */
}
