// SPDX-License-Identifier: MIT
//
// Faults of the device at every point of a conversation: each end sees all the bytes, in order, or
// a reset. Bytes that end in a proper end are all the bytes.
#include <cerrno>
#include <cstdlib>
#include <future>

#include "pair.hpp"

using namespace stream_test;

namespace {

constexpr unsigned kSends = 24; // of the whole conversation, and more

struct Plan {
    explicit Plan(const std::string &text) { setenv("VIPL_FAULTS", text.c_str(), 1); }
    ~Plan() { unsetenv("VIPL_FAULTS"); }
    Plan(const Plan &) = delete;
    Plan &operator=(const Plan &) = delete;
};

/** Sends all, or up to an error. Returns true if all was sent. */
bool send_all(const Stream &stream, const std::string &text)
{
    for (size_t done = 0; done < text.size();) {
        must(vipl_stream_wait(stream, VIPL_STREAM_WRITABLE, in_time(), nullptr) == 0);
        const long n = stream.try_send(text.substr(done));
        if (n < 0 && n != -EAGAIN) {
            must(n == -EPIPE || n == -ECONNRESET);
            return false;
        }
        done += n > 0 ? static_cast<size_t>(n) : 0;
    }
    return true;
}

/** An end of the conversation: what it says, what it hears, and an end in both directions. Returns
 * whether it heard a proper end. */
bool talk(const Stream &stream, const std::string &says, const std::string &is_to_hear)
{
    if (send_all(stream, says)) {
        vipl_stream_finish(stream);
    }
    int error = 0;
    const std::string heard = stream.receive(is_to_hear.size() + 1, &error);
    must(is_to_hear.compare(0, heard.size(), heard) == 0);
    must(error == 0 || error == ECONNRESET);
    must(error != 0 || heard.size() == is_to_hear.size()); // nothing is cut and looks whole
    return error == 0;
}

/** Returns whether both ends heard everything. */
bool converse(const std::string &plan)
{
    INFO(plan);
    Device here;
    std::unique_ptr<Device> there;
    {
        const Plan faults(plan);
        there.reset(new Device);
    }
    Stream one(here), two(*there);
    connect(here, vipl_stream_vi(one), *there, vipl_stream_vi(two));
    vipl_stream_begin(one, vipl_stream_own_window());
    vipl_stream_begin(two, vipl_stream_own_window());
    const std::string question = pattern(300000, 3), answer = pattern(900000, 4);
    auto peer = std::async(std::launch::async, [&] { return talk(two, answer, question); });
    const bool heard = talk(one, question, answer);
    const bool peer_heard = peer.get();
    one.close();
    two.close();
    CHECK(vipl_stream_drain(static_cast<int>(vipl_test::patience())));
    return heard && peer_heard;
}

} // namespace

TEST_CASE("a send that fails, wherever it is, is a reset and never an end")
{
    for (const char *fault : {"drop=@", "corrupt=@", "disconnect=@", "status=8@"}) {
        unsigned struck = 0;
        for (unsigned n = 1; n <= kSends; n++) {
            struck += converse(fault + std::to_string(n)) ? 0 : 1;
        }
        INFO(fault);
        CHECK(struck > 10);
    }
}

TEST_CASE("a device that is late changes nothing")
{
    CHECK(converse("seed=5,delay=0.5"));
    CHECK(converse("delay"));
}

TEST_CASE("a device without room refuses a stream, and works again")
{
    for (unsigned n = 2; n <= 3; n++) { // the memory, the VI
        const Plan faults("resource=@" + std::to_string(n));
        Device device;
        vipl_stream *stream = nullptr;
        CHECK(vipl_stream_new(device, &stream) == ENOMEM);
        CHECK(stream == nullptr);
        REQUIRE(vipl_stream_new(device, &stream) == 0);
        vipl_stream_close(stream);
    }
}
