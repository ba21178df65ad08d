/* SPDX-License-Identifier: MIT */
#include "sockets/attach.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sockets/conn.h"
#include "sockets/mark.h"
#include "sockets/options.h"
#include "sockets/places.h"
#include "sockets/probe.h"
#include "sockets/responder.h"
#include "sockets/rules.h"
#include "sockets/wait.h"

enum { HELLO_MS = 10 }; /* a server that writes first waits so long for HELLO */

union address {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    struct sockaddr_storage storage;
};

bool sock_is_inet(const struct sockaddr *address, socklen_t length)
{
    return address != NULL && ((address->sa_family == AF_INET && length >= sizeof(struct sockaddr_in)) ||
                               (address->sa_family == AF_INET6 && length >= sizeof(struct sockaddr_in6)));
}

static uint16_t port_of(const union address *address)
{
    return ntohs(address->any.sa_family == AF_INET ? address->in.sin_port : address->in6.sin6_port);
}

static bool local_address(int fd, union address *out)
{
    socklen_t length = sizeof(*out);
    out->any.sa_family = AF_UNSPEC;
    return getsockname(fd, &out->any, &length) == 0 && sock_is_inet(&out->any, length);
}

static bool peer_address(int fd, union address *out)
{
    socklen_t length = sizeof(*out);
    out->any.sa_family = AF_UNSPEC;
    return getpeername(fd, &out->any, &length) == 0 && sock_is_inet(&out->any, length);
}

/* Copies the host address in the form of IPv6. */
static void host_of(const union address *address, struct in6_addr *out)
{
    if (address->any.sa_family == AF_INET6) {
        *out = address->in6.sin6_addr;
        return;
    }
    memset(out, 0, sizeof(*out));
    out->s6_addr[10] = out->s6_addr[11] = 0xff;
    memcpy(&out->s6_addr[12], &address->in.sin_addr, 4);
}

/* Whether the address stands for all addresses. */
static bool is_any(const union address *address)
{
    struct in6_addr host;
    host_of(address, &host);
    return IN6_IS_ADDR_UNSPECIFIED(&host) ||
           (IN6_IS_ADDR_V4MAPPED(&host) && memcmp(&host.s6_addr[12], "\0\0\0", 4) == 0);
}

static struct sock_address place_of(const union address *address)
{
    struct sock_address place = {.port = port_of(address)};
    host_of(address, &place.host);
    return place;
}

static bool is_loopback(const union address *address)
{
    struct in6_addr host;
    host_of(address, &host);
    return IN6_IS_ADDR_LOOPBACK(&host) || (IN6_IS_ADDR_V4MAPPED(&host) && host.s6_addr[12] == 127);
}

/* Whether a connection is one between two sockets of this host: both ends have the same address, or
 * a loopback one. */
static bool is_within_host(const union address *local, const union address *peer)
{
    struct in6_addr own;
    struct in6_addr other;
    host_of(local, &own);
    host_of(peer, &other);
    return is_loopback(peer) || memcmp(&own, &other, sizeof(own)) == 0;
}

static int option_of(int fd, int name)
{
    int value = -1;
    socklen_t length = sizeof(value);
    return getsockopt(fd, SOL_SOCKET, name, &value, &length) == 0 ? value : -1;
}

static bool is_tcp(int fd)
{
    return option_of(fd, SO_TYPE) == SOCK_STREAM && option_of(fd, SO_PROTOCOL) == IPPROTO_TCP;
}

