/* SPDX-License-Identifier: MIT */
/* Whole frames, as datagrams between hosts, on a network interface, and through a virtual
 * interface. */
#include <net/ethernet.h> /* before the kernel's headers, which leave out what musl's have defined */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/os.h"
#include "os/posix/sockaddr.h"

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

enum { ADDRESSES = 12, TAG = 4 }; /* bytes of a frame's head: its two addresses, and a VLAN's tag */

static int open_frame_socket(int family, int type, int protocol, int *out)
{
    vipl_fd_begin();
    int fd = vipl_resource_fails(EMFILE) ? -1 : socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
    int error = vipl_fd_adopt(&fd);
    vipl_fd_end();
    if (error == 0) {
        *out = fd;
    }
    return error;
}

/* Enlarges the buffers, because many frames may come between two polls. */
static void enlarge_buffers(int fd)
{
    int bytes = 4 << 20;
    /* as much as the system allows */
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

int vipl_datagram_open(const struct vipl_inet *local, int *fd)
{
    union vipl_sockaddr address;
    int made;
    int error = open_frame_socket(local->host_len == 4 ? AF_INET : AF_INET6, SOCK_DGRAM, 0, &made);
    if (error != 0) {
        return error;
    }
    enlarge_buffers(made);
    socklen_t size = vipl_sockaddr_of(local, &address);
    if (bind(made, &address.any, size) != 0) {
        error = errno;
        vipl_fd_close(made);
        return error;
    }
    *fd = made;
    return 0;
}

/* Asks the system for one property of the interface. */
static int query_interface(int fd, const char *name, struct ifreq *request, unsigned long what)
{
    memset(request, 0, sizeof(*request));
    if (strlen(name) >= sizeof(request->ifr_name)) {
        return ENODEV;
    }
    memcpy(request->ifr_name, name, strlen(name) + 1);
    return ioctl(fd, what, request) == 0 ? 0 : errno;
}

static int bind_to_interface(int fd, const char *name, uint16_t type, uint8_t mac[6], uint32_t *mtu)
{
    struct ifreq request;
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(type)};
    int error = query_interface(fd, name, &request, SIOCGIFHWADDR);
    if (error != 0 || request.ifr_hwaddr.sa_family != ARPHRD_ETHER) {
        return error == 0 ? ENODEV : error;
    }
    memcpy(mac, request.ifr_hwaddr.sa_data, 6);
    error = query_interface(fd, name, &request, SIOCGIFMTU);
    *mtu = (uint32_t)request.ifr_mtu;
    error = error == 0 ? query_interface(fd, name, &request, SIOCGIFINDEX) : error;
    address.sll_ifindex = request.ifr_ifindex;
    return error == 0 && bind(fd, (const struct sockaddr *)(const void *)&address, sizeof(address)) != 0
               ? errno
               : error;
}

/* Frames for others come, too, and the system says which tags it has taken out. */
static int receive_all(int fd, const char *interface)
{
    struct packet_mreq all = {.mr_ifindex = (int)if_nametoindex(interface), .mr_type = PACKET_MR_PROMISC};
    int on = 1;
    /* since Linux 4.20; before, vipl_packet_receive() alone leaves out what this host sends */
    (void)setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on));
    return setsockopt(fd, SOL_PACKET, PACKET_AUXDATA, &on, sizeof(on)) != 0 ||
                   setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof(all)) != 0
               ? errno
               : 0;
}

int vipl_packet_open(const char *interface, uint16_t type, uint8_t mac[6], uint32_t *mtu, int *fd)
{
    int made;
    /* receives nothing until it is bound */
    int error = open_frame_socket(AF_PACKET, SOCK_RAW, 0, &made);
    if (error != 0) {
        return error;
    }
    enlarge_buffers(made);
    error = type == 0 ? receive_all(made, interface) : 0;
    if (error == 0) {
        error = bind_to_interface(made, interface, type == 0 ? ETH_P_ALL : type, mac, mtu);
    }
    if (error != 0) {
        vipl_fd_close(made);
        return error;
    }
    *fd = made;
    return 0;
}

