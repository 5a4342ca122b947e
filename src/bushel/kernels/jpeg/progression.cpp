#include "jpeg/progression.hpp"

#include <algorithm>

#include "common/exceptions.hpp"
#include "common/image.hpp"
#include "jpeg/tiles.hpp"

namespace bushel {

namespace {

constexpr std::size_t max_scans = 200;  // as for libjpeg (ScanLimit)

// The bits of each coefficient that the scans so far have left to later ones.
class Precision {
public:
    Precision() {
        for (auto &component : left_) std::fill(std::begin(component), std::end(component), unknown);
    }

    // Take a scan. Return false if it does not continue those before it.
    bool take(const ProgressiveScan &scan, int before) {
        for (int i = 0; i < scan.components; ++i) {
            signed char (&left)[64] = left_[scan.component[i]];
            if (scan.first > 0 && left[0] == unknown) return false;
            for (int number = scan.first; number <= scan.last; ++number) {
                if (left[number] != (scan.refines ? before : unknown)) return false;
                left[number] = static_cast<signed char>(scan.shift);
            }
        }
        return true;
    }

    bool is_complete(int components) const {
        for (int i = 0; i < components; ++i) {
            for (const signed char bits : left_[i]) {
                if (bits != 0) return false;
            }
        }
        return true;
    }

private:
    static constexpr signed char unknown = -1;

    signed char left_[3][64];
};

class ScanParser {
public:
    ScanParser(const std::uint8_t *data, std::size_t size, const JpegHeader &header)
        : data_(data), size_(size), header_(header) {}

    // Read all scans. Return false if libjpeg has to decode the image.
    bool read(std::vector<ProgressiveScan> &scans) {
        for (std::size_t offset = 2; scans.empty() || !is_end(offset);) {
            const JpegSegment segment = next_segment(data_, size_, offset);
            offset = segment.end();
            if (segment.marker == SOS) {
                if (scans.size() == max_scans) return false;
                ProgressiveScan scan;
                if (!read_scan(segment, scan)) return false;
                offset = scan.offsets.back() - 2;
                scans.push_back(std::move(scan));
            } else if (!take(segment, !scans.empty())) {
                return false;
            }
        }
        return precision_.is_complete(header_.components);
    }

private:
    // Whether the end of the image follows, perhaps after fill bytes.
    bool is_end(std::size_t offset) const {
        while (offset < size_ && data_[offset] == 0xFF) ++offset;
        return offset < size_ && data_[offset] == EOI;
    }

    // Take a segment that is not the header of a scan. Before the first scan, `header_` decides whether it is regular.
    bool take(const JpegSegment &segment, bool between_scans) {
        const std::uint8_t *payload = data_ + segment.payload;
        if (segment.marker == DHT) return huffman_.take(payload, segment.size);
        if (segment.marker == DRI) {
            if (segment.size != 2) return false;
            restart_interval_ = payload[0] << 8 | payload[1];
            return !segment.after_stray;
        }
        return !between_scans || (is_metadata(segment.marker) && !segment.after_stray);
    }

    bool read_scan(const JpegSegment &segment, ProgressiveScan &scan) {
        const std::uint8_t *payload = data_ + segment.payload;
        const std::size_t count = segment.size > 0 ? payload[0] : 0;
        if (segment.after_stray || count < 1 || count > 3 || segment.size != 4 + 2 * count) return false;
        const std::uint8_t *selection = payload + 1 + 2 * count;
        const int before = selection[2] >> 4;
        scan.components = static_cast<int>(count);
        scan.first = selection[0], scan.last = selection[1];
        scan.refines = before > 0, scan.shift = selection[2] & 15;
        if (scan.is_dc() ? scan.last != 0 : scan.first > scan.last || scan.last > 63 || count > 1) return false;
        if (scan.shift > max_shift || (scan.refines && scan.shift != before - 1)) return false;
        return read_components(payload + 1, scan) && precision_.take(scan, before) && set_layout(scan, segment.end());
    }

    // Components come in the order of the frame, each with the tables that the scan needs.
    bool read_components(const std::uint8_t *fields, ProgressiveScan &scan) const {
        int number = 0;
        for (int i = 0; i < scan.components; ++i, ++number, fields += 2) {
            while (number < header_.components && header_.component[number].id != fields[0]) ++number;
            if (number == header_.components) return false;
            scan.component[i] = number;
            const int dc = fields[1] >> 4, ac = fields[1] & 15;
            if (dc > 3 || ac > 3) return false;
            if (scan.is_dc())
                scan.dc[i] = huffman_.dc[dc];
            else
                scan.ac = huffman_.ac[ac];
            const bool is_missing = scan.is_dc() ? !scan.refines && !scan.dc[i].data : !scan.ac.data;
            if (is_missing) return false;
        }
        return true;
    }

    // A scan of one component has only the blocks of the image, not those that fill up MCUs.
    bool set_layout(ProgressiveScan &scan, std::size_t begin) const {
        const JpegGrid grid(header_);
        scan.columns = grid.columns, scan.rows = grid.rows;
        if (scan.components == 1) {
            const JpegComponent &component = header_.component[scan.component[0]];
            scan.columns = divide_up(header_.width * component.h_samp_factor, 8 * header_.max_h_samp_factor());
            scan.rows = divide_up(header_.height * component.v_samp_factor, 8 * header_.max_v_samp_factor());
        }
        const int count = scan.columns * scan.rows;
        scan.interval = restart_interval_ ? std::min(restart_interval_, count) : count;
        const auto segments = static_cast<std::size_t>((count - 1) / scan.interval + 1);
        scan.offsets = find_restarts(data_, size_, begin, segments);
        return !scan.offsets.empty();
    }

    const std::uint8_t *data_;
    std::size_t size_;
    const JpegHeader &header_;
    HuffmanSpecs huffman_;
    int restart_interval_ = 0;
    Precision precision_;
};

}  // namespace

std::vector<ProgressiveScan> read_progression(const std::uint8_t *data, std::size_t size, const JpegHeader &header) {
    std::vector<ProgressiveScan> scans;
    try {
        if (ScanParser(data, size, header).read(scans)) return scans;
    } catch (const JpegError &) {  // libjpeg reports the error
    }
    return {};
}

}  // namespace bushel