static bool is_nonblocking(int fd)
{
    return (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0;
}

/* --- clients --- */

/* The device of a connection with another host; NULL: the connection stays with TCP. */
static const char *remote_device(bool connects, const union address *address)
{
    const char *device = sock_rules_device(connects, &address->any, sizeof(*address));
    if (device != NULL && device[0] == '\0') {
        device = sock_device_name();
    }
    return device == NULL || sock_device_is_local(device) ? NULL : device;
}

/* A server that a client has connected to. */
struct server {
    struct sock_address place;
    const char *remote_device; /* NULL: the server is on this host */
    bool is_self;              /* the listener is in this process */
    bool is_judged;            /* no rule says that the connection is moved, however short it is */
};

/* Whether what is remembered of a place says that a connection to it stays with TCP. No rule says
 * otherwise, for places are remembered after the rules were asked. */
static bool is_remembered(const struct sock_address *place, enum sock_reason *reason)
{
    uint64_t now = vipl_now_ns();
    bool was_plain = sock_place_was_plain(place, now);
    *reason = was_plain ? SOCK_NO_MARK : SOCK_TOO_SHORT;
    return was_plain || sock_place_is_for_short(place, now);
}

static enum sock_reason ask_this_host(const union address *to, socklen_t length, struct server *server)
{
    enum sock_rule_answer rule = sock_rules_connect(&to->any, length);
    if (rule == SOCK_RULE_TCP) {
        return SOCK_BY_RULE;
    }
    server->is_judged = rule == SOCK_RULE_NONE;
    enum sock_marked marked = sock_mark_ask(&server->place);
    server->is_self = marked == SOCK_MARKED_SELF;
    if (marked == SOCK_MARKED_NO) {
        sock_place_is_plain(&server->place, vipl_now_ns());
        return SOCK_NO_MARK;
    }
    return marked == SOCK_MARKED_OTHER ? SOCK_OTHER_USER : SOCK_MOVED_TO_VIPL;
}

/* Whether the server is one to ask for VIPL, or another host's that may turn out to be one. */
static enum sock_reason ask_for(int fd, union address *to, socklen_t length, struct server *server)
{
    union address local;
    enum sock_reason answer;
    *server = (struct server){.place = place_of(to)};
    if (is_remembered(&server->place, &answer)) {
        return answer;
    }
    if (!local_address(fd, &local)) {
        return SOCK_BY_RULE;
    }
    if (is_any(to)) { /* this host: the kernel has chosen one address for both ends */
        uint16_t port = port_of(to);
        *to = local;
        *(to->any.sa_family == AF_INET ? &to->in.sin_port : &to->in6.sin6_port) = htons(port);
        server->place = place_of(to);
    }
    if (is_within_host(&local, to)) {
        return ask_this_host(to, length, server);
    }
    server->remote_device = remote_device(true, to);
    if (server->remote_device == NULL) {
        return SOCK_BY_RULE;
    }
    /* An answer that is known may change until the connection is there. */
    return sock_probe_ask(&server->place, server->remote_device, &answer) ? answer : SOCK_MOVED_TO_VIPL;
}

void sock_attach_connected(int fd, const struct sockaddr *to, socklen_t length)
{
    union address address = {0};
    struct server server;
    memcpy(&address, to, length < sizeof(address) ? length : sizeof(address));
    struct sock_conn *known = sock_conn_of(fd);
    if (known != NULL) { /* a second connect(), which asks how the first one has ended */
        sock_conn_put(known);
        return;
    }
    if (option_of(fd, SO_PROTOCOL) != IPPROTO_TCP) {
        return;
    }
    enum sock_reason reason = ask_for(fd, &address, length, &server);
    struct sock_conn *conn = reason == SOCK_MOVED_TO_VIPL && is_tcp(fd)
                                 ? sock_conn_new(SOCK_CONNECTING, fd, is_nonblocking(fd))
                                 : NULL;
    if (conn == NULL) {
        sock_stats_count(reason == SOCK_MOVED_TO_VIPL ? SOCK_NO_STREAM : reason);
        return;
    }
    conn->place = server.place;
    conn->is_judged = server.is_judged;
    if (server.remote_device != NULL) {
        conn->is_remote = true;
        conn->device_name = server.remote_device;
    }
    sock_options_read(conn, fd);
    if (sock_table_set(fd, &conn->file) == 0) {
        sock_epoll_adopt(fd, conn);
        sock_handshake_begin(conn, server.is_self);
    }
    sock_conn_put(conn);
}

/* --- servers --- */

void sock_attach_listener(int fd)
{
    union address local;
    struct sock_conn *known = sock_conn_of(fd);
    if (known != NULL) {
        sock_conn_put(known);
        return;
    }
    if (!is_tcp(fd) || !local_address(fd, &local) || port_of(&local) == 0 ||
        !sock_rules_allow_listen(&local.any, sizeof(local))) {
        return;
    }
    struct sock_conn *conn = sock_conn_new(SOCK_LISTENING, fd, is_nonblocking(fd));
    if (conn == NULL) {
        return;
    }
    sock_options_read(conn, fd);
    struct sock_address place = place_of(&local);
    int v6_only = 0;
    socklen_t length = sizeof(v6_only);
    place.is_v6_only = getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, &length) == 0 && v6_only != 0;
    conn->mark = sock_mark_new(&place);
    if (conn->mark != NULL) {
        const char *device = remote_device(false, &local);
        conn->responder = device == NULL ? NULL : sock_responder_new(&place, device);
        sock_table_set(fd, &conn->file);
    }
    sock_conn_put(conn);
}

/* Returns the connection that a descriptor with this peer becomes, which may send HELLO; NULL: it
 * stays the kernel's. Its options are the listener's, if there is one. The caller owns a
 * reference. */
