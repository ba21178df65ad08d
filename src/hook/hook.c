/* SPDX-License-Identifier: MIT */
/*
 * The table between core and a backend: each operation checks (debug builds), strikes with what the
 * fault plan has for it, calls the backend's operation, and writes the trace. An area of a VI or of a
 * connection request stays the backend's; the hook's own part is in its NIC, of bounded size.
 */
#include "hook/hook.h"

#include "base/config.h"
#include "core/backend_up.h"
#include "core/nic.h"
#include "core/vi.h"
#include "hook/hook_nic.h"

/* --- the device --- */

static VIP_RETURN hook_open_again(struct vipl_nic *nic, const char *device, struct vipl_be_nic **out)
{
    (void)nic;
    (void)device;
    (void)out;
    return VIP_ERROR_NOT_SUPPORTED; /* vipl_hook_open() opens */
}

static void hook_abandon(void)
{
    /* Core asks the backends themselves. */
}

static void hook_close(struct vipl_be_nic *be)
{
    vipl_check_unlocked("close");
    vipl_check_close(&be->checks);
    be->ops->close(be->be);
    vipl_trace(&be->trace, "close", NULL, "ends");
    vipl_trace_close(&be->trace);
    vipl_free(be);
}

static void hook_limits(struct vipl_be_nic *be, struct vipl_limits *out)
{
    struct vipl_address address;
    vipl_check_unlocked("limits");
    be->ops->limits(be->be, out);
    be->ops->address(be->be, &address);
    vipl_check_limits(out, &address);
    if (vipl_faults_has(&be->faults, VIPL_FAULT_RDMAREAD)) {
        out->rdma_read_levels = 0;
    }
    vipl_trace(&be->trace, "limits", NULL, "levels=%u rdma_read=%u max_transfer=%u",
               (unsigned)out->reliability_levels, (unsigned)out->rdma_read_levels,
               (unsigned)out->max_transfer_size);
}

static void hook_address(struct vipl_be_nic *be, struct vipl_address *out)
{
    be->ops->address(be->be, out);
    vipl_trace(&be->trace, "address", NULL, "host_bytes=%u", (unsigned)out->host_len);
}

static VIP_RETURN hook_resolve(struct vipl_be_nic *be, const char *name, uint32_t index,
                               struct vipl_address *out)
{
    vipl_check_unlocked("resolve");
    VIP_RETURN rc = vipl_faults_strikes(&be->faults, VIPL_FAULT_NAMES)
                        ? VIP_ERROR_NAMESERVICE
                        : be->ops->resolve(be->be, name, index, out);
    vipl_trace(&be->trace, "resolve", NULL, "name=%s index=%u -> %s", name, (unsigned)index,
               vipl_trace_code(rc));
    return rc;
}

static VIP_RETURN hook_reverse(struct vipl_be_nic *be, const struct vipl_address *host, char *name,
                               size_t size)
{
    vipl_check_unlocked("reverse");
    VIP_RETURN rc = vipl_faults_strikes(&be->faults, VIPL_FAULT_NAMES)
                        ? VIP_ERROR_NAMESERVICE
                        : be->ops->reverse(be->be, host, name, size);
    vipl_trace(&be->trace, "reverse", NULL, "host_bytes=%u -> %s", (unsigned)host->host_len,
               vipl_trace_code(rc));
    return rc;
}

/* --- memory and VIs --- */

static VIP_RETURN hook_region_add(struct vipl_be_nic *be, const struct vipl_region_params *region)
{
    vipl_check_unlocked("region_add");
    VIP_RETURN rc = vipl_faults_strikes(&be->faults, VIPL_FAULT_RESOURCE)
                        ? VIP_ERROR_RESOURCE
                        : be->ops->region_add(be->be, region);
    vipl_trace(&be->trace, "region_add", NULL,
               "address=%p bytes=%zu handle=0x%x tag=%u write=%d read=%d -> %s", region->address,
               region->bytes, (unsigned)region->handle, (unsigned)region->tag, (int)region->rdma_write,
               (int)region->rdma_read, vipl_trace_code(rc));
    return rc;
}

