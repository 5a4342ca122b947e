#include "scans/inflate.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace bushel {

namespace {

// Bytes that must follow the ones that are read, except at the end of the input: a header with its codes has 2283 bits at most, a match 48.
constexpr std::size_t header_bytes = 320, symbol_bytes = 16;

constexpr unsigned longest_match = 258, end_of_block = 256;

constexpr std::array<std::uint16_t, 29> length_base = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                                       31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
constexpr std::array<std::uint8_t, 29> length_bits = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                                      2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
constexpr std::array<std::uint16_t, 30> distance_base = {1,   2,   3,   4,   5,   7,    9,    13,   17,   25,
                                                         33,  49,  65,  97,  129, 193,  257,  385,  513,  769,
                                                         1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
constexpr std::array<std::uint8_t, 30> distance_bits = {0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                                        6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};
constexpr std::array<std::uint8_t, 19> order = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};

[[noreturn]] void fail(const char *what) { throw std::invalid_argument(what); }

unsigned reversed(unsigned code, unsigned length) {
    unsigned result = 0;
    for (; length; --length, code >>= 1) result = result << 1 | (code & 1);
    return result;
}

}  // namespace

// The bits of one call of feed. After the end come zeros, which `check` reports as missing.
struct Inflate::Input {
    const std::uint8_t *at, *end;
    std::uint64_t bits = 0;
    unsigned count = 0;   // of valid bits
    std::size_t missing = 0;  // zeros that stand for missing bytes

    void refill() {
        if (end - at >= 8) {
            std::uint64_t word;
            std::memcpy(&word, at, sizeof word);  // little-endian, as all systems that Bushel is for
            bits |= word << count;
            at += (63 - count) >> 3;
            count |= 56;
            return;
        }
        for (; count <= 56; count += 8) {
            if (at < end)
                bits |= std::uint64_t{*at++} << count;
            else
                ++missing;
        }
    }

    unsigned take(unsigned length) {  // up to 25 bits, after refill
        const unsigned value = static_cast<unsigned>(bits & ((std::uint64_t{1} << length) - 1));
        skip(length);
        return value;
    }
    void skip(unsigned length) { bits >>= length, count -= length; }

    void check() const {
        if (missing * 8 > count) fail("the data are truncated");
    }
    // Bytes that are neither used nor in part used.
    std::size_t left() const { return static_cast<std::size_t>(end - at) + (count / 8 - std::min<std::size_t>(missing, count / 8)); }
};

void Inflate::Code::build(const std::uint8_t *lengths, std::size_t size, Kind kind) {
    count.fill(0);
    fast.fill(0);
    for (std::size_t i = 0; i < size; ++i) ++count[lengths[i]];
    count[0] = 0;
    int left = 1;
    unsigned most = 0;
    for (unsigned length = 1; length <= longest; ++length) {
        left = left * 2 - count[length];
        if (left < 0) fail("a code is over-subscribed");
        if (count[length]) most = length;
    }
    if (left > 0 && most && (kind == Kind::lengths || most != 1)) fail("a code is incomplete");  // as zlib has it
    std::array<std::uint16_t, longest + 2> first{}, next{};
    unsigned code = 0;
    for (unsigned length = 1; length <= longest; ++length) {
        first[length + 1] = static_cast<std::uint16_t>(first[length] + count[length]);
        code = (code + (length > 1 ? count[length - 1] : 0)) << 1;
        next[length] = static_cast<std::uint16_t>(code);
    }
    for (std::size_t i = 0; i < size; ++i) {
        const unsigned length = lengths[i];
        if (!length) continue;
        symbol[first[length]++] = static_cast<std::uint16_t>(i);
        const unsigned bits = next[length]++;
        if (length > fast_bits) continue;
        for (unsigned entry = reversed(bits, length); entry < fast.size(); entry += 1u << length) {
            fast[entry] = static_cast<std::uint16_t>(i << 4 | length);
        }
    }
}

unsigned Inflate::decode(Input &input, const Code &code) {
    if (const unsigned entry = code.fast[input.bits & (code.fast.size() - 1)]) {
        input.skip(entry & 15);
        return entry >> 4;
    }
    int bits = 0, first = 0, index = 0;
    for (unsigned length = 1; length <= Code::longest; ++length) {
        bits |= static_cast<int>(input.bits >> (length - 1) & 1);
        const int count = code.count[length];
        if (bits - count < first) {
            input.skip(length);
            return code.symbol[static_cast<std::size_t>(index + bits - first)];
        }
        index += count;
        first = (first + count) << 1;
        bits <<= 1;
    }
    fail("there is an invalid code");
}

Inflate::Inflate(std::int64_t spacing) : buffer_(window + most_expanded + longest_match), spacing_(spacing) {}

void Inflate::make_room() {
    const std::size_t kept = std::min(end_, window), gone = end_ - kept;
    std::memmove(buffer_.data(), buffer_.data() + gone, kept);
    before_ += static_cast<std::int64_t>(gone);
    begin_ = end_ = kept;
}

