/* SPDX-License-Identifier: MIT */
/*
 * The VIPL calls that every tool makes; see tool_vipl.h. A VIP_NET_ADDRESS is laid out by hand here
 * and nowhere else in the tools.
 */
#include "tool_vipl.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vipl/posix.h>

#include "tool_os.h"
#include "tool_text.h"

const char *tool_host_text(const unsigned char *host, size_t length, char text[3 * TOOL_HOST_BYTES])
{
    text[0] = '\0';
    if (length == 4 ||
        (length == 6 && host[4] == 0 && host[5] == 0)) { /* IPv4 has two zero bytes behind it */
        snprintf(text, 16, "%u.%u.%u.%u", host[0], host[1], host[2], host[3]);
        return text;
    }
    for (size_t i = 0; i < length && i < TOOL_HOST_BYTES; i++) {
        snprintf(text + 3 * i, 4, "%02x%s", host[i], i + 1 < length ? ":" : "");
    }
    return text;
}

bool tool_open(const char *device, VIP_NIC_HANDLE *nic)
{
    char what[96];
    VIP_RETURN rc;

    tool_reasons_begin();
    *nic = NULL;
    rc = VipOpenNic(device, nic);
    if (rc != VIP_SUCCESS) {
        snprintf(what, sizeof(what), "opening %s", device != NULL ? device : "the default device");
        tool_complain_rc(what, rc);
        return false;
    }
    tool_reasons_opened();
    return true;
}

struct tool_device_name tool_device_name(VIP_NIC_HANDLE nic)
{
    struct tool_device_name name = {{0}};
    VIP_NIC_ATTRIBUTES attributes;

    if (VipQueryNic(nic, &attributes) == VIP_SUCCESS) {
        memcpy(name.text, attributes.Name, sizeof(attributes.Name));
    }
    return name;
}

bool tool_mem_is_shared;

static void *allocate(size_t length, bool shared)
{
    void *base = NULL;

    if (shared) {
        VIP_RETURN rc = VipxAllocShared((VIP_ULONG)length, &base);

        if (rc != VIP_SUCCESS) {
            tool_complain_rc("VipxAllocShared", rc);
        }
        return rc == VIP_SUCCESS ? base : NULL;
    }
    base = tool_alloc(length);
    if (base == NULL) {
        tool_complain("no memory for %llu bytes", (unsigned long long)length);
    }
    return base;
}

static void give_back(void *base, bool shared)
{
    if (shared) {
        VipxFreeShared(base);
    } else {
        tool_free(base);
    }
}

bool tool_mem_create(VIP_NIC_HANDLE nic, size_t length, bool rdma_write, bool rdma_read, struct tool_mem *mem)
{
    VIP_MEM_ATTRIBUTES attributes = {NULL, rdma_write, rdma_read};
    size_t rounded = (length + 4095) & ~(size_t)4095;
    bool shared = tool_mem_is_shared;
    void *base = allocate(rounded, shared);
    VIP_RETURN rc;

    memset(mem, 0, sizeof(*mem));
    if (base == NULL) {
        return false;
    }
    memset(base, 0, rounded);
    rc = VipRegisterMem(nic, base, (VIP_ULONG)rounded, &attributes, &mem->handle);
    if (rc != VIP_SUCCESS) {
        tool_complain_rc("VipRegisterMem", rc);
        give_back(base, shared);
        return false;
    }
    mem->nic = nic;
    mem->base = base;
    mem->length = rounded;
    mem->is_shared = shared;
    return true;
}

void tool_mem_destroy(struct tool_mem *mem)
{
    if (mem->base != NULL) {
        VipDeregisterMem(mem->nic, mem->base, mem->handle);
        give_back(mem->base, mem->is_shared);
        memset(mem, 0, sizeof(*mem));
    }
}

