/* SPDX-License-Identifier: MIT */
/*
 * TCP sockets, and the names of hosts. A socket is marked in each direction, or the system has been
 * asked to say when that direction is ready: a call that finds nothing takes the mark back, and
 * asks. The system answers at once if the socket has become ready meanwhile, so that no answer is
 * lost; the thread of port.c hears of it. The question is that of select() and libuv,
 * IOCTL_AFD_POLL.
 */
#include "os/windows/descriptor.h"
/* after windows.h as descriptor.h includes it */
#include <winsock2.h>

#include <errno.h>
#include <iphlpapi.h>
#include <mstcpip.h>
#include <mswsock.h>
#include <string.h>
#include <ws2tcpip.h>

#include "os/os_atomic.h"
#include "os/posix/sockaddr.h"
#include "os/windows/port.h"

enum {
    BACKLOG = 1024,
    SEGMENT = 1460, /* of IPv4 over Ethernet: Windows does not tell before its version 10 */
    MAX_PIECES = 64,
    MAX_PIECE = 1 << 30,
    MAX_RETRANSMIT = 5, /* TCP_MAXRT, in seconds: mingw-w64 does not declare it */
    ADDRESSES_BYTES = 64 * 1024,
    ASK = 0x12024, /* IOCTL_AFD_POLL */
    CAN_RECEIVE = 0x001,
    CAN_SEND = 0x004,
    PEER_FINISHED = 0x008,
    PEER_RESET = 0x010,
    HAS_CALLER = 0x080,
    NOT_CONNECTED = 0x100,
    TO_READ = CAN_RECEIVE | HAS_CALLER | PEER_FINISHED | PEER_RESET | NOT_CONNECTED,
    TO_WRITE = CAN_SEND | PEER_RESET | NOT_CONNECTED
};

/* What IOCTL_AFD_POLL reads, and writes when it ends. */
struct question {
    LARGE_INTEGER timeout;
    ULONG count; /* 1; of the answer: 0 if there is none */
    ULONG exclusive;
    HANDLE socket;
    ULONG conditions;
    LONG status;
};

/* One direction of a socket. Freed when the socket has been closed and nothing is asked. */
struct direction {
    struct vipl_io io;         /* the first field */
    struct question question;  /* the system's while `asked` */
    struct tcp_socket *socket; /* guarded by vipl_objects; NULL: it has been closed */
    ULONG conditions;          /* constant */
    bool asked;                /* guarded by vipl_objects */
};

enum state { LISTENING, CONNECTING, CONNECTED };

struct tcp_socket {
    struct vipl_object object; /* the first field */
    SOCKET number;             /* constant */
    HANDLE base;               /* constant: the system's own socket, below those of filters */
    struct direction *reading; /* constant */
    struct direction *writing; /* constant */
};

/* The socket that all questions are asked of, which lasts as long as the process. */
static HANDLE poller; /* constant once sockets are started */

static int last_error(void)
{
    return vipl_errno_of((DWORD)WSAGetLastError());
}

static HANDLE base_of(SOCKET s)
{
    HANDLE base = (HANDLE)s;
    DWORD length;
    (void)WSAIoctl(s, SIO_BASE_HANDLE, NULL, 0, &base, sizeof(base), &length, NULL, NULL);
    return base;
}

static BOOL CALLBACK start(INIT_ONCE *once, void *error, void **result)
{
    WSADATA data;
    (void)once;
    (void)result;
    *(int *)error = vipl_errno_of((DWORD)WSAStartup(MAKEWORD(2, 2), &data));
    if (*(int *)error != 0) {
        return FALSE;
    }
    SOCKET s = WSASocketW(AF_INET, SOCK_STREAM, IPPROTO_TCP, NULL, 0,
                          WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT);
    *(int *)error = s == INVALID_SOCKET ? last_error() : vipl_io_add(base_of(s));
    if (*(int *)error != 0) {
        (void)closesocket(s);
        (void)WSACleanup();
        return FALSE;
    }
    poller = base_of(s);
    return TRUE;
}

static int start_sockets(void)
{
    static INIT_ONCE started = INIT_ONCE_STATIC_INIT;
    int error = 0;
    return InitOnceExecuteOnce(&started, start, &error, NULL) ? 0 : error;
}

/* --- readiness --- */

static void set_marks(struct tcp_socket *s, bool readable, bool writable)
{
    s->object.writable = writable;
    vipl_object_mark_locked(&s->object, readable);
}

/* Has the system say when the direction is ready, unless it has been asked already. A direction
 * that cannot be asked for is marked: the call that uses it then looks. vipl_objects is held. */
