// The tables of a baseline JPEG (ITU T.81 annex B), as jpeg_baseline.hpp decodes it.
#pragma once
#include <cstddef>
#include <cstdint>

#include "jpeg_header.hpp"

namespace bushel {

// A Huffman code as the file gives it: how many codes there are of each length from 1 to 16, then their symbols.
struct HuffmanSpec {
    const std::uint8_t *data = nullptr;
    std::size_t size = 0;
};

struct ScanComponent {
    int across = 1, down = 1;         // sampling factors
    const std::uint8_t *quantisers;   // 64 of them, in zigzag order
    HuffmanSpec dc, ac;
};

struct JpegTables {
    int components = 0;
    ScanComponent component[3];
};

// Reads the tables of an image of the usual kind: 8 bits, Huffman-coded in one sequential scan, grey or YCbCr with
// chroma of full size, of half the width, or of half the width and height. False for any other, and for a header of
// which libjpeg would warn. The tables point into the data.
bool read_tables(const std::uint8_t *data, const JpegHeader &header, JpegTables &tables);

}  // namespace bushel
