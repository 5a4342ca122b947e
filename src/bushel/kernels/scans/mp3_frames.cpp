#include "scans/mp3_frames.hpp"

namespace bushel {

namespace {

constexpr std::size_t header_size = 4;
constexpr unsigned layer_3 = 1, mpeg_1 = 3, reserved_version = 1, reserved_rate = 3, mono = 3;
constexpr unsigned free_format = 0, invalid_bit_rate = 15;

// Kilobits per second by the index in the header: of MPEG-1, and of MPEG-2 and 2.5.
constexpr std::uint16_t bit_rates[2][15] = {{0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320},
                                            {0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160}};
constexpr std::uint32_t sample_rates[3] = {44100, 48000, 32000};  // of MPEG-1; half of it in MPEG-2, a quarter in 2.5

// What all frames of a file have in common: version, sample rate, and whether it is mono.
unsigned stream_of(const std::uint8_t *header) {
    return (header[1] >> 3 & 3u) << 3 | (header[2] >> 2 & 3u) << 1 | unsigned{(header[3] >> 6 & 3u) == mono};
}

}  // namespace

std::size_t mp3_frame_size(const std::uint8_t *header) {
    if (header[0] != 0xFF || (header[1] & 0xE0) != 0xE0) return 0;
    const unsigned version = header[1] >> 3 & 3u, layer = header[1] >> 1 & 3u;
    const unsigned bit_rate = header[2] >> 4, rate = header[2] >> 2 & 3u, padding = header[2] >> 1 & 1u;
    if (version == reserved_version || layer != layer_3 || rate == reserved_rate) return 0;
    if (bit_rate == free_format || bit_rate == invalid_bit_rate) return 0;
    const bool newer = version != mpeg_1;
    const std::uint32_t samples = sample_rates[rate] >> (version == mpeg_1 ? 0 : version == 2 ? 1 : 2);
    return (newer ? 72u : 144u) * bit_rates[newer][bit_rate] * 1000u / samples + padding;
}

Mp3Frames find_mp3_frames(const std::uint8_t *data, std::size_t size, std::size_t start, std::int64_t first,
                          std::int64_t step) {
    Mp3Frames listed;
    std::size_t at = start;
    std::int64_t next = first;
    while (at <= size && size - at >= header_size) {
        const std::size_t frame_size = mp3_frame_size(data + at);
        if (frame_size == 0 || frame_size > size - at || stream_of(data + at) != stream_of(data + start)) break;
        if (listed.frames == 0) {
            listed.offset.push_back(static_cast<std::int64_t>(at));
        } else if (listed.frames == next) {
            listed.offset.push_back(static_cast<std::int64_t>(at));
            next += step;
        }
        at += frame_size;
        ++listed.frames;
    }
    listed.offset.push_back(static_cast<std::int64_t>(at));
    return listed;
}

}  // namespace bushel
