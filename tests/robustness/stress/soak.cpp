// SPDX-License-Identifier: MIT
//
// A soak: 64 VIs in this process, each in one session after the other with VIs of four other
// processes, of which now and then one is killed and replaced. Levels, sizes, depths, operations,
// ways to wait and ways to end are random (soak_plan.hpp); all bytes are compared. At the end the
// books of both sides must agree: nothing lost, wrong or doubled, no descriptor that did not come
// back, nothing left behind. VIPL_STRESS_SECONDS says how long.
#include "stress.hpp"

#include <memory>

#include "census.hpp"
#include "soak_session.hpp"

using namespace stress;

namespace {

constexpr unsigned kPeers = 4, kLanes = 64, kLanesEach = kLanes / kPeers;

/** What the clients put down about their last sessions; they may be killed at any time. */
struct Books {
    std::atomic<bool> stop;
    struct Entry {
        std::atomic<std::uint64_t> number; // written last
        Result result;
    } lanes[kLanes];
};

bool is_large(unsigned lane)
{
    return lane % 8 == 0;
}

std::string lane_name(const Scene &scene, unsigned lane)
{
    return scene.name(("/" + std::to_string(lane)).c_str());
}

// --- clients -------------------------------------------------------------------------------------

void request_sessions(const Nic &nic, const Scene &scene, unsigned lane)
{
    Books &books = shared<Books>();
    Random random(scene.seed ^ lane);
    NetAddress remote = nic.address(lane_name(scene, lane));
    while (!books.stop) {
        const Plan plan(random() | 1, is_large(lane));
        Session session(nic, plan, kClient, random);
        char number[20];
        std::snprintf(number, sizeof number, "%llx", static_cast<unsigned long long>(plan.number));
        NetAddress local = nic.address(number);
        REQUIRE_VIP(VipConnectRequest(session.vi(), local, remote, 2 * patience(), nullptr));
        session.run();
        books.lanes[lane].result = session.result();
        books.lanes[lane].number = plan.number;
    }
}

void play_peer(const Scene &scene, Line &line)
{
    const Nic nic;
    Crew crew;
    const auto first = static_cast<unsigned>(scene.seed % kPeers) * kLanesEach;
    for (unsigned lane = first; lane < first + kLanesEach; ++lane) {
        crew.add([&nic, &scene, lane] { request_sessions(nic, scene, lane); });
    }
    crew.join();
    line.send('E');
}

// --- the server ----------------------------------------------------------------------------------

struct Totals {
    std::atomic<unsigned> kills[kPeers] = {}; // counted before they happen
    std::atomic<std::uint64_t> sessions{0}, whole{0}, cut{0}, messages{0}, bytes{0}, flushed{0};
};

/** One VI's place, which sessions take one after the other. */
class Lane {
public:
    Lane(const Nic &nic, const Scene &scene, unsigned lane, Totals &totals)
        : nic_(nic), lane_(lane), random_(scene.seed + lane), totals_(totals),
          local_(nic.address(lane_name(scene, lane)))
    {
    }

    void run(const std::atomic<bool> &closing)
    {
        while (!closing) {
            NetAddress from;
            VIP_VI_ATTRIBUTES attributes{};
            VIP_CONN_HANDLE connection = nullptr;
            const VIP_RETURN rc = VipConnectWait(nic_, local_, 50, from, &attributes, &connection);
            if (rc == VIP_SUCCESS) {
                compare();
                serve(connection, Plan(std::stoull(from.discriminator(), nullptr, 16), is_large(lane_)));
            } else {
                EXPECT_EQ(VIP_TIMEOUT, rc);
            }
        }
        compare();
    }

private:
    void serve(VIP_CONN_HANDLE connection, const Plan &plan)
    {
        kills_before_ = totals_.kills[lane_ / kLanesEach];
        Session session(nic_, plan, kServer, random_);
        const VIP_RETURN rc = VipConnectAccept(connection, session.vi());
        if (rc != VIP_SUCCESS) { // the client was killed
            if (rc != VIP_TIMEOUT && rc != VIP_INVALID_PARAMETER) {
                throw Failure("VipConnectAccept of a client that was killed: " + std::to_string(rc));
            }
            VipConnectReject(connection);
            return;
        }
        session.run();
        last_.emplace(plan);
        result_ = session.result();
        totals_.sessions++;
        totals_.messages += result_.sent + result_.received;
        totals_.bytes += result_.bytes;
        totals_.flushed += result_.flushed;
    }

