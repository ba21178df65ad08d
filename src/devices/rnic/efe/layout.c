/* SPDX-License-Identifier: MIT */
/* Made by tools/rnic_layout.py from the structures: run that again. */
#include "devices/rnic/efe/layout.h"

/* clang-format off */

static const struct rnic_run of_state[] = {
    {8, 4}, {8, 1}, {1, 8}, {2, 4}, {4, 8}, {1, 4}, {4, 1}, {6, 8}, {2, 4}, {1, 8}, {2, 4}, {1, 8},
    {2, 4}, {1, 8}, {2, 4}, {1, 8}, {1, 4}, {12, 1}, {6, 4}, {2, 8}, {6, 4}, {2, 8}, {6, 4},
    {2, 8}, {6, 4}, {2, 8}, {36, 4}, {2, 8}, {1, 4}, {2, 2}, {7, 4}, {4, 1}, {1, 8}, {3, 4},
    {4, 1}, {1, 8}, {1024, 4}, {18, 8},
};

static const struct rnic_run of_fn[] = {
    {3, 2}, {6, 1}, {6, 4}, {4, 1}, {4, 4}, {1, 8}, {6, 4}, {1, 8}, {6, 4}, {1, 8}, {6, 4}, {1, 8},
    {6, 4}, {1, 8}, {6, 4}, {1, 8}, {6, 4}, {1, 8}, {6, 4}, {1, 8}, {6, 4}, {1, 8}, {6, 4}, {1, 8},
    {6, 4}, {1, 8}, {6, 4}, {1, 8}, {6, 4}, {1, 8}, {6, 4}, {1, 8}, {6, 4}, {1, 8}, {6, 4}, {1, 8},
    {8, 4}, {8, 1}, {1, 2}, {6, 1}, {5, 8}, {2, 4}, {1, 8}, {4, 4}, {1, 8}, {4, 4}, {1, 8}, {5, 4},
    {4, 1}, {2, 4}, {1, 8}, {5, 4}, {4, 1}, {16, 8}, {12, 4}, {2, 8}, {2, 4}, {8, 1}, {16, 8},
};

static const struct rnic_run of_qp[] = {
    {10, 4}, {4, 1}, {2, 2}, {4, 4}, {1, 2}, {2, 1}, {1, 4}, {2, 2}, {10, 1}, {5, 2}, {1, 8},
    {1, 4}, {4, 1}, {1, 8}, {4, 4}, {1, 8}, {9, 4}, {8, 2}, {2, 4}, {4, 1}, {6, 4}, {1, 8}, {4, 4},
    {2, 1}, {1, 2}, {3, 4}, {1, 8}, {2, 4}, {1, 8}, {2, 4}, {1, 8}, {2, 4},
};

static const struct rnic_run of_inbound[] = {
    {2, 8}, {4, 4},
};

static const struct rnic_run of_cq[] = {
    {1, 8}, {6, 4}, {2, 2}, {1, 4}, {8, 1},
};

static const struct rnic_run of_mr[] = {
    {3, 8}, {4, 4}, {1, 2}, {2, 1}, {1, 4},
};

static const struct rnic_run of_listen[] = {
    {2, 4}, {1, 2}, {66, 1},
};

static const struct rnic_run of_claim[] = {
    {6, 1}, {1, 2}, {2, 4}, {2, 2},
};

static const struct rnic_run of_request[] = {
    {2, 1}, {1, 2}, {3, 4}, {1, 8}, {2, 4}, {1, 8}, {2, 4}, {1, 8}, {11, 4}, {4, 1}, {2, 2},
    {4, 1},
};

static const struct rnic_run of_flow[] = {
    {6, 4}, {1, 2}, {6, 1},
};

static const struct rnic_run of_raw[] = {
    {1, 4}, {4, 1}, {1, 8}, {2, 1}, {1, 2}, {3, 4}, {1, 8}, {2, 4}, {1, 8}, {2, 4}, {1, 8}, {2, 4},
    {9024, 1},
};

static const struct rnic_run of_template[] = {
    {1, 8}, {2, 4},
};

static const struct rnic_run of_store[] = {
    {1, 8}, {2, 4}, {16, 1},
};

static const struct rnic_run of_faults[] = {
    {2, 1}, {1, 2}, {3, 4}, {2, 1}, {1, 2}, {3, 4}, {2, 1}, {1, 2}, {3, 4}, {2, 1}, {1, 2}, {3, 4},
    {2, 1}, {1, 2}, {3, 4}, {2, 1}, {1, 2}, {3, 4}, {2, 1}, {1, 2}, {3, 4}, {2, 1}, {1, 2}, {3, 4},
    {2, 1}, {1, 2}, {3, 4}, {2, 1}, {1, 2}, {3, 4}, {2, 1}, {1, 2}, {3, 4}, {2, 1}, {1, 2}, {3, 4},
    {2, 1}, {1, 2}, {3, 4}, {2, 1}, {1, 2}, {3, 4}, {2, 1}, {1, 2}, {3, 4}, {2, 1}, {1, 2}, {5, 4},
    {1, 8}, {17, 4}, {4, 1}, {3, 8},
};

