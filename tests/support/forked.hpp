// SPDX-License-Identifier: MIT
//
// A child that a case forks for itself, from whatever the process is doing. It runs a function and
// then ends by _exit(); a check that fails in it fails finish(). An alarm ends one that hangs, the
// destructor one that still lives.
#ifndef VIPL_TESTS_FORKED_HPP
#define VIPL_TESTS_FORKED_HPP

#include <functional>
#include <string>

#include <sys/types.h>

namespace vipl_test {

/** The child's end of a line to its parent. */
class ParentLine {
public:
    explicit ParentLine(int fd) : fd_(fd) {}

    void tell() const;  // the parent's await() returns
    void await() const; // the parent's tell(); its end ends this process

private:
    int fd_;
};

class Forked {
public:
    using Body = std::function<void(const ParentLine &)>;

    /** Fork. The child has that many seconds; 0: as many as a case. */
    explicit Forked(const Body &body, unsigned seconds = 0);
    ~Forked();
    Forked(const Forked &) = delete;
    Forked &operator=(const Forked &) = delete;

    pid_t pid() const { return pid_; }
    void tell() const;
    void await() const;

    /** Wait for its end; the wait status. Throws what the child threw. */
    int end();
    /** Require that it ends well. */
    void finish();
    /** Require that it exits with this code, or is ended by this signal. */
    void finish_with_exit(int code);
    void finish_with_signal(int number);

private:
    pid_t pid_ = -1;
    int line_ = -1;
};

/** A wait status in words. */
std::string show_end(int status);

/** Entries of a folder, /proc/self/fd for instance, but those that begin with a dot. */
unsigned count_entries_of(const char *folder);

/** The lines of a file that contain a text. */
std::string lines_with(const char *path, const char *text);

/** Connect two VIs of one NIC handle to each other from this one thread, send a text across and
 * take it. */
void exchange_within_this_process();

} // namespace vipl_test

#endif
