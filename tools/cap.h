/* SPDX-License-Identifier: MIT */
/* The command line of vipl-cap. */
#ifndef VIPL_TOOLS_CAP_H
#define VIPL_TOOLS_CAP_H

#include "traffic.h"

struct cap_options {
    struct traffic_options common;
    struct vipl_dm_receive receive; /* without its path */
};

/* The exit code, or -1 if there is more to do. */
int cap_parse(int argc, char **argv, struct cap_options *options);

#endif
