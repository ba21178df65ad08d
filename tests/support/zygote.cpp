// SPDX-License-Identifier: MIT
//
// The zygote's side is a loop over requests: spawn (with two sockets attached) answers a process
// id, wait answers a status. Requests and answers are fixed-size records on a socket pair; the end
// of the stream ends the zygote.
#include "zygote.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.hpp"
#include "environment.hpp"

#if defined(__SANITIZE_THREAD__)
// By default each process sleeps a second at its exit, to let other threads report; children are
// many.
extern "C" const char *__tsan_default_options();
const char *__tsan_default_options()
{
    return "atexit_sleep_ms=0";
}
#endif

namespace vipl_test {

namespace {

struct Request {
    pid_t wait_for; // 0: spawn
    ChildOrder order;
};

int g_line = -1; // the suite's end; -1 before zygote_start() and in children

/** Control data for two descriptors, aligned as sockets want it. */
union TwoDescriptors {
    cmsghdr header;
    char room[CMSG_SPACE(2 * sizeof(int))];
};

bool send_request(const Request &request, const int *fds)
{
    iovec part = {const_cast<Request *>(&request), sizeof request};
    TwoDescriptors control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (fds != nullptr) {
        message.msg_control = control.room;
        message.msg_controllen = sizeof control.room;
        cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(2 * sizeof(int));
        std::memcpy(CMSG_DATA(header), fds, 2 * sizeof(int));
    }
    ssize_t sent;
    do {
        sent = sendmsg(g_line, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent == static_cast<ssize_t>(sizeof request);
}

bool receive_request(int line, Request *request, int *fds)
{
    iovec part = {request, sizeof *request};
    TwoDescriptors control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.room;
    message.msg_controllen = sizeof control.room;
    ssize_t got;
    do {
        got = recvmsg(line, &message, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    const cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
        std::memcpy(fds, CMSG_DATA(const_cast<cmsghdr *>(header)), 2 * sizeof(int));
    }
    return got == static_cast<ssize_t>(sizeof *request);
}

template <class T>
bool read_answer(T *answer)
{
    ssize_t got;
    do {
        got = read(g_line, answer, sizeof *answer);
    } while (got < 0 && errno == EINTR);
    return got == static_cast<ssize_t>(sizeof *answer);
}

void die_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) { // it died before the line above
        _exit(1);
    }
}

[[noreturn]] void zygote_main(int line, ChildMain child_main)
{
    const pid_t zygote = getpid();
    for (;;) {
        Request request{};
        int fds[2] = {-1, -1};
        if (!receive_request(line, &request, fds)) {
            _exit(0);
        }
        int answer = 0;
        if (request.wait_for == 0) {
            answer = fork();
            if (answer == 0) {
                die_with(zygote);
                close(line);
                alarm(case_limit() + 5); // the default action ends a child that nobody watches any more
                std::exit(child_main(request.order, fds[0], fds[1]));
            }
            close(fds[0]);
            close(fds[1]);
        } else if (waitpid(request.wait_for, &answer, 0) != request.wait_for) {
            answer = -1;
        }
        if (write(line, &answer, sizeof answer) != static_cast<ssize_t>(sizeof answer)) {
            _exit(0);
        }
    }
}

} // namespace

void zygote_start(ChildMain child_main)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
        std::perror("socketpair");
        std::exit(2);
    }
    std::fflush(nullptr);
    const pid_t suite = getpid();
    const pid_t zygote = fork();
    if (zygote < 0) {
        std::perror("fork");
        std::exit(2);
    }
    if (zygote == 0) {
        die_with(suite);
        close(fds[0]);
        zygote_main(fds[1], child_main);
    }
    close(fds[1]);
    g_line = fds[0];
}

pid_t zygote_spawn(const ChildOrder &order, int line, int report)
{
    Request request{};
    request.order = order;
    const int fds[2] = {line, report};
    pid_t child = -1;
    if (!send_request(request, fds) || !read_answer(&child) || child < 0) {
        throw Failure("cannot start a child process (was start_zygote() called?)");
    }
    return child;
}

int zygote_wait(pid_t child)
{
    Request request{};
    request.wait_for = child;
    int status = -1;
    if (!send_request(request, nullptr) || !read_answer(&status)) {
        throw Failure("the zygote has gone");
    }
    return status;
}

void zygote_kill(pid_t child)
{
    kill(child, SIGKILL);
}

bool ended_so(int status, int code)
{
    return code == kKilled ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                           : WIFEXITED(status) && WEXITSTATUS(status) == code;
}

std::string describe_end(int status)
{
    if (WIFSIGNALED(status)) {
        return std::string("ended by signal ") + std::to_string(WTERMSIG(status)) + " (" +
               strsignal(WTERMSIG(status)) + ')';
    }
    return "exited with status " + std::to_string(WEXITSTATUS(status));
}

} // namespace vipl_test
