/* SPDX-License-Identifier: MIT */
/* Domains: a domain is a protection tag. A VI works with memory of its own domain alone. */
#include <stdlib.h>
#include <string.h>

#include "rdm.h"

static int domain_close(struct fid *fid)
{
    struct prov_domain *domain = container_of(fid, struct prov_domain, fid.fid);
    prov_nic_lock(domain->nic);
    bool busy = domain->users > 0 || __atomic_load_n(&domain->regions, __ATOMIC_ACQUIRE) > 0 ||
                VipDestroyPtag(domain->nic->handle, domain->ptag) != VIP_SUCCESS;
    if (!busy) {
        domain->fabric->users--;
    }
    prov_nic_unlock(domain->nic);
    if (busy) {
        return -FI_EBUSY;
    }
    free(domain);
    return 0;
}

static int endpoint_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context)
{
    bool is_rdm = info->ep_attr != NULL && info->ep_attr->type == FI_EP_RDM;
    return is_rdm ? rdm_ep_open(domain, info, ep, context) : prov_ep_open(domain, info, ep, context);
}

/* Connected endpoints do without. */
static int av_open(struct fid_domain *domain, struct fi_av_attr *attributes, struct fid_av **av,
                   void *context)
{
    return prov_offers_datagrams() ? rdm_av_open(domain, attributes, av, context) : -FI_ENOSYS;
}

/* Objects that endpoints do without. */

static int no_scalable_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context)
{
    (void)domain;
    (void)info;
    (void)ep;
    (void)context;
    return -FI_ENOSYS;
}

static int no_counter(struct fid_domain *domain, struct fi_cntr_attr *attributes, struct fid_cntr **counter,
                      void *context)
{
    (void)domain;
    (void)attributes;
    (void)counter;
    (void)context;
    return -FI_ENOSYS;
}

static int no_poll(struct fid_domain *domain, struct fi_poll_attr *attributes, struct fid_poll **poll)
{
    (void)domain;
    (void)attributes;
    (void)poll;
    return -FI_ENOSYS;
}

static int no_stx(struct fid_domain *domain, struct fi_tx_attr *attributes, struct fid_stx **stx,
                  void *context)
{
    (void)domain;
    (void)attributes;
    (void)stx;
    (void)context;
    return -FI_ENOSYS;
}

static int no_srx(struct fid_domain *domain, struct fi_rx_attr *attributes, struct fid_ep **srx,
                  void *context)
{
    (void)domain;
    (void)attributes;
    (void)srx;
    (void)context;
    return -FI_ENOSYS;
}

static struct fi_ops domain_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = domain_close,
    .bind = prov_no_bind,
    .control = prov_no_control,
    .ops_open = prov_no_ops_open,
};

static struct fi_ops_domain domain_ops = {
    .size = sizeof(struct fi_ops_domain),
    .av_open = av_open,
    .cq_open = prov_cq_open,
    .endpoint = endpoint_open,
    .scalable_ep = no_scalable_ep,
    .cntr_open = no_counter,
    .poll_open = no_poll,
    .stx_ctx = no_stx,
    .srx_ctx = no_srx,
};

int prov_domain_open(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **out, void *context)
{
    struct prov_fabric *fabric = container_of(fid, struct prov_fabric, fid);
    const char *name = info->domain_attr->name;
    if (name != NULL && strcmp(name, fabric->nic->name) != 0) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_DOMAIN, "the domain %s is not of the fabric %s\n", name,
                 fabric->nic->name);
        return -FI_EINVAL;
    }
    struct prov_domain *domain = calloc(1, sizeof(*domain));
    if (domain == NULL) {
        return -FI_ENOMEM;
    }
    VIP_RETURN rc = VipCreatePtag(fabric->nic->handle, &domain->ptag);
    if (rc != VIP_SUCCESS) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_DOMAIN, "no protection tag: %s\n", VipxExplainError(rc));
        free(domain);
        return prov_error(rc);
    }
    domain->fabric = fabric;
    domain->nic = fabric->nic;
    domain->fid.fid.fclass = FI_CLASS_DOMAIN;
    domain->fid.fid.context = context;
    domain->fid.fid.ops = &domain_fid_ops;
    domain->fid.ops = &domain_ops;
    domain->fid.mr = &prov_mr_ops;
    prov_nic_lock(domain->nic);
    fabric->users++;
    prov_nic_unlock(domain->nic);
    *out = &domain->fid;
    return 0;
}
