// SPDX-License-Identifier: MIT
//
// Objects that are moved, assigned, swapped, closed twice, or ended in any order, while a peer
// writes to the memory that is registered; and memory that the device does not give back. The
// program is linked so that VipDeregisterMem() and VipCloseNic() come here first (-Wl,--wrap): a
// device refuses when a case says so.
#include "pair.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

using namespace cpp;

extern "C" {
VIP_RETURN VI_CALL __real_VipDeregisterMem(VIP_NIC_HANDLE nic, VIP_PVOID at, VIP_MEM_HANDLE handle);
VIP_RETURN VI_CALL __wrap_VipDeregisterMem(VIP_NIC_HANDLE nic, VIP_PVOID at, VIP_MEM_HANDLE handle);
VIP_RETURN VI_CALL __real_VipCloseNic(VIP_NIC_HANDLE nic);
VIP_RETURN VI_CALL __wrap_VipCloseNic(VIP_NIC_HANDLE nic);
}

namespace {

template <class... T>
constexpr bool all_move = (... && (std::is_nothrow_move_constructible_v<T> &&
                                   std::is_nothrow_move_assignable_v<T> && std::is_nothrow_swappable_v<T> &&
                                   !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>));
static_assert(all_move<vipl::nic, vipl::vi, vipl::cq, vipl::region, vipl::messages, vipl::shared_memory,
                       vipl::request>);

std::atomic<bool> refusing{false};
std::atomic<unsigned> refusals{0};

/** While it lives, a peer is in the middle of an RDMA operation on whatever is registered for
 * RDMA. */
struct Refusing {
    Refusing()
    {
        refusals = 0;
        refusing = true;
    }
    ~Refusing() { refusing = false; }
};

vipl::nic open_nic()
{
    return vipl::nic(vipl_test::device_under_test());
}

vipl::vi_options writable()
{
    vipl::vi_options options;
    options.rdma_write = true;
    return options;
}

/** The VI `client` of a pair writes to the memory of the other end, again and again, until it is
 * stopped or fails. */
class Writer {
public:
    Writer(Pair &pair, const vipl::remote_memory &to)
        : out_(pair.messages(1, 8)), thread_([this, &pair, to] { run(pair.client, to); })
    {
        wait_for(1);
    }
    ~Writer() { stop(); }

    /** It writes that often, from now on. */
    void wait_for(unsigned more)
    {
        const unsigned from = writes_;
        const unsigned long long end = vipl_test::now_ms() + vipl_test::patience();
        for (unsigned turn = 0; writes_ - from < more && !failed_; ++turn) {
            REQUIRE(vipl_test::now_ms() < end);
            vipl_test::give_way(turn);
        }
    }
    void stop()
    {
        stopped_ = true;
        if (thread_.joinable()) {
            thread_.join();
        }
    }
    /** One of the next writes fails, because the memory is not there for it any more. */
    bool fails()
    {
        wait_for(10);
        stop();
        return failed_;
    }
    bool goes_on()
    {
        wait_for(10);
        return !failed_;
    }

private:
    void run(vipl::vi &vi, const vipl::remote_memory &to)
    {
        std::memset(out_.bytes(0).data, 'w', 8);
        while (!stopped_ && !failed_) {
            std::error_code error;
            vi.post_send(vipl::work(out_.descriptor(0)).rdma_write(to).local(out_.bytes(0)),
                         out_.region().handle(), error);
            const vipl::completion done = error ? vipl::completion() : vi.wait_send(patience(), error);
            failed_ = !done || !done.good();
            writes_ += failed_ ? 0 : 1;
        }
    }

