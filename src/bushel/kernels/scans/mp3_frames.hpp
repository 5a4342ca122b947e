// The frames of an MP3 file (ISO/IEC 11172-3 and 13818-3, Layer III), by their headers. Nothing is decoded.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bushel {

struct Mp3Frames {
    std::vector<std::int64_t> offset;  // of frame 0, of the frames `first`, `first + step` …, and the end of the last frame
    std::int64_t frames = 0;           // complete frames that follow each other
};

// Return the bytes of the frame whose four bytes of header are given; 0 for another or an invalid header, and for a
// frame whose size is not in its header (free format).
std::size_t mp3_frame_size(const std::uint8_t *header);

// Follow the headers from `start` on, until something follows that is not a whole frame of the same MPEG version, sample
// rate and number of channels as the first one. `step` is positive.
Mp3Frames find_mp3_frames(const std::uint8_t *data, std::size_t size, std::size_t start, std::int64_t first,
                          std::int64_t step);

}  // namespace bushel
