// A JPEG's crop, decoded, resized and written to its slot, with no work on pixels that do not matter.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "buffer.hpp"
#include "jpeg_baseline.hpp"
#include "jpeg_decoder.hpp"
#include "jpeg_header.hpp"
#include "resize.hpp"
#include "slot.hpp"

namespace bushel {

// What of an image is wanted: `box` of it, resized to `width` x `height`, of which the slot takes the part that begins
// at `left`, `top`, mirrored.
struct Geometry {
    Region box;
    int width = 0, height = 0;
    int left = 0, top = 0;
    bool flip_across = false, flip_down = false;
};

struct JpegOptions {
    double reducing_gap = 0;  // scale the inverse DCT as long as the box stays so many times the output; 0: never
    bool orient = false;      // turn and mirror as the Exif orientation says, before everything else
    bool tolerant = false;
    bool libjpeg = false;     // by libjpeg alone, also what BaselineDecoder takes
    bool fast = false;        // with less accuracy; not for crops
    std::int64_t most_pixels = 0;
};

// What a thread decodes with, image after image.
struct JpegDecoders {
    BaselineDecoder baseline;
    JpegDecoder any;
    Buffer pixels;
};

// The header, when the image is one that is decoded: its number of components, at most so many pixels, and enough bytes
// for them (unless tolerant). Throws JpegFault.
JpegHeader check_jpeg(const std::uint8_t *data, std::size_t size, const JpegOptions &options);

// What is wrong with the geometry for an image of that size and that slot; empty when nothing is.
std::string geometry_problem(const Geometry &geometry, int width, int height, const Slot &slot);

// Decodes all of an image of that header, as it is stored, into rows without gaps.
void decode_all(JpegDecoders &decoders, const std::uint8_t *data, std::size_t size, const JpegHeader &header,
                int channels, const JpegOptions &options, std::uint8_t *out);

void decode_crop(JpegDecoders &decoders, const std::uint8_t *data, std::size_t size, const Geometry &geometry,
                 const JpegOptions &options, const Slot &slot);

// The same last steps for pixels that are there already. The geometry must be right.
void resize_crop(const Pixels &pixels, const Geometry &geometry, const Slot &slot);

}  // namespace bushel
