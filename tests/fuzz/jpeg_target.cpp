// A libFuzzer target for the JPEG decoders (scripts/fuzz_jpeg.sh). The last bytes of an input choose the crop and the
// options. The result is compared with that of libjpeg alone.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/exceptions.hpp"
#include "jpeg/crop.hpp"
#include "jpeg/encode.hpp"

namespace {

using namespace bushel;

struct Outcome {
    std::vector<std::uint8_t> pixels;
    std::string error;  // empty when there is none
};

Outcome outcome(JpegDecoders &decoders, const std::vector<std::uint8_t> &image, const Geometry &geometry,
                const JpegOptions &options, OutputImage out) {
    Outcome found;
    found.pixels.resize(out.bytes());
    out.data = found.pixels.data();
    try {
        decode_crop(decoders, image.data(), image.size(), geometry, options, out);
    } catch (const JpegError &error) {
        found.error = error.message.empty() ? "(nothing)" : error.message;
    }
    return found;
}

[[noreturn]] void fail(const char *what, const std::string &detail) {
    std::fprintf(stderr, "%s %s\n", what, detail.c_str());
    std::abort();
}

// An image that libjpeg alone decodes must be decoded, to the same pixels. With tolerated damage, pixels may differ: the
// baseline decoder does not read segments outside the crop, with which libjpeg may resynchronise differently. For the
// same reason it may succeed where libjpeg alone fails.
void compare(JpegDecoders &decoders, const std::vector<std::uint8_t> &image, const Geometry &geometry,
             const JpegOptions &options, const OutputImage &out) {
    JpegOptions alone = options;
    alone.libjpeg = true;
    const Outcome found = outcome(decoders, image, geometry, options, out);
    const Outcome expected = outcome(decoders, image, geometry, alone, out);
    if (!expected.error.empty()) return;
    if (!found.error.empty()) fail("only libjpeg alone decodes it:", found.error);
    if (!options.tolerant && found.pixels != expected.pixels) fail("libjpeg alone decodes", "other pixels");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    constexpr std::size_t choices = 8;
    if (size < choices) return 0;
    size -= choices;
    const std::uint8_t *choice = data + size;
    const std::vector<std::uint8_t> image(data, data + size);  // a copy, so that AddressSanitizer sees reads beyond its end

    static JpegDecoders decoders;
    JpegOptions options;
    options.orient = choice[0] & 1, options.tolerant = choice[0] & 2;
    options.reducing_gap = choice[0] & 4 ? 2 : 0;
    options.max_pixels = 1 << 20;
    OutputImage out;
    out.width = choice[1] % 64 + 1, out.height = choice[2] % 64 + 1;
    out.channels = choice[0] & 8 ? 1 : 3;
    out.channels_first = choice[0] & 16;
    try {
        const JpegHeader header = check_jpeg(image.data(), image.size(), options);
        const bool turned = options.orient && header.orientation >= 5;
        const int width = turned ? header.height : header.width, height = turned ? header.width : header.height;
        Geometry geometry;
        geometry.box.left = width * choice[3] / 256, geometry.box.top = height * choice[4] / 256;
        geometry.box.right = geometry.box.left + 1 + (width - geometry.box.left - 1) * choice[5] / 255;
        geometry.box.bottom = geometry.box.top + 1 + (height - geometry.box.top - 1) * choice[6] / 255;
        geometry.width = out.width + choice[7] % 16, geometry.height = out.height + choice[7] / 16;
        geometry.left = choice[7] % 16 / 2, geometry.top = choice[7] / 32;
        geometry.flip_x = choice[0] & 32, geometry.flip_y = choice[0] & 64;
        if (choice[0] & 128) {  // also tile the image, and decode the result
            const std::vector<std::uint8_t> tiled =
                tile_jpeg(image.data(), image.size(), choice[7] & 1, options.max_pixels);
            compare(decoders, tiled, geometry, options, out);
        }
        compare(decoders, image, geometry, options, out);
    } catch (const JpegError &) {
    }
    return 0;
}
