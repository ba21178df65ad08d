// SPDX-License-Identifier: MIT
//
// POSIX, a program that closes the library's descriptors under it, as closefrom() does, and perhaps
// opens others in their place. Calls may fail and VIs break; none hangs, and VipCloseNic returns.
#include <cstdlib>

#include <fcntl.h>
#include <unistd.h>

#include "support/forked.hpp"
#include "support/role_case.hpp"

using namespace vipl_test;

namespace {

constexpr unsigned kSeconds = 30; // of a child that hangs

void close_from_three(bool reuse)
{
    for (int fd = 3; fd < 1100; ++fd) {
        close(fd);
    }
    for (int i = 0; reuse && i < 200; ++i) {
        open("/dev/null", O_RDWR | O_CLOEXEC);
    }
}

void message(const ConnectedPair &pair, Memory &from, Memory &to)
{
    const Work in = to.transfer(to.bytes(64)), out = from.transfer(from.text("message"));
    post_recv(pair.server, in);
    post_send(pair.client, out);
    EXPECT(sent(pair.client) == out.desc);
    EXPECT(received(pair.server) == in.desc);
}

/** Every kind of call, whatever comes of it; VipCloseNic returns. */
void go_on(ConnectedPair &pair)
{
    VIP_DESCRIPTOR *done = nullptr;
    const Work in = pair.server_memory.transfer(pair.server_memory.bytes(64));
    const Work out = pair.client_memory.transfer(pair.client_memory.text("lost"));
    VipPostRecv(pair.server, in.desc, in.handle);
    VipPostSend(pair.client, out.desc, out.handle);
    for (int i = 0; i < 100; ++i) {
        VipSendDone(pair.client, &done);
        VipRecvDone(pair.server, &done);
    }
    VipRecvWait(pair.server, 50, &done);
    VipSendWait(pair.client, 50, &done);
    VIP_CONN_HANDLE request = nullptr;
    VIP_VI_ATTRIBUTES attributes{};
    NetAddress local = pair.server_nic.address(unique_discriminator()), remote;
    VipConnectWait(pair.server_nic, local, 50, remote, &attributes, &request);
    VipDisconnect(pair.client);
    VIP_RETURN rc = VipCloseNic(pair.client_nic);
    EXPECT_EQ(VIP_SUCCESS, rc);
    rc = VipCloseNic(pair.server_nic);
    EXPECT_EQ(VIP_SUCCESS, rc);
}

/** `calls`: not only VipCloseNic. */
void close_under(const char *progress, bool reuse, bool calls)
{
    Forked child(
        [&](const ParentLine &) {
            setenv("VIPL_PROGRESS", progress, 1);
            ConnectedPair pair;
            message(pair, pair.client_memory, pair.server_memory);
            let_a_moment_pass();
            close_from_three(reuse);
            if (calls) {
                go_on(pair);
            }
            const VIP_RETURN one = VipCloseNic(pair.client_nic), other = VipCloseNic(pair.server_nic);
            const VIP_RETURN expected = calls ? VIP_INVALID_PARAMETER : VIP_SUCCESS;
            _exit(one == expected && other == expected ? 7 : 8);
        },
        kSeconds);
    child.finish_with_exit(7);
}

} // namespace

TEST_CASE("VipCloseNic returns where the program has closed all descriptors and a thread serves the device",
          "[VipCloseNic][fork][posix][closefrom]")
{
    close_under("thread", false, false);
    close_under("auto", false, false);
}

TEST_CASE("VipCloseNic returns where the program has put other descriptors in place of the library's",
          "[VipCloseNic][fork][posix][closefrom]")
{
    close_under("thread", true, false);
    close_under("inline", true, false);
}

TEST_CASE("no call hangs where the program has closed all descriptors",
          "[VipCloseNic][fork][posix][closefrom]")
{
    close_under("thread", false, true);
    close_under("inline", false, true);
}

TEST_CASE("no call hangs where the program has put other descriptors in place of the library's",
          "[VipCloseNic][fork][posix][closefrom]")
{
    close_under("thread", true, true);
    close_under("inline", true, true);
}
