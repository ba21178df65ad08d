/* SPDX-License-Identifier: MIT */
/* fi_getinfo(): what each device offers, and whether the hints of a program fit. */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "rdm.h"

enum {
    BASIC = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY, /* FI_MR_BASIC, as separate bits */
    CQ_DATA = 4
};
static const uint64_t capabilities = FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE |
                                     FI_REMOTE_READ | FI_REMOTE_WRITE | FI_LOCAL_COMM | FI_REMOTE_COMM;
/* What VIPL's send queue keeps in order without a fence; not a send or a write behind an RDMA
 * Read. */
static const uint64_t order = FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_WAS | FI_ORDER_WAW | FI_ORDER_RAS |
                              FI_ORDER_RAW | FI_ORDER_RAR | FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW |
                              FI_ORDER_RMA_WAW;
/* Tags whose bits are all for the program: libfabric shows fields by alternating ones and zeros. */
static const uint64_t any_tag = UINT64_C(0xAAAAAAAAAAAAAAAA);
static const uint64_t tx_flags = FI_INJECT | FI_COMPLETION | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE;

static void set_transmit(struct fi_tx_attr *tx, const struct fi_tx_attr *hints)
{
    tx->caps = FI_MSG | FI_RMA | FI_SEND | FI_READ | FI_WRITE;
    tx->msg_order = order;
    tx->comp_order = FI_ORDER_STRICT;
    tx->inject_size = PROV_INJECT;
    tx->size = hints != NULL && hints->size != 0 ? hints->size : PROV_TX_DEFAULT;
    tx->op_flags = hints != NULL ? hints->op_flags : 0;
    tx->iov_limit = PROV_IOVS;
    tx->rma_iov_limit = 1;
}

static void set_receive(struct fi_rx_attr *rx, const struct fi_rx_attr *hints, uint64_t mode)
{
    rx->caps = FI_MSG | FI_RMA | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE;
    rx->mode = mode & FI_RX_CQ_DATA;
    rx->msg_order = order;
    rx->comp_order = FI_ORDER_STRICT;
    rx->size = hints != NULL && hints->size != 0 ? hints->size : PROV_RX_DEFAULT;
    rx->op_flags = hints != NULL ? hints->op_flags : 0;
    rx->iov_limit = PROV_IOVS;
}

static void set_domain(struct fi_domain_attr *domain, const struct prov_nic *nic, uint32_t version)
{
    const VIP_NIC_ATTRIBUTES *attributes = &nic->attributes;
    domain->threading = FI_THREAD_SAFE;
    domain->control_progress = FI_PROGRESS_MANUAL;
    domain->data_progress = FI_PROGRESS_MANUAL;
    domain->resource_mgmt = FI_RM_ENABLED;
    domain->av_type = FI_AV_UNSPEC;
    domain->mr_mode = FI_VERSION_LT(version, FI_VERSION(1, 5)) ? FI_MR_BASIC : BASIC | FI_MR_LOCAL;
    domain->mr_key_size = sizeof(VIP_MEM_HANDLE);
    domain->cq_data_size = CQ_DATA;
    domain->cq_cnt = attributes->MaxCQ;
    domain->ep_cnt = attributes->MaxVI;
    domain->tx_ctx_cnt = attributes->MaxVI;
    domain->rx_ctx_cnt = attributes->MaxVI;
    domain->max_ep_tx_ctx = 1;
    domain->max_ep_rx_ctx = 1;
    domain->mr_iov_limit = 1;
    domain->mr_cnt = attributes->MaxRegisterRegions;
    domain->caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
    domain->name = strdup(nic->name);
}

/* What is different of datagram endpoints: messages alone, and no memory of the program's need be
 * registered. */
static void set_datagrams(struct fi_info *info, const struct fi_info *hints)
{
    static const uint64_t on_demand = FI_DIRECTED_RECV | FI_SOURCE;
    info->caps = FI_MSG | FI_TAGGED | FI_SEND | FI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM | on_demand;
    if (hints != NULL && hints->caps != 0) {
        info->caps &= ~on_demand | hints->caps;
    }
    info->mode = 0;
    info->tx_attr->caps = FI_MSG | FI_TAGGED | FI_SEND;
    info->tx_attr->msg_order = info->rx_attr->msg_order = FI_ORDER_SAS;
    info->tx_attr->comp_order = info->rx_attr->comp_order = FI_ORDER_NONE;
    info->tx_attr->inject_size = RDM_INJECT;
    info->tx_attr->rma_iov_limit = 0;
    info->rx_attr->caps = FI_MSG | FI_TAGGED | FI_RECV | (info->caps & on_demand);
    info->rx_attr->mode = 0;
    info->domain_attr->mr_mode = 0;
    info->domain_attr->cq_data_size = sizeof(uint64_t);
    info->domain_attr->av_type = FI_AV_UNSPEC;
    if (hints != NULL && hints->domain_attr != NULL) {
        info->domain_attr->av_type = hints->domain_attr->av_type;
    }
    info->ep_attr->type = FI_EP_RDM;
    info->ep_attr->mem_tag_format = any_tag;
    info->ep_attr->max_msg_size = SIZE_MAX / 2;
    info->ep_attr->max_order_raw_size = info->ep_attr->max_order_waw_size = 0;
}

