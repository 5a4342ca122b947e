// The framing is defined by tensorflow/core/lib/io/record_writer.h, the messages by
// tensorflow/core/example/{example,feature}.proto, in the encoding of https://protobuf.dev/programming-guides/encoding.
#include "scans/tfrecord.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "scans/tfrecord_bytes.hpp"

namespace bushel {

namespace {

using namespace tfrecord_bytes;

// The reason why a record is not an Example.
struct NotExampleError {
    std::string reason;
};

// The first 100 bytes of a feature's name in quotes, with a question mark for each that is not printable ASCII.
std::string shown(std::string_view name) {
    std::string text = "'";
    for (const char byte : name.substr(0, 100)) text += byte >= ' ' && byte <= '~' ? byte : '?';
    return text + (name.size() > 100 ? "…'" : "'");
}

// A length-delimited field of a message.
struct Piece {
    const std::uint8_t *data, *end;
};

// Read the length and the bytes of a field, whose tag was read.
inline Piece read_piece(const std::uint8_t *&at, const std::uint8_t *end) {
    std::uint64_t size;
    if (!read_varint(at, end, size)) throw NotExampleError{"a length is not a number"};
    if (size > static_cast<std::uint64_t>(end - at)) throw NotExampleError{"a field ends after its message"};
    const Piece piece{at, at + size};
    at = piece.end;
    return piece;
}

inline Piece read_field(const std::uint8_t *&at, const std::uint8_t *end, std::uint8_t tag, const char *otherwise) {
    if (*at++ != tag) throw NotExampleError{otherwise};
    return read_piece(at, end);
}

// The bytes of one number that stands alone, without its tag.
Piece read_number(const std::uint8_t *&at, const std::uint8_t *end, bool floats) {
    const std::uint8_t *const begin = at;
    std::uint64_t value;
    if (floats ? end - at < 4 : !read_varint(at, end, value)) throw NotExampleError{"a number is truncated"};
    if (floats) at += 4;
    return {begin, at};
}

std::int64_t count_numbers(const std::uint8_t *data, std::size_t size, bool floats) {
    if (floats) {
        if (size % 4) throw NotExampleError{"a list of floats has a length that is not a multiple of 4"};
        return static_cast<std::int64_t>(size / 4);
    }
    std::int64_t count = 0;
    for (std::size_t i = 0; i < size; ++i) count += data[i] < 0x80;
    if (size && data[size - 1] >= 0x80) throw NotExampleError{"a list of integers is truncated"};
    return count;
}

std::int64_t first_number(const std::uint8_t *data, std::size_t size, bool floats) {
    std::uint64_t value = 0;
    if (!size) return 0;
    if (floats) return little_32(data);
    if (!read_varint(data, data + size, value)) throw NotExampleError{"an integer has more than 64 bits"};
    return static_cast<std::int64_t>(value);
}

}  // namespace

std::size_t TfrecordScan::feed(const std::uint8_t *data, std::size_t size) {
    std::size_t at = 0;
    while (problem.empty()) {
        if (size - at < head_size) {
            need = head_size;
            break;
        }
        const std::uint8_t *const head = data + at;
        if (!has_checksum(head)) {
            problem = "the length of a record has another checksum";
            break;
        }
        const std::uint64_t stated = length_of(head);
        if (stated > max_length) {
            problem = "a record has a length of " + std::to_string(stated) + " bytes";
            break;
        }
        if (size - at - head_size < stated + tail_size) {
            need = head_size + stated + tail_size;
            break;
        }
        const std::uint8_t *const record = head + head_size;
        const auto bytes = static_cast<std::size_t>(stated);
        offset.push_back(end + static_cast<std::int64_t>(head_size));
        length.push_back(static_cast<std::int64_t>(stated));
        ++rows;
        if (checksums_ && little_32(record + stated) != masked(crc32c(record, bytes))) wrong.push_back(last_record());
        if (parsing_) {
            read_example(record, bytes);
        } else if (other == 0 && last_record() == 1) {  // the first record may be a stray
            TfrecordScan second(true, false);
            second.offset.push_back(offset.back());
            second.read_example(record, bytes);
            others = second.other < 0 && !second.features.empty();
        }
        at += head_size + bytes + tail_size;
        end += static_cast<std::int64_t>(head_size + bytes + tail_size);
    }
    return at;
}

void TfrecordScan::forget_rows() {
    records_before_ += static_cast<std::int64_t>(offset.size());
    held_before_ += static_cast<std::int64_t>(held.size());
    rows = 0;
    held.clear();
    for (auto *const array : {&offset, &length, &wrong}) array->clear();
    for (ExampleFeature &feature : features) {
        for (auto *const array : {&feature.record, &feature.count, &feature.offset, &feature.length, &feature.first,
                                  &feature.value_offset, &feature.value_length})
            array->clear();
    }
}

void TfrecordScan::read_example(const std::uint8_t *data, std::size_t size) {
    base_ = data;
    others = !features.empty();
    try {
        for (const std::uint8_t *at = data, *const end = data + size; at < end;) {
            const Piece all = read_field(at, end, delimited(1), "it has another field than features");
            for (const std::uint8_t *in = all.data; in < all.end;) {
                const Piece entry = read_field(in, all.end, delimited(1), "its features are not a map");
                Piece name{nullptr, nullptr}, feature{nullptr, nullptr};
                for (const std::uint8_t *part = entry.data; part < entry.end;) {
                    const bool is_name = *part == delimited(1);
                    const Piece piece =
                        read_field(part, entry.end, delimited(is_name ? 1 : 2), "an entry of its features is not a pair");
                    (is_name ? name : feature) = piece;
                }
                const auto chars = static_cast<std::size_t>(name.end - name.data);
                const std::string_view called{reinterpret_cast<const char *>(name.data), chars};
                try {
                    read_feature(called, feature.data, feature.end);
                } catch (const NotExampleError &error) {
                    throw NotExampleError{error.reason + " (" + shown(called) + ")"};
                }
            }
        }
    } catch (const NotExampleError &error) {
        parsing_ = false;
        other = last_record();
        reason = error.reason;
    }
}

void TfrecordScan::read_feature(std::string_view name, const std::uint8_t *data, const std::uint8_t *end) {
    if (data == end) return;  // neither bytes nor numbers: as if it were not there
    const std::uint8_t tag = *data++;
    const auto kind = static_cast<std::uint8_t>(tag >> 3);
    if ((tag & 7) != 2 || kind < 1 || kind > 3) throw NotExampleError{"a feature is not a list of bytes, floats or integers"};
    const Piece list = read_piece(data, end);
    if (data != end) throw NotExampleError{"a feature has two lists"};
    ExampleFeature &feature = feature_of(name, kind);
    const std::int64_t record = last_record();
    if (!feature.record.empty() && feature.record.back() == record)
        throw NotExampleError{"a feature is there twice"};
    if (kind == bytes_kind)
        add_bytes(feature, list.data, list.end);
    else
        add_numbers(feature, list.data, list.end);
    feature.record.push_back(record);
    ++rows;
}

ExampleFeature &TfrecordScan::feature_of(std::string_view name, std::uint8_t kind) {
    const auto known = by_name_.find(name);
    if (known != by_name_.end()) {
        if (known->second->kind != kind) throw NotExampleError{"a feature has another type than before"};
        return *known->second;
    }
    ExampleFeature &feature = features.emplace_back();
    feature.name = name, feature.kind = kind;
    by_name_.emplace(feature.name, &feature);  // a deque does not move its elements
    return feature;
}

void TfrecordScan::add_bytes(ExampleFeature &feature, const std::uint8_t *data, const std::uint8_t *end) {
    std::int64_t count = 0;
    const std::size_t before = feature.value_offset.size();
    try {
        for (; data < end; ++count) {
            const Piece value = read_field(data, end, delimited(1), "a list of bytes has another field");
            feature.value_offset.push_back(offset.back() + (value.data - base_));
            feature.value_length.push_back(value.end - value.data);
        }
    } catch (const NotExampleError &) {
        feature.value_offset.resize(before), feature.value_length.resize(before);
        throw;
    }
    feature.count.push_back(count);
    feature.most = std::max(feature.most, count);
    rows += static_cast<std::size_t>(count);
}

void TfrecordScan::add_numbers(ExampleFeature &feature, const std::uint8_t *data, const std::uint8_t *end) {
    const bool floats = feature.kind == floats_kind;
    const auto single = static_cast<std::uint8_t>(1 << 3 | (floats ? 5 : 0));
    Piece values{data, data};
    std::int64_t place = offset.back() + (data - base_);
    const std::size_t start = held.size();
    for (std::size_t pieces = 0; data < end; ++pieces) {
        const bool alone = *data == single;
        const Piece piece = alone ? read_number(++data, end, floats)
                                  : read_field(data, end, delimited(1), "a list of numbers has another field");
        if (pieces == 0) {
            values = piece, place = offset.back() + (piece.data - base_);
            continue;
        }
        if (pieces == 1) held.insert(held.end(), values.data, values.end);  // not in one piece: copy it
        held.insert(held.end(), piece.data, piece.end);
    }
    if (held.size() > start) {
        place = -1 - held_before_ - static_cast<std::int64_t>(start);
        feature.copied = true;
        values = {held.data() + start, held.data() + held.size()};
    }
    const auto size = static_cast<std::size_t>(values.end - values.data);
    const std::int64_t count = count_numbers(values.data, size, floats);
    const std::int64_t first = first_number(values.data, size, floats);
    feature.most = std::max(feature.most, count);
    feature.first.push_back(first);
    feature.offset.push_back(place);
    feature.length.push_back(static_cast<std::int64_t>(size));
}

std::vector<std::int64_t> decode_varints(const std::uint8_t *data, std::size_t size) {
    std::vector<std::int64_t> values;
    values.reserve(size);
    for (const std::uint8_t *at = data, *const end = data + size; at < end;) {
        std::uint64_t value;
        if (!read_varint(at, end, value)) throw std::invalid_argument("an integer is truncated or has more than 64 bits");
        values.push_back(static_cast<std::int64_t>(value));
    }
    return values;
}

}  // namespace bushel
