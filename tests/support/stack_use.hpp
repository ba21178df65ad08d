// SPDX-License-Identifier: MIT
//
// How much of the stack a call takes: what it has written below its caller's frame.
#ifndef VIPL_TESTS_STACK_USE_HPP
#define VIPL_TESTS_STACK_USE_HPP

#include <cstddef>
#include <cstdint>

namespace vipl_test {

/** A sanitizer's frames are not those of the program. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kStackIsOurs = false;
#else
inline constexpr bool kStackIsOurs = true;
#endif

class StackUse {
public:
    /** Makes the call, and takes note of what it has used. */
    template <class Call>
    __attribute__((noinline)) auto operator()(Call call)
    {
        const std::uintptr_t top = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
        if (kStackIsOurs) {
            paint(top);
        }
        const auto result = call();
        if (kStackIsOurs) {
            look(top);
        }
        return result;
    }
    /** Of the calls so far, the most. */
    std::size_t most() const { return most_; }

private:
    static constexpr std::size_t kDeep = 32768, kOwn = 512; // what is looked at; frames of these functions
    static constexpr unsigned char kPaint = 0xA7;

    __attribute__((noinline)) static void paint(std::uintptr_t top)
    {
        for (std::uintptr_t at = top - kDeep; at < top - kOwn; ++at) {
            *reinterpret_cast<volatile unsigned char *>(at) = kPaint;
        }
    }
    __attribute__((noinline)) void look(std::uintptr_t top)
    {
        std::uintptr_t at = top - kDeep;
        while (at < top - kOwn && *reinterpret_cast<volatile unsigned char *>(at) == kPaint) {
            ++at;
        }
        most_ = top - at > most_ ? top - at : most_;
    }

    std::size_t most_ = 0;
};

} // namespace vipl_test

#endif
