/* SPDX-License-Identifier: MIT */
#include "dm/dpdk/eal.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_log.h>

#include "dm/reason.h"

enum { ARGUMENT_ROOM = 2048, MOST_ARGUMENTS = 64, DEVICE_ROOM = 64 };

static pthread_mutex_t eal_lock = PTHREAD_MUTEX_INITIALIZER;
static bool has_begun;  /* guarded by eal_lock */
static int begin_error; /* guarded by eal_lock: rte_errno of the first attempt, as there is no second one */

bool dm_eal_is_pci(const char *name)
{
    unsigned domain;
    unsigned bus;
    unsigned device;
    unsigned function;
    char rest;

    return sscanf(name, "%4x:%2x:%2x.%1x%c", &domain, &bus, &device, &function, &rest) == 4;
}

/* The first CPU that this thread may use. */
static int first_cpu(const cpu_set_t *allowed)
{
    int cpu = 0;

    while (cpu < CPU_SETSIZE - 1 && !CPU_ISSET(cpu, allowed)) {
        cpu++;
    }
    return cpu;
}

/* No PCI function has the address that is allowed: each is probed when a port names it. */
#define FIXED_WORDS "vipl-dm-dpdk --no-huge -m 64 --no-telemetry --no-shconf --iova-mode=va -a ffff:ff:1f.7"

static int split(char *words, char *arguments[MOST_ARGUMENTS])
{
    char *state = NULL;
    int count = 0;

    for (char *word = strtok_r(words, " \t", &state); word != NULL && count < MOST_ARGUMENTS;
         word = strtok_r(NULL, " \t", &state)) {
        arguments[count++] = word;
    }
    return count;
}

static int init(const cpu_set_t *allowed)
{
    static char words[ARGUMENT_ROOM]; /* DPDK keeps the arguments */
    static char *arguments[MOST_ARGUMENTS];
    const char *more = secure_getenv("VIPL_DM_DPDK_EAL");

    if (snprintf(words, sizeof(words), "%s --lcores=0@%d %s", FIXED_WORDS, first_cpu(allowed),
                 more != NULL ? more : "") >= (int)sizeof(words)) {
        return E2BIG;
    }
    rte_log_set_global_level(RTE_LOG_ERR);
    return rte_eal_init(split(words, arguments), arguments) < 0 ? rte_errno : 0;
}

/* DPDK binds the thread to a CPU, which is not wanted. */
static int begin_eal(void)
{
    cpu_set_t allowed;
    bool is_known = pthread_getaffinity_np(pthread_self(), sizeof(allowed), &allowed) == 0;
    int error;

    if (!is_known) {
        CPU_ZERO(&allowed);
        CPU_SET(0, &allowed);
    }
    error = init(&allowed);
    if (is_known) {
        (void)pthread_setaffinity_np(pthread_self(), sizeof(allowed), &allowed);
    }
    return error;
}

static int begin_once(void)
{
    pthread_mutex_lock(&eal_lock);
    if (!has_begun) {
        has_begun = true;
        begin_error = begin_eal();
    }
    int error = begin_error;
    pthread_mutex_unlock(&eal_lock);
    return error;
}

/* Of a virtual device the name of the port is without the arguments. */
static int find_port(const char *name, uint16_t *port)
{
    char device[DEVICE_ROOM];

    snprintf(device, sizeof(device), "%.*s", (int)strcspn(name, ","), name);
    return rte_eth_dev_get_port_by_name(device, port);
}

int dm_eal_open(const char *name, uint16_t *port, struct vipl_dm_reason *reason)
{
    int error;

    if (!dm_eal_is_pci(name) && strncmp(name, "net_", 4) != 0) {
        return dm_fail(reason, EINVAL,
                       "port \"dpdk:%.60s\" is neither the address of a PCI function nor a device net_...",
                       name);
    }
    error = begin_once();
    if (error != 0) {
        return dm_fail(reason, error, "port \"dpdk:%.60s\": DPDK does not begin: %s", name,
                       rte_strerror(error));
    }
    if (find_port(name, port) == 0) {
        return dm_fail(reason, EBUSY, "port \"dpdk:%.60s\": this process has that device", name);
    }
    error = -rte_dev_probe(name); /* DPDK's log has more */
    if (error == 0 && find_port(name, port) == 0) {
        return 0;
    }
    return dm_fail(reason, ENODEV, "port \"dpdk:%.60s\": no driver of DPDK takes it: %s", name,
                   rte_strerror(error != 0 ? error : ENODEV));
}

void dm_eal_close(uint16_t port)
{
    struct rte_eth_dev_info info;
    bool is_known = rte_eth_dev_info_get(port, &info) == 0;

    (void)rte_eth_dev_close(port);
    if (is_known) {
        (void)rte_dev_remove(info.device);
    }
}
