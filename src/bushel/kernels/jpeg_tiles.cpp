#include "jpeg_tiles.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace bushel {

namespace {

constexpr int segment_pixels = 64;

int rounded_up(int value, int divisor) { return (value + divisor - 1) / divisor; }

bool is_restart(std::uint8_t marker) { return marker >= 0xD0 && marker <= 0xD7; }

// Segments of the header that say nothing about the pixels: Exif, colour profiles, comments and the like.
bool is_metadata(std::uint8_t marker) { return marker == 0xFE || (marker >= 0xE1 && marker <= 0xEF && marker != 0xEE); }

void append(std::vector<std::uint8_t> &out, const std::uint8_t *from, const std::uint8_t *to) {
    out.insert(out.end(), from, to);
}

// The header with another size and without metadata.
void write_header(const std::uint8_t *data, const JpegHeader &header, const Region &shown,
                  std::vector<std::uint8_t> &out) {
    append(out, data, data + 2);
    for (std::size_t at = 2; at < header.data;) {
        while (data[at] != 0xFF) ++at;
        while (data[at] == 0xFF) ++at;
        const std::uint8_t marker = data[at];
        if (marker <= 0x01 || is_restart(marker)) {  // stands alone, and means nothing here
            ++at;
            continue;
        }
        const std::size_t length = static_cast<std::size_t>(data[at + 1]) << 8 | data[at + 2];
        const std::size_t payload = at + 3;
        if (!is_metadata(marker)) {
            append(out, data + at - 1, data + at + 1 + length);
            if (payload == header.frame) {
                std::uint8_t *size = out.data() + out.size() - (length - 2) + 1;
                size[0] = static_cast<std::uint8_t>(shown.height() >> 8);
                size[1] = static_cast<std::uint8_t>(shown.height());
                size[2] = static_cast<std::uint8_t>(shown.width() >> 8);
                size[3] = static_cast<std::uint8_t>(shown.width());
            }
        }
        at += 1 + length;
    }
}

}  // namespace

JpegGrid::JpegGrid(const JpegHeader &header) {
    if (header.components > 1) {  // a single component is coded block by block, whatever its factors
        mcu_width *= header.most_across();
        mcu_height *= header.most_down();
    }
    columns = rounded_up(header.width, mcu_width);
    rows = rounded_up(header.height, mcu_height);
    if (is_sequential(header) && header.restart_interval > 0 && columns % header.restart_interval == 0) {
        per_segment = header.restart_interval;
    }
}

int choose_interval(const JpegGrid &grid) {
    int best = grid.columns;
    const auto distance = [&grid](int mcus) { return std::abs(mcus * grid.mcu_width - segment_pixels); };
    for (int mcus = 1; mcus < grid.columns; ++mcus) {
        const bool fits = mcus * grid.mcu_width * 2 >= segment_pixels && mcus * grid.mcu_width <= segment_pixels * 2;
        if (fits && grid.columns % mcus == 0 && distance(mcus) <= distance(best)) best = mcus;
    }
    return best;
}

bool is_sequential(const JpegHeader &header) {
    return (header.process == 0xC0 || header.process == 0xC1) && header.scan_components == header.components &&
           header.components <= 4;
}

std::vector<std::size_t> find_restarts(const std::uint8_t *data, std::size_t size, std::size_t first,
                                       std::size_t expected) {
    std::vector<std::size_t> begins;
    // No segment has less than a byte and its marker: so a header that promises more cannot make this large.
    if (expected > (size - first) / 2 + 1) return begins;
    begins.reserve(expected + 1);
    begins.push_back(first);
    const std::uint8_t *at = data + first, *end = data + size;
    while (true) {
        at = static_cast<const std::uint8_t *>(std::memchr(at, 0xFF, static_cast<std::size_t>(end - at)));
        if (!at || at + 1 >= end) return {};
        const std::uint8_t marker = at[1];
        at += 2;
        if (marker == 0) continue;
        if (marker == 0xFF) {  // a fill byte before a marker
            --at;
            continue;
        }
        begins.push_back(static_cast<std::size_t>(at - data));
        if (!is_restart(marker)) break;
        // Out of order: something is lost, and libjpeg is to say so.
        if ((marker & 7) != static_cast<int>((begins.size() - 2) % 8) || begins.size() > expected) return {};
    }
    return begins.size() == expected + 1 ? begins : std::vector<std::size_t>();
}

std::vector<std::size_t> find_segments(const std::uint8_t *data, std::size_t size, const JpegHeader &header) {
    const JpegGrid grid(header);
    if (grid.per_segment == 0) return {};
    const auto expected = static_cast<std::size_t>(grid.rows) * static_cast<std::size_t>(grid.segments_across());
    return find_restarts(data, size, header.data, expected);
}

SegmentWindow find_window(const JpegHeader &header, const Region &wanted) {
    const JpegGrid grid(header);
    if (grid.per_segment == 0) return {};
    // Smooth upsampling takes pixels from the next MCU.
    bool beside = false, above = false;
    for (int i = 0; i < header.components; ++i) {
        beside = beside || header.component[i].across != header.most_across();
        above = above || header.component[i].down != header.most_down();
    }
    const int segment_width = grid.per_segment * grid.mcu_width;
    const int margin = beside ? grid.mcu_width : 0;
    SegmentWindow window;
    window.first = std::max(0, wanted.left - margin) / segment_width;
    window.last = std::min(grid.segments_across(), rounded_up(wanted.right + margin, segment_width));
    window.top = std::max(0, wanted.top / grid.mcu_height - (above ? 1 : 0));
    window.bottom = std::min(grid.rows, rounded_up(wanted.bottom, grid.mcu_height) + (above ? 1 : 0));
    const bool is_whole =
        window.last - window.first == grid.segments_across() && window.bottom - window.top == grid.rows;
    return is_whole ? SegmentWindow() : window;
}

Region splice(const std::uint8_t *data, const JpegHeader &header, const SegmentWindow &window,
              const std::size_t *begins, std::vector<std::uint8_t> &out) {
    const JpegGrid grid(header);
    const int segment_width = grid.per_segment * grid.mcu_width;
    const Region shown{window.first * segment_width, window.top * grid.mcu_height,
                       std::min(header.width, window.last * segment_width),
                       std::min(header.height, window.bottom * grid.mcu_height)};
    out.clear();
    write_header(data, header, shown, out);
    int number = 0;
    for (int row = window.top; row < window.bottom; ++row) {
        const std::size_t *begin =
            begins + static_cast<std::size_t>(row) * static_cast<std::size_t>(grid.segments_across());
        const std::size_t start = out.size();
        // Each segment with the marker behind it, which then gets its number in the new sequence.
        append(out, data + begin[window.first], data + begin[window.last]);
        for (int segment = window.first; segment < window.last; ++segment, ++number) {
            const std::size_t behind = begin[segment + 1] - begin[window.first] + start;
            out[behind - 2] = 0xFF;
            out[behind - 1] = static_cast<std::uint8_t>(0xD0 + number % 8);
        }
    }
    out.back() = 0xD9;
    return shown;
}

}  // namespace bushel
