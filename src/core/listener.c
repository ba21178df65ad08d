/* SPDX-License-Identifier: MIT */
/*
 * A program with a descriptor for connection requests is not inside VipConnectWait() when they come. So what it has
 * waited for once since it has the descriptor stays listened to, as if a call went on waiting there.
 */
#include <string.h>

#include "core/connect.h"
#include "core/nic.h"

enum { MOST_KEPT = 1024 };

struct vipl_kept {
    struct vipl_list link; /* nic->conns_kept, the latest used last */
    struct vipl_address local;
};

static bool is_same(const struct vipl_address *a, const struct vipl_address *b)
{
    return a->disc_len == b->disc_len && memcmp(a->disc, b->disc, a->disc_len) == 0;
}

static struct vipl_kept *find_locked(struct vipl_nic *nic, const struct vipl_address *local)
{
    for (struct vipl_list *l = nic->conns_kept.next; l != &nic->conns_kept; l = l->next) {
        struct vipl_kept *kept = VIPL_CONTAINER(l, struct vipl_kept, link);
        if (is_same(&kept->local, local)) {
            return kept;
        }
    }
    return NULL;
}

/* The address is kept from now on; false: it is already, or memory is short. *oldest had to make room, or is NULL. */
static bool keep_locked(struct vipl_nic *nic, const struct vipl_address *local, struct vipl_kept **oldest)
{
    struct vipl_kept *known = find_locked(nic, local);
    struct vipl_kept *kept = known != NULL ? known : vipl_zalloc(sizeof(*kept));
    if (known != NULL) {
        vipl_list_remove(&kept->link);
    } else if (kept != NULL) {
        kept->local = *local;
        if (nic->conns_kept_count == MOST_KEPT) {
            *oldest = VIPL_CONTAINER(vipl_list_take(&nic->conns_kept), struct vipl_kept, link);
        } else {
            nic->conns_kept_count++;
        }
    }
    if (kept != NULL) {
        vipl_list_append(&nic->conns_kept, &kept->link);
    }
    return known == NULL && kept != NULL;
}

void vipl_conn_unlisten(struct vipl_nic *nic, const struct vipl_address *local)
{
    struct vipl_kept *oldest = NULL;
    vipl_mutex_lock(&nic->lock);
    bool stays = nic->conn_ready_fd != NULL && keep_locked(nic, local, &oldest);
    vipl_mutex_unlock(&nic->lock);
    if (!stays) {
        nic->ops->unlisten(nic->be, local);
    }
    if (oldest != NULL) {
        nic->ops->unlisten(nic->be, &oldest->local);
        vipl_free(oldest);
    }
}

void vipl_conns_fini(struct vipl_nic *nic)
{
    struct vipl_list *link;
    vipl_mutex_lock(&nic->lock);
    vipl_ready_fd_free(nic->conn_ready_fd);
    nic->conn_ready_fd = NULL;
    while ((link = vipl_list_take(&nic->conns_kept)) != NULL) { /* the backend forgets by itself */
        vipl_free(VIPL_CONTAINER(link, struct vipl_kept, link));
    }
    nic->conns_kept_count = 0;
    vipl_mutex_unlock(&nic->lock);
}
