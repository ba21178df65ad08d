/* SPDX-License-Identifier: MIT */
/* Address vectors: the addresses of datagram endpoints, by their index. */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rdm.h"

static struct rdm_av *av_of(struct fid_av *fid)
{
    return container_of(fid, struct rdm_av, fid);
}

fi_addr_t rdm_av_find(const struct rdm_av *av, const struct rdm_address *address)
{
    for (size_t i = 0; i < av->count; i++) {
        const struct rdm_address *one = &av->addresses[i];
        if (one->used && one->port == address->port &&
            memcmp(one->host, address->host, sizeof(one->host)) == 0) {
            return i;
        }
    }
    return FI_ADDR_NOTAVAIL;
}

/* The bytes of an address in an array of a program's. */
static size_t address_bytes(const struct prov_nic *nic)
{
    return nic->family == PROV_ETHERNET ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

/* Locked. The index of an address that is there from now on; FI_ADDR_NOTAVAIL: there is no
 * memory. */
static fi_addr_t insert(struct rdm_av *av, const struct rdm_address *address)
{
    enum { FIRST = 16 };
    fi_addr_t found = rdm_av_find(av, address);
    if (found != FI_ADDR_NOTAVAIL) {
        return found;
    }
    if (av->count == av->room) {
        size_t room = av->room == 0 ? FIRST : 2 * av->room;
        struct rdm_address *more = realloc(av->addresses, room * sizeof(*more));
        if (more == NULL) {
            return FI_ADDR_NOTAVAIL;
        }
        av->addresses = more;
        av->room = room;
    }
    av->addresses[av->count] = *address;
    av->addresses[av->count].used = true;
    return av->count++;
}

static int av_insert(struct fid_av *fid, const void *from, size_t count, fi_addr_t *out, uint64_t flags,
                     void *context)
{
    struct rdm_av *av = av_of(fid);
    struct prov_nic *nic = av->domain->nic;
    size_t bytes = address_bytes(nic);
    int inserted = 0;
    (void)context;
    if ((flags & ~(FI_MORE | FI_SYNC_ERR)) != 0) {
        return -FI_EBADFLAGS;
    }
    prov_nic_lock(nic);
    for (size_t i = 0; i < count; i++) {
        struct rdm_address address = {.port = 0};
        int rc =
            prov_address_read(nic, (const uint8_t *)from + i * bytes, bytes, address.host, &address.port);
        fi_addr_t at = rc == 0 ? insert(av, &address) : FI_ADDR_NOTAVAIL;
        rc = rc == 0 && at == FI_ADDR_NOTAVAIL ? -FI_ENOMEM : rc;
        if (out != NULL) {
            out[i] = at;
        }
        if ((flags & FI_SYNC_ERR) != 0 && context != NULL) {
            ((int *)context)[i] = -rc;
        }
        inserted += rc == 0 ? 1 : 0;
    }
    for (struct list *one = av->endpoints.next; one != &av->endpoints; one = one->next) {
        rdm_links_resolve(container_of(one, struct rdm_ep, of_av));
    }
    prov_nic_unlock(nic);
    return inserted;
}

static int av_insertsvc(struct fid_av *fid, const char *node, const char *service, fi_addr_t *out,
                        uint64_t flags, void *context)
{
    struct prov_nic *nic = av_of(fid)->domain->nic;
    const struct addrinfo ask = {.ai_family = nic->family == PROV_ETHERNET ? AF_INET6 : AF_INET,
                                 .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int rc = getaddrinfo(node, service, &ask, &found);
    if (rc != 0) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_AV, "%s, service %s: %s\n", node != NULL ? node : "no node",
                 service != NULL ? service : "none", gai_strerror(rc));
        return -FI_EINVAL;
    }
    rc = av_insert(fid, found->ai_addr, 1, out, flags, context);
    freeaddrinfo(found);
    return rc;
}

static int no_insertsym(struct fid_av *av, const char *node, size_t nodes, const char *service,
                        size_t services, fi_addr_t *out, uint64_t flags, void *context)
{
    (void)av;
    (void)node;
    (void)nodes;
    (void)service;
    (void)services;
    (void)out;
    (void)flags;
    (void)context;
    return -FI_ENOSYS;
}

