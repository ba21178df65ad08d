// SPDX-License-Identifier: MIT
//
// POSIX, closed standard descriptors: a daemon closes 0, 1 and 2, before it uses the library or
// between two calls. None of the library's descriptors takes their place, in no process.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vipl/posix.h>

#include "support/forked.hpp"
#include "support/role_case.hpp"

using namespace vipl_test;

namespace {

constexpr unsigned kSubsets = 8; // of 0, 1 and 2, a bit each

bool is_in(unsigned subset, int fd)
{
    return (subset >> fd & 1) != 0;
}

std::string file_of(int fd)
{
    char name[256];
    const ssize_t length = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof name);
    return length < 0 ? "a file that /proc does not name" : std::string(name, static_cast<size_t>(length));
}

void close_standard(unsigned subset)
{
    for (int fd = 0; fd < 3; ++fd) {
        if (is_in(subset, fd)) {
            close(fd);
        }
    }
}

/** None of them stays open. A thread of the library may open one at any time, and moves it at once:
 * so they are looked at, and not written or read. */
void expect_free(unsigned subset)
{
    const unsigned long long end = now_ms() + patience();
    for (int fd = 0; fd < 3; ++fd) {
        unsigned turn = 0;
        while (is_in(subset, fd) && fcntl(fd, F_GETFD) != -1) {
            if (now_ms() >= end) {
                throw Failure("descriptor " + std::to_string(fd) + " is " + file_of(fd));
            }
            give_way(turn++);
        }
    }
}

bool are_free(unsigned subset)
{
    bool free = true;
    for (int fd = 0; fd < 3; ++fd) {
        free = free && (!is_in(subset, fd) || fcntl(fd, F_GETFD) == -1);
    }
    return free;
}

/** A forked child that begins with none of them, without a line that would take a number of its
 * own. A fork waits for a thread that moves a descriptor, but not for long, and the child then has
 * the copy: such a child, which a busy machine makes now and then, is forked again. */
template <class Body>
void in_child(unsigned subset, const Body &body)
{
    enum { kCopied = 2, kForks = 5 };
    int status = kCopied << 8;
    for (int forks = 0; forks < kForks && WIFEXITED(status) && WEXITSTATUS(status) == kCopied; ++forks) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(case_limit());
            if (!are_free(subset)) {
                _exit(kCopied);
            }
            try {
                body();
            } catch (const std::exception &) {
                _exit(1);
            }
            _exit(0);
        }
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
    }
    EXPECT_EQ(0, status);
}

/** Forks, and forks in the child: neither has any of them, and each may use the library. */
void fork_twice(unsigned subset)
{
    in_child(subset, [&] {
        in_child(subset, [&] {
            exchange_within_this_process();
            expect_free(subset);
        });
        exchange_within_this_process();
        expect_free(subset);
    });
    expect_free(subset);
}

struct Side {
    explicit Side(bool shareable)
        : nic(device_under_test(), shareable), memory(nic, 256 * 1024, rdma_memory()), vi(nic)
    {
    }

    void exchange()
    {
        const Work in = memory.transfer(memory.bytes(20000));
        const Work out = memory.transfer(memory.bytes(20000));
        out.buffer.fill(7);
        post_recv(vi, in);
        line->tell();
        line->await();
        post_send(vi, out);
        EXPECT(sent(vi) == out.desc);
        EXPECT(received(vi) == in.desc);
        EXPECT(in.buffer.holds(7));
    }

    void connect(const std::string &name, bool server)
    {
        VIP_VI_ATTRIBUTES attributes{};
        NetAddress listen = nic.address(name), remote;
        if (server) {
            VIP_CONN_HANDLE request = nullptr;
            REQUIRE_VIP(VipConnectWait(nic, listen, patience(), remote, &attributes, &request));
            REQUIRE_VIP(VipConnectAccept(request, vi));
        } else {
            NetAddress from = nic.address("c");
            VIP_RETURN rc;
            do { // on some devices the server has to be there first
                rc = VipConnectRequest(vi, from, listen, patience(), &attributes);
            } while (rc == VIP_NO_MATCH || rc == VIP_REJECT);
            REQUIRE_VIP(rc);
        }
    }

    const ParentLine *line = nullptr;
    Nic nic;
    Memory memory;
    Vi vi;
};

enum class Way { early, late, traced, shareable }; // late: closed between two calls

/** All that makes descriptors, one after the other. */
void live(const ParentLine &line, unsigned subset, const std::string &name, bool server, Way way)
{
    if (way == Way::traced) {
        setenv("VIPL_TRACE", "/dev/null", 1);
    }
    close_standard(way == Way::late ? 0 : subset);
    {
        Side side(way == Way::shareable || objects_are_shareable());
        side.line = &line;
        close_standard(subset);
        expect_free(subset);
        side.connect(name, server);
        expect_free(subset);
        int fd = -1;
        REQUIRE_VIP(VipxGetFd(VIPX_FD_RECV, side.vi, &fd));
        EXPECT(fd > 2);
        side.exchange();
        expect_free(subset);
        fork_twice(subset);
        side.exchange();
    }
    expect_free(subset);
}

void live_in_two_processes(Way way)
{
    for (unsigned subset = 1; subset < kSubsets; ++subset) {
        const std::string name = unique_discriminator();
        Forked server([&](const ParentLine &line) { live(line, subset, name, true, way); });
        Forked client([&](const ParentLine &line) { live(line, subset, name, false, way); });
        for (int i = 0; i < 2; ++i) { // their exchanges begin together
            server.await();
            client.await();
            server.tell();
            client.tell();
        }
        server.finish();
        client.finish();
    }
}

} // namespace

TEST_CASE("standard descriptors closed before the device is opened stay free, here and in forked children",
          "[posix][fork][standard]")
{
    live_in_two_processes(Way::early);
}

TEST_CASE("standard descriptors closed between two calls stay free, here and in forked children",
          "[posix][fork][standard]")
{
    live_in_two_processes(Way::late);
}

TEST_CASE("standard descriptors stay free of a trace's file", "[posix][fork][standard]")
{
    live_in_two_processes(Way::traced);
}

TEST_CASE("standard descriptors stay free where objects are shared", "[posix][sharing][standard]")
{
    live_in_two_processes(Way::shareable);
}
