/* SPDX-License-Identifier: MIT */
/*
 * The operations between core and a backend. Each one checks the contract (in debug builds),
 * applies the faults of the plan, calls the backend's operation, and writes the trace. The area of
 * a VI or of a connection request belongs to the backend; the hook keeps its own data, of bounded
 * size, in struct hook_nic.
 */
#include "hook/hook.h"

#include "base/config.h"
#include "core/backend_up.h"
#include "core/nic.h"
#include "core/vi.h"
#include "hook/check.h"
#include "hook/faults.h"
#include "hook/plan.h"
#include "hook/trace.h"
#include "os/os_compiler.h"

/* An opened device with the hook around it. */
struct hook_nic {
    struct vipl_nic *core;          /* constant */
    struct vipl_backend table;      /* constant: the operations that core calls */
    const struct vipl_backend *ops; /* constant: the backend's operations */
    struct vipl_be_nic *be;         /* constant: the backend's opened device */
    bool watches_sends;             /* constant: sends are traced, or there is a plan */
    struct vipl_plan plan;
    struct vipl_trace trace;
    struct vipl_checks checks;
};

/* The hook of the vipl_be_nic that core has. */
static struct hook_nic *hook_of(struct vipl_be_nic *be)
{
    return (struct hook_nic *)(void *)be;
}

/* --- the device --- */

static VIP_RETURN hook_open_again(struct vipl_nic *nic, const char *device, struct vipl_be_nic **out)
{
    (void)nic;
    (void)device;
    (void)out;
    return VIP_ERROR_NOT_SUPPORTED; /* not called: vipl_hook_open() opens the device */
}

static void hook_abandon(void)
{
    /* Not called: core calls abandon() of each backend. */
}

static void hook_close(struct vipl_be_nic *be)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_unlocked("close");
    vipl_check_close(&hook->checks);
    hook->ops->close(hook->be);
    vipl_trace(&hook->trace, VIPL_TRACED_CLOSE, NULL, "ends");
    vipl_trace_close(&hook->trace);
    vipl_free(hook);
}

static void hook_limits(struct vipl_be_nic *be, struct vipl_limits *out)
{
    struct hook_nic *hook = hook_of(be);
    struct vipl_address address;
    vipl_check_unlocked("limits");
    hook->ops->limits(hook->be, out);
    hook->ops->address(hook->be, &address);
    vipl_check_limits(out, &address);
    if (vipl_faults_has(&hook->plan.faults, VIPL_FAULT_RDMAREAD)) {
        out->rdma_read_levels = 0;
    }
    vipl_trace(&hook->trace, VIPL_TRACED_LIMITS, NULL, "levels=%u rdma_read=%u max_transfer=%u",
               (unsigned)out->reliability_levels, (unsigned)out->rdma_read_levels,
               (unsigned)out->max_transfer_size);
}

static void hook_address(struct vipl_be_nic *be, struct vipl_address *out)
{
    struct hook_nic *hook = hook_of(be);
    hook->ops->address(hook->be, out);
    vipl_trace(&hook->trace, VIPL_TRACED_ADDRESS, NULL, "host_bytes=%u", (unsigned)out->host_len);
}

static VIP_RETURN hook_resolve(struct vipl_be_nic *be, const char *name, uint32_t index,
                               struct vipl_address *out)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_unlocked("resolve");
    VIP_RETURN rc = vipl_faults_strikes(&hook->plan.faults, VIPL_FAULT_NAMES)
                        ? VIP_ERROR_NAMESERVICE
                        : hook->ops->resolve(hook->be, name, index, out);
    vipl_trace(&hook->trace, VIPL_TRACED_RESOLVE, NULL, "name=%s index=%u -> %s", name, (unsigned)index,
               vipl_trace_code(rc));
    return rc;
}

