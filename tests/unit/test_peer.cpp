// SPDX-License-Identifier: MIT
//
// Another process's memory: lists of any shape, copied both ways; and the mark, without which
// nothing is copied.
#include <catch2/catch.hpp>

#include <cerrno>
#include <cstring>
#include <numeric>
#include <vector>

#if __has_include(<sys/wait.h>)
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "internal.hpp"

using unit::Random;

namespace {

/** This process, which others reach as they reach any. False: the system has no such calls. */
bool own_peer(vipl_peer &peer)
{
    REQUIRE(vipl_peer_mark_make(&peer.mark) == 0);
    peer.pid = vipl_pid();
    return vipl_peer_copy_lists(&peer, false, nullptr, 0, nullptr, 0, 0) != ENOSYS;
}

/** `bytes` bytes of `memory`, in pieces of random lengths, some of which are empty; 252 at most. */
std::vector<vipl_iov> cut(std::vector<unsigned char> &memory, Random &random)
{
    std::vector<vipl_iov> pieces;
    size_t at = 0;
    while (at < memory.size()) {
        const bool last = pieces.size() == 251;
        const size_t most = memory.size() - at;
        const size_t bytes =
            last || unit::below(random, 40) == 0 ? most : std::min<size_t>(unit::below(random, 60), most);
        pieces.push_back({memory.data() + at, bytes});
        at += bytes;
    }
    return pieces;
}

#if __has_include(<sys/wait.h>)
/** A child that waits for a byte on `word`, and then exits with 0 if the memory holds `value` all
 * over. */
pid_t watch(const unsigned char *memory, size_t bytes, unsigned char value, int word)
{
    const pid_t child = fork();
    if (child == 0) {
        char got = 0;
        size_t right = read(word, &got, 1) == 1 ? 0 : bytes + 1;
        while (right < bytes && memory[right] == value) {
            ++right;
        }
        _exit(right == bytes ? 0 : 1);
    }
    return child;
}
#endif

} // namespace

TEST_CASE("lists of any shape are copied from and to another process", "[peer]")
{
    vipl_peer peer{};
    if (!own_peer(peer)) {
        return; // an emulator: the rings do it
    }
    Random random(5);
    for (unsigned round = 0; round < 200; ++round) {
        const size_t bytes = 1 + unit::below(random, 9000);
        std::vector<unsigned char> here(bytes), there(bytes), before;
        for (size_t i = 0; i < bytes; ++i) {
            here[i] = static_cast<unsigned char>(random());
        }
        before = here;
        const auto local = cut(here, random), remote = cut(there, random);
        const auto locals = static_cast<unsigned>(local.size()),
                   remotes = static_cast<unsigned>(remote.size());
        REQUIRE(vipl_peer_copy_lists(&peer, true, local.data(), locals, remote.data(), remotes, bytes) == 0);
        REQUIRE(there == before);
        std::memset(here.data(), 0, bytes);
        REQUIRE(vipl_peer_copy_lists(&peer, false, local.data(), locals, remote.data(), remotes, bytes) == 0);
        REQUIRE(here == before);
    }
}

#if __has_include(<sys/mman.h>) // else memory goes as it was made, whole
TEST_CASE("a page that is not there is not taken for another program", "[peer]")
{
    vipl_peer peer{};
    if (!own_peer(peer)) {
        return;
    }
    const size_t page = vipl_page_bytes();
    auto *pages = static_cast<unsigned char *>(
        mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(munmap(pages + page, page) == 0);
    std::vector<unsigned char> bytes(2 * page);
    const vipl_iov local = {bytes.data(), bytes.size()}, remote = {pages, 2 * page}, gone = {pages + page, 8};
    CHECK(vipl_peer_copy_lists(&peer, false, &local, 1, &remote, 1, 2 * page) == EFAULT);
    CHECK(vipl_peer_copy_lists(&peer, true, &local, 1, &remote, 1, 2 * page) == EFAULT);
    CHECK(vipl_peer_copy_lists(&peer, false, &local, 1, &gone, 1, 8) == EFAULT);
    munmap(pages, page);
}
#endif

TEST_CASE("nothing is copied where the mark is another one", "[peer]")
{
    vipl_peer peer{};
    if (!own_peer(peer)) {
        return;
    }
    unsigned char here[16] = {1}, there[16] = {2};
    const vipl_iov local = {here, sizeof here}, remote = {there, sizeof there};
    vipl_peer other = peer;
    other.mark.address = 64; // no program has anything there
    CHECK(vipl_peer_copy_lists(&other, true, &local, 1, &remote, 1, sizeof here) == ESRCH);
    CHECK(vipl_peer_copy_lists(&other, false, &local, 1, &remote, 1, sizeof here) == ESRCH);
    CHECK(here[0] == 1);
    CHECK(there[0] == 2);
    other = peer;
    other.mark.value ^= 1; // the same place, in another program
    CHECK(vipl_peer_copy_lists(&other, false, &local, 1, &remote, 1, sizeof here) == ESRCH);
    vipl_peer_mark second{};
    REQUIRE(vipl_peer_mark_make(&second) == 0);
    CHECK(second.address != peer.mark.address);
    CHECK(second.value != peer.mark.value);
}

#if __has_include(<sys/wait.h>)
TEST_CASE("a process that has the number of another one, or is its child, keeps its memory to itself",
          "[peer]")
{
    vipl_peer peer{};
    if (!own_peer(peer)) {
        return;
    }
    int word[2];
    REQUIRE(pipe(word) == 0);
    std::vector<unsigned char> memory(100000, 0x11), here(memory.size(), 0xEE);
    const pid_t child = watch(memory.data(), memory.size(), 0x11, word[0]);
    REQUIRE(child > 0);
    peer.pid = child; // which has the same memory, but for the mark
    const vipl_iov local = {here.data(), here.size()}, remote = {memory.data(), memory.size()};
    CHECK(vipl_peer_copy_lists(&peer, true, &local, 1, &remote, 1, here.size()) == ESRCH);
    CHECK(vipl_peer_copy_lists(&peer, false, &local, 1, &remote, 1, here.size()) == ESRCH);
    CHECK(here == std::vector<unsigned char>(memory.size(), 0xEE));
    REQUIRE(write(word[1], "q", 1) == 1);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    close(word[0]);
    close(word[1]);
    peer.pid = child; // now nobody's
    CHECK(vipl_peer_copy_lists(&peer, true, &local, 1, &remote, 1, here.size()) == ESRCH);
}
#endif
