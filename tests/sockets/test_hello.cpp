// SPDX-License-Identifier: MIT
//
// The messages of the handshake, byte by byte.
#include <cstring>
#include <string>

#include <catch2/catch.hpp>

#define _Static_assert static_assert
extern "C" {
#include "sockets/hello.h"
}

namespace {

using Bytes = std::string;

sock_hello example(sock_hello_kind kind = SOCK_HELLO)
{
    sock_hello hello = {};
    hello.kind = kind;
    hello.version = SOCK_HELLO_VERSION;
    hello.host_length = 6;
    std::memcpy(hello.host, "\1\2\3\4\5\6", 6);
    std::memcpy(hello.nonce, "0123456789abcdef", 16);
    std::memcpy(hello.peer_nonce, "ghijklmnopqrstuv", 16);
    hello.window = {32, 0x10203};
    std::strcpy(hello.device, "loopback");
    hello.user = 0x4030201;
    return hello;
}

Bytes encoded(const sock_hello &hello)
{
    uint8_t bytes[SOCK_HELLO_BYTES];
    sock_hello_encode(&hello, bytes);
    return Bytes(reinterpret_cast<char *>(bytes), sizeof(bytes));
}

bool decodes(const Bytes &bytes, sock_hello *hello)
{
    return sock_hello_decode(reinterpret_cast<const uint8_t *>(bytes.data()), hello);
}

bool decodes(const Bytes &bytes)
{
    sock_hello hello;
    return decodes(bytes, &hello);
}

Bytes changed(size_t at, const Bytes &bytes, sock_hello_kind kind = SOCK_HELLO)
{
    return encoded(example(kind)).replace(at, bytes.size(), bytes);
}

} // namespace

TEST_CASE("HELLO has these bytes")
{
    Bytes golden("\x89VIPL-socket\r\n\x1a\n", 16);
    golden += Bytes("\1\2\6\0", 4);                       // kind, version, bytes of the address, reason
    golden += Bytes("\x20\0\0\0\3\2\1\0", 8);             // the window, little-endian
    golden += "0123456789abcdef";                         // the nonce
    golden += Bytes("\1\2\3\4\5\6", 6) + Bytes(10, '\0'); // the address
    golden += "loopback" + Bytes(24, '\0') + "\1\2\3\4" + "ghijklmnopqrstuv" + Bytes(16, '\0');
    REQUIRE(golden.size() == 128);
    CHECK(encoded(example()) == golden);
}

TEST_CASE("a message is read as it was written")
{
    for (const auto kind : {SOCK_HELLO, SOCK_WELCOME}) {
        sock_hello hello = {};
        REQUIRE(decodes(encoded(example(kind)), &hello));
        CHECK(encoded(hello) == encoded(example(kind)));
    }
    sock_hello decline = {}, read = {};
    decline.kind = SOCK_DECLINE;
    decline.version = SOCK_HELLO_VERSION;
    decline.why = 6;
    REQUIRE(decodes(encoded(decline), &read));
    CHECK(read.kind == SOCK_DECLINE);
    CHECK(read.why == 6);
}

TEST_CASE("a message of another version is known as one, and nothing of it is believed")
{
    sock_hello read = {};
    REQUIRE(decodes(changed(17, "\3").replace(18, 110, 110, '\xff'), &read));
    CHECK(read.kind == SOCK_HELLO);
    CHECK(read.version == 3);
    CHECK(read.window.messages == 0);
}

TEST_CASE("what is no message is refused, and changes nothing")
{
    CHECK_FALSE(decodes(changed(0, "x")));
    CHECK_FALSE(decodes(changed(15, "x")));
    CHECK_FALSE(decodes(changed(16, Bytes(1, '\0')))); // kind
    CHECK_FALSE(decodes(changed(16, "\4")));
    CHECK_FALSE(decodes(changed(18, Bytes(1, '\0')))); // bytes of the address
    CHECK_FALSE(decodes(changed(18, "\x11")));
    CHECK_FALSE(decodes(changed(18, "\5"))); // a byte behind the address
    CHECK_FALSE(decodes(changed(20, "\1"))); // window
    CHECK_FALSE(decodes(changed(24, Bytes(4, '\xff'))));
    CHECK_FALSE(decodes(changed(60, Bytes(32, '\0')))); // device
    CHECK_FALSE(decodes(changed(60, Bytes(32, 'x'))));
    CHECK_FALSE(decodes(changed(70, "x")));
    CHECK_FALSE(decodes(changed(127, "x")));
    CHECK(decodes(changed(60, Bytes(31, 'x'))));
    sock_hello read = example();
    CHECK_FALSE(decodes(changed(127, "x"), &read));
    CHECK(encoded(read) == encoded(example()));
}

TEST_CASE("the beginning of a message is known by what has come of it")
{
    const Bytes bytes = encoded(example());
    for (size_t count = 0; count <= bytes.size(); count++) {
        CHECK(sock_hello_begins(reinterpret_cast<const uint8_t *>(bytes.data()), count));
    }
    CHECK_FALSE(sock_hello_begins(reinterpret_cast<const uint8_t *>("GET / HTTP/1.1"), 1));
    CHECK_FALSE(sock_hello_begins(reinterpret_cast<const uint8_t *>("\x89VIPL-socket\r\nX"), 15));
}
