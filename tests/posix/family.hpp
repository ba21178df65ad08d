// SPDX-License-Identifier: MIT
//
// A process and the children it forks, for cases about objects that they share. Children run a
// function of the case, with all that the case has made, and never return to the suite. Nobody
// outlives the case's time limit.
#ifndef VIPL_CONFORMANCE_FAMILY_HPP
#define VIPL_CONFORMANCE_FAMILY_HPP

#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/net_address.hpp"
#include "support/objects.hpp"
#include "support/role_case.hpp"
#include "support/tasks.hpp"

namespace vipl_conformance {

using namespace vipl_test;

/** The other role of a case that takes one process and its children. */
inline void nobody(Peer &)
{
}

/** Nothing is shared yet: the roles' own NIC handle must not have begun the server. */
inline void expect_fresh()
{
    if (objects_are_shareable()) {
        throw NotApplicable("the first to share must be this case");
    }
}

/** Something that one process says and another one waits for; each open() lets one pass(). */
class Gate {
public:
    Gate() { EXPECT(pipe2(fds_, O_CLOEXEC) == 0); }
    ~Gate()
    {
        close(fds_[0]);
        close(fds_[1]);
    }
    Gate(const Gate &) = delete;
    Gate &operator=(const Gate &) = delete;

    void open(int value = 0) const
    {
        EXPECT(write(fds_[1], &value, sizeof value) == static_cast<ssize_t>(sizeof value));
    }
    int pass() const
    {
        int value = 0;
        EXPECT(readable(fds_[0], patience()));
        EXPECT(read(fds_[0], &value, sizeof value) == static_cast<ssize_t>(sizeof value));
        return value;
    }

    /** Whether there is something to read, or never will be. */
    static bool readable(int fd, VIP_ULONG timeout)
    {
        const unsigned long long end = now_ms() + timeout;
        for (;;) {
            const unsigned long long now = now_ms();
            pollfd entry = {fd, POLLIN, 0};
            const int count = poll(&entry, 1, now < end ? static_cast<int>(end - now) : 0);
            if (count != -1) {
                return count > 0;
            }
        }
    }

private:
    int fds_[2] = {-1, -1};
};

/** A forked child; it is killed and waited for at the end, unless it was before. */
class Fork {
public:
    explicit Fork(const std::function<void()> &body)
    {
        int fds[2];
        EXPECT(pipe2(fds, O_CLOEXEC) == 0);
        pid_ = fork();
        if (pid_ == 0) {
            close(fds[0]);
            run(body, fds[1]);
        }
        close(fds[1]);
        report_ = fds[0];
        EXPECT(pid_ > 0);
    }
    ~Fork()
    {
        if (pid_ > 0) {
            ::kill(pid_, SIGKILL);
            waitpid(pid_, nullptr, 0);
        }
        close(report_);
    }
    Fork(const Fork &) = delete;
    Fork &operator=(const Fork &) = delete;

    pid_t pid() const { return pid_; }

    /** A child that outlives this process, and says nothing. */
    static void orphan(const std::function<void()> &body)
    {
        const pid_t child = fork();
        EXPECT(child >= 0);
        if (child == 0) {
            leave_report();
            alarm(case_limit() + 10);
            try {
                body();
            } catch (const std::exception &error) {
                std::fprintf(stderr, "[orphan] %s\n", error.what());
            }
            _exit(0);
        }
    }

    void kill(int number = SIGKILL)
    {
        ::kill(pid_, number);
        const int status = end();
        EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == number);
    }

    /** Wait for its end, which must be a good one. */
    void finish()
    {
        std::string text;
        char piece[512];
        ssize_t got = 0;
        do { // its end is the end of the pipe
            EXPECT(Gate::readable(report_, 2 * patience()));
            got = read(report_, piece, sizeof piece);
            text.append(piece, got > 0 ? static_cast<size_t>(got) : 0);
        } while (got > 0);
        const int status = end();
        if (!text.empty() || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            throw Failure("a child ended with " + std::to_string(status) + ": " + text);
        }
    }

private:
    int end()
    {
        int status = 0;
        EXPECT(waitpid(pid_, &status, 0) == pid_);
        pid_ = 0;
        return status;
    }

