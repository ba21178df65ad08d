/* SPDX-License-Identifier: MIT */
/*
 * Drivers of DPDK as ports, `dpdk:NAME`: one queue of a PCI function, which is named by its address
 * and which the kernel's vfio-pci has, or of a virtual device (`net_af_packet0,iface=eth0`). The
 * driver is asked again and again; a wait is a short sleep.
 *
 * A driver stores whole packets into slots that have room for the largest one: buffers of e1000 are
 * powers of two, and a packet that needs two buffers would be in two slots.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_memory.h>

#include "dm/clock.h"
#include "dm/dpdk/eal.h"
#include "dm/dpdk/sending.h"
#include "dm/dpdk/slots.h"
#include "dm/memory.h"
#include "dm/plugin.h"
#include "dm/reason.h"
#include "dm/tag.h"

enum {
    TAGGED_BYTES = RTE_ETHER_HDR_LEN + DM_TAG_BYTES,
    MIN_SLOT = 2048,
    UNREAD_RING = 64,
    MAX_SLOT = 32768,
    PAGE_BYTES = 4096,
    LINK_LOOKS = 500, /* for a link, which takes seconds */
    LINK_NS = 10000000,
    POLL_NS = 20000 /* the longest sleep: some packets of a fast wire */
};

struct dpdk_port {
    struct dm_port base;
    char device[64]; /* as the user names it */
    enum dm_port_direction direction;
    uint16_t port;
    struct rte_device *bus_device;
    uint8_t *mapped; /* the memory that the device reaches; NULL: none */
    size_t mapped_bytes;
    bool is_mapped_for_dma;
    bool has_started;
    bool is_halted;
    uint16_t ring;              /* descriptors for receiving */
    uint32_t left;              /* halted: packets of the ring that are still taken, at most */
    uint64_t missed;            /* so far */
    int error;                  /* an errno value: the port has failed */
    struct dm_dpdk_slots slots; /* of a capture */
    struct rte_mempool *unread; /* a sender's buffers for what comes, which nobody takes */
    struct dm_dpdk_sending sending;
};

static struct dpdk_port *dpdk_of(struct dm_port *base)
{
    return (struct dpdk_port *)base;
}

/* `error` as DPDK's calls return it. */
static int fail_dpdk(const struct dpdk_port *port, const char *what, int error, struct vipl_dm_reason *reason)
{
    error = error < 0 ? -error : error;
    return dm_fail(reason, error, "port \"dpdk:%.60s\": %s: %s", port->device, what, rte_strerror(error));
}

static void sleep_ns(uint64_t nanoseconds)
{
    struct timespec time = {0, (long)nanoseconds};

    nanosleep(&time, NULL);
}

/* --- opening and closing ---------------------------------------------------------------------- */

static void dpdk_close(struct dm_port *base)
{
    struct dpdk_port *port = dpdk_of(base);

    if (port->has_started) {
        (void)rte_eth_dev_stop(port->port);
    }
    if (port->is_mapped_for_dma) {
        (void)rte_dev_dma_unmap(port->bus_device, port->mapped, (uintptr_t)port->mapped, port->mapped_bytes);
    }
    dm_eal_close(port->port); /* gives back mbufs: before their pools end */
    if (port->mapped != NULL) {
        (void)rte_extmem_unregister(port->mapped, port->mapped_bytes);
    }
    dm_dpdk_slots_end(&port->slots);
    dm_dpdk_sending_end(&port->sending);
    rte_mempool_free(port->unread);
    free(port);
}

static uint32_t slot_room(uint32_t frame)
{
    uint32_t room = MIN_SLOT;

    while (room < frame) {
        room *= 2;
    }
    return room;
}

