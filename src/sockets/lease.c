/* SPDX-License-Identifier: MIT */
#include "sockets/lease.h"

#include <stdio.h>
#include <string.h>

#include "os/os.h"

/* A lease, and the descriptor of its receive, in pages of their own, which are registered. */
struct pages {
    _Alignas(VIP_DESCRIPTOR_ALIGNMENT) VIP_DESCRIPTOR receive;
    struct sock_lease lease;
};

static struct pages *pages_of(struct sock_lease *lease)
{
    return VIPL_CONTAINER(lease, struct pages, lease);
}

struct sock_lease *sock_lease_new(VIP_NIC_HANDLE nic, VIP_CQ_HANDLE queue)
{
    VIP_MEM_ATTRIBUTES memory = {NULL, VIP_FALSE, VIP_FALSE};
    VIP_VI_ATTRIBUTES attributes = {.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY, .MaxTransferSize = 64};
    struct pages *pages = vipl_reserve(sizeof(*pages));
    if (pages == NULL) {
        return NULL;
    }
    struct sock_lease *lease = &pages->lease;
    vipl_list_init(&lease->link);
    lease->nic = nic;
    lease->receive = &pages->receive;
    if (VipRegisterMem(nic, pages, sizeof(*pages), &memory, &lease->region) != VIP_SUCCESS) {
        vipl_unreserve(pages, sizeof(*pages));
        return NULL;
    }
    if (VipCreateVi(nic, &attributes, NULL, queue, &lease->vi) != VIP_SUCCESS) {
        VipDeregisterMem(nic, pages, lease->region);
        vipl_unreserve(pages, sizeof(*pages));
        return NULL;
    }
    if (VipPostRecv(lease->vi, lease->receive, lease->region) != VIP_SUCCESS) {
        sock_lease_end(lease);
        return NULL;
    }
    return lease;
}

void sock_lease_end(struct sock_lease *lease)
{
    struct pages *pages = pages_of(lease);
    VipDisconnect(lease->vi);
    VipDestroyVi(lease->vi);
    VipDeregisterMem(lease->nic, pages, lease->region);
    vipl_unreserve(pages, sizeof(*pages));
}

bool sock_lease_is_over(struct sock_lease *lease)
{
    VIP_DESCRIPTOR *done;
    if (!lease->is_over) {
        lease->is_over = VipRecvDone(lease->vi, &done) != VIP_NOT_DONE;
    }
    return lease->is_over;
}

void sock_lease_name(union sock_lease_name *name, const char *host, uint16_t port)
{
    char text[VIPL_MAX_DISCRIMINATOR];
    int length = snprintf(text, sizeof(text), "vipl/sockets/%s/%u", host, (unsigned)port);
    uint8_t *bytes = name->room + offsetof(VIP_NET_ADDRESS, HostAddress);
    name->net.DiscriminatorLen = (VIP_UINT16)length;
    memcpy(bytes + name->net.HostAddressLen, text, (size_t)length);
}
