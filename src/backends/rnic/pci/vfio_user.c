/* SPDX-License-Identifier: MIT */
/*
 * A function of the card that an adapter process serves over vfio-user. The adapter accesses this
 * program's memory directly where it can: slabs are shared memory; other memory is read and written
 * through this process's /proc/self/mem, which is tested first. If that does not show the memory as
 * this program sees it, the adapter sends requests, which a thread of this process serves. The
 * adapter also sends requests for memory that the program could not read and write when it was
 * mapped, because /proc/self/mem ignores protection, and for memory that the system hides, which
 * /proc/self/mem does not contain. With VIPL_SAFE_COPY it sends requests for all memory.
 */
#include <errno.h>
#include <string.h>

#include "backends/rnic/pci/maps.h"
#include "backends/rnic/pci/pci.h"
#include "backends/rnic/pci/start.h"
#include "base/deadline.h"
#include "base/iov.h"
#include "base/list.h"
#include "base/little.h"
#include "base/lock_rank.h"
#include "base/log.h"
#include "os/os.h"
#include "os/os_atomic.h"
#include "rnic/registers.h"
#include "vfio_user/client.h"

enum {
    COOKIE_BYTES = 8,
    ATTEMPTS = 5,
    MAX_PARTS = 16 /* of a mapping that the adapter reaches by itself; the rest it asks for */
};

struct function {
    struct rnic_pci pci;
    struct vfu_client client;
    struct rnic_maps maps; /* what the adapter may ask for */
    /* constant once it is open, as all that follows but the last */
    struct vipl_shm bar2;
    struct vipl_shm bar4;             /* device memory; base NULL: there is none */
    int events[RNIC_VECTORS];         /* -1: none yet; a child has no copies of them */
    uint32_t generation;              /* of forks, when the function was opened */
    uint8_t cookie[2 * COOKIE_BYTES]; /* the adapter writes there: see prove_memory() */
    bool by_file;                     /* the adapter has this process's memory */
    struct vipl_thread thread;        /* answers the adapter, if has_thread */
    struct vipl_waker end;            /* of the thread */
    uint32_t has_thread;              /* atomic; set under thread_lock */
    struct vipl_mutex thread_lock;    /* rank VIPL_RANK_RNIC_PCI: one thread is started */
    uint32_t checked_at;              /* see rnic_pci_check_is_due() */
};

static struct function *function_of(struct rnic_pci *pci)
{
    return VIPL_CONTAINER(pci, struct function, pci);
}

/* --- registers --- */

static int read_region(struct function *f, unsigned region, uint32_t offset, unsigned bytes, uint32_t *value)
{
    uint8_t payload[VFU_ACCESS_BYTES];
    uint8_t reply[VFU_ACCESS_BYTES + sizeof(*value)];
    struct vfu_request request = {.command = VFU_REGION_READ,
                                  .payload = payload,
                                  .bytes = sizeof(payload),
                                  .reply = reply,
                                  .reply_bytes = VFU_ACCESS_BYTES + bytes};
    vfu_access_write(payload, &(struct vfu_access){offset, region, bytes});
    int error = vfu_client_ask(&f->client, &request);
    if (error == 0) {
        *value = (uint32_t)vipl_get_little(reply + VFU_ACCESS_BYTES, bytes);
    }
    return error;
}

static void write_region(struct function *f, unsigned region, uint32_t offset, unsigned bytes, uint32_t value)
{
    uint8_t data[sizeof(value)];
    vipl_put_little(data, value, bytes);
    vfu_client_post(&f->client, &(struct vfu_access){offset, region, bytes}, data);
}

static uint32_t vfio_user_read(struct rnic_pci *pci, unsigned bar, uint32_t offset)
{
    uint32_t value;
    return read_region(function_of(pci), VFU_REGION_BAR0 + bar, offset, sizeof(value), &value) == 0
               ? value
               : UINT32_MAX;
}

static void vfio_user_write(struct rnic_pci *pci, unsigned bar, uint32_t offset, uint32_t value)
{
    write_region(function_of(pci), VFU_REGION_BAR0 + bar, offset, sizeof(value), value);
}

static uint32_t vfio_user_config_read(struct rnic_pci *pci, uint32_t offset, unsigned bytes)
{
    uint32_t value;
    return read_region(function_of(pci), VFU_REGION_CONFIG, offset, bytes, &value) == 0 ? value : UINT32_MAX;
}

