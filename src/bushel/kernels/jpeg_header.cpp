#include "jpeg_header.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "faults.hpp"

namespace bushel {

namespace {

unsigned big16(const std::uint8_t *at) { return static_cast<unsigned>(at[0]) << 8 | at[1]; }

std::string hex(int marker) {
    char text[8];
    std::snprintf(text, sizeof text, "0x%02X", static_cast<unsigned>(marker));
    return text;
}

// Numbers of a TIFF structure, in its byte order.
class Tiff {
public:
    Tiff(const std::uint8_t *data, std::size_t size) : data_(data), size_(size) {}

    // The value of the orientation tag in the first directory, 1 when there is none.
    int orientation() const {
        if (!has(0, 8) || !(is("II") || is("MM"))) return 1;
        const std::size_t directory = number(4, 4);
        if (!has(directory, 2)) return 1;
        const std::size_t entries = number(directory, 2);
        for (std::size_t entry = 0; entry < entries; ++entry) {
            const std::size_t at = directory + 2 + entry * 12;
            if (!has(at, 12)) return 1;
            constexpr std::size_t orientation_tag = 0x0112, short_type = 3;
            if (number(at, 2) != orientation_tag) continue;
            const std::size_t value = number(at + 8, 2);
            return number(at + 2, 2) == short_type && value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
        }
        return 1;
    }

private:
    bool is(const char *order) const { return std::memcmp(data_, order, 2) == 0; }
    bool has(std::size_t at, std::size_t length) const { return at <= size_ && length <= size_ - at; }

    std::size_t number(std::size_t at, std::size_t length) const {
        std::size_t value = 0;
        const bool little = data_[0] == 'I';
        for (std::size_t i = 0; i < length; ++i) value = value << 8 | data_[at + (little ? length - 1 - i : i)];
        return value;
    }

    const std::uint8_t *data_;
    std::size_t size_;
};

bool is_frame(int marker) {
    return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

void read_frame(JpegHeader &header, int marker, const std::uint8_t *payload, std::size_t length) {
    if (length < 6 || length < 6 + 3 * std::size_t{payload[5]}) throw JpegFault("its frame header is cut short");
    header.process = marker;
    header.height = static_cast<int>(big16(payload + 1));
    header.width = static_cast<int>(big16(payload + 3));
    header.components = payload[5];
    if (payload[0] != 8) throw JpegFault("it has " + std::to_string(payload[0]) + " bits per sample, 8 are supported");
    if (header.width == 0 || header.height == 0) {
        throw JpegFault("its size is " + std::to_string(header.width) + "x" + std::to_string(header.height));
    }
    for (int i = 0; i < std::min(header.components, 4); ++i) {
        const int factors = payload[6 + 3 * i + 1];
        header.component[i] = {factors >> 4, factors & 15};
        if (factors >> 4 < 1 || factors >> 4 > 4 || (factors & 15) < 1 || (factors & 15) > 4) {
            throw JpegFault("its sampling factors are " + std::to_string(factors >> 4) + "x" +
                            std::to_string(factors & 15));
        }
    }
}

}  // namespace

int JpegHeader::most_across() const {
    int most = 1;
    for (int i = 0; i < std::min(components, 4); ++i) most = std::max(most, component[i].across);
    return most;
}

int JpegHeader::most_down() const {
    int most = 1;
    for (int i = 0; i < std::min(components, 4); ++i) most = std::max(most, component[i].down);
    return most;
}

JpegHeader read_jpeg_header(const std::uint8_t *data, std::size_t size) {
    if (size < 2 || data[0] != 0xFF || data[1] != 0xD8) throw JpegFault("it does not begin with FF D8");
    JpegHeader header;
    bool oriented = false;
    for (std::size_t at = 2;;) {
        while (at < size && data[at] != 0xFF) ++at;  // as libjpeg does, which then warns of it
        while (at < size && data[at] == 0xFF) ++at;
        if (at + 3 > size) throw JpegFault("it ends before the header of the first scan");
        const int marker = data[at++];
        if (marker == 0 || marker == 0x01 || (marker >= 0xD0 && marker <= 0xD7)) continue;
        if (marker == 0xD8 || marker == 0xD9) throw JpegFault("marker " + hex(marker) + " comes before the first scan");
        const std::size_t length = big16(data + at);
        if (length < 2 || length > size - at) {
            throw JpegFault("the segment of marker " + hex(marker) + " is cut short or has no valid length");
        }
        const std::uint8_t *payload = data + at + 2;
        const std::size_t bytes = length - 2;
        if (is_frame(marker)) {
            if (header.process) throw JpegFault("it has two frame headers");
            header.frame = at + 2;
            read_frame(header, marker, payload, bytes);
        } else if (marker == 0xDD && bytes == 2) {
            header.restart_interval = static_cast<int>(big16(payload));
        } else if (marker == 0xE1 && !oriented && bytes > 6 && std::memcmp(payload, "Exif\0\0", 6) == 0) {
            header.orientation = Tiff(payload + 6, bytes - 6).orientation();
            oriented = true;
        } else if (marker == 0xDA) {
            if (!header.process) throw JpegFault("its first scan comes before the frame header");
            header.scan_components = bytes > 0 ? payload[0] : 0;
            header.data = at + length;
            return header;
        }
        at += length;
    }
}

}  // namespace bushel
