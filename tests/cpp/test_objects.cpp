// SPDX-License-Identifier: MIT
//
// What the C++ objects are: moved, not copied; ended in their destructor; errors as
// std::error_code.
#include "pair.hpp"

#include <cstring>

#include "support/setting.hpp"

using namespace cpp;

namespace {

template <class T>
constexpr bool is_owner = std::is_nothrow_move_constructible_v<T> &&std::is_nothrow_move_assignable_v<T> &&
                          !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>;

static_assert(is_owner<vipl::nic> && is_owner<vipl::vi> && is_owner<vipl::cq> && is_owner<vipl::region> &&
              is_owner<vipl::cached_region> && is_owner<vipl::shared_memory> && is_owner<vipl::request>);
static_assert(std::is_copy_constructible_v<vipl::address>);
static_assert(std::is_error_code_enum_v<vipl::errc>);

const char *device()
{
    return vipl_test::device_under_test();
}

} // namespace

TEST_CASE("an error code names itself, has a sentence, and compares with errc")
{
    const std::error_code code = vipl::to_error_code(VIP_TIMEOUT);
    CHECK(code == vipl::errc::timeout);
    CHECK(code != vipl::errc::reject);
    CHECK(code.message() == std::string("VIP_TIMEOUT: ") + VipxExplainError(VIP_TIMEOUT));
    CHECK(code.category().name() == std::string("vipl"));
    CHECK_FALSE(vipl::to_error_code(VIP_SUCCESS));
    const std::error_code other = vipl::errc::no_match;
    CHECK(other.value() == VIP_NO_MATCH);
}

TEST_CASE("a device that is not there is an error, thrown or set")
{
    std::error_code error;
    const vipl::nic none("nowhere", 0, error);
    CHECK(error == vipl::errc::resource);
    CHECK(none.handle() == nullptr);
    try {
        const vipl::nic thrown("nowhere");
        FAIL("nothing was thrown");
    } catch (const std::system_error &caught) {
        CHECK(caught.code() == vipl::errc::resource);
        CHECK(std::strstr(caught.what(), "opening a device") != nullptr);
    }
}

TEST_CASE("what is moved from ends nothing, and what is moved to ends once")
{
    vipl::nic first(device());
    const VIP_NIC_HANDLE handle = first.handle();
    {
        vipl::nic second(std::move(first));
        CHECK(first.handle() == nullptr);
        CHECK(second.handle() == handle);
        CHECK(second.attributes().MaxTransferSize > 0);
    }
    VIP_NIC_ATTRIBUTES attributes;
    CHECK(VipQueryNic(handle, &attributes) == VIP_INVALID_PARAMETER); // it is closed
    vipl::nic third(device());
    third = vipl::nic(device()); // the old one is closed
    CHECK(third.attributes().MaxVI > 0);
}

TEST_CASE("VIs, completion queues and regions are gone after their destructors")
{
    const vipl::nic nic(device());
    std::vector<char> bytes(1000);
    {
        const vipl::cq cq(nic, 16);
        const vipl::vi vi(nic, {}, &cq, &cq);
        const vipl::region region(nic, bytes);
        const VIPX_NIC_STATISTICS now = nic.statistics();
        CHECK(now.Vis == 1);
        CHECK(now.CompletionQueues == 1);
        CHECK(now.Regions == 1);
        CHECK(now.RegisteredBytes == bytes.size());
    }
    const VIPX_NIC_STATISTICS now = nic.statistics();
    CHECK(now.Vis == 0);
    CHECK(now.CompletionQueues == 0);
    CHECK(now.Regions == 0);
}

TEST_CASE("a cached region is released by its destructor, once, and found again")
{
    const vipl_test::EnvironmentSetting progress("VIPL_PROGRESS", "auto");
    const vipl::nic nic(device());
    std::vector<char> bytes(100000);
    VIP_MEM_HANDLE handle = 0;
    {
        vipl::cached_region first(nic, bytes, vipl::access::rdma);
        handle = first.handle();
        CHECK(first.data() == bytes.data());
        CHECK(first.part(10).size == bytes.size() - 10);
        CHECK(first.remote().handle == handle);
        vipl::cached_region second(std::move(first));
        CHECK(first.handle() == 0); // NOLINT: that is what is tested
        CHECK(second.handle() == handle);
        first = vipl::cached_region(nic, bytes, vipl::access::rdma);
        nic.forget(bytes);
        CHECK(nic.statistics().Regions >= 1); // in use
        second.close();
        second.close();
    }
    CHECK(nic.statistics().Regions == 0);
    const VIPX_CACHE_STATISTICS before = nic.cache_statistics();
    const bool is_off = before.NotCachedOff > 0;
    handle = vipl::cached_region(nic, bytes).handle();
    CHECK((vipl::cached_region(nic, bytes).handle() == handle || is_off));
    CHECK(nic.cache_statistics().Hits == before.Hits + (is_off ? 0 : 1));
    std::error_code error;
    const vipl::cached_region none(nic, vipl::buffer(nullptr, 10), vipl::access::local, 0, error);
    CHECK(error == vipl::errc::invalid_parameter);
    CHECK((none.handle() == 0 && none.size() == 0));
    CHECK_THROWS_AS(vipl::cached_region(nic, bytes, vipl::access::local, 1u << 31), std::system_error);
}

