/* SPDX-License-Identifier: MIT */
/* vipl-gen: sends the packets of a recording, at a rate, from memory, by libvipldm. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "gen.h"
#include "tool_os.h"
#include "tool_text.h"

/* Refused at the start, by what was asked for: not a failure of the system. */
static int exit_code_of(int error)
{
    return error == EINVAL || error == ENOTSUP || error == ENODEV || error == EMSGSIZE || error == ESTALE
               ? TOOL_USAGE
               : TOOL_FAILED;
}

static int complain(int error, const struct vipl_dm_reason *reason)
{
    tool_complain("%s", reason->text);
    return exit_code_of(error);
}

/* An index that is not there yet is written; without a port there is no more to do. */
static int prepare_index(const struct gen_options *options)
{
    struct vipl_dm_reason reason = {""};
    int error;

    if (options->send.index == NULL || options->common.explain || access(options->send.index, F_OK) == 0) {
        return -1;
    }
    error = vipl_dm_index_write(options->common.path.store, options->send.index, &reason);
    return error != 0 ? complain(error, &reason) : -1;
}

static int send_all(const struct gen_options *options, struct vipl_dm_sender *sender)
{
    static struct traffic_meter meter; /* large; this is called once */
    struct vipl_dm_counters counters;
    struct vipl_dm_reason reason = {""};
    int is_done = 0;
    int error = 0;
    int code;

    traffic_meter_start(&meter, &options->common);
    while (error == 0 && !is_done && !tool_stop) {
        error = vipl_dm_sender_run(sender, TRAFFIC_SLICE_NS, &is_done, &reason);
        vipl_dm_sender_counters(sender, &counters);
        traffic_meter_look(&meter, &options->common, &counters);
    }
    vipl_dm_sender_counters(sender, &counters);
    code = traffic_report(&meter, &options->common, &counters, true, is_done != 0);
    if (error != 0) {
        tool_complain("%s", reason.text);
        return TOOL_FAILED;
    }
    return code;
}

int main(int argc, char **argv)
{
    static struct gen_options options;
    struct vipl_dm_sender *sender = NULL;
    struct vipl_dm_reason reason = {""};
    char text[1024];
    int code;
    int error;

    tool_name = "vipl-gen";
    code = gen_parse(argc, argv, &options);
    if (code == -1 && options.common.plot != NULL && !traffic_plot_is_possible(options.common.plot)) {
        code = TOOL_USAGE;
    }
    if (code == -1) {
        code = prepare_index(&options);
    }
    if (code != -1) {
        return code;
    }
    if (options.common.path.port == NULL && !options.common.explain) {
        return TOOL_OK;
    }
    options.send.path = options.common.path;
    error = vipl_dm_sender_open(&options.send, &sender, &reason);
    if (error != 0) {
        return complain(error, &reason);
    }
    if (options.common.explain) {
        vipl_dm_sender_explain(sender, text, sizeof(text));
        fputs(text, stdout);
        code = fflush(stdout) == 0 ? TOOL_OK : TOOL_FAILED;
    } else {
        tool_catch_stop();
        (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* sleeps between packets end in time */
        code = send_all(&options, sender);
    }
    vipl_dm_sender_close(sender);
    return code;
}
