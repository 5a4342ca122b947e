// Memory of decoded images, used again: new pages from the system cost a quarter of decoding a frame of a video.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

namespace bushel {

// Blocks that were given back, for whoever next needs one about as large; 64 MiB at most. Only to be used with the
// interpreter lock held, which guards it, across a fork too.
class PixelStore {
public:
    static PixelStore &shared() {
        static PixelStore *const store = new PixelStore;  // never destroyed: images may outlive everything else
        return *store;
    }

    // At least so many bytes, not initialised.
    std::uint8_t *take(std::size_t size) {
        const std::size_t oldest = blocks_.size() - std::min(blocks_.size(), looked_at);
        for (std::size_t at = blocks_.size(); at-- > oldest;) {
            std::uint8_t *const pixels = blocks_[at];
            const std::size_t found = size_of(pixels);
            if (found < size || found > size + size / 8) continue;
            blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(at));
            bytes_ -= found;
            return pixels;
        }
        auto *const block = static_cast<std::uint8_t *>(::operator new(size + header));
        std::memcpy(block, &size, sizeof size);
        return block + header;
    }

    // Takes back what `take` gave.
    void give(std::uint8_t *pixels) noexcept {
        const std::size_t size = size_of(pixels);
        if (size < smallest || size > most / 4) {
            free(pixels);
            return;
        }
        while (bytes_ + size > most) {
            bytes_ -= size_of(blocks_.front());
            free(blocks_.front());
            blocks_.erase(blocks_.begin());
        }
        try {
            blocks_.push_back(pixels);
            bytes_ += size;
        } catch (const std::bad_alloc &) {
            free(pixels);
        }
    }

private:
    static constexpr std::size_t header = 64;  // holds the size, and keeps pixels at the start of a cache line
    static constexpr std::size_t smallest = std::size_t{64} << 10, most = std::size_t{64} << 20;
    static constexpr std::size_t looked_at = 16;

    static std::size_t size_of(const std::uint8_t *pixels) {
        std::size_t size;
        std::memcpy(&size, pixels - header, sizeof size);
        return size;
    }

    static void free(std::uint8_t *pixels) { ::operator delete(pixels - header); }

    std::vector<std::uint8_t *> blocks_;
    std::size_t bytes_ = 0;
};

}  // namespace bushel
