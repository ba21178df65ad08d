/* SPDX-License-Identifier: MIT */
/* The parts of vipl-info. */
#ifndef VIPL_INFO_H
#define VIPL_INFO_H

#include <stdbool.h>
#include <stddef.h>

#define INFO_MAX_DEVICES 64
#define INFO_NAME_BYTES 128

struct info_options {
    bool json;
    size_t device_count;
    char devices[INFO_MAX_DEVICES]
                [INFO_NAME_BYTES]; /* names for VipOpenNic(), each once; none: all that there are */
};

/* Returns a tool's exit code, or -1 to go on. */
int info_parse(int argc, char **argv, struct info_options *options);

/* False: the name is too long, or there are too many. */
bool info_add_device(struct info_options *options, const char *name, size_t length);

#endif
