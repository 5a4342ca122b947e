// Writing JPEGs: from pixels, and from other JPEGs without loss.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bushel {

constexpr std::int64_t default_max_pixels = (std::int64_t{1} << 30) / 12;  // Pillow's limit against decompression bombs

struct JpegEncoding {
    int quality = 95;                          // 1 to 100
    int h_samp_factor = 2, v_samp_factor = 2;  // of the luma, 1 or 2; chroma has 1
    bool fast = false;                         // a less accurate DCT
};

// Encode interleaved 8-bit pixels, grey or RGB, as a baseline JPEG with the standard Huffman tables. Throws JpegError.
std::vector<std::uint8_t> encode_jpeg(const std::uint8_t *pixels, int width, int height, int channels,
                                      const JpegEncoding &encoding);

// Rewrite a JPEG as a tiled one with optimised Huffman tables, without loss. With `metadata`, application segments
// (Exif, colour profile, ...) and comments are kept; otherwise only an orientation other than upright, in a new Exif
// segment. Throws JpegError.
std::vector<std::uint8_t> tile_jpeg(const std::uint8_t *data, std::size_t size, bool metadata, std::int64_t max_pixels);

// Rewrite a JPEG as one with a single scan and optimised Huffman tables, without loss and with its metadata. Return
// nothing for one that has them already. Throws JpegError.
std::vector<std::uint8_t> baseline_jpeg(const std::uint8_t *data, std::size_t size, std::int64_t max_pixels);

// Whether tile_jpeg would change nothing but metadata.
bool is_tiled_jpeg(const std::uint8_t *data, std::size_t size);

// The quantised DCT coefficients of one component, in natural order.
struct JpegCoefficients {
    std::size_t rows = 0, columns = 0;  // blocks
    std::vector<std::int16_t> values;   // [rows][columns][64]
};

std::vector<JpegCoefficients> read_coefficients(const std::uint8_t *data, std::size_t size, std::int64_t max_pixels);

}  // namespace bushel
