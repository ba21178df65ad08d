// SPDX-License-Identifier: MIT
//
// The capabilities in the first message of vfio-user: JSON, from anybody.
#include <catch2/catch.hpp>

#include <cstring>
#include <random>
#include <string>

#include "internal.hpp"

namespace {

bool read(const std::string &text, vfu_capabilities &out)
{
    return vfu_capabilities_read(text.data(), text.size(), &out);
}

bool is_refused(const std::string &text)
{
    vfu_capabilities out = {77, 77, 77, true, true};
    const bool refused = !read(text, out);
    return refused && out.max_fds == 77 && out.memory_file; // nothing was changed
}

} // namespace

TEST_CASE("capabilities as QEMU sends them are understood", "[capabilities]")
{
    vfu_capabilities out{};
    const std::string text =
        R"({"capabilities": {"max_dma_maps": 65535, "max_msg_fds": 16, "write_multiple": true, )"
        R"("pgsizes": 4096, "max_data_xfer_size": 1048576, )"
        R"("migration": {"pgsize": 4096, "max_msg_fds": 3, "max_bitmap_size": 268435456}}})";
    for (const std::string &sent : {text, text + '\0'}) {
        REQUIRE(read(sent, out));
        CHECK(out.max_fds == 16);
        CHECK(out.max_data == 1048576);
        CHECK(out.max_maps == 65535);
        CHECK(out.write_multiple);
        CHECK_FALSE(out.memory_file);
    }
}

TEST_CASE("what capabilities do not say is as the specification has it", "[capabilities]")
{
    for (const char *text :
         {"", "{}", " {\"capabilities\":{}} ", "{\"capabilities\":[1]}", "{\"capabilities\":\"max_msg_fds\"}",
          "{\"max_msg_fds\":9}", "{\"x\":{\"max_msg_fds\":9}}",
          "{\"capabilities\":{\"x\":{\"max_msg_fds\":9}}}", "{\"capabilities\":{\"max_msg_fd\\u0073\":9}}",
          "{\"x\":[{\"capabilities\":{\"max_msg_fds\":9}}]}",
          "{\"a\":null,\"b\":[true,false,-1.5e+3,\"\\\"\"],\"c\":{}}"}) {
        vfu_capabilities out = {77, 77, 77, true, true};
        INFO(text);
        REQUIRE(read(text, out));
        CHECK(out.max_fds == 1);
        CHECK(out.max_data == 1048576);
        CHECK(out.max_maps == 65535);
        CHECK_FALSE(out.write_multiple);
        CHECK_FALSE(out.memory_file);
    }
}

TEST_CASE("capabilities that are not JSON, or of the wrong kind, are refused", "[capabilities]")
{
    for (const char *text : {"x",
                             "{",
                             "}",
                             "{}x",
                             "[]",
                             "1",
                             "{\"a\"}",
                             "{\"a\":}",
                             "{\"a\":1,}",
                             "{\"a\":tru}",
                             "{a:1}",
                             "{\"a:1}",
                             "{\"a\":-}",
                             "{\"a\":1.}",
                             "{\"capabilities\":{\"max_msg_fds\":true}}",
                             "{\"capabilities\":{\"max_msg_fds\":-1}}",
                             "{\"capabilities\":{\"max_msg_fds\":1.5}}",
                             "{\"capabilities\":{\"max_msg_fds\":\"8\"}}",
                             "{\"capabilities\":{\"max_msg_fds\":{}}}",
                             "{\"capabilities\":{\"max_msg_fds\":null}}",
                             "{\"capabilities\":{\"max_msg_fds\":99999999999999999999}}",
                             "{\"capabilities\":{\"write_multiple\":1}}",
                             "{\"capabilities\":{\"write_multiple\":\"true\"}}",
                             "{\"capabilities\":{\"vipl_memory_file\":[]}}"}) {
        INFO(text);
        CHECK(is_refused(text));
    }
    CHECK(is_refused(std::string("{}\0{}", 5)));
    CHECK(is_refused(std::string(100000, '[')));
    CHECK(is_refused("{\"a\":" + std::string(100000, '[')));
}

TEST_CASE("capabilities that are written can be read, and are short enough for QEMU's buffer",
          "[capabilities]")
{
    char text[VFU_MAX_TEXT];
    const vfu_capabilities most = {UINT64_MAX, UINT64_MAX, UINT64_MAX, true, true};
    const size_t length = vfu_capabilities_write(text, &most);
    REQUIRE(length == std::strlen(text) + 1);
    vfu_capabilities back{};
    REQUIRE(vfu_capabilities_read(text, std::strlen(text) + 1, &back));
    CHECK((back.max_fds == UINT64_MAX && back.max_data == UINT64_MAX && back.max_maps == UINT64_MAX));
    CHECK((back.write_multiple && back.memory_file));
    const vfu_capabilities ours = {16, 4096, 65535, true, false};
    REQUIRE(vfu_capabilities_write(text, &ours) <
            160); // QEMU's own text, in whose place the reply goes, is longer
    CHECK(std::strstr(text, "vipl") == nullptr);
}

TEST_CASE("no text makes the reader of capabilities read beyond it", "[capabilities]")
{
    std::mt19937 random(1);
    const std::string alphabet = "{}[]\",:\\-0123456789.etrufalsn capbilties_mxgd";
    for (int i = 0; i < 20000; ++i) {
        std::string text;
        for (unsigned n = random() % 40; n > 0; --n) {
            text += alphabet[random() % alphabet.size()];
        }
        const std::unique_ptr<char[]> exact(new char[text.size()]); // so that a checker sees it
        std::copy(text.begin(), text.end(), exact.get());
        vfu_capabilities out;
        (void)vfu_capabilities_read(exact.get(), text.size(), &out);
    }
    SUCCEED();
}
