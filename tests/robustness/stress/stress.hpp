// SPDX-License-Identifier: MIT
//
// What the stress programs share: how long and with which random numbers they run, a crew of
// threads whose failures reach the main thread, children made by the zygote, and a census of what
// the process holds (descriptors, threads, shared mappings, memory). A program is one file, and
// gets its main() from here.
#ifndef VIPL_STRESS_HPP
#define VIPL_STRESS_HPP

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <iostream>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <csignal>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "support/objects.hpp"
#include "support/tasks.hpp"
#include "support/zygote.hpp"

extern unsigned vipl_catch_case_seconds; // catch2/run.cpp

namespace stress {

using namespace vipl_test;

/** VIPL_STRESS_SECONDS: how long a test without a natural end lasts. */
inline unsigned seconds()
{
    const char *text = std::getenv("VIPL_STRESS_SECONDS");
    const long value = text != nullptr ? std::strtol(text, nullptr, 10) : 5;
    return value < 1 ? 1u : static_cast<unsigned>(value);
}

/** A number of 1 or more, from an environment variable. */
inline unsigned setting(const char *variable, unsigned usual)
{
    const char *text = std::getenv(variable);
    const long value = text != nullptr ? std::strtol(text, nullptr, 10) : 0;
    return value < 1 ? usual : static_cast<unsigned>(value);
}

/** How often, from an environment variable, or as often as a test run has time for: fewer times in
 * a program that is slow. */
inline unsigned times(const char *variable, unsigned usual)
{
    return setting(variable, std::max(usual / slowness(), 1u));
}

/** VIPL_STRESS_SEED, or another number each time; printed, so that a failure can be repeated. */
inline std::uint64_t seed()
{
    static const std::uint64_t value = [] {
        const char *text = std::getenv("VIPL_STRESS_SEED");
        const std::uint64_t s = text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device{}();
        std::cout << "VIPL_STRESS_SEED=" << s << std::endl;
        return s;
    }();
    return value;
}

using Random = std::mt19937_64;

inline std::uint64_t below(Random &random, std::uint64_t limit)
{
    return random() % limit;
}

/** Threads whose first failure is thrown by join(). */
class Crew {
public:
    ~Crew() { wait(); }

    void add(std::function<void()> body)
    {
        threads_.emplace_back([this, body = std::move(body)] {
            try {
                body();
            } catch (...) {
                const std::lock_guard<std::mutex> lock(mutex_);
                if (failure_ == nullptr) {
                    failure_ = std::current_exception();
                }
                failed_ = true;
            }
        });
    }

    /** Some thread has failed: whoever loops should stop. */
    bool failed() const { return failed_; }

    void join()
    {
        wait();
        if (failure_ != nullptr) {
            std::rethrow_exception(std::exchange(failure_, nullptr));
        }
    }

private:
    void wait()
    {
        for (std::thread &thread : threads_) {
            thread.join();
        }
        threads_.clear();
    }

    std::vector<std::thread> threads_;
    std::mutex mutex_;
    std::exception_ptr failure_;
    std::atomic<bool> failed_{false};
};

// --- a line to a child ---------------------------------------------------------------------------

/** One end of a socket pair: values of a fixed size, with a limit on how long they may take. */
class Line {
public:
    explicit Line(int fd = -1) : fd_(fd) {}

    template <class T>
    void send(const T &value)
    {
        static_assert(std::is_trivially_copyable_v<T>, "values cross between processes");
        EXPECT(::send(fd_, &value, sizeof value, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof value));
    }

    template <class T>
    T receive(VIP_ULONG limit = 2 * patience())
    {
        static_assert(std::is_trivially_copyable_v<T>, "values cross between processes");
        T value{};
        const unsigned long long end = now_ms() + limit;
        for (;;) {
            const unsigned long long now = now_ms();
            pollfd entry = {fd_, POLLIN, 0};
            if (poll(&entry, 1, now < end ? static_cast<int>(end - now) : 0) > 0) {
                break;
            }
            EXPECT(now < end);
        }
        EXPECT(recv(fd_, &value, sizeof value, 0) == static_cast<ssize_t>(sizeof value));
        return value;
    }

    void sync()
    {
        send('S');
        EXPECT(receive<char>() == 'S');
    }

    int fd() const { return fd_; }

private:
    int fd_;
};

/** What a child is told beside its role. Plain bytes. */
struct Scene {
    char discriminator[20];
    char pull[8]; // VIPL_LOOPBACK_PULL, or empty
    std::uint64_t seed;

