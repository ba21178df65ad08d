/* SPDX-License-Identifier: MIT */
/* Connecting to an adapter of the card, and starting one. */
#ifndef BACKENDS_RNIC_PCI_START_H
#define BACKENDS_RNIC_PCI_START_H

#include <stdint.h>

/* `device`: "": the adapter of this user, which is started if it does not run; its socket is VIPL_RNIC, or in the user's folder for such
 * files. "socket:PATH": another one. ENODEV: anything else. EAGAIN: until the deadline there were too many programs before this one. */
int rnic_pci_connect(const char *device, uint64_t deadline, int *fd);

#endif
