// SPDX-License-Identifier: MIT
//
// All interleavings of two ends with small windows, run on the state machine itself: programs that
// send, offer, read, finish and close at any time, and messages that arrive at any later time.
#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_set>
#include <vector>

#include <catch2/catch.hpp>

extern "C" {
#include "stream/state.h"
}

namespace {

/** What the program at an end does, once each in any order, and how much it reads. */
struct Plan {
    unsigned data = 0;   // messages that it sends
    bool offers = false; // after the data, memory
    bool finishes = false;
    bool closes = false;
    bool reads = true;
};

struct End {
    vipl_stream_state state;
    unsigned data_left;
    unsigned unread;   // DATA that holds its receive
    unsigned received; // DATA and offers that the program has had
    bool to_offer, to_finish, to_close;
    uint8_t flying; // messages to this end that are under way
    uint32_t immediate[16];
};

struct World {
    End ends[2];
};

constexpr vipl_stream_window kWindow = {4, 512};

uint32_t bytes_of(uint32_t immediate)
{
    const uint32_t type = immediate >> 24;
    return type == VIPL_STREAM_DATA ? 1 : type == VIPL_STREAM_RTS ? VIPL_STREAM_OFFER_BYTES : 0;
}

struct Wrong {
    std::string what;
};

class Model {
public:
    Model(const Plan &one, const Plan &other) : plans_{one, other} {}

    World initial() const
    {
        World world;
        std::memset(&world, 0, sizeof(world)); // with the padding: states are compared as bytes
        for (int i = 0; i < 2; i++) {
            vipl_stream_state_begin(&world.ends[i].state, kWindow, kWindow);
            world.ends[i].data_left = plans_[i].data;
            world.ends[i].to_offer = plans_[i].offers;
            world.ends[i].to_finish = plans_[i].finishes;
            world.ends[i].to_close = plans_[i].closes;
        }
        return world;
    }

    /** Every world that can come next. */
    std::vector<World> next(const World &now) const
    {
        std::vector<World> out;
        for (int i = 0; i < 2; i++) {
            step(now, i, out, &Model::deliver);
            step(now, i, out, &Model::send);
            step(now, i, out, &Model::offer);
            step(now, i, out, &Model::read);
            step(now, i, out, &Model::finish);
            step(now, i, out, &Model::close);
        }
        return out;
    }

    void check(const World &world) const
    {
        for (int i = 0; i < 2; i++) {
            const End &end = world.ends[i], &peer = world.ends[1 - i];
            unsigned returned = 0;
            for (unsigned k = 0; k < end.flying; k++) {
                returned += end.immediate[k] & 0xFFFFFF;
            }
            // Every receive of the peer is a credit here, or on its way, or in use there.
            const unsigned all = end.state.credits + peer.flying + peer.unread + peer.state.owed + returned;
            if (all != kWindow.messages) {
                throw Wrong{"a credit is lost or made"};
            }
        }
    }

    /** Nothing more can happen. */
    void check_quiet(const World &world) const
    {
        for (int i = 0; i < 2; i++) {
            const End &end = world.ends[i], &peer = world.ends[1 - i];
            const bool heard = plans_[1 - i].reads && !peer.state.closing;
            const bool cut = end.state.close_received || end.state.closing;
            if (heard && !cut && (end.data_left > 0 || end.to_offer || end.state.offering)) {
                throw Wrong{"a program that may send stands still"};
            }
            const unsigned most = plans_[i].data + (plans_[i].offers ? 1 : 0);
            if (heard && !cut && peer.received != most) {
                throw Wrong{"something that was sent was not received"};
            }
            if (end.state.closing && !end.state.close_received &&
                !(end.state.close_sent && end.state.unacknowledged == 0)) {
                throw Wrong{"a closed end waits for ever"};
            }
            if (end.state.finishing && heard && !cut && !peer.state.fin_received) {
                throw Wrong{"an end has not come"};
            }
        }
    }

private:
    using Step = bool (Model::*)(World &, int) const;

    void step(const World &now, int i, std::vector<World> &out, Step what) const
    {
        World world = now;
        if ((this->*what)(world, i)) {
            vipl_stream_message type;
            while ((type = vipl_stream_due(&world.ends[i].state)) != 0) {
                post(world, i, type);
            }
            out.push_back(world);
        }
    }

    static void post(World &world, int i, vipl_stream_message type)
    {
        End &peer = world.ends[1 - i];
        if (peer.flying == 16) {
            throw Wrong{"more messages than receives"};
        }
        peer.immediate[peer.flying++] = vipl_stream_on_send(&world.ends[i].state, type);
    }