static void vfio_user_config_write(struct rnic_pci *pci, uint32_t offset, unsigned bytes, uint32_t value)
{
    write_region(function_of(pci), VFU_REGION_CONFIG, offset, bytes, value);
}

static int vfio_user_reset(struct rnic_pci *pci)
{
    struct vfu_request request = {.command = VFU_RESET};
    int error = vfu_client_ask(&function_of(pci)->client, &request);
    if (error == 0) {
        rnic_pci_enable_msix(pci); /* the adapter itself opens the vectors that have descriptors */
    }
    return error;
}

/* --- memory --- */

static int send_map(struct function *f, const struct vfu_dma_map *map, const int *fd)
{
    uint8_t payload[VFU_DMA_MAP_BYTES];
    struct vfu_request request = {.command = VFU_DMA_MAP,
                                  .payload = payload,
                                  .bytes = sizeof(payload),
                                  .pass = fd,
                                  .count = fd == NULL ? 0 : 1};
    vfu_dma_map_write(payload, map);
    return vfu_client_ask(&f->client, &request);
}

/* --- the thread that serves the adapter's requests --- */

static void answer_adapter(void *context)
{
    struct function *f = context;
    const int fds[2] = {f->client.channel.fd, f->end.fd};
    bool is_over = false;
    while (!is_over && !vfu_client_is_gone(&f->client)) {
        (void)vipl_poll(fds, 2, -1, NULL);
        is_over = vipl_poll(&f->end.fd, 1, 0, NULL) == 0;
        vfu_client_serve(&f->client);
    }
}

static int start_thread_locked(struct function *f)
{
    int error = vipl_waker_open(&f->end);
    if (error != 0) {
        return error;
    }
    error = vipl_thread_start(&f->thread, answer_adapter, f);
    if (error != 0) {
        vipl_waker_close(&f->end);
        return error;
    }
    vipl_store_release(&f->has_thread, 1);
    return 0;
}

/* Starts the thread, before the adapter can send requests. */
static int need_thread(struct function *f)
{
    int error = 0;
    if (vipl_load_acquire(&f->has_thread) == 0) {
        vipl_mutex_lock(&f->thread_lock);
        error = f->has_thread != 0 ? 0 : start_thread_locked(f);
        vipl_mutex_unlock(&f->thread_lock);
    }
    return error;
}

/* --- maps --- */

/* Everything that is mapped in this range, which may be several maps of the adapter's. */
static void send_unmap(struct function *f, uint64_t iova, size_t bytes)
{
    uint8_t payload[VFU_DMA_UNMAP_BYTES];
    struct vfu_request request = {.command = VFU_DMA_UNMAP, .payload = payload, .bytes = sizeof(payload)};
    vfu_dma_unmap_write(payload, &(struct vfu_dma_unmap){0, iova, bytes});
    /* an adapter that is gone has unmapped everything */
    (void)vfu_client_ask(&f->client, &request);
}

/* A part of the program's memory, which the adapter reaches by itself or asks for. */
static int send_part(struct function *f, const struct vfu_dma_map *whole, uint64_t from, uint64_t to,
                     bool by_file)
{
    struct vfu_dma_map part = *whole;
    part.address += from;
    part.bytes = to - from;
    part.offset = by_file ? whole->offset + from : 0;
    part.flags |= by_file ? VFU_DMA_MEMORY_FILE : 0;
    if (to == from) {
        return 0;
    }
    int error = by_file ? 0 : need_thread(f);
    return error == 0 ? send_map(f, &part, NULL) : error;
}

/* The program's memory at whole->offset. */
static int send_parts(struct function *f, const struct vfu_dma_map *whole)
{
    struct vipl_part parts[MAX_PARTS];
    uint64_t done = 0;
    unsigned count = 0;
    int error = 0;
    if (f->by_file) {
        count =
            vipl_plain_parts((const void *)(uintptr_t)whole->offset, (size_t)whole->bytes, parts, MAX_PARTS);
    }
    for (unsigned i = 0; error == 0 && i < count; i++) {
        uint64_t from = parts[i].first - whole->offset;
        error = send_part(f, whole, done, from, false);
        done = from + parts[i].bytes;
        error = error == 0 ? send_part(f, whole, from, done, true) : error;
    }
    return error == 0 ? send_part(f, whole, done, whole->bytes, false) : error;
}

