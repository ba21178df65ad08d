/* SPDX-License-Identifier: MIT */
/* Connecting to an adapter of the card, and starting one. */
#ifndef BACKENDS_RNIC_PCI_START_H
#define BACKENDS_RNIC_PCI_START_H

#include <stdint.h>

/*
 * Connects to the adapter that `device` names and stores the socket in *fd.
 *   ""             this user's adapter, at VIPL_RNIC or in the user's folder for sockets; it is
 *                  started if it does not run
 *   "socket:PATH"  the adapter that listens at PATH
 * ENODEV: `device` is anything else. EAGAIN: at the deadline too many programs were still queued
 * before this one.
 */
int rnic_pci_connect(const char *device, uint64_t deadline, int *fd);
/* Connects to whatever listens at the path. EAGAIN: as above. */
int rnic_pci_connect_path(const char *path, uint64_t deadline, int *fd);

#endif