static int describe_port(struct dpdk_port *port, struct vipl_dm_reason *reason)
{
    struct rte_eth_dev_info info;
    uint16_t mtu = 0;
    int error = rte_eth_dev_info_get(port->port, &info);

    if (error == 0) {
        error = rte_eth_dev_get_mtu(port->port, &mtu);
    }
    if (error != 0) {
        return fail_dpdk(port, "its device", error, reason);
    }
    port->bus_device = info.device;
    port->base.longest = (uint32_t)mtu + TAGGED_BYTES;
    if (port->direction == DM_RECEIVE) {
        port->base.longest = slot_room(port->base.longest);
        port->base.least = port->base.longest;
        if (port->base.longest > MAX_SLOT) {
            return fail_dpdk(port, "its packets are too long", EMSGSIZE, reason);
        }
    }
    port->base.clock = "Linux, CLOCK_REALTIME, when the packet was found in the ring";
    snprintf(port->base.name, sizeof(port->base.name), "dpdk:%.58s", port->device);
    snprintf(port->base.text, sizeof(port->base.text), "dpdk:%.60s (driver %.30s of DPDK, %s)", port->device,
             info.driver_name, port->base.kind->needs_main == NULL ? "by DMA" : "by the CPU");
    return 0;
}

static int configure(struct dpdk_port *port, struct vipl_dm_reason *reason)
{
    static const struct rte_eth_conf plain; /* neither offloads nor several queues */
    int error = rte_eth_dev_configure(port->port, 1, 1, &plain);

    if (error == 0) {
        port->ring = port->direction == DM_RECEIVE ? DM_DPDK_RING : UNREAD_RING;
        port->sending.ring = DM_DPDK_RING;
        error = rte_eth_dev_adjust_nb_rx_tx_desc(port->port, &port->ring, &port->sending.ring);
    }
    return error == 0 ? 0 : fail_dpdk(port, "the driver cannot be configured", error, reason);
}

