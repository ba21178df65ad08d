// SPDX-License-Identifier: MIT
//
// The protocol of streams: golden bytes, and what no peer may send.
#include <catch2/catch.hpp>

extern "C" {
#include "stream/state.h"
}

namespace {

constexpr vipl_stream_window kWindow = {8, 1024};
constexpr vipl_stream_message kNone = static_cast<vipl_stream_message>(0);

constexpr uint32_t immediate(uint32_t type, uint32_t credits)
{
    return type << 24 | credits;
}

struct End : vipl_stream_state {
    End() : vipl_stream_state() { vipl_stream_state_begin(this, kWindow, kWindow); }
    bool may(vipl_stream_message type) const { return vipl_stream_may_send(this, type); }
    uint32_t sends(vipl_stream_message type) { return vipl_stream_on_send(this, type); }
    vipl_stream_message takes(uint32_t type, uint32_t returned, uint32_t bytes)
    {
        return vipl_stream_on_message(this, immediate(type, returned), bytes);
    }
    /** Every message but this one is a breach. */
    void refuses(uint32_t type, uint32_t returned, uint32_t bytes)
    {
        const vipl_stream_state before = *this;
        INFO("type " << type << ", " << returned << " credits, " << bytes << " bytes");
        CHECK(takes(type, returned, bytes) == kNone);
        CHECK(credits == before.credits);
        CHECK(fin_received == before.fin_received);
        CHECK(offered == before.offered);
        CHECK(acks_due == before.acks_due);
    }
};

} // namespace

TEST_CASE("immediate data is the type and the credits that are returned")
{
    End end;
    vipl_stream_on_repost(&end);
    vipl_stream_on_repost(&end);
    CHECK(end.sends(VIPL_STREAM_DATA) == 0x01000002);
    CHECK(end.sends(VIPL_STREAM_FIN) == 0x03000000);
    vipl_stream_on_repost(&end);
    CHECK(end.sends(VIPL_STREAM_CREDIT) == 0x02000001);
    CHECK(end.sends(VIPL_STREAM_CLOSE) == 0x04000000);
    End other;
    CHECK(other.sends(VIPL_STREAM_RTS) == 0x06000000);
    REQUIRE(other.takes(VIPL_STREAM_RTS, 1, VIPL_STREAM_OFFER_BYTES) == VIPL_STREAM_RTS);
    CHECK(other.sends(VIPL_STREAM_DONE) == 0x07000000);
    REQUIRE(other.takes(VIPL_STREAM_CLOSE, 1, 0) == VIPL_STREAM_CLOSE);
    CHECK(other.sends(VIPL_STREAM_ACK) == 0x05000000);
}

TEST_CASE("an offer has the same bytes on every CPU")
{
    uint8_t bytes[VIPL_STREAM_OFFER_BYTES];
    vipl_stream_offer_encode({0x0102030405060708, 0x20000001, 0xA1B2C3D4}, bytes);
    const uint8_t golden[VIPL_STREAM_OFFER_BYTES] = {1,    2, 3, 4, 5,    6,    7,    8,    0, 0, 0, 0,
                                                     0x20, 0, 0, 1, 0xA1, 0xB2, 0xC3, 0xD4, 0, 0, 0, 0};
    CHECK(std::equal(bytes, bytes + sizeof(bytes), golden));
    vipl_stream_offer offer;
    REQUIRE(vipl_stream_offer_decode(golden, &offer));
    CHECK(offer.address == 0x0102030405060708);
    CHECK(offer.length == 0x20000001);
    CHECK(offer.handle == 0xA1B2C3D4);
    bytes[23] = 1; // reserved
    CHECK(!vipl_stream_offer_decode(bytes, &offer));
    vipl_stream_offer_encode({1, 0, 1}, bytes);
    CHECK(!vipl_stream_offer_decode(bytes, &offer));
    vipl_stream_offer_encode({1, uint64_t(VIPL_STREAM_MAX_OFFER) + 1, 1}, bytes);
    CHECK(!vipl_stream_offer_decode(bytes, &offer));
}

TEST_CASE("windows have limits")
{
    CHECK(vipl_stream_window_is_valid({4, 512}));
    CHECK(vipl_stream_window_is_valid({4096, 1 << 20}));
    CHECK(!vipl_stream_window_is_valid({3, 512}));
    CHECK(!vipl_stream_window_is_valid({4097, 512}));
    CHECK(!vipl_stream_window_is_valid({4, 511}));
    CHECK(!vipl_stream_window_is_valid({4, (1 << 20) + 1}));
}

TEST_CASE("data leaves two credits, an offer one, the others none")
{
    End end;
    while (end.may(VIPL_STREAM_DATA)) {
        end.sends(VIPL_STREAM_DATA);
    }
    CHECK(end.credits == 2);
    REQUIRE(end.may(VIPL_STREAM_RTS));
    end.sends(VIPL_STREAM_RTS);
    CHECK(end.credits == 1);
    REQUIRE(end.takes(VIPL_STREAM_DATA, 0, 1) == VIPL_STREAM_DATA);
    CHECK(!end.may(VIPL_STREAM_CREDIT));
    vipl_stream_on_repost(&end);
    REQUIRE(end.may(VIPL_STREAM_CREDIT));
    end.sends(VIPL_STREAM_CREDIT);
    CHECK(end.credits == 0);
    vipl_stream_on_repost(&end);
    CHECK(!end.may(VIPL_STREAM_CREDIT));
}

