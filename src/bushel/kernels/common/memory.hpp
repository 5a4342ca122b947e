// Reused memory: work buffers of a thread, and pixels of decoded images.
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace bushel {

// Have the C library keep freed memory for the next batch of this many bytes in small objects. glibc returns the end of
// the heap to the system if more is free there than twice the largest block that was freed so far, 32 MiB at most; new
// pages cost three times as much as copying records of 8 KB into them. So one block of that size is freed.
inline void keep_freed_memory(std::size_t size) {
    static std::atomic<std::size_t> largest{std::size_t{128} << 10};
    size = std::min(size, std::size_t{31} << 20);
    if (size <= largest.load(std::memory_order_relaxed)) return;
    largest.store(size, std::memory_order_relaxed);
    void *volatile block = std::malloc(size);  // volatile, or else compilers leave out both calls
    std::free(block);
}

// A work buffer that grows and is used again.
class Buffer {
public:
    // Return at least `size` bytes, not initialised. The previous contents are lost.
    std::uint8_t *bytes(std::size_t size) {
        if (size > size_ || size_ > max_kept) {
            data_.reset();
            size_ = 0;
            data_.reset(new std::uint8_t[size]);
            size_ = size;
        }
        return data_.get();
    }

    // Free memory that is too large to be kept, when its contents are not needed any more.
    void shrink() {
        if (size_ <= max_kept) return;
        data_.reset();
        size_ = 0;
    }

private:
    static constexpr std::size_t max_kept = std::size_t{32} << 20;  // larger buffers are freed at the next call

    std::unique_ptr<std::uint8_t[]> data_;
    std::size_t size_ = 0;
};

// A pool of pixel memory, of at most 64 MiB, from which decoded images are taken and to which they return: new pages
// from the system cost a quarter of the time that decoding a video frame takes. Any thread may use it. Nobody waits for
// it: memory comes from the system, and returns to it, while another thread holds the pool. So a child of a fork that
// happened in the meantime never waits for a thread that it does not have.
class PixelStore {
public:
    static PixelStore &shared() {
        static PixelStore *const store = new PixelStore;  // never destroyed: arrays may outlive all static objects
        return *store;
    }

    // Take at least `size` bytes, not initialised.
    std::uint8_t *take(std::size_t size) {
        if (std::uint8_t *const kept = take_kept(size)) return kept;
        auto *const block = static_cast<std::uint8_t *>(allocate(size + header_size));
        std::memcpy(block, &size, sizeof size);
        return block + header_size;
    }

    // Give back what `take` returned.
    void give(std::uint8_t *pixels) noexcept {
        const std::size_t size = size_of(pixels);
        if (size < min_size || size > max_bytes / 4 || !keep(pixels, size)) free(pixels);
    }

private:
    static constexpr std::size_t header_size = 64;  // holds the size, and aligns pixels to a cache line
    static constexpr std::size_t large = std::size_t{4} << 20, huge_page = std::size_t{2} << 20;
    static constexpr std::size_t min_size = std::size_t{64} << 10, max_bytes = std::size_t{64} << 20;
    static constexpr std::size_t max_searched = 16;

    static std::size_t size_of(const std::uint8_t *pixels) {
        std::size_t size;
        std::memcpy(&size, pixels - header_size, sizeof size);
        return size;
    }

    static void *allocate(std::size_t size) {
        const std::size_t alignment = size < large ? header_size : huge_page;
        void *const block = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
        if (!block) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
        // The system clears a page when it is written to for the first time; that is faster for few large ones.
        if (alignment == huge_page) madvise(block, size, MADV_HUGEPAGE);
#endif
        return block;
    }

    static void free(std::uint8_t *pixels) { std::free(pixels - header_size); }

    // The right to use the members, unless another thread has it.
    class Turn {
    public:
        explicit Turn(std::atomic_flag &taken) : taken_(taken), has_(!taken.test_and_set(std::memory_order_acquire)) {}
        ~Turn() {
            if (has_) taken_.clear(std::memory_order_release);
        }
        Turn(const Turn &) = delete;
        Turn &operator=(const Turn &) = delete;

        explicit operator bool() const { return has_; }

    private:
        std::atomic_flag &taken_;
        const bool has_;
    };

    // Return kept memory of about that size; null if no such memory is kept, or if another thread is using the pool.
    std::uint8_t *take_kept(std::size_t size) {
        const Turn turn(taken_);
        if (!turn) return nullptr;
        const std::size_t oldest = blocks_.size() - std::min(blocks_.size(), max_searched);
        for (std::size_t i = blocks_.size(); i-- > oldest;) {
            std::uint8_t *const pixels = blocks_[i];
            const std::size_t found = size_of(pixels);
            if (found < size || found > size + size / 8) continue;
            blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(i));
            bytes_ -= found;
            return pixels;
        }
        return nullptr;
    }

    // Keep memory for the next image, and free the oldest if that is too much. Return false if it was not kept.
    bool keep(std::uint8_t *pixels, std::size_t size) noexcept {
        const Turn turn(taken_);
        if (!turn) return false;
        while (bytes_ + size > max_bytes) {
            bytes_ -= size_of(blocks_.front());
            free(blocks_.front());
            blocks_.erase(blocks_.begin());
        }
        try {
            blocks_.push_back(pixels);
        } catch (const std::bad_alloc &) {
            return false;
        }
        bytes_ += size;
        return true;
    }

    std::atomic_flag taken_ = ATOMIC_FLAG_INIT;
    std::vector<std::uint8_t *> blocks_;
    std::size_t bytes_ = 0;
};

}  // namespace bushel
