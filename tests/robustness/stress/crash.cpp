// SPDX-License-Identifier: MIT
//
// One of three programs is killed again and again (VIPL_STRESS_KILLS), at a random point of what it
// does with the two others: while it opens the device, connects, or exchanges. Both see the
// connection lost within a second and get their descriptors back; what they exchange with each
// other goes on meanwhile, and every byte of it is right; and the next program takes the dead one's
// place.
#include "steady.hpp"

#include "partner.hpp"
#include "support/error_log.hpp"

using namespace stress;

namespace {

constexpr unsigned kSurvivors = 1u << 20; // their numbers; those of victims are below

/** What a survivor says of the last victim that has come to it. */
struct Survivor {
    std::atomic<unsigned> met, turns, lost; // generations, but for the turns
};

struct Board {
    Steady steady;
    std::atomic<unsigned> generation; // of victims; 0: there was none
    std::atomic<bool> stop;
    Survivor survivors[2];
};

std::string place(const Scene &scene, unsigned survivor)
{
    return scene.name(survivor == 0 ? "x" : "y");
}

/** Serve the one that comes, until it dies. It may have died before it was accepted; its number is
 * its generation. */
void serve_victim(const Nic &nic, ErrorLog &log, const std::string &name, Survivor &self)
{
    Exchange exchange(nic, kSurvivors);
    const VIP_RETURN rc = accept_on(nic, name, exchange.vi, 50);
    if (rc != VIP_SUCCESS) {
        EXPECT(rc == VIP_TIMEOUT || rc == VIP_ERROR_RESOURCE);
        return;
    }
    bool lives = exchange.greet();
    self.turns = 0;
    self.met = exchange.peer();
    while (lives) {
        lives = exchange.turn();
        self.turns += lives ? 1 : 0;
    }
    log.expect(exchange.vi, VIP_ERROR_CONN_LOST);
    exchange.take_back();
    self.lost = exchange.peer();
}

void serve_victims(const Nic &nic, const Scene &scene, Board &board, unsigned number)
{
    ErrorLog log(nic);
    while (!board.stop) {
        serve_victim(nic, log, place(scene, number), board.survivors[number]);
    }
}

void survivor(const Scene &scene, Line &line)
{
    Board &board = shared<Board>();
    const auto number = line.receive<unsigned>();
    const Nic nic;
    Crew crew;
    crew.add(or_end([&] { exchange_steadily(nic, scene.name(), board.steady, number, 2 * patience()); }));
    crew.add(or_end([&] { serve_victims(nic, scene, board, number); }));
    crew.join();
    line.sync();
}

/** Exchanges with both until it is killed. */
void victim(const Scene &scene, Line &line)
{
    line.send('B');
    const unsigned generation = shared<Board>().generation;
    const Nic nic;
    Exchange first(nic, generation), second(nic, generation);
    REQUIRE_VIP(request_to(nic, place(scene, 0), first.vi));
    REQUIRE_VIP(request_to(nic, place(scene, 1), second.vi));
    EXPECT(first.greet() && second.greet());
    for (;;) {
        first.post();
        second.post();
        EXPECT(first.collect() && second.collect());
    }
}

class Killer {
public:
    Killer() : scene_(make_scene()), board_(fresh_board()), random_(scene_.random())
    {
        for (unsigned i = 0; i < 2; ++i) {
            survivors_[i] = std::make_unique<Child>(survivor, scene_);
            survivors_[i]->line.send(i);
        }
        await_progress();
    }

    void kill_one()
    {
        const unsigned generation = ++board_.generation;
        Child child(victim, scene_);
        child.line.receive<char>();
        if (below(random_, 8) != 0) { // otherwise while it connects
            const unsigned turns = static_cast<unsigned>(below(random_, 8));
            await([&] { return has_come(0, generation, turns) && has_come(1, generation, turns); });
        }
        spin(std::chrono::microseconds(below(random_, 3000)));
        child.kill();
        const unsigned long long killed = now_ms();
        child.finish(true);
        expect_noticed(generation, killed);
        await_progress();
    }

    void finish()
    {
        board_.stop = true;
        board_.steady.stop = true;
        for (const auto &one : survivors_) {
            EXPECT_EQ('S', one->line.receive<char>());
        }
        for (const auto &one : survivors_) {
            one->line.send('S');
            one->finish();
        }
        std::cout << board_.generation << " kills, " << seen_ << " seen, each within " << worst_ << " ms, "
                  << board_.steady.turns[0] << " turns of the others" << std::endl;
    }

private:
    static Board &fresh_board() { return *new (g_shared) Board(); }

    static void spin(std::chrono::microseconds time)
    {
        const auto end = std::chrono::steady_clock::now() + time;
        while (std::chrono::steady_clock::now() < end) {
            std::this_thread::yield();
        }
    }

    bool has_come(unsigned survivor, unsigned generation, unsigned turns) const
    {
        return board_.survivors[survivor].met == generation && board_.survivors[survivor].turns >= turns;
    }

    /** Those that the victim had reached are told of its end. */
    void expect_noticed(unsigned generation, unsigned long long killed)
    {
        for (const Survivor &one : board_.survivors) {
            if (one.met != generation) {
                continue;
            }
            while (one.lost != generation) {
                if (now_ms() > killed + a_second()) {
                    throw Failure("a survivor does not see the end for a second");
                }
                give_way();
            }
            ++seen_;
        }
        worst_ = std::max(worst_, now_ms() - killed);
    }

    /** The others do something within a second. */
    void await_progress()
    {
        const unsigned long long end = now_ms() + a_second();
        const unsigned before[2] = {board_.steady.turns[0], board_.steady.turns[1]};
        for (unsigned i = 0; i < 2; ++i) {
            while (board_.steady.turns[i] < before[i] + 2) {
                if (now_ms() > end) {
                    throw Failure("a survivor does nothing for a second");
                }
                give_way();
            }
        }
    }

    Scene scene_;
    Board &board_;
    Random random_;
    std::unique_ptr<Child> survivors_[2];
    unsigned long long worst_ = 0;
    unsigned seen_ = 0;
};

} // namespace

TEST_CASE("one of three programs is killed at random points, and the others see it and go on", "[crash]")
{
    const unsigned kills = times("VIPL_STRESS_KILLS", 200);
    Killer killer;
    for (unsigned i = 0; i < kills; ++i) {
        INFO("kill " << i);
        REQUIRE_NOTHROW(killer.kill_one());
    }
    REQUIRE_NOTHROW(killer.finish());
}
