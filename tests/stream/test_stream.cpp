// SPDX-License-Identifier: MIT
//
// Streams on the device under test.
#include <cerrno>
#include <future>
#include <thread>

#include <poll.h>
#include <unistd.h>

#include "pair.hpp"

using namespace stream_test;

namespace {

const size_t kWindow = 30 * size_t(vipl_stream_own_window().bytes); // what fits without the peer's reading

bool eventually(const std::function<bool()> &holds)
{
    const uint64_t end = in_time();
    for (unsigned turn = 0; !holds(); turn++) {
        if (vipl_now_ns() > end) {
            return false;
        }
        vipl_test::give_way(turn);
    }
    return true;
}

} // namespace

TEST_CASE("bytes come as they were sent, in any pieces")
{
    Pair pair;
    const std::string text = pattern(100000);
    pair.one.send(text.substr(0, 1));
    pair.one.send(text.substr(1, 40000));
    pair.one.send(text.substr(40001));
    std::string got;
    for (size_t step = 1; got.size() < text.size(); step = step * 3 % 20011) {
        got += pair.two.receive(std::min(step, text.size() - got.size()));
    }
    CHECK(got == text);
    pair.two.send("back");
    CHECK(pair.one.receive(4) == "back");
}

TEST_CASE("a peek leaves the bytes, and pending counts them")
{
    Pair pair;
    std::string text;
    CHECK(pair.two.try_receive(text, 10) == -EAGAIN);
    CHECK((pair.two.events() & VIPL_STREAM_READABLE) == 0);
    pair.one.send("0123456789");
    REQUIRE(pair.two.await(VIPL_STREAM_READABLE));
    CHECK(pair.two.try_receive(text, 4, true) == 4);
    CHECK(text == "0123");
    CHECK(vipl_stream_pending(pair.two) == 10);
    CHECK(pair.two.receive(4) == "0123");
    CHECK(vipl_stream_pending(pair.two) == 6);
    CHECK(pair.two.receive(6) == "456789");
    CHECK(vipl_stream_pending(pair.two) == 0);
}

TEST_CASE("pieces are gathered and scattered")
{
    Pair pair;
    char a[] = "ab", b[] = "cdefg";
    vipl_iov out[] = {{a, 2}, {nullptr, 0}, {b, 5}};
    size_t n = 0;
    REQUIRE(vipl_stream_send(pair.one, out, 3, &n) == 0);
    CHECK(n == 7);
    REQUIRE(pair.two.await(VIPL_STREAM_READABLE));
    char x[3] = {}, y[8] = {};
    vipl_iov in[] = {{x, 3}, {y, 8}};
    REQUIRE(vipl_stream_receive(pair.two, in, 2, false, &n) == 0);
    CHECK(n == 7);
    CHECK(std::string(x, 3) + y == "abcdefg");
}

TEST_CASE("an end that has stopped receiving reads what is there, and then the end")
{
    Pair pair;
    auto reader = std::async(std::launch::async, [&] { return pair.two.await(VIPL_STREAM_READABLE); });
    vipl_stream_stop(pair.two);
    CHECK(reader.get()); // a thread that waits wakes up
    CHECK(pair.two.receive(1).empty());
    pair.one.send("late");
    CHECK(eventually([&] { return vipl_stream_pending(pair.two) == 4; }));
    CHECK(pair.two.receive(9) == "late");
    pair.two.send("the peer does not notice");
    CHECK(pair.one.receive(24) == "the peer does not notice");
}

TEST_CASE("an end that neither sends nor receives resets the connection when the peer sends")
{
    Pair pair;
    vipl_stream_finish(pair.two);
    vipl_stream_stop(pair.two);
    CHECK(pair.one.receive(1).empty());
    pair.one.send("who reads this?");
    CHECK(pair.two.await(VIPL_STREAM_BROKEN));
    CHECK(eventually([&] { return pair.one.try_send("x") == -EPIPE; }));
}

TEST_CASE("an end that neither sends nor receives resets the connection although it makes no call")
{
    Pair pair;
    vipl_stream_stop(pair.two);
    vipl_stream_finish(pair.two);
    CHECK(pair.one.receive(1).empty());
    pair.one.send("who reads this?");
    CHECK(eventually([&] { return (pair.one.events() & VIPL_STREAM_RESET) != 0; }));
    CHECK(pair.one.try_send("x") == -EPIPE);
    CHECK(vipl_stream_drain(0)); // it is open, and nothing is to be waited for
}