std::size_t Inflate::feed(const std::uint8_t *data, std::size_t size, bool last) {
    make_room();
    points_.clear();
    Input input{data, data + size};
    if (bit_) {
        if (!size) return 0;
        input.refill();
        input.skip(bit_);
    }
    const std::size_t most = begin_ + most_expanded;
    const auto enough = [&](std::size_t need) { return last || input.left() >= need; };
    for (bool more = true; more && end_ < most;) {
        switch (phase_) {
            case Phase::header: {
                const std::int64_t position = before_ + static_cast<std::int64_t>(end_);
                if (!(more = enough(header_bytes))) break;
                if (position - last_point_ >= spacing_) {
                    input.refill();
                    const auto given = static_cast<std::int64_t>(size - input.left());
                    points_.push_back({(used_ + given) * 8 - input.count % 8, position});
                    last_point_ = position;
                }
                read_header(input);
                break;
            }
            case Phase::stored:
                copy_stored(input);
                more = phase_ != Phase::stored || input.left() > 0;
                if (phase_ == Phase::stored && last && !input.left()) fail("the data are truncated");
                break;
            case Phase::codes:
                while (end_ < most && phase_ == Phase::codes && (more = enough(symbol_bytes))) expand_symbol(input);
                break;
            case Phase::done:
                more = false;
        }
    }
    input.check();
    const std::size_t used = size - input.left() - (input.count % 8 && phase_ != Phase::done ? 1 : 0);
    bit_ = phase_ == Phase::done ? 0 : (8 - input.count % 8) % 8;
    used_ += static_cast<std::int64_t>(used);
    return used;
}

void Inflate::read_header(Input &input) {
    input.refill();
    final_ = input.take(1);
    switch (input.take(2)) {
        case 0: {
            input.skip(input.count % 8);
            input.refill();
            const unsigned length = input.take(16), inverse = input.take(16);
            input.check();
            if (length != (inverse ^ 0xFFFF)) fail("the length of a stored block is wrong");
            stored_ = length;
            phase_ = Phase::stored;
            break;
        }
        case 1: {
            std::array<std::uint8_t, 288> lengths;
            std::fill(lengths.begin(), lengths.begin() + 144, std::uint8_t{8});
            std::fill(lengths.begin() + 144, lengths.begin() + 256, std::uint8_t{9});
            std::fill(lengths.begin() + 256, lengths.begin() + 280, std::uint8_t{7});
            std::fill(lengths.begin() + 280, lengths.end(), std::uint8_t{8});
            literals_.build(lengths.data(), lengths.size(), Code::Kind::symbols);
            lengths.fill(5);
            distances_.build(lengths.data(), 32, Code::Kind::symbols);
            phase_ = Phase::codes;
            break;
        }
        case 2:
            read_codes(input);
            phase_ = Phase::codes;
            break;
        default:
            fail("there is an invalid type of block");
    }
}

void Inflate::read_codes(Input &input) {
    const unsigned literals = input.take(5) + 257, distances = input.take(5) + 1, count = input.take(4) + 4;
    if (literals > 286 || distances > 30) fail("there are too many symbols");
    std::array<std::uint8_t, 19> own{};
    for (unsigned i = 0; i < count; ++i) {
        input.refill();
        own[order[i]] = static_cast<std::uint8_t>(input.take(3));
    }
    Code code;
    code.build(own.data(), own.size(), Code::Kind::lengths);
    std::array<std::uint8_t, 286 + 30> lengths{};
    for (unsigned i = 0; i < literals + distances;) {
        input.refill();
        const unsigned symbol = decode(input, code);
        input.check();
        if (symbol < 16) {
            lengths[i++] = static_cast<std::uint8_t>(symbol);
            continue;
        }
        if (symbol == 16 && !i) fail("a repeat code comes before the first length");
        const std::uint8_t value = symbol == 16 ? lengths[i - 1] : std::uint8_t{0};
        const unsigned repeat = symbol == 16 ? 3 + input.take(2) : symbol == 17 ? 3 + input.take(3) : 11 + input.take(7);
        if (repeat > literals + distances - i) fail("there are too many lengths");
        for (unsigned j = 0; j < repeat; ++j) lengths[i++] = value;
    }
    if (!lengths[end_of_block]) fail("no code ends the block");
    literals_.build(lengths.data(), literals, Code::Kind::symbols);
    distances_.build(lengths.data() + literals, distances, Code::Kind::symbols);
}

void Inflate::copy_stored(Input &input) {
    // Whole bytes may be in the buffer of bits.
    const std::size_t rest = begin_ + most_expanded - end_;
    std::size_t size = std::min({stored_, rest, input.left()});
    stored_ -= size;
    for (; size && input.count >= 8; --size) buffer_[end_++] = static_cast<std::uint8_t>(input.take(8));
    if (size) {
        std::memcpy(buffer_.data() + end_, input.at, size);
        end_ += size, input.at += size;
        input.bits = 0, input.count = 0;
    }
    if (!stored_) phase_ = final_ ? Phase::done : Phase::header;
}

void Inflate::expand_symbol(Input &input) {
    input.refill();
    const unsigned symbol = decode(input, literals_);
    if (symbol < end_of_block) {
        buffer_[end_++] = static_cast<std::uint8_t>(symbol);
    } else if (symbol == end_of_block) {
        phase_ = final_ ? Phase::done : Phase::header;
    } else {
        copy_match(input, symbol);
    }
    if (input.missing) input.check();
}

void Inflate::copy_match(Input &input, unsigned symbol) {
    if (symbol - 257 >= length_base.size()) fail("there is an invalid length");
    const unsigned length = length_base[symbol - 257] + input.take(length_bits[symbol - 257]);
    const unsigned code = decode(input, distances_);
    if (code >= distance_base.size()) fail("there is an invalid distance");
    const std::size_t distance = distance_base[code] + input.take(distance_bits[code]);
    if (distance > end_) fail("a distance is too far back");
    std::uint8_t *to = buffer_.data() + end_;
    const std::uint8_t *from = to - distance;
    end_ += length;
    if (distance >= length)
        std::memcpy(to, from, length);
    else
        for (unsigned i = 0; i < length; ++i) to[i] = from[i];
}

}  // namespace bushel