static int av_remove(struct fid_av *fid, fi_addr_t *addresses, size_t count, uint64_t flags)
{
    struct rdm_av *av = av_of(fid);
    int rc = flags != 0 ? -FI_EBADFLAGS : 0;
    prov_nic_lock(av->domain->nic);
    for (size_t i = 0; i < count && rc == 0; i++) {
        if (addresses[i] >= av->count || !av->addresses[addresses[i]].used) {
            rc = -FI_EINVAL;
        } else {
            av->addresses[addresses[i]].used = false;
        }
    }
    prov_nic_unlock(av->domain->nic);
    return rc;
}

static int av_lookup(struct fid_av *fid, fi_addr_t at, void *address, size_t *bytes)
{
    struct rdm_av *av = av_of(fid);
    struct rdm_address found = {.used = false};
    prov_nic_lock(av->domain->nic);
    if (at < av->count) {
        found = av->addresses[at];
    }
    prov_nic_unlock(av->domain->nic);
    if (!found.used) {
        return -FI_EINVAL;
    }
    int rc = prov_address_copy(av->domain->nic, found.host, found.port, address, bytes);
    return rc == -FI_ETOOSMALL ? 0 : rc; /* the program sees that by the length */
}

static const char *av_straddr(struct fid_av *fid, const void *address, char *text, size_t *bytes)
{
    char host[NI_MAXHOST], service[NI_MAXSERV], whole[NI_MAXHOST + NI_MAXSERV + 1];
    if (getnameinfo(address, (socklen_t)address_bytes(av_of(fid)->domain->nic), host, sizeof(host), service,
                    sizeof(service), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return NULL;
    }
    int needed = snprintf(whole, sizeof(whole), "%s:%s", host, service) + 1;
    (void)snprintf(text, *bytes, "%s", whole);
    *bytes = (size_t)needed;
    return text;
}

static int av_close(struct fid *fid)
{
    struct rdm_av *av = container_of(fid, struct rdm_av, fid.fid);
    prov_nic_lock(av->domain->nic);
    bool busy = !list_is_alone(&av->endpoints);
    av->domain->users -= busy ? 0 : 1;
    prov_nic_unlock(av->domain->nic);
    if (busy) {
        return -FI_EBUSY;
    }
    free(av->addresses);
    free(av);
    return 0;
}

static struct fi_ops av_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = av_close,
    .bind = prov_no_bind,
    .control = prov_no_control,
    .ops_open = prov_no_ops_open,
};

static struct fi_ops_av av_ops = {
    .size = sizeof(struct fi_ops_av),
    .insert = av_insert,
    .insertsvc = av_insertsvc,
    .insertsym = no_insertsym,
    .remove = av_remove,
    .lookup = av_lookup,
    .straddr = av_straddr,
};

int rdm_av_open(struct fid_domain *fid, struct fi_av_attr *attributes, struct fid_av **out, void *context)
{
    struct prov_domain *domain = container_of(fid, struct prov_domain, fid);
    if (attributes != NULL &&
        (attributes->flags != 0 || attributes->name != NULL || attributes->rx_ctx_bits != 0)) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_AV, "address vectors have no flags, names and contexts here\n");
        return -FI_ENOSYS;
    }
    struct rdm_av *av = calloc(1, sizeof(*av));
    if (av == NULL) {
        return -FI_ENOMEM;
    }
    av->domain = domain;
    list_init(&av->endpoints);
    av->fid.fid.fclass = FI_CLASS_AV;
    av->fid.fid.context = context;
    av->fid.fid.ops = &av_fid_ops;
    av->fid.ops = &av_ops;
    if (attributes != NULL && attributes->type == FI_AV_UNSPEC) {
        attributes->type = FI_AV_TABLE;
    }
    prov_nic_lock(domain->nic);
    domain->users++;
    prov_nic_unlock(domain->nic);
    *out = &av->fid;
    return 0;
}