TEST_CASE("an end that neither sends nor receives is closed, and its peer takes the end")
{
    Pair pair;
    vipl_stream_stop(pair.two);
    vipl_stream_finish(pair.two);
    CHECK(vipl_stream_drain(0));
    pair.two.close();
    CHECK_FALSE(vipl_stream_drain(0));
    CHECK(pair.one.receive(1).empty());
    CHECK(vipl_stream_drain(static_cast<int>(vipl_test::patience())));
}

TEST_CASE("a writer whose peer does not read is refused, and goes on when the peer has read")
{
    Pair pair;
    const std::string text = pattern(4 * kWindow);
    size_t sent = 0;
    CHECK(eventually([&] { // sends complete on the way
        const long n = pair.one.try_send(text.substr(sent));
        sent += n > 0 ? static_cast<size_t>(n) : 0;
        return sent >= kWindow;
    }));
    CHECK(sent == kWindow);
    CHECK(pair.one.try_send("more") == -EAGAIN);
    CHECK((pair.one.events() & VIPL_STREAM_WRITABLE) == 0);
    auto rest = std::async(std::launch::async, [&] { pair.one.send(text.substr(sent)); });
    CHECK(pair.two.receive(text.size()) == text);
    rest.get();
}

TEST_CASE("both write what the window holds before they read, and neither stands still")
{
    Pair pair;
    const std::string there = pattern(kWindow, 1), back = pattern(kWindow, 2);
    pair.one.send(there);
    pair.two.send(back);
    CHECK(pair.two.receive(there.size()) == there);
    CHECK(pair.one.receive(back.size()) == back);
    pair.one.send("and on");
    CHECK(pair.two.receive(6) == "and on");
}

TEST_CASE("many small messages in one direction return their credits")
{
    Pair pair;
    auto writer = std::async(std::launch::async, [&] {
        for (int i = 0; i < 20000; i++) {
            pair.one.send(std::string(1, static_cast<char>(i)));
        }
    });
    const std::string got = pair.two.receive(20000);
    writer.get();
    bool right = got.size() == 20000;
    for (size_t i = 0; right && i < got.size(); i++) {
        right = got[i] == static_cast<char>(i);
    }
    CHECK(right);
}

TEST_CASE("bytes that wait for more come in one message with it")
{
    const auto first_message = [](const std::function<void(Stream &)> &rest) {
        Pair pair;
        pair.one.hold("head ");
        pair.one.hold("and ");
        rest(pair.one);
        must(pair.two.await(VIPL_STREAM_READABLE));
        return vipl_stream_pending(pair.two);
    };
    // A look of the thread comes between if this one stands still for long.
    CHECK(eventually([&] { return first_message([](Stream &s) { s.send("body"); }) == 13; }));
    CHECK(eventually([&] { return first_message([](Stream &s) { vipl_stream_push(s); }) == 9; }));
    CHECK(eventually([&] { return first_message([](Stream &s) { vipl_stream_finish(s); }) == 9; }));
    CHECK(eventually([&] { return first_message([](Stream &s) { s.close(); }) == 9; }));
    CHECK(
        eventually([&] { return first_message([](Stream &s) { must(vipl_stream_unsent(s) >= 9); }) == 9; }));
    CHECK(vipl_stream_drain(static_cast<int>(vipl_test::patience())));
}

TEST_CASE("bytes that wait for more keep their place, however many they are")
{
    Pair pair;
    const std::string text = pattern(3 * kWindow);
    auto reader = std::async(std::launch::async, [&] { return pair.two.receive(text.size() + 1); });
    for (size_t at = 0; at < text.size();) {
        const size_t part = std::min<size_t>(text.size() - at, 1 + at % 30011);
        vipl_iov piece = {const_cast<char *>(&text[at]), part};
        size_t sent = 0;
        const int rc = at % 3 == 0 ? vipl_stream_send(pair.one, &piece, 1, &sent)
                                   : vipl_stream_send_more(pair.one, &piece, 1, &sent);
        REQUIRE((rc == 0 || rc == EAGAIN));
        REQUIRE(pair.one.await(VIPL_STREAM_WRITABLE));
        at += sent;
    }
    vipl_stream_finish(pair.one);
    CHECK(reader.get() == text);
}

