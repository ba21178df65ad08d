// SPDX-License-Identifier: MIT
//
// What fi_getinfo() offers, and what it does not.
#include <functional>
#include <netinet/in.h>
#include <string>

#include <catch2/catch.hpp>

#include "fabric_pair.hpp"

using namespace fabric_test;
using namespace vipl_test;

namespace {

/** fi_getinfo() for hints that were changed. */
int ask(const std::function<void(fi_info &)> &change, Info *out = nullptr)
{
    const Info wanted = hints();
    fi_info *info = nullptr;
    change(*wanted);
    const int rc = fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, wanted.get(), &info);
    const Info owned(info);
    if (out != nullptr) {
        *out = Info(info != nullptr ? fi_dupinfo(info) : nullptr);
    }
    return rc;
}

/** What a child writes on standard error that calls fi_getinfo() with this environment. */
std::string ask_and_log(const std::string &environment)
{
    return log_of(environment + " FI_LOG_LEVEL=info", "[.ask]");
}

} // namespace

TEST_CASE("the provider offers connected endpoints", "[info]")
{
    const Info info = offer(hints().get());
    CHECK(info->ep_attr->type == FI_EP_MSG);
    CHECK(std::string(info->fabric_attr->prov_name) == "vipl");
    CHECK(std::string(info->fabric_attr->name) == device_under_test());
    CHECK(std::string(info->domain_attr->name) == device_under_test());
    CHECK((info->caps & (FI_MSG | FI_RMA)) == (FI_MSG | FI_RMA));
    CHECK(info->domain_attr->cq_data_size == 4);
    CHECK(info->domain_attr->mr_mode == (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY));
    CHECK(info->tx_attr->inject_size == 256);
    CHECK(info->addr_format == (device_is_rnic() ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN));
    CHECK(info->src_addrlen == (device_is_rnic() ? sizeof(sockaddr_in6) : sizeof(sockaddr_in)));
}

TEST_CASE("sizes of queues are those of the hints", "[info]")
{
    Info info;
    REQUIRE(ask([](fi_info &wanted) { wanted.tx_attr->size = 17, wanted.rx_attr->size = 300; }, &info) == 0);
    CHECK(info->tx_attr->size == 17);
    CHECK(info->rx_attr->size == 300);
}

TEST_CASE("data with an RDMA Write is for programs that know that it takes a receive", "[info]")
{
    Info info;
    REQUIRE(ask([](fi_info &wanted) { wanted.mode = 0; }, &info) == 0);
    CHECK(info->domain_attr->cq_data_size == 0);
    REQUIRE(ask([](fi_info &wanted) { wanted.mode = 0, wanted.caps = FI_MSG; }, &info) == 0);
    CHECK(info->domain_attr->cq_data_size == 4);
    CHECK(ask([](fi_info &wanted) { wanted.mode = 0, wanted.domain_attr->cq_data_size = 4; }) == -FI_ENODATA);
}

TEST_CASE("hints that do not fit get no offer", "[info]")
{
    const std::pair<const char *, std::function<void(fi_info &)>> changes[] = {
        {"tagged messages", [](fi_info &one) { one.caps |= FI_TAGGED; }},
        {"atomics", [](fi_info &one) { one.caps |= FI_ATOMIC; }},
        {"datagrams", [](fi_info &one) { one.ep_attr->type = FI_EP_DGRAM; }},
        {"a protocol", [](fi_info &one) { one.ep_attr->protocol = FI_PROTO_IWARP; }},
        {"two contexts", [](fi_info &one) { one.ep_attr->tx_ctx_cnt = 2; }},
        {"a shared context", [](fi_info &one) { one.ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT; }},
        {"a prefix", [](fi_info &one) { one.ep_attr->msg_prefix_size = 8; }},
        {"the longest messages", [](fi_info &one) { one.ep_attr->max_msg_size = SIZE_MAX; }},
        {"no local registration", [](fi_info &one) { one.domain_attr->mr_mode &= ~FI_MR_LOCAL; }},
        {"keys of the program's", [](fi_info &one) { one.domain_attr->mr_mode &= ~FI_MR_PROV_KEY; }},
        {"scalable regions", [](fi_info &one) { one.domain_attr->mr_mode = FI_MR_SCALABLE; }},
        {"automatic progress", [](fi_info &one) { one.domain_attr->data_progress = FI_PROGRESS_AUTO; }},
        {"8 bytes of data", [](fi_info &one) { one.domain_attr->cq_data_size = 8; }},
        {"long injects", [](fi_info &one) { one.tx_attr->inject_size = 257; }},
        {"many pieces", [](fi_info &one) { one.tx_attr->iov_limit = 5; }},
        {"many receives", [](fi_info &one) { one.rx_attr->size = 32769; }},
        {"completions after delivery", [](fi_info &one) { one.tx_attr->op_flags = FI_DELIVERY_COMPLETE; }},
        {"writes behind reads", [](fi_info &one) { one.tx_attr->msg_order = FI_ORDER_WAR; }},
        {"another address format", [](fi_info &one) { one.addr_format = FI_ADDR_STR; }},
    };
    REQUIRE(ask([](fi_info &) {}) == 0);
    for (const auto &[what, change] : changes) {
        INFO(what);
        CHECK(ask(change) == -FI_ENODATA);
    }
}