    Random random() const { return Random(seed); }
    std::string name(const char *suffix = "") const { return std::string(discriminator) + suffix; }
};

inline Scene make_scene(const char *pull = "")
{
    Scene scene{};
    std::snprintf(scene.discriminator, sizeof scene.discriminator, "%s", unique_discriminator().c_str());
    std::snprintf(scene.pull, sizeof scene.pull, "%s", pull);
    scene.seed = seed();
    return scene;
}

inline void use_pull(const char *pull)
{
    pull[0] == '\0' ? unsetenv("VIPL_LOOPBACK_PULL") : setenv("VIPL_LOOPBACK_PULL", pull, 1);
}

using Role = void (*)(const Scene &scene, Line &line);

inline int run_role(const ChildOrder &order, int line_fd, int report)
{
    Scene scene;
    std::memcpy(&scene, order.scene, sizeof scene);
    close(report);
    use_pull(scene.pull);
    try {
        Line line(line_fd);
        reinterpret_cast<Role>(order.role)(scene, line);
    } catch (const std::exception &error) {
        std::cerr << "[child] " << error.what() << std::endl;
        return 1;
    }
    return 0;
}

/** A child process that plays a role; it is killed and waited for at the end, unless it was
 * before. */
class Child {
public:
    Child(Role role, const Scene &scene)
    {
        int fds[2];
        EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
        ChildOrder order{};
        order.role = reinterpret_cast<void (*)()>(role);
        static_assert(sizeof scene <= sizeof order.scene, "a scene fits into an order");
        std::memcpy(order.scene, &scene, sizeof scene);
        pid_ = zygote_spawn(order, fds[1], fds[1]);
        close(fds[1]);
        line = Line(fds[0]);
    }
    ~Child()
    {
        if (pid_ > 0) {
            ::kill(pid_, SIGKILL);
            zygote_wait(pid_);
        }
        close(line.fd());
    }
    Child(const Child &) = delete;
    Child &operator=(const Child &) = delete;

    void kill() { ::kill(pid_, SIGKILL); }

    /** Wait for its end. Require that it ended well, or that it was killed. */
    void finish(bool killed = false)
    {
        const int status = zygote_wait(pid_);
        pid_ = 0;
        if (killed) {
            EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        } else {
            EXPECT_EQ(0, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
            EXPECT_EQ(0, WEXITSTATUS(status));
        }
    }

    Line line;

private:
    pid_t pid_ = 0;
};

// --- connecting ----------------------------------------------------------------------------------

/** Wait for one request for that discriminator and accept it. */
inline VIP_RETURN accept_on(const Nic &nic, const std::string &name, VIP_VI_HANDLE vi,
                            VIP_ULONG timeout = patience())
{
    NetAddress local = nic.address(name);
    NetAddress from;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    const VIP_RETURN rc = VipConnectWait(nic, local, timeout, from, &attributes, &connection);
    if (rc != VIP_SUCCESS) {
        return rc;
    }
    const VIP_RETURN accepted = VipConnectAccept(connection, vi);
    if (accepted != VIP_SUCCESS) {
        VipConnectReject(connection);
    }
    return accepted;
}

inline VIP_RETURN request_to(const Nic &nic, const std::string &name, VIP_VI_HANDLE vi,
                             VIP_ULONG timeout = patience())
{
    NetAddress local = nic.address("me");
    NetAddress remote = nic.address(name);
    return VipConnectRequest(vi, local, remote, timeout, nullptr);
}

/** Something that another thread or process does. */
template <class Condition>
void await(const Condition &condition)
{
    const unsigned long long end = now_ms() + 2 * patience();
    while (!condition()) {
        EXPECT(now_ms() < end);
        give_way();
    }
}

/** Memory that this process and all its children share, cleared; from start_stress(). */
inline constexpr size_t kSharedBytes = 1 << 20;
inline void *g_shared = nullptr;

template <class T>
T &shared()
{
    static_assert(sizeof(T) <= kSharedBytes, "it fits");
    return *static_cast<T *>(g_shared);
}

inline void start_stress()
{
    setenv("VIPL_LOG", "off", 0); // errors are provoked here
    vipl_catch_case_seconds = 45 + seconds();
    g_shared = mmap(nullptr, kSharedBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    seed();
    zygote_start(run_role);
}

} // namespace stress

int vipl_catch_run(int argc, char **argv); // compiled once for all programs

int main(int argc, char **argv)
{
    stress::start_stress();
    return vipl_catch_run(argc, argv);
}

#endif