/* What the device offers a program with these hints, which may be NULL, of one type of endpoint. */
static struct fi_info *offer(const struct prov_nic *nic, uint32_t version, const struct fi_info *hints,
                             enum fi_ep_type type)
{
    struct fi_info *info = prov_info_dup(NULL);
    if (info == NULL) {
        return NULL;
    }
    bool wants_rma =
        hints == NULL || hints->caps == 0 ||
        (hints->caps & ~(uint64_t)(FI_MSG | FI_SEND | FI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM)) != 0;
    info->caps = capabilities;
    info->mode = hints == NULL ? FI_RX_CQ_DATA : hints->mode & FI_RX_CQ_DATA;
    if (FI_VERSION_LT(version, FI_VERSION(1, 5))) {
        info->mode |= FI_LOCAL_MR;
    }
    set_transmit(info->tx_attr, hints != NULL ? hints->tx_attr : NULL);
    set_receive(info->rx_attr, hints != NULL ? hints->rx_attr : NULL, info->mode);
    set_domain(info->domain_attr, nic, version);
    if (wants_rma && (info->mode & FI_RX_CQ_DATA) == 0) {
        info->domain_attr->cq_data_size = 0; /* an RDMA Write with data takes a receive */
    }
    info->ep_attr->type = FI_EP_MSG;
    info->ep_attr->protocol = FI_PROTO_UNSPEC;
    info->ep_attr->protocol_version = 1;
    info->ep_attr->max_msg_size = wants_rma ? SIZE_MAX / 2 : nic->attributes.MaxTransferSize;
    info->ep_attr->tx_ctx_cnt = 1;
    info->ep_attr->rx_ctx_cnt = 1;
    info->ep_attr->max_order_raw_size = info->ep_attr->max_msg_size;
    info->ep_attr->max_order_waw_size = info->ep_attr->max_msg_size;
    if (type == FI_EP_RDM) {
        set_datagrams(info, hints);
    }
    info->fabric_attr->name = strdup(nic->name);
    info->fabric_attr->prov_version = prov_provider.version;
    info->addr_format = prov_address_format(nic);
    if (info->domain_attr->name == NULL || info->fabric_attr->name == NULL) {
        prov_info_free(info);
        return NULL;
    }
    return info;
}

static const char *unfit_domain(const struct fi_domain_attr *hints, uint64_t mode, uint32_t version,
                                const struct fi_info *info)
{
    bool old = FI_VERSION_LT(version, FI_VERSION(1, 5));
    if (hints == NULL) {
        return NULL;
    }
    if (hints->name != NULL && strcmp(hints->name, info->domain_attr->name) != 0) {
        return "domain name";
    }
    bool registers = info->ep_attr->type == FI_EP_MSG;
    if (!registers) {
        /* any mr_mode fits */
    } else if (old ? hints->mr_mode == FI_MR_SCALABLE
                   : hints->mr_mode == FI_MR_SCALABLE ||
                         ((hints->mr_mode & FI_MR_BASIC) == 0 && (hints->mr_mode & BASIC) != BASIC)) {
        return "mr_mode";
    }
    if (registers && (old || (hints->mr_mode & FI_MR_BASIC) != 0
                          ? (mode & FI_LOCAL_MR) == 0 && (hints->mr_mode & FI_MR_LOCAL) == 0
                          : (hints->mr_mode & FI_MR_LOCAL) == 0)) {
        return "FI_MR_LOCAL";
    }
    if (hints->cq_data_size > info->domain_attr->cq_data_size) {
        return "cq_data_size";
    }
    if (hints->control_progress == FI_PROGRESS_AUTO || hints->data_progress == FI_PROGRESS_AUTO) {
        return "progress";
    }
    if (hints->mr_iov_limit > 1 || hints->auth_key_size > 0 || hints->cntr_cnt > 0) {
        return "domain limits";
    }
    return (hints->caps & ~info->domain_attr->caps) != 0 ? "domain caps" : NULL;
}

