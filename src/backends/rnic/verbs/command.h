/* SPDX-License-Identifier: MIT */
/* Commands to the card. One command is under way at a time. */
#ifndef BACKENDS_RNIC_VERBS_COMMAND_H
#define BACKENDS_RNIC_VERBS_COMMAND_H

#include <stdint.h>

#include "backends/rnic/verbs/slab.h"
#include "backends/rnic/verbs/verbs.h"
#include "os/os_mutex.h"

enum { RNIC_COMMANDS_LOG2 = 4 };

struct rnic_commands {
    struct vipl_mutex lock;    /* rank RNIC_COMMAND; guards all below */
    struct rnic_block ring;    /* constant */
    struct rnic_block answers; /* constant */
    struct rnic_block data;    /* constant: memory for `data` of the command under way */
    uint32_t producer;
};

struct rnic_command {
    uint8_t entry[RNIC_COMMAND_BYTES];
    const void *data; /* copied to memory that the card reads; NULL: none */
    size_t bytes;     /* of data */
    uint32_t data_at; /* offset in the entry, of the 64-bit IOVA of data */
};

struct rnic_answer {
    uint32_t info;
    uint32_t length;
    uint32_t immediate;
};

/* Allocates the rings. ENOMEM. */
int vipl_rnic_commands_open(struct vipl_rnic *rnic);
/* Initializes a command with its opcode and object. */
void vipl_rnic_command_init(struct rnic_command *command, const struct vipl_rnic *rnic, unsigned opcode,
                            uint32_t object);
/* Posts the command and waits for the answer, which is stored in *out unless `out` is NULL. Returns
 * an errno value. */
int vipl_rnic_execute(struct vipl_rnic *rnic, const struct rnic_command *command, struct rnic_answer *out);

#endif
