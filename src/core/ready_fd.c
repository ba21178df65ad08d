/* SPDX-License-Identifier: MIT */
/* Descriptors for the event loops of programs. */
#include "core/ready_fd.h"

#include "core/nic.h"

VIP_RETURN vipl_bell_new(struct vipl_nic *nic, struct vipl_bell **out)
{
    VIP_RETURN rc = vipl_service_start(nic);
    if (rc != VIP_SUCCESS) {
        return rc;
    }
    struct vipl_bell *bell = vipl_zalloc(sizeof(*bell));
    if (bell == NULL || vipl_waker_open(&bell->waker) != 0) {
        vipl_free(bell);
        return VIP_ERROR_RESOURCE;
    }
    bell->nic = nic;
    vipl_service_attend(nic, true);
    *out = bell;
    return VIP_SUCCESS;
}

/* The descriptor may live on, in a forked child for example: it does not look readable there for ever. */
void vipl_bell_free(struct vipl_bell *bell)
{
    if (bell != NULL) {
        vipl_bell_tell(bell, false);
        vipl_service_attend(bell->nic, false);
        vipl_waker_close(&bell->waker);
        vipl_free(bell);
    }
}

void vipl_bell_set(struct vipl_bell *bell, bool something)
{
    if (something && bell->rung == 0) {
        bell->rung = 1;
        vipl_waker_signal(&bell->waker);
    } else if (!something && bell->rung != 0) {
        bell->rung = 0;
        vipl_waker_reset(&bell->waker);
    }
}

int vipl_bell_hang(struct vipl_bell **at, struct vipl_bell **fresh, bool something)
{
    if (*at == NULL) {
        *at = *fresh;
        *fresh = NULL;
        vipl_bell_tell(*at, something);
    }
    return *at == NULL ? -1 : (*at)->waker.fd;
}
