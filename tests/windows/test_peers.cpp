// SPDX-License-Identifier: MIT
//
// Two processes on Windows: who the peer is, what comes from it, its end, its memory. Whatever a
// child does is at the client's side.
#include <catch2/catch.hpp>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "channels.hpp"
#include "support/roles.hpp"
#include "support/system.hpp"

using namespace vipl_test;
using namespace windows_test;

namespace {

void play(Role server, Role client)
{
    REQUIRE_NOTHROW(run_two(Setting::two_processes, VIP_SERVICE_RELIABLE_DELIVERY, server, client));
}

struct Name {
    char text[64];
};

/** The server's side of a channel between the two processes. */
End meet(Peer &peer, const Listener &listener)
{
    Name name{};
    std::strcpy(name.text, listener.name.c_str());
    peer.send(name);
    return listener.accept();
}

/** The client's side. */
End call(Peer &peer)
{
    return End(connect_to(peer.receive<Name>().text));
}

/** Bytes of a process, for others. */
struct Place {
    vipl_peer peer;
    std::uint64_t address;
};

/** One copy of a piece. */
int copy(bool write, const vipl_peer &peer, void *here, std::uint64_t there, size_t bytes)
{
    vipl_iov local[2] = {{}, {here, bytes}}, remote[2] = {{}, {reinterpret_cast<void *>(there), bytes}};
    return write ? vipl_peer_write(&peer, local, 2, remote, 2, bytes)
                 : vipl_peer_read(&peer, local, 2, remote, 2, bytes);
}

} // namespace

TEST_CASE("each end knows the process and the user at the other one", "[windows]")
{
    play(
        [](Peer &peer) {
            const Listener listener(unique_name());
            const End end = meet(peer, listener);
            int pid = 0;
            std::uint32_t user = 0;
            EXPECT_EQ(0, vipl_local_peer(end.fd, &pid, &user));
            EXPECT_EQ(peer.receive<int>(), pid);
            EXPECT_EQ(vipl_local_user(), user);
            peer.send(vipl_pid());
            peer.sync();
        },
        [](Peer &peer) {
            const End end = call(peer);
            int pid = 0;
            std::uint32_t user = 0;
            peer.send(vipl_pid());
            EXPECT_EQ(0, vipl_local_peer(end.fd, &pid, &user));
            EXPECT_EQ(peer.receive<int>(), pid);
            EXPECT_EQ(vipl_local_user(), user);
            peer.sync();
        });
}

TEST_CASE("sections go both ways between processes, and are one memory", "[windows]")
{
    play(
        [](Peer &peer) {
            const Listener listener(unique_name());
            const End end = meet(peer, listener);
            const Segment segment("the server's");
            EXPECT_EQ(0, say(end.fd, "here it is", {segment.fd()}));
            const Heard heard(end.fd);
            EXPECT_EQ(std::string("the client's"), text_in(heard.fds[1]));
            peer.sync();
            EXPECT_EQ(std::string("changed"), std::string(static_cast<const char *>(segment.shm.base)));
        },
        [](Peer &peer) {
            const End end = call(peer);
            const Segment none("nothing"), segment("the client's");
            EXPECT_EQ(0, say(end.fd, "and another one", {none.fd(), segment.fd()}));
            const Heard heard(end.fd);
            EXPECT_EQ(std::string("the server's"), text_in(heard.fds[0]));
            vipl_shm shm{};
            EXPECT_EQ(0, vipl_shm_attach(&shm, heard.fds[0], 4096, true));
            std::strcpy(static_cast<char *>(shm.base), "changed");
            shm.fd = -1;
            vipl_shm_release(&shm);
            peer.sync();
        });
}

TEST_CASE("the end of a process is the end of its channels, after what it has said", "[windows]")
{
    play(
        [](Peer &peer) {
            const Listener listener(unique_name());
            const End end = meet(peer, listener);
            EXPECT_EQ(std::string("last words"), Heard(end.fd).text);
            EXPECT(Heard(end.fd).ends());
            EXPECT(vipl_local_has_hung_up(end.fd));
        },
        [](Peer &peer) {
            const End end = call(peer);
            EXPECT_EQ(0, say(end.fd, "last words"));
            peer.die();
        });
}

TEST_CASE("a section that its process has taken along does not come", "[windows]")
{
    play(
        [](Peer &peer) {
            const Listener listener(unique_name());
            const End end = meet(peer, listener);
            await_hang_up(end.fd);
            const Heard heard(end.fd);
            EXPECT_EQ(std::string("a section"), heard.text);
            EXPECT_EQ(-1, heard.fds[0]);
        },
        [](Peer &peer) {
            const End end = call(peer);
            const Segment segment("lost");
            EXPECT_EQ(0, say(end.fd, "a section", {segment.fd()}));
            peer.die();
        });
}

