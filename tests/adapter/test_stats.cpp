// SPDX-License-Identifier: MIT
//
// What a running adapter tells about itself.
#include "raw_client.hpp"

using namespace adapter_test;

namespace {

std::string told(const std::string &socket)
{
    return printed(std::string(fake_rnicd) + " --stats --socket=" + socket);
}

} // namespace

TEST_CASE("an adapter tells of its card, its functions and their programs", "[stats]")
{
    const Adapter adapter(3);
    CHECK(told(adapter.socket).find("functions=3 programs=0 ") != std::string::npos);
    Client first(adapter.socket),
        second(adapter.socket, true, R"({"capabilities":{"vipl_memory_file":true}})");
    const int memory = memory_file(4096, true);
    REQUIRE(second.map(0x10000, 4096, {memory}) == 0);
    REQUIRE(second.map(0x20000, 4096, {memory}) == 0);
    second.set(RNIC_REG_TX_BYTES_LO, 5); // which the card of this test keeps
    second.set(RNIC_REG_TX_BYTES_HI, 2);
    second.set(RNIC_REG_QPS_USED, 7);
    second.set(RNIC_REG_RAW_MISSED_LO, 11);
    second.set(RNIC_REG_AOTF_OVERRUN_LO, 12);
    second.set(RNIC_REG_AOTF_DROPPED_HI, 1);
    first.hang_up();
    std::string text;
    do {
        text = told(adapter.socket);
    } while (text.find("function 0") != std::string::npos); // it has not noticed yet
    CHECK(text.find("programs=1 ") != std::string::npos);
    CHECK(text.find("function 1 pid=" + std::to_string(getpid()) + " maps=2 files=1\n") != std::string::npos);
    CHECK(text.find(" qps=7 ") != std::string::npos);
    CHECK(text.find(" tx_bytes=8589934597 ") != std::string::npos);
    CHECK(text.find(" raw_missed=11 aotf_overrun=12 aotf_dropped=4294967296\n") != std::string::npos);
    CHECK(text.substr(text.size() - 2) == "0\n");
    close(memory);
}

TEST_CASE("an adapter that does not run tells nothing", "[stats]")
{
    const Folder folder;
    const std::string text = told(folder.path + "/none");
    CHECK(text.find("no adapter serves it") != std::string::npos);
    CHECK(text.substr(text.size() - 2) == "1\n");
}

TEST_CASE("those who ask and do not listen do not hold the adapter up", "[stats]")
{
    const Adapter adapter(1);
    Client client(adapter.socket);
    std::vector<int> askers;
    for (int i = 0; i < 20; ++i) {
        int fd = -1;
        REQUIRE(vipl_unix_connect((adapter.socket + ".stats").c_str(), &fd) == 0);
        askers.push_back(fd);
        CHECK(client.get(FAKE_ID) == RNIC_ID_VALUE);
    }
    for (const int fd : askers) {
        vipl_fd_close(fd);
    }
}