    std::atomic<bool> stopped_{false}, failed_{false};
    std::atomic<unsigned> writes_{0};
    vipl::messages &out_;
    std::thread thread_;
};

/** Where a peer writes: behind the first descriptor. */
vipl::remote_memory target(const vipl::messages &of)
{
    return of.region().remote().part(sizeof(VIP_DESCRIPTOR));
}

bool is_registered(const vipl::nic &nic, void *at, VIP_MEM_HANDLE handle)
{
    VIP_MEM_ATTRIBUTES attributes;
    return VipQueryMem(nic.handle(), at, handle, &attributes) == VIP_SUCCESS;
}

/** Memory that says when it is freed. */
class Bytes {
public:
    explicit Bytes(bool &freed) : bytes_(64), freed_(&freed) {}
    Bytes(Bytes &&other) noexcept
        : bytes_(std::move(other.bytes_)), freed_(std::exchange(other.freed_, nullptr))
    {
    }
    ~Bytes()
    {
        if (freed_ != nullptr) {
            *freed_ = true;
        }
    }
    char *data() { return bytes_.data(); }
    std::size_t size() const { return bytes_.size(); }

private:
    std::vector<char> bytes_;
    bool *freed_;
};

void exchange(vipl::messages &a, vipl::messages &b)
{
    std::swap(a, b);
}

template <class T>
void assign_itself(T &it)
{
    T &same = it;
    it = std::move(same);
}

} // namespace

VIP_RETURN VI_CALL __wrap_VipDeregisterMem(VIP_NIC_HANDLE nic, VIP_PVOID at, VIP_MEM_HANDLE handle)
{
    VIP_MEM_ATTRIBUTES attributes;
    if (refusing && VipQueryMem(nic, at, handle, &attributes) == VIP_SUCCESS &&
        (attributes.EnableRdmaWrite != VIP_FALSE || attributes.EnableRdmaRead != VIP_FALSE)) {
        refusals++;
        return VIP_ERROR_RESOURCE;
    }
    return __real_VipDeregisterMem(nic, at, handle);
}

VIP_RETURN VI_CALL __wrap_VipCloseNic(VIP_NIC_HANDLE nic)
{
    return refusing ? VIP_ERROR_RESOURCE : __real_VipCloseNic(nic);
}

/* --- assignment --- */

TEST_CASE("an assignment to messages ends the registration before the memory, while a peer writes there")
{
    Pair pair(writable());
    vipl::messages a(pair.nic, 4, 100, vipl::access::rdma_write), b(pair.nic, 8, 200);
    void *const at = a.region().data();
    const VIP_MEM_HANDLE handle = a.region().handle(), other = b.region().handle();
    Writer writer(pair, target(a));
    a = std::move(b);
    CHECK_FALSE(is_registered(pair.nic, at, handle));
    CHECK(writer.fails());
    CHECK(a.size() == 8);
    CHECK(a.region().handle() == other);
    CHECK(a.bytes(7).size == 200);
    std::memset(a.bytes(7).data, 1, 200);
    CHECK(b.size() == 0);
    CHECK(b.region().handle() == 0);
}

TEST_CASE(
    "an assignment to a region ends its registration, and the memory that it owns, while a peer writes there")
{
    Pair pair(writable());
    bool freed = false;
    vipl::region region(pair.nic, Bytes(freed), vipl::access::rdma);
    CHECK_FALSE(freed);
    CHECK(region.size() == 64);
    Writer writer(pair, region.remote());
    region = vipl::region();
    CHECK(freed);
    CHECK(writer.fails());
    CHECK(region.handle() == 0);
    CHECK(region.data() == nullptr);
    CHECK(pair.nic.statistics().Regions == 1); // the writer's
}

TEST_CASE("what is assigned to itself, or swapped, stays registered, and a peer writes on")
{
    Pair pair(writable());
    vipl::messages a(pair.nic, 4, 100, vipl::access::rdma_write), b(pair.nic, 8, 200);
    const VIP_MEM_HANDLE handle = a.region().handle();
    Writer writer(pair, target(a));
    assign_itself(a);
    CHECK(a.region().handle() == handle);
    CHECK(a.size() == 4);
    CHECK(writer.goes_on());
    exchange(a, b);
    CHECK(b.region().handle() == handle);
    CHECK(b.size() == 4);
    CHECK(a.size() == 8);
    CHECK(a.bytes(0).size == 200);
    CHECK(writer.goes_on());
    vipl::messages c(std::move(b));
    CHECK(b.size() == 0);
    CHECK(writer.goes_on());
    writer.stop();
    CHECK(std::memcmp(c.bytes(0).data, "wwwwwwww", 8) == 0);
}

