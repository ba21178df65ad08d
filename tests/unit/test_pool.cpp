// SPDX-License-Identifier: MIT
//
// Pools and lists: objects are distinct, aligned, made once, come back as they were put, and are
// there again after a failure; a list keeps its order and its links tell whether they are on one.
#include <catch2/catch.hpp>

#include <set>
#include <thread>
#include <vector>

#include "internal.hpp"
#include "support/os_hooks.hpp"

namespace {

struct alignas(64) Thing {
    struct vipl_list link;
    unsigned made;
    unsigned value;
};

void make_thing(void *object)
{
    static_cast<Thing *>(object)->made++;
}

void make_pool(vipl_pool &pool)
{
    vipl_mutex_init(&pool.lock, VIPL_RANK_POOL);
    vipl_list_init(&pool.free);
    pool.object_bytes = sizeof(Thing);
    pool.link_offset = offsetof(Thing, link);
    pool.make = make_thing;
}

Thing *get(vipl_pool &pool)
{
    return static_cast<Thing *>(vipl_pool_get(&pool));
}

struct Node {
    int value;
    struct vipl_list link;
};

std::vector<int> values_of(const vipl_list &list)
{
    std::vector<int> values;
    for (const vipl_list *l = list.next; l != &list; l = l->next) {
        values.push_back(VIPL_CONTAINER(l, Node, link)->value);
    }
    return values;
}

} // namespace

TEST_CASE("a pool makes an object when it is taken, and one that was put back is taken first", "[pool]")
{
    static vipl_pool pool;
    make_pool(pool);
    Thing *first = get(pool);
    REQUIRE(first != nullptr);
    CHECK(first->made == 1);
    CHECK((first + 1)->made == 0); // the next one of the slab, whose page a process may never need
    Thing *second = get(pool);
    CHECK(second == first + 1);
    CHECK(second->made == 1);
    vipl_pool_put(&pool, first);
    CHECK(get(pool) == first);
    CHECK(first->made == 1);
}

TEST_CASE("a pool's objects are distinct, aligned and made once", "[pool]")
{
    static vipl_pool pool; // its memory is never given back: reachable for leak checkers
    make_pool(pool);
    std::set<Thing *> all;
    for (int i = 0; i < 5000; ++i) {
        Thing *thing = get(pool);
        REQUIRE(thing != nullptr);
        REQUIRE(reinterpret_cast<std::uintptr_t>(thing) % 64 == 0);
        REQUIRE(thing->made == 1);
        thing->value = 7;
        all.insert(thing);
    }
    REQUIRE(all.size() == 5000);
    for (Thing *thing : all) {
        vipl_pool_put(&pool, thing);
    }
    std::vector<Thing *> again;
    for (int i = 0; i < 5000; ++i) {
        Thing *thing = get(pool);
        again.push_back(thing);
        REQUIRE(thing->made == 1);
        REQUIRE(thing->value == (all.count(thing) == 1 ? 7u : 0u)); // contents as it was put
    }
    for (Thing *thing : again) {
        vipl_pool_put(&pool, thing);
    }
}

TEST_CASE("a pool without memory returns nothing, and recovers", "[pool]")
{
    static vipl_pool pool;
    make_pool(pool);
    vipl_alloc_fail_after(1);
    Thing *thing = get(pool);
    vipl_alloc_fail_after(-1);
    REQUIRE(thing == nullptr);
    thing = get(pool);
    REQUIRE(thing != nullptr);
    vipl_pool_put(&pool, thing);
}

TEST_CASE("threads get and put objects of one pool without sharing any", "[pool]")
{
    static vipl_pool pool;
    make_pool(pool);
    std::vector<std::thread> threads;
    std::vector<unsigned> shared(4);
    for (unsigned t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            for (unsigned i = 0; i < 20000; ++i) {
                Thing *a = get(pool);
                Thing *b = get(pool);
                a->value = t * 2;
                b->value = t * 2 + 1;
                shared[t] += a->value != t * 2 || b->value != t * 2 + 1 ? 1 : 0;
                vipl_pool_put(&pool, a);
                vipl_pool_put(&pool, b);
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    REQUIRE(shared == std::vector<unsigned>(4));
}

TEST_CASE("a list keeps the order in which links were appended", "[list]")
{
    vipl_list list;
    Node nodes[5] = {};
    vipl_list_init(&list);
    REQUIRE(vipl_list_empty(&list));
    REQUIRE(vipl_list_take(&list) == nullptr);
    for (int i = 0; i < 5; ++i) {
        nodes[i].value = i;
        vipl_list_init(&nodes[i].link);
        vipl_list_append(&list, &nodes[i].link);
    }
    REQUIRE(values_of(list) == std::vector<int>{0, 1, 2, 3, 4});
    vipl_list_remove(&nodes[2].link);
    vipl_list_remove(&nodes[2].link); // harmless
    REQUIRE(vipl_list_empty(&nodes[2].link));
    REQUIRE(values_of(list) == std::vector<int>{0, 1, 3, 4});
    REQUIRE(vipl_list_take(&list) == &nodes[0].link);
    vipl_list_append(&list, &nodes[0].link);
    REQUIRE(values_of(list) == std::vector<int>{1, 3, 4, 0});
}

TEST_CASE("a list element that moves in memory keeps its place", "[list]")
{
    vipl_list list;
    Node nodes[3] = {}, moved{};
    vipl_list_init(&list);
    for (int i = 0; i < 3; ++i) {
        nodes[i].value = i;
        vipl_list_append(&list, &nodes[i].link);
    }
    moved.value = 10;
    vipl_list_replace(&nodes[1].link, &moved.link);
    REQUIRE(values_of(list) == std::vector<int>{0, 10, 2});
    Node alone{}, copy{};
    vipl_list_init(&alone.link);
    vipl_list_replace(&alone.link, &copy.link); // on no list: nor is the copy
    REQUIRE(vipl_list_empty(&copy.link));
}

TEST_CASE("an object that is put first is the next one", "[pool]")
{
    static vipl_pool pool;
    make_pool(pool);
    Thing *const one = get(pool), *const other = get(pool);
    vipl_pool_put(&pool, one);
    vipl_pool_put_first(&pool, other);
    CHECK(get(pool) == other);
    vipl_pool_put_first(&pool, other);
    CHECK(get(pool) == other);
}
