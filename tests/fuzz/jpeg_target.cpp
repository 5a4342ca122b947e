// A libFuzzer target for the decoding of JPEGs: cmake -DBUSHEL_FUZZ=ON, with clang. The last bytes of an input choose
// what is asked of the decoder. What it decodes is compared with what libjpeg makes of it alone.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "faults.hpp"
#include "jpeg_crop.hpp"
#include "jpeg_transcode.hpp"

namespace {

using namespace bushel;

struct Outcome {
    std::vector<std::uint8_t> pixels;
    std::string fault;  // empty when there is none
};

Outcome outcome(JpegDecoders &decoders, const std::vector<std::uint8_t> &image, const Geometry &geometry,
                const JpegOptions &options, Slot slot) {
    Outcome found;
    found.pixels.resize(slot.bytes());
    slot.data = found.pixels.data();
    try {
        decode_crop(decoders, image.data(), image.size(), geometry, options, slot);
    } catch (const JpegFault &fault) {
        found.fault = fault.message.empty() ? "(nothing)" : fault.message;
    }
    return found;
}

[[noreturn]] void fail(const char *what, const std::string &detail) {
    std::fprintf(stderr, "%s %s\n", what, detail.c_str());
    std::abort();
}

// What libjpeg decodes is decoded. The pixels are the same, but for damage that libjpeg is told to tolerate: the decoder
// of jpeg_baseline.hpp does not look at segments beside the crop, from which libjpeg may resynchronise differently. For
// the same reason it may succeed where libjpeg alone fails.
void compare(JpegDecoders &decoders, const std::vector<std::uint8_t> &image, const Geometry &geometry,
             const JpegOptions &options, const Slot &slot) {
    JpegOptions alone = options;
    alone.libjpeg = true;
    const Outcome found = outcome(decoders, image, geometry, options, slot);
    const Outcome expected = outcome(decoders, image, geometry, alone, slot);
    if (!expected.fault.empty()) return;
    if (!found.fault.empty()) fail("only libjpeg alone decodes it:", found.fault);
    if (!options.tolerant && found.pixels != expected.pixels) fail("libjpeg alone decodes", "other pixels");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    constexpr std::size_t choices = 8;
    if (size < choices) return 0;
    size -= choices;
    const std::uint8_t *choice = data + size;
    const std::vector<std::uint8_t> image(data, data + size);  // so that a byte too far is seen

    static JpegDecoders decoders;
    JpegOptions options;
    options.orient = choice[0] & 1, options.tolerant = choice[0] & 2;
    options.reducing_gap = choice[0] & 4 ? 2 : 0;
    options.most_pixels = 1 << 20;
    Slot slot;
    slot.width = choice[1] % 64 + 1, slot.height = choice[2] % 64 + 1;
    slot.channels = choice[0] & 8 ? 1 : 3;
    slot.planar = choice[0] & 16;
    try {
        const JpegHeader header = check_jpeg(image.data(), image.size(), options);
        const bool turned = options.orient && header.orientation >= 5;
        const int width = turned ? header.height : header.width, height = turned ? header.width : header.height;
        Geometry geometry;
        geometry.box.left = width * choice[3] / 256, geometry.box.top = height * choice[4] / 256;
        geometry.box.right = geometry.box.left + 1 + (width - geometry.box.left - 1) * choice[5] / 255;
        geometry.box.bottom = geometry.box.top + 1 + (height - geometry.box.top - 1) * choice[6] / 255;
        geometry.width = slot.width + choice[7] % 16, geometry.height = slot.height + choice[7] / 16;
        geometry.left = choice[7] % 16 / 2, geometry.top = choice[7] / 32;
        geometry.flip_across = choice[0] & 32, geometry.flip_down = choice[0] & 64;
        if (choice[0] & 128) {  // from what is stored to what is tiled to pixels
            const std::vector<std::uint8_t> tiled =
                tile_jpeg(image.data(), image.size(), choice[7] & 1, options.most_pixels);
            compare(decoders, tiled, geometry, options, slot);
        }
        compare(decoders, image, geometry, options, slot);
    } catch (const JpegFault &) {
    }
    return 0;
}
