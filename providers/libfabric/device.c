/* SPDX-License-Identifier: MIT */
/*
 * Devices: one record for each name, and one NIC handle for all fabrics of a device in a process,
 * because a passive endpoint is made before there is a domain. The NIC handle's error handler tells
 * endpoints that their connection has ended, also when the program reads no completions.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "provider.h"

static pthread_mutex_t nics_lock = PTHREAD_MUTEX_INITIALIZER;
static struct prov_nic *nics;

int prov_error(VIP_RETURN rc)
{
    switch (rc) {
    case VIP_SUCCESS:
        return 0;
    case VIP_NOT_DONE:
    case VIP_INTERRUPTED:
        return -FI_EAGAIN;
    case VIP_TIMEOUT:
        return -FI_ETIMEDOUT;
    case VIP_REJECT:
    case VIP_NO_MATCH:
        return -FI_ECONNREFUSED;
    case VIP_NOT_REACHABLE:
        return -FI_EHOSTUNREACH;
    case VIP_ERROR_RESOURCE:
        return -FI_ENOMEM;
    case VIP_INVALID_STATE:
        return -FI_EOPBADSTATE;
    case VIP_ERROR_NOT_SUPPORTED:
        return -FI_EOPNOTSUPP;
    default:
        return -FI_EINVAL;
    }
}

int prov_thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(thread, NULL, run, argument);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -rc;
}

void prov_nic_lock(struct prov_nic *nic)
{
    (void)pthread_mutex_lock(&nic->lock);
}

void prov_nic_unlock(struct prov_nic *nic)
{
    (void)pthread_mutex_unlock(&nic->lock);
}

/* Runs on VIPL's thread. The VI may have been destroyed since, so the endpoint is looked for. */
static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    struct prov_nic *nic = context;
    VIP_VI_STATE state = VIP_STATE_CONNECTED;
    prov_nic_lock(nic);
    for (struct list *one = nic->endpoints.next; one != &nic->endpoints; one = one->next) {
        struct prov_ep *ep = container_of(one, struct prov_ep, of_nic);
        if (ep->vi == error->ViHandle) {
            if (VipQueryVi(ep->vi, &state, NULL, NULL, NULL) == VIP_SUCCESS && state != VIP_STATE_CONNECTED) {
                prov_ep_gone(ep);
            }
            break;
        }
    }
    prov_nic_unlock(nic);
}

static enum prov_family family_of(const char *device)
{
    if (strncmp(device, "loopback", 8) == 0) {
        return PROV_LOOPBACK;
    }
    return strncmp(device, "tcp", 3) == 0 ? PROV_INET : PROV_ETHERNET;
}

/* Opens the device for a moment, to know it. */
static struct prov_nic *learn(const char *name)
{
    VIP_NIC_HANDLE handle = NULL;
    struct prov_nic *nic = calloc(1, sizeof(*nic));
    if (nic == NULL || strlen(name) >= sizeof(nic->name)) {
        free(nic);
        return NULL;
    }
    VIP_RETURN rc = VipxOpenNic(name, VIPX_QUIET, &handle);
    if (rc != VIP_SUCCESS) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_CORE, "the device %s does not open: %s\n", name, VipxExplainError(rc));
        free(nic);
        return NULL;
    }
    (void)VipQueryNic(handle, &nic->attributes);
    size_t bytes = nic->attributes.NicAddressLen;
    memcpy(nic->host, nic->attributes.LocalNicAddress, bytes < sizeof(nic->host) ? bytes : sizeof(nic->host));
    nic->attributes.LocalNicAddress = NULL;
    (void)VipCloseNic(handle);
    (void)snprintf(nic->name, sizeof(nic->name), "%s", name);
    nic->pid = getpid();
    nic->family = family_of(nic->attributes.Name);
    nic->connect_fd = -1;
    list_init(&nic->endpoints);
    list_init(&nic->listeners);
    list_init(&nic->requests);
    list_init(&nic->pending);
    (void)pthread_mutex_init(&nic->lock, NULL);
    return nic;
}

struct prov_nic *prov_nic_find(const char *name)
{
    (void)pthread_mutex_lock(&nics_lock);
    struct prov_nic *nic = nics;
    while (nic != NULL && (strcmp(nic->name, name) != 0 || nic->pid != getpid())) {
        nic = nic->next;
    }
    if (nic == NULL) {
        nic = learn(name);
        if (nic != NULL) {
            nic->next = nics;
            nics = nic;
        }
    }
    (void)pthread_mutex_unlock(&nics_lock);
    return nic;
}

int prov_nic_open(struct prov_nic *nic)
{
    VIP_RETURN rc = VIP_SUCCESS;
    (void)pthread_mutex_lock(&nics_lock);
    if (nic->users == 0) {
        rc = VipxOpenNic(nic->name, VIPX_QUIET | VIPX_SPIN, &nic->handle);
        if (rc == VIP_SUCCESS) {
            rc = VipErrorCallback(nic->handle, nic, on_error);
            if (rc != VIP_SUCCESS) {
                (void)VipCloseNic(nic->handle);
            }
        }
        if (rc != VIP_SUCCESS) {
            PROV_LOG(FI_LOG_WARN, FI_LOG_FABRIC, "the device %s does not open: %s\n", nic->name,
                     VipxExplainError(rc));
        }
    }
    if (rc == VIP_SUCCESS) {
        nic->users++;
    }
    (void)pthread_mutex_unlock(&nics_lock);
    return rc == VIP_SUCCESS ? 0 : -FI_ENODEV;
}

/* What the registration cache has done for this NIC handle, on one line of names and numbers. */
static void log_cache(const struct prov_nic *nic)
{
    VIPX_CACHE_STATISTICS seen;
    if (VipQuerySystemManagementInfo(nic->handle, VIPX_SMI_CACHE_STATISTICS, &seen) != VIP_SUCCESS) {
        return;
    }
    PROV_LOG(
        FI_LOG_INFO, FI_LOG_MR,
        "%s, cache: hits=%llu misses=%llu off=%llu once=%llu kind=%llu watched=%llu full=%llu evicted=%llu "
        "invalidated=%llu in-use=%llu waits=%llu stale=%llu regions=%llu bytes=%llu\n",
        nic->name, (unsigned long long)seen.Hits, (unsigned long long)seen.Misses,
        (unsigned long long)seen.NotCachedOff, (unsigned long long)seen.NotCachedOnce,
        (unsigned long long)seen.NotCachedKind, (unsigned long long)seen.NotCachedWatched,
        (unsigned long long)seen.NotCachedFull, (unsigned long long)seen.Evicted,
        (unsigned long long)seen.Invalidated, (unsigned long long)seen.InvalidatedInUse,
        (unsigned long long)seen.Waits, (unsigned long long)seen.Stale, (unsigned long long)seen.Regions,
        (unsigned long long)seen.Bytes);
}

void prov_nic_close(struct prov_nic *nic)
{
    (void)pthread_mutex_lock(&nics_lock);
    if (--nic->users == 0) {
        PROV_LOG(FI_LOG_INFO, FI_LOG_FABRIC, "%s closes: %llu operations had no credit at first\n", nic->name,
                 nic->stalls);
        log_cache(nic);
        VIP_RETURN rc = VipCloseNic(nic->handle);
        if (rc != VIP_SUCCESS) {
            PROV_LOG(FI_LOG_WARN, FI_LOG_FABRIC, "%s stays open: %s\n", nic->name, VipxExplainError(rc));
        }
        nic->connect_fd = -1; /* it was closed with the NIC handle */
        prov_listeners_free(nic);
    }
    (void)pthread_mutex_unlock(&nics_lock);
}
