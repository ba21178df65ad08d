/* SPDX-License-Identifier: MIT */
/* Wires: a descriptor each, and for datagrams a table that says where which MAC is. */
#include "adapter/wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/rnic/efe/frame.h"

enum { MAX_TEXT = 512, MAX_HOST = 64, MAC_BYTES = 6 };

struct peer {
    uint8_t mac[MAC_BYTES];
    bool has_mac;
    bool is_given; /* by the text: it is not replaced by one that was learnt */
    struct vipl_inet at;
};

struct rnic_adapter_wire {
    int fd;
    bool is_datagram;
    bool is_raw; /* an interface, of whose frames all are taken */
    bool is_gone;
    struct peer peers[RNIC_ADAPTER_WIRE_MAX_PEERS]; /* of datagrams */
    unsigned peer_count;
    unsigned oldest; /* of those that were learnt: the next one to be replaced */
    struct rnic_adapter_wire_counters counters;
};

int rnic_adapter_wire_fd(const struct rnic_adapter_wire *wire)
{
    return wire->fd;
}

const struct rnic_adapter_wire_counters *rnic_adapter_wire_counted(const struct rnic_adapter_wire *wire)
{
    return &wire->counters;
}

bool rnic_adapter_wire_is_gone(const struct rnic_adapter_wire *wire)
{
    return wire->is_gone;
}

/* --- peers --- */

static struct peer *find_peer(struct rnic_adapter_wire *w, const uint8_t mac[MAC_BYTES])
{
    for (unsigned i = 0; i < w->peer_count; i++) {
        if (w->peers[i].has_mac && memcmp(w->peers[i].mac, mac, MAC_BYTES) == 0) {
            return &w->peers[i];
        }
    }
    return NULL;
}

/* A place for one more; when all are taken, that of the one learnt first. NULL: all were given. */
static struct peer *make_peer(struct rnic_adapter_wire *w)
{
    if (w->peer_count < RNIC_ADAPTER_WIRE_MAX_PEERS) {
        return &w->peers[w->peer_count++];
    }
    for (unsigned i = 0; i < RNIC_ADAPTER_WIRE_MAX_PEERS; i++) {
        struct peer *p = &w->peers[w->oldest++ % RNIC_ADAPTER_WIRE_MAX_PEERS];
        if (!p->is_given) {
            return p;
        }
    }
    return NULL;
}

static bool is_same(const struct vipl_inet *one, const struct vipl_inet *other)
{
    return one->host_len == other->host_len && one->port == other->port && one->scope == other->scope &&
           memcmp(one->host, other->host, one->host_len) == 0;
}

/* A frame that passes the check tells where its sender is. A host that can make such frames can
 * also make others' come to it: the wire protects from accidents, and from nobody. */
static void learn(struct rnic_adapter_wire *w, const uint8_t *frame, uint32_t bytes,
                  const struct vipl_inet *from)
{
    struct efe_header header;
    struct peer *p = bytes < EFE_ETHERNET_BYTES ? NULL : find_peer(w, frame + MAC_BYTES);
    if (p != NULL && (p->is_given || is_same(&p->at, from))) {
        return; /* without a check: nothing changes */
    }
    if (efe_frame_read(frame, bytes, &header) != EFE_FRAME_OK) {
        return;
    }
    p = p != NULL ? p : make_peer(w);
    if (p != NULL) {
        memcpy(p->mac, header.from_mac, MAC_BYTES);
        p->has_mac = true;
        p->is_given = false;
        p->at = *from;
    }
}

/* --- frames --- */

static void count(struct rnic_adapter_wire *w, int error)
{
    if (error == 0) {
        w->counters.sent++;
    } else {
        w->counters.lost++;
    }
}

static void send_datagram(struct rnic_adapter_wire *w, const uint8_t *frame, uint32_t bytes)
{
    const struct peer *known = bytes >= MAC_BYTES ? find_peer(w, frame) : NULL;
    int error = EHOSTUNREACH;
    if (known != NULL) {
        count(w, vipl_datagram_send(w->fd, &known->at, frame, bytes));
        return;
    }
    for (unsigned i = 0; i < w->peer_count; i++) {
        if (!w->peers[i].has_mac) {
            int result = vipl_datagram_send(w->fd, &w->peers[i].at, frame, bytes);
            error = error == 0 ? 0 : result;
        }
    }
    count(w, error);
}

void rnic_adapter_wire_send(struct rnic_adapter_wire *wire, const uint8_t *frame, uint32_t bytes)
{
    if (wire->is_datagram) {
        send_datagram(wire, frame, bytes);
    } else {
        count(wire, vipl_frame_send(wire->fd, frame, bytes));
    }
}

static int receive_frame(const struct rnic_adapter_wire *w, uint8_t *frame, size_t size, size_t *length)
{
    return w->is_raw ? vipl_packet_receive(w->fd, frame, size, length)
                     : vipl_frame_receive(w->fd, frame, size, length);
}

