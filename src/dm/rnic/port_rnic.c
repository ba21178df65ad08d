/* SPDX-License-Identifier: MIT */
/*
 * Cards as ports, `rnic:DEVICE`: raw queue pairs of a function of the RDMA card, by the card's own
 * driver. The card reads packets from their memory and stores them into their slots.
 *
 * A sender's queue pair has no receives, and a capture's sends nothing. Where the wire has no room,
 * entries wait in the card, and then their queue is full: nothing is lost on the way out.
 */
#include "dm/rnic/port_rnic.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/config_check.h"
#include "dm/reason.h"
#include "dm/rnic/launch.h"
#include "os/os.h"
#include "rnic/registers.h"

enum {
    ETHERNET_BYTES = 14, /* of a frame's head */
    VLAN_TAG_BYTES = 4,
    MAX_FRAME = 16384,     /* room for the longest frame of any card */
    CLOSE_NS = 1000000000, /* that a port waits for packets to leave, from one to the next */
    /* Between two looks for the end of a packet that may have left: a part of the time that is not
     * known, within limits. */
    LISTEN_PART = 64,
    LISTEN_NS = 20000,
    MAX_LISTEN_NS = 1000000
};

/* A packet on its way. */
struct sending {
    uint64_t launch;
    uint32_t bytes;
};

struct rnic_port {
    struct dm_port base;
    struct dm_rnic_card card;
    uint64_t missed; /* so far */
    /* sending */
    struct dm_clock horizon;
    struct dm_launch launch;
    struct dm_sent sent;
    uint64_t newest; /* launch time that has been posted */
    /* receiving */
    struct vipl_rnic_mr spare; /* where the ends of frames go that are longer than their slots */
    uint64_t day;              /* the time of day less the card's */
    bool has_day;
    uint8_t unread[MAX_FRAME];
    union {
        struct sending packets[DM_RNIC_POSTED];
        uint32_t rooms[DM_RNIC_POSTED]; /* of slots */
    } entry;
};

static struct rnic_port *port_of(struct dm_port *base)
{
    return (struct rnic_port *)base;
}

struct dm_rnic_card *dm_rnic_card_of(struct dm_port *port)
{
    return port != NULL && port->kind == &dm_port_rnic ? &port_of(port)->card : NULL;
}

static uint64_t host_now(const struct rnic_port *port)
{
    return port->card.host->now(port->card.host->context);
}

/* --- what has left ---------------------------------------------------------------------------- */

static void take_sent(struct rnic_port *port, const struct vipl_rnic_completion *completion, uint64_t place)
{
    const struct sending *packet = &port->entry.packets[place % DM_RNIC_POSTED];

    if (completion->status == RNIC_STATUS_OK) {
        dm_launch_left(&port->launch, completion->time, packet->launch, host_now(port));
    } else if (completion->status == RNIC_STATUS_LOCAL_FORMAT) { /* its type is EFE's, or it is too long */
        port->sent.refused++;
        port->sent.refused_bytes += packet->bytes;
        dm_launch_left(&port->launch, completion->time, 0, host_now(port));
    } else {
        port->card.error = EIO;
    }
}

static void look(struct rnic_port *port)
{
    struct vipl_rnic_completion taken[DM_BATCH];
    uint64_t first = port->card.done;
    unsigned count = dm_rnic_card_take(&port->card, taken, DM_BATCH);

    for (unsigned i = 0; i < count; i++) {
        take_sent(port, &taken[i], first + i);
    }
}

static bool is_idle(const struct rnic_port *port)
{
    return port->card.done == port->card.posted || port->card.error != 0;
}

/* --- the horizon ------------------------------------------------------------------------------ */

static uint64_t horizon_now(void *context)
{
    struct rnic_port *port = context;

    if (!is_idle(port)) {
        look(port);
    }
    return dm_launch_horizon(&port->launch, host_now(port));
}

static void host_wait(const struct rnic_port *port, uint64_t nanoseconds)
{
    port->card.host->wait_until(port->card.host->context, host_now(port) + nanoseconds);
}

/* Until the oldest packet may leave that is on its way. From then on its end is listened for: the
 * sooner it is heard, the better is it known what time the card has; and a card in this process has
 * to be run. */