static VIP_RETURN hook_reverse(struct vipl_be_nic *be, const struct vipl_address *host, char *name,
                               size_t size)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_unlocked("reverse");
    VIP_RETURN rc = vipl_faults_strikes(&hook->plan.faults, VIPL_FAULT_NAMES)
                        ? VIP_ERROR_NAMESERVICE
                        : hook->ops->reverse(hook->be, host, name, size);
    vipl_trace(&hook->trace, VIPL_TRACED_REVERSE, NULL, "host_bytes=%u -> %s", (unsigned)host->host_len,
               vipl_trace_code(rc));
    return rc;
}

/* --- memory and VIs --- */

static VIP_RETURN hook_region_add(struct vipl_be_nic *be, struct vipl_region_params *region)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_unlocked("region_add");
    VIP_RETURN rc = vipl_faults_strikes(&hook->plan.faults, VIPL_FAULT_RESOURCE)
                        ? VIP_ERROR_RESOURCE
                        : hook->ops->region_add(hook->be, region);
    if (rc == VIP_SUCCESS) {
        vipl_check_handle(region->handle);
    }
    vipl_trace(&hook->trace, VIPL_TRACED_REGION_ADD, NULL,
               "address=%p bytes=%zu handle=0x%x tag=%u write=%d read=%d -> %s", region->address,
               region->bytes, (unsigned)region->handle, (unsigned)region->tag, (int)region->rdma_write,
               (int)region->rdma_read, vipl_trace_code(rc));
    return rc;
}

static VIP_RETURN hook_region_remove(struct vipl_be_nic *be, VIP_MEM_HANDLE handle)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_unlocked("region_remove");
    VIP_RETURN rc = hook->ops->region_remove(hook->be, handle);
    vipl_trace(&hook->trace, VIPL_TRACED_REGION_REMOVE, NULL, "handle=0x%x -> %s", (unsigned)handle,
               vipl_trace_code(rc));
    return rc;
}

static VIP_RETURN hook_regions_end(struct vipl_be_nic *be)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_unlocked("regions_end");
    VIP_RETURN rc = hook->ops->regions_end(hook->be);
    vipl_trace(&hook->trace, VIPL_TRACED_REGIONS_END, NULL, "-> %s", vipl_trace_code(rc));
    return rc;
}

static VIP_RETURN hook_region_change(struct vipl_be_nic *be, const struct vipl_region_params *region)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_unlocked("region_change");
    VIP_RETURN rc = vipl_faults_strikes(&hook->plan.faults, VIPL_FAULT_RESOURCE)
                        ? VIP_ERROR_RESOURCE
                        : hook->ops->region_change(hook->be, region);
    vipl_trace(&hook->trace, VIPL_TRACED_REGION_CHANGE, NULL, "handle=0x%x tag=%u write=%d read=%d -> %s",
               (unsigned)region->handle, (unsigned)region->tag, (int)region->rdma_write,
               (int)region->rdma_read, vipl_trace_code(rc));
    return rc;
}

static VIP_RETURN hook_memory_alloc(struct vipl_be_nic *be, size_t bytes, VIPX_DEVICE_MEMORY kind, void **out)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_unlocked("memory_alloc");
    VIP_RETURN rc = vipl_faults_strikes(&hook->plan.faults, VIPL_FAULT_RESOURCE)
                        ? VIP_ERROR_RESOURCE
                        : hook->ops->memory_alloc(hook->be, bytes, kind, out);
    if (rc == VIP_SUCCESS) {
        vipl_check_memory(*out);
    }
    vipl_trace(&hook->trace, VIPL_TRACED_MEMORY_ALLOC, NULL, "bytes=%zu kind=%d -> %s", bytes, (int)kind,
               vipl_trace_code(rc));
    return rc;
}

static VIP_RETURN hook_memory_free(struct vipl_be_nic *be, void *address)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_unlocked("memory_free");
    VIP_RETURN rc = hook->ops->memory_free(hook->be, address);
    vipl_trace(&hook->trace, VIPL_TRACED_MEMORY_FREE, NULL, "address=%p -> %s", address, vipl_trace_code(rc));
    return rc;
}

