/* SPDX-License-Identifier: MIT */
/* Receiving what comes over the sockets of links: wake-ups, the peer's waker, and control
 * messages. */
#include "backends/loopback/control.h"

#include <string.h>

#include "base/log.h"

enum { MAX_AT_ONCE = 64 };

void vipl_lo_control_free(struct lo_control *message)
{
    vipl_fd_close(message->fds[0]);
    vipl_fd_close(message->fds[1]);
    vipl_free(message);
}

/* Queues a control message. Returns false if there is no memory. */
static bool queue_control(struct lo_link *link, const uint8_t *bytes, size_t length, const int fds[2])
{
    struct lo_control *message = vipl_alloc(sizeof(*message));
    if (message == NULL) {
        vipl_log(VIPL_LOG_ERROR, "no memory for what process %d asks", link->peer.pid);
        return false;
    }
    message->from = link;
    message->fds[0] = fds[0];
    message->fds[1] = fds[1];
    message->length = length;
    memcpy(message->bytes, bytes, length);
    vipl_list_append(&lo_remote_of(link->be)->controls, &message->link);
    return true;
}

/* Takes the waker that came beside a wake-up. Any other descriptor stays in `fds`, and so does a
 * second waker. */
static void take_waker(struct lo_link *link, int fds[2])
{
    bool has_one = vipl_load_relaxed(&link->peer_waker_plus_one) != 0;
    if (fds[0] >= 0 && !has_one && vipl_shared_waker_is_valid(fds[0])) {
        vipl_store_release(&link->peer_waker_plus_one, (uint32_t)fds[0] + 1);
        fds[0] = -1;
    }
}

bool vipl_lo_control_receive(struct lo_link *link, bool all)
{
    uint8_t bytes[LO_PACKET];
    size_t length = 0;
    unsigned most = all ? MAX_AT_ONCE : 1;
    for (unsigned i = 0; i < most; i++) {
        int fds[2] = {-1, -1};
        if (vipl_local_receive(link->source.fd, bytes, sizeof(bytes), &length, fds) != 0 || length == 0) {
            return true; /* there is nothing more, or the peer has hung up */
        }
        bool is_control = length > 1;
        if (!is_control) {
            take_waker(link, fds);
        }
        if (!is_control || !queue_control(link, bytes, length, fds)) {
            vipl_fd_close(fds[0]);
            vipl_fd_close(fds[1]);
            if (is_control) {
                return false;
            }
        }
    }
    return true;
}

struct lo_control *vipl_lo_control_take(struct lo_remote *remote)
{
    vipl_biased_lock(&remote->rx);
    struct vipl_list *l = vipl_list_take(&remote->controls);
    vipl_biased_unlock(&remote->rx);
    return l == NULL ? NULL : VIPL_CONTAINER(l, struct lo_control, link);
}

void vipl_lo_control_drop(struct lo_link *link)
{
    struct vipl_list *controls = &lo_remote_of(link->be)->controls, *next;
    for (struct vipl_list *l = controls->next; l != controls; l = next) {
        struct lo_control *message = VIPL_CONTAINER(l, struct lo_control, link);
        next = l->next;
        if (message->from == link) {
            vipl_list_remove(&message->link);
            vipl_lo_control_free(message);
        }
    }
}
