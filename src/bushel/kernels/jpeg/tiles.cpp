#include "jpeg/tiles.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace bushel {

namespace {

constexpr int segment_pixels = 64;

void append(std::vector<std::uint8_t> &out, const std::uint8_t *from, const std::uint8_t *to) {
    out.insert(out.end(), from, to);
}

// Copy the header with another size and without metadata.
void write_header(const std::uint8_t *data, const JpegHeader &header, const Region &shown,
                  std::vector<std::uint8_t> &out) {
    append(out, data, data + 2);
    for (std::size_t offset = 2; offset < header.data_offset;) {
        const JpegSegment segment = next_segment(data, header.data_offset, offset);
        offset = segment.end();
        if (is_metadata(segment.marker)) continue;
        append(out, data + segment.offset, data + segment.end());
        if (segment.payload != header.frame_offset) continue;
        std::uint8_t *size = out.data() + out.size() - segment.size + 1;
        size[0] = static_cast<std::uint8_t>(shown.height() >> 8);
        size[1] = static_cast<std::uint8_t>(shown.height());
        size[2] = static_cast<std::uint8_t>(shown.width() >> 8);
        size[3] = static_cast<std::uint8_t>(shown.width());
    }
}

}  // namespace

JpegGrid::JpegGrid(const JpegHeader &header) {
    if (header.components > 1) {  // a single component is coded block by block, with any factors
        mcu_width *= header.max_h_samp_factor();
        mcu_height *= header.max_v_samp_factor();
    }
    columns = divide_up(header.width, mcu_width);
    rows = divide_up(header.height, mcu_height);
    if (header.is_sequential() && header.restart_interval > 0 && columns % header.restart_interval == 0) {
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

std::vector<std::size_t> find_restarts(const std::uint8_t *data, std::size_t size, std::size_t first,
                                       std::size_t expected) {
    std::vector<std::size_t> offsets;
    // Each segment but the last takes two bytes at least, so that a forged header cannot make the vector large.
    if (expected > (size - first) / 2 + 1) return offsets;
    offsets.reserve(expected + 1);
    offsets.push_back(first);
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
        offsets.push_back(static_cast<std::size_t>(at - data));
        if (!is_restart(marker)) break;
        // A marker out of order: something is lost, and libjpeg reports it.
        if ((marker & 7) != static_cast<int>((offsets.size() - 2) % 8) || offsets.size() > expected) return {};
    }
    return offsets.size() == expected + 1 ? offsets : std::vector<std::size_t>();
}

std::vector<std::size_t> find_segments(const std::uint8_t *data, std::size_t size, const JpegHeader &header) {
    const JpegGrid grid(header);
    if (grid.per_segment == 0) return {};
    const auto expected = static_cast<std::size_t>(grid.rows) * static_cast<std::size_t>(grid.segments_across());
    return find_restarts(data, size, header.data_offset, expected);
}

SegmentWindow find_window(const JpegHeader &header, const Region &wanted) {
    const JpegGrid grid(header);
    if (grid.per_segment == 0) return {};
    // Smooth upsampling reads samples of the neighbouring MCUs.
    bool beside = false, above = false;
    for (int i = 0; i < header.components; ++i) {
        beside = beside || header.component[i].h_samp_factor != header.max_h_samp_factor();
        above = above || header.component[i].v_samp_factor != header.max_v_samp_factor();
    }
    const int segment_width = grid.per_segment * grid.mcu_width;
    const int margin = beside ? grid.mcu_width : 0;
    SegmentWindow window;
    window.first = std::max(0, wanted.left - margin) / segment_width;
    window.last = std::min(grid.segments_across(), divide_up(wanted.right + margin, segment_width));
    window.top = std::max(0, wanted.top / grid.mcu_height - (above ? 1 : 0));
    window.bottom = std::min(grid.rows, divide_up(wanted.bottom, grid.mcu_height) + (above ? 1 : 0));
    const bool is_whole =
        window.last - window.first == grid.segments_across() && window.bottom - window.top == grid.rows;
    return is_whole ? SegmentWindow() : window;
}

Region splice(const std::uint8_t *data, const JpegHeader &header, const SegmentWindow &window,
              const std::size_t *segments, std::vector<std::uint8_t> &out) {
    const JpegGrid grid(header);
    const int segment_width = grid.per_segment * grid.mcu_width;
    const Region shown{window.first * segment_width, window.top * grid.mcu_height,
                       std::min(header.width, window.last * segment_width),
                       std::min(header.height, window.bottom * grid.mcu_height)};
    out.clear();
    write_header(data, header, shown, out);
    int number = 0;
    for (int row = window.top; row < window.bottom; ++row) {
        const std::size_t *offsets =
            segments + static_cast<std::size_t>(row) * static_cast<std::size_t>(grid.segments_across());
        const std::size_t start = out.size();
        // Each segment is copied with the marker after it, whose number then follows the new sequence.
        append(out, data + offsets[window.first], data + offsets[window.last]);
        for (int segment = window.first; segment < window.last; ++segment, ++number) {
            const std::size_t end = offsets[segment + 1] - offsets[window.first] + start;
            out[end - 2] = 0xFF;
            out[end - 1] = static_cast<std::uint8_t>(RST0 + number % 8);
        }
    }
    out.back() = EOI;
    return shown;
}

}  // namespace bushel
