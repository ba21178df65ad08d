/* SPDX-License-Identifier: MIT */
/* Counts as text, for the library and for vipl-run: this file calls nothing of either. */
#include <stdio.h>

#include "os/os_atomic.h"
#include "sockets/stats.h"

const char *sock_reason_text(enum sock_reason reason)
{
    static const char *const texts[SOCK_REASONS] = {
        [SOCK_MOVED_TO_VIPL] = "moved to VIPL",
        [SOCK_BY_RULE] = "by the rules: a host that they do not name, or leave with TCP",
        [SOCK_NO_MARK] = "no VIPL program listens at the port",
        [SOCK_OTHER_USER] = "the other end is another user's program",
        [SOCK_NO_DEVICE] = "the VIPL device cannot be opened",
        [SOCK_NO_STREAM] = "no memory, or no VI, is left for it",
        [SOCK_OTHER_DEVICE] = "the peer has another VIPL device",
        [SOCK_OTHER_VERSION] = "the peer has another version of the handshake",
        [SOCK_NOT_CONNECTED] = "the VIs could not be connected",
        [SOCK_PEER_PLAIN] = "the peer does not use VIPL",
        [SOCK_WROTE_FIRST] = "the server wrote first",
        [SOCK_BAD_HELLO] = "the peer's handshake was wrong",
        [SOCK_OPTION] = "the program uses something that only TCP has",
        [SOCK_NO_REPLY] = "the server had not replied when the client wrote",
        [SOCK_FORKED] = "the process was forked during the handshake",
        [SOCK_NO_ANSWER] = "the other host does not answer by the rule's device",
        [SOCK_TOO_SHORT] = "connections to the port have been short",
        [SOCK_SHUT_DOWN] = "the program called shutdown() first",
    };
    return (unsigned)reason < SOCK_REASONS ? texts[reason] : "an unknown reason";
}

size_t sock_stats_text(const struct sock_stats *stats, char text[SOCK_STATS_TEXT_BYTES])
{
    uint32_t counts[SOCK_REASONS];
    uint32_t plain = 0;
    for (unsigned i = 0; i < SOCK_REASONS; i++) {
        counts[i] = vipl_load_relaxed(&stats->counts[i]);
        plain += i == SOCK_MOVED_TO_VIPL ? 0 : counts[i];
    }
    int length = snprintf(text, SOCK_STATS_TEXT_BYTES, "vipl-run: %.*s[%u]: moved %u, plain %u, failed %u\n",
                          (int)sizeof(stats->program), stats->program, stats->pid, counts[SOCK_MOVED_TO_VIPL],
                          plain, vipl_load_relaxed(&stats->lost));
    for (unsigned i = 0; i < SOCK_REASONS; i++) {
        if (i != SOCK_MOVED_TO_VIPL && counts[i] != 0) {
            length +=
                snprintf(text + length, SOCK_STATS_TEXT_BYTES - (size_t)length, "vipl-run:   %u plain: %s\n",
                         counts[i], sock_reason_text((enum sock_reason)i));
        }
    }
    return (size_t)length; /* SOCK_STATS_TEXT_BYTES is more than all reasons take */
}