uint32_t rnic_adapter_wire_receive(struct rnic_adapter_wire *wire, uint8_t *frame, uint32_t size)
{
    struct vipl_inet from;
    size_t length = 0;
    int error = wire->is_datagram ? vipl_datagram_receive(wire->fd, &from, frame, size, &length)
                                  : receive_frame(wire, frame, size, &length);
    if (error != 0) {
        wire->is_gone = wire->is_gone || error == ENODEV;
        return 0;
    }
    wire->counters.received++;
    if (wire->is_datagram) {
        learn(wire, frame, (uint32_t)length, &from);
    }
    return (uint32_t)length;
}

/* --- the text --- */

/* ADDRESS:PORT */
static bool read_inet(const char *text, struct vipl_inet *out)
{
    char host[MAX_HOST];
    const char *colon = strrchr(text, ':');
    bool is_v6 = text[0] == '[' && colon != NULL && colon > text + 1 && colon[-1] == ']';
    size_t length = colon == NULL ? 0 : (size_t)(colon - text) - (is_v6 ? 2 : 0);
    char *end;
    unsigned long port = colon == NULL ? 0 : strtoul(colon + 1, &end, 10);
    if (length == 0 || length >= sizeof(host) || port == 0 || port > UINT16_MAX || *end != '\0' ||
        colon[1] < '0' || colon[1] > '9') {
        return false;
    }
    memcpy(host, text + (is_v6 ? 1 : 0), length);
    host[length] = '\0';
    if (!vipl_inet_resolve(host, 0, is_v6 ? 16 : 4, out)) {
        return false;
    }
    out->port = (uint16_t)port;
    return true;
}

/* [MAC@]ADDRESS:PORT */
static bool read_peer(const char *text, struct peer *out)
{
    const char *at = strchr(text, '@');
    memset(out, 0, sizeof(*out));
    out->is_given = true;
    out->has_mac = at != NULL;
    if (at != NULL) {
        int end = 0;
        unsigned char *m = out->mac;
        if (sscanf(text, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%n", &m[0], &m[1], &m[2], &m[3], &m[4], &m[5],
                   &end) != 6 ||
            text + end != at) {
            return false;
        }
    }
    return read_inet(at == NULL ? text : at + 1, &out->at);
}

static int open_datagram(struct rnic_adapter_wire *w, char *text)
{
    static const char peer[] = "peer=";
    struct vipl_inet local;
    char *next = strchr(text, ',');
    while (next != NULL) {
        char *one = next + 1;
        *next = '\0';
        next = strchr(one, ',');
        if (next != NULL) {
            *next = '\0';
        }
        if (strncmp(one, peer, sizeof(peer) - 1) != 0 || w->peer_count == RNIC_ADAPTER_WIRE_MAX_PEERS ||
            !read_peer(one + sizeof(peer) - 1, &w->peers[w->peer_count])) {
            return EINVAL;
        }
        w->peer_count++;
    }
    w->is_datagram = true;
    return read_inet(text, &local) ? vipl_datagram_open(&local, &w->fd) : EINVAL;
}

static int open_by_text(struct rnic_adapter_wire *w, char *text, bool is_raw,
                        struct rnic_adapter_wire_address *address)
{
    if (strncmp(text, "udp:", 4) == 0) {
        address->mtu = RNIC_ADAPTER_WIRE_DATAGRAM_MTU;
        return open_datagram(w, text + 4);
    }
    if (strncmp(text, "packet:", 7) == 0) {
        uint16_t type = is_raw ? 0 : EFE_ETHERTYPE;
        int error = vipl_packet_open(text + 7, type, address->mac, &address->mtu, &w->fd);
        address->has_mac = error == 0;
        w->is_raw = is_raw;
        return error;
    }
    return strncmp(text, "tap:", 4) == 0 ? vipl_tap_open(text + 4, &w->fd) : EINVAL;
}

int rnic_adapter_wire_open(const char *text, bool is_raw, struct rnic_adapter_wire **out,
                           struct rnic_adapter_wire_address *address)
{
    char copy[MAX_TEXT];
    memset(address, 0, sizeof(*address));
    if (strcmp(text, "switch") == 0) {
        *out = NULL;
        return 0;
    }
    if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy)) {
        return EINVAL;
    }
    struct rnic_adapter_wire *w = vipl_zalloc(sizeof(*w));
    if (w == NULL) {
        return ENOMEM;
    }
    w->fd = -1;
    int error = open_by_text(w, copy, is_raw, address);
    if (error != 0) {
        rnic_adapter_wire_close(w);
        return error;
    }
    *out = w;
    return 0;
}

void rnic_adapter_wire_close(struct rnic_adapter_wire *wire)
{
    if (wire != NULL) {
        vipl_fd_close(wire->fd);
        vipl_free(wire);
    }
}
