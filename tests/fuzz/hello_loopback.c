/* SPDX-License-Identifier: MIT */
/* The packets of connecting: what was read is the same when written and read again. */
#include <string.h>

#include "backends/loopback/request.h"
#include "hello.h"

const char *fuzz_loopback_request(const uint8_t *bytes, size_t length)
{
    struct lo_connect_request request, again;
    uint8_t first[LO_PACKET], second[LO_PACKET];
    memset(&request, 0, sizeof(request));
    memset(&again, 0, sizeof(again));
    if (!vipl_lo_connect_request_read(&request, bytes, length)) {
        return NULL;
    }
    if (!vipl_lo_writer_fits(&request.writer)) {
        return length >= 7 ? NULL : "a request that is too short to be refused was read";
    }
    size_t written = vipl_lo_connect_request_write(&request, first);
    if (written > length || request.local.host_len > VIPL_MAX_HOST_ADDRESS ||
        request.remote.disc_len > VIPL_MAX_DISCRIMINATOR) {
        return "a request is longer than what it was read from";
    }
    if (!vipl_lo_connect_request_read(&again, first, written) ||
        vipl_lo_connect_request_write(&again, second) != written || memcmp(first, second, written) != 0) {
        return "a request is not read as it was written";
    }
    return vipl_lo_connect_request_read(&again, first, written - 1) ? "a truncated request was read" : NULL;
}

const char *fuzz_loopback_reply(const uint8_t *bytes, size_t length)
{
    struct lo_reply reply, again;
    uint8_t first[LO_PACKET], second[LO_PACKET];
    memset(&reply, 0, sizeof(reply));
    memset(&again, 0, sizeof(again));
    if (!vipl_lo_reply_read(&reply, bytes, length)) {
        return NULL;
    }
    size_t written = vipl_lo_reply_write(&reply, first);
    if (written > length) {
        return "a reply is longer than what it was read from";
    }
    if (!vipl_lo_reply_read(&again, first, written) || vipl_lo_reply_write(&again, second) != written ||
        memcmp(first, second, written) != 0) {
        return "a reply is not read as it was written";
    }
    return vipl_lo_reply_read(&again, first, written - 1) ? "a truncated reply was read" : NULL;
}

const char *fuzz_loopback_notice(const uint8_t *bytes, size_t length)
{
    struct lo_notice notice, again;
    uint8_t written[LO_PACKET];
    memset(&notice, 0, sizeof(notice));
    memset(&again, 0, sizeof(again));
    if (!vipl_lo_notice_read(&notice, bytes, length)) {
        return NULL;
    }
    if (!vipl_lo_writer_fits(&notice.writer)) {
        return length >= 7 ? NULL : "a notice that is too short to be refused was read";
    }
    size_t n = vipl_lo_notice_write(&notice, written);
    if (n > length || !vipl_lo_notice_read(&again, written, n) || again.place != notice.place) {
        return "a notice is not read as it was written";
    }
    return vipl_lo_notice_read(&again, written, n - 1) ? "a truncated notice was read" : NULL;
}
