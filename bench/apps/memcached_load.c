/* SPDX-License-Identifier: MIT */
/*
 * A closed load for memcached, which Debian has no program for: each connection has one request on
 * its way, and one thread waits for all of them by epoll. It prints requests per second and the
 * median and the 99th percentile of their latency in microseconds.
 *
 *     vipl-load-memcached HOST-OR-PATH PORT-OR-0 get|set CONNECTIONS SECONDS
 *
 * With port 0 the first word is the path of a Unix socket. A value has 100 bytes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { VALUE_BYTES = 100, MOST_CONNECTIONS = 1000, REPLY_BYTES = 512, SLOTS = 1 << 20 };

struct connection {
    int fd;
    size_t received;
    uint64_t start_ns;
    char reply[REPLY_BYTES];
};

/* How many requests took how many tenths of a microsecond. */
static uint32_t slots[SLOTS];
static struct connection connections[MOST_CONNECTIONS];
static char request[256];
static const char *reply_end;

static void fail(const char *what)
{
    fprintf(stderr, "load-memcached: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int connect_tcp(const char *host, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (fd < 0 || inet_pton(AF_INET, host, &address.sin_addr) != 1 ||
        connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) {
        fail(host);
    }
    return fd;
}

static int connect_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (strlen(path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        fail(path);
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        fail(path);
    }
    return fd;
}

static void send_request(struct connection *one)
{
    size_t size = strlen(request);
    one->received = 0;
    one->start_ns = now_ns();
    if (send(one->fd, request, size, MSG_NOSIGNAL) != (ssize_t)size) {
        fail("send");
    }
}

/* Whether the reply is whole. */
static bool receive(struct connection *one)
{
    ssize_t count = recv(one->fd, one->reply + one->received, sizeof(one->reply) - one->received, 0);
    if (count <= 0) {
        fail("recv");
    }
    one->received += (size_t)count;
    size_t end = strlen(reply_end);
    return one->received >= end && memcmp(one->reply + one->received - end, reply_end, end) == 0;
}

static void count_latency(const struct connection *one)
{
    uint64_t slot = (now_ns() - one->start_ns) / 100;
    slots[slot < SLOTS ? slot : SLOTS - 1]++;
}

static double percentile_us(uint64_t requests, double share)
{
    uint64_t passed = 0;
    for (size_t i = 0; i < SLOTS; i++) {
        passed += slots[i];
        if ((double)passed >= share * (double)requests) {
            return (double)i / 10;
        }
    }
    return (double)SLOTS / 10;
}

/* The number of requests, until the time is over. */
static uint64_t run(int set, uint64_t end_ns)
{
    struct epoll_event events[64];
    uint64_t requests = 0;
    while (now_ns() < end_ns) {
        int count = epoll_wait(set, events, 64, 1000);
        if (count < 0 && errno != EINTR) {
            fail("epoll_wait");
        }
        for (int i = 0; i < count; i++) {
            struct connection *one = events[i].data.ptr;
            if (receive(one)) {
                count_latency(one);
                requests++;
                send_request(one);
            }
        }
    }
    return requests;
}

/* The value that is asked for, and the request that each connection makes. */
static void prepare(int fd, bool gets)
{
    char value[VALUE_BYTES + 1], store[256];
    struct connection one = {.fd = fd};
    memset(value, 'v', VALUE_BYTES);
    value[VALUE_BYTES] = 0;
    snprintf(store, sizeof(store), "set key 0 0 %d\r\n%s\r\n", VALUE_BYTES, value);
    memcpy(request, store, sizeof(store));
    reply_end = "STORED\r\n";
    send_request(&one);
    while (!receive(&one)) {
    }
    if (gets) {
        snprintf(request, sizeof(request), "get key\r\n");
        reply_end = "END\r\n";
    }
}

int main(int count, char **words)
{
    if (count != 6) {
        fprintf(stderr, "usage: vipl-load-memcached HOST-OR-PATH PORT-OR-0 get|set CONNECTIONS SECONDS\n");
        return 2;
    }
    int port = atoi(words[2]), many = atoi(words[4]), set = epoll_create1(0);
    double seconds = atof(words[5]);
    if (many < 1 || many > MOST_CONNECTIONS || set < 0) {
        fprintf(stderr, "load-memcached: 1 to %d connections\n", MOST_CONNECTIONS);
        return 2;
    }
    for (int i = 0; i < many; i++) {
        connections[i].fd = port == 0 ? connect_unix(words[1]) : connect_tcp(words[1], port);
    }
    prepare(connections[0].fd, strcmp(words[3], "get") == 0);
    for (int i = 0; i < many; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &connections[i]};
        if (epoll_ctl(set, EPOLL_CTL_ADD, connections[i].fd, &event) != 0) {
            fail("epoll_ctl");
        }
        send_request(&connections[i]);
    }
    uint64_t start = now_ns(), requests = run(set, start + (uint64_t)(seconds * 1e9));
    printf("%.0f %.1f %.1f\n", (double)requests * 1e9 / (double)(now_ns() - start),
           percentile_us(requests, 0.5), percentile_us(requests, 0.99));
    return 0;
}
