/* SPDX-License-Identifier: MIT */
/* Memory regions, by VIPL's registration cache: a region that a program closes stays registered, as
 * far as the cache has room, and is found when the same memory is registered again. */
#include <stdlib.h>

#include "provider.h"

/* Of fi_mr_reg(): libfabric's own pools of buffers, which stay registered as long as the endpoint
 * lives, and which would fill the cache. libfabric calls it OFI_MR_NOCACHE, in a header that it
 * does not install. */
#define NO_CACHE ((uint64_t)1 << 60)

VIP_RETURN prov_acquire(const struct prov_domain *domain, const struct iovec *memory, uint64_t access,
                        bool once, VIPX_REGISTRATION *out)
{
    VIP_MEM_ATTRIBUTES rights = {.Ptag = domain->ptag,
                                 .EnableRdmaWrite = (access & FI_REMOTE_WRITE) != 0,
                                 .EnableRdmaRead = (access & FI_REMOTE_READ) != 0};
    return VipxAcquireMem(domain->nic->handle, memory->iov_base, memory->iov_len, &rights,
                          once || !prov_caches() ? VIPX_ONCE : 0, out);
}

VIP_MEM_HANDLE prov_mr_handle(const void *descriptor)
{
    return ((const struct prov_mr *)descriptor)->registration.Handle;
}

static int mr_close(struct fid *fid)
{
    struct prov_mr *mr = container_of(fid, struct prov_mr, fid.fid);
    VIP_RETURN rc = VipxReleaseMem(mr->domain->nic->handle, &mr->registration);
    if (rc != VIP_SUCCESS) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_MR, "a region stays registered: %s\n", VipxExplainError(rc));
        return -FI_EBUSY;
    }
    (void)__atomic_sub_fetch(&mr->domain->regions, 1, __ATOMIC_RELEASE);
    free(mr);
    return 0;
}

static struct fi_ops mr_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = mr_close,
    .bind = prov_no_bind,
    .control = prov_no_control,
    .ops_open = prov_no_ops_open,
};

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attributes, uint64_t flags,
                      struct fid_mr **out)
{
    static const uint64_t possible =
        FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    struct prov_domain *domain = container_of(fid, struct prov_domain, fid.fid);
    if (fid->fclass != FI_CLASS_DOMAIN || attributes->iov_count != 1 || attributes->mr_iov[0].iov_len == 0 ||
        (attributes->access & ~possible) != 0 || attributes->iface != FI_HMEM_SYSTEM) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_MR, "not a region: %zu pieces, access %#llx\n", attributes->iov_count,
                 (unsigned long long)attributes->access);
        return -FI_EINVAL;
    }
    struct prov_mr *mr = calloc(1, sizeof(*mr));
    if (mr == NULL) {
        return -FI_ENOMEM;
    }
    mr->domain = domain;
    VIP_RETURN rc = prov_acquire(domain, attributes->mr_iov, attributes->access, (flags & NO_CACHE) != 0,
                                 &mr->registration);
    if (rc != VIP_SUCCESS) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_MR, "%zu bytes are not registered: %s\n", attributes->mr_iov[0].iov_len,
                 VipxExplainError(rc));
        free(mr);
        return prov_error(rc);
    }
    mr->fid.fid.fclass = FI_CLASS_MR;
    mr->fid.fid.context = attributes->context;
    mr->fid.fid.ops = &mr_fid_ops;
    mr->fid.mem_desc = mr;
    mr->fid.key = mr->registration.Handle;
    (void)__atomic_add_fetch(&domain->regions, 1, __ATOMIC_RELAXED);
    *out = &mr->fid;
    return 0;
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access, uint64_t offset,
                   uint64_t requested_key, uint64_t flags, struct fid_mr **out, void *context)
{
    const struct fi_mr_attr attributes = {.mr_iov = iov,
                                          .iov_count = count,
                                          .access = access,
                                          .offset = offset,
                                          .requested_key = requested_key,
                                          .context = context};
    return mr_regattr(fid, &attributes, flags, out);
}

static int mr_reg(struct fid *fid, const void *address, size_t bytes, uint64_t access, uint64_t offset,
                  uint64_t requested_key, uint64_t flags, struct fid_mr **out, void *context)
{
    const struct iovec iov = {.iov_base = (void *)address, .iov_len = bytes};
    return mr_regv(fid, &iov, 1, access, offset, requested_key, flags, out, context);
}

struct fi_ops_mr prov_mr_ops = {
    .size = sizeof(struct fi_ops_mr),
    .reg = mr_reg,
    .regv = mr_regv,
    .regattr = mr_regattr,
};