TEST_CASE("a listener's process leaves its name", "[windows]")
{
    play(
        [](Peer &peer) {
            const std::string name = peer.receive<Name>().text;
            const End caller(connect_to(name));
            int fd = -1, lock = -1;
            EXPECT_EQ(EADDRINUSE, vipl_local_listen(name.data(), name.size(), &fd, &lock));
            EXPECT_EQ(ECONNREFUSED, vipl_local_connect((name + "x").data(), name.size() + 1, &fd));
            peer.send(0); // it may die
            EXPECT(Heard(caller.fd).ends());
            const unsigned long long end = now_ms() + patience();
            while (vipl_local_listen(name.data(), name.size(), &fd, &lock) != 0) {
                EXPECT(now_ms() < end);
                give_way();
            }
            const Joined joined(name, fd);
            vipl_local_unlisten(name.data(), name.size(), fd, lock);
        },
        [](Peer &peer) {
            const Listener listener(unique_name());
            Name name{};
            std::strcpy(name.text, listener.name.c_str());
            peer.send(name);
            (void)peer.receive<int>();
            peer.die();
        });
}

TEST_CASE("a retired segment is used again when the process that had it too has ended", "[windows]")
{
    play(
        [](Peer &peer) {
            const Listener listener(unique_name());
            const End end = meet(peer, listener);
            vipl_shm shm{}, other{};
            EXPECT_EQ(0, vipl_shm_create(&shm, "test", 131072));
            auto *bytes = static_cast<volatile char *>(shm.base);
            bytes[0] = 'a';
            EXPECT_EQ(0, say(end.fd, "a section", {shm.fd}));
            peer.sync();
            vipl_shm_retire(&shm);
            EXPECT_EQ('b', bytes[0]); // the other process still has it
            EXPECT_EQ(0, vipl_shm_create(&other, "test", 131072));
            EXPECT(other.base != const_cast<char *>(bytes));
            peer.send(0); // it may die
            const unsigned long long limit = now_ms() + patience();
            for (bool again = false; !again;) {
                EXPECT(now_ms() < limit);
                EXPECT_EQ(0, vipl_shm_create(&shm, "test", 131072));
                again = shm.base == const_cast<char *>(bytes);
                EXPECT(!again || bytes[0] == 0);
                vipl_shm_release(&shm);
            }
            vipl_shm_release(&other);
        },
        [](Peer &peer) {
            const End end = call(peer);
            const Heard heard(end.fd);
            vipl_shm shm{};
            EXPECT_EQ(0, vipl_shm_attach(&shm, heard.fds[0], 131072, true));
            *static_cast<char *>(shm.base) = 'b';
            peer.sync();
            (void)peer.receive<int>();
            peer.die();
        });
}

TEST_CASE("a process's memory is read and written, as long as it is that process", "[windows]")
{
    play(
        [](Peer &peer) {
            auto place = peer.receive<Place>();
            char bytes[100] = {}, more[20] = {};
            EXPECT_EQ(0, copy(false, place.peer, bytes, place.address, 5));
            EXPECT_EQ(std::string("child"), std::string(bytes));
            EXPECT_EQ(0, copy(false, place.peer, bytes, 0, 0));
            std::strcpy(bytes, "written");
            EXPECT_EQ(0, copy(true, place.peer, bytes, place.address, 8));
            EXPECT_EQ(EFAULT, copy(false, place.peer, bytes, 16, 8));
            EXPECT_EQ(EFAULT, copy(true, place.peer, bytes, 16, 8));
            // pieces that end at different bytes
            vipl_iov local[] = {{}, {more, 2}, {nullptr, 0}, {more + 2, 6}};
            vipl_iov remote[] = {{},
                                 {reinterpret_cast<void *>(place.address), 5},
                                 {reinterpret_cast<void *>(place.address + 5), 3}};
            EXPECT_EQ(0, vipl_peer_read(&place.peer, local, 4, remote, 3, 8));
            EXPECT_EQ(std::string("written"), std::string(more));
            vipl_peer other = place.peer;
            ++other.mark.value;
            EXPECT_EQ(ESRCH, copy(false, other, bytes, place.address, 5));
            other = place.peer;
            other.mark.address = 16;
            EXPECT_EQ(ESRCH, copy(true, other, bytes, place.address, 5));
            peer.send(0); // it may die
            const unsigned long long limit = now_ms() + patience();
            for (int error = 0; error == 0 && now_ms() < limit; give_way()) {
                error = copy(false, place.peer, bytes, place.address, 5);
                EXPECT(error == 0 || error == ESRCH); // and nothing else in between
            }
            EXPECT_EQ(ESRCH, copy(false, place.peer, bytes, 0, 0));
        },
        [](Peer &peer) {
            static char text[16] = "child";
            Place place{};
            place.peer.pid = vipl_pid();
            EXPECT_EQ(0, vipl_peer_mark_make(&place.peer.mark));
            place.address = reinterpret_cast<std::uintptr_t>(text);
            peer.send(place);
            (void)peer.receive<int>();
            EXPECT_EQ(std::string("written"), std::string(text));
            peer.die();
        });
}