static VIP_RETURN hook_region_remove(struct vipl_be_nic *be, VIP_MEM_HANDLE handle)
{
    vipl_check_unlocked("region_remove");
    VIP_RETURN rc = be->ops->region_remove(be->be, handle);
    vipl_trace(&be->trace, "region_remove", NULL, "handle=0x%x -> %s", (unsigned)handle, vipl_trace_code(rc));
    return rc;
}

static VIP_RETURN hook_regions_end(struct vipl_be_nic *be)
{
    vipl_check_unlocked("regions_end");
    VIP_RETURN rc = be->ops->regions_end(be->be);
    vipl_trace(&be->trace, "regions_end", NULL, "-> %s", vipl_trace_code(rc));
    return rc;
}

static VIP_RETURN hook_region_change(struct vipl_be_nic *be, const struct vipl_region_params *region)
{
    vipl_check_unlocked("region_change");
    VIP_RETURN rc = vipl_faults_strikes(&be->faults, VIPL_FAULT_RESOURCE)
                        ? VIP_ERROR_RESOURCE
                        : be->ops->region_change(be->be, region);
    vipl_trace(&be->trace, "region_change", NULL, "handle=0x%x tag=%u write=%d read=%d -> %s",
               (unsigned)region->handle, (unsigned)region->tag, (int)region->rdma_write,
               (int)region->rdma_read, vipl_trace_code(rc));
    return rc;
}

static VIP_RETURN hook_vi_create(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    vipl_check_unlocked("vi_create");
    VIP_RETURN rc = vipl_faults_strikes(&be->faults, VIPL_FAULT_RESOURCE) ? VIP_ERROR_RESOURCE
                                                                          : be->ops->vi_create(be->be, vi);
    if (rc == VIP_SUCCESS) {
        vipl_check_created(&be->checks);
    }
    vipl_trace(&be->trace, "vi_create", vi, "-> %s", vipl_trace_code(rc));
    return rc;
}

static void hook_vi_destroy(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    vipl_check_unlocked("vi_destroy");
    vipl_check_destroy(&be->checks, vi);
    vipl_delays_drop(&be->delays, vi);
    vipl_trace(&be->trace, "vi_destroy", vi, "begins");
    be->ops->vi_destroy(be->be, vi);
}

/* --- connections --- */

/* A delayed send goes on when somebody polls: who connects gets the thread that does if nobody else. */
static void prepare_delays(struct vipl_be_nic *be)
{
    if (vipl_faults_has(&be->faults, VIPL_FAULT_DELAY)) {
        (void)vipl_up_need_service(be->core); /* without it the program's own calls have to do */
    }
}

static VIP_RETURN hook_listen(struct vipl_be_nic *be, const struct vipl_address *local)
{
    vipl_check_unlocked("listen");
    prepare_delays(be);
    VIP_RETURN rc = vipl_faults_strikes(&be->faults, VIPL_FAULT_RESOURCE) ? VIP_ERROR_RESOURCE
                                                                          : be->ops->listen(be->be, local);
    vipl_trace(&be->trace, "listen", NULL, "discriminator_bytes=%u -> %s", (unsigned)local->disc_len,
               vipl_trace_code(rc));
    return rc;
}

static void hook_unlisten(struct vipl_be_nic *be, const struct vipl_address *local)
{
    vipl_check_unlocked("unlisten");
    be->ops->unlisten(be->be, local);
    vipl_trace(&be->trace, "unlisten", NULL, "discriminator_bytes=%u", (unsigned)local->disc_len);
}

