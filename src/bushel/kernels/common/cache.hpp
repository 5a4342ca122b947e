// Loading memory into the processor's cache before it is used.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace bushel {

// Start to load the cache line at an address, which need not be valid. GCC takes a function that does nothing but
// prefetch for one without effect, and drops the calls of it: the empty statement is the effect.
inline void load_line(const void *address) {
    __builtin_prefetch(address);
    __asm__ volatile("" : : "r"(address));
}

// The same, for a line that is copied a little later: into the second level. The first level waits for few lines at a
// time, and the running copy takes some of them: random rows of 8 KB then take a third less time on an AMD EPYC.
inline void load_line_for_later(const void *address) {
    __builtin_prefetch(address, 0, 2);
    __asm__ volatile("" : : "r"(address));
}

constexpr std::size_t cache_line = 64;

// Copy lines and load as many from `next`.
void copy_lines(std::uint8_t *out, const std::uint8_t *data, std::size_t lines, const std::uint8_t *next);

// Copy bytes and, line by line, load as many from `next`, which will be copied next and may be null. The processor
// itself does not look beyond a page of 4 KiB, so a copy of random records of some KiB would wait in every page.
inline void copy_and_load(std::uint8_t *out, const std::uint8_t *data, std::size_t size, const std::uint8_t *next) {
    constexpr std::size_t least = 1024;
    std::size_t done = 0;
    if (next && size >= least) {
        copy_lines(out, data, size / cache_line, next);
        done = size - size % cache_line;
    }
    if (done < size) std::memcpy(out + done, data + done, size - done);
}

}  // namespace bushel