    static void leave_report()
    {
        if (own_report >= 0) {
            close(own_report); // the parent's own: its end is to be seen
        }
    }

    [[noreturn]] static void run(const std::function<void()> &body, int report)
    {
        leave_report();
        own_report = report;
        signal(SIGALRM, SIG_DFL);
        alarm(case_limit() + 10);
        std::string text;
        try {
            body();
        } catch (const std::exception &error) {
            text = error.what();
        }
        const bool told = write(report, text.data(), text.size()) == static_cast<ssize_t>(text.size());
        _exit(text.empty() && told ? 0 : 1);
    }

    static inline int own_report = -1;
    pid_t pid_ = 0;
    int report_ = -1;
};

/** What stands before `text` in the first line with it of /proc/PROCESS/maps: range, rights,
 * device, inode. */
inline std::string mapping_of(const std::string &process, const char *text)
{
    std::string found;
    char line[1024];
    if (FILE *file = std::fopen(("/proc/" + process + "/maps").c_str(), "re")) {
        while (found.empty() && std::fgets(line, sizeof line, file) != nullptr) {
            const char *at = std::strstr(line, text);
            found = at != nullptr ? std::string(line, static_cast<size_t>(at - line)) : "";
        }
        std::fclose(file);
    }
    return found;
}

/** Inode of the memory that a process shares, or an empty text. */
inline std::string arena_of(const std::string &process)
{
    std::string line = mapping_of(process, "/memfd:vipl-shared");
    line.erase(line.find_last_not_of(' ') + 1);
    return line.empty() ? "" : line.substr(line.rfind(' ') + 1);
}

/** The server: it has the same memory as this process, and a session that is none of ours. 0: not
 * found. */
inline pid_t server()
{
    const std::string arena = arena_of("self");
    pid_t found = 0;
    DIR *const folder = opendir("/proc");
    EXPECT(folder != nullptr);
    while (const dirent *entry = readdir(folder)) {
        const pid_t process = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
        if (process > 0 && process != getpid() && getsid(process) != getsid(0) && !arena.empty() &&
            arena_of(entry->d_name) == arena) {
            found = process;
        }
    }
    closedir(folder);
    return found;
}

inline void expect_end_of(pid_t process)
{
    const unsigned long long end = now_ms() + patience();
    while (lives(process) && now_ms() < end) {
        give_way();
    }
    EXPECT(!lives(process));
}

/** Require a call to take a second at most. */
/** Requests a connection, beside the thread that takes and answers it; its end is awaited at the
 * latest with the object's. */
class Requester {
public:
    Requester(const Nic &nic, VIP_VI_HANDLE vi, const std::string &name)
        : thread_([this, &nic, vi, name] {
              NetAddress local = nic.address(name + "c"), remote = nic.address(name);
              result_ = VipConnectRequest(vi, local, remote, patience(), nullptr);
          })
    {
    }
    ~Requester() { wait(); }
    Requester(const Requester &) = delete;
    Requester &operator=(const Requester &) = delete;

    VIP_RETURN wait()
    {
        if (thread_.joinable()) {
            thread_.join();
        }
        return result_;
    }

private:
    VIP_RETURN result_ = VIP_NOT_DONE;
    std::thread thread_;
};

/** The request that comes to `name`. */
inline VIP_CONN_HANDLE take_request(const Nic &nic, const std::string &name)
{
    NetAddress listen = nic.address(name), from;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE request = nullptr;
    REQUIRE_VIP(VipConnectWait(nic, listen, patience(), from, &attributes, &request));
    return request;
}

template <class Call>
auto within_a_second(Call call) -> decltype(call())
{
    const unsigned long long start = now_ms();
    const auto result = call();
    EXPECT(now_ms() - start <= a_second());
    return result;
}

} // namespace vipl_conformance

#endif
