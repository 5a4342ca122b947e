// JPEG to JPEG and to coefficients, without loss: nothing is decoded further than to the quantised coefficients.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bushel {

// The image as a tiled baseline JPEG with optimised Huffman tables. Exif, colour profile and comments go with it if
// `metadata`; without, of these only an orientation other than upright, in an Exif segment of its own. Throws
// JpegFault.
std::vector<std::uint8_t> tile_jpeg(const std::uint8_t *data, std::size_t size, bool metadata,
                                    std::int64_t most_pixels);

// Whether tile_jpeg would find nothing to do but drop metadata.
bool is_tiled_jpeg(const std::uint8_t *data, std::size_t size);

// The quantised coefficients of one component, in natural order.
struct JpegCoefficients {
    std::size_t rows = 0, columns = 0;  // blocks
    std::vector<std::int16_t> values;   // [rows][columns][64]
};

std::vector<JpegCoefficients> read_coefficients(const std::uint8_t *data, std::size_t size, std::int64_t most_pixels);

}  // namespace bushel
