// Frames of videos as decoders give them: luma, and two planes of chroma at half the width and height.
#pragma once
#include <cstddef>
#include <cstdint>

namespace bushel {

enum class Matrix { bt601, bt709 };

// The planes of a frame, whose rows are `luma_stride` and `chroma_stride` bytes apart. Values are of the limited range.
struct Yuv420 {
    const std::uint8_t *luma, *cb, *cr;
    std::size_t luma_stride, chroma_stride;
};

// Convert a frame to RGB, without interpolation of chroma. The height is even; rows of `out` are 3 * width bytes.
//
// FFmpeg's swscale gives the same values on x86: every product is cut to its upper 16 bits.
void yuv420_to_rgb(const Yuv420 &frame, std::size_t width, std::size_t height, Matrix matrix, std::uint8_t *out);

}  // namespace bushel