TEST_CASE("the destructor of a connected VI disconnects it")
{
    Pair pair;
    {
        const vipl::vi gone(std::move(pair.client));
    }
    vipl::messages &messages = pair.messages(1, 64);
    std::error_code error;
    VIP_VI_STATE state = VIP_STATE_CONNECTED;
    pair.server.post_receive(vipl::work(messages.descriptor(0)).local(messages.bytes(0)),
                             messages.region().handle(), error);
    const vipl::completion done = pair.server.wait_receive(patience(), error); // flushed, or refused
    state = pair.server.state();
    CHECK(state == VIP_STATE_ERROR);
    CHECK((!done || !done.good()));
}

TEST_CASE("an address is a host and a name")
{
    const vipl::address one("\x7f\0\0\1\0\0", "x");
    const vipl::address address(std::string_view("\x7f\0\0\1\0\0", 6), "service");
    CHECK(address.host() == std::string_view("\x7f\0\0\1\0\0", 6));
    CHECK(address.name() == "service");
    CHECK(address.with_name("other").host() == address.host());
    CHECK(address.with_name("other") != address);
    CHECK(address.with_name("service") == address);
    CHECK(address.net()->HostAddressLen == 6);
    CHECK(address.net()->DiscriminatorLen == 7);
    const vipl::address longest(std::string(500, 'h'), std::string(500, 'n'));
    CHECK(longest.host().size() == vipl::address::max_host);
    CHECK(longest.name() == std::string(vipl::address::max_name, 'n'));
    const vipl::nic nic(device());
    CHECK(nic.local("a").host().size() == nic.attributes().NicAddressLen);
    CHECK(one.name() == "x");
}

TEST_CASE("a host is found by its name, or it is an error")
{
    const vipl::nic nic(device());
    char name[256];
    VIP_ULONG room = sizeof name;
    REQUIRE(VipNSInit(nic.handle(), nullptr) == VIP_SUCCESS);
    REQUIRE(VipNSGetHostByAddr(nic.handle(), nic.local("").net(), name, &room) == VIP_SUCCESS);
    CHECK(nic.resolve(name, "x") == nic.local("x"));
    std::error_code error;
    nic.resolve("there-is-no-such-host.invalid", "x", error);
    CHECK(error == vipl::errc::nameservice);
    nic.resolve(std::string(5000, 'x').c_str(), "x", error);
    CHECK(error);
}

TEST_CASE("nobody there: connecting throws, or sets the error")
{
    const vipl::nic nic(device());
    vipl::vi vi(nic);
    std::error_code error;
    vi.connect(nic.local("a"), nic.local(vipl_test::unique_discriminator()), 20ms, error);
    CHECK((error == vipl::errc::no_match || error == vipl::errc::timeout));
    CHECK_THROWS_AS(vi.connect(nic.local("a"), nic.local(vipl_test::unique_discriminator()), 20ms),
                    std::system_error);
    CHECK(vi.state() == VIP_STATE_IDLE);
}

TEST_CASE("nobody there: connecting at once throws, or sets the error, without a time limit")
{
    const vipl::nic nic(device());
    vipl::vi vi(nic);
    std::error_code error;
    vi.connect_at_once(nic.local("a"), nic.local(vipl_test::unique_discriminator()), vipl::forever, error);
    CHECK(error == vipl::errc::no_match);
    CHECK_THROWS_AS(vi.connect_at_once(nic.local("a"), nic.local(vipl_test::unique_discriminator())),
                    std::system_error);
    CHECK(vi.state() == VIP_STATE_IDLE);
}

TEST_CASE("a request that gets no answer is rejected by its destructor")
{
    const vipl::nic nic(device());
    vipl::vi vi(nic);
    const vipl::address at = nic.local(vipl_test::unique_discriminator());
    auto taken = std::async(std::launch::async, [&] { return nic.wait(at, patience()).has_value(); });
    std::error_code error;
    vi.connect(nic.local("a"), at, patience(), error);
    CHECK(error == vipl::errc::reject);
    CHECK(taken.get());
}

TEST_CASE("waits that nothing ends in time return nothing, and no error")
{
    const vipl::nic nic(device());
    const vipl::cq cq(nic, 4);
    const vipl::vi with_cq(nic, {}, &cq, &cq);
    vipl::vi vi(nic);
    CHECK_FALSE(nic.wait(nic.local(vipl_test::unique_discriminator()), 1ms).has_value());
    CHECK_FALSE(cq.wait(1ms).has_value());
    CHECK_FALSE(cq.done().has_value());
    CHECK_FALSE(vi.receive_done());
    CHECK_FALSE(vi.wait_send(1ms));
}

TEST_CASE("times become what VIPL takes")
{
    CHECK(vipl::to_timeout(vipl::forever) == VIP_INFINITE);
    CHECK(vipl::to_timeout(-5ms) == 0);
    CHECK(vipl::to_timeout(5s) == 5000);
    CHECK(vipl::to_timeout(std::chrono::hours(24 * 365)) == 0x7fffffff);
}

TEST_CASE("a buffer is what a container has")
{
    std::vector<int> numbers(10);
    char text[7];
    CHECK(vipl::buffer(numbers).size == 10 * sizeof(int));
    CHECK(vipl::buffer(numbers).data == numbers.data());
    CHECK(vipl::buffer(text).size == 7);
}