TEST_CASE("an assignment ends what a VI, a completion queue and a device had")
{
    vipl::nic nic = open_nic();
    {
        vipl::vi vi(nic, {}, nullptr, nullptr);
        vi = vipl::vi(nic);
        assign_itself(vi);
        CHECK(vi.state() == VIP_STATE_IDLE);
        vipl::cq cq(nic, 4);
        cq = vipl::cq(nic, 8);
        assign_itself(cq);
        CHECK_FALSE(cq.done().has_value());
        CHECK(nic.statistics().Vis == 1);
        CHECK(nic.statistics().CompletionQueues == 1);
        vipl::cq other(nic, 4);
        std::swap(cq, other);
        vipl::vi with(nic, {}, &cq, &other);
        with = std::move(vi); // the VI ends before the completion queues that it alone has
        CHECK(vi.handle() == nullptr);
        cq = vipl::cq(std::move(other));
        CHECK(nic.statistics().CompletionQueues == 1);
        CHECK(nic.statistics().Vis == 1);
    }
    CHECK(nic.statistics().Vis == 0);
    CHECK(nic.statistics().CompletionQueues == 0);
    vipl::nic other = open_nic();
    const VIP_NIC_HANDLE old = nic.handle();
    nic = std::move(other);
    VIP_NIC_ATTRIBUTES attributes;
    CHECK(VipQueryNic(old, &attributes) == VIP_INVALID_PARAMETER);
    CHECK(other.handle() == nullptr);
    assign_itself(nic);
    CHECK(VipQueryNic(nic.handle(), &attributes) == VIP_SUCCESS);
}

TEST_CASE("shared memory that was moved or closed is empty, and what an assignment replaces is given back",
          "[sharing]")
{
    vipl::shared_memory a(1 << 16), b(1 << 20);
    void *const first = a.data(), *const second = b.data();
    a = std::move(b);
    CHECK(a.data() == second);
    CHECK(a.size() == 1 << 20);
    CHECK(b.data() == nullptr);
    CHECK(b.size() == 0);
    CHECK(VipxFreeShared(first) == VIP_INVALID_PARAMETER); // it was given back
    assign_itself(a);
    CHECK(a.data() == second);
    vipl::shared_memory c(std::move(a));
    CHECK(a.data() == nullptr);
    CHECK(a.size() == 0);
    std::swap(a, c);
    CHECK(a.data() == second);
    CHECK(a.size() == 1 << 20);
    CHECK(c.size() == 0);
    a.close();
    a.close();
    CHECK(a.size() == 0);
    CHECK(VipxFreeShared(second) == VIP_INVALID_PARAMETER);
}

/* --- memory of the device --- */

TEST_CASE("a device without memory of its own is an error, and the object is empty")
{
    const vipl::nic nic = open_nic();
    if (vipl_test::device_is_rnic()) {
        return;
    }
    std::error_code error;
    vipl::device_memory none(nic, 64, VIPX_DEVICE_DRAM, error);
    CHECK(error == vipl::errc::not_supported);
    CHECK(none.data() == nullptr);
    CHECK(none.size() == 0);
    CHECK_THROWS_AS(vipl::device_memory(nic, 64), std::system_error);
}

TEST_CASE("device memory is freed by an end or an assignment, and not while a region has it")
{
    if (!vipl_test::device_is_rnic()) {
        return;
    }
    const vipl::nic nic = open_nic();
    vipl::device_memory a(nic, 100), b(nic, 4096, VIPX_DEVICE_SRAM);
    void *const first = a.data(), *const second = b.data();
    CHECK(a.size() == 100);
    a = std::move(b);
    CHECK(a.data() == second);
    CHECK(b.data() == nullptr);
    CHECK(VipxFreeDevice(nic.handle(), first) == VIP_INVALID_PARAMETER); // it was freed
    assign_itself(a);
    CHECK(a.data() == second);
    vipl::region region(nic, a, vipl::access::rdma);
    CHECK(region.remote().size == 4096);
    a.close();
    a.close();
    CHECK(a.size() == 0);
    CHECK(VipxFreeDevice(nic.handle(), second) == VIP_ERROR_RESOURCE); // it is the region's
    region.close();
    CHECK(VipxFreeDevice(nic.handle(), second) == VIP_INVALID_PARAMETER); // and now it is freed
}