/* `fd`: what the memory is a part of, from its first byte on; NULL: it is the program's. */
static int map_for_card(struct function *f, void *address, size_t bytes, unsigned access, const int *fd,
                        uint64_t *iova)
{
    struct vfu_dma_map map = {access & (VFU_DMA_READABLE | VFU_DMA_WRITEABLE), 0, 0, bytes};
    int error = rnic_maps_add(&f->maps, address, bytes, access, fd != NULL, &map.address);
    if (error != 0) {
        return error;
    }
    if (fd != NULL) {
        error = send_map(f, &map, fd);
    } else {
        map.offset = (uintptr_t)address;
        error = send_parts(f, &map);
    }
    if (error != 0) {
        send_unmap(f, map.address, bytes);
        rnic_maps_remove(&f->maps, map.address, bytes);
        return error;
    }
    *iova = map.address;
    return 0;
}

static int vfio_user_map(struct rnic_pci *pci, void *address, size_t bytes, unsigned access, uint64_t *iova)
{
    return map_for_card(function_of(pci), address, bytes, access, NULL, iova);
}

static void vfio_user_unmap(struct rnic_pci *pci, uint64_t iova, size_t bytes)
{
    struct function *f = function_of(pci);
    send_unmap(f, iova, bytes);
    rnic_maps_remove(&f->maps, iova, bytes);
}

static int make_slab(struct rnic_pci *pci, size_t bytes, struct rnic_pci_slab *out)
{
    struct vipl_shm shm;
    int error = vipl_shm_create(&shm, "rnic-slab", bytes);
    if (error != 0) {
        return error;
    }
    uint64_t iova;
    error = map_for_card(function_of(pci), shm.base, bytes, RNIC_PCI_READ | RNIC_PCI_WRITE, &shm.fd, &iova);
    if (error != 0) {
        vipl_shm_release(&shm);
        return error;
    }
    vipl_shm_close_fd(&shm);
    *out = (struct rnic_pci_slab){shm.base, iova, bytes};
    return 0;
}

static void vfio_user_free_slab(struct rnic_pci *pci, struct rnic_pci_slab *slab)
{
    struct vipl_shm shm = {-1, slab->base, slab->bytes};
    vfio_user_unmap(pci, slab->iova, slab->bytes);
    vipl_shm_release(&shm);
}

static int list_pages(struct rnic_pci *pci, const void *address, size_t bytes, uint64_t *out, size_t most,
                      size_t *count, size_t *page_bytes)
{
    (void)pci;
    (void)address;
    (void)bytes;
    (void)out;
    (void)most;
    (void)count;
    (void)page_bytes;
    return ENOTSUP; /* ranges are whole */
}

/* Serves a request of the adapter for memory, with the access rights that the program itself has
 * now. */
static int access_memory(void *context, const struct vfu_dma *dma, void *data, bool is_write)
{
    struct function *f = context;
    const struct rnic_mapping *held;
    uint8_t *at =
        rnic_maps_hold(&f->maps, dma->address, dma->bytes, is_write ? RNIC_PCI_WRITE : RNIC_PCI_READ, &held);
    if (at == NULL) {
        return EFAULT;
    }
    int error = is_write ? (vipl_iov_put_checked(at, data, dma->bytes) ? 0 : EFAULT)
                         : vipl_copy_checked(data, at, dma->bytes);
    rnic_maps_release(&f->maps);
    return error;
}

/* Tests whether the adapter sees this process's memory through its descriptor as the process
 * does. */
static bool prove_memory(struct function *f)
{
    struct vfu_dma_map map = {VFU_DMA_READABLE | VFU_DMA_WRITEABLE | VFU_DMA_MEMORY_FILE,
                              (uintptr_t)f->cookie, 0, sizeof(f->cookie)};
    int fd = -1;
    if (!f->client.theirs.memory_file || vipl_entropy(f->cookie, COOKIE_BYTES) != 0 ||
        vipl_own_memory(&fd) != 0) {
        return false;
    }
    bool proven = rnic_maps_add(&f->maps, f->cookie, sizeof(f->cookie), RNIC_PCI_READ | RNIC_PCI_WRITE, false,
                                &map.address) == 0; /* it stays */
    proven = proven && send_map(f, &map, &fd) == 0;
    vipl_fd_close(fd);
    for (int i = 0; i < COOKIE_BYTES; i++) {
        const volatile uint8_t *seen = f->cookie; /* written by another process */
        proven = proven && (seen[COOKIE_BYTES + i] ^ seen[i]) == UINT8_MAX;
    }
    return proven;
}

