// Tiled JPEGs: baseline files whose restart markers cut every row of MCUs into equal segments. The bytes of a segment
// decode alone, so a crop is a splice of those that it touches. docs/tiled-jpeg.md describes them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "jpeg_header.hpp"
#include "region.hpp"

namespace bushel {

// How an image is laid out in MCUs and segments.
struct JpegGrid {
    explicit JpegGrid(const JpegHeader &header);

    int mcu_width = 8, mcu_height = 8;  // pixels
    int columns = 0, rows = 0;          // MCUs
    int per_segment = 0;                // MCUs; 0: the restart markers, if any, do not cut every row equally

    int segments_across() const { return columns / per_segment; }
};

// MCUs per segment for tiling: a divisor of the MCUs per row, of about 64 pixels, or else the whole row.
int choose_interval(const JpegGrid &grid);

// Whether it has one scan of all components, coded as baseline files are.
bool is_sequential(const JpegHeader &header);

// Where segments begin, the first of which is given, and at the end where one behind the last would: two bytes behind
// the end of the data. Empty when there are not as many as expected, or their markers do not count up.
std::vector<std::size_t> find_restarts(const std::uint8_t *data, std::size_t size, std::size_t first,
                                       std::size_t expected);

// Where the segments of a tiled JPEG begin, likewise. Empty when the image is not tiled, or not whole.
std::vector<std::size_t> find_segments(const std::uint8_t *data, std::size_t size, const JpegHeader &header);

// Which segments a region touches, together with those that upsampling looks at: columns and rows of them.
struct SegmentWindow {
    int first = 0, last = 0;  // across, the last one exclusive
    int top = 0, bottom = 0;  // rows of MCUs, likewise

    bool is_empty() const { return last <= first || bottom <= top; }
};

// Empty when the image is not tiled, or all of it would be touched.
SegmentWindow find_window(const JpegHeader &header, const Region &wanted);

// Writes a JPEG of a window. Of `data` it reads the header and these segments only, which begin where `begins` (the
// whole table) says. Returns the region of the image that it shows.
Region splice(const std::uint8_t *data, const JpegHeader &header, const SegmentWindow &window,
              const std::size_t *begins, std::vector<std::uint8_t> &out);

}  // namespace bushel
