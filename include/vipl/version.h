/* SPDX-License-Identifier: MIT */
/* The only place the version is written; the build reads it from here. */
#ifndef VIPL_VERSION_H
#define VIPL_VERSION_H

#define VIPL_VERSION_MAJOR 0
#define VIPL_VERSION_MINOR 1
#define VIPL_VERSION_PATCH 0
#define VIPL_VERSION_STRING "0.1.0"

#endif
