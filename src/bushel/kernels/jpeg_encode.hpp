// Encode images as baseline JPEGs.
#pragma once
#include <cstdint>
#include <vector>

namespace bushel {

struct JpegEncoding {
    int quality = 95;          // 1 to 100
    int across = 2, down = 2;  // pixels that share their colour: 1 or 2
    bool fast = false;         // a less accurate DCT
};

// Interleaved 8-bit pixels, grey or RGB, as JPEG with the standard Huffman tables. Throws JpegFault.
std::vector<std::uint8_t> encode_jpeg(const std::uint8_t *pixels, int width, int height, int channels,
                                      const JpegEncoding &encoding);

}  // namespace bushel
