// Bushel's own decoder of baseline JPEGs. It transforms only the blocks that a region needs, and skips segments
// (between two restart markers) without such blocks. Progressive JPEGs have a decoder of their own
// (progressive_decoder.hpp). Other JPEGs, and damaged ones, are left to libjpeg (libjpeg_decoder.hpp). The pixels of
// all decoders are equal.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/image.hpp"
#include "jpeg/header.hpp"
#include "jpeg/orientation.hpp"
#include "jpeg/seek.hpp"

namespace bushel {

class ScanDecoder;

class BaselineDecoder {
public:
    BaselineDecoder();
    ~BaselineDecoder();

    // Decode a region, in pixels at 1/scale of the image's size, to 3 channels, or to 1 (the luma), band by band of its
    // rows. With a seek table that is not empty, begin at its states, and read no bytes outside `seek_ranges`. Return
    // false if libjpeg has to decode the image, or if the table does not belong to it; some rows may have been written.
    bool read(const std::uint8_t *data, std::size_t size, const JpegHeader &header, const SeekTable &table,
              const Region &region, int scale, int channels, const ImageRows &out);

    // Return a seek table with states about `pixels` apart; empty if the image cannot have one, or is damaged.
    std::vector<std::uint64_t> make_seek_table(const std::uint8_t *data, std::size_t size, const JpegHeader &header,
                                               int pixels);

private:
    std::unique_ptr<ScanDecoder> state_;
};

}  // namespace bushel
