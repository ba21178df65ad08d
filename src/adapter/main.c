/* SPDX-License-Identifier: MIT */
/* The program vipl-rnicd. */
#include "adapter/command.h"

int main(int count, char **arguments)
{
    return rnic_adapter_command(count, arguments);
}
