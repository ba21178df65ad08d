/* SPDX-License-Identifier: MIT */
/* What comes over the sockets of links: wake-ups, and letters for connecting. */
#include "backends/loopback/letters.h"

#include <string.h>

#include "base/log.h"

enum { MOST_AT_ONCE = 64 };

void vipl_lo_letter_free(struct lo_letter *letter)
{
    vipl_fd_close(letter->fds[0]);
    vipl_fd_close(letter->fds[1]);
    vipl_free(letter);
}

/* False: there is no memory. */
static bool keep(struct lo_link *link, const uint8_t *bytes, size_t length, const int fds[2])
{
    struct lo_letter *letter = vipl_alloc(sizeof(*letter));
    if (letter == NULL) {
        vipl_log(VIPL_LOG_ERROR, "no memory for what process %d asks", link->peer.pid);
        return false;
    }
    letter->from = link;
    letter->fds[0] = fds[0];
    letter->fds[1] = fds[1];
    letter->length = length;
    memcpy(letter->bytes, bytes, length);
    vipl_list_append(&lo_remote_of(link->be)->letters, &letter->link);
    return true;
}

bool vipl_lo_letters_receive(struct lo_link *link, bool all)
{
    uint8_t bytes[LO_PACKET];
    size_t length = 0;
    unsigned most = all ? MOST_AT_ONCE : 1;
    for (unsigned i = 0; i < most; i++) {
        int fds[2] = {-1, -1};
        if (vipl_local_receive(link->source.fd, bytes, sizeof(bytes), &length, fds) != 0 || length == 0) {
            return true; /* nothing more, or it has hung up */
        }
        bool is_letter = length > 1;
        if (!is_letter || !keep(link, bytes, length, fds)) {
            vipl_fd_close(fds[0]);
            vipl_fd_close(fds[1]);
            if (is_letter) {
                return false;
            }
        }
    }
    return true;
}

struct lo_letter *vipl_lo_letter_take(struct lo_remote *remote)
{
    vipl_biased_lock(&remote->rx);
    struct vipl_list *l = vipl_list_take(&remote->letters);
    vipl_biased_unlock(&remote->rx);
    return l == NULL ? NULL : VIPL_CONTAINER(l, struct lo_letter, link);
}

void vipl_lo_letters_drop(struct lo_link *link)
{
    struct vipl_list *letters = &lo_remote_of(link->be)->letters, *next;
    for (struct vipl_list *l = letters->next; l != letters; l = next) {
        struct lo_letter *letter = VIPL_CONTAINER(l, struct lo_letter, link);
        next = l->next;
        if (letter->from == link) {
            vipl_list_remove(&letter->link);
            vipl_lo_letter_free(letter);
        }
    }
}