static const char *unfit_endpoint(const struct fi_ep_attr *hints, const struct fi_ep_attr *own)
{
    if (hints == NULL) {
        return NULL;
    }
    if (hints->type != FI_EP_UNSPEC && hints->type != own->type) {
        return "endpoint type";
    }
    if (hints->protocol != FI_PROTO_UNSPEC) {
        return "protocol";
    }
    if (hints->tx_ctx_cnt > 1 || hints->rx_ctx_cnt > 1 || hints->auth_key_size > 0) {
        return "contexts";
    }
    if (hints->max_msg_size > own->max_msg_size || hints->msg_prefix_size > 0 ||
        hints->max_order_war_size > 0 || hints->max_order_raw_size > own->max_order_raw_size ||
        hints->max_order_waw_size > own->max_order_waw_size) {
        return "message size";
    }
    return NULL;
}

static const char *unfit_transmit(const struct fi_tx_attr *hints, const struct fi_info *info)
{
    if (hints == NULL) {
        return NULL;
    }
    if ((hints->caps & ~info->caps) != 0) {
        return "tx caps";
    }
    if ((hints->op_flags & ~tx_flags) != 0) {
        return "tx op_flags";
    }
    if ((hints->msg_order & ~info->tx_attr->msg_order) != 0 ||
        (hints->comp_order & ~(uint64_t)(FI_ORDER_STRICT | FI_ORDER_DATA)) != 0) {
        return "tx order";
    }
    if (hints->inject_size > info->tx_attr->inject_size || hints->size > PROV_TX_MOST ||
        hints->iov_limit > PROV_IOVS || hints->rma_iov_limit > info->tx_attr->rma_iov_limit) {
        return "tx sizes";
    }
    return NULL;
}

static const char *unfit_receive(const struct fi_rx_attr *hints, const struct fi_info *info)
{
    if (hints == NULL) {
        return NULL;
    }
    if ((hints->caps & ~info->caps) != 0) {
        return "rx caps";
    }
    if ((hints->op_flags & ~(uint64_t)FI_COMPLETION) != 0) {
        return "rx op_flags";
    }
    if ((hints->msg_order & ~info->rx_attr->msg_order) != 0 ||
        (hints->comp_order & ~(uint64_t)(FI_ORDER_STRICT | FI_ORDER_DATA)) != 0) {
        return "rx order";
    }
    if (hints->size > PROV_RX_MOST || hints->iov_limit > PROV_IOVS || hints->total_buffered_recv > 0) {
        return "rx sizes";
    }
    return NULL;
}

/* What does not fit, for the log; NULL if everything does. */
static const char *unfit(const struct fi_info *hints, uint32_t version, const struct fi_info *info)
{
    if (hints == NULL) {
        return NULL;
    }
    if ((hints->caps & ~info->caps) != 0) {
        return "caps";
    }
    if (hints->addr_format != FI_FORMAT_UNSPEC && hints->addr_format != FI_SOCKADDR &&
        hints->addr_format != info->addr_format) {
        return "address format";
    }
    if (hints->fabric_attr != NULL && hints->fabric_attr->name != NULL &&
        strcmp(hints->fabric_attr->name, info->fabric_attr->name) != 0) {
        return "fabric name";
    }
    const char *why = unfit_endpoint(hints->ep_attr, info->ep_attr);
    if (why == NULL) {
        why = unfit_domain(hints->domain_attr, hints->mode, version, info);
    }
    if (why == NULL) {
        why = unfit_transmit(hints->tx_attr, info);
    }
    return why != NULL ? why : unfit_receive(hints->rx_attr, info);
}

/* Sets an address of an fi_info, from what the program names; -FI_ENODATA if the device has no
 * such. */
static int set_address(const struct prov_nic *nic, const void *from, size_t bytes, void **to,
                       size_t *to_bytes)
{
    uint8_t host[PROV_HOST_BYTES];
    uint16_t port = 0;
    size_t room = sizeof(struct sockaddr_in6);
    int rc = prov_address_read(nic, from, bytes, host, &port);
    if (rc != 0) {
        PROV_LOG(FI_LOG_INFO, FI_LOG_CORE, "%s: the address is not one that the device reaches\n", nic->name);
        return -FI_ENODATA;
    }
    void *address = malloc(room);
    if (address == NULL) {
        return -FI_ENOMEM;
    }
    (void)prov_address_copy(nic, host, port, address, &room);
    free(*to);
    *to = address;
    *to_bytes = room;
    return 0;
}

