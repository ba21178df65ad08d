/* SPDX-License-Identifier: MIT */
/* vipl-cap: receives packets into memory and writes them as pcapng, by libvipldm. */
#include <errno.h>
#include <stdio.h>

#include "cap.h"
#include "tool_os.h"
#include "tool_text.h"

static int receive_all(const struct cap_options *options, struct vipl_dm_capture *capture)
{
    static struct traffic_meter meter; /* large; this is called once */
    struct vipl_dm_counters counters;
    struct vipl_dm_reason reason = {""};
    struct vipl_dm_reason later = {""};
    int is_done = 0;
    int error = 0;
    int bad;
    int code;

    fprintf(stderr, "%s: receiving\n", tool_name); /* from now on no packet is missed */
    traffic_meter_start(&meter, &options->common);
    while (error == 0 && !is_done && !tool_stop) {
        error = vipl_dm_capture_run(capture, TRAFFIC_SLICE_NS, &is_done, &reason);
        vipl_dm_capture_counters(capture, &counters);
        traffic_meter_look(&meter, &options->common, &counters);
    }
    bad = vipl_dm_capture_stop(capture, error == 0 ? &reason : &later);
    error = error == 0 ? bad : error;
    vipl_dm_capture_counters(capture, &counters);
    code = traffic_report(&meter, &options->common, &counters, false, true);
    if (error != 0) {
        tool_complain("%s", reason.text);
        return TOOL_FAILED;
    }
    return code;
}

int main(int argc, char **argv)
{
    static struct cap_options options;
    struct vipl_dm_capture *capture = NULL;
    struct vipl_dm_reason reason = {""};
    char text[1024];
    int code;
    int error;

    tool_name = "vipl-cap";
    code = cap_parse(argc, argv, &options);
    if (code == -1 && options.common.plot != NULL && !traffic_plot_is_possible(options.common.plot)) {
        code = TOOL_USAGE;
    }
    if (code != -1) {
        return code;
    }
    options.receive.path = options.common.path;
    options.receive.only_explain = options.common.explain ? 1 : 0;
    tool_catch_stop();
    error = vipl_dm_capture_open(&options.receive, &capture, &reason);
    if (error != 0) {
        tool_complain("%s", reason.text);
        return error == EINVAL || error == ENOTSUP || error == ENODEV ? TOOL_USAGE : TOOL_FAILED;
    }
    if (options.common.explain) {
        vipl_dm_capture_explain(capture, text, sizeof(text));
        fputs(text, stdout);
        code = fflush(stdout) == 0 ? TOOL_OK : TOOL_FAILED;
    } else {
        code = receive_all(&options, capture);
    }
    vipl_dm_capture_close(capture);
    return code;
}