static void ask_system(struct direction *d)
{
    struct tcp_socket *s = d->socket;
    if (d->asked) {
        return;
    }
    d->question = (struct question){
        .timeout.QuadPart = INT64_MAX, .count = 1, .socket = s->base, .conditions = d->conditions};
    memset(&d->io.overlapped, 0, sizeof(d->io.overlapped));
    d->asked = DeviceIoControl(poller, ASK, &d->question, sizeof(d->question), &d->question,
                               sizeof(d->question), NULL, &d->io.overlapped) ||
               GetLastError() == ERROR_IO_PENDING;
    if (!d->asked) {
        set_marks(s, s->object.ready || d == s->reading, s->object.writable || d == s->writing);
    }
}

static void take_answer(struct direction *d, ULONG conditions)
{
    struct tcp_socket *s = d->socket;
    struct vipl_object *object = &s->object;
    bool broken = (conditions & (PEER_RESET | NOT_CONNECTED)) != 0;
    object->broken = object->broken || broken;
    object->hung_up = object->hung_up || broken || (conditions & PEER_FINISHED) != 0;
    set_marks(s, object->ready || broken || d == s->reading, object->writable || broken || d == s->writing);
}

/* Runs in the thread of port.c. A question ends without an answer with the thread that asked. */
static void answered(struct vipl_io *io, DWORD error, DWORD bytes)
{
    struct direction *d = (struct direction *)(void *)io;
    (void)bytes;
    AcquireSRWLockExclusive(&vipl_objects);
    const bool closed = d->socket == NULL;
    const bool answer = error == ERROR_SUCCESS && d->question.count > 0;
    d->asked = false;
    if (!closed && answer) {
        take_answer(d, d->question.conditions);
    } else if (!closed) {
        ask_system(d);
    }
    ReleaseSRWLockExclusive(&vipl_objects);
    if (closed) {
        vipl_free(d);
    }
}

/* Takes the mark back, as a call has found nothing, and asks. */
static void clear_and_ask(struct tcp_socket *s, struct direction *d)
{
    AcquireSRWLockExclusive(&vipl_objects);
    set_marks(s, s->object.ready && d != s->reading, s->object.writable && d != s->writing);
    ask_system(d);
    ReleaseSRWLockExclusive(&vipl_objects);
}

/* --- sockets as objects --- */

/* The direction is the thread of port.c's if the system still has to answer. */
static void end_direction(struct direction *d)
{
    AcquireSRWLockExclusive(&vipl_objects);
    const bool asked = d != NULL && d->asked;
    if (asked) {
        d->socket = NULL;
        (void)CancelIoEx(poller, &d->io.overlapped);
    }
    ReleaseSRWLockExclusive(&vipl_objects);
    if (!asked) {
        vipl_free(d);
    }
}

static void end_socket(struct vipl_object *object)
{
    struct tcp_socket *s = (struct tcp_socket *)(void *)object;
    end_direction(s->reading);
    end_direction(s->writing);
    (void)closesocket(s->number);
    vipl_free(s);
}

static struct tcp_socket *get_socket(int fd)
{
    return (struct tcp_socket *)(void *)vipl_object_get(fd, end_socket);
}

static struct direction *make_direction(struct tcp_socket *s, ULONG conditions)
{
    struct direction *d = vipl_zalloc(sizeof(*d));
    if (d != NULL) {
        d->io.done = answered;
        d->socket = s;
        d->conditions = conditions;
    }
    return d;
}

/* Makes a socket an object. On failure it is closed. */
static int adopt(SOCKET number, enum state state, int *fd)
{
    struct tcp_socket *s = vipl_zalloc(sizeof(*s));
    if (s == NULL) {
        (void)closesocket(number);
        return ENOMEM;
    }
    s->number = number;
    s->base = base_of(number);
    s->reading = make_direction(s, TO_READ);
    s->writing = make_direction(s, TO_WRITE);
    bool made = s->reading != NULL && s->writing != NULL;
    s->object.writable = state == CONNECTED;
    int error = made ? vipl_object_add(&s->object, end_socket, fd) : ENOMEM;
    if (error != 0) {
        end_socket(&s->object);
        return error;
    }
    clear_and_ask(s, s->reading);
    if (state == CONNECTING) {
        clear_and_ask(s, s->writing);
    }
    return 0;
}

/* The socket works without the option. */
static void set_if_possible(SOCKET s, int level, int option, int value)
{
    (void)setsockopt(s, level, option, (const char *)&value, sizeof(value));
}

