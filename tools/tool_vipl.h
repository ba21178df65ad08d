/* SPDX-License-Identifier: MIT */
/*
 * The VIPL calls that every tool makes: open a device, make addresses, connect, keep registered
 * memory, lay out descriptors. Functions that return bool have said on standard error what failed.
 */
#ifndef VIPL_TOOL_VIPL_H
#define VIPL_TOOL_VIPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vipl/vipl.h>

#include "tool_reason.h"

/* Waits without an end are cut into pieces of this length, so that a stop flag is seen. */
#define TOOL_SLICE_MS 500

/* The longest host address and discriminator that the tools handle. */
#define TOOL_HOST_BYTES 64
#define TOOL_DISCRIMINATOR_BYTES 64

/* Room for any address a device hands out. */
struct tool_address {
    union {
        VIP_NET_ADDRESS net;
        unsigned char room[sizeof(VIP_NET_ADDRESS) + TOOL_HOST_BYTES + TOOL_DISCRIMINATOR_BYTES];
    } u;
};

/* Zeroed memory, aligned for descriptors, registered as one region. */
struct tool_mem {
    VIP_NIC_HANDLE nic;
    VIP_MEM_HANDLE handle;
    unsigned char *base; /* NULL: none */
    size_t length;
    bool is_shared;
};

/* "127.0.0.1" where it is one, else bytes in hexadecimal. */
const char *tool_host_text(const unsigned char *host, size_t length, char text[3 * TOOL_HOST_BYTES]);

/* NULL names the default device. On failure *nic is NULL. */
bool tool_open(const char *device, VIP_NIC_HANDLE *nic);

/* What the device calls itself, whatever name opened it. */
struct tool_device_name {
    char text[sizeof(((VIP_NIC_ATTRIBUTES *)NULL)->Name) + 1];
};
struct tool_device_name tool_device_name(VIP_NIC_HANDLE nic);

/* Later memory is VipxAllocShared()'s: peers on this host map it. */
extern bool tool_mem_is_shared;

bool tool_mem_create(VIP_NIC_HANDLE nic, size_t length, bool rdma_write, bool rdma_read,
                     struct tool_mem *mem);

/* Also for one that is all zero. */
void tool_mem_destroy(struct tool_mem *mem);

/* The device's own address with a discriminator. */
bool tool_address_local(VIP_NIC_HANDLE nic, const void *discriminator, size_t length,
                        struct tool_address *to);

/*
 * The address of a host given as six or so hexadecimal bytes "02:00:..", as a name, or NULL for the
 * device's own, with a discriminator.
 */
bool tool_address_find(VIP_NIC_HANDLE nic, const char *host, const char *discriminator,
                       struct tool_address *to);

/* "NAME at HOST" of a request to there that failed. */
void tool_complain_connect(const struct tool_address *remote, VIP_RETURN rc);

/* The discriminator's bytes in an address, and how many. */
const unsigned char *tool_address_discriminator(const struct tool_address *address, size_t *length);

/* Says on standard output who came, and what its VI is like. */
void tool_say_who(const struct tool_address *remote, const VIP_VI_ATTRIBUTES *attributes);

/*
 * VipConnectWait() until a request comes, tool_stop is set (VIP_INTERRUPTED) or `timeout_ms` has
 * passed; UINT32_MAX waits for ever.
 */
VIP_RETURN tool_connect_wait(VIP_NIC_HANDLE nic, struct tool_address *local, uint32_t timeout_ms,
                             struct tool_address *remote, VIP_VI_ATTRIBUTES *attributes,
                             VIP_CONN_HANDLE *request);

/*
 * A server's life: opens the device, waits where `discriminator` says (and prints that, if `says`),
 * and has `next` take and serve one client at a time, until it returns something else than
 * VIP_SUCCESS; with `once`, one client. Returns an exit code.
 */
typedef VIP_RETURN (*tool_next)(const void *options, VIP_NIC_HANDLE nic, struct tool_address *local);
int tool_serve(const char *device, const char *discriminator, bool says, bool once, tool_next next,
               const void *options);

/* Disconnect and destroy; NULL does nothing. */
void tool_vi_destroy(VIP_VI_HANDLE vi);

/* A descriptor with no segment. */
void tool_desc_empty(VIP_DESCRIPTOR *desc, unsigned control);

/* A send or receive of `length` bytes at `data`. */
void tool_desc_local(VIP_DESCRIPTOR *desc, unsigned control, void *data, VIP_MEM_HANDLE handle,
                     uint32_t length);

/* An RDMA Write or Read between `data` here and an address there. */
void tool_desc_rdma(VIP_DESCRIPTOR *desc, unsigned control, uint64_t remote, VIP_MEM_HANDLE remote_handle,
                    void *data, VIP_MEM_HANDLE handle, uint32_t length);

#endif
