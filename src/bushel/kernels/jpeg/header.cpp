#include "jpeg/header.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "common/exceptions.hpp"

namespace bushel {

namespace {

constexpr int max_tables = 4;  // of each kind

unsigned big16(const std::uint8_t *bytes) { return static_cast<unsigned>(bytes[0]) << 8 | bytes[1]; }

std::string hex(int marker) {
    char text[8];
    std::snprintf(text, sizeof text, "0x%02X", static_cast<unsigned>(marker));
    return text;
}

// A TIFF structure, read in its own byte order.
class Tiff {
public:
    Tiff(const std::uint8_t *data, std::size_t size) : data_(data), size_(size) {}

    // The value of the orientation tag in the first directory; 1 if it is missing or invalid.
    int orientation() const {
        if (!has(0, 8) || !(is("II") || is("MM"))) return 1;
        const std::size_t directory = number(4, 4);
        if (!has(directory, 2)) return 1;
        const std::size_t entries = number(directory, 2);
        for (std::size_t entry = 0; entry < entries; ++entry) {
            const std::size_t offset = directory + 2 + entry * 12;
            if (!has(offset, 12)) return 1;
            constexpr std::size_t orientation_tag = 0x0112, short_type = 3;
            if (number(offset, 2) != orientation_tag) continue;
            const std::size_t value = number(offset + 8, 2);
            return number(offset + 2, 2) == short_type && value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
        }
        return 1;
    }

private:
    bool is(const char *order) const { return std::memcmp(data_, order, 2) == 0; }
    bool has(std::size_t offset, std::size_t length) const { return offset <= size_ && length <= size_ - offset; }

    std::size_t number(std::size_t offset, std::size_t length) const {
        std::size_t value = 0;
        const bool little = data_[0] == 'I';
        for (std::size_t i = 0; i < length; ++i) value = value << 8 | data_[offset + (little ? length - 1 - i : i)];
        return value;
    }

    const std::uint8_t *data_;
    std::size_t size_;
};

bool is_sof(int marker) {
    return marker >= SOF0 && marker <= 0xCF && marker != DHT && marker != 0xC8 && marker != 0xCC;
}

bool starts_with(const std::uint8_t *payload, std::size_t size, const char *name, std::size_t length) {
    return size >= length && std::memcmp(payload, name, length) == 0;
}

// Fills a header, segment by segment.
class Parser {
public:
    explicit Parser(const std::uint8_t *data) : data_(data) {}

    // Take a segment. Return whether it was the header of the first scan.
    bool take(const JpegSegment &segment) {
        const std::uint8_t *payload = data_ + segment.payload;
        const std::size_t size = segment.size;
        bool regular = !segment.after_stray;
        switch (segment.marker) {
            case DQT:
                regular &= read_quantisers(payload, size);
                break;
            case DHT:
                regular &= huffman_.take(payload, size);
                break;
            case DRI:
                if (size == 2) header.restart_interval = static_cast<int>(big16(payload));
                regular &= size == 2;
                break;
            case APP0:
                regular &= read_jfif(payload, size);
                break;
            case APP1:
                read_exif(payload, size);
                break;
            case APP14:
                regular &= read_adobe(payload, size);
                break;
            case SOS:
                if (!header.sof) throw JpegError("its first scan comes before the frame header");
                regular &= read_scan(payload, size);
                header.data_offset = segment.end();
                break;
            default:
                if (is_sof(segment.marker)) {
                    if (header.sof) throw JpegError("it has two frame headers");
                    header.frame_offset = segment.payload;
                    regular &= read_frame(segment.marker, payload, size);
                } else {
                    regular &= segment.marker == COM || (segment.marker > APP0 && segment.marker <= APP15);
                }
        }
        header.is_regular &= regular;
        return segment.marker == SOS;
    }

    JpegHeader header;

private:
    bool read_frame(int marker, const std::uint8_t *payload, std::size_t size) {
        if (size < 6 || size < 6 + 3 * std::size_t{payload[5]}) throw JpegError("its frame header is truncated");
        header.sof = marker;
        header.height = static_cast<int>(big16(payload + 1));
        header.width = static_cast<int>(big16(payload + 3));
        header.components = payload[5];
        if (payload[0] != 8) {
            throw JpegError("it has " + std::to_string(payload[0]) + " bits per sample, 8 are supported");
        }
        if (header.width == 0 || header.height == 0) {
            throw JpegError("its size is " + std::to_string(header.width) + "x" + std::to_string(header.height));
        }
        for (int i = 0; i < std::min(header.components, 4); ++i) {
            const std::uint8_t *fields = payload + 6 + 3 * i;
            JpegComponent &component = header.component[i];
            component.id = fields[0];
            component.h_samp_factor = fields[1] >> 4, component.v_samp_factor = fields[1] & 15;
            component.quant_tbl_no = fields[2];
            if (component.h_samp_factor < 1 || component.h_samp_factor > 4 || component.v_samp_factor < 1 ||
                component.v_samp_factor > 4) {
                throw JpegError("its sampling factors are " + std::to_string(component.h_samp_factor) + "x" +
                                std::to_string(component.v_samp_factor) + ", 1 to 4 are allowed");
            }
        }
        return size == 6 + 3 * std::size_t{payload[5]};
    }

