// The scans of a progressive JPEG (ITU T.81 annex G): which coefficients each of them has, and where its data are.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "jpeg/header.hpp"

namespace bushel {

struct ProgressiveScan {
    int components = 0;
    int component[3] = {};             // their numbers in the frame
    HuffmanSpec dc[3], ac;             // the tables of the first skip DC coefficients, and of AC coefficients
    int first = 0, last = 0;           // coefficients, in zigzag order (Ss and Se)
    bool refines = false;              // whether it adds a bit to coefficients that an earlier scan has (Ah)
    int shift = 0;                     // bits that later scans add (Al)
    int columns = 0, rows = 0;         // MCUs; blocks, if the scan has one component
    int interval = 0;                  // MCUs of a segment between two restart markers; all, without restart markers
    std::vector<std::size_t> offsets;  // of the segments, and of where another one would begin

    bool is_dc() const { return first == 0; }
};

// The most bits that later scans may add; encoders leave 1 to 3. So no coefficient that the decoder accepts overflows.
constexpr int max_shift = 4;

// Find all scans of an image that `is_usual_progressive`, up to the end of the image. Return none if libjpeg has to
// decode it: if libjpeg would warn of anything between the scans, if their order is not that of the standard, or if
// they leave out a bit of a coefficient (libjpeg smooths such images).
std::vector<ProgressiveScan> read_progression(const std::uint8_t *data, std::size_t size, const JpegHeader &header);

}  // namespace bushel
