// Decoding a crop of a JPEG, resizing it and writing it to a batch array, without work on pixels outside the crop.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/memory.hpp"
#include "jpeg/baseline_decoder.hpp"
#include "jpeg/header.hpp"
#include "jpeg/libjpeg_decoder.hpp"
#include "jpeg/orientation.hpp"
#include "jpeg/progressive_decoder.hpp"
#include "jpeg/seek.hpp"
#include "resize/batch_output.hpp"
#include "resize/resize.hpp"

namespace bushel {

// A box of an image, the size that it is resized to, and the part of the result that is wanted: it begins at `left`,
// `top`, has the size of the output, and is flipped.
struct Geometry {
    Region box;
    int width = 0, height = 0;
    int left = 0, top = 0;
    bool flip_x = false, flip_y = false;  // from left to right, from top to bottom
};

struct JpegOptions {
    double reducing_gap = 0;  // scale the inverse DCT while the box stays at least this many times the output; 0: never
    bool orient = false;      // apply the Exif orientation before everything else
    bool tolerant = false;    // decode despite libjpeg's warnings
    bool libjpeg = false;     // do not use Bushel's own decoders
    bool fast = false;        // a less accurate inverse DCT; not for crops
    std::int64_t max_pixels = 0;
};

// The decoders of a thread, used for one image after another.
struct JpegDecoders {
    BaselineDecoder baseline;
    std::unique_ptr<ProgressiveDecoder> progressive;  // made for the first progressive image
    LibjpegDecoder libjpeg;
    Buffer pixels;
    bool refused_table = false;  // whether the last image had a seek table that is not its own
};

// Return the header of an image that can be decoded: with 1, 3 or 4 components, at most `max_pixels`, and (unless
// tolerant) enough bytes for them. Throws JpegError.
JpegHeader check_jpeg(const std::uint8_t *data, std::size_t size, const JpegOptions &options);

// Return why a geometry is invalid for an image of the given size; empty if it is valid.
std::string geometry_problem(const Geometry &geometry, int width, int height, const OutputImage &out);

// Decode a whole image, upright if the options say so, into rows without gaps. The seek table may be empty.
void decode_all(JpegDecoders &decoders, const std::uint8_t *data, std::size_t size, const JpegHeader &header,
                int channels, const JpegOptions &options, std::uint8_t *out, const SeekTable &table = {});

void decode_crop(JpegDecoders &decoders, const std::uint8_t *data, std::size_t size, const Geometry &geometry,
                 const JpegOptions &options, const OutputImage &out, const SeekTable &table = {});

// Do the same for an image that is decoded already. The geometry must be valid.
void resize_crop(const Pixels &pixels, const Geometry &geometry, const OutputImage &out);

}  // namespace bushel
