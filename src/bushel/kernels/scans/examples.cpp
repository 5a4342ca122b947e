// The usual Examples. A record usually has the entries of the record before: the same names in the same order, and
// lengths that differ by that of the value. One comparison with vectors says so.
#include "scans/examples.hpp"

#include <cstring>

#include "common/vectors.hpp"
#include "scans/line_blocks.hpp"
#include "scans/open_block.hpp"
#include "scans/tfrecord_bytes.hpp"

namespace bushel {

using namespace tfrecord_bytes;

namespace {

constexpr std::uint64_t longest_record = (std::uint64_t{1} << 32) - 64;  // places and lengths in blocks have 32 bits
constexpr std::size_t lengths = 10;  // bytes of an entry before its value, apart from the name, if lengths have one byte each

// Read the tag and the length of a field that ends where its message ends. Return where its bytes begin, or nullptr.
inline const std::uint8_t *last_field(const std::uint8_t *at, const std::uint8_t *end, std::uint8_t tag) {
    std::uint64_t size;
    if (at == end || *at++ != tag || !read_varint(at, end, size)) return nullptr;
    return size == static_cast<std::uint64_t>(end - at) ? at : nullptr;
}

// Read the tag and the length of a field, and return where it ends; `at` moves to its bytes. Return nullptr if it is another.
inline const std::uint8_t *end_of_field(const std::uint8_t *&at, const std::uint8_t *end, std::uint8_t tag) {
    std::uint64_t size;
    if (at == end || *at++ != tag || !read_varint(at, end, size)) return nullptr;
    return size <= static_cast<std::uint64_t>(end - at) ? at + size : nullptr;
}

}  // namespace

struct FastExamples {
    using Lead = ExampleScan::Lead;

    ExampleScan &scan;

    // Return whether a lead is at `at`, with a value of this length.
    BUSHEL_VECTORS_INLINE static bool is_at(const Lead &lead, const std::uint8_t *at, std::size_t length) {
        using namespace vectors;
        const Vector added = all_8(static_cast<int>(length));
        const auto other = [&](std::size_t from) BUSHEL_VECTORS {
            const Vector expected = add_8(load(lead.bytes + from), bits_and(load(lead.varies + from), added));
            return ~mask_of(equal_8(load(at + from), expected));
        };
        if (other(0) & static_cast<std::uint32_t>(lead.mask)) return false;
        return lead.size <= 32 || !(other(32) & static_cast<std::uint32_t>(lead.mask >> 32));
    }