/* A driver wants buffers for a queue that receives, also of a sender. */
static int make_unread(struct dpdk_port *port)
{
    char name[RTE_MEMPOOL_NAMESIZE];

    snprintf(name, sizeof(name), "vipl_unread_%u", (unsigned)port->port);
    port->unread =
        rte_pktmbuf_pool_create(name, 2U * port->ring, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    return port->unread == NULL ? rte_errno : 0;
}

static int make_pools(struct dpdk_port *port, struct vipl_dm_reason *reason)
{
    int error;

    if (port->direction == DM_RECEIVE) {
        error = dm_dpdk_slots_begin(&port->slots, port->base.longest);
    } else {
        error = dm_dpdk_sending_begin(&port->sending, port->port);
        error = error != 0 ? error : make_unread(port);
    }
    return error == 0 ? 0 : fail_dpdk(port, "memory for its packets", error, reason);
}

extern const struct dm_port_kind dm_port_dpdk_pci;
extern const struct dm_port_kind dm_port_dpdk_virtual;

static int port_open(const char *argument, enum dm_port_direction direction, struct dm_port **out,
                     struct vipl_dm_reason *reason)
{
    struct dpdk_port *port = calloc(1, sizeof(*port));
    int error;

    if (port == NULL) {
        return dm_fail(reason, ENOMEM, "port \"dpdk:%.60s\": no memory", argument);
    }
    port->base.kind = dm_eal_is_pci(argument) ? &dm_port_dpdk_pci : &dm_port_dpdk_virtual;
    port->direction = direction;
    snprintf(port->device, sizeof(port->device), "%s", argument);
    error = dm_eal_open(argument, &port->port, reason);
    if (error != 0) {
        free(port);
        return error;
    }
    error = describe_port(port, reason);
    if (error == 0) {
        error = configure(port, reason);
    }
    if (error == 0) {
        error = make_pools(port, reason);
    }
    if (error != 0) {
        dpdk_close(&port->base);
        return error;
    }
    *out = &port->base;
    return 0;
}

/* --- starting --------------------------------------------------------------------------------- */

static int set_up_queues(struct dpdk_port *port, struct vipl_dm_reason *reason)
{
    struct rte_eth_dev_info info;
    struct rte_eth_txconf exact;
    int error = rte_eth_dev_info_get(port->port, &info);

    if (error != 0) {
        return fail_dpdk(port, "its device", error, reason);
    }
    error = rte_eth_rx_queue_setup(port->port, 0, port->ring, SOCKET_ID_ANY, NULL,
                                   port->direction == DM_RECEIVE ? port->slots.pool : port->unread);
    if (error != 0) {
        return fail_dpdk(port, "a queue to receive", error, reason);
    }
    exact = info.default_txconf;
    exact.tx_rs_thresh = 1; /* each descriptor says when it is done */
    port->sending.is_exact =
        rte_eth_tx_queue_setup(port->port, 0, port->sending.ring, SOCKET_ID_ANY, &exact) == 0;
    error = port->sending.is_exact
                ? 0
                : rte_eth_tx_queue_setup(port->port, 0, port->sending.ring, SOCKET_ID_ANY, NULL);
    return error == 0 ? 0 : fail_dpdk(port, "a queue to send", error, reason);
}

static int await_link(const struct dpdk_port *port, struct vipl_dm_reason *reason)
{
    struct rte_eth_link link = {0};

    for (int i = 0; i < LINK_LOOKS; i++) {
        if (rte_eth_link_get_nowait(port->port, &link) == 0 && link.link_status == RTE_ETH_LINK_UP) {
            return 0;
        }
        sleep_ns(LINK_NS);
    }
    return fail_dpdk(port, "it has no link", ENETDOWN, reason);
}

static int start_device(struct dpdk_port *port, struct vipl_dm_reason *reason)
{
    struct rte_eth_stats stats = {0};
    int error = set_up_queues(port, reason);

    if (error != 0) {
        return error;
    }
    error = rte_eth_dev_start(port->port);
    if (error != 0) {
        return fail_dpdk(port, "it does not start", error, reason);
    }
    port->has_started = true;
    if (port->direction == DM_RECEIVE) {
        (void)rte_eth_promiscuous_enable(port->port); /* not every driver knows it */
    }
    (void)rte_eth_stats_get(port->port, &stats);
    port->missed = stats.imissed;
    return await_link(port, reason);
}

/* The addresses that the device uses are the virtual ones. */
static int register_memory(struct dpdk_port *port, const struct dm_memory *memory)
{
    size_t pages = (size_t)(memory->bytes / PAGE_BYTES);
    rte_iova_t *addresses = calloc(pages, sizeof(*addresses));
    int error;

    if (addresses == NULL) {
        return ENOMEM;
    }
    for (size_t i = 0; i < pages; i++) {
        addresses[i] = (uintptr_t)memory->base + i * PAGE_BYTES;
    }
    error = rte_extmem_register(memory->base, pages * PAGE_BYTES, addresses, (unsigned)pages, PAGE_BYTES) == 0
                ? 0
                : rte_errno;
    free(addresses);
    if (error == 0) {
        port->mapped = memory->base;
        port->mapped_bytes = pages * PAGE_BYTES;
    }
    return error;
}

static int dpdk_attach(struct dm_port *base, struct dm_memory *memory, struct vipl_dm_reason *reason)
{
    struct dpdk_port *port = dpdk_of(base);
    int error = register_memory(port, memory);

    if (error != 0) {
        return fail_dpdk(port, "its memory", error, reason);
    }
    if (base->kind == &dm_port_dpdk_pci) {
        if (rte_dev_dma_map(port->bus_device, port->mapped, (uintptr_t)port->mapped, port->mapped_bytes) !=
            0) {
            return dm_fail(reason, ENOTSUP, "memory \"%s\": the function does not reach it: %s", memory->text,
                           rte_strerror(rte_errno));
        }
        port->is_mapped_for_dma = true;
    }
    return port->direction == DM_SEND ? start_device(port, reason) : 0;
}

/* --- sending ---------------------------------------------------------------------------------- */

static bool can_leave(const struct dpdk_port *port, const struct dm_packet *packet)
{
    return packet->bytes >= RTE_ETHER_HDR_LEN && packet->bytes <= port->base.longest;
}

static unsigned dpdk_send(struct dm_port *base, const struct dm_packet *packets, unsigned count,
                          enum dm_send_end *end)
{
    struct dpdk_port *port = dpdk_of(base);
    unsigned good = 0;
    unsigned given;

    while (good < count && can_leave(port, &packets[good])) {
        good++;
    }
    given = good > 0 ? dm_dpdk_sending_give(&port->sending, packets, good) : 0;
    *end = given < good ? DM_SEND_FULL : good < count ? DM_SEND_REFUSED : DM_SEND_ALL;
    return given;
}

static uint64_t dpdk_completed(struct dm_port *base)
{
    return dm_dpdk_sending_done(&dpdk_of(base)->sending);
}

/* --- receiving -------------------------------------------------------------------------------- */

static int dpdk_begin(struct dm_port *base, struct vipl_dm_reason *reason)
{
    return start_device(dpdk_of(base), reason);
}

static bool dpdk_post(struct dm_port *base, uint8_t *at, uint32_t room)
{
    struct dpdk_port *port = dpdk_of(base);

    (void)room; /* at least `least` */
    return dm_dpdk_slots_post(&port->slots, at);
}

static bool take_packet(struct dpdk_port *port, struct rte_mbuf *mbuf, uint64_t time,
                        struct dm_arrival *arrival)
{
    if (mbuf->nb_segs != 1 || mbuf->data_off != RTE_PKTMBUF_HEADROOM ||
        !dm_dpdk_slots_take(&port->slots, mbuf)) {
        port->error = EPROTO; /* the driver does not fill its buffers in their order */
        return false;
    }
    *arrival = (struct dm_arrival){time, mbuf->pkt_len, mbuf->pkt_len};
    if ((mbuf->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED) != 0) { /* by the kernel, before a virtual device */
        dm_tag_put_back(rte_pktmbuf_mtod(mbuf, uint8_t *), port->slots.room, arrival, RTE_ETHER_TYPE_VLAN,
                        mbuf->vlan_tci);
    }
    return true;
}

static int dpdk_receive(struct dm_port *base, struct dm_arrival *arrivals, unsigned room)
{
    struct dpdk_port *port = dpdk_of(base);
    struct rte_mbuf *mbufs[DM_BATCH];
    uint64_t now;
    unsigned count;
    unsigned taken = 0;

    room = room < DM_BATCH ? room : DM_BATCH;
    room = port->is_halted && port->left < room ? port->left : room;
    count = room > 0 && port->error == 0 ? rte_eth_rx_burst(port->port, 0, mbufs, (uint16_t)room) : 0;
    port->left = port->is_halted ? (count == 0 ? 0 : port->left - count) : port->left;
    now = count > 0 ? dm_clock_day() : 0;
    for (unsigned i = 0; i < count; i++) {
        if (port->error == 0 && take_packet(port, mbufs[i], now, &arrivals[taken])) {
            taken++;
        }
        rte_pktmbuf_free(mbufs[i]);
    }
    return taken == 0 && port->error != 0 ? -port->error : (int)taken;
}

static uint64_t dpdk_dropped(struct dm_port *base)
{
    struct dpdk_port *port = dpdk_of(base);
    struct rte_eth_stats stats;
    uint64_t more;

    if (rte_eth_stats_get(port->port, &stats) != 0) {
        return 0;
    }
    more = stats.imissed - port->missed;
    port->missed = stats.imissed;
    return more;
}

/* --- both ------------------------------------------------------------------------------------- */

static void dpdk_wait(struct dm_port *base, uint64_t nanoseconds)
{
    (void)base;
    sleep_ns(nanoseconds < POLL_NS ? nanoseconds : POLL_NS);
}

/* What is in the ring has arrived before: packets are taken until the ring is found empty, at most
 * as many as it holds. */
static void dpdk_halt(struct dm_port *base)
{
    struct dpdk_port *port = dpdk_of(base);

    port->is_halted = true;
    port->left = port->ring;
}

#define DPDK_PORT_KIND(reason_for_main) \
    { \
        .name = "dpdk", .needs_main = (reason_for_main), .open = port_open, .close = dpdk_close, \
        .attach = dpdk_attach, .begin = dpdk_begin, .send = dpdk_send, .completed = dpdk_completed, \
        .post = dpdk_post, .receive = dpdk_receive, .dropped = dpdk_dropped, .wait = dpdk_wait, \
        .halt = dpdk_halt, \
    }

const struct dm_port_kind dm_port_dpdk_pci = DPDK_PORT_KIND(NULL);
const struct dm_port_kind dm_port_dpdk_virtual =
    DPDK_PORT_KIND("a virtual device of DPDK has its packets copied by the CPU, and a copy from or to a "
                   "device's memory is what this avoids");

extern const struct dm_plugin vipl_dm_plugin;
__attribute__((visibility("default"))) const struct dm_plugin vipl_dm_plugin = {DM_PLUGIN_VERSION, port_open};
