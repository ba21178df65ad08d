/* SPDX-License-Identifier: MIT */
/* Fabrics: a fabric is a device, by its name. */
#include <stdlib.h>
#include <string.h>

#include "provider.h"

static int fabric_close(struct fid *fid)
{
    struct prov_fabric *fabric = container_of(fid, struct prov_fabric, fid.fid);
    prov_nic_lock(fabric->nic);
    unsigned users = fabric->users;
    prov_nic_unlock(fabric->nic);
    if (users > 0) {
        return -FI_EBUSY;
    }
    prov_nic_close(fabric->nic);
    free(fabric);
    return 0;
}

static int fabric_trywait(struct fid_fabric *fid, struct fid **fids, int count)
{
    struct prov_fabric *fabric = container_of(fid, struct prov_fabric, fid);
    int rc = 0;
    prov_nic_lock(fabric->nic);
    for (int i = 0; i < count && rc == 0; i++) {
        if (fids[i]->fclass == FI_CLASS_CQ) {
            rc = prov_cq_ready(container_of(fids[i], struct prov_cq, fid.fid)) ? -FI_EAGAIN : 0;
        } else if (fids[i]->fclass == FI_CLASS_EQ) {
            rc = prov_eq_ready(container_of(fids[i], struct prov_eq, fid.fid)) ? -FI_EAGAIN : 0;
        } else {
            rc = -FI_EINVAL;
        }
    }
    prov_nic_unlock(fabric->nic);
    return rc;
}

static int no_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attributes, struct fid_wait **wait)
{
    (void)fabric;
    (void)attributes;
    (void)wait;
    return -FI_ENOSYS;
}

static struct fi_ops fabric_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = fabric_close,
    .bind = prov_no_bind,
    .control = prov_no_control,
    .ops_open = prov_no_ops_open,
};

static struct fi_ops_fabric fabric_ops = {
    .size = sizeof(struct fi_ops_fabric),
    .domain = prov_domain_open,
    .passive_ep = prov_pep_open,
    .eq_open = prov_eq_open,
    .wait_open = no_wait_open,
    .trywait = fabric_trywait,
};

int prov_fabric_open(struct fi_fabric_attr *attributes, struct fid_fabric **out, void *context)
{
    struct prov_nic *nic = attributes->name != NULL ? prov_nic_find(attributes->name) : NULL;
    if (nic == NULL) {
        return -FI_ENODATA;
    }
    struct prov_fabric *fabric = calloc(1, sizeof(*fabric));
    if (fabric == NULL) {
        return -FI_ENOMEM;
    }
    int rc = prov_nic_open(nic);
    if (rc != 0) {
        free(fabric);
        return rc;
    }
    fabric->nic = nic;
    fabric->fid.fid.fclass = FI_CLASS_FABRIC;
    fabric->fid.fid.context = context;
    fabric->fid.fid.ops = &fabric_fid_ops;
    fabric->fid.ops = &fabric_ops;
    fabric->fid.api_version = attributes->api_version;
    *out = &fabric->fid;
    return 0;
}
