#include "scans/image_headers.hpp"

#include <cstring>

#include "common/exceptions.hpp"
#include "jpeg/header.hpp"

namespace bushel {

namespace {

constexpr std::uint8_t png_signature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
constexpr std::size_t chunk_overhead = 12;  // length, type and CRC-32
constexpr int most_chunks = 64;             // before the pixels

std::uint32_t big32(const std::uint8_t *bytes) {
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

bool is_type(const std::uint8_t *chunk, const char *type) { return std::memcmp(chunk + 4, type, 4) == 0; }

// Whether the pixels begin before any chunk with Exif data. Each chunk is a length, a type, the data and a CRC-32.
bool has_plain_chunks(const std::uint8_t *data, std::size_t size) {
    std::size_t at = sizeof png_signature;
    for (int number = 0; number < most_chunks && size - at >= chunk_overhead; ++number) {
        if (is_type(data + at, "IDAT")) return true;
        if (is_type(data + at, "eXIf")) return false;
        const std::size_t length = big32(data + at);
        if (length > size - at - chunk_overhead) return false;
        at += length + chunk_overhead;
    }
    return false;
}

ImageHeader read_png(const std::uint8_t *data, std::size_t size) {
    constexpr std::size_t header_end = sizeof png_signature + 8 + 13;
    if (size < header_end || big32(data + 8) != 13 || !is_type(data + 8, "IHDR")) return {};
    const std::uint8_t *header = data + 16;
    const std::uint32_t width = big32(header), height = big32(header + 4);
    if (width == 0 || height == 0 || width > 0x7FFFFFFF || height > 0x7FFFFFFF) return {};
    ImageHeader image;
    switch (header[9]) {  // colour type; 3 is a palette, whose transparency decides the number of channels
        case 0:
            image.channels = 1;
            break;
        case 2:
            image.channels = 3;
            break;
        case 4:
            image.channels = 2;
            break;
        case 6:
            image.channels = 4;
            break;
        default:
            return {};
    }
    if (!has_plain_chunks(data, size)) return {};
    image.format = ImageHeader::png;
    image.width = static_cast<std::int32_t>(width), image.height = static_cast<std::int32_t>(height);
    return image;
}

}  // namespace

ImageHeader read_image_header(const std::uint8_t *data, std::size_t size) {
    if (size >= sizeof png_signature && std::memcmp(data, png_signature, sizeof png_signature) == 0)
        return read_png(data, size);
    if (size < 2 || data[0] != 0xFF || data[1] != SOI) return {};
    try {
        const JpegHeader header = read_jpeg_header(data, size);
        ImageHeader image;
        image.format = ImageHeader::jpeg;
        image.width = header.width, image.height = header.height;
        image.channels = header.components == 1 ? 1 : 3;
        image.orientation = header.orientation;
        return image;
    } catch (const JpegError &) {  // damaged, or of a kind that decoding refuses too
        return {};
    }
}

}  // namespace bushel