static void set_tcp_options(SOCKET s, const struct vipl_socket_tuning *tuning)
{
    uint32_t left = tuning->timeout_ms > tuning->idle_ms ? tuning->timeout_ms - tuning->idle_ms : 1000;
    struct tcp_keepalive keepalive = {1, tuning->idle_ms, left / 10 + 1}; /* the system sends ten */
    u_long on = 1;
    DWORD length;
    (void)ioctlsocket(s, (long)FIONBIO, &on); /* it cannot fail for a socket */
    set_if_possible(s, IPPROTO_TCP, TCP_NODELAY, 1);
    (void)WSAIoctl(s, SIO_KEEPALIVE_VALS, &keepalive, sizeof(keepalive), NULL, 0, &length, NULL, NULL);
    set_if_possible(s, IPPROTO_TCP, MAX_RETRANSMIT, (int)(tuning->timeout_ms / 1000 + 1));
    if (tuning->buffer > 0) {
        set_if_possible(s, SOL_SOCKET, SO_SNDBUF, (int)tuning->buffer);
        set_if_possible(s, SOL_SOCKET, SO_RCVBUF, (int)tuning->buffer);
    }
}

static int open_socket(const struct vipl_inet *local, const struct vipl_socket_tuning *tuning, SOCKET *out)
{
    int error = start_sockets();
    if (error != 0 || vipl_resource_fails(EMFILE)) {
        return error != 0 ? error : EMFILE;
    }
    *out = WSASocketW(local->host_len == 4 ? AF_INET : AF_INET6, SOCK_STREAM, IPPROTO_TCP, NULL, 0,
                      WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT);
    if (*out == INVALID_SOCKET) {
        return last_error();
    }
    set_tcp_options(*out, tuning);
    return 0;
}

static int bind_to(SOCKET s, const struct vipl_inet *local)
{
    union vipl_sockaddr address;
    socklen_t size = vipl_sockaddr_of(local, &address);
    if (bind(s, &address.any, size) == 0) {
        return 0;
    }
    return WSAGetLastError() == WSAEACCES ? EADDRINUSE : last_error(); /* its owner shares it not */
}

