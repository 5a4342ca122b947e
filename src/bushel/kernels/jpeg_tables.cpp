#include "jpeg_tables.hpp"

#include <cstring>

#include "jpeg_tiles.hpp"

namespace bushel {

namespace {

enum Marker : int { sof0 = 0xC0, sof1 = 0xC1, dht = 0xC4, sos = 0xDA, dqt = 0xDB, dri = 0xDD, app0 = 0xE0, app14 = 0xEE };

constexpr int tables_of_a_kind = 4;

struct Segment {
    const std::uint8_t *payload;
    std::size_t size;
};

// All that stands before the scan, as it is met.
class Reader {
public:
    bool read(const std::uint8_t *data, const JpegHeader &header) {
        for (std::size_t at = 2; at < header.data;) {
            if (data[at] != 0xFF) return false;  // bytes that belong to nothing
            while (data[at] == 0xFF) ++at;
            const int marker = data[at];
            const std::size_t length = static_cast<std::size_t>(data[at + 1]) << 8 | data[at + 2];
            if (!take(marker, {data + at + 3, length - 2})) return false;
            at += 1 + length;
        }
        return true;
    }

    // What the scan's components use, if it has them in the order of the frame.
    bool resolve(const JpegHeader &header, JpegTables &tables) const {
        const auto count = static_cast<std::size_t>(header.components);
        if (frame_.size != 6 + 3 * count || scan_.size != 4 + 2 * count) return false;
        const std::uint8_t *last = scan_.payload + 1 + 2 * count;
        if (last[0] != 0 || last[1] != 63 || last[2] != 0) return false;
        tables.components = header.components;
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint8_t *framed = frame_.payload + 6 + 3 * i, *scanned = scan_.payload + 1 + 2 * i;
            const int quantisers = framed[2], dc = scanned[1] >> 4, ac = scanned[1] & 15;
            if (framed[0] != scanned[0] || quantisers >= tables_of_a_kind || dc >= tables_of_a_kind ||
                ac >= tables_of_a_kind) {
                return false;
            }
            ScanComponent &component = tables.component[i];
            component.across = header.component[i].across, component.down = header.component[i].down;
            component.quantisers = quantisers_[quantisers];
            component.dc = huffman_[dc], component.ac = huffman_[tables_of_a_kind + ac];
            if (!component.quantisers || !component.dc.data || !component.ac.data) return false;
        }
        return true;
    }

    // Whether three components are YCbCr, by libjpeg's rules.
    bool is_ycbcr() const {
        if (jfif_) return true;
        if (transform_ >= 0) return transform_ == 1;
        const std::uint8_t *id = frame_.payload + 6;
        return !(id[0] == 'R' && id[3] == 'G' && id[6] == 'B');
    }

private:
    bool take(int marker, Segment segment) {
        switch (marker) {
            case dqt: return take_quantisers(segment);
            case dht: return take_huffman(segment);
            case dri: return segment.size == 2;
            case sof0:
            case sof1: frame_ = segment; return true;
            case sos: scan_ = segment; return true;
            case app0: return take_jfif(segment);
            case app14: return take_adobe(segment);
            default: return marker == 0xFE || (marker > app0 && marker <= 0xEF);
        }
    }

    bool take_quantisers(Segment segment) {
        constexpr std::size_t table = 65;
        if (segment.size % table) return false;
        for (std::size_t at = 0; at < segment.size; at += table) {
            const int number = segment.payload[at];
            if (number >= tables_of_a_kind) return false;  // or values of 16 bits, whose products may overflow
            quantisers_[number] = segment.payload + at + 1;
        }
        return true;
    }

    bool take_huffman(Segment segment) {
        constexpr std::size_t lengths = 16;
        while (segment.size > 0) {
            if (segment.size < 1 + lengths) return false;
            const int number = segment.payload[0] & 15, kind = segment.payload[0] >> 4;
            std::size_t symbols = 0;
            for (std::size_t i = 1; i <= lengths; ++i) symbols += segment.payload[i];
            const std::size_t size = lengths + symbols;
            if (number >= tables_of_a_kind || kind > 1 || symbols > 256 || size > segment.size - 1) return false;
            huffman_[kind * tables_of_a_kind + number] = {segment.payload + 1, size};
            segment = {segment.payload + 1 + size, segment.size - 1 - size};
        }
        return true;
    }

    bool take_jfif(Segment segment) {
        if (segment.size < 14 || std::memcmp(segment.payload, "JFIF", 5) != 0) return true;
        jfif_ = true;
        return segment.payload[5] == 1;  // its major version
    }

    bool take_adobe(Segment segment) {
        if (segment.size < 12 || std::memcmp(segment.payload, "Adobe", 5) != 0) return true;
        transform_ = segment.payload[11];
        return transform_ <= 1;
    }

    const std::uint8_t *quantisers_[tables_of_a_kind] = {};
    HuffmanSpec huffman_[2 * tables_of_a_kind];  // DC, then AC
    Segment frame_{nullptr, 0}, scan_{nullptr, 0};
    bool jfif_ = false;
    int transform_ = -1;
};

// Whether chroma has full size, half the width, or half the width and height.
bool is_usual_sampling(const JpegHeader &header) {
    const JpegComponent &luma = header.component[0], &blue = header.component[1], &red = header.component[2];
    const bool usual = luma.across <= 2 && luma.down <= luma.across;
    return usual && blue.across == 1 && blue.down == 1 && red.across == 1 && red.down == 1;
}

}  // namespace

bool read_tables(const std::uint8_t *data, const JpegHeader &header, JpegTables &tables) {
    if (!is_sequential(header) || (header.components != 1 && header.components != 3)) return false;
    if (header.components == 3 && !is_usual_sampling(header)) return false;
    Reader reader;
    if (!reader.read(data, header) || !reader.resolve(header, tables)) return false;
    if (header.components == 1) tables.component[0].across = tables.component[0].down = 1;  // coded block by block
    return header.components == 1 || reader.is_ycbcr();
}

}  // namespace bushel
