/* SPDX-License-Identifier: MIT */
/*
 * The parts of vipl-ping. The seed of a message's pattern travels as its immediate data, so the
 * server keeps no state: it checks what came, echoes the bytes it got, and answers with the seed
 * itself as immediate data, or with its complement if a byte was wrong.
 */
#ifndef VIPL_PING_H
#define VIPL_PING_H

#include <stdbool.h>
#include <stdint.h>

#include "tool_vipl.h"

#define PING_RECEIVES 4
#define PING_MAX_SIZE (UINT64_C(1) << 30)

enum role { ROLE_NONE, ROLE_SERVER, ROLE_CLIENT, ROLE_PAIR };

struct ping_options {
    enum role role;
    const char *device; /* NULL: the default one */
    const char *host;   /* NULL: this one */
    const char *discriminator;
    VIP_RELIABILITY_LEVEL level;
    uint64_t count;
    uint64_t size;
    uint64_t timeout_ms;
    bool once; /* a server that serves one client */
    bool quiet;
    bool json;
    bool selftest;
};

/* ping_options.c. Returns a tool's exit code, or -1 to go on. */
int ping_parse(int argc, char **argv, struct ping_options *options);

/* One end: a VI, PING_RECEIVES guarded receive buffers and a guarded send buffer in one region. */
struct ping_end {
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    struct tool_mem mem;
    VIP_DESCRIPTOR *receives;
    VIP_DESCRIPTOR *send;
    unsigned char *out;
    uint32_t size;
    uint32_t timeout_ms;
};

/* Both fill in a zeroed end whose nic, size and timeout are set; destroy takes any such end. */
bool ping_end_create(struct ping_end *end, VIP_VI_ATTRIBUTES *attributes);
void ping_end_destroy(struct ping_end *end);

/* The buffer of a receive descriptor. */
unsigned char *ping_received(const VIP_DESCRIPTOR *desc);

/* Wait for the next receive or send; VIP_INTERRUPTED after a stop, and only then. */
VIP_RETURN ping_wait(struct ping_end *end, bool receive, uint32_t timeout_ms, VIP_DESCRIPTOR **desc);

/* Send `length` bytes of the send buffer with immediate data, and reap the send. */
VIP_RETURN ping_send(struct ping_end *end, uint32_t length, uint32_t immediate);

/* Give a receive descriptor back to the VI. */
VIP_RETURN ping_repost(struct ping_end *end, VIP_DESCRIPTOR *desc);

/* Both return a tool's exit code. */
int ping_run_server(const struct ping_options *options);
int ping_run_client(const struct ping_options *options);

#endif
