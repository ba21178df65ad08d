// SPDX-License-Identifier: MIT
//
// Where the library's own text goes, and where it does not: to a descriptor 2 that is one of the
// program's files, and to files that end the program when they are written.
#include <catch2/catch.hpp>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.hpp"
#include "support/stderr_of.hpp"

extern "C" {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" // a function that is named as its structure
#include "hook/trace.h"
#pragma GCC diagnostic pop
}

namespace {

/** A file for one test. */
class File {
public:
    File() : fd_(mkstemp(path_)) { REQUIRE(fd_ >= 0); }
    ~File()
    {
        close(fd_);
        unlink(path_);
    }
    File(const File &) = delete;
    File &operator=(const File &) = delete;
    const char *path() const { return path_; }
    int fd() const { return fd_; }
    off_t size() const
    {
        struct stat st {};
        REQUIRE(fstat(fd_, &st) == 0);
        return st.st_size;
    }

private:
    char path_[32] = "/tmp/vipl-unit-XXXXXX";
    int fd_;
};

/** The status of a child that does this; 0: it came to its end, and `body` said yes. */
int status_of(const std::function<bool()> &body)
{
    const pid_t child = fork();
    if (child == 0) {
        for (const int signal : {SIGPIPE, SIGXFSZ}) {
            std::signal(signal, SIG_DFL);
        }
        _exit(body() ? 0 : 1);
    }
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

void log_line()
{
    vipl_log(VIPL_LOG_ERROR, "%s", "a line of the log");
}

/** The end of a pipe that nobody reads. */
int broken_pipe()
{
    int ends[2];
    if (pipe(ends) != 0) {
        _exit(2);
    }
    close(ends[0]);
    return ends[1];
}

bool is_pending(int signal)
{
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, signal) == 1;
}

void limit_files(rlim_t bytes)
{
    const rlimit limit = {bytes, bytes};
    setrlimit(RLIMIT_FSIZE, &limit);
}

/** Opens it as descriptor 2, as a program does that has closed its own. */
void open_as_error_output(const char *path)
{
    close(STDERR_FILENO);
    if (open(path, O_RDWR) != STDERR_FILENO) {
        _exit(2);
    }
}

} // namespace

TEST_CASE("a line of the log that cannot be written does not end the program", "[output]")
{
    const File file;
    const int which = GENERATE(SIGPIPE, SIGXFSZ);
    const bool blocked = GENERATE(false, true);
    CAPTURE(which, blocked);
    CHECK(status_of([&] {
              dup2(which == SIGPIPE ? broken_pipe() : file.fd(), STDERR_FILENO);
              vipl_log_set_level(VIPL_LOG_ERROR, false);
              limit_files(0);
              sigset_t one;
              sigset_t after;
              sigemptyset(&one);
              sigaddset(&one, which);
              sigprocmask(blocked ? SIG_BLOCK : SIG_UNBLOCK, &one, nullptr);
              errno = 77;
              log_line();
              const bool kept = errno == 77;
              sigprocmask(SIG_BLOCK, nullptr, &after);
              return kept && !is_pending(which) && (sigismember(&after, which) == 1) == blocked;
          }) == 0);
}

TEST_CASE("a signal that the program had pending is still there after a line of the log", "[output]")
{
    CHECK(status_of([] {
              sigset_t one;
              sigemptyset(&one);
              sigaddset(&one, SIGPIPE);
              sigprocmask(SIG_BLOCK, &one, nullptr);
              raise(SIGPIPE);
              dup2(broken_pipe(), STDERR_FILENO);
              vipl_log_set_level(VIPL_LOG_ERROR, false);
              log_line();
              return is_pending(SIGPIPE);
          }) == 0);
}