TEST_CASE("device memory that outlives its nic ends without harm")
{
    if (!vipl_test::device_is_rnic()) {
        return;
    }
    std::optional<vipl::nic> nic(open_nic());
    vipl::device_memory memory(*nic, 64);
    nic.reset();
    memory.close();
    CHECK(memory.data() == nullptr);
}

/* --- the order of ends --- */

TEST_CASE("shared memory outlives its object while a region has it, and a peer writes there", "[sharing]")
{
    Pair pair(writable());
    vipl::shared_memory memory(4096);
    void *const at = memory.data();
    vipl::region region(pair.nic, memory, vipl::access::rdma);
    Writer writer(pair, region.remote());
    memory.close();
    CHECK(memory.data() == nullptr);
    const vipl::shared_memory other(4096); // which would otherwise be in the same place
    CHECK(other.data() != at);
    CHECK(writer.goes_on());
    region.close();
    CHECK(writer.fails());
    CHECK(VipxFreeShared(at) == VIP_INVALID_PARAMETER); // and now it is given back
}

TEST_CASE("a completion queue that ends before its VI is destroyed after it")
{
    const vipl::nic nic = open_nic();
    std::optional<vipl::cq> cq(std::in_place, nic, 16);
    const VIP_CQ_HANDLE handle = cq->handle();
    std::optional<vipl::vi> one(std::in_place, nic, vipl::vi_options(), &*cq, nullptr);
    std::optional<vipl::vi> two(std::in_place, nic, vipl::vi_options(), nullptr, &*cq);
    cq.reset();
    CHECK(nic.statistics().CompletionQueues == 1);
    one.reset();
    CHECK(nic.statistics().CompletionQueues == 1);
    two->close();
    CHECK(nic.statistics().CompletionQueues == 0);
    CHECK(VipDestroyCQ(handle) == VIP_INVALID_PARAMETER);
}

TEST_CASE("messages may end before a VI to whose queues they are no longer posted")
{
    Pair pair;
    std::optional<vipl::messages> in(std::in_place, pair.nic, 1, 64);
    vipl::messages &out = pair.messages(1, 64);
    pair.server.post_receive(vipl::work(in->descriptor(0)).local(in->bytes(0)), in->region().handle());
    pair.client.post_send(vipl::work(out.descriptor(0)).local(out.bytes(0)), out.region().handle());
    REQUIRE(pair.server.wait_receive(patience()));
    in.reset();
    REQUIRE(pair.client.wait_send(patience()));
    CHECK(pair.server.state() == VIP_STATE_CONNECTED);
}

TEST_CASE("what is posted is complete once its VI is closed")
{
    Pair pair;
    vipl::messages &in = pair.messages(2, 64);
    pair.server.post_receive(vipl::work(in.descriptor(0)).local(in.bytes(0)), in.region().handle());
    pair.server.close();
    CHECK((in.descriptor(0)->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR) != 0);
    pair.server.close();
    std::error_code error;
    pair.server.post_receive(vipl::work(in.descriptor(1)).local(in.bytes(1)), in.region().handle(), error);
    CHECK(error == vipl::errc::invalid_parameter);
}

