// Exif orientations, and where the rows of a decoded image go.
#pragma once
#include <cstddef>
#include <cstdint>

#include "common/image.hpp"
#include "common/memory.hpp"

namespace bushel {

// How the stored image differs from the upright one.
struct Orientation {
    Orientation() = default;
    explicit Orientation(int exif)
        : transposed(exif >= 5),
          flip_x(exif == 2 || exif == 3 || exif == 7 || exif == 8),
          flip_y(exif == 3 || exif == 4 || exif == 6 || exif == 7) {}

    bool is_upright() const { return !transposed && !flip_x && !flip_y; }

    // The upright image is the stored one, flipped, then transposed.
    bool transposed = false;
    bool flip_x = false, flip_y = false;
};

// Write stored rows, from row `top` of `height` on, to their place in the upright image, whose rows
// have no gaps.
void put_upright(const Pixels &rows, int top, int height, const Orientation &orientation, std::uint8_t *out);

// Write the whole upright image.
Pixels make_upright(const Pixels &stored, const Orientation &orientation, std::uint8_t *out);

// The place of an image that is decoded a few rows at a time.
class ImageRows {
public:
    // As it is stored, in rows without gaps.
    ImageRows(std::uint8_t *out, int width, int height, int channels)
        : out_(out), width_(width), height_(height), channels_(channels) {}
    // Upright, by way of a work buffer.
    ImageRows(std::uint8_t *out, int width, int height, int channels, const Orientation &orientation, Buffer &buffer)
        : ImageRows(out, width, height, channels) {
        orientation_ = orientation;
        if (!orientation.is_upright()) buffer_ = &buffer;
    }

    std::size_t stride() const { return static_cast<std::size_t>(width_) * static_cast<std::size_t>(channels_); }

    // Return memory for stored rows from row `first` on. They must be written before `finish`.
    std::uint8_t *begin(int first, int count) const {
        const auto rows = static_cast<std::size_t>(buffer_ ? count : first);
        return buffer_ ? buffer_->bytes(rows * stride()) : out_ + rows * stride();
    }
    void finish(const std::uint8_t *rows, int first, int count) const {
        const Pixels written{rows, static_cast<std::ptrdiff_t>(stride()), width_, count, channels_};
        if (buffer_) put_upright(written, first, height_, orientation_, out_);
    }

private:
    std::uint8_t *out_;
    int width_, height_, channels_;
    Orientation orientation_;
    Buffer *buffer_ = nullptr;
};

}  // namespace bushel
