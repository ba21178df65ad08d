// SPDX-License-Identifier: MIT
//
// Names of the files of a ring, and names of parts.
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <string>

extern "C" {
#include "dm/memory.h"
#include "dm/output.h"
#include "dm/port.h"
#include "dm/reason.h"
}

namespace {

std::string name_of(const char *name, std::uint64_t number)
{
    char text[64];
    return dm_output_name(name, number, text, sizeof(text)) ? text : "too long";
}

} // namespace

TEST_CASE("a file of a ring has its number before the end of the name", "[dm_output]")
{
    CHECK(name_of("file:cap.pcapng", 1) == "file:cap.00001.pcapng");
    CHECK(name_of("file:/a.b/cap", 12) == "file:/a.b/cap.00012");
    CHECK(name_of("file:/a.b/cap.x.pcapng", 4294967296) == "file:/a.b/cap.x.4294967296.pcapng");
    CHECK(name_of(std::string(60, 'x').c_str(), 1) == "too long");
}

TEST_CASE("names of parts: kinds, arguments, and kinds that are not in this build", "[dm_output]")
{
    CHECK(std::string(dm_argument("file:a:b", "file")) == "a:b");
    CHECK(std::string(dm_argument("ram", "ram")).empty());
    CHECK(dm_argument("files:a", "file") == nullptr);
    vipl_dm_reason reason{};
    const dm_memory_use use{};
    const dm_memory_use or_ram{nullptr, false, true};
    dm_memory *memory = nullptr;
    CHECK(dm_memory_open("p2p:ffff:1f:1f.7", 4096, &use, &memory, &reason) == ENODEV);
    CHECK(std::string(reason.text).find("gives out no memory") != std::string::npos);
    CHECK(dm_memory_open("p2p:../../0000:01:00.0", 4096, &use, &memory, &reason) == EINVAL);
    CHECK(dm_memory_open("tape", 4096, &or_ram, &memory, &reason) == EINVAL); // not even with --allow-ram
    CHECK(dm_memory_open("ram:1", 4096, &use, &memory, &reason) == EINVAL);
    CHECK(memory == nullptr);
    REQUIRE(dm_memory_open("p2p:ffff:1f:1f.7", 4096, &or_ram, &memory, &reason) == 0);
    CHECK(std::string(memory->text).find("ram, because") == 0);
    CHECK(std::string(memory->text).find("p2p") != std::string::npos);
    dm_memory_close(memory);
    dm_store_wish wish{DM_READ, false, nullptr};
    dm_store *store = nullptr;
    CHECK(dm_store_open("tape:0", &wish, &store, &reason) == EINVAL);
    CHECK(dm_store_open("file:/nowhere/at/all", &wish, &store, &reason) == ENOENT);
    CHECK(dm_store_open("file:/", &wish, &store, &reason) == EINVAL);
    dm_port *port = nullptr;
    CHECK(dm_port_open("dpdk:0000:01:00.0", DM_SEND, &port, &reason) == ENODEV);
    CHECK(dm_port_packet.needs_main != nullptr);
}