TEST_CASE("a device that closes before what was made with it leaves objects that end without harm")
{
    vipl::nic peer = open_nic();
    std::optional<vipl::nic> nic(std::in_place, vipl_test::device_under_test());
    const vipl::address at = nic->local(vipl_test::unique_discriminator());
    bool freed = false;
    std::vector<char> lent(64);
    vipl::messages messages(*nic, 4, 100, vipl::access::rdma_write);
    vipl::region region(*nic, lent, vipl::access::rdma), owner(*nic, Bytes(freed), vipl::access::rdma);
    vipl::cq cq(*nic, 16);
    vipl::vi vi(*nic, writable()), with_cq(*nic, {}, &cq, &cq), client(peer, writable()), asking(peer);
    std::optional<vipl::request> request;
    auto accepted = std::async(std::launch::async, [&] { nic->wait(at, patience())->accept(vi); });
    client.connect(peer.local("client"), at, patience());
    accepted.get();
    auto asked = std::async(std::launch::async, [&] {
        std::error_code error;
        asking.connect(peer.local("asking"), at, patience(), error);
        return error;
    });
    request = nic->wait(at, patience());
    REQUIRE(request.has_value());

    nic.reset();
    CHECK(asked.get());
    CHECK_FALSE(freed); // the program may still use the memory
    std::memset(owner.data(), 1, owner.size());
    std::memset(messages.bytes(3).data, 1, 100);
    std::error_code error;
    vi.post_receive(vipl::work(messages.descriptor(0)).local(messages.bytes(0)), messages.region().handle(),
                    error);
    CHECK(error == vipl::errc::invalid_parameter);
    cq.done(error);
    CHECK(error == vipl::errc::invalid_parameter);
    request->accept(vi, error);
    CHECK(error == vipl::errc::invalid_parameter);
    request->reject();
    request.reset();
    cq.close();
    with_cq.close();
    vi = std::move(with_cq);
    region.close();
    owner.close();
    CHECK(freed);
    messages = vipl::messages(peer, 1, 8);
    CHECK(peer.statistics().Regions == 1);
}

TEST_CASE("an exception in the middle of a set-up leaves nothing")
{
    const vipl::nic nic = open_nic();
    bool freed = false;
    try {
        const vipl::messages messages(nic, 4, 64);
        const vipl::region owner(nic, Bytes(freed));
        const vipl::cq cq(nic, 16);
        const vipl::vi vi(nic, {}, &cq, &cq);
        const vipl::region none(nic, vipl::buffer()); // no memory at all
        FAIL("nothing was thrown");
    } catch (const std::system_error &caught) {
        CHECK(caught.code() == vipl::errc::invalid_parameter);
    }
    CHECK(freed);
    CHECK(nic.statistics().Regions == 0);
    CHECK(nic.statistics().CompletionQueues == 0);
    CHECK(nic.statistics().Vis == 0);
}

TEST_CASE("a registration that fails leaves an empty object, and frees what it was to own")
{
    vipl::nic closed = open_nic();
    closed.close();
    bool freed = false;
    std::error_code error;
    const vipl::region owner(closed, Bytes(freed), vipl::access::local, error);
    CHECK(error == vipl::errc::invalid_parameter);
    CHECK(freed);
    CHECK(owner.data() == nullptr);
    CHECK(owner.size() == 0);
    std::vector<char> lent(10);
    const vipl::region region(closed, lent, vipl::access::local, error);
    CHECK(error == vipl::errc::invalid_parameter);
    CHECK(region.data() == nullptr);
    CHECK(region.part(0).size == 0);
    const vipl::messages messages(closed, 4, 64, vipl::access::local, error);
    CHECK(error == vipl::errc::invalid_parameter);
    CHECK(messages.size() == 0);
}

TEST_CASE("more messages than there can be are an error, and not a few")
{
    const vipl::nic nic = open_nic();
    const std::size_t most = static_cast<std::size_t>(-1);
    std::error_code error;
    const vipl::messages many(nic, most / sizeof(VIP_DESCRIPTOR), 1, vipl::access::local, error);
    CHECK(error == vipl::errc::invalid_parameter);
    const vipl::messages large(nic, 1, most, vipl::access::local, error);
    CHECK(error == vipl::errc::invalid_parameter);
    CHECK_THROWS_AS(vipl::messages(nic, most / 128, 64), std::system_error);
}

/* --- empty objects --- */

