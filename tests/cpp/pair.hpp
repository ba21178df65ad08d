// SPDX-License-Identifier: MIT
//
// Two connected VIs of this process, by the C++ header.
#ifndef VIPL_TESTS_CPP_PAIR_HPP
#define VIPL_TESTS_CPP_PAIR_HPP

#include <catch2/catch.hpp>

#include <future>
#include <memory>
#include <vector>

#include <vipl/vipl.hpp>

#include "support/environment.hpp"

namespace cpp {

using namespace std::chrono_literals;

inline std::chrono::milliseconds patience()
{
    return std::chrono::seconds(vipl_test::case_limit());
}

/** A connected pair; the server's end was made for the request. */
struct Pair {
    explicit Pair(const vipl::vi_options &options = {}, const vipl::cq *receives = nullptr,
                  vipl::nic *on = nullptr)
        : own(on == nullptr ? std::make_unique<vipl::nic>(vipl_test::device_under_test()) : nullptr),
          nic(on == nullptr ? *own : *on), client(nic, options), server(nic, options, nullptr, receives)
    {
        const vipl::address at = nic.local(vipl_test::unique_discriminator());
        auto accepted = std::async(std::launch::async, [&] {
            auto request = nic.wait(at, patience());
            REQUIRE(request.has_value());
            from = request->from();
            REQUIRE(request->attributes().MaxTransferSize == options.max_transfer);
            request->accept(server);
        });
        client.connect(nic.local("client"), at, patience());
        accepted.get();
    }

    /** Messages that outlive the VIs, to whose queues they may be posted until the end. */
    vipl::messages &messages(std::size_t count, std::size_t bytes)
    {
        kept.push_back(std::make_unique<vipl::messages>(nic, count, bytes));
        return *kept.back();
    }

    std::unique_ptr<vipl::nic> own;
    vipl::nic &nic;
    std::vector<std::unique_ptr<vipl::messages>> kept;
    vipl::vi client, server;
    vipl::address from;
};

} // namespace cpp

#endif
