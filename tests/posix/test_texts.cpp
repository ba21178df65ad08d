// SPDX-License-Identifier: MIT
//
// POSIX extensions: what codes and bits are called.
#include <cstring>
#include <string>

#include <vipl/posix.h>
#include <vipl/version.h>

#include "support/role_case.hpp"

using namespace vipl_test;

namespace {

std::string text_of(VIP_UINT32 status)
{
    char text[256];
    const size_t length = VipxStrStatus(status, text, sizeof text);
    EXPECT_EQ(std::strlen(text), length);
    return text;
}

} // namespace

TEST_CASE("VipxStrError names every return code", "[VipxStrError][posix]")
{
    for (int code = VIP_SUCCESS; code <= VIP_INTERRUPTED; ++code) {
        EXPECT_EQ(show(static_cast<VIP_RETURN>(code)),
                  std::string(VipxStrError(static_cast<VIP_RETURN>(code))));
    }
    EXPECT_EQ(std::string("VIP_RETURN ?"), std::string(VipxStrError(static_cast<VIP_RETURN>(18))));
    EXPECT_EQ(std::string("VIP_RETURN ?"), std::string(VipxStrError(static_cast<VIP_RETURN>(31))));
}

TEST_CASE("VipxStrStatus names the operation, each error and what has no name", "[VipxStrStatus][posix]")
{
    EXPECT_EQ(std::string("PENDING SEND"), text_of(0));
    EXPECT_EQ(std::string("DONE RECEIVE IMMEDIATE"),
              text_of(VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE));
    EXPECT_EQ(std::string("DONE RDMA_WRITE RDMA_PROT_ERROR"),
              text_of(VIP_STATUS_DONE | VIP_STATUS_OP_RDMA_WRITE | VIP_STATUS_RDMA_PROT_ERROR));
    EXPECT_EQ(std::string("DONE REMOTE_RDMA_WRITE"),
              text_of(VIP_STATUS_DONE | VIP_STATUS_OP_REMOTE_RDMA_WRITE));
    EXPECT_EQ(
        std::string("DONE RDMA_READ FORMAT_ERROR PROTECTION_ERROR LENGTH_ERROR PARTIAL_ERROR "
                    "DESC_FLUSHED_ERROR TRANSPORT_ERROR RDMA_PROT_ERROR REMOTE_DESC_ERROR IMMEDIATE"),
        text_of(VIP_STATUS_DONE | VIP_STATUS_OP_RDMA_READ | VIP_STATUS_ERROR_MASK | VIP_STATUS_IMMEDIATE));
    EXPECT_EQ(std::string("PENDING SEND 0xA0000200"), text_of(0xA0000200));
    EXPECT_EQ(std::string("PENDING 0x70000"), text_of(VIP_STATUS_OP_MASK));
}

TEST_CASE("VipxStrStatus cuts the text to the room there is, and says how long it is",
          "[VipxStrStatus][posix]")
{
    const std::string whole = "DONE SEND LENGTH_ERROR";
    const VIP_UINT32 status = VIP_STATUS_DONE | VIP_STATUS_LENGTH_ERROR;
    for (size_t size = 0; size < 30; ++size) {
        char text[32];
        std::memset(text, 'x', sizeof text);
        EXPECT_EQ(whole.size(), VipxStrStatus(status, text, size));
        if (size > 0) {
            EXPECT_EQ(whole.substr(0, size - 1), std::string(text));
        }
        EXPECT(std::string(text + size, sizeof text - size) == std::string(sizeof text - size, 'x'));
    }
    EXPECT_EQ(whole.size(), VipxStrStatus(status, nullptr, 0));
    EXPECT_EQ(whole.size(), VipxStrStatus(status, nullptr, 100));
}

TEST_CASE("VipxVersion is the version of the headers the library was made with", "[VipxVersion][posix]")
{
    EXPECT_EQ(std::string(VIPL_VERSION_STRING), std::string(VipxVersion()));
}