static uint64_t until_next(const struct rnic_port *port, uint64_t host)
{
    uint64_t next = port->entry.packets[port->card.done % DM_RNIC_POSTED].launch;
    uint64_t card = dm_launch_latest(&port->launch, host);
    uint64_t between = (card - dm_launch_now(&port->launch, host)) / LISTEN_PART;

    if (next > card) {
        return next - card;
    }
    return between < LISTEN_NS ? LISTEN_NS : between < MAX_LISTEN_NS ? between : MAX_LISTEN_NS;
}

static void horizon_wait(void *context, uint64_t time)
{
    struct rnic_port *port = context;
    uint64_t host = host_now(port);
    uint64_t horizon = dm_launch_horizon(&port->launch, host);
    uint64_t most = time > horizon ? time - horizon : 0;

    if (!is_idle(port)) {
        uint64_t next = until_next(port, host);
        most = next < most ? next : most;
    }
    host_wait(port, dm_launch_wait(most));
}

/* --- opening and closing ---------------------------------------------------------------------- */

static void describe(struct rnic_port *port, const char *name, enum dm_port_direction direction)
{
    const struct vipl_rnic_caps *caps = vipl_rnic_query(port->card.rnic);
    const uint8_t *mac = caps->mac;

    port->base.longest = caps->mtu + ETHERNET_BYTES + VLAN_TAG_BYTES;
    port->base.clock = "the card's, set to CLOCK_REALTIME when its first packets were taken";
    snprintf(port->base.name, sizeof(port->base.name), "rnic:%.58s", name);
    snprintf(port->base.text, sizeof(port->base.text),
             "rnic:%.40s (raw queue pair of function %u, card %02x:%02x:%02x:%02x:%02x:%02x; %s)", name,
             (unsigned)caps->function, mac[0], mac[1], mac[2], mac[3], mac[4], mac[5],
             direction == DM_SEND ? "launch times by the card's clock" : "stores into the slots");
}

/* The function has been reset: frames of its last user do not count. */
static int start_port(struct rnic_port *port, enum dm_port_direction direction, struct vipl_dm_reason *reason)
{
    struct dm_rnic_card *card = &port->card;

    port->missed = vipl_rnic_raw_missed(card->rnic);
    if (port->base.longest > MAX_FRAME) {
        return dm_fail(reason, ENOTSUP, "the card has frames of %u bytes", (unsigned)port->base.longest);
    }
    if (direction == DM_RECEIVE) {
        return dm_rnic_card_register(card, port->unread, sizeof(port->unread), &port->spare, reason);
    }
    port->horizon = (struct dm_clock){horizon_now, horizon_wait, port};
    port->base.launch_clock = &port->horizon;
    return dm_rnic_card_begin(card, reason);
}

int dm_rnic_port_open(struct vipl_rnic *rnic, const char *name, enum dm_port_direction direction,
                      const struct dm_clock *host, struct dm_port **out, struct vipl_dm_reason *reason)
{
    struct rnic_port *port = vipl_zalloc(sizeof(*port));
    unsigned queue = direction == DM_SEND ? VIPL_RNIC_SQ : VIPL_RNIC_RQ;
    int error;

    if (port == NULL) {
        vipl_rnic_close(rnic);
        return dm_fail(reason, ENOMEM, "port \"rnic:%.60s\": no memory", name);
    }
    port->base.kind = &dm_port_rnic;
    error = dm_rnic_card_open(&port->card, rnic, host, queue, reason);
    if (error != 0) {
        vipl_free(port);
        return error;
    }
    describe(port, name, direction);
    error = start_port(port, direction, reason);
    if (error != 0) {
        dm_port_close(&port->base);
        return error;
    }
    *out = &port->base;
    return 0;
}

static int rnic_open(const char *argument, enum dm_port_direction direction, struct dm_port **port,
                     struct vipl_dm_reason *reason)
{
    struct vipl_rnic *rnic = NULL;
    int error;

    vipl_config_begin(); /* the driver's settings; what is wrong with them is said */
    error = vipl_rnic_open(argument, &rnic);
    vipl_config_end();
    if (error != 0) {
        return dm_fail(reason, error, "port \"rnic:%.60s\": %s", argument,
                       error == ENODEV ? "there is no such card" : strerror(error));
    }
    return dm_rnic_port_open(rnic, argument, direction, &dm_clock_system, port, reason);
}