TEST_CASE("a trace that cannot be written does not end the program", "[output]")
{
    const File file;
    const std::string pipe_path = std::string(file.path()) + ".fifo";
    REQUIRE(mkfifo(pipe_path.c_str(), 0600) == 0);
    CHECK(status_of([&] { // beyond the limit
              struct vipl_trace trace {};
              vipl_trace_open(&trace, file.path(), "", nullptr);
              limit_files(8);
              vipl_trace(&trace, VIPL_TRACED_CONNECT, nullptr, "a line of %u", 1u);
              vipl_trace(&trace, VIPL_TRACED_CONNECT, nullptr, "a line of %u", 2u);
              vipl_trace_close(&trace);
              return file.size() == 8;
          }) == 0);
    CHECK(status_of([&] { // whose reader has gone
              const int reader = open(pipe_path.c_str(), O_RDONLY | O_NONBLOCK);
              struct vipl_trace trace {};
              vipl_trace_open(&trace, pipe_path.c_str(), "", nullptr);
              close(reader);
              vipl_trace(&trace, VIPL_TRACED_CONNECT, nullptr, "a line");
              vipl_trace_close(&trace);
              return true;
          }) == 0);
    struct vipl_trace trace {};
    const std::string told = vipl_test::stderr_of([&] { // that never had one
        vipl_trace_open(&trace, pipe_path.c_str(), "", nullptr);
    });
    CHECK(told.find("VIPL_TRACE=" + pipe_path) != std::string::npos);
    vipl_trace(&trace, VIPL_TRACED_CONNECT, nullptr, "a line");
    vipl_trace_close(&trace);
    unlink(pipe_path.c_str());
}

TEST_CASE("a trace is the whole lines, behind what the file has", "[output]")
{
    const File file;
    REQUIRE(write(file.fd(), "first\n", 6) == 6);
    struct vipl_trace trace {};
    vipl_trace_open(&trace, file.path(), "", nullptr);
    vipl_trace(&trace, VIPL_TRACED_CONNECT, nullptr, "number=%u", 5u);
    vipl_trace_close(&trace);
    char text[256] = "";
    const ssize_t length = pread(file.fd(), text, sizeof text - 1, 0);
    REQUIRE(length > 6);
    CHECK(std::string(text).find("first\n") == 0);
    CHECK(std::string(text).find(" number=5\n") == static_cast<size_t>(length) - 10);
}

TEST_CASE("by default nothing is written to a file of the program's that is descriptor 2", "[output]")
{
    const File file;
    const bool opened_before = GENERATE(false, true); // than the device
    CAPTURE(opened_before);
    CHECK(status_of([&] {
              if (opened_before) {
                  open_as_error_output(file.path());
              }
              vipl_log_set_level(VIPL_LOG_ERROR, true);
              if (!opened_before) {
                  open_as_error_output(file.path());
              }
              log_line();
              return file.size() == 0;
          }) == 0);
    CHECK(status_of([&] { // nor to a connection
              int ends[2];
              char byte;
              close(STDERR_FILENO);
              if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || ends[0] != STDERR_FILENO) {
                  return false;
              }
              vipl_log_set_level(VIPL_LOG_ERROR, true);
              log_line();
              return recv(ends[1], &byte, 1, MSG_DONTWAIT) < 0;
          }) == 0);
    CHECK(status_of([&] { // closed when the device is opened: it stays so, also if a pipe comes there
              int ends[2];
              char byte;
              close(STDERR_FILENO);
              vipl_log_set_level(VIPL_LOG_ERROR, true);
              if (pipe2(ends, O_NONBLOCK) != 0) {
                  return false;
              }
              dup2(ends[1], STDERR_FILENO);
              log_line();
              return read(ends[0], &byte, 1) < 0;
          }) == 0);
}

TEST_CASE("a standard error output gets the log", "[output]")
{
    const File file;
    CHECK(status_of([&] { // the user has asked for it
              open_as_error_output(file.path());
              vipl_log_set_level(VIPL_LOG_ERROR, false);
              log_line();
              return file.size() > 0;
          }) == 0);
    CHECK(status_of([] { // a pipe
              int ends[2];
              char byte;
              if (pipe2(ends, O_NONBLOCK) != 0) {
                  return false;
              }
              dup2(ends[1], STDERR_FILENO);
              vipl_log_set_level(VIPL_LOG_ERROR, true);
              log_line();
              return read(ends[0], &byte, 1) == 1;
          }) == 0);
    CHECK(status_of([&] { // a pipe, put aside and back again
              int ends[2];
              if (pipe2(ends, O_NONBLOCK) != 0) {
                  return false;
              }
              const int before = ends[1];
              dup2(before, STDERR_FILENO);
              vipl_log_set_level(VIPL_LOG_ERROR, true);
              open_as_error_output(file.path());
              const bool is_other = !vipl_error_output_is_open();
              dup2(before, STDERR_FILENO);
              return is_other && vipl_error_output_is_open();
          }) == 0);
}
