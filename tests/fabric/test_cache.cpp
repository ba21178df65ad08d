// SPDX-License-Identifier: MIT
//
// Regions that are closed stay in VIPL's registration cache, and never outlive their pages.
#include <sys/mman.h>

#include <catch2/catch.hpp>

#include "fabric_pair.hpp"

using namespace fabric_test;
using namespace vipl_test;

namespace {

constexpr size_t bytes = 65536;
/** libfabric's own buffers: OFI_MR_NOCACHE, which is in no installed header. */
constexpr uint64_t no_cache = uint64_t{1} << 60;

/** Private pages. */
class Pages {
public:
    Pages() : at_(map(nullptr, 0)) {}
    ~Pages() { (void)munmap(at_, bytes); }
    Pages(const Pages &) = delete;
    Pages &operator=(const Pages &) = delete;

    uint8_t *at(size_t offset = 0) const { return static_cast<uint8_t *>(at_) + offset; }
    /** Other pages at the same addresses. */
    void map_again() const
    {
        (void)munmap(at_, bytes);
        EXPECT(map(at_, MAP_FIXED) == at_);
    }

private:
    static void *map(void *at, int fixed)
    {
        void *pages = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
        EXPECT(pages != MAP_FAILED);
        return pages;
    }

    void *at_;
};

Fid<fid_mr> registered(Node &node, const void *at, size_t length, uint64_t access = FI_SEND | FI_RECV,
                       uint64_t flags = 0)
{
    fid_mr *region = nullptr;
    FABRIC(fi_mr_reg(node.domain.get(), at, length, access, 0, 0, flags, &region, nullptr));
    return Fid<fid_mr>(region);
}

/** The key of a region that is closed again. */
uint64_t key_of(Node &node, const void *at, size_t length, uint64_t access = FI_SEND | FI_RECV,
                uint64_t flags = 0)
{
    return fi_mr_key(registered(node, at, length, access, flags).get());
}

/** The number that the log has for a name, in the line about the cache. */
long long number_of(const std::string &log, const std::string &name)
{
    const size_t line = log.find(", cache: ");
    EXPECT(line != std::string::npos);
    const size_t at = log.find(" " + name + "=", line);
    EXPECT(at != std::string::npos);
    return std::stoll(log.substr(at + name.size() + 2));
}

} // namespace

TEST_CASE("a region that was closed is found again", "[cache]")
{
    Node node;
    const Pages pages;
    const uint64_t key = key_of(node, pages.at(), bytes);
    CHECK(key_of(node, pages.at(), bytes) == key);
    CHECK(key_of(node, pages.at(100), bytes - 200) == key);
    CHECK(key_of(node, pages.at(), bytes, FI_REMOTE_WRITE) != key);
    Node other;
    CHECK(key_of(other, pages.at(), bytes) != key); // another domain, another protection tag
}

TEST_CASE("a region that is found has the pages that are there now", "[cache]")
{
    Pair pair;
    const Pages from, to;
    for (int round = 1; round <= 5; round++) {
        memset(from.at(), round, bytes);
        {
            const Fid<fid_mr> here = registered(pair.client_side, from.at(), bytes);
            const Fid<fid_mr> there =
                registered(pair.server_side, to.at(), bytes, FI_REMOTE_READ | FI_REMOTE_WRITE);
            const auto address = reinterpret_cast<uintptr_t>(to.at());
            FABRIC(fi_write(pair.client.get(), from.at(), bytes, fi_mr_desc(here.get()), 0, address,
                            fi_mr_key(there.get()), nullptr));
            CHECK(next_completion(pair.client_side.tx.get()).error == 0);
            FABRIC(fi_read(pair.client.get(), from.at(), 1, fi_mr_desc(here.get()), 0, address,
                           fi_mr_key(there.get()), nullptr)); // the write is there when this is
            CHECK(next_completion(pair.client_side.tx.get()).error == 0);
        }
        CHECK(memcmp(to.at(), from.at(), bytes) == 0);
        from.map_again();
        to.map_again();
    }
}

TEST_CASE("a domain ends whose regions' memory has gone", "[cache]")
{
    for (int round = 0; round < 20; round++) {
        Node node;
        {
            const Pages pages;
            key_of(node, pages.at(), bytes);
        }
        node.tx.reset();
        node.rx.reset();
        FABRIC(fi_close(&node.domain.release()->fid));
    }
}

TEST_CASE("the log has what the cache has done", "[cache]")
{
    const std::string log = log_of("FI_LOG_LEVEL=info", "[.cached]");
    INFO(log);
    CHECK(number_of(log, "misses") == 4); // of which one is the pool of libfabric's
    CHECK(number_of(log, "hits") == 5);
    CHECK(number_of(log, "once") == 1);
    CHECK(number_of(log, "invalidated") == 1);
}

TEST_CASE("a setting switches the cache off", "[cache]")
{
    const std::string log = log_of("FI_LOG_LEVEL=info FI_VIPL_CACHE=no", "[.cached]");
    INFO(log);
    CHECK(number_of(log, "misses") == 9);
    CHECK(number_of(log, "hits") == 0);
    CHECK(number_of(log, "regions") == 0);
    CHECK_THAT(log_of("FI_LOG_LEVEL=warn FI_VIPL_CACHE=perhaps", "[.cached]"),
               Catch::Contains("FI_VIPL_CACHE is neither yes nor no"));
}

TEST_CASE("registers, for the log", "[.cached]")
{
    const Pages pages;
    Node node;
    key_of(node, pages.at(), bytes, FI_SEND, no_cache);
    for (int i = 0; i < 6; i++) {
        key_of(node, pages.at(), bytes); // the first is a miss: what has NO_CACHE is not there
    }
    pages.map_again();
    key_of(node, pages.at(), bytes);
    key_of(node, pages.at(), bytes, FI_REMOTE_READ);
}