static VIP_RETURN hook_connect(struct vipl_be_nic *be, struct vipl_vi *vi, const struct vipl_address *local,
                               const struct vipl_address *remote, bool peer)
{
    bool resource = vipl_faults_strikes(&be->faults, VIPL_FAULT_RESOURCE);
    bool reach = vipl_faults_strikes(&be->faults, VIPL_FAULT_REACH);
    VIP_RETURN rc = resource ? VIP_ERROR_RESOURCE : VIP_NOT_REACHABLE;
    vipl_check_unlocked("connect");
    prepare_delays(be);
    if (!resource && !reach) {
        vipl_check_connect_begins(&be->checks, vi);
        rc = be->ops->connect(be->be, vi, local, remote, peer);
        vipl_check_connect_ends(&be->checks, vi);
    }
    vipl_trace(&be->trace, "connect", vi, "discriminator_bytes=%u peer=%d -> %s", (unsigned)remote->disc_len,
               (int)peer, vipl_trace_code(rc));
    return rc;
}

static VIP_RETURN hook_connect_cancel(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    vipl_check_unlocked("connect_cancel");
    VIP_RETURN rc = be->ops->connect_cancel(be->be, vi);
    vipl_check_code("connect_cancel", rc,
                    1u << VIP_SUCCESS | 1u << VIP_TIMEOUT | 1u << VIP_NO_MATCH | 1u << VIP_NOT_REACHABLE);
    vipl_trace(&be->trace, "connect_cancel", vi, "-> %s", vipl_trace_code(rc));
    return rc;
}

static bool hook_conn_taken(struct vipl_be_nic *be, struct vipl_conn *conn)
{
    vipl_check_unlocked("conn_taken");
    bool taken = be->ops->conn_taken(be->be, conn);
    vipl_trace(&be->trace, "conn_taken", NULL, "conn=%p -> %d", (void *)conn, (int)taken);
    return taken;
}

static VIP_RETURN hook_conn_accept(struct vipl_be_nic *be, struct vipl_conn *conn, struct vipl_vi *vi)
{
    vipl_check_unlocked("conn_accept");
    VIP_RETURN rc = vipl_faults_strikes(&be->faults, VIPL_FAULT_RESOURCE)
                        ? VIP_ERROR_RESOURCE
                        : be->ops->conn_accept(be->be, conn, vi);
    vipl_check_code("conn_accept", rc, 1u << VIP_SUCCESS | 1u << VIP_TIMEOUT | 1u << VIP_ERROR_RESOURCE);
    vipl_trace(&be->trace, "conn_accept", vi, "conn=%p -> %s", (void *)conn, vipl_trace_code(rc));
    return rc;
}

static void hook_conn_reject(struct vipl_be_nic *be, struct vipl_conn *conn, bool answer)
{
    vipl_check_unlocked("conn_reject");
    vipl_trace(&be->trace, "conn_reject", NULL, "conn=%p answer=%d", (void *)conn, (int)answer);
    be->ops->conn_reject(be->be, conn, answer);
}

static void hook_revoke(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    vipl_check_revoke(vi);
    vipl_trace(&be->trace, "revoke", vi, "handle=%p", vi->handle);
    be->ops->revoke(be->be, vi);
}

static void hook_disconnect(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    vipl_check_unlocked("disconnect");
    vipl_delays_drop(&be->delays, vi);
    vipl_trace(&be->trace, "disconnect", vi, "begins");
    be->ops->disconnect(be->be, vi);
}

/* --- data: under the VI's send lock --- */

static enum vipl_posted hook_post_send(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_send *send)
{
    static const char *const op_names[] = {"send", "rdma_write", "rdma_read"};
    static const char *const posted_names[] = {"DONE", "PENDING", "AGAIN"};
    vipl_check_send(vi, send);
    enum vipl_posted posted =
        be->faults.count == 0 ? be->ops->post_send(be->be, vi, send) : vipl_hook_send(be, vi, send);
    vipl_check_sent(send, posted);
    vipl_trace(&be->trace, "post_send", vi, "handle=%p op=%s sequence=%u bytes=%zu -> %s status=0x%x",
               vi->handle, op_names[send->op], (unsigned)send->sequence, send->local.bytes,
               posted_names[posted], (unsigned)send->status);
    return posted;
}