TEST_CASE("credits are due when half of the window is owed")
{
    End end;
    for (uint32_t i = 0; i < kWindow.messages / 2; i++) {
        CHECK(vipl_stream_due(&end) == kNone);
        vipl_stream_on_repost(&end);
    }
    CHECK(vipl_stream_due(&end) == VIPL_STREAM_CREDIT);
}

TEST_CASE("nothing is sent after the end but what the peer needs to end too")
{
    End end;
    REQUIRE(end.takes(VIPL_STREAM_FIN, 0, 0) == VIPL_STREAM_FIN);
    end.sends(VIPL_STREAM_FIN);
    CHECK(!end.may(VIPL_STREAM_DATA));
    CHECK(!end.may(VIPL_STREAM_RTS));
    CHECK(!end.may(VIPL_STREAM_FIN));
    CHECK(end.may(VIPL_STREAM_ACK));
    CHECK(end.may(VIPL_STREAM_CLOSE));
    end.sends(VIPL_STREAM_ACK);
    CHECK(!end.may(VIPL_STREAM_ACK));
    end.sends(VIPL_STREAM_CLOSE);
    CHECK(!end.may(VIPL_STREAM_CLOSE));
    CHECK(end.unacknowledged == 2);
    REQUIRE(end.takes(VIPL_STREAM_ACK, 0, 0) == VIPL_STREAM_ACK);
    REQUIRE(end.takes(VIPL_STREAM_ACK, 0, 0) == VIPL_STREAM_ACK);
    end.refuses(VIPL_STREAM_ACK, 0, 0);
}

TEST_CASE("an end may refuse offers")
{
    End end;
    end.refuses_offers = true;
    end.refuses(VIPL_STREAM_RTS, 0, VIPL_STREAM_OFFER_BYTES);
    CHECK(end.takes(VIPL_STREAM_DATA, 0, 1) == VIPL_STREAM_DATA);
}

TEST_CASE("a peer that sends what no peer may send is found out")
{
    End end;
    end.refuses(0, 0, 0);
    end.refuses(8, 0, 0);
    end.refuses(255, 0, 0);
    end.refuses(VIPL_STREAM_DATA, 0, 0);
    end.refuses(VIPL_STREAM_DATA, 0, kWindow.bytes + 1);
    end.refuses(VIPL_STREAM_DATA, 1, 1); // a credit that was never used
    end.refuses(VIPL_STREAM_CREDIT, 0, 0);
    end.refuses(VIPL_STREAM_FIN, 0, 1);
    end.refuses(VIPL_STREAM_CLOSE, 0, 1);
    end.refuses(VIPL_STREAM_ACK, 0, 0);
    end.refuses(VIPL_STREAM_RTS, 0, VIPL_STREAM_OFFER_BYTES - 1);
    end.refuses(VIPL_STREAM_DONE, 0, 0);
    end.sends(VIPL_STREAM_DATA);
    end.refuses(VIPL_STREAM_CREDIT, 1, 1);
    end.refuses(VIPL_STREAM_CREDIT, 2, 0);
    end.refuses(VIPL_STREAM_DATA, 0xFFFFFF, 1);
    REQUIRE(end.takes(VIPL_STREAM_CREDIT, 1, 0) == VIPL_STREAM_CREDIT);
    SECTION("after a FIN")
    {
        REQUIRE(end.takes(VIPL_STREAM_FIN, 0, 0) == VIPL_STREAM_FIN);
        end.refuses(VIPL_STREAM_DATA, 0, 1);
        end.refuses(VIPL_STREAM_RTS, 0, VIPL_STREAM_OFFER_BYTES);
        end.refuses(VIPL_STREAM_FIN, 0, 0);
        REQUIRE(end.takes(VIPL_STREAM_CLOSE, 0, 0) == VIPL_STREAM_CLOSE);
        end.refuses(VIPL_STREAM_CLOSE, 0, 0);
    }
    SECTION("during an offer")
    {
        REQUIRE(end.takes(VIPL_STREAM_RTS, 0, VIPL_STREAM_OFFER_BYTES) == VIPL_STREAM_RTS);
        end.refuses(VIPL_STREAM_DATA, 0, 1);
        end.refuses(VIPL_STREAM_RTS, 0, VIPL_STREAM_OFFER_BYTES);
        end.refuses(VIPL_STREAM_FIN, 0, 0);
        end.refuses(VIPL_STREAM_CLOSE, 0, 0);
        end.sends(VIPL_STREAM_DONE);
        REQUIRE(end.takes(VIPL_STREAM_DATA, 1, 1) == VIPL_STREAM_DATA);
    }
}