/* What has been taken leaves, if the card lets it. */
static void let_leave(struct rnic_port *port)
{
    uint64_t now = host_now(port);
    uint64_t card = dm_launch_now(&port->launch, now);
    uint64_t end = now + (port->newest > card ? port->newest - card : 0) + CLOSE_NS;
    uint64_t done = port->card.done;

    while (!is_idle(port) && host_now(port) < end) {
        look(port);
        if (port->card.done != done) {
            done = port->card.done;
            end = host_now(port) + CLOSE_NS > end ? host_now(port) + CLOSE_NS : end;
        } else {
            host_wait(port, LISTEN_NS);
        }
    }
}

static void rnic_close(struct dm_port *base)
{
    struct rnic_port *port = port_of(base);

    if (port->base.launch_clock != NULL) {
        let_leave(port);
    }
    dm_rnic_card_close(&port->card);
    vipl_free(port);
}

/* Memory of another function of the bus is reached from the bus only; the card's own by itself. */
static int check_reach(const char *access, const struct dm_memory *memory, struct vipl_dm_reason *reason)
{
    if (memory->is_physical && strcmp(access, "sysfs") != 0) {
        return dm_fail(reason, ENOTSUP,
                       "memory \"%s\" has physical addresses alone: only a card behind no IOMMU reaches it "
                       "(rnic:pci:ADDRESS)",
                       memory->text);
    }
    if (memory->on_bus != NULL && memory->kind != &dm_memory_rnic && strcmp(access, "vfio") != 0) {
        return dm_fail(reason, ENOTSUP,
                       "memory \"%s\" is on the PCI bus, where only a card behind an IOMMU reaches it "
                       "(rnic:pci:ADDRESS)",
                       memory->text);
    }
    return 0;
}

static int rnic_attach(struct dm_port *base, struct dm_memory *memory, struct vipl_dm_reason *reason)
{
    struct dm_rnic_card *card = &port_of(base)->card;
    int error = check_reach(vipl_rnic_access(card->rnic)->ops->name, memory, reason);

    if (error != 0) {
        return error;
    }
    error = dm_rnic_card_register(card, memory->base, memory->bytes, &card->memory, reason);
    return error != EFAULT
               ? error
               : dm_fail(reason, ENOTSUP, "memory \"%s\": the card does not reach it", memory->text);
}

/* --- sending ---------------------------------------------------------------------------------- */

static bool post_packet(struct rnic_port *port, const struct dm_packet *packet)
{
    struct vipl_rnic_segment segment = {(uintptr_t)packet->at, packet->bytes, port->card.memory.stag};
    struct vipl_rnic_work work = {.opcode = RNIC_WORK_SEND, .segments = 1, .segment = &segment};
    uint64_t place = port->card.posted % DM_RNIC_POSTED;

    if (packet->launch != 0) {
        work.remote_address = dm_launch_time(&port->launch, packet->launch);
    }
    if (!dm_rnic_card_post(&port->card, &work)) {
        return false;
    }
    port->entry.packets[place] = (struct sending){packet->launch, packet->bytes};
    port->newest = packet->launch > port->newest ? packet->launch : port->newest;
    return true;
}

static enum dm_send_end send_one(struct rnic_port *port, const struct dm_packet *packet)
{
    if (packet->bytes < ETHERNET_BYTES || packet->bytes > port->base.longest) {
        return DM_SEND_REFUSED;
    }
    if (!post_packet(port, packet)) {
        look(port); /* there may be room now */
        return DM_SEND_FULL;
    }
    return DM_SEND_ALL;
}

static unsigned rnic_send(struct dm_port *base, const struct dm_packet *packets, unsigned count,
                          enum dm_send_end *end)
{
    struct rnic_port *port = port_of(base);
    unsigned taken = 0;

    *end = DM_SEND_ALL;
    while (taken < count && *end == DM_SEND_ALL) {
        *end = send_one(port, &packets[taken]);
        taken += *end == DM_SEND_ALL ? 1 : 0;
    }
    if (port->card.error != 0) {
        errno = port->card.error;
        *end = DM_SEND_FAILED;
    }
    return taken;
}

