// The parser of JPEG headers: all marker segments before the entropy-coded data of the first scan (ITU T.81 annex B;
// orientation: Exif 2.32). Every decoder, splice and transcode of the kernels goes by its result.
#pragma once
#include <cstddef>
#include <cstdint>

namespace bushel {

constexpr int SOF0 = 0xC0, SOF1 = 0xC1, SOF2 = 0xC2, DHT = 0xC4, RST0 = 0xD0, SOI = 0xD8, EOI = 0xD9, SOS = 0xDA,
              DQT = 0xDB, DRI = 0xDD, APP0 = 0xE0, APP1 = 0xE1, APP14 = 0xEE, APP15 = 0xEF, COM = 0xFE;

inline bool is_restart(int marker) { return marker >= RST0 && marker < RST0 + 8; }

// Whether a header segment does not affect the pixels: Exif, colour profiles, comments and the like.
inline bool is_metadata(int marker) {
    return marker == COM || (marker >= APP1 && marker <= APP15 && marker != APP14);
}

// A marker segment: FF, the marker, two bytes of length, the payload.
struct JpegSegment {
    int marker = 0;
    std::size_t offset = 0;    // of the FF
    std::size_t payload = 0;   // offset of the payload
    std::size_t size = 0;      // bytes of the payload
    bool after_stray = false;  // bytes or markers without meaning precede it, and libjpeg would warn of them

    std::size_t end() const { return payload + size; }
};

// Return the first marker segment at or after `offset`. Throws JpegError.
JpegSegment next_segment(const std::uint8_t *data, std::size_t size, std::size_t offset);

// A Huffman table as the file holds it: the numbers of codes of 1 to 16 bits, then the symbols.
struct HuffmanSpec {
    const std::uint8_t *data = nullptr;
    std::size_t size = 0;
};

// The Huffman tables that a file has defined so far, by class and number.
struct HuffmanSpecs {
    HuffmanSpec dc[4], ac[4];

    // Take the tables of a DHT segment. Return false for one that libjpeg would refuse.
    bool take(const std::uint8_t *payload, std::size_t size);
};

// One component, and the tables that the first scan uses for it. Tables point into the file's bytes; missing ones are
// null, as are the Huffman tables of progressive files (progression.hpp).
struct JpegComponent {
    int id = 0;
    int h_samp_factor = 1, v_samp_factor = 1;
    int quant_tbl_no = 0;
    const std::uint8_t *quantisers = nullptr;  // 64, in zigzag order
    HuffmanSpec dc, ac;
};

struct JpegHeader {
    int width = 0, height = 0;
    int components = 0;
    JpegComponent component[4];
    int sof = 0;               // marker of the frame header: 0xC0 baseline, 0xC1 extended, 0xC2 progressive, ...
    int scan_components = 0;   // of the first scan
    int restart_interval = 0;  // MCUs; 0: no restart markers
    int orientation = 1;       // 1 to 8, as in Exif
    bool has_jfif = false;
    int adobe_transform = -1;  // colour transform of the APP14 segment: 0 none, 1 YCbCr, 2 YCCK; -1: no such segment
    bool is_regular = true;    // false if libjpeg would warn, or for segments and tables that usual files do not have
    std::size_t frame_offset = 0;  // of the payload of the frame header (precision, height, width, ...)
    std::size_t data_offset = 0;   // of the entropy-coded data of the first scan

    int max_h_samp_factor() const;
    int max_v_samp_factor() const;
    bool is_arithmetic() const { return sof >= 0xC9; }

    // Whether one scan, Huffman-coded and not progressive, has all components.
    bool is_sequential() const {
        return (sof == SOF0 || sof == SOF1) && scan_components == components && components <= 4;
    }

    // Whether three components are YCbCr by libjpeg's rules.
    bool is_ycbcr() const;
};

// Parse a header up to and including the header of the first scan. Throws JpegError.
JpegHeader read_jpeg_header(const std::uint8_t *data, std::size_t size);

}  // namespace bushel
