#include "files/numbers.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/cache.hpp"
#include "common/exceptions.hpp"
#include "files/batched_read.hpp"
#include "files/crc32.hpp"

namespace bushel {

namespace {

constexpr std::int64_t longest_text = 64;
constexpr int most_digits = 19;  // whose numbers all fit into 64 bits without a sign

// The shard and row of each sample. Rows of an index are random, so its arrays are loaded into the cache in advance.
class Places {
public:
    Places(const NumberShards &shards, std::size_t column, const std::int64_t *samples, std::size_t count)
        : shards_(shards), column_(column), shard_(count), row_(count) {
        const NumberShard *last = nullptr;
        for (std::size_t i = 0; i < count; ++i) {
            const NumberShard *const shard = last && inside(*last, samples[i]) ? last : find(samples[i]);
            shard_[i] = shard ? static_cast<std::int32_t>(shard - shards_.data()) : -1;
            if (!shard) continue;
            last = shard;
            row_[i] = samples[i] - shard->first;
            const NumberColumn &column_of = shard->columns[column];
            load_line(column_of.offset + row_[i]);
            load_line(column_of.length + row_[i]);
            if (column_of.crc) load_line(column_of.crc + row_[i]);
        }
    }

    const std::vector<std::int32_t> &shard() const { return shard_; }
    std::size_t row(std::size_t i) const { return static_cast<std::size_t>(row_[i]); }
    const NumberColumn &column(std::size_t i) const {
        return shards_[static_cast<std::size_t>(shard_[i])].columns[column_];
    }

private:
    static bool inside(const NumberShard &shard, std::int64_t sample) {
        return sample >= shard.first && sample - shard.first < shard.samples;
    }

    const NumberShard *find(std::int64_t sample) const {
        const auto after = std::upper_bound(shards_.begin(), shards_.end(), sample,
                                            [](std::int64_t value, const NumberShard &one) { return value < one.first; });
        if (after == shards_.begin() || !inside(*(after - 1), sample)) return nullptr;
        return &*(after - 1);
    }

    const NumberShards &shards_;
    std::size_t column_;
    std::vector<std::int32_t> shard_;  // -1: in none
    std::vector<std::int64_t> row_;
};

// The stored values of samples, as a batch that can be read. Those that cannot be gathered are missing from it.
struct Values {
    Values(const NumberShards &shards, std::size_t column, const std::int64_t *samples, std::size_t count)
        : places(shards, column, samples, count), offset(count), length(count, -1), forms(count), contents(count, -1) {
        files.assign(shards.size(), nullptr);
        for (std::size_t i = 0; i < count; ++i) {
            if (places.shard()[i] < 0) continue;
            const NumberColumn &values = places.column(i);
            const std::size_t row = places.row(i);
            const std::int64_t at = values.offset[row], size = values.length[row];
            const std::int64_t content = values.content(size, forms[i]);
            if (content < 0 || !values.file->contains(at, size)) continue;
            offset[i] = at, length[i] = size, contents[i] = content;
            files[static_cast<std::size_t>(places.shard()[i])] = values.file;
        }
    }

    Batch batch() const {
        Batch batch;
        batch.files = files;
        batch.file = places.shard().data();
        batch.offset = offset.data();
        batch.length = length.data();
        batch.rows = offset.size();
        return batch;
    }

