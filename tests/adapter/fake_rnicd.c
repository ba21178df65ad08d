/* SPDX-License-Identifier: MIT */
/* An adapter with the card of fake_card.h: vipl-fake-rnicd SOCKET [FOLDER]. It serves until it is killed. */
#include <stdio.h>
#include <string.h>

#include "adapter/adapter.h"

int main(int count, char **arguments)
{
    struct rnic_adapter *adapter;
    struct rnic_adapter_config config = {.card = {.functions = 4}};
    if (count < 2) {
        fputs("usage: vipl-fake-rnicd SOCKET [FOLDER]\n", stderr);
        return 2;
    }
    config.socket = strcmp(arguments[1], "-") == 0 ? NULL : arguments[1];
    config.folder = count > 2 ? arguments[2] : NULL;
    int error = rnic_adapter_create(&config, &adapter);
    if (error != 0) {
        fprintf(stderr, "vipl-fake-rnicd: %s\n", strerror(error));
        return 1;
    }
    puts("ready");
    fflush(stdout);
    rnic_adapter_run(adapter);
    return 0;
}
