// What stands before the pixels of a JPEG (ITU T.81 annex B; orientation: Exif 2.32), read without libjpeg.
#pragma once
#include <cstddef>
#include <cstdint>

namespace bushel {

struct JpegComponent {
    int across = 1, down = 1;  // sampling factors
};

struct JpegHeader {
    int width = 0, height = 0;
    int components = 0;
    JpegComponent component[4];
    int process = 0;           // the frame's marker: 0xC0 baseline, 0xC1 extended, 0xC2 progressive, ...
    int scan_components = 0;   // of the first scan
    int restart_interval = 0;  // MCUs; 0: no restart markers
    int orientation = 1;       // 1 to 8, as in Exif
    std::size_t frame = 0;     // where the payload of the frame header (precision, height, width, ...) begins
    std::size_t data = 0;      // where the entropy-coded data of the first scan begins

    int most_across() const;
    int most_down() const;
    bool is_arithmetic() const { return process >= 0xC9; }
};

// Reads up to and including the header of the first scan. Throws JpegFault.
JpegHeader read_jpeg_header(const std::uint8_t *data, std::size_t size);

}  // namespace bushel