    Places places;
    std::vector<const MappedFile *> files;
    std::vector<std::int64_t> offset, length;
    std::vector<const NumberForm *> forms;
    std::vector<std::int64_t> contents;
};

std::int64_t integer(const std::uint8_t *data, std::int64_t length, bool is_signed, bool &good) {
    std::uint64_t bits = 0;
    for (std::int64_t i = 0; i < length; ++i) bits |= std::uint64_t{data[i]} << (8 * i);
    const bool top = length > 0 && (data[length - 1] & 0x80);
    if (is_signed && top && length < 8) bits |= ~std::uint64_t{0} << (8 * length);
    if (!is_signed && top && length == 8) good = false;  // beyond int64
    std::int64_t number;
    std::memcpy(&number, &bits, sizeof number);
    return number;
}

double real(const std::uint8_t *data, std::int64_t length) {
    double number;
    if (length == sizeof number) {
        std::memcpy(&number, data, sizeof number);
        return number;
    }
    float narrow;
    std::memcpy(&narrow, data, sizeof narrow);
    return narrow;
}

bool is_space(std::uint8_t byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

std::int64_t decimal(const std::uint8_t *data, std::int64_t length, bool &good) {
    const std::uint8_t *end = data + length;
    while (data < end && is_space(*data)) ++data;
    while (data < end && is_space(end[-1])) --end;
    const bool negative = data < end && *data == '-';
    if (data < end && (*data == '-' || *data == '+')) ++data;
    if (data == end || end - data > most_digits) {
        good = false;
        return 0;
    }
    std::uint64_t number = 0;
    for (; data < end; ++data) {
        if (*data < '0' || *data > '9') {
            good = false;
            return 0;
        }
        number = number * 10 + static_cast<std::uint64_t>(*data - '0');
    }
    if (number > (std::uint64_t{1} << 63) - !negative) good = false;  // beyond int64
    const std::uint64_t bits = negative ? ~number + 1 : number;
    std::int64_t value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

template <typename T>
bool put(std::uint8_t *out, T number) {
    std::memcpy(out, &number, sizeof number);
    return true;
}

// Writes the value of a content that is not copied as it is. Returns whether it could.
bool convert(NumberKind kind, const std::uint8_t *data, std::int64_t length, std::uint8_t *out) {
    constexpr double limit = 9007199254740992.0;  // 2^53: larger reals may differ from the written number
    bool good = true;
    switch (kind) {
        case NumberKind::signed_integer:
        case NumberKind::unsigned_integer:
            return put(out, integer(data, length, kind == NumberKind::signed_integer, good)) && good;
        case NumberKind::real:
            return put(out, real(data, length));
        case NumberKind::whole_real: {
            const double number = real(data, length);
            if (!(std::fabs(number) <= limit) || number != std::floor(number)) return false;
            return put(out, static_cast<std::int64_t>(number));
        }
        default:
            return put(out, decimal(data, length, good)) && good;
    }
}

void fill_up(std::uint8_t *out, std::int64_t size, const std::string &pattern) {
    const auto step = static_cast<std::int64_t>(pattern.size());
    if (step == 1) {
        std::memset(out, static_cast<unsigned char>(pattern[0]), static_cast<std::size_t>(size));
        return;
    }
    for (; size >= step; out += step, size -= step) std::memcpy(out, pattern.data(), pattern.size());
}

// Takes the values of a block of samples. The first one has this place in the targets.
class NumberSink final : public RowSink {
public:
    NumberSink(Values &values, const NumberTargets &targets, std::size_t first)
        : values_(values), targets_(targets), first_(first), bad_(values.length.size()) {
        if (!targets.skip.empty()) {
            const auto begin = targets.skip.begin() + static_cast<std::ptrdiff_t>(first);
            skip_.assign(begin, begin + static_cast<std::ptrdiff_t>(bad_.size()));
        }
    }

    // Whether there is a value that fits into its room. If not, it will not be read.
    bool fits(std::size_t row) {
        constexpr std::int64_t number = 8;
        bool good = values_.length[row] >= 0;
        if (good) {
            const auto step = static_cast<std::int64_t>(targets_.fill.size());
            const bool copied = values_.places.column(row).kind == NumberKind::bytes;
            const std::int64_t size = copied ? values_.contents[row] : number, room = targets_.room[first_ + row];
            if (!skip_.empty()) {
                good = copied && room <= size && skip_[row] <= size - room;
                if (good && size == values_.length[row] && !values_.places.column(row).crc) narrow(row, room);
            } else {
                good = step && copied ? size <= room && (room - size) % step == 0 : size == room;
            }
        }
        if (!good) bad_[row] = true, values_.length[row] = -1;
        return good;
    }

    bool bad(std::size_t row) const { return bad_[row]; }

    std::uint8_t *room(std::size_t row) override {
        const auto length = static_cast<std::size_t>(values_.length[row]);
        if (scratch_.size() < length) scratch_.resize(length);
        return scratch_.data();
    }

    void take(std::size_t row, const std::uint8_t *data, const std::uint8_t *next) override {
        const NumberForm *const form = values_.forms[row];
        const std::int64_t length = values_.length[row], content = values_.contents[row];
        const std::int64_t before = length - content;
        if (before && std::memcmp(data, form->header.data(), static_cast<std::size_t>(before)) != 0) {
            bad_[row] = true;
            return;
        }
        const NumberColumn &column = values_.places.column(row);
        std::uint8_t *const out = targets_.out[first_ + row];
        if (column.kind != NumberKind::bytes) {
            std::uint8_t text[longest_text];  // so that the bytes that are checked are those that are used
            if (content) std::memcpy(text, data + before, static_cast<std::size_t>(content));
            bad_[row] = !sum_fits(column, row, text, content, form) || !convert(column.kind, text, content, out);
            return;
        }
        if (!skip_.empty()) {
            const auto room = static_cast<std::size_t>(targets_.room[first_ + row]);
            if (room) copy_and_load(out, data + before + skip_[row], room, next);
            bad_[row] = !sum_fits(column, row, data + before, content, form);
            return;
        }
        if (content) copy_and_load(out, data + before, static_cast<std::size_t>(content), next);
        bad_[row] = !sum_fits(column, row, out, content, form);
        if (!targets_.fill.empty()) fill_up(out + content, targets_.room[first_ + row] - content, targets_.fill);
    }

private:
    // Read only the bytes that fill the room, of a value without a header or checksum, which need the others.
    void narrow(std::size_t row, std::int64_t room) {
        values_.offset[row] += skip_[row];
        values_.length[row] = values_.contents[row] = room;
        skip_[row] = 0;
    }

    bool sum_fits(const NumberColumn &column, std::size_t row, const std::uint8_t *content, std::int64_t length,
                  const NumberForm *form) const {
        if (!column.crc) return true;
        const std::uint32_t sum = crc32(content, static_cast<std::size_t>(length), form ? form->sum : 0);
        return sum == column.crc[values_.places.row(row)];
    }

    Values &values_;
    const NumberTargets &targets_;
    std::size_t first_;
    std::vector<bool> bad_;
    std::vector<std::int64_t> skip_;  // bytes left to skip of each content that is read; empty: nothing
    std::vector<std::uint8_t> scratch_;
};

}  // namespace

std::int64_t NumberColumn::content(std::int64_t stored, const NumberForm *&form) const {
    if (stored < 0) return -1;
    std::int64_t content = stored;
    if (forms) {
        const auto known = forms->find(stored);
        if (known == forms->end()) return -1;
        form = &known->second;
        content -= static_cast<std::int64_t>(form->header.size());
    }
    switch (kind) {
        case NumberKind::bytes:
            return content;
        case NumberKind::signed_integer:
        case NumberKind::unsigned_integer:
            return content <= 8 ? content : -1;
        case NumberKind::decimal:
            return content <= longest_text ? content : -1;
        default:
            return content == 4 || content == 8 ? content : -1;
    }
}

bool gather_numbers(const NumberShards &shards, std::size_t column, const std::int64_t *samples, std::size_t count,
                    const NumberTargets &targets, std::vector<std::int64_t> &bad) {
    constexpr std::size_t block = 512;  // samples, so that their offsets stay in the cache
    std::vector<bool> measured(shards.size());
    bool waited = false;
    for (std::size_t first = 0; first < count; first += block) {
        const std::size_t rows = std::min(block, count - first);
        Values values(shards, column, samples + first, rows);
        NumberSink sink(values, targets, first);
        for (std::size_t i = 0; i < rows; ++i) {
            if (!sink.fits(i)) continue;
            const auto shard = static_cast<std::size_t>(values.places.shard()[i]);
            if (measured[shard]) continue;
            measured[shard] = true;
            const MappedFile &file = *values.files[shard];
            const std::int64_t now = file.size_now();
            if (now < file.size()) throw ExtentError(ExtentError::Reason::shrunk, first + i, file.size(), now, file.path());
        }
        waited |= read_rows(values.batch(), sink);
        for (std::size_t i = 0; i < rows; ++i) {
            if (sink.bad(i)) bad.push_back(static_cast<std::int64_t>(first + i));
        }
    }
    return waited;
}

void measure_numbers(const NumberShards &shards, std::size_t column, const std::int64_t *samples, std::size_t count,
                     std::int64_t *sizes) {
    const Values values(shards, column, samples, count);
    std::copy(values.contents.begin(), values.contents.end(), sizes);
}

void prefetch_numbers(const NumberShards &shards, std::size_t column, const std::int64_t *samples, std::size_t count) {
    const Values values(shards, column, samples, count);
    prefetch(values.batch());
}

bool decode_number(const NumberColumn &column, const std::uint8_t *data, std::int64_t length, std::uint8_t *out) {
    const NumberForm *form = nullptr;
    const std::int64_t content = column.kind == NumberKind::bytes ? -1 : column.content(length, form);
    if (content < 0) return false;
    const std::int64_t before = length - content;
    if (before && std::memcmp(data, form->header.data(), static_cast<std::size_t>(before)) != 0) return false;
    return convert(column.kind, data + before, content, out);
}

}  // namespace bushel
