// A libFuzzer target for the JPEG decoders (scripts/fuzz_jpeg.sh). The last bytes of an input choose the crop, the
// options and the seek table. The result is compared with that of libjpeg alone.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "common/exceptions.hpp"
#include "jpeg/crop.hpp"
#include "jpeg/encode.hpp"
#include "jpeg/plan.hpp"
#include "jpeg/seek.hpp"

namespace {

using namespace bushel;

struct Outcome {
    std::vector<std::uint8_t> pixels;
    std::string error;  // empty when there is none
};

Outcome outcome(JpegDecoders &decoders, const std::vector<std::uint8_t> &image, const Geometry &geometry,
                const JpegOptions &options, OutputImage out, const std::vector<std::uint8_t> &table = {}) {
    Outcome found;
    found.pixels.resize(out.bytes());
    out.data = found.pixels.data();
    try {
        decode_crop(decoders, image.data(), image.size(), geometry, options, out,
                    SeekTable(table.data(), table.size()));
    } catch (const JpegError &error) {
        found.error = error.message.empty() ? "(nothing)" : error.message;
    }
    return found;
}

[[noreturn]] void fail(const char *what, const std::string &detail) {
    std::fprintf(stderr, "%s %s\n", what, detail.c_str());
    std::abort();
}

// An image that libjpeg alone decodes must be decoded, to the same pixels. With tolerated damage, pixels may differ:
// the baseline decoder does not read segments outside the crop, with which libjpeg may resynchronise differently. For
// the same reason it may succeed where libjpeg alone fails.
void compare(JpegDecoders &decoders, const std::vector<std::uint8_t> &image, const Geometry &geometry,
             const JpegOptions &options, const OutputImage &out, const std::vector<std::uint8_t> &table = {}) {
    JpegOptions alone = options;
    alone.libjpeg = true;
    const Outcome found = outcome(decoders, image, geometry, options, out, table);
    const Outcome expected = outcome(decoders, image, geometry, alone, out);
    if (!expected.error.empty()) return;
    if (!found.error.empty()) fail("only libjpeg alone decodes it:", found.error);
    if (!options.tolerant && found.pixels != expected.pixels) fail("libjpeg alone decodes", "other pixels");
}

// Decode the whole image, with and without its seek table: the same pixels as libjpeg's, or the same error.
void compare_all(JpegDecoders &decoders, const std::vector<std::uint8_t> &image, const JpegHeader &header,
                 const JpegOptions &options, const std::vector<std::uint8_t> &table) {
    const int channels = header.components == 1 ? 1 : 3;
    const auto decoded = [&](bool libjpeg, const std::vector<std::uint8_t> &states) {
        JpegOptions chosen = options;
        chosen.libjpeg = libjpeg;
        Outcome found;
        found.pixels.resize(static_cast<std::size_t>(header.width) * static_cast<std::size_t>(header.height) *
                            static_cast<std::size_t>(channels));
        try {
            decode_all(decoders, image.data(), image.size(), header, channels, chosen, found.pixels.data(),
                       SeekTable(states.data(), states.size()));
        } catch (const JpegError &error) {
            found.error = error.message.empty() ? "(nothing)" : error.message;
        }
        return found;
    };
    const Outcome expected = decoded(true, {});
    for (const std::vector<std::uint8_t> &states : {std::vector<std::uint8_t>(), table}) {
        const Outcome found = decoded(false, states);
        if (found.error != expected.error) fail("whole image:", found.error + ", libjpeg alone: " + expected.error);
        if (found.error.empty() && found.pixels != expected.pixels) fail("whole image:", "other pixels");
    }
}

// Return the same table with a word per state, as tables were made first.
std::vector<std::uint64_t> older(const std::vector<std::uint64_t> &packed, const SeekStates &states) {
    std::vector<std::uint64_t> words{packed[0] & ~(std::uint64_t{1} << 31)};
    for (int number = 1; number <= states.last(); ++number) words.push_back(states[number].word());
    return words;
}

// Decode with the image's own seek table, with one that differs from it in a byte, and with one made of any bytes.
void try_tables(JpegDecoders &decoders, const std::vector<std::uint8_t> &image, const JpegHeader &header,
                const Geometry &geometry, const JpegOptions &options, const OutputImage &out,
                const std::uint8_t *choice) {
    std::vector<std::uint64_t> words =
        decoders.baseline.make_seek_table(image.data(), image.size(), header, 8 << choice[0] % 5);
    if (words.empty()) return;
    SeekStates states;
    const SeekTable made(reinterpret_cast<const std::uint8_t *>(words.data()), words.size() * sizeof words[0]);
    if (!states.read(made, header, image.size())) fail("unread:", "the table");
    if (choice[0] & 128) words = older(words, states);
    std::vector<std::uint8_t> table(words.size() * sizeof words[0]);
    std::memcpy(table.data(), words.data(), table.size());
    compare(decoders, image, geometry, options, out, table);
    outcome(decoders, image, geometry, options, out, table);
    if (decoders.refused_table) fail("refused:", "the table of the image");
    const Region all{0, 0, header.width, header.height};
    seek_ranges(states, header, image.size(), plan_region(header, all, 1, 3).mcus);

    compare_all(decoders, image, header, options, table);

    table[(choice[1] | choice[2] << 8) % table.size()] ^= choice[3];
    compare(decoders, image, geometry, options, out, table);
    // Several changes can make states that fit each other, and other levels: nothing but memory is checked.
    for (std::size_t i = sizeof words[0]; i < table.size(); i += 1 + choice[1] % 16) {
        table[i] ^= static_cast<std::uint8_t>(image[(i * 31 + choice[2]) % image.size()] & choice[3]);
    }
    const std::vector<std::uint8_t> shorter(table.begin(), table.end() - choice[0] % 3);
    outcome(decoders, image, geometry, options, out, shorter);
    const std::vector<std::uint8_t> any(image.end() - static_cast<std::ptrdiff_t>(std::min(table.size(), image.size())),
                                        image.end());
    outcome(decoders, image, geometry, options, out, any);
    std::vector<std::uint8_t> damaged = image;
    damaged[header.data_offset + (choice[1] | choice[2] << 8) % (image.size() - header.data_offset)] ^= choice[3];
    std::memcpy(table.data(), words.data(), table.size());
    outcome(decoders, damaged, geometry, options, out, table);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    constexpr std::size_t choices = 12;
    if (size < choices) return 0;
    size -= choices;
    const std::uint8_t *choice = data + size;
    const std::vector<std::uint8_t> image(data,
                                          data + size);  // a copy, so that AddressSanitizer sees reads beyond its end

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
        compare_all(decoders, image, header, options, {});
        try_tables(decoders, image, header, geometry, options, out, choice + 8);
    } catch (const JpegError &) {
    }
    return 0;
}
