// SPDX-License-Identifier: MIT
//
// Shared segments and the process on Windows.
#include <catch2/catch.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "support/os_hooks.hpp"

TEST_CASE("a segment is the same memory in each of its mappings, and zeroed at first", "[windows]")
{
    vipl_shm made{}, again{}, read{};
    REQUIRE(vipl_shm_create(&made, "test", 100000) == 0);
    auto *bytes = static_cast<unsigned char *>(made.base);
    CHECK(bytes[0] == 0);
    CHECK(bytes[99999] == 0);
    CHECK(vipl_shm_attach(&again, made.fd, 10000000, true) == EINVAL);
    REQUIRE(vipl_shm_attach(&again, made.fd, 100000, true) == 0);
    REQUIRE(vipl_shm_attach(&read, made.fd, 100000, false) == 0);
    static_cast<unsigned char *>(again.base)[5000] = 42;
    CHECK(bytes[5000] == 42);
    CHECK(static_cast<unsigned char *>(read.base)[5000] == 42);
    CHECK(vipl_copy_checked(read.base, "x", 1) == EFAULT);
    again.fd = read.fd = -1;
    vipl_shm_release(&read);
    vipl_shm_release(&again);
    vipl_shm_release(&made);
    CHECK(vipl_shm_attach(&again, 5000, 1, true) == EINVAL);
}

TEST_CASE("a retired segment reads as zeros, and is used again", "[windows]")
{
    vipl_shm made{};
    REQUIRE(vipl_shm_create(&made, "test", 65536) == 0);
    auto *bytes = static_cast<volatile unsigned char *>(made.base);
    bytes[17] = 1;
    vipl_shm_retire(&made);
    CHECK(made.base == nullptr);
    CHECK(made.fd == -1);
    CHECK(bytes[17] == 0);
    vipl_shm other{};
    REQUIRE(vipl_shm_create(&other, "test", 4096) == 0);
    CHECK(other.base != const_cast<unsigned char *>(bytes));
    REQUIRE(vipl_shm_create(&made, "test", 65536) == 0);
    CHECK(made.base == const_cast<unsigned char *>(bytes));
    vipl_shm_release(&made);
    vipl_shm_release(&other);
}

TEST_CASE("a segment is not there if the system refuses a part of it", "[windows]")
{
    vipl_shm made{};
    for (long count = 1; count <= 2; ++count) {
        vipl_resource_fail_after(count);
        CHECK(vipl_shm_create(&made, "test", 12288) != 0);
        vipl_alloc_fail_after(1);
        CHECK(vipl_shm_create(&made, "test", 12288) == ENOMEM);
    }
    vipl_resource_fail_after(-1);
    REQUIRE(vipl_shm_create(&made, "test", 12288) == 0);
    vipl_shm_release(&made);
}

TEST_CASE("a file is read whole, and appended to", "[windows]")
{
    const std::string path = std::string(std::getenv("TEMP")) + "\\vipl-windows-test.txt";
    char *text = nullptr;
    std::remove(path.c_str());
    CHECK(vipl_read_text(path.c_str(), 100, &text) == ENOENT);
    CHECK(vipl_read_text(std::getenv("TEMP"), 100, &text) == EISDIR);
    for (const char *line : {"one\n", "and two\n"}) {
        int fd = -1;
        REQUIRE(vipl_fd_append(path.c_str(), &fd) == 0);
        vipl_write_text(fd, line, std::strlen(line));
        vipl_fd_close(fd);
    }
    CHECK(vipl_read_text(path.c_str(), 11, &text) == EFBIG);
    REQUIRE(vipl_read_text(path.c_str(), 12, &text) == 0);
    CHECK(std::string(text) == "one\nand two\n");
    vipl_free(text);
    CHECK(std::remove(path.c_str()) == 0); // nobody has it open
}

TEST_CASE("what a process is", "[windows]")
{
    char name[256] = {}, text[100] = {};
    std::uint64_t random[2] = {};
    CHECK(vipl_pid() > 0);
    CHECK(vipl_cpu_count() >= 1);
    CHECK(vipl_host_name(name, sizeof name) == 0);
    CHECK(std::strlen(name) > 0);
    REQUIRE(vipl_entropy(random, sizeof random) == 0);
    CHECK(random[0] != random[1]);
    CHECK(vipl_environment("TEMP") != nullptr);
    CHECK(vipl_environment("VIPL_NOT_THERE") == nullptr);
    CHECK(vipl_environment_at(0) != nullptr);
    CHECK(std::string(vipl_os_error(EINVAL, text, sizeof text)) == "Invalid argument");
    CHECK(vipl_memory_total() > vipl_page_bytes());
    const std::uint64_t before = vipl_now_ns();
    vipl_pause(2000000);
    CHECK(vipl_now_ns() - before >= 2000000);
}