    // The tables of the components, if the scan has all of them, in the order of the frame, and all coefficients. For a
    // progressive file, whose first scan has few coefficients: the quantisers.
    bool read_scan(const std::uint8_t *payload, std::size_t size) {
        header.scan_components = size > 0 ? payload[0] : 0;
        const auto count = static_cast<std::size_t>(header.components);
        if (count > 4 || !find_quantisers()) return false;
        if (header.sof == SOF2) return true;
        if (header.scan_components != header.components || size != 4 + 2 * count) return false;
        const std::uint8_t *selection = payload + 1 + 2 * count;  // Ss, Se, Ah and Al
        if (selection[0] != 0 || selection[1] != 63 || selection[2] != 0) return false;
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint8_t *fields = payload + 1 + 2 * i;
            JpegComponent &component = header.component[i];
            const int dc = fields[1] >> 4, ac = fields[1] & 15;
            if (component.id != fields[0] || dc >= max_tables || ac >= max_tables) return false;
            component.dc = huffman_.dc[dc], component.ac = huffman_.ac[ac];
            if (!component.dc.data || !component.ac.data) return false;
        }
        return true;
    }

    bool find_quantisers() {
        for (int i = 0; i < header.components; ++i) {
            JpegComponent &component = header.component[i];
            if (component.quant_tbl_no >= max_tables) return false;
            component.quantisers = quantisers_[component.quant_tbl_no];
            if (!component.quantisers) return false;
        }
        return true;
    }

    bool read_quantisers(const std::uint8_t *payload, std::size_t size) {
        constexpr std::size_t table_size = 65;
        if (size % table_size) return false;
        for (; size > 0; payload += table_size, size -= table_size) {
            if (payload[0] >= max_tables) return false;  // or 16-bit values, whose products could overflow
            quantisers_[payload[0]] = payload + 1;
        }
        return true;
    }

    bool read_jfif(const std::uint8_t *payload, std::size_t size) {
        if (size < 14 || !starts_with(payload, size, "JFIF", 5)) return true;
        header.has_jfif = true;
        return payload[5] == 1;  // the major version
    }

    void read_exif(const std::uint8_t *payload, std::size_t size) {
        if (has_exif_ || size <= 6 || !starts_with(payload, size, "Exif\0\0", 6)) return;
        header.orientation = Tiff(payload + 6, size - 6).orientation();
        has_exif_ = true;
    }

    bool read_adobe(const std::uint8_t *payload, std::size_t size) {
        if (size < 12 || !starts_with(payload, size, "Adobe", 5)) return true;
        header.adobe_transform = payload[11];
        return header.adobe_transform <= 1;
    }

    const std::uint8_t *data_;
    const std::uint8_t *quantisers_[max_tables] = {};
    HuffmanSpecs huffman_;
    bool has_exif_ = false;
};

}  // namespace

bool HuffmanSpecs::take(const std::uint8_t *payload, std::size_t size) {
    constexpr std::size_t lengths = 16;
    while (size > 0) {
        if (size < 1 + lengths) return false;
        const int number = payload[0] & 15, kind = payload[0] >> 4;
        std::size_t symbols = 0;
        for (std::size_t i = 1; i <= lengths; ++i) symbols += payload[i];
        const std::size_t spec_size = lengths + symbols;
        if (number >= max_tables || kind > 1 || symbols > 256 || spec_size > size - 1) return false;
        (kind ? ac : dc)[number] = {payload + 1, spec_size};
        payload += 1 + spec_size, size -= 1 + spec_size;
    }
    return true;
}

int JpegHeader::max_h_samp_factor() const {
    int largest = 1;
    for (int i = 0; i < std::min(components, 4); ++i) largest = std::max(largest, component[i].h_samp_factor);
    return largest;
}

int JpegHeader::max_v_samp_factor() const {
    int largest = 1;
    for (int i = 0; i < std::min(components, 4); ++i) largest = std::max(largest, component[i].v_samp_factor);
    return largest;
}

bool JpegHeader::is_ycbcr() const {
    if (has_jfif) return true;
    if (adobe_transform >= 0) return adobe_transform == 1;
    return !(component[0].id == 'R' && component[1].id == 'G' && component[2].id == 'B');
}

JpegSegment next_segment(const std::uint8_t *data, std::size_t size, std::size_t offset) {
    JpegSegment segment;
    while (true) {
        const std::size_t start = offset;
        while (offset < size && data[offset] != 0xFF) ++offset;  // libjpeg skips these bytes too, with a warning
        segment.after_stray |= offset != start;
        while (offset < size && data[offset] == 0xFF) ++offset;
        if (offset + 3 > size) throw JpegError("it ends before the header of the first scan");
        const int marker = data[offset++];
        if (marker == 0 || marker == 0x01 || is_restart(marker)) {  // without a segment, and without meaning here
            segment.after_stray = true;
            continue;
        }
        if (marker == SOI || marker == EOI) throw JpegError("marker " + hex(marker) + " comes before the first scan");
        const std::size_t length = big16(data + offset);
        if (length < 2 || length > size - offset) {
            throw JpegError("the segment of marker " + hex(marker) + " is truncated or has an invalid length");
        }
        segment.marker = marker;
        segment.offset = offset - 2, segment.payload = offset + 2, segment.size = length - 2;
        return segment;
    }
}

JpegHeader read_jpeg_header(const std::uint8_t *data, std::size_t size) {
    if (size < 2 || data[0] != 0xFF || data[1] != SOI) throw JpegError("it does not begin with FF D8");
    Parser parser(data);
    JpegSegment segment = next_segment(data, size, 2);
    while (!parser.take(segment)) segment = next_segment(data, size, segment.end());
    return parser.header;
}

}  // namespace bushel
