/* SPDX-License-Identifier: MIT */
/*
 * Network interfaces of the Linux kernel as ports, `packet:IFACE`: sockets of the family AF_PACKET.
 *
 * Packets are sent by sendmmsg(), straight from their memory: rings that are mapped (TPACKET_V2 and
 * V3) need a copy by the CPU, and were slower on veth. Packets are received by recvmmsg(), straight
 * into their slots.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "dm/port.h"
#include "dm/reason.h"
#include "dm/tag.h"

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

/* Slots that are posted: those of two large chunks. A power of two. */
#define MAX_SLOTS 8192U
/* What the kernel keeps while the capture does something else: some tenths of a second. */
#define RECEIVE_BYTES (64 << 20)
#define SEND_BYTES (8 << 20)

struct packet_slot {
    uint8_t *at;
    uint32_t room;
};

/* Room for the control messages of one packet: its time, and PACKET_AUXDATA. */
union packet_control {
    struct cmsghdr aligned;
    uint8_t bytes[CMSG_SPACE(sizeof(struct timespec)) + CMSG_SPACE(sizeof(struct tpacket_auxdata))];
};

struct packet_port {
    struct dm_port base;
    int socket;
    uint64_t taken; /* packets; the kernel has copied what it has taken */
    uint32_t head;  /* the oldest slot that is posted */
    uint32_t tail;  /* behind the newest */
    struct packet_slot slots[MAX_SLOTS];
    struct mmsghdr messages[DM_BATCH];
    struct iovec pieces[DM_BATCH];
    union packet_control controls[DM_BATCH];
};

static int fail_packet(const char *name, const char *what, struct vipl_dm_reason *reason)
{
    int error = errno;

    return dm_fail(reason, error, "port \"packet:%.30s\": %s%s%s%s", name, what, what[0] != '\0' ? ": " : "",
                   strerror(error), error == EPERM ? " (it takes the right CAP_NET_RAW)" : "");
}

/* What the kernel says of the interface. */
static int ask_interface(struct packet_port *port, const char *name, struct sockaddr_ll *address,
                         struct vipl_dm_reason *reason)
{
    struct ifreq request;

    memset(&request, 0, sizeof(request));
    if (name[0] == '\0' || strlen(name) >= sizeof(request.ifr_name)) {
        return dm_fail(reason, EINVAL, "port \"packet:%.60s\" has no name of an interface", name);
    }
    memcpy(request.ifr_name, name, strlen(name));
    if (ioctl(port->socket, SIOCGIFINDEX, &request) != 0) {
        return fail_packet(name, "", reason);
    }
    address->sll_ifindex = request.ifr_ifindex;
    if (ioctl(port->socket, SIOCGIFFLAGS, &request) != 0 || (request.ifr_flags & IFF_UP) == 0) {
        errno = ENETDOWN;
        return fail_packet(name, "", reason);
    }
    if (ioctl(port->socket, SIOCGIFHWADDR, &request) != 0 ||
        (request.ifr_hwaddr.sa_family != 1 && request.ifr_hwaddr.sa_family != 772)) {
        errno = EPROTONOSUPPORT; /* neither ARPHRD_ETHER nor ARPHRD_LOOPBACK */
        return fail_packet(name, "its frames are not Ethernet's", reason);
    }
    if (ioctl(port->socket, SIOCGIFMTU, &request) != 0) {
        return fail_packet(name, "", reason);
    }
    port->base.longest = (uint32_t)request.ifr_mtu + ETHER_HDR_LEN + DM_TAG_BYTES;
    return 0;
}

static int set_packet_option(const struct packet_port *port, int level, int option, int value)
{
    return setsockopt(port->socket, level, option, &value, sizeof(value));
}

static int set_up_sending(struct packet_port *port, const struct sockaddr_ll *address)
{
    /* Neither queues nor shaping: a packet that does not fit on the way comes back as ENOBUFS. */
    (void)set_packet_option(port, SOL_PACKET, PACKET_QDISC_BYPASS, 1);
    (void)set_packet_option(port, SOL_SOCKET, SO_SNDBUFFORCE, SEND_BYTES);
    return bind(port->socket, (const struct sockaddr *)address, sizeof(*address));
}