static VIP_RETURN hook_vi_create(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_unlocked("vi_create");
    VIP_RETURN rc = vipl_faults_strikes(&hook->plan.faults, VIPL_FAULT_RESOURCE)
                        ? VIP_ERROR_RESOURCE
                        : hook->ops->vi_create(hook->be, vi);
    if (rc == VIP_SUCCESS) {
        vipl_check_created(&hook->checks);
    }
    vipl_trace(&hook->trace, VIPL_TRACED_VI_CREATE, vi, "-> %s", vipl_trace_code(rc));
    return rc;
}

static void hook_vi_destroy(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_unlocked("vi_destroy");
    vipl_check_destroy(&hook->checks, vi);
    vipl_trace(&hook->trace, VIPL_TRACED_VI_DESTROY, vi, "begins");
    hook->ops->vi_destroy(hook->be, vi);
}

/* --- connections --- */

/* Starts the service thread for a NIC handle that connects, if the plan delays sends: a delayed
 * send goes on when the device is polled, and the service thread polls if the program does not. */
static void prepare_delays(struct hook_nic *hook)
{
    if (vipl_faults_has(&hook->plan.faults, VIPL_FAULT_DELAY)) {
        (void)vipl_up_need_service(hook->core); /* on failure the calls of the program poll */
    }
}

static VIP_RETURN hook_listen(struct vipl_be_nic *be, const struct vipl_address *local)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_unlocked("listen");
    vipl_check_listens(&hook->checks); /* before the call, in which a signal handler may fork */
    prepare_delays(hook);
    VIP_RETURN rc = vipl_faults_strikes(&hook->plan.faults, VIPL_FAULT_RESOURCE)
                        ? VIP_ERROR_RESOURCE
                        : hook->ops->listen(hook->be, local);
    if (rc != VIP_SUCCESS) {
        vipl_check_unlistens(&hook->checks);
    }
    vipl_trace(&hook->trace, VIPL_TRACED_LISTEN, NULL, "discriminator_bytes=%u -> %s",
               (unsigned)local->disc_len, vipl_trace_code(rc));
    return rc;
}

static void hook_unlisten(struct vipl_be_nic *be, const struct vipl_address *local)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_unlocked("unlisten");
    vipl_check_unlistens(&hook->checks);
    hook->ops->unlisten(hook->be, local);
    vipl_trace(&hook->trace, VIPL_TRACED_UNLISTEN, NULL, "discriminator_bytes=%u", (unsigned)local->disc_len);
}

static void hook_conns_look(struct vipl_be_nic *be)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_unlocked("conns_look");
    hook->ops->conns_look(hook->be);
}

static VIP_RETURN hook_connect(struct vipl_be_nic *be, struct vipl_vi *vi, const struct vipl_address *local,
                               const struct vipl_address *remote, enum vipl_connect_kind kind)
{
    struct hook_nic *hook = hook_of(be);
    bool resource = vipl_faults_strikes(&hook->plan.faults, VIPL_FAULT_RESOURCE);
    bool reach = vipl_faults_strikes(&hook->plan.faults, VIPL_FAULT_REACH);
    VIP_RETURN rc = resource ? VIP_ERROR_RESOURCE : VIP_NOT_REACHABLE;
    vipl_check_unlocked("connect");
    prepare_delays(hook);
    if (!resource && !reach) {
        vipl_check_connect_begins(&hook->checks, vi);
        rc = hook->ops->connect(hook->be, vi, local, remote, kind);
        vipl_check_connect_ends(&hook->checks, vi);
    }
    vipl_trace(&hook->trace, VIPL_TRACED_CONNECT, vi, "discriminator_bytes=%u peer=%d -> %s",
               (unsigned)remote->disc_len, (int)(kind == VIPL_CONNECT_PEER), vipl_trace_code(rc));
    return rc;
}