static struct sock_conn *attach_unknown(int fd, const union address *peer, const struct sock_conn *listener,
                                        bool nonblocking, bool is_likely)
{
    union address local = {0};
    bool is_near = is_loopback(peer);
    bool is_known = is_near || local_address(fd, &local);
    bool is_remote = is_known && !is_near && !is_within_host(&local, peer);
    const char *device = is_remote ? remote_device(false, &local) : sock_device_name();
    if (!is_known || device == NULL) {
        sock_stats_count(SOCK_BY_RULE);
        return NULL;
    }
    struct sock_conn *conn = sock_conn_new(SOCK_UNKNOWN, fd, nonblocking);
    if (conn != NULL) {
        conn->is_remote = is_remote;
        conn->device_name = device;
        conn->patience = is_likely ? HELLO_MS * 1000000 : 0;
        if (listener != NULL) {
            sock_options_inherit(conn, listener);
        } else {
            sock_options_read(conn, fd);
        }
        sock_table_set(fd, &conn->file);
    }
    return conn;
}

/* Looks after what tells clients of this listener. Returns true if a client is likely to send
 * HELLO. */
static bool keep_listener(struct sock_conn *listener)
{
    vipl_mutex_lock(&listener->lock);
    listener->responder = sock_responder_keep(listener->responder);
    bool has_clients = sock_responder_has_clients(listener->responder);
    vipl_mutex_unlock(&listener->lock);
    return sock_mark_keep(listener->mark) || has_clients;
}

static void attach_accepted(struct sock_conn *listener, int fd, bool nonblocking, const union address *peer)
{
    bool is_likely = keep_listener(listener);
    struct sock_conn *accepted = attach_unknown(fd, peer, listener, nonblocking, is_likely);
    if (accepted != NULL) {
        sock_conn_put(accepted);
    }
}

void sock_attach_accepted(int listener, int fd, bool nonblocking, const struct sockaddr *from,
                          socklen_t length)
{
    union address peer = {0};
    struct sock_conn *conn = sock_conn_of(listener);
    if (conn == NULL) {
        return;
    }
    bool is_known = sock_is_inet(from, length);
    if (is_known) {
        memcpy(&peer, from, length < sizeof(peer) ? length : sizeof(peer));
    }
    if (sock_conn_state(conn) != SOCK_LISTENING) {
        /* it has become the kernel's */
    } else if (is_known || peer_address(fd, &peer)) {
        attach_accepted(conn, fd, nonblocking, &peer);
    } else {
        sock_stats_count(SOCK_BY_RULE);
    }
    sock_conn_put(conn);
}

/* --- descriptors that this program was started with --- */

enum { INHERITED = 64 };

/* The connections that have been found, each by the socket behind it: its input and its output are
 * often the same. */
struct inherited {
    struct sock_conn *conns[INHERITED];
    ino_t sockets[INHERITED];
    unsigned count;
};

/* Whether a VIPL program listens where the socket is bound to. */
static bool is_from_marked(int fd)
{
    union address local;
    if (!local_address(fd, &local)) {
        return false;
    }
    struct sock_address place = place_of(&local);
    enum sock_marked marked = sock_mark_ask(&place);
    return marked == SOCK_MARKED || marked == SOCK_MARKED_SELF;
}

static void attach_connection(struct inherited *known, int fd)
{
    struct stat socket;
    if (fstat(fd, &socket) != 0) {
        return;
    }
    for (unsigned i = 0; i < known->count; i++) {
        if (known->sockets[i] == socket.st_ino) {
            sock_table_set(fd, &known->conns[i]->file);
            return;
        }
    }
    union address peer;
    bool may_be = known->count < INHERITED && peer_address(fd, &peer) && is_from_marked(fd);
    struct sock_conn *conn = may_be ? attach_unknown(fd, &peer, NULL, is_nonblocking(fd), true) : NULL;
    if (conn != NULL) {
        known->sockets[known->count] = socket.st_ino;
        known->conns[known->count++] = conn;
    }
}

static void attach_any(struct inherited *known, int fd)
{
    int listens = option_of(fd, SO_ACCEPTCONN);
    if (listens >= 0 && is_tcp(fd)) {
        listens != 0 ? sock_attach_listener(fd) : attach_connection(known, fd);
    }
}

static void put_known(struct inherited *known)
{
    for (unsigned i = 0; i < known->count; i++) {
        sock_conn_put(known->conns[i]);
    }
}

void sock_attach_received(int fd)
{
    struct inherited known = {.count = 0};
    attach_any(&known, fd);
    put_known(&known);
}

void sock_attach_inherited(void)
{
    struct inherited known = {.count = 0};
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] != '.' && fd != dirfd(folder)) {
            attach_any(&known, fd);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    put_known(&known);
}