TEST_CASE("bytes that wait for more come before the end, also without a credit for them at first")
{
    Pair pair;
    const std::string text = pattern(kWindow);
    pair.one.hold("first ");
    for (size_t at = 0; at < text.size();) {
        const long n = pair.one.try_send(text.substr(at, 1000));
        if (n < 0) {
            break; // the window is full
        }
        at += static_cast<size_t>(n);
    }
    vipl_stream_finish(pair.one);
    CHECK(pair.two.receive(text.size() + 100).substr(0, 6) == "first ");
    CHECK((pair.two.events() & VIPL_STREAM_BROKEN) == 0);
}

TEST_CASE("the end of one direction comes after its bytes, and the other direction goes on")
{
    Pair pair;
    pair.one.send("last words");
    vipl_stream_finish(pair.one);
    CHECK(pair.one.try_send("x") == -EPIPE);
    CHECK(pair.two.receive(100) == "last words");
    const unsigned events = pair.two.events();
    CHECK((events & (VIPL_STREAM_ENDED | VIPL_STREAM_READABLE | VIPL_STREAM_WRITABLE)) ==
          (VIPL_STREAM_ENDED | VIPL_STREAM_READABLE | VIPL_STREAM_WRITABLE));
    CHECK((events & VIPL_STREAM_BROKEN) == 0);
    pair.two.send("an answer");
    CHECK(pair.one.receive(9) == "an answer");
    vipl_stream_finish(pair.two);
    CHECK(pair.one.receive(1).empty());
}

TEST_CASE("the end comes also when there is no credit for data")
{
    Pair pair;
    const std::string text = pattern(kWindow);
    pair.one.send(text);
    vipl_stream_finish(pair.one);
    CHECK(pair.two.receive(text.size() + 1) == text);
}

TEST_CASE("a stream that is closed delivers all it has sent, and its memory goes when it is taken")
{
    Pair pair;
    const std::string text = pattern(kWindow);
    pair.one.send(text);
    pair.one.close();
    CHECK(pair.two.receive(text.size() + 1) == text);
    CHECK(pair.two.await(VIPL_STREAM_ENDED));
    CHECK((pair.two.events() & VIPL_STREAM_BROKEN) == 0);
    CHECK(pair.two.try_send("x") == -EPIPE);
    CHECK(vipl_stream_drain(static_cast<int>(vipl_test::patience())));
}

TEST_CASE("data for a stream that has closed is thrown away, and the sender is told")
{
    Pair pair;
    pair.two.send("never read by its program, but on its way"); // not taken yet
    pair.one.close();
    int error = -1;
    CHECK(pair.two.receive(1, &error).empty());
    CHECK((error == 0 || error == ECONNRESET)); // which of the two was first
    CHECK(eventually([&] { return pair.two.try_send("more") == -(error == 0 ? EPIPE : ECONNRESET); }));
    CHECK(vipl_stream_drain(static_cast<int>(vipl_test::patience())));
}

TEST_CASE("a close with bytes that were not received is a reset")
{
    Pair pair;
    pair.two.send("unread");
    REQUIRE(pair.one.await(VIPL_STREAM_READABLE));
    pair.one.close();
    int error = 0;
    CHECK(pair.two.receive(1, &error).empty());
    CHECK(error == ECONNRESET);
    CHECK((pair.two.events() & VIPL_STREAM_BROKEN) != 0);
}

TEST_CASE("both close at the same time")
{
    Pair pair;
    pair.one.send("never received");
    pair.two.send("neither");
    auto other = std::async(std::launch::async, [&] { pair.two.close(); });
    pair.one.close();
    other.get();
    CHECK(vipl_stream_drain(static_cast<int>(vipl_test::patience())));
}

TEST_CASE("an abort ends the waits of this end and of the other one")
{
    Pair pair;
    std::future<void> own, peers;
    int own_error = 0, peers_error = 0;
    vipl_test::begin_call(own, [&] { pair.one.receive(1, &own_error); });
    vipl_test::begin_call(peers, [&] { pair.two.receive(1, &peers_error); });
    vipl_stream_abort(pair.one);
    own.get();
    peers.get();
    CHECK(own_error == ECONNABORTED);
    CHECK(peers_error == ECONNRESET);
}

TEST_CASE("a wait ends when another thread takes what came")
{
    Pair pair;
    std::future<void> waiter;
    bool woken = false;
    vipl_test::begin_call(waiter, [&] { woken = pair.two.await(VIPL_STREAM_READABLE); });
    pair.one.send("x");
    CHECK(eventually([&] { return (pair.two.events() & VIPL_STREAM_READABLE) != 0; }));
    waiter.get();
    CHECK(woken);
}