static void address_set(struct tool_address *to, const void *host, size_t host_length,
                        const void *discriminator, size_t length)
{
    unsigned char *bytes = to->u.room + offsetof(VIP_NET_ADDRESS, HostAddress);

    memset(to, 0, sizeof(*to));
    to->u.net.HostAddressLen = (VIP_UINT16)host_length;
    to->u.net.DiscriminatorLen = (VIP_UINT16)length;
    memcpy(bytes, host, host_length);
    memcpy(bytes + host_length, discriminator, length);
}

bool tool_address_local(VIP_NIC_HANDLE nic, const void *discriminator, size_t length, struct tool_address *to)
{
    VIP_NIC_ATTRIBUTES attributes;
    VIP_RETURN rc = VipQueryNic(nic, &attributes);

    if (rc != VIP_SUCCESS) {
        tool_complain_rc("VipQueryNic", rc);
        return false;
    }
    if (length > TOOL_DISCRIMINATOR_BYTES || length > attributes.MaxDiscriminatorLen ||
        attributes.NicAddressLen > TOOL_HOST_BYTES) {
        tool_complain("the discriminator or the device's address is too long");
        return false;
    }
    address_set(to, attributes.LocalNicAddress, attributes.NicAddressLen, discriminator, length);
    return true;
}

/* "02:00:5e" to bytes; returns how many, 0 for anything else. */
static size_t parse_hex_address(const char *text, unsigned char *bytes)
{
    size_t count = 0;

    while (count < TOOL_HOST_BYTES && isxdigit((unsigned char)text[0])) {
        char *end;

        bytes[count] = (unsigned char)strtoul(text, &end, 16);
        if (end - text > 2) {
            return 0;
        }
        count++;
        if (*end == '\0') {
            return count > 1 ? count : 0;
        }
        if (*end != ':') {
            return 0;
        }
        text = end + 1;
    }
    return 0;
}

static bool resolve_name(VIP_NIC_HANDLE nic, const char *host, unsigned char *bytes, size_t *length)
{
    struct tool_address found;
    char name[256];
    VIP_RETURN rc;

    memset(&found, 0, sizeof(found));
    if (strlen(host) >= sizeof(name)) {
        tool_complain("the host name is too long");
        return false;
    }
    strcpy(name, host);
    VipNSInit(nic, NULL);
    rc = VipNSGetHostByName(nic, name, &found.u.net, 0);
    if (rc != VIP_SUCCESS || found.u.net.HostAddressLen > TOOL_HOST_BYTES) {
        char what[300];

        snprintf(what, sizeof(what), "the host \"%s\"", host);
        tool_complain_rc(what, rc);
        return false;
    }
    *length = found.u.net.HostAddressLen;
    memcpy(bytes, found.u.room + offsetof(VIP_NET_ADDRESS, HostAddress), *length);
    return true;
}

bool tool_address_find(VIP_NIC_HANDLE nic, const char *host, const char *discriminator,
                       struct tool_address *to)
{
    unsigned char bytes[TOOL_HOST_BYTES];
    size_t length;

    if (!tool_address_local(nic, discriminator, strlen(discriminator), to)) {
        return false;
    }
    if (host == NULL) {
        return true;
    }
    length = parse_hex_address(host, bytes);
    if (length == 0 && !resolve_name(nic, host, bytes, &length)) {
        return false;
    }
    address_set(to, bytes, length, discriminator, strlen(discriminator));
    return true;
}

void tool_complain_connect(const struct tool_address *remote, VIP_RETURN rc)
{
    const unsigned char *host = remote->u.room + offsetof(VIP_NET_ADDRESS, HostAddress);
    char text[3 * TOOL_HOST_BYTES];
    char what[4 * TOOL_HOST_BYTES + TOOL_DISCRIMINATOR_BYTES];

    snprintf(what, sizeof(what), "connecting to \"%.*s\" at %s", (int)remote->u.net.DiscriminatorLen,
             (const char *)host + remote->u.net.HostAddressLen,
             tool_host_text(host, remote->u.net.HostAddressLen, text));
    tool_complain_rc(what, rc);
}