/* --- progress: not traced, there are thousands in a moment --- */

static void hook_poll(struct vipl_be_nic *be)
{
    vipl_check_unlocked("poll");
    be->ops->poll(be->be);
    if (vipl_load_relaxed(&be->delays.waiting) > 0) {
        vipl_hook_resume(be);
    }
}

static void hook_prepare_wait(struct vipl_be_nic *be, struct vipl_poll_hint *hint)
{
    vipl_check_unlocked("prepare_wait");
    be->ops->prepare_wait(be->be, hint);
    if (vipl_load_relaxed(&be->delays.waiting) > 0) {
        hint->ms = 0; /* a delay is a number of polls */
    }
}

static void hook_finish_wait(struct vipl_be_nic *be, const struct vipl_poll_hint *hint)
{
    vipl_check_unlocked("finish_wait");
    be->ops->finish_wait(be->be, hint);
}

static const struct vipl_backend hook_ops = {
    .name = "hook",
    .open = hook_open_again,
    .close = hook_close,
    .limits = hook_limits,
    .address = hook_address,
    .resolve = hook_resolve,
    .reverse = hook_reverse,
    .abandon = hook_abandon,
    .region_add = hook_region_add,
    .region_remove = hook_region_remove,
    .region_change = hook_region_change,
    .regions_end = hook_regions_end,
    .vi_create = hook_vi_create,
    .vi_destroy = hook_vi_destroy,
    .listen = hook_listen,
    .unlisten = hook_unlisten,
    .connect = hook_connect,
    .connect_cancel = hook_connect_cancel,
    .conn_taken = hook_conn_taken,
    .conn_accept = hook_conn_accept,
    .conn_reject = hook_conn_reject,
    .revoke = hook_revoke,
    .disconnect = hook_disconnect,
    .post_send = hook_post_send,
    .poll = hook_poll,
    .prepare_wait = hook_prepare_wait,
    .finish_wait = hook_finish_wait,
};

VIP_RETURN vipl_hook_open(const struct vipl_backend *backend, struct vipl_nic *nic, const char *device,
                          const struct vipl_backend **ops, struct vipl_be_nic **be)
{
    char plan[1024];
    char path[512];
    bool faulty = vipl_config_text("VIPL_FAULTS", plan, sizeof(plan)) && plan[0] != '\0';
    bool traced = vipl_config_text("VIPL_TRACE", path, sizeof(path)) && path[0] != '\0';
    if (!VIPL_CHECKING && !faulty && !traced) {
        *ops = backend;
        return backend->open(nic, device, be);
    }
    struct vipl_be_nic *hook = vipl_zalloc(sizeof(*hook));
    if (hook == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    hook->core = nic;
    hook->ops = backend;
    vipl_faults_read(&hook->faults, plan);
    vipl_delays_init(&hook->delays);
    vipl_checks_init(&hook->checks);
    if (traced) {
        vipl_trace_open(&hook->trace, path, nic->public_handle);
    }
    vipl_check_unlocked("open");
    VIP_RETURN rc = vipl_faults_strikes(&hook->faults, VIPL_FAULT_RESOURCE)
                        ? VIP_ERROR_RESOURCE
                        : backend->open(nic, device, &hook->be);
    vipl_trace(&hook->trace, "open", NULL, "device=%s%s%s -> %s", backend->name, device[0] == '\0' ? "" : ":",
               device, vipl_trace_code(rc));
    if (rc != VIP_SUCCESS) {
        vipl_trace_close(&hook->trace);
        vipl_free(hook);
        return rc;
    }
    *ops = &hook_ops;
    *be = hook;
    return VIP_SUCCESS;
}