TEST_CASE("a wait ends at its deadline, and for the program's descriptors")
{
    Pair pair;
    CHECK(vipl_stream_wait(pair.two, VIPL_STREAM_READABLE, vipl_now_ns() + 20000000, nullptr) == ETIMEDOUT);
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    pollfd fd = {ends[0], POLLIN, 0};
    CHECK(vipl_stream_nic_wait(pair.there, &fd, 1, 1, nullptr) == ETIMEDOUT);
    REQUIRE(write(ends[1], "x", 1) == 1);
    CHECK(vipl_stream_nic_wait(pair.there, &fd, 1, -1, nullptr) == VIPL_POLL_OTHERS);
    CHECK(fd.revents == POLLIN);
    close(ends[0]);
    close(ends[1]);
}

TEST_CASE("a watch is notified of what comes, by whoever takes it")
{
    struct Counter : vipl_stream_watch {
        int calls = 0;
    } counter;
    counter.notify = [](vipl_stream_watch *watch) { static_cast<Counter *>(watch)->calls++; };
    Pair pair;
    vipl_stream_add_watch(pair.two, &counter);
    const uint32_t before = vipl_stream_arrivals(pair.two);
    pair.one.send("x");
    CHECK(eventually([&] {
        vipl_stream_nic_progress(pair.there);
        return counter.calls == 1;
    }));
    CHECK(vipl_stream_arrivals(pair.two) == before + 1);
    vipl_stream_remove_watch(pair.two, &counter);
    pair.one.send("y");
    CHECK(pair.two.receive(2) == "xy");
    CHECK(counter.calls == 1);
}

TEST_CASE("the device's descriptor is readable while a stream has something to take")
{
    Pair pair;
    pollfd fd = {-1, POLLIN, 0};
    REQUIRE(vipl_stream_nic_fd(pair.there, &fd.fd) == 0);
    CHECK(poll(&fd, 1, 0) == 0);
    pair.one.send("x");
    CHECK(poll(&fd, 1, static_cast<int>(vipl_test::patience())) == 1);
    CHECK(pair.two.receive(1) == "x");
    CHECK(poll(&fd, 1, 0) == 0);
}

TEST_CASE("offered memory is read as the next bytes of the stream")
{
    Pair pair;
    const std::string text = pattern(3 << 20);
    pair.one.send("before");
    REQUIRE(vipl_stream_offer_begin(pair.one, text.data(), text.size()) == 0);
    CHECK(vipl_stream_offer_begin(pair.one, text.data(), text.size()) == EAGAIN);
    CHECK(pair.one.try_send("x") == -EAGAIN);
    CHECK((pair.one.events() & VIPL_STREAM_OFFERING) != 0);
    CHECK(pair.two.receive(6) == "before");
    auto reader = std::async(std::launch::async, [&] { return pair.two.receive(text.size()); });
    CHECK(pair.one.await(VIPL_STREAM_OFFERING)); // until it is over
    CHECK(vipl_stream_offer_end(pair.one) == 0);
    CHECK(reader.get() == text);
    pair.one.send("after");
    CHECK(pair.two.receive(5) == "after");
}

TEST_CASE("an offer that is ended before it was read resets the stream")
{
    Pair pair;
    const std::string text = pattern(100000);
    REQUIRE(vipl_stream_offer_begin(pair.one, text.data(), text.size()) == 0);
    CHECK(vipl_stream_offer_end(pair.one) == ECONNRESET);
    int error = 0;
    const std::string got = pair.two.receive(text.size(), &error);
    CHECK(error == ECONNRESET);
    CHECK(got.size() < text.size());
}

TEST_CASE("many streams of one device, and many that come and go")
{
    Device here, there;
    for (int round = 0; round < 3; round++) {
        std::vector<std::unique_ptr<Stream>> ones, twos;
        for (int i = 0; i < 50; i++) {
            ones.emplace_back(new Stream(here));
            twos.emplace_back(new Stream(there));
            connect(here, vipl_stream_vi(*ones.back()), there, vipl_stream_vi(*twos.back()));
            vipl_stream_begin(*ones.back(), vipl_stream_own_window());
            vipl_stream_begin(*twos.back(), vipl_stream_own_window());
        }
        for (size_t i = 0; i < ones.size(); i++) {
            ones[i]->send(std::to_string(i));
        }
        for (size_t i = ones.size(); i-- > 0;) {
            CHECK(twos[i]->receive(std::to_string(i).size()) == std::to_string(i));
        }
    }
    CHECK(vipl_stream_drain(static_cast<int>(vipl_test::patience())));
}