static int set_up_receiving(struct packet_port *port, struct sockaddr_ll *address)
{
    struct packet_mreq all = {.mr_ifindex = address->sll_ifindex, .mr_type = PACKET_MR_PROMISC};

    if (set_packet_option(port, SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BYTES) != 0) {
        (void)set_packet_option(port, SOL_SOCKET, SO_RCVBUF,
                                RECEIVE_BYTES); /* as much as the system allows */
    }
    (void)set_packet_option(port, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1); /* since Linux 4.20; see below */
    if (set_packet_option(port, SOL_SOCKET, SO_TIMESTAMPNS, 1) != 0 ||
        set_packet_option(port, SOL_PACKET, PACKET_AUXDATA, 1) != 0) {
        return -1;
    }
    address->sll_protocol = htons(ETH_P_ALL);
    if (bind(port->socket, (const struct sockaddr *)address, sizeof(*address)) != 0) {
        return -1;
    }
    return setsockopt(port->socket, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof(all));
}

static int open_socket(struct packet_port *port, const char *name, enum dm_port_direction direction,
                       struct vipl_dm_reason *reason)
{
    struct sockaddr_ll address = {.sll_family = AF_PACKET};
    int error;

    port->socket = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (port->socket < 0) {
        return fail_packet(name, "", reason);
    }
    error = ask_interface(port, name, &address, reason);
    if (error != 0) {
        return error;
    }
    if ((direction == DM_SEND ? set_up_sending(port, &address) : set_up_receiving(port, &address)) != 0) {
        return fail_packet(name, "", reason);
    }
    return 0;
}

static void packet_close(struct dm_port *base)
{
    struct packet_port *port = (struct packet_port *)base;

    if (port->socket >= 0) {
        close(port->socket);
    }
    free(port);
}

static int packet_open(const char *argument, enum dm_port_direction direction, struct dm_port **out,
                       struct vipl_dm_reason *reason)
{
    struct packet_port *port = calloc(1, sizeof(*port));
    int error;

    if (port == NULL) {
        errno = ENOMEM;
        return fail_packet(argument, "", reason);
    }
    port->base.kind = &dm_port_packet;
    error = open_socket(port, argument, direction, reason);
    if (error != 0) {
        packet_close(&port->base);
        return error;
    }
    snprintf(port->base.name, sizeof(port->base.name), "%.63s", argument);
    port->base.clock = "Linux, CLOCK_REALTIME, when the packet came to the socket";
    snprintf(port->base.text, sizeof(port->base.text), "packet:%.63s (AF_PACKET, %s)", argument,
             direction == DM_SEND ? "sendmmsg, without queueing disciplines" : "recvmmsg into the slots");
    for (unsigned i = 0; i < DM_BATCH; i++) {
        port->messages[i].msg_hdr.msg_iov = &port->pieces[i];
        port->messages[i].msg_hdr.msg_iovlen = 1;
    }
    *out = &port->base;
    return 0;
}

/* --- sending ---------------------------------------------------------------------------------- */

static enum dm_send_end why_not_sent(int error)
{
    switch (error) {
    case EAGAIN:
    case ENOBUFS:
    case EINTR:
    case ENOMEM:
        return DM_SEND_FULL;
    case EMSGSIZE:
    case EINVAL:
        return DM_SEND_REFUSED;
    default:
        return DM_SEND_FAILED;
    }
}

static unsigned packet_send(struct dm_port *base, const struct dm_packet *packets, unsigned count,
                            enum dm_send_end *end)
{
    struct packet_port *port = (struct packet_port *)base;
    int sent;

    for (unsigned i = 0; i < count; i++) {
        port->pieces[i].iov_base = (void *)(uintptr_t)packets[i].at; /* which the kernel reads */
        port->pieces[i].iov_len = packets[i].bytes;
    }
    sent = sendmmsg(port->socket, port->messages, count, 0);
    if (sent < 0) {
        *end = why_not_sent(errno);
        return 0;
    }
    /* If not all are sent, the next call says why. */
    *end = (unsigned)sent < count ? DM_SEND_FULL : DM_SEND_ALL;
    port->taken += (unsigned)sent;
    return (unsigned)sent;
}

static uint64_t packet_completed(struct dm_port *base)
{
    return ((struct packet_port *)base)->taken;
}