const unsigned char *tool_address_discriminator(const struct tool_address *address, size_t *length)
{
    *length = address->u.net.DiscriminatorLen;
    return address->u.room + offsetof(VIP_NET_ADDRESS, HostAddress) + address->u.net.HostAddressLen;
}

void tool_say_who(const struct tool_address *remote, const VIP_VI_ATTRIBUTES *attributes)
{
    const unsigned char *host = remote->u.room + offsetof(VIP_NET_ADDRESS, HostAddress);
    char text[3 * TOOL_HOST_BYTES];

    printf("client at %s: up to %lu bytes per message, %s\n",
           tool_host_text(host, remote->u.net.HostAddressLen, text),
           (unsigned long)attributes->MaxTransferSize, tool_level_text(attributes->ReliabilityLevel));
    fflush(stdout);
}

VIP_RETURN tool_connect_wait(VIP_NIC_HANDLE nic, struct tool_address *local, uint32_t timeout_ms,
                             struct tool_address *remote, VIP_VI_ATTRIBUTES *attributes,
                             VIP_CONN_HANDLE *request)
{
    uint64_t deadline = tool_now_ns() + (uint64_t)timeout_ms * 1000000;

    while (!tool_stop) {
        VIP_RETURN rc =
            VipConnectWait(nic, &local->u.net, TOOL_SLICE_MS, &remote->u.net, attributes, request);

        if (rc != VIP_TIMEOUT && rc != VIP_INTERRUPTED) {
            return rc;
        }
        if (timeout_ms != UINT32_MAX && tool_now_ns() >= deadline) {
            return VIP_TIMEOUT;
        }
    }
    return VIP_INTERRUPTED;
}

void tool_vi_destroy(VIP_VI_HANDLE vi)
{
    if (vi != NULL) {
        VipDisconnect(vi);
        VipDestroyVi(vi);
    }
}

void tool_desc_empty(VIP_DESCRIPTOR *desc, unsigned control)
{
    memset(desc, 0, sizeof(*desc));
    desc->CS.Control = (VIP_UINT16)control;
}

void tool_desc_local(VIP_DESCRIPTOR *desc, unsigned control, void *data, VIP_MEM_HANDLE handle,
                     uint32_t length)
{
    tool_desc_empty(desc, control);
    desc->CS.SegCount = 1;
    desc->CS.Length = length;
    desc->DS[0].Local.Data.AddressBits = (VIP_UINT64)(uintptr_t)data;
    desc->DS[0].Local.Handle = handle;
    desc->DS[0].Local.Length = length;
}

void tool_desc_rdma(VIP_DESCRIPTOR *desc, unsigned control, uint64_t remote, VIP_MEM_HANDLE remote_handle,
                    void *data, VIP_MEM_HANDLE handle, uint32_t length)
{
    tool_desc_empty(desc, control);
    desc->CS.SegCount = 2;
    desc->CS.Length = length;
    desc->DS[0].Remote.Data.AddressBits = remote;
    desc->DS[0].Remote.Handle = remote_handle;
    desc->DS[1].Local.Data.AddressBits = (VIP_UINT64)(uintptr_t)data;
    desc->DS[1].Local.Handle = handle;
    desc->DS[1].Local.Length = length;
}

int tool_serve(const char *device, const char *discriminator, bool says, bool once, tool_next next,
               const void *options)
{
    struct tool_address local;
    VIP_NIC_HANDLE nic;
    VIP_RETURN rc;

    if (!tool_open(device, &nic)) {
        return TOOL_FAILED;
    }
    if (!tool_address_find(nic, NULL, discriminator, &local)) {
        VipCloseNic(nic);
        return TOOL_FAILED;
    }
    if (says) {
        printf("waiting on \"%s\"\n", discriminator);
        fflush(stdout);
    }
    do {
        rc = next(options, nic, &local);
    } while (rc == VIP_SUCCESS && !once);
    VipCloseNic(nic);
    if (rc != VIP_SUCCESS && rc != VIP_INTERRUPTED) {
        tool_complain_rc("VipConnectWait", rc);
        return TOOL_FAILED;
    }
    return TOOL_OK;
}