    bool deliver(World &world, int i) const
    {
        End &end = world.ends[i];
        if (end.flying == 0) {
            return false;
        }
        const uint32_t immediate = end.immediate[0];
        std::copy(end.immediate + 1, end.immediate + 16, end.immediate);
        end.immediate[15] = 0;
        end.flying--;
        const vipl_stream_message type = vipl_stream_on_message(&end.state, immediate, bytes_of(immediate));
        if (type == 0) {
            throw Wrong{"a correct peer is taken for a wrong one"};
        }
        if (type == VIPL_STREAM_DATA && !end.state.closing) {
            end.unread++;
        } else {
            vipl_stream_on_repost(&end.state);
        }
        return true;
    }

    bool send(World &world, int i) const
    {
        End &end = world.ends[i];
        if (end.data_left == 0 || end.state.finishing || end.state.closing ||
            !vipl_stream_may_send(&end.state, VIPL_STREAM_DATA)) {
            return false;
        }
        end.data_left--;
        post(world, i, VIPL_STREAM_DATA);
        return true;
    }

    bool offer(World &world, int i) const
    {
        End &end = world.ends[i];
        if (!end.to_offer || end.data_left > 0 || end.state.finishing || end.state.closing ||
            !vipl_stream_may_send(&end.state, VIPL_STREAM_RTS)) {
            return false;
        }
        end.to_offer = false;
        post(world, i, VIPL_STREAM_RTS);
        return true;
    }

    bool read(World &world, int i) const
    {
        End &end = world.ends[i];
        if (!plans_[i].reads || end.state.closing) {
            return false;
        }
        if (end.unread > 0) {
            end.unread--;
            vipl_stream_on_repost(&end.state);
        } else if (end.state.offered && !end.state.has_read) {
            end.state.has_read = true;
        } else {
            return false;
        }
        end.received++;
        return true;
    }

    bool finish(World &world, int i) const
    {
        End &end = world.ends[i];
        if (!end.to_finish || end.data_left > 0 || end.to_offer || end.state.offering || end.state.closing) {
            return false;
        }
        end.to_finish = false;
        end.state.finishing = true;
        return true;
    }

    /** With bytes that were not read a close is a reset, which is not in this model. */
    bool close(World &world, int i) const
    {
        End &end = world.ends[i];
        if (!end.to_close || end.unread > 0 || end.state.offered || end.state.offering) {
            return false;
        }
        end.to_close = false;
        end.state.closing = true;
        return true;
    }

    Plan plans_[2];
};

/** Looks at all worlds. Returns their number. */
size_t explore(const Model &model)
{
    const auto key = [](const World &world) {
        return std::string(reinterpret_cast<const char *>(&world), sizeof(world));
    };
    std::unordered_set<std::string> seen;
    std::vector<World> todo = {model.initial()};
    seen.insert(key(todo[0]));
    while (!todo.empty()) {
        const World now = todo.back();
        todo.pop_back();
        model.check(now);
        const std::vector<World> following = model.next(now);
        if (following.empty()) {
            model.check_quiet(now);
        }
        for (const World &world : following) {
            if (seen.insert(key(world)).second) {
                todo.push_back(world);
            }
        }
    }
    return seen.size();
}

void expect_right(const Plan &one, const Plan &other)
{
    try {
        CHECK(explore(Model(one, other)) >= 10);
    } catch (const Wrong &wrong) {
        FAIL(wrong.what);
    }
}

Plan plan(unsigned data, const std::string &words = "")
{
    Plan plan;
    plan.data = data;
    plan.offers = words.find('o') != std::string::npos;
    plan.finishes = words.find('f') != std::string::npos;
    plan.closes = words.find('c') != std::string::npos;
    plan.reads = words.find('-') == std::string::npos;
    return plan;
}

} // namespace

TEST_CASE("both ends send and read: nothing is lost, nobody waits for ever")
{
    expect_right(plan(20), plan(0));
    expect_right(plan(9), plan(9));
    expect_right(plan(6, "f"), plan(6, "f"));
}

TEST_CASE("an end that reads nothing can be finished with and closed")
{
    expect_right(plan(5, "f"), plan(2, "-"));
    expect_right(plan(5, "fc"), plan(0, "-"));
    expect_right(plan(3, "-"), plan(3, "-"));
}

TEST_CASE("offers, finishes and closes at any time")
{
    expect_right(plan(4, "of"), plan(4, "of"));
    expect_right(plan(5, "oc"), plan(4));
    expect_right(plan(5, "fc"), plan(5, "fc"));
    expect_right(plan(4, "ofc"), plan(4, "ofc"));
    expect_right(plan(6, "o"), plan(6, "o"));
}