    /** The books of the last session; its client has put down its own, or was killed before it
     * could. */
    void compare()
    {
        if (!last_) {
            return;
        }
        const Plan plan = *last_;
        last_.reset();
        const Books::Entry &client = shared<Books>().lanes[lane_];
        if (client.number != plan.number) {
            totals_.cut++;
            return;
        }
        if (plan.level != VIP_SERVICE_UNRELIABLE) {
            EXPECT(client.result.received >= result_.sent);
            EXPECT(result_.received >= client.result.sent);
        }
        // Who is killed right after writing its books leaves what it said last on the way.
        const bool killed = totals_.kills[lane_ / kLanesEach] != kills_before_;
        if (!plan.abrupt && !killed) {
            expect_whole(client.result, "client", plan);
            expect_whole(result_, "server", plan);
        }
        totals_.whole += client.result.whole && result_.whole ? 1 : 0;
    }

    static void expect_whole(const Result &result, const char *whose, const Plan &plan)
    {
        if (!result.whole) {
            throw Failure(std::string("the session is not whole for the ") + whose + ": level " +
                          std::to_string(plan.level) + ", left by the " +
                          (plan.leaver == kServer ? "server" : "client") + ", sent " +
                          std::to_string(result.sent) + ", received " + std::to_string(result.received) +
                          ", back with an error " + std::to_string(result.flushed));
        }
    }

    const Nic &nic_;
    unsigned lane_;
    Random random_;
    Totals &totals_;
    NetAddress local_;
    std::optional<Plan> last_;
    Result result_;
    unsigned kills_before_ = 0; // of the client, when the last session began
};

/** Kill and replace until the time is up; how often. */
unsigned keep_killing(const Nic &nic, std::vector<std::unique_ptr<Child>> &peers, Scene scene, Random &random,
                      const Crew &crew, Totals &totals)
{
    const Cq empty(nic);
    unsigned kills = 0;
    const unsigned long long start = now_ms(), end = start + seconds() * 1000ull;
    while (now_ms() < end && !crew.failed()) {
        VIP_VI_HANDLE vi = nullptr;
        VIP_BOOLEAN receive = VIP_FALSE;
        REQUIRE_RC(VIP_TIMEOUT, VipCQWait(empty, kMoment, &vi, &receive));
        if (below(random, 8) == 0 || (kills == 0 && now_ms() > (start + end) / 2)) {
            const std::uint64_t index = below(random, kPeers);
            totals.kills[index]++;
            peers[index]->kill();
            peers[index]->finish(true);
            scene.seed = random() / kPeers * kPeers + index;
            peers[index] = std::make_unique<Child>(play_peer, scene);
            ++kills;
        }
    }
    return kills;
}

void say(const Totals &totals, unsigned kills)
{
    std::cout << totals.sessions << " sessions, " << totals.whole << " whole, " << totals.cut << " cut by "
              << kills << " kills; " << totals.messages << " messages, " << (totals.bytes >> 20)
              << " MiB received, " << totals.flushed << " descriptors flushed" << std::endl;
}

void soak(const Nic &nic)
{
    Scene scene = make_scene();
    Random random = scene.random();
    Totals totals;
    std::atomic<bool> closing{false};
    std::vector<std::unique_ptr<Child>> peers;
    Crew crew;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        crew.add([&nic, &closing, &totals, scene, lane] { Lane(nic, scene, lane, totals).run(closing); });
    }
    unsigned kills = 0;
    try {
        for (unsigned i = 0; i < kPeers; ++i) {
            scene.seed = random() / kPeers * kPeers + i;
            peers.push_back(std::make_unique<Child>(play_peer, scene));
        }
        kills = keep_killing(nic, peers, scene, random, crew, totals);
        shared<Books>().stop = true;
        for (const auto &peer : peers) {
            EXPECT(peer->line.receive<char>(4 * patience()) == 'E');
            peer->finish();
        }
    } catch (...) {
        peers.clear(); // killed
        closing = true;
        crew.join();
        throw;
    }
    closing = true;
    crew.join();
    say(totals, kills);
    EXPECT(totals.whole > 10);
    EXPECT(kills > 0);
    EXPECT(totals.cut <= kills * kLanesEach);
}

} // namespace

TEST_CASE("a soak loses, changes, doubles and leaks nothing", "[soak]")
{
    let_a_moment_pass();       // this thread's own ready_fd exists from here on,
    std::thread([] {}).join(); // and so does a sanitizer's own thread
    const Census before = take_census();
    {
        const Nic nic;
        soak(nic);
    }
    expect_census(before, [] {});
}
