/* SPDX-License-Identifier: MIT */
#include "ends.h"

enum { TIMEOUT_MS = 10000 };

bool ends_right(const char *what, VIP_RETURN rc)
{
    if (rc != VIP_SUCCESS) {
        tool_complain_rc(what, rc);
    }
    return rc == VIP_SUCCESS;
}

bool ends_connect(struct ends *ends)
{
    struct tool_address address[2];
    VIP_RETURN rc[2] = {VIP_NOT_DONE, VIP_NOT_DONE};

    for (int end = 0; end < 2; end++) {
        if (!tool_address_local(ends->nic[end], end == 0 ? "one" : "other", end == 0 ? 3 : 5,
                                &address[end])) {
            return false;
        }
    }
    for (int end = 0; end < 2; end++) {
        if (!ends_right("VipConnectPeerRequest",
                        VipConnectPeerRequest(ends->vi[end], &address[end].u.net, &address[1 - end].u.net,
                                              TIMEOUT_MS))) {
            return false;
        }
    }
    while (rc[0] == VIP_NOT_DONE || rc[1] == VIP_NOT_DONE) {
        for (int end = 0; end < 2; end++) {
            rc[end] = rc[end] == VIP_NOT_DONE ? VipConnectPeerDone(ends->vi[end], NULL) : rc[end];
        }
    }
    return ends_right("VipConnectPeerDone", rc[0]) && ends_right("VipConnectPeerDone", rc[1]);
}

void ends_destroy(struct ends *ends)
{
    for (int end = 0; end < 2; end++) {
        tool_vi_destroy(ends->vi[end]);
        tool_mem_destroy(&ends->memory[end]);
        if (ends->nic[end] != NULL) {
            VipCloseNic(ends->nic[end]);
        }
    }
}