static const struct rnic_run of_switch[] = {
    {3, 4}, {12, 1}, {1, 8}, {4, 4}, {3, 8}, {1, 4}, {4, 1}, {8, 8}, {4, 4}, {3, 8}, {1, 4},
    {4, 1}, {2, 8}, {4, 1}, {3, 4}, {5, 8},
};

static const struct rnic_run of_switch_queue[] = {
    {4, 4},
};

static const struct rnic_run of_switch_slot[] = {
    {3, 4},
};

static const struct rnic_run of_switch_held[] = {
    {2, 8}, {2, 4},
};

static const struct rnic_run of_frames[] = {
    {16, 4},
};

static const struct rnic_run of_efe[] = {
    {4, 4}, {8, 1}, {1, 8}, {4, 1}, {1, 4}, {29, 8}, {8, 4}, {4, 1}, {3, 4}, {1, 8}, {1, 4},
    {260, 1}, {9, 8},
};

static const struct rnic_run of_efe_flow[] = {
    {8, 1}, {2, 2}, {22, 4}, {4, 1}, {3, 8}, {1, 4}, {4, 1}, {1, 4}, {4, 1}, {7, 4}, {4, 1},
    {1, 8}, {1, 4}, {4, 1}, {6, 8}, {1, 4}, {4, 1}, {512, 4},
};

static const struct rnic_run of_efe_path[] = {
    {12, 1}, {7, 4}, {2, 8}, {2, 4}, {1, 8}, {1, 4}, {4, 1}, {2, 8}, {8, 1}, {5, 8},
};

static const struct rnic_run of_efe_slot[] = {
    {14, 1}, {3, 2}, {3, 4}, {3, 2}, {2, 1}, {5, 4}, {4, 1}, {3, 8}, {2, 4}, {8, 1},
};

const struct rnic_layout rnic_layout_state = {"state", of_state, sizeof(of_state) / sizeof(of_state[0]), 4856};
const struct rnic_layout rnic_layout_fn = {"fn", of_fn, sizeof(of_fn) / sizeof(of_fn[0]), 1096};
const struct rnic_layout rnic_layout_qp = {"qp", of_qp, sizeof(of_qp) / sizeof(of_qp[0]), 320};
const struct rnic_layout rnic_layout_inbound = {"inbound", of_inbound, sizeof(of_inbound) / sizeof(of_inbound[0]), 32};
const struct rnic_layout rnic_layout_cq = {"cq", of_cq, sizeof(of_cq) / sizeof(of_cq[0]), 48};
const struct rnic_layout rnic_layout_mr = {"mr", of_mr, sizeof(of_mr) / sizeof(of_mr[0]), 48};
const struct rnic_layout rnic_layout_listen = {"listen", of_listen, sizeof(of_listen) / sizeof(of_listen[0]), 76};
const struct rnic_layout rnic_layout_claim = {"claim", of_claim, sizeof(of_claim) / sizeof(of_claim[0]), 20};
const struct rnic_layout rnic_layout_request = {"request", of_request, sizeof(of_request) / sizeof(of_request[0]), 112};
const struct rnic_layout rnic_layout_flow = {"flow", of_flow, sizeof(of_flow) / sizeof(of_flow[0]), 32};
const struct rnic_layout rnic_layout_raw = {"raw", of_raw, sizeof(of_raw) / sizeof(of_raw[0]), 9104};
const struct rnic_layout rnic_layout_template = {"template", of_template, sizeof(of_template) / sizeof(of_template[0]), 16};
const struct rnic_layout rnic_layout_store = {"store", of_store, sizeof(of_store) / sizeof(of_store[0]), 32};
const struct rnic_layout rnic_layout_faults = {"faults", of_faults, sizeof(of_faults) / sizeof(of_faults[0]), 368};
const struct rnic_layout rnic_layout_switch = {"switch", of_switch, sizeof(of_switch) / sizeof(of_switch[0]), 264};
const struct rnic_layout rnic_layout_switch_queue = {"switch_queue", of_switch_queue, sizeof(of_switch_queue) / sizeof(of_switch_queue[0]), 16};
const struct rnic_layout rnic_layout_switch_slot = {"switch_slot", of_switch_slot, sizeof(of_switch_slot) / sizeof(of_switch_slot[0]), 12};
const struct rnic_layout rnic_layout_switch_held = {"switch_held", of_switch_held, sizeof(of_switch_held) / sizeof(of_switch_held[0]), 24};
const struct rnic_layout rnic_layout_frames = {"frames", of_frames, sizeof(of_frames) / sizeof(of_frames[0]), 64};
const struct rnic_layout rnic_layout_efe = {"efe", of_efe, sizeof(of_efe) / sizeof(of_efe[0]), 664};
const struct rnic_layout rnic_layout_efe_flow = {"efe_flow", of_efe_flow, sizeof(of_efe_flow) / sizeof(of_efe_flow[0]), 2296};
const struct rnic_layout rnic_layout_efe_path = {"efe_path", of_efe_path, sizeof(of_efe_path) / sizeof(of_efe_path[0]), 144};
const struct rnic_layout rnic_layout_efe_slot = {"efe_slot", of_efe_slot, sizeof(of_efe_slot) / sizeof(of_efe_slot[0]), 104};

/* clang-format on */