/* --- interrupts --- */

static int vfio_user_interrupt_fd(struct rnic_pci *pci, unsigned vector)
{
    return vector < RNIC_VECTORS ? function_of(pci)->events[vector] : -1;
}

static void vfio_user_interrupt_clear(struct rnic_pci *pci, unsigned vector)
{
    vipl_event_clear(function_of(pci)->events[vector]);
}

static int open_events(struct function *f)
{
    uint8_t payload[VFU_IRQ_SET_BYTES];
    int fds[RNIC_VECTORS];
    int error = 0;
    for (unsigned i = 0; error == 0 && i < RNIC_VECTORS; i++) {
        error = vipl_event_open(&f->events[i]);
        fds[i] = f->events[i];
    }
    struct vfu_request request = {.command = VFU_SET_IRQS,
                                  .payload = payload,
                                  .bytes = sizeof(payload),
                                  .pass = fds,
                                  .count = RNIC_VECTORS};
    vfu_irq_set_write(payload, &(struct vfu_irq_set){VFU_IRQ_DATA_EVENTFD | VFU_IRQ_TRIGGER, VFU_IRQ_MSIX, 0,
                                                     RNIC_VECTORS});
    return error == 0 ? vfu_client_ask(&f->client, &request) : error;
}

/* --- progress --- */

/* The end of the adapter is noticed at its socket, which a program that never sleeps reads from
 * time to time. */
static void vfio_user_progress(struct rnic_pci *pci)
{
    struct function *f = function_of(pci);
    if (rnic_pci_check_is_due(&f->checked_at)) {
        vfu_client_progress(&f->client);
    }
}

/* A message of the adapter is a reply, which a thread waits for, or a request for the serving
 * thread. */
static void vfio_user_wait_hint(struct rnic_pci *pci, int *fd, int *ms)
{
    (void)pci;
    *fd = *ms = -1;
}

static bool vfio_user_is_gone(struct rnic_pci *pci)
{
    /* each poll asks this: a system call each time would be its whole cost */
    vfio_user_progress(pci);
    return vfu_client_is_gone(&function_of(pci)->client);
}

/* --- opening and closing --- */

static void close_function(struct function *f)
{
    if (f->has_thread != 0) {
        vipl_waker_signal(&f->end);
        vipl_thread_join(&f->thread);
        vipl_waker_close(&f->end);
    }
    vfu_client_close(&f->client);
    vipl_shm_release(&f->bar2);
    vipl_shm_release(&f->bar4);
    for (unsigned i = 0; i < RNIC_VECTORS && f->generation == vipl_fork_generation(); i++) {
        vipl_fd_close(f->events[i]);
    }
    rnic_maps_fini(&f->maps);
    vipl_free(f);
}

static void vfio_user_close(struct rnic_pci *pci)
{
    close_function(function_of(pci));
}

/* A child has neither the descriptors nor the doorbells: os.h sees to that. */
static void vfio_user_abandon(struct rnic_pci *pci)
{
    pci->doorbells = NULL;
    pci->device = NULL;
}

static const struct rnic_pci_ops ops = {.name = "vfio-user",
                                        .close = vfio_user_close,
                                        .abandon = vfio_user_abandon,
                                        .read = vfio_user_read,
                                        .write = vfio_user_write,
                                        .config_read = vfio_user_config_read,
                                        .config_write = vfio_user_config_write,
                                        .reset = vfio_user_reset,
                                        .map = vfio_user_map,
                                        .unmap = vfio_user_unmap,
                                        .pages = list_pages,
                                        .slab = make_slab,
                                        .free_slab = vfio_user_free_slab,
                                        .interrupt_fd = vfio_user_interrupt_fd,
                                        .interrupt_clear = vfio_user_interrupt_clear,
                                        .progress = vfio_user_progress,
                                        .wait_hint = vfio_user_wait_hint,
                                        .is_gone = vfio_user_is_gone};

