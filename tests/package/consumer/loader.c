/* SPDX-License-Identifier: MIT */
/* Loads and unloads the shared library many times, then uses it beside a plug-in that holds a copy
 * of its own. Usage: loader LIBVIPL PLUGIN */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>

#define VIPL_NO_PROTOTYPES
#include <vipl/vipl.h>

enum { ROUNDS = 1000 };

typedef VIP_RETURN (*open_function)(const VIP_CHAR *, VIP_NIC_HANDLE *);
typedef VIP_RETURN (*close_function)(VIP_NIC_HANDLE);

static int entries(const char *folder)
{
    int count = 0;
    DIR *directory = opendir(folder);
    while (directory != NULL && readdir(directory) != NULL) {
        count++;
    }
    if (directory != NULL) {
        closedir(directory);
    }
    return count;
}

static int use(void *library)
{
    VIP_NIC_HANDLE nic;
    open_function open_nic;
    close_function close_nic;

    *(void **)&open_nic = dlsym(library, "VipOpenNic");
    *(void **)&close_nic = dlsym(library, "VipCloseNic");
    return open_nic == NULL || close_nic == NULL || open_nic(NULL, &nic) != VIP_SUCCESS ||
           close_nic(nic) != VIP_SUCCESS;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        return 2;
    }
    int files = 0;
    int threads = 0;
    for (int i = 0; i < ROUNDS; i++) {
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (library == NULL || use(library) != 0 || dlclose(library) != 0) {
            fprintf(stderr, "round %d: %s\n", i, library == NULL ? dlerror() : "the library failed");
            return 1;
        }
        if (i == 0) {
            files = entries("/proc/self/fd");
            threads = entries("/proc/self/task");
        }
    }
    if (entries("/proc/self/fd") != files || entries("/proc/self/task") != threads) {
        fprintf(stderr, "descriptors or threads were left over\n");
        return 1;
    }
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    void *plugin = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    int (*plugin_use)(void);
    if (library == NULL || plugin == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    *(void **)&plugin_use = dlsym(plugin, "plugin_use");
    if (plugin_use == NULL || use(library) != 0 || plugin_use() != 0 || use(library) != 0) {
        fprintf(stderr, "two copies in one process disturb each other\n");
        return 1;
    }
    printf("%d rounds, %d descriptors\n", ROUNDS, files);
    return 0;
}
