// SPDX-License-Identifier: MIT
//
// The transaction log, byte by byte as docs/rnic/log.md has it.
#include "raw_client.hpp"

#include <fstream>
#include <iterator>

using namespace adapter_test;

namespace {

const std::uint8_t kFrame[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x88, 0xB5, 0xAA};
const std::uint8_t kData[] = {0xDE, 0xAD, 0xBE};

rnic_transaction transaction(rnic_transaction_kind kind)
{
    rnic_transaction c{};
    c.time = 0x1122334455667788;
    c.kind = kind;
    c.fn = 0x102;
    return c;
}

Bytes contents(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);
    return Bytes(std::istreambuf_iterator<char>(file), {});
}

/** The log of these transactions. */
Bytes logged(const std::string &name, const std::vector<rnic_transaction> &transactions)
{
    const Folder folder;
    rnic_log log{};
    REQUIRE(rnic_log_open(&log, (folder.path + name).c_str()) == 0);
    for (const rnic_transaction &c : transactions) {
        rnic_log_write(&log, &c);
    }
    CHECK(rnic_log_error(&log) == 0);
    rnic_log_close(&log);
    return contents(folder.path + name);
}

std::vector<rnic_transaction> some()
{
    std::vector<rnic_transaction> all;
    rnic_transaction c = transaction(RNIC_TRANSACTION_DMA_WRITE);
    c.address = 0x123456789ABCDEF0;
    c.value = 0x0102030405060708;
    c.bytes = sizeof kData;
    c.data = kData;
    c.failed = true;
    all.push_back(c);
    c = transaction(RNIC_TRANSACTION_FRAME_SENT);
    c.bytes = sizeof kFrame;
    c.data = kFrame;
    all.push_back(c);
    c.kind = RNIC_TRANSACTION_FRAME_RECEIVED;
    all.push_back(c);
    c = transaction(RNIC_TRANSACTION_REGISTER_READ);
    c.bar = 2;
    c.bytes = 4; // of the register; there are no data
    all.push_back(c);
    return all;
}

const Bytes kSection = {0x0A, 0x0D, 0x0D, 0x0A, 28,   0,    0,    0,    0x4D, 0x3C, 0x2B, 0x1A, 1, 0,
                        0,    0,    0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 28,   0,    0, 0};

Bytes interface(std::uint8_t type)
{
    const std::string name = type == 1 ? "wire" : "card";
    Bytes out = {1, 0, 0, 0, 40, 0, 0, 0, type, 0, 0, 0, 0, 0, 0, 0, 2, 0, 4, 0};
    out.insert(out.end(), name.begin(), name.end());
    const Bytes rest = {9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0};
    out.insert(out.end(), rest.begin(), rest.end());
    return out;
}

/** Takes these bytes off the front. */
void take(Bytes &from, const Bytes &wanted)
{
    REQUIRE(from.size() >= wanted.size());
    CHECK(Bytes(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(wanted.size())) == wanted);
    from.erase(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(wanted.size()));
}

} // namespace

TEST_CASE("the log as text has one line for each transaction", "[log]")
{
    const Bytes text = logged("/a.txt", some());
    CHECK(std::string(text.begin(), text.end()) ==
          "1234605616.436508552 fn=258 dma-write failed bar=0 address=0x123456789abcdef0 "
          "value=0x102030405060708 bytes=3 data=deadbe\n"
          "1234605616.436508552 fn=258 frame-sent bar=0 address=0x0 value=0x0 bytes=15 "
          "data=0102030405060708090a0b0c88b5aa\n"
          "1234605616.436508552 fn=258 frame-received bar=0 address=0x0 value=0x0 bytes=15 "
          "data=0102030405060708090a0b0c88b5aa\n"
          "1234605616.436508552 fn=258 register-read bar=2 address=0x0 value=0x0 bytes=4\n");
}

TEST_CASE("the log in pcapng has frames on one interface and all else on another", "[log]")
{
    Bytes log = logged("/a.pcapng", some());
    take(log, kSection);
    take(log, interface(1));
    take(log, interface(147));
    take(log, {6,    0,    0,    0,    64,   0,    0,  0, 1, 0, 0,  0, 0x44, 0x33,
               0x22, 0x11, 0x88, 0x77, 0x66, 0x55, 31, 0, 0, 0, 31, 0, 0,    0});
    take(log, {1, 6, 1, 2, 0, 1, 0, 0, 0x12, 0x34, 0x56, 0x78, 0x9A, 0xBC, 0xDE, 0xF0,
               1, 2, 3, 4, 5, 6, 7, 8, 0,    0,    0,    3,    0xDE, 0xAD, 0xBE, 0});
    take(log, {64, 0, 0, 0});
    for (const std::uint8_t way : {2, 1}) { // out, in
        take(log, {6,    0,    0,    0,    68,   0,    0,  0, 0, 0, 0,  0, 0x44, 0x33,
                   0x22, 0x11, 0x88, 0x77, 0x66, 0x55, 15, 0, 0, 0, 15, 0, 0,    0});
        take(log, {1,   2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x88, 0xB5, 0xAA, 0, 2,  0, 4, 0,
                   way, 0, 0, 0, 6, 0, 4, 0, 2, 1,  0,  0,  0,    0,    0,    0, 68, 0, 0, 0});
    }
    take(log, {6,    0,    0,    0,    60,   0,    0,  0, 1, 0, 0,  0, 0x44, 0x33,
               0x22, 0x11, 0x88, 0x77, 0x66, 0x55, 28, 0, 0, 0, 28, 0, 0,    0});
    take(log,
         {1, 2, 1, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 60, 0, 0, 0});
    CHECK(log.empty());
}

TEST_CASE("tshark opens the log, and sees the frames as Ethernet", "[log]")
{
    const Folder folder;
    const std::string path = folder.path + "/a.pcapng";
    if (std::system("tshark --version >/dev/null 2>&1") != 0) {
        WARN("there is no tshark");
        return;
    }
    const Bytes log = logged("/b.pcapng", some());
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char *>(log.data()), static_cast<std::streamsize>(log.size()));
    FILE *output = popen(
        ("tshark -r " + path +
         " -T fields -e frame.interface_name -e frame.encap_type -e eth.type -e frame.time_epoch 2>/dev/null")
            .c_str(),
        "r");
    REQUIRE(output != nullptr);
    std::string seen;
    char line[256];
    while (fgets(line, sizeof line, output) != nullptr) {
        seen += line;
    }
    pclose(output);
    CHECK(seen == "card\t45\t\t1234605616.436508552\nwire\t1\t0x88b5\t1234605616.436508552\n"
                  "wire\t1\t0x88b5\t1234605616.436508552\ncard\t45\t\t1234605616.436508552\n");
}

TEST_CASE("a log that cannot be written is an error, and no more than that", "[log]")
{
    rnic_log log{};
    CHECK(rnic_log_open(&log, "/nowhere/at/all.txt") == ENOENT);
    REQUIRE(log.file == nullptr);
    REQUIRE(rnic_log_open(&log, "/dev/full") == 0);
    const std::vector<std::uint8_t> much(1 << 20);
    rnic_transaction c = transaction(RNIC_TRANSACTION_DMA_READ);
    c.data = much.data();
    c.bytes = 1 << 20;
    for (int i = 0; i < 3; ++i) {
        rnic_log_write(&log, &c);
    }
    rnic_log_flush(&log);
    CHECK(rnic_log_error(&log) == ENOSPC);
    rnic_log_write(&log, &c);
    rnic_log_close(&log);
}
