/* SPDX-License-Identifier: MIT */
/* The server's process: its clients and their channels. */
#ifndef VIPL_SERVER_SERVER_H
#define VIPL_SERVER_SERVER_H

#include "share/start.h"

vipl_server_entry vipl_server_run;

#endif
