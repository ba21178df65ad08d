// SPDX-License-Identifier: MIT
//
// A line between the two roles of a case: a stream of bytes in both directions, whose ends are
// sockets. line.cpp has it by POSIX, windows/line.cpp on Windows.
#ifndef VIPL_TESTS_LINE_HPP
#define VIPL_TESTS_LINE_HPP

#include <cstddef>

namespace vipl_test {

/** Both ends of a line; those that are still open are closed with the object. */
struct LinePair {
    int end[2] = {-1, -1};

    LinePair();
    ~LinePair();
    LinePair(const LinePair &) = delete;
    LinePair &operator=(const LinePair &) = delete;
    void close_end(int i);
};

/** Read exactly size bytes; false at the end of the stream. Throws Failure when they do not come
 * until then (now_ms()). */
bool line_read(int line, void *data, size_t size, unsigned long long end);
/** Write all bytes; false when nobody reads any more. */
bool line_write(int line, const void *data, size_t size);
/** Nothing more is read or written: the other end finds the end of the stream. */
void line_shut(int line);
void line_close(int line);

} // namespace vipl_test

#endif