    // The same as ExampleScan::example.
    BUSHEL_VECTORS bool example(const std::uint8_t *at, const std::uint8_t *end) {
        if (at == end) return true;
        at = last_field(at, end, delimited(1));
        if (!at) return false;
        for (std::size_t place = 0; at < end; ++place) {
            if (place < scan.leads_.size() && scan.limit_ - at >= static_cast<std::ptrdiff_t>(Lead::longest)) {
                const Lead &lead = scan.leads_[place];
                const std::size_t length = lead.most ? at[lead.size - 1] : lead.length;
                if (lead.size && (!lead.most || length <= lead.most) && is_at(lead, at, length) &&
                    lead.size + length <= static_cast<std::size_t>(end - at)) {
                    at += lead.size;
                    if (!scan.put(lead.field, lead.kind, at, length)) return false;
                    at += length;
                    continue;
                }
            }
            at = scan.entry(at, end, place);
            if (!at) return false;
        }
        return true;
    }
};

ExampleScan::ExampleScan(bool vectors) : vectors_(vectors && vectors_need != Simd::scalar && supports(vectors_need)) {}

std::size_t ExampleScan::feed(const std::uint8_t *data, std::size_t size, std::int64_t start) {
    limit_ = data + size, need_ = 0;
    std::size_t at = 0;
    while (!full() && !unusual_) {
        if (size - at < head_size) {
            need_ = head_size;
            break;
        }
        const std::uint8_t *const head = data + at;
        const std::uint64_t length = length_of(head);
        unusual_ = !has_checksum(head) || length > longest_record;
        if (unusual_) break;
        if (size - at - head_size < length + tail_size) {
            need_ = head_size + length + tail_size;
            break;
        }
        record_ = head + head_size;
        const auto row = static_cast<std::size_t>(row_);
        if (row >= starts_.size()) starts_.resize(2 * row + 64);
        starts_[row] = start + (record_ - data);
        const std::uint8_t *const record_end = record_ + length;
        unusual_ = !(vectors_ ? FastExamples{*this}.example(record_, record_end) : example(record_, record_end));
        at += head_size + length + tail_size;
        ++row_;
    }
    return at;
}

const std::vector<std::uint8_t> &ExampleScan::take() {
    FieldFacts lacked;
    lacked.kinds = taken_ ? bit(ValueKind::none) : 0;
    facts_.resize(names_.size(), lacked);
    encode_block(fields_, starts_.data(), static_cast<std::size_t>(row_), facts_, block_);
    taken_ += row_;
    row_ = 0;
    for (FieldValues &values : fields_) values.clear();
    return block_;
}

// Scan the Example in some bytes. Return false if it is unusual.
bool ExampleScan::example(const std::uint8_t *at, const std::uint8_t *end) {
    if (at == end) return true;
    at = last_field(at, end, delimited(1));
    for (std::size_t place = 0; at && at < end; ++place) at = entry(at, end, place);
    return at;
}

// Scan the name and the value at `at`, and return where they end; nullptr if they are unusual.
const std::uint8_t *ExampleScan::entry(const std::uint8_t *at, const std::uint8_t *limit, std::size_t place) {
    const std::uint8_t *const begin = at, *const end = end_of_field(at, limit, delimited(1));
    if (!end) return nullptr;
    const std::uint8_t *const name_end = end_of_field(at, end, delimited(1));
    if (!name_end) return nullptr;
    const std::string_view name(reinterpret_cast<const char *>(at), static_cast<std::size_t>(name_end - at));
    at = last_field(name_end, end, delimited(2));
    if (!at) return nullptr;
    if (at == end) return end;  // neither bytes nor numbers: as if it were not there
    const auto kind = static_cast<std::uint8_t>(*at >> 3);
    if (kind < bytes_kind || kind > integers_kind) return nullptr;
    at = last_field(at, end, delimited(kind));
    if (!at) return nullptr;
    const std::int64_t field = field_of(name, kind, place);
    if (field < 0) return nullptr;
    const auto number = static_cast<std::size_t>(field);
    const auto single = static_cast<std::uint8_t>(1 << 3 | (kind == floats_kind ? 5 : 0));
    if (at == end) {
        FieldValues &values = fields_[number];
        if (values.has(row_)) return nullptr;
        if (kind == bytes_kind) values.set(row_, 0, -1, ValueKind::null, 0);
        else values.set(row_, at - record_, 0, ValueKind::bare, 0);
    } else if (kind != bytes_kind && *at == single) {
        const std::uint8_t *const value = at + 1;
        std::uint64_t ignored;
        if (kind == floats_kind ? end - value != 4 : !read_varint(++at, end, ignored) || at != end) return nullptr;
        if (!put(number, kind, value, static_cast<std::size_t>(end - value))) return nullptr;
    } else {
        at = last_field(at, end, delimited(1));
        if (!at || !put(number, kind, at, static_cast<std::size_t>(end - at))) return nullptr;
        learn(place, begin, at, static_cast<std::size_t>(end - at), name.size(), number);
    }
    return end;
}

// Add the value of a field: bytes, or numbers one after another. Return false if it is unusual.
inline bool ExampleScan::put(std::size_t field, std::uint8_t kind, const std::uint8_t *value, std::size_t size) {
    FieldValues &values = fields_[field];
    if (values.has(row_)) return false;  // the record has the field twice
    ValueKind value_kind = ValueKind::bare;
    std::int64_t number = 0;
    if (kind == floats_kind && size) {
        if (size % 4) return false;
        value_kind = size == 4 ? ValueKind::real : ValueKind::nested;
        if (size == 4) {
            const std::uint32_t bits = little_32(value);
            float single;
            std::memcpy(&single, &bits, sizeof single);
            const double real = single;
            std::memcpy(&number, &real, sizeof number);
        }
    } else if (kind == integers_kind && size) {
        const std::uint8_t *at = value, *const end = value + size;
        std::uint64_t bits;
        if (end[-1] >= 0x80 || !read_varint(at, end, bits)) return false;
        value_kind = at == end ? ValueKind::integer : ValueKind::nested;
        if (at == end) number = static_cast<std::int64_t>(bits);
    }
    values.set(row_, value - record_, static_cast<std::int64_t>(size), value_kind, number);
    ++values_of_all_;
    return true;
}

// Keep the bytes before a value, for the next record.
void ExampleScan::learn(std::size_t place, const std::uint8_t *entry, const std::uint8_t *value, std::size_t size,
                        std::size_t chars, std::size_t field) {
    if (place > leads_.size()) return;
    if (place == leads_.size()) leads_.emplace_back();
    Lead &lead = leads_[place];
    const auto before = static_cast<std::size_t>(value - entry);
    lead.size = before <= Lead::longest ? before : 0;
    if (!lead.size) return;
    lead.mask = ~std::uint64_t{0} >> (Lead::longest - before);
    lead.field = field, lead.kind = kinds_[field];
    lead.length = size, lead.most = 0;
    std::memcpy(lead.bytes, entry, before);
    std::memset(lead.varies, 0, sizeof lead.varies);
    if (before != lengths + chars || entry[1] >= 0x80) return;
    lead.most = static_cast<std::uint8_t>(0x7F - (lengths - 2 + chars));
    for (const std::size_t at : {std::size_t{1}, chars + 5, chars + 7, chars + 9}) {  // of the entry, feature, list, value
        lead.bytes[at] = static_cast<std::uint8_t>(lead.bytes[at] - size);
        lead.varies[at] = 0xFF;
    }
}

// The number of a field, -1 if it cannot be one.
std::int64_t ExampleScan::field_of(std::string_view name, std::uint8_t kind, std::size_t place) {
    if (place < leads_.size() && leads_[place].size) {
        const std::size_t likely = leads_[place].field;
        if (names_[likely] == name) return kinds_[likely] == kind ? static_cast<std::int64_t>(likely) : -1;
    }
    const auto [entry, added] = numbers_.try_emplace(std::string(name), names_.size());
    const std::size_t number = entry->second;
    if (!added) return kinds_[number] == kind ? static_cast<std::int64_t>(number) : -1;
    if (names_.size() == most_fields) return -1;
    names_.emplace_back(name), kinds_.push_back(kind), fields_.emplace_back();
    return static_cast<std::int64_t>(number);
}

}  // namespace bushel