TEST_CASE("what was moved from or closed is empty: its functions fail, and it closes again and takes another "
          "one's place")
{
    vipl::nic nic = open_nic();
    vipl::messages messages(nic, 1, 64), used(std::move(messages));
    vipl::vi vi(nic), moved_vi(std::move(vi));
    vipl::cq cq(nic, 4), moved_cq(std::move(cq));
    std::error_code error;
    CHECK(vi.handle() == nullptr);
    vi.post_receive(vipl::work(used.descriptor(0)).local(used.bytes(0)), used.region().handle(), error);
    CHECK(error == vipl::errc::invalid_parameter);
    vi.wait_send(patience(), error);
    CHECK(error == vipl::errc::invalid_parameter);
    vi.connect(nic.local("a"), nic.local("b"), patience(), error);
    CHECK(error == vipl::errc::invalid_parameter);
    CHECK_THROWS_AS(vi.state(), std::system_error);
    CHECK_THROWS_AS(vi.send_fd(), std::system_error);
    vi.disconnect();
    vi.close();
    cq.wait(patience(), error);
    CHECK(error == vipl::errc::invalid_parameter);
    CHECK_THROWS_AS(cq.fd(), std::system_error);
    cq.close();
    const vipl::vi without(nic, {}, &cq, nullptr, error); // not one without a completion queue
    CHECK(error == vipl::errc::invalid_parameter);
    CHECK(without.handle() == nullptr);
    messages.close();
    messages.close(error);
    CHECK_FALSE(error);
    CHECK(messages.size() == 0);
    CHECK(messages.region().handle() == 0);
    vi = std::move(moved_vi);
    CHECK(vi.state() == VIP_STATE_IDLE);
    cq = std::move(moved_cq);
    CHECK_FALSE(cq.done().has_value());
    messages = std::move(used);
    CHECK(messages.size() == 1);
}

TEST_CASE("a device that is closed twice, or was closed by its handle, is closed")
{
    vipl::nic nic = open_nic();
    nic.close();
    CHECK(nic.handle() == nullptr);
    nic.close();
    CHECK_THROWS_AS(nic.attributes(), std::system_error);
    std::error_code error;
    CHECK_FALSE(nic.wait({}, patience(), error).has_value());
    CHECK(error == vipl::errc::invalid_parameter);
    nic = open_nic();
    REQUIRE(VipCloseNic(nic.handle()) == VIP_SUCCESS);
    nic.close(error);
    CHECK_FALSE(error);
    CHECK(nic.handle() == nullptr);
}

TEST_CASE("a request that was answered, or moved, answers no more")
{
    const vipl::nic nic = open_nic();
    vipl::vi client(nic), server(nic), other(nic);
    const vipl::address at = nic.local(vipl_test::unique_discriminator());
    auto asked = std::async(std::launch::async, [&] { client.connect(nic.local("a"), at, patience()); });
    auto request = nic.wait(at, patience());
    REQUIRE(request.has_value());
    vipl::request moved(std::move(*request));
    request->reject();
    std::error_code error;
    request->accept(other, error);
    CHECK(error == vipl::errc::invalid_parameter);
    assign_itself(moved);
    moved.accept(server);
    moved.reject();
    moved.accept(other, error);
    CHECK(error == vipl::errc::invalid_parameter);
    asked.get();
    CHECK(client.state() == VIP_STATE_CONNECTED);
    CHECK(other.state() == VIP_STATE_IDLE);
}

