#include "framing/framing.hpp"

#include <cstring>

#include "scans/recordio.hpp"

namespace bushel {

namespace {

constexpr std::size_t block = 512;

void put_word(std::uint8_t *out, std::uint32_t word) {
    for (int i = 0; i < 4; ++i) out[i] = static_cast<std::uint8_t>(word >> (8 * i));
}

// Write the decimal digits of a number >= 0, and return where they end.
std::uint8_t *put_decimal(std::uint8_t *out, std::int64_t number) {
    std::uint8_t digits[20];
    std::size_t count = 0;
    do {
        digits[count++] = static_cast<std::uint8_t>('0' + number % 10);
        number /= 10;
    } while (number);
    while (count) *out++ = digits[--count];
    return out;
}

void put_octal(std::uint8_t *out, int digits, std::uint64_t number) {
    for (int i = digits; i-- > 0; number >>= 3) out[i] = static_cast<std::uint8_t>('0' + (number & 7));
}

std::uint32_t sum_of(const std::uint8_t *bytes, std::size_t count) {
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += bytes[i];
    return sum;
}

std::size_t padding(std::size_t length, std::size_t unit) { return (unit - length % unit) % unit; }

// Write a value and zeros up to a multiple of `unit`, and return where they end.
std::uint8_t *put_padded(std::uint8_t *out, const std::uint8_t *value, std::size_t length, std::size_t unit) {
    if (length) std::memcpy(out, value, length);
    const std::size_t zeros = padding(length, unit);
    if (zeros) std::memset(out + length, 0, zeros);
    return out + length + zeros;
}

}  // namespace

Framed frame_recordio(const Values &values, std::vector<std::uint8_t> &split) {
    constexpr std::uint32_t magic = 0xCED7230A;
    Framed framed;
    framed.ends.resize(values.count);
    split.assign(values.count, 0);
    std::size_t total = 0;
    std::vector<std::string> parts;  // of the few values that contain the magic word
    for (std::size_t row = 0; row < values.count; ++row) {
        const std::size_t length = values.length(row);
        if (contains_magic(values.at(row), length)) {
            split[row] = 1;
            parts.push_back(split_recordio(values.at(row), length));
            total += parts.back().size();
        } else {
            total += 8 + length + padding(length, 4);
        }
        framed.ends[row] = static_cast<std::int64_t>(total);
    }
    framed.allocate(total);
    std::uint8_t *out = framed.bytes.get();
    auto part = parts.begin();
    for (std::size_t row = 0; row < values.count; ++row) {
        if (split[row]) {
            std::memcpy(out, part->data(), part->size());
            out += part++->size();
            continue;
        }
        const std::size_t length = values.length(row);
        put_word(out, magic);
        put_word(out + 4, static_cast<std::uint32_t>(length));
        out = put_padded(out + 8, values.at(row), length, 4);
    }
    return framed;
}

Framed frame_idx(const Values *keys, std::int64_t first, const std::int64_t *offsets, std::size_t count) {
    Framed framed;
    framed.ends.resize(count);
    std::size_t most = 42 * count;
    for (std::size_t row = 0; keys && row < count; ++row) most += keys->length(row);
    framed.allocate(most);
    std::uint8_t *out = framed.bytes.get();
    for (std::size_t row = 0; row < count; ++row) {
        if (keys) {
            const std::size_t length = keys->length(row);
            if (length) std::memcpy(out, keys->at(row), length);
            out += length;
        } else {
            out = put_decimal(out, first + static_cast<std::int64_t>(row));
        }
        *out++ = '\t';
        out = put_decimal(out, offsets[row]);
        *out++ = '\n';
        framed.ends[row] = out - framed.bytes.get();
    }
    framed.size = static_cast<std::size_t>(out - framed.bytes.get());
    return framed;
}

Framed frame_tar(const std::uint8_t *header, const Values &keys, const std::vector<std::string> &suffixes,
                 const std::vector<Values> &fields, std::size_t longest, std::vector<std::int64_t> &starts,
                 std::vector<std::int64_t> &places) {
    Framed framed;
    framed.ends.resize(keys.count);
    starts.resize(keys.count * fields.size());
    places.assign(keys.count * fields.size(), -1);
    std::size_t total = 0, apart = 0;
    for (std::size_t row = 0; row < keys.count; ++row) {
        for (const Values &field : fields) {
            const std::size_t length = field.length(row);
            total += block + length + padding(length, block);
            apart += length > longest ? length : 0;
        }
        framed.ends[row] = static_cast<std::int64_t>(total);
    }
    framed.allocate(total - apart);

    std::uint8_t empty[block];
    std::memcpy(empty, header, block);
    std::memset(empty, 0, 100);        // name
    std::memset(empty + 124, 0, 11);   // size
    std::memset(empty + 148, ' ', 8);  // checksum, which counts as spaces
    const std::uint32_t fixed = sum_of(empty, block);
    std::uint8_t *out = framed.bytes.get();
    std::int64_t left_out = 0;
    for (std::size_t row = 0, at = 0; row < keys.count; ++row) {
        const std::size_t key = keys.length(row);
        for (std::size_t field = 0; field < fields.size(); ++field, ++at) {
            const std::size_t length = fields[field].length(row), name = key + suffixes[field].size();
            std::memcpy(out, empty, block);
            if (key) std::memcpy(out, keys.at(row), key);
            std::memcpy(out + key, suffixes[field].data(), suffixes[field].size());
            put_octal(out + 124, 11, length);
            put_octal(out + 148, 6, fixed + sum_of(out, name) + sum_of(out + 124, 11));
            out[154] = 0;
            out += block;
            const std::int64_t place = out - framed.bytes.get();
            starts[at] = place + left_out;
            if (length > longest) {
                places[at] = place;
                left_out += static_cast<std::int64_t>(length);
                std::memset(out, 0, padding(length, block));
                out += padding(length, block);
            } else {
                out = put_padded(out, fields[field].at(row), length, block);
            }
        }
    }
    return framed;
}

}  // namespace bushel