static uint64_t rnic_completed(struct dm_port *base)
{
    struct rnic_port *port = port_of(base);

    if (!is_idle(port)) {
        look(port);
    }
    return port->card.done;
}

static void rnic_sent(struct dm_port *base, struct dm_sent *out)
{
    struct rnic_port *port = port_of(base);

    *out = port->sent;
    out->last = port->launch.last;
    out->late_ns = port->launch.late;
    out->error = port->card.error;
}

/* --- receiving -------------------------------------------------------------------------------- */

static int rnic_begin(struct dm_port *base, struct vipl_dm_reason *reason)
{
    return dm_rnic_card_begin(&port_of(base)->card, reason);
}

/* The whole frame is stored, so that its length is known: what the slot has no room for goes to
 * memory that nobody reads. */
static bool rnic_post(struct dm_port *base, uint8_t *at, uint32_t room)
{
    struct rnic_port *port = port_of(base);
    struct vipl_rnic_segment segments[2] = {{(uintptr_t)at, room, port->card.memory.stag},
                                            {(uintptr_t)port->unread, 0, port->spare.stag}};
    struct vipl_rnic_work work = {.opcode = RNIC_WORK_RECEIVE, .segments = 1, .segment = segments};
    uint64_t place = port->card.posted % DM_RNIC_POSTED;

    if (room < port->base.longest) {
        segments[1].length = port->base.longest - room;
        work.segments = 2;
    }
    if (!dm_rnic_card_post(&port->card, &work)) {
        return false;
    }
    port->entry.rooms[place] = room;
    return true;
}

static bool take_arrived(struct rnic_port *port, const struct vipl_rnic_completion *completion,
                         uint64_t place, struct dm_arrival *arrival)
{
    uint32_t room = port->entry.rooms[place % DM_RNIC_POSTED];

    if (completion->status != RNIC_STATUS_OK || completion->length > port->base.longest) {
        port->card.error = EIO;
        return false;
    }
    arrival->time = completion->time + port->day;
    arrival->original = completion->length;
    arrival->bytes = completion->length < room ? completion->length : room;
    return true;
}

static int rnic_receive(struct dm_port *base, struct dm_arrival *arrivals, unsigned room)
{
    struct rnic_port *port = port_of(base);
    struct vipl_rnic_completion taken[DM_BATCH];
    uint64_t first = port->card.done;
    unsigned count = dm_rnic_card_take(&port->card, taken, room < DM_BATCH ? room : DM_BATCH);

    if (count > 0 && !port->has_day) { /* the last one is the newest news */
        port->has_day = true;
        port->day = dm_clock_day() - taken[count - 1].time;
    }
    for (unsigned i = 0; i < count; i++) {
        if (!take_arrived(port, &taken[i], first + i, &arrivals[i])) {
            count = i;
        }
    }
    return count == 0 && port->card.error != 0 ? -port->card.error : (int)count;
}

static uint64_t rnic_dropped(struct dm_port *base)
{
    struct rnic_port *port = port_of(base);
    uint64_t missed = vipl_rnic_raw_missed(port->card.rnic);
    uint64_t more = missed - port->missed;

    if (missed == UINT64_MAX) {
        return 0; /* the card is gone */
    }
    port->missed = missed;
    return more;
}

/* --- both ------------------------------------------------------------------------------------- */

static void rnic_wait(struct dm_port *base, uint64_t nanoseconds)
{
    struct rnic_port *port = port_of(base);

    if (port->base.launch_clock != NULL) {
        host_wait(port, nanoseconds);
    } else {
        dm_rnic_card_wait(&port->card, nanoseconds);
    }
}

static void rnic_halt(struct dm_port *base)
{
    dm_rnic_card_halt(&port_of(base)->card);
}

const struct dm_port_kind dm_port_rnic = {
    .name = "rnic",
    .open = rnic_open,
    .close = rnic_close,
    .attach = rnic_attach,
    .begin = rnic_begin,
    .send = rnic_send,
    .completed = rnic_completed,
    .sent = rnic_sent,
    .post = rnic_post,
    .receive = rnic_receive,
    .dropped = rnic_dropped,
    .wait = rnic_wait,
    .halt = rnic_halt,
};