int vipl_socket_listen(const struct vipl_inet *local, const struct vipl_socket_tuning *tuning, int *fd)
{
    SOCKET s;
    int error = open_socket(local, tuning, &s);
    if (error != 0) {
        return error;
    }
    set_if_possible(s, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, 1);
    if (local->host_len == 16) {
        set_if_possible(s, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    }
    error = bind_to(s, local);
    if (error == 0 && listen(s, BACKLOG) != 0) {
        error = last_error();
    }
    if (error != 0) {
        (void)closesocket(s);
        return error;
    }
    return adopt(s, LISTENING, fd);
}

/* A caller that has gone again is none. */
static SOCKET accept_caller(SOCKET listener, union vipl_sockaddr *address)
{
    SOCKET s;
    do {
        int size = sizeof(*address);
        s = accept(listener, &address->any, &size);
    } while (s == INVALID_SOCKET && WSAGetLastError() == WSAECONNRESET);
    return s;
}

int vipl_socket_accept(int listener, const struct vipl_socket_tuning *tuning, int *fd, struct vipl_inet *peer)
{
    union vipl_sockaddr address = {.any.sa_family = AF_UNSPEC};
    struct tcp_socket *l = get_socket(listener);
    if (l == NULL) {
        return EBADF;
    }
    SOCKET s = INVALID_SOCKET;
    int error = vipl_resource_fails(EMFILE) ? EMFILE : 0;
    if (error == 0) {
        s = accept_caller(l->number, &address);
        error = s == INVALID_SOCKET ? last_error() : 0;
    }
    if (error == EAGAIN) {
        clear_and_ask(l, l->reading);
    }
    vipl_object_put(&l->object);
    if (error == 0) {
        (void)SetHandleInformation((HANDLE)s, HANDLE_FLAG_INHERIT, 0);
        set_tcp_options(s, tuning);
        vipl_sockaddr_read(&address, peer);
        error = adopt(s, CONNECTED, fd);
    }
    return error;
}

int vipl_socket_connect(const struct vipl_inet *local, const struct vipl_inet *remote,
                        const struct vipl_socket_tuning *tuning, int *fd)
{
    union vipl_sockaddr address;
    struct vipl_inet from = *local;
    SOCKET s;
    int error = open_socket(remote, tuning, &s);
    if (error != 0) {
        return error;
    }
    from.port = 0;
    error = from.host_len == remote->host_len ? bind_to(s, &from) : 0;
    socklen_t size = vipl_sockaddr_of(remote, &address);
    if (error == 0 && connect(s, &address.any, size) != 0 && WSAGetLastError() != WSAEWOULDBLOCK) {
        error = last_error();
    }
    if (error != 0) {
        (void)closesocket(s);
        return error;
    }
    return adopt(s, CONNECTING, fd);
}

int vipl_socket_connect_result(int fd)
{
    struct tcp_socket *s = get_socket(fd);
    DWORD result = 0;
    int size = sizeof(result);
    if (s == NULL) {
        return EBADF;
    }
    bool known = getsockopt(s->number, SOL_SOCKET, SO_ERROR, (char *)&result, &size) == 0;
    int error = known ? vipl_errno_of(result) : last_error();
    vipl_object_put(&s->object);
    return error;
}

bool vipl_socket_signs_of_life(int fd, struct vipl_socket_signs *out)
{
    (void)fd;
    (void)out;
    return false;
}

uint32_t vipl_socket_segment_bytes(int fd)
{
    (void)fd;
    return SEGMENT;
}

/* --- bytes --- */

/* Describes the pieces as the system wants them; at most `most` bytes of the first one that is not
 * empty, unless that is 0. Returns their number. */
static unsigned describe(const struct vipl_iov *pieces, unsigned count, uint32_t most, WSABUF *out)
{
    unsigned n = 0;
    for (unsigned i = 0; i < count && n < MAX_PIECES; i++) {
        size_t limit = most == 0 ? MAX_PIECE : most;
        bool whole = pieces[i].len <= limit;
        if (pieces[i].len > 0) {
            out[n].buf = pieces[i].base;
            out[n++].len = (ULONG)(whole ? pieces[i].len : limit);
        }
        if (n > 0 && (most != 0 || !whole)) {
            return n;
        }
    }
    return n;
}

static int transfer_result(struct tcp_socket *s, struct direction *d, int result)
{
    int error = result == 0 ? 0 : last_error();
    if (error == EAGAIN) {
        clear_and_ask(s, d);
    }
    vipl_object_put(&s->object);
    return error;
}

int vipl_socket_send(int fd, const struct vipl_iov *pieces, unsigned count, bool more, size_t *sent)
{
    WSABUF buffers[MAX_PIECES];
    DWORD n = 0;
    struct tcp_socket *s = get_socket(fd);
    (void)more;
    if (s == NULL) {
        return EBADF;
    }
    unsigned used = describe(pieces, count, vipl_load_relaxed(&vipl_test_hooks.max_sent), buffers);
    int error = transfer_result(s, s->writing, WSASend(s->number, buffers, used, &n, 0, NULL, NULL));
    if (error == 0) {
        *sent = n;
    }
    return error;
}

void vipl_socket_push(int fd)
{
    (void)fd; /* nothing is held back */
}

int vipl_socket_receive(int fd, const struct vipl_iov *pieces, unsigned count, size_t *received)
{
    WSABUF buffers[MAX_PIECES];
    DWORD n = 0;
    DWORD flags = 0;
    struct tcp_socket *s = get_socket(fd);
    if (s == NULL) {
        return EBADF;
    }
    unsigned used = describe(pieces, count, vipl_load_relaxed(&vipl_test_hooks.max_received), buffers);
    int error = transfer_result(s, s->reading, WSARecv(s->number, buffers, used, &n, &flags, NULL, NULL));
    if (error == 0) {
        *received = n;
    }
    return error;
}

void vipl_socket_finish(int fd)
{
    struct tcp_socket *s = get_socket(fd);
    if (s != NULL) {
        (void)shutdown(s->number, SD_SEND); /* fails only if the peer has gone */
        vipl_object_put(&s->object);
    }
}

/* --- names and addresses --- */

bool vipl_inet_resolve(const char *name, uint32_t index, uint16_t host_len, struct vipl_inet *out)
{
    return start_sockets() == 0 && vipl_sockaddr_resolve(name, index, host_len, out);
}

bool vipl_inet_reverse(const struct vipl_inet *inet, char *name, size_t size)
{
    return start_sockets() == 0 && vipl_sockaddr_reverse(inet, name, size);
}

static bool has_address(const IP_ADAPTER_ADDRESSES *adapter, const struct vipl_inet *inet)
{
    for (const IP_ADAPTER_UNICAST_ADDRESS *each = adapter->FirstUnicastAddress; each != NULL;
         each = each->Next) {
        struct vipl_inet own;
        vipl_sockaddr_read((const union vipl_sockaddr *)(const void *)each->Address.lpSockaddr, &own);
        if (own.host_len == inet->host_len && own.scope == inet->scope &&
            memcmp(own.host, inet->host, own.host_len) == 0) {
            return true;
        }
    }
    return false;
}

bool vipl_inet_is_own(const struct vipl_inet *inet)
{
    ULONG bytes = ADDRESSES_BYTES;
    IP_ADAPTER_ADDRESSES *list = vipl_alloc(bytes);
    bool own = inet->host_len == 4 && inet->host[0] == 127; /* the loopback interface's network */
    if (list != NULL && GetAdaptersAddresses(AF_UNSPEC, 0, NULL, list, &bytes) == NO_ERROR) {
        for (const IP_ADAPTER_ADDRESSES *each = list; each != NULL && !own; each = each->Next) {
            own = has_address(each, inet);
        }
    }
    vipl_free(list);
    return own;
}