static VIP_RETURN hook_connect_cancel(struct vipl_be_nic *be, struct vipl_vi *vi, bool withdrawn)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_unlocked("connect_cancel");
    VIP_RETURN rc = hook->ops->connect_cancel(hook->be, vi, withdrawn);
    vipl_check_code("connect_cancel", rc,
                    1u << VIP_SUCCESS | 1u << VIP_TIMEOUT | 1u << VIP_NO_MATCH | 1u << VIP_NOT_REACHABLE |
                        1u << VIP_ERROR_RESOURCE);
    vipl_trace(&hook->trace, VIPL_TRACED_CONNECT_CANCEL, vi, "-> %s", vipl_trace_code(rc));
    return rc;
}

static bool hook_conn_taken(struct vipl_be_nic *be, struct vipl_conn *conn)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_unlocked("conn_taken");
    bool taken = hook->ops->conn_taken(hook->be, conn);
    vipl_trace(&hook->trace, VIPL_TRACED_CONN_TAKEN, NULL, "conn=%p -> %d", (void *)conn, (int)taken);
    return taken;
}

static VIP_RETURN hook_conn_accept(struct vipl_be_nic *be, struct vipl_conn *conn, struct vipl_vi *vi)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_unlocked("conn_accept");
    VIP_RETURN rc = vipl_faults_strikes(&hook->plan.faults, VIPL_FAULT_RESOURCE)
                        ? VIP_ERROR_RESOURCE
                        : hook->ops->conn_accept(hook->be, conn, vi);
    vipl_check_code("conn_accept", rc, 1u << VIP_SUCCESS | 1u << VIP_TIMEOUT | 1u << VIP_ERROR_RESOURCE);
    vipl_trace(&hook->trace, VIPL_TRACED_CONN_ACCEPT, vi, "conn=%p -> %s", (void *)conn, vipl_trace_code(rc));
    return rc;
}

static void hook_conn_reject(struct vipl_be_nic *be, struct vipl_conn *conn, bool answer)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_unlocked("conn_reject");
    vipl_trace(&hook->trace, VIPL_TRACED_CONN_REJECT, NULL, "conn=%p answer=%d", (void *)conn, (int)answer);
    hook->ops->conn_reject(hook->be, conn, answer);
}

static void hook_revoke(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_revoke(vi);
    vipl_plan_revoke(&hook->plan, vi);
    vipl_trace(&hook->trace, VIPL_TRACED_REVOKE, vi, "handle=%p", vi->handle);
    hook->ops->revoke(hook->be, vi);
}

static void hook_quiesce(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_unlocked("quiesce");
    vipl_check_held("quiesce", vi);
    vipl_trace(&hook->trace, VIPL_TRACED_QUIESCE, vi, "begins");
    hook->ops->quiesce(hook->be, vi);
    vipl_trace(&hook->trace, VIPL_TRACED_QUIESCE, vi, "ends");
}

static bool hook_is_answering(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    struct hook_nic *hook = hook_of(be);
    return hook->ops->is_answering(hook->be, vi);
}

static void hook_disconnect(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_unlocked("disconnect");
    vipl_trace(&hook->trace, VIPL_TRACED_DISCONNECT, vi, "begins");
    hook->ops->disconnect(hook->be, vi);
}

static const char *const posted_names[] = {"DONE", "PENDING", "AGAIN"};

/* What a trace says of a send. */
struct traced_send {
    uint16_t op;
    uint32_t sequence;
    size_t bytes;
    uint32_t status;
    enum vipl_posted posted;
};

/* Traces a send and its result. The VI's send lock is held. */
static void trace_send(struct hook_nic *hook, struct vipl_vi *vi, const struct traced_send *send)
{
    static const char *const op_names[] = {"send", "rdma_write", "rdma_read"};
    vipl_trace(&hook->trace, VIPL_TRACED_POST_SEND, vi,
               "handle=%p op=%s sequence=%u bytes=%zu -> %s status=0x%x", vi->handle, op_names[send->op],
               (unsigned)send->sequence, send->bytes, posted_names[send->posted], (unsigned)send->status);
}

