// Tiled JPEGs: baseline files whose restart markers divide every row of MCUs into equal segments. The bytes of a
// segment can be decoded alone, so a crop is a splice of the segments that it touches. See docs/tiled-jpeg.md.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/image.hpp"
#include "jpeg/header.hpp"

namespace bushel {

// The layout of an image in MCUs and segments.
struct JpegGrid {
    explicit JpegGrid(const JpegHeader &header);

    int mcu_width = 8, mcu_height = 8;  // pixels
    int columns = 0, rows = 0;          // MCUs
    int per_segment = 0;                // MCUs; 0: restart markers do not divide every row into equal segments

    int segments_across() const { return columns / per_segment; }
};

// Return the MCUs per segment for tiling: a divisor of the MCUs per row, of about 64 pixels, or else the whole row.
int choose_interval(const JpegGrid &grid);

// Return the offsets of all segments (the first one is given), and the offset at which another one would start:
// two bytes after the end of the data. Empty if there are not `expected` segments, or markers are out of order.
std::vector<std::size_t> find_restarts(const std::uint8_t *data, std::size_t size, std::size_t first,
                                       std::size_t expected);

// Return the same for a tiled JPEG. Empty if the image is not tiled, or incomplete.
std::vector<std::size_t> find_segments(const std::uint8_t *data, std::size_t size, const JpegHeader &header);

// The segments that a region touches, and those that upsampling needs.
struct SegmentWindow {
    int first = 0, last = 0;  // segments of a row; last is exclusive
    int top = 0, bottom = 0;  // rows of MCUs; bottom is exclusive

    bool is_empty() const { return last <= first || bottom <= top; }
};

// Empty if the image is not tiled, or all of it is needed.
SegmentWindow find_window(const JpegHeader &header, const Region &wanted);

// Write a JPEG of a window. `segments` holds the offsets of all segments. Of `data`, only the header and the
// segments of the window are read. Return the region of the image that it shows.
Region splice(const std::uint8_t *data, const JpegHeader &header, const SegmentWindow &window,
              const std::size_t *segments, std::vector<std::uint8_t> &out);

}  // namespace bushel
