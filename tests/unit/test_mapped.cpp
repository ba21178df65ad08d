// SPDX-License-Identifier: MIT
//
// Memory that a process shows to peers, and a peer that maps it: nothing of what is shown is
// believed.
#include <catch2/catch.hpp>

#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shown.hpp"

using namespace unit;

namespace {

/** A file of the process, as a hostile one would show it. */
vipl_mappable show(int fd)
{
    struct stat st {};
    REQUIRE(fstat(fd, &st) == 0);
    return {static_cast<std::uint32_t>(fd) + 1, st.st_ino, 0};
}

} // namespace

TEST_CASE("what is shown is mapped once, and is the same memory", "[mapped]")
{
    const Shown shown;
    Link link;
    unsigned char *there = link.find(shown.at(4096, 8), 8);
    REQUIRE(there != nullptr);
    REQUIRE(there != shown.base + 4096);
    std::memcpy(there, "written", 8);
    CHECK(std::strcmp(reinterpret_cast<char *>(shown.base) + 4096, "written") == 0);
    CHECK(link.find(shown.at(0)) == there - 4096);
    CHECK(link.link.mapped != nullptr);
}

TEST_CASE("only what lies in the memory is shown", "[mapped]")
{
    const Shown shown;
    int elsewhere = 0;
    vipl_mappable where{};
    vipl_shm_find_mappable(&elsewhere, sizeof elsewhere, &where);
    CHECK(where.descriptor == 0);
    CHECK(shown.at(Shown::kBytes - 8, 8).descriptor != 0);
    CHECK(shown.at(Shown::kBytes - 8, 9).descriptor == 0);
    CHECK(shown.at(0, Shown::kBytes + 1).descriptor == 0);
    Link link;
    CHECK(link.find(where) == nullptr);
}

TEST_CASE("a peer that shows an offset outside of its memory is not followed", "[mapped]")
{
    const Shown shown;
    Link link;
    vipl_mappable where = shown.at(0);
    where.offset = Shown::kBytes;
    CHECK(link.find(where) == nullptr);
    where.offset = Shown::kBytes - 1;
    CHECK(link.find(where) != nullptr);
    CHECK(link.find(where, 2) == nullptr);
    where.offset = ~std::uint64_t{0};
    CHECK(link.find(where, 2) == nullptr);
}

TEST_CASE("a peer that shows another file, or one that it may cut off, is not followed", "[mapped]")
{
    const Shown shown;
    vipl_shm shm{};
    vipl_mappable where = shown.at(0);
    SECTION("another inode")
    {
        where.inode++;
        CHECK(vipl_shm_fetch(&shm, getpid(), &where) == ESTALE);
    }
    SECTION("no descriptor")
    {
        where.descriptor = 100000;
        CHECK(vipl_shm_fetch(&shm, getpid(), &where) == ENOENT);
    }
    SECTION("no process")
    {
        CHECK(vipl_shm_fetch(&shm, 0x7FFFFFF0, &where) == ENOENT);
    }
    SECTION("a pipe")
    {
        int fds[2];
        REQUIRE(pipe2(fds, O_CLOEXEC) == 0);
        where = show(fds[0]);
        CHECK(vipl_shm_fetch(&shm, getpid(), &where) == ESTALE);
        close(fds[0]);
        close(fds[1]);
    }
    SECTION("a file without seals")
    {
        const int fd = memfd_create("vipl-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        REQUIRE(fd >= 0);
        REQUIRE(ftruncate(fd, Shown::kBytes) == 0);
        where = show(fd);
        CHECK(vipl_shm_fetch(&shm, getpid(), &where) == EPERM);
        Link link;
        CHECK(link.find(where) == nullptr);
        CHECK(link.find(where) == nullptr); // and is not tried again
        CHECK(link.link.mapped != nullptr);
        close(fd);
    }
    CHECK(shm.base == nullptr);
}

TEST_CASE("a peer that shows ever more is not followed", "[mapped]")
{
    Link link;
    const Shown shown;
    for (std::uint64_t i = 1; i <= 4; ++i) {
        vipl_mappable where = shown.at(0);
        where.inode += i;
        CHECK(link.find(where) == nullptr);
    }
    const lo_mapped *last = link.link.mapped;
    CHECK(link.find(shown.at(0)) == nullptr);
    CHECK(link.link.mapped == last);
}