static VIPL_NOINLINE enum vipl_posted watch_send(struct hook_nic *hook, struct vipl_vi *vi,
                                                 struct vipl_send *send)
{
    enum vipl_posted posted = hook->plan.faults.count == 0
                                  ? hook->ops->post_send(hook->be, vi, send)
                                  : vipl_plan_send(&hook->plan, hook->ops, hook->be, vi, send);
    trace_send(hook, vi,
               &(struct traced_send){send->op, send->sequence, send->local.bytes, send->status, posted});
    return posted;
}

static enum vipl_posted hook_post_send(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_send *send)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_send(vi, send);
    enum vipl_posted posted = VIPL_LIKELY(!hook->watches_sends) ? hook->ops->post_send(hook->be, vi, send)
                                                                : watch_send(hook, vi, send);
    vipl_check_send_posted(send, posted);
    return posted;
}

/* Notes a send that send_short() or rdma_short() has completed, and traces it like any other send.
 * The queue is idle, and the send is not posted yet. */
static VIPL_NOINLINE bool note_short(struct hook_nic *hook, struct vipl_vi *vi, uint16_t op, size_t bytes)
{
    vipl_plan_passed(vi);
    if (vipl_trace_has(&hook->trace, VIPL_TRACED_POST_SEND)) {
        trace_send(hook, vi, &(struct traced_send){op, vi->send.executed, bytes, 0, VIPL_POSTED_DONE});
    }
    return true;
}

static bool hook_send_short(struct vipl_be_nic *be, struct vipl_vi *vi, const void *from, size_t bytes,
                            bool has_unreaped)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_short(vi, bytes);
    if (VIPL_LIKELY(!hook->watches_sends)) {
        return hook->ops->send_short(hook->be, vi, from, bytes, has_unreaped);
    }
    return vipl_plan_passes(&hook->plan, vi) &&
           hook->ops->send_short(hook->be, vi, from, bytes, has_unreaped) &&
           note_short(hook, vi, VIP_CONTROL_OP_SENDRECV, bytes);
}

static bool hook_rdma_short(struct vipl_be_nic *be, struct vipl_vi *vi, const struct vipl_rdma *rdma)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_short(vi, rdma->bytes);
    if (VIPL_LIKELY(!hook->watches_sends)) {
        return hook->ops->rdma_short(hook->be, vi, rdma);
    }
    return vipl_plan_passes(&hook->plan, vi) && hook->ops->rdma_short(hook->be, vi, rdma) &&
           note_short(hook, vi, rdma->write ? VIP_CONTROL_OP_RDMAWRITE : VIP_CONTROL_OP_RDMAREAD,
                      rdma->bytes);
}

static enum vipl_posted hook_post_recv(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_recv *recv)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_recv(vi, recv);
    enum vipl_posted posted = hook->ops->post_recv(hook->be, vi, recv);
    vipl_check_recv_posted(posted);
    vipl_trace(&hook->trace, VIPL_TRACED_POST_RECV, vi, "handle=%p sequence=%u bytes=%zu invalid=%d -> %s",
               vi->handle, (unsigned)recv->sequence, recv->local.bytes, (int)recv->invalid,
               posted_names[posted]);
    return posted;
}

/* --- progress: not traced, since there are thousands of such calls per millisecond --- */

static void hook_poll(struct vipl_be_nic *be)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_unlocked("poll");
    hook->ops->poll(hook->be);
    if (VIPL_UNLIKELY(vipl_plan_waits(&hook->plan))) {
        vipl_plan_polled(&hook->plan);
    }
}

static void hook_flush_deferred(struct vipl_be_nic *be)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_unlocked("flush_deferred");
    hook->ops->flush_deferred(hook->be);
}

static uint32_t hook_poll_epoch(struct vipl_be_nic *be)
{
    struct hook_nic *hook = hook_of(be);
    return hook->ops->poll_epoch(hook->be);
}

static void hook_prepare_wait(struct vipl_be_nic *be, struct vipl_poll_hint *hint)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_unlocked("prepare_wait");
    hook->ops->prepare_wait(hook->be, hint);
    if (vipl_plan_waits(&hook->plan)) {
        hint->ms = 0; /* no sleep, because a delay is a number of polls */
    }
}

