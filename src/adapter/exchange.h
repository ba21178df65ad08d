/* SPDX-License-Identifier: MIT */
/* The card's accesses to a program's memory, by whatever way it can be reached. */
#ifndef ADAPTER_EXCHANGE_H
#define ADAPTER_EXCHANGE_H

#include "adapter/function.h"

/* The card accesses the program's memory; for its callbacks. False: it is not there. */
bool rnic_function_dma(struct rnic_function *function, const struct rnic_dma_access *access);

#endif