TEST_CASE("in a child that was forked, objects of the parent end without harm and give their memory back")
{
    vipl::nic nic = open_nic();
    bool freed = false;
    vipl::region owner(nic, Bytes(freed), vipl::access::rdma);
    const pid_t child = fork();
    if (child == 0) {
        std::error_code region_error, nic_error;
        owner.close(region_error);
        nic.close(nic_error);
        _exit(!region_error && !nic_error && freed ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(nic.statistics().Regions == 1);
}

/* --- memory that is not given back --- */

TEST_CASE("close() says when memory is not given back, and nothing has changed")
{
    Pair pair(writable());
    bool freed = false;
    vipl::region region(pair.nic, Bytes(freed), vipl::access::rdma);
    vipl::messages messages(pair.nic, 2, 64, vipl::access::rdma_write);
    Writer writer(pair, region.remote());
    std::error_code error;
    {
        const Refusing now;
        region.close(error);
        CHECK(error == vipl::errc::resource);
        CHECK_THROWS_AS(messages.close(), std::system_error);
        CHECK(messages.size() == 2);
    }
    CHECK_FALSE(freed);
    CHECK(region.size() == 64);
    CHECK(is_registered(pair.nic, region.data(), region.handle()));
    CHECK(writer.goes_on());
    region.close(error);
    CHECK_FALSE(error);
    CHECK(freed);
    CHECK(writer.fails());
    messages.close();
    CHECK(pair.nic.statistics().Regions == 1); // the writer's
}

TEST_CASE(
    "memory that is not given back is kept while a peer writes there, until a later end finds that it can go")
{
    Pair pair(writable());
    bool freed = false, other_freed = false;
    std::optional<vipl::region> region(std::in_place, pair.nic, Bytes(freed), vipl::access::rdma);
    std::optional<vipl::region> other(std::in_place, pair.nic, Bytes(other_freed), vipl::access::rdma);
    vipl::region local(pair.nic, std::vector<char>(10)), last(pair.nic, std::vector<char>(10));
    Writer writer(pair, region->remote());
    {
        const Refusing now;
        region.reset();
        *other = vipl::region();
        CHECK(refusals == 2);
        CHECK(pair.nic.statistics().Regions == 5);
        CHECK(writer.goes_on());
        local.close();        // which no peer can hold up
        CHECK(refusals == 3); // one look is enough
        CHECK(pair.nic.statistics().Regions == 4);
        CHECK(writer.goes_on());
    }
    CHECK_FALSE(freed);
    CHECK_FALSE(other_freed);
    vipl::nic another = open_nic();
    vipl::region(another, std::vector<char>(10)).close(); // of another NIC handle: it says nothing of these
    CHECK_FALSE(freed);
    last.close();
    CHECK(freed);
    CHECK(other_freed);
    CHECK(writer.fails());
    CHECK(pair.nic.statistics().Regions == 1); // the writer's
}

TEST_CASE(
    "messages that are not given back are kept while a peer writes there, also when others take their place")
{
    Pair pair(writable());
    vipl::messages messages(pair.nic, 4, 100, vipl::access::rdma_write);
    void *const at = messages.region().data();
    const VIP_MEM_HANDLE handle = messages.region().handle();
    Writer writer(pair, target(messages));
    {
        const Refusing now;
        messages = vipl::messages(pair.nic, 2, 50);
    }
    CHECK(messages.size() == 2);
    CHECK(is_registered(pair.nic, at, handle));
    CHECK(writer.goes_on());
    writer.stop();
    CHECK(std::memcmp(static_cast<char *>(at) + sizeof(VIP_DESCRIPTOR), "wwwwwwww", 8) == 0);
    messages.close();
    CHECK_FALSE(is_registered(pair.nic, at, handle));
}

TEST_CASE("memory of the program's that cannot be given back stays registered until a later end finds that "
          "it can go")
{
    const vipl::nic nic = open_nic();
    std::vector<char> lent(64);
    vipl::region last(nic, std::vector<char>(10));
    VIP_MEM_HANDLE handle = 0;
    {
        const Refusing now;
        const vipl::region region(nic, lent, vipl::access::rdma);
        handle = region.handle();
    }
    CHECK(is_registered(nic, lent.data(), handle));
    last.close();
    CHECK_FALSE(is_registered(nic, lent.data(), handle));
}

TEST_CASE("the end of a device frees what could not be given back")
{
    bool freed = false;
    std::optional<vipl::nic> nic(std::in_place, vipl_test::device_under_test());
    {
        const Refusing now;
        const vipl::region region(*nic, Bytes(freed), vipl::access::rdma);
    }
    CHECK_FALSE(freed);
    nic.reset();
    CHECK(freed);
}

TEST_CASE("a device that cannot be closed says so, is open as before, and keeps the memory")
{
    static bool freed; // the memory is kept to the end of the program
    vipl::nic nic = open_nic();
    VIP_NIC_HANDLE left = nullptr;
    {
        const Refusing now;
        std::optional<vipl::region> region(std::in_place, nic, Bytes(freed), vipl::access::rdma);
        region.reset();
        std::error_code error;
        nic.close(error);
        CHECK(error == vipl::errc::resource);
        CHECK_THROWS_AS(nic.close(), std::system_error);
        CHECK(nic.statistics().Regions == 1);
        left = nic.handle();
        vipl::nic ended(std::move(nic)); // its destructor leaves it open
    }
    CHECK_FALSE(freed);
    VIP_NIC_ATTRIBUTES attributes;
    CHECK(VipQueryNic(left, &attributes) == VIP_SUCCESS);
    REQUIRE(VipCloseNic(left) == VIP_SUCCESS);
}