static void hook_finish_wait(struct vipl_be_nic *be, const struct vipl_poll_hint *hint)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_unlocked("finish_wait");
    hook->ops->finish_wait(hook->be, hint);
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
    .conns_look = hook_conns_look,
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

static void hook_describe(struct vipl_be_nic *be, VIPX_DEVICE_PROPERTIES *out)
{
    struct hook_nic *hook = hook_of(be);
    vipl_check_unlocked("describe");
    hook->ops->describe(hook->be, out);
    vipl_check_properties(out);
    vipl_trace(&hook->trace, VIPL_TRACED_DESCRIBE, NULL, "properties=%u", (unsigned)out->Count);
}

static struct vipl_poll_filter *hook_poll_filter(struct vipl_be_nic *be)
{
    struct hook_nic *hook = hook_of(be);
    return hook->plan.poll_filter = hook->ops->poll_filter(hook->be);
}

/* Fills the table with the operations above, except the optional ones that the backend does not
 * have. So a message takes the same path with a trace or a plan as without. */
static void fill_table(struct vipl_backend *table, const struct vipl_backend *backend)
{
    *table = hook_ops;
    table->chooses_handles = backend->chooses_handles;
    table->describe = backend->describe == NULL ? NULL : hook_describe;
    table->memory_alloc = backend->memory_alloc == NULL ? NULL : hook_memory_alloc;
    table->memory_free = backend->memory_free == NULL ? NULL : hook_memory_free;
    table->quiesce = backend->quiesce == NULL ? NULL : hook_quiesce;
    table->is_answering = backend->is_answering == NULL ? NULL : hook_is_answering;
    table->post_recv = backend->post_recv == NULL ? NULL : hook_post_recv;
    table->flush_deferred = backend->flush_deferred == NULL ? NULL : hook_flush_deferred;
    table->poll_epoch = backend->poll_epoch == NULL ? NULL : hook_poll_epoch;
    table->send_short = backend->send_short == NULL ? NULL : hook_send_short;
    table->rdma_short = backend->rdma_short == NULL ? NULL : hook_rdma_short;
    table->poll_filter = backend->poll_filter == NULL ? NULL : hook_poll_filter;
}

/* Opens the trace. Not inlined, to keep `only` off the stack of vipl_hook_open(). */
static VIPL_NOINLINE void begin_trace(struct hook_nic *hook, const char *path)
{
    char only[512];
    (void)vipl_config_text("VIPL_TRACE_OPS", only, sizeof(only)); /* not set: "" */
    vipl_trace_open(&hook->trace, path, only, hook->core->public_handle);
}

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
    struct hook_nic *hook = vipl_zalloc(sizeof(*hook));
    if (hook == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    hook->core = nic;
    hook->ops = backend;
    fill_table(&hook->table, backend);
    vipl_plan_init(&hook->plan, nic, plan);
    vipl_checks_init(&hook->checks);
    hook->trace.fd = -1;
    if (traced) {
        begin_trace(hook, path);
    }
    hook->watches_sends = hook->plan.faults.count > 0 || vipl_trace_has(&hook->trace, VIPL_TRACED_POST_SEND);
    vipl_check_unlocked("open");
    vipl_check_table(backend);
    VIP_RETURN rc = vipl_faults_strikes(&hook->plan.faults, VIPL_FAULT_RESOURCE)
                        ? VIP_ERROR_RESOURCE
                        : backend->open(nic, device, &hook->be);
    vipl_trace(&hook->trace, VIPL_TRACED_OPEN, NULL, "device=%s%s%s -> %s", backend->name,
               device[0] == '\0' ? "" : ":", device, vipl_trace_code(rc));
    if (rc != VIP_SUCCESS) {
        vipl_trace_close(&hook->trace);
        vipl_free(hook);
        return rc;
    }
    *ops = &hook->table;
    *be = (struct vipl_be_nic *)(void *)hook;
    return VIP_SUCCESS;
}
