/* SPDX-License-Identifier: MIT */
/*
 * What libfabric loads: the entry point, the settings, and the two functions that depend on which
 * version of libfabric runs. libfabric has several versions of fi_dupinfo() and fi_freeinfo(), and
 * a reference that a linker of libfabric 1.17 resolves would get the layout of that time; the
 * newest ones are those of the library that has loaded the provider.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "provider.h"

struct fi_provider *fi_prov_ini(void); /* as FI_EXT_INI defines it */

static struct fi_info *(*newest_dupinfo)(const struct fi_info *);
static void (*newest_freeinfo)(struct fi_info *);
static int connect_timeout_s = 900;
static int caches = 1;
static int offers_datagrams = 0;

struct fi_provider prov_provider = {
    .version = FI_VERSION(0, 1),
    .fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
    .name = "vipl",
    .getinfo = prov_getinfo,
    .fabric = prov_fabric_open,
};

/* The settings, as words of environment variables FI_VIPL_... */
static const struct {
    const char *name;
    enum fi_param_type type;
    const char *help;
} settings[] = {
    {"device", FI_PARAM_STRING, "devices of VIPL, separated by commas (default: VIPL_DEVICE, or loopback)"},
    {"connect_timeout", FI_PARAM_INT, "seconds that fi_connect() waits for the peer's answer (default: 900)"},
    {"rdm", FI_PARAM_BOOL,
     "endpoints are datagram endpoints of the provider's own, without ofi_rxm (default: no)"},
    {"cache", FI_PARAM_BOOL, "memory stays registered for the next time (default: yes)"},
};

struct fi_info *prov_info_dup(const struct fi_info *info)
{
    return newest_dupinfo(info);
}

void prov_info_free(struct fi_info *info)
{
    newest_freeinfo(info);
}

VIP_ULONG prov_connect_timeout_ms(void)
{
    return (VIP_ULONG)connect_timeout_s * 1000;
}

bool prov_offers_datagrams(void)
{
    return offers_datagrams != 0;
}

bool prov_caches(void)
{
    return caches != 0;
}

const char *prov_devices(void)
{
    char *names = NULL;
    if (fi_param_get_str(&prov_provider, "device", &names) != 0 || names == NULL || *names == '\0') {
        names = getenv("VIPL_DEVICE");
    }
    return names != NULL && *names != '\0' ? names : "loopback";
}

int prov_no_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    (void)fid;
    (void)flags;
    PROV_LOG(FI_LOG_WARN, FI_LOG_CORE, "an object of class %zu cannot be bound here\n", other->fclass);
    return -FI_ENOSYS;
}

int prov_no_control(struct fid *fid, int command, void *argument)
{
    (void)fid;
    (void)command;
    (void)argument;
    return -FI_ENOSYS;
}

int prov_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
    (void)fid;
    (void)name;
    (void)flags;
    (void)ops;
    (void)context;
    return -FI_ENOSYS;
}

/* Whether this is FI_VIPL_ and the name of a setting, and '='. */
static bool is_setting(const char *variable, size_t bytes)
{
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        if (strlen(settings[i].name) == bytes && strncasecmp(settings[i].name, variable, bytes) == 0) {
            return true;
        }
    }
    return false;
}

/* Settings that do not exist: one line for each. */
static void check_environment(void)
{
    static const char prefix[] = "FI_VIPL_";
    for (char **one = environ; one != NULL && *one != NULL; one++) {
        if (strncmp(*one, prefix, sizeof(prefix) - 1) == 0) {
            const char *name = *one + sizeof(prefix) - 1;
            size_t bytes = strcspn(name, "=");
            if (!is_setting(name, bytes)) {
                PROV_LOG(FI_LOG_WARN, FI_LOG_CORE, "FI_VIPL_%.*s is no setting\n", (int)bytes, name);
            }
        }
    }
}

static void read_settings(void)
{
    int seconds = 0;
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        (void)fi_param_define(&prov_provider, settings[i].name, settings[i].type, "%s", settings[i].help);
    }
    check_environment();
    int rc = fi_param_get_int(&prov_provider, "connect_timeout", &seconds);
    if (rc == 0 && seconds > 0 && seconds <= 86400) {
        connect_timeout_s = seconds;
    } else if (rc != -FI_ENODATA) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_CORE,
                 "FI_VIPL_CONNECT_TIMEOUT is not a number from 1 to 86400: it is %d\n", connect_timeout_s);
    }
    rc = fi_param_get_bool(&prov_provider, "rdm", &offers_datagrams);
    if (rc != 0 && rc != -FI_ENODATA) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_CORE, "FI_VIPL_RDM is neither yes nor no: it is %d\n", offers_datagrams);
    }
    rc = fi_param_get_bool(&prov_provider, "cache", &caches);
    if (rc != 0 && rc != -FI_ENODATA) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_CORE, "FI_VIPL_CACHE is neither yes nor no: it is %d\n", caches);
    }
}

FI_EXT_INI
{
    /* Programs that load libfabric by dlopen() need not have its names in the global scope. */
    void *library = dlopen("libfabric.so.1", RTLD_NOLOAD | RTLD_LAZY);
    void *from = library != NULL ? library : RTLD_DEFAULT;
    uint32_t (*newest_version)(void) = NULL;
    *(void **)&newest_dupinfo = dlsym(from, "fi_dupinfo");
    *(void **)&newest_freeinfo = dlsym(from, "fi_freeinfo");
    *(void **)&newest_version = dlsym(from, "fi_version");
    if (newest_dupinfo == NULL || newest_freeinfo == NULL || newest_version == NULL) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_CORE, "libfabric's own functions are not found\n");
        return NULL;
    }
    prov_provider.fi_version = newest_version();
    read_settings();
    return &prov_provider;
}