static void packet_wait(struct dm_port *base, uint64_t nanoseconds)
{
    struct packet_port *port = (struct packet_port *)base;
    struct pollfd one = {.fd = port->socket, .events = POLLIN};
    struct timespec most = {(time_t)(nanoseconds / UINT64_C(1000000000)),
                            (long)(nanoseconds % UINT64_C(1000000000))};

    ppoll(&one, 1, &most, NULL);
}

/* --- receiving -------------------------------------------------------------------------------- */

static bool packet_post(struct dm_port *base, uint8_t *at, uint32_t room)
{
    struct packet_port *port = (struct packet_port *)base;

    if (port->tail - port->head == MAX_SLOTS) {
        return false;
    }
    port->slots[port->tail++ % MAX_SLOTS] = (struct packet_slot){at, room};
    return true;
}

static void put_tag_back(const struct packet_slot *slot, struct dm_arrival *arrival,
                         const struct tpacket_auxdata *aux)
{
    bool has_protocol = (aux->tp_status & TP_STATUS_VLAN_TPID_VALID) != 0;

    dm_tag_put_back(slot->at, slot->room, arrival, has_protocol ? aux->tp_vlan_tpid : ETHERTYPE_VLAN,
                    aux->tp_vlan_tci);
}

static void read_message(const struct packet_slot *slot, struct mmsghdr *message, struct dm_arrival *arrival)
{
    arrival->original = message->msg_len; /* with MSG_TRUNC: of the whole packet */
    arrival->bytes = arrival->original < slot->room ? arrival->original : slot->room;
    arrival->time = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message->msg_hdr); c != NULL;
         c = CMSG_NXTHDR(&message->msg_hdr, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec time;
            memcpy(&time, CMSG_DATA(c), sizeof(time));
            arrival->time = (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
        } else if (c->cmsg_level == SOL_PACKET && c->cmsg_type == PACKET_AUXDATA) {
            struct tpacket_auxdata aux;
            memcpy(&aux, CMSG_DATA(c), sizeof(aux));
            if ((aux.tp_status & TP_STATUS_VLAN_VALID) != 0) {
                put_tag_back(slot, arrival, &aux);
            }
        }
    }
}

static int packet_receive(struct dm_port *base, struct dm_arrival *arrivals, unsigned room)
{
    struct packet_port *port = (struct packet_port *)base;
    uint32_t posted = port->tail - port->head;
    int got;

    room = room < DM_BATCH ? room : DM_BATCH;
    room = room < posted ? room : posted;
    if (room == 0) {
        return 0;
    }
    for (unsigned i = 0; i < room; i++) {
        const struct packet_slot *slot = &port->slots[(port->head + i) % MAX_SLOTS];
        port->pieces[i] = (struct iovec){slot->at, slot->room};
        port->messages[i].msg_hdr.msg_control = &port->controls[i];
        port->messages[i].msg_hdr.msg_controllen = sizeof(port->controls[i]);
    }
    got = recvmmsg(port->socket, port->messages, room, MSG_DONTWAIT | MSG_TRUNC, NULL);
    if (got < 0) {
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    }
    for (unsigned i = 0; i < (unsigned)got; i++) {
        read_message(&port->slots[(port->head + i) % MAX_SLOTS], &port->messages[i], &arrivals[i]);
    }
    port->head += (unsigned)got;
    return got;
}

static uint64_t packet_dropped(struct dm_port *base)
{
    struct tpacket_stats stats;
    socklen_t bytes = sizeof(stats);

    if (getsockopt(((struct packet_port *)base)->socket, SOL_PACKET, PACKET_STATISTICS, &stats, &bytes) !=
        0) {
        return 0;
    }
    return stats.tp_drops; /* since the last call */
}

static void packet_halt(struct dm_port *base)
{
    struct sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog program = {1, &none};

    (void)setsockopt(((struct packet_port *)base)->socket, SOL_SOCKET, SO_ATTACH_FILTER, &program,
                     sizeof(program));
}

const struct dm_port_kind dm_port_packet = {
    .name = "packet",
    .needs_main = "the kernel copies the packets of a network interface, and a copy from or to a device's "
                  "memory is what this avoids",
    .open = packet_open,
    .close = packet_close,
    .send = packet_send,
    .completed = packet_completed,
    .post = packet_post,
    .receive = packet_receive,
    .dropped = packet_dropped,
    .wait = packet_wait,
    .halt = packet_halt,
};