TEST_CASE("addresses that the device does not reach get no offer", "[info]")
{
    const Info wanted = hints();
    fi_info *info = nullptr;
    sockaddr_in elsewhere = {};
    elsewhere.sin_family = device_is_rnic() ? AF_INET : AF_INET6;
    wanted->dest_addr = malloc(sizeof(elsewhere));
    memcpy(wanted->dest_addr, &elsewhere, sizeof(elsewhere));
    wanted->dest_addrlen = sizeof(elsewhere);
    CHECK(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, wanted.get(), &info) == -FI_ENODATA);
    wanted->dest_addrlen = 3;
    CHECK(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, wanted.get(), &info) == -FI_ENODATA);
    const Info plain = hints();
    CHECK(fi_getinfo(FI_VERSION(1, 17), "no such host.invalid", "1", 0, plain.get(), &info) == -FI_ENODATA);
    if (device_is_loopback()) {
        CHECK(fi_getinfo(FI_VERSION(1, 17), "192.0.2.1", "1", 0, plain.get(), &info) == -FI_ENODATA);
        REQUIRE(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", "1", 0, plain.get(), &info) == 0);
        const Info owned(info);
        CHECK(info->dest_addrlen == sizeof(sockaddr_in));
    }
}

TEST_CASE("the log says what is wrong with settings, devices and hints", "[info]")
{
    CHECK_THAT(ask_and_log("FI_VIPL_DEVISE=tcp"), Catch::Contains("FI_VIPL_DEVISE is no setting"));
    CHECK_THAT(ask_and_log("FI_VIPL_CONNECT_TIMEOUT=never"),
               Catch::Contains("FI_VIPL_CONNECT_TIMEOUT is not a number"));
    CHECK_THAT(ask_and_log("FI_VIPL_CONNECT_TIMEOUT=0"),
               Catch::Contains("FI_VIPL_CONNECT_TIMEOUT is not a number"));
    CHECK_THAT(ask_and_log("FI_VIPL_RDM=some"), Catch::Contains("FI_VIPL_RDM is neither yes nor no"));
    CHECK_THAT(ask_and_log("FI_VIPL_DEVICE=abacus"), Catch::Contains("the device abacus does not open"));
    CHECK_THAT(ask_and_log("FI_VIPL_DEVICE=loopback"),
               Catch::Contains("the hints do not fit: endpoint type"));
    CHECK_THAT(ask_and_log("FI_VIPL_DEVICE=loopback FI_VIPL_CONNECT_TIMEOUT=5"),
               !Catch::Contains("setting") && !Catch::Contains("not a number"));
}

TEST_CASE("asks for datagrams, for the log", "[.ask]")
{
    const Info wanted(fi_allocinfo());
    fi_info *info = nullptr;
    wanted->ep_attr->type = FI_EP_DGRAM;
    wanted->fabric_attr->prov_name = strdup("vipl");
    CHECK(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, wanted.get(), &info) == -FI_ENODATA);
}