/* Maps a BAR that the adapter gives as a file. `bytes` 0: of any size. Without a file, or a BAR,
 * nothing is mapped. */
static int map_bar(struct function *f, unsigned bar, uint64_t bytes, struct vipl_shm *out)
{
    uint8_t payload[VFU_REGION_INFO_BYTES];
    uint8_t reply[VFU_REGION_INFO_BYTES];
    int fd = -1;
    struct vfu_region_info info = {.index = VFU_REGION_BAR0 + bar};
    struct vfu_request request = {.command = VFU_GET_REGION_INFO,
                                  .payload = payload,
                                  .bytes = sizeof(payload),
                                  .reply = reply,
                                  .reply_bytes = sizeof(reply),
                                  .reply_fd = &fd};
    vfu_region_info_write(payload, &info);
    int error = vfu_client_ask(&f->client, &request);
    if (error != 0 || fd < 0) {
        return error;
    }
    vfu_region_info_read(reply, sizeof(reply), &info);
    bool is_usable = (info.flags & VFU_REGION_CAN_MAP) != 0 && info.offset == 0 &&
                     (bytes == 0 ? info.bytes > 0 && info.bytes <= SIZE_MAX / 2 : info.bytes == bytes);
    error = is_usable ? vipl_shm_attach(out, fd, (size_t)info.bytes, true) : EINVAL;
    if (error != 0) {
        vipl_fd_close(fd);
        return error;
    }
    vipl_shm_close_fd(out);
    return 0;
}

/* Doorbells that cannot be mapped are stored to by messages. */
static int map_bars(struct function *f)
{
    int error = map_bar(f, 2, RNIC_BAR2_BYTES, &f->bar2);
    error = error == 0 ? map_bar(f, 4, 0, &f->bar4) : error;
    f->pci.doorbells = f->bar2.base;
    f->pci.device = f->bar4.base;
    f->pci.device_bytes = f->bar4.bytes;
    return error;
}

static void find_way(struct function *f)
{
    bool may = !vipl_iov_is_safe();
    f->by_file = may && prove_memory(f);
    f->pci.dma = f->by_file ? "files" : "messages";
    if (may && !f->by_file) {
        vipl_log(VIPL_LOG_INFO,
                 "the card's adapter cannot read this program's memory by itself: it asks a thread");
    }
}

static int set_up_function(struct function *f, int fd)
{
    f->pci.ops = &ops;
    f->pci.linear = true;
    f->pci.tells_end = true;
    f->pci.end_fd = fd;
    f->bar2.fd = -1;
    f->bar4.fd = -1;
    f->generation = vipl_fork_generation();
    for (unsigned i = 0; i < RNIC_VECTORS; i++) {
        f->events[i] = -1;
    }
    rnic_maps_init(&f->maps);
    vipl_mutex_init(&f->thread_lock, VIPL_RANK_RNIC_PCI);
    int error = vfu_client_open(&f->client, fd, access_memory, f);
    error = error == 0 ? map_bars(f) : error;
    error = error == 0 ? open_events(f) : error;
    if (error == 0) {
        find_way(f);
    }
    return error;
}

static int open_function(const char *device, uint64_t deadline, struct rnic_pci **out)
{
    int fd = -1;
    int error = rnic_pci_connect(device, deadline, &fd);
    if (error != 0) {
        return error;
    }
    struct function *f = vipl_zalloc(sizeof(*f));
    if (f == NULL) {
        vipl_fd_close(fd);
        return ENOMEM;
    }
    error = set_up_function(f, fd);
    if (error != 0) {
        close_function(f);
        return error == ENODEV ? ECONNRESET : error; /* the connection has ended */
    }
    *out = &f->pci;
    return 0;
}

/* An adapter that ends because it has no programs may take the connection with it: once more. Not
 * if it was silent until its time was up. */
int rnic_pci_vfio_user_open(const char *device, struct rnic_pci **out)
{
    uint64_t deadline = vipl_deadline(VFU_PATIENCE_MS);
    int error = open_function(device, deadline, out);
    for (int i = 0; error == ECONNRESET && device[0] == '\0' && i < ATTEMPTS && vipl_ms_left(deadline) > 0;
         i++) {
        error = open_function(device, deadline, out);
    }
    return error;
}
