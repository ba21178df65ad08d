/* SPDX-License-Identifier: MIT */
/* Whole frames, as datagrams between hosts, on a network interface, and through a virtual
 * interface. */
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

int vipl_packet_open(const char *interface, uint16_t type, uint8_t mac[6], uint32_t *mtu, int *fd)
{
    int made;
    /* receives nothing until it is bound */
    int error = open_frame_socket(AF_PACKET, SOCK_RAW, 0, &made);
    if (error != 0) {
        return error;
    }
    enlarge_buffers(made);
    error = bind_to_interface(made, interface, type, mac, mtu);
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