int vipl_tap_open(const char *interface, int *fd)
{
    struct ifreq request;
    vipl_fd_begin();
    int made = vipl_resource_fails(EMFILE) ? -1 : open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    int error = vipl_fd_adopt(&made);
    vipl_fd_end();
    if (error != 0) {
        return error;
    }
    memset(&request, 0, sizeof(request));
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    if (strlen(interface) >= sizeof(request.ifr_name)) {
        error = ENODEV;
    } else {
        memcpy(request.ifr_name, interface, strlen(interface) + 1);
        error = ioctl(made, TUNSETIFF, &request) == 0 ? 0 : errno;
    }
    if (error != 0) {
        vipl_fd_close(made);
        return error;
    }
    *fd = made;
    return 0;
}

int vipl_datagram_send(int fd, const struct vipl_inet *to, const void *bytes, size_t length)
{
    union vipl_sockaddr address;
    socklen_t size = vipl_sockaddr_of(to, &address);
    return sendto(fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL, &address.any, size) < 0 ? errno : 0;
}

int vipl_datagram_receive(int fd, struct vipl_inet *from, void *bytes, size_t size, size_t *length)
{
    union vipl_sockaddr address = {.any.sa_family = AF_UNSPEC};
    socklen_t address_size = sizeof(address);
    ssize_t n;
    do {
        n = recvfrom(fd, bytes, size, MSG_DONTWAIT, &address.any, &address_size);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return errno == EWOULDBLOCK ? EAGAIN : errno;
    }
    vipl_sockaddr_read(&address, from);
    *length = (size_t)n;
    return 0;
}

int vipl_frame_send(int fd, const void *frame, size_t length)
{
    return write(fd, frame, length) < 0 ? errno : 0;
}

int vipl_frame_receive(int fd, void *frame, size_t size, size_t *length)
{
    ssize_t n;
    do {
        n = read(fd, frame, size);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return errno == EWOULDBLOCK ? EAGAIN
               : errno == EBADFD    ? ENODEV
                                    : errno; /* a tap whose interface is gone returns EBADFD */
    }
    *length = (size_t)n;
    return 0;
}

/* Returns the frame's length with the tag that goes back behind its addresses. */
static size_t restore_tag(uint8_t *frame, size_t size, size_t length, const struct tpacket_auxdata *aux)
{
    bool has_type = (aux->tp_status & TP_STATUS_VLAN_TPID_VALID) != 0;
    uint16_t tag[2] = {htons(has_type ? aux->tp_vlan_tpid : ETHERTYPE_VLAN), htons(aux->tp_vlan_tci)};
    if ((aux->tp_status & TP_STATUS_VLAN_VALID) == 0 || length < ADDRESSES || size < length + TAG) {
        return length;
    }
    memmove(frame + ADDRESSES + TAG, frame + ADDRESSES, length - ADDRESSES);
    memcpy(frame + ADDRESSES, tag, TAG);
    return length + TAG;
}

static size_t restore_frame(struct msghdr *message, uint8_t *frame, size_t size, size_t length)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level == SOL_PACKET && c->cmsg_type == PACKET_AUXDATA) {
            struct tpacket_auxdata aux;
            memcpy(&aux, CMSG_DATA(c), sizeof(aux));
            return restore_tag(frame, size, length, &aux);
        }
    }
    return length;
}

int vipl_packet_receive(int fd, void *frame, size_t size, size_t *length)
{
    union {
        struct cmsghdr aligned;
        uint8_t bytes[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
    } control;
    struct sockaddr_ll from = {.sll_family = AF_UNSPEC};
    struct iovec all = {frame, size};
    struct msghdr message = {.msg_name = &from, .msg_iov = &all, .msg_iovlen = 1, .msg_control = &control};
    ssize_t n;
    do {
        message.msg_namelen = sizeof(from);
        message.msg_controllen = sizeof(control);
        n = recvmsg(fd, &message, MSG_DONTWAIT);
    } while ((n < 0 && errno == EINTR) || (n >= 0 && from.sll_pkttype == PACKET_OUTGOING));
    if (n < 0) {
        return errno == EWOULDBLOCK ? EAGAIN : errno;
    }
    *length = restore_frame(&message, frame, size, (size_t)n);
    return 0;
}