/* The address of a node and a service. */
static int look_up(const struct prov_nic *nic, const char *node, const char *service, uint64_t flags,
                   struct fi_info *info)
{
    const struct addrinfo ask = {.ai_family = nic->family == PROV_ETHERNET ? AF_INET6 : AF_INET,
                                 .ai_socktype = SOCK_STREAM,
                                 .ai_flags = ((flags & FI_SOURCE) != 0 ? AI_PASSIVE : 0) |
                                             ((flags & FI_NUMERICHOST) != 0 ? AI_NUMERICHOST : 0)};
    struct addrinfo *found = NULL;
    int rc = getaddrinfo(node, service, &ask, &found);
    if (rc != 0) {
        PROV_LOG(FI_LOG_INFO, FI_LOG_CORE, "%s, service %s: %s\n", node != NULL ? node : "no node",
                 service != NULL ? service : "none", gai_strerror(rc));
        return -FI_ENODATA;
    }
    if ((flags & FI_SOURCE) != 0) {
        rc = set_address(nic, found->ai_addr, found->ai_addrlen, &info->src_addr, &info->src_addrlen);
    } else {
        rc = set_address(nic, found->ai_addr, found->ai_addrlen, &info->dest_addr, &info->dest_addrlen);
    }
    freeaddrinfo(found);
    return rc;
}

static int set_addresses(const struct prov_nic *nic, const char *node, const char *service, uint64_t flags,
                         const struct fi_info *hints, struct fi_info *info)
{
    int rc = 0;
    if (hints != NULL && hints->src_addr != NULL) {
        rc = set_address(nic, hints->src_addr, hints->src_addrlen, &info->src_addr, &info->src_addrlen);
    }
    if (rc == 0 && hints != NULL && hints->dest_addr != NULL) {
        rc = set_address(nic, hints->dest_addr, hints->dest_addrlen, &info->dest_addr, &info->dest_addrlen);
    }
    if (rc == 0 && (node != NULL || service != NULL)) {
        rc = look_up(nic, node, service, flags, info);
    }
    if (rc == 0 && info->src_addr == NULL) {
        size_t room = sizeof(struct sockaddr_in6);
        info->src_addr = malloc(room);
        if (info->src_addr == NULL) {
            return -FI_ENOMEM;
        }
        (void)prov_address_copy(nic, nic->host, 0, info->src_addr, &room);
        info->src_addrlen = room;
    }
    return rc;
}

/* The offer of a device for one type of endpoint, or NULL. */
static struct fi_info *ask_device(struct prov_nic *nic, enum fi_ep_type type, uint32_t version,
                                  const char *node, const char *service, uint64_t flags,
                                  const struct fi_info *hints)
{
    struct fi_info *info = offer(nic, version, hints, type);
    if (info == NULL) {
        return NULL;
    }
    const char *why = unfit(hints, version, info);
    if (why != NULL) {
        PROV_LOG(FI_LOG_INFO, FI_LOG_CORE, "%s, %s: the hints do not fit: %s\n", nic->name,
                 type == FI_EP_RDM ? "datagrams" : "connections", why);
    }
    if (why != NULL || set_addresses(nic, node, service, flags, hints, info) != 0) {
        prov_info_free(info);
        return NULL;
    }
    info->handle = hints != NULL ? hints->handle : NULL;
    return info;
}

struct fi_info *prov_link_info(struct prov_nic *nic, const void *address, size_t bytes)
{
    struct fi_info *hints = prov_info_dup(NULL);
    struct fi_info *info = NULL;
    if (hints == NULL) {
        return NULL;
    }
    hints->caps = FI_MSG | FI_RMA;
    hints->domain_attr->mr_mode = BASIC | FI_MR_LOCAL;
    hints->tx_attr->size = RDM_SENDS;
    hints->rx_attr->size = RDM_RECEIVES;
    info = ask_device(nic, FI_EP_MSG, FI_VERSION(1, 5), NULL, NULL, 0, hints);
    if (info != NULL && address != NULL &&
        set_address(nic, address, bytes, &info->src_addr, &info->src_addrlen) != 0) {
        prov_info_free(info);
        info = NULL;
    }
    prov_info_free(hints);
    return info;
}

int prov_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                 const struct fi_info *hints, struct fi_info **info)
{
    const char *wanted = hints != NULL && hints->domain_attr != NULL ? hints->domain_attr->name : NULL;
    enum fi_ep_type type = prov_offers_datagrams() ? FI_EP_RDM : FI_EP_MSG;
    struct fi_info **end = info;
    char *rest = NULL;
    char *names = strdup(prov_devices());
    if (names == NULL) {
        return -FI_ENOMEM;
    }
    *info = NULL;
    for (char *name = strtok_r(names, ",", &rest); name != NULL; name = strtok_r(NULL, ",", &rest)) {
        struct prov_nic *nic = wanted == NULL || strcmp(wanted, name) == 0 ? prov_nic_find(name) : NULL;
        *end = nic != NULL ? ask_device(nic, type, version, node, service, flags, hints) : NULL;
        if (*end != NULL) {
            end = &(*end)->next;
        }
    }
    free(names);
    return *info != NULL ? 0 : -FI_ENODATA;
}
