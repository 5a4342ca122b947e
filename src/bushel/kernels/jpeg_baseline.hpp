// The fast way through a JPEG of the usual kind: only the blocks that a region needs are transformed, and of segments
// (between two restart markers) that hold none of them not even a bit is read. Any other JPEG, and one with anything
// wrong, is left to libjpeg (jpeg_decoder.hpp), to which the result is equal level by level.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "jpeg_header.hpp"
#include "region.hpp"

namespace bushel {

class BaselineDecoder {
public:
    BaselineDecoder();
    ~BaselineDecoder();

    // Decodes a region, in pixels at 1/scale of the size, to so many channels (3 to 1: the luma) into rows that lie
    // `stride` bytes apart. False where libjpeg has to do it.
    bool read(const std::uint8_t *data, std::size_t size, const JpegHeader &header, const Region &region, int scale,
              int channels, std::uint8_t *out, std::size_t stride);

private:
    struct Work;

    std::unique_ptr<Work> work_;
};

}  // namespace bushel
