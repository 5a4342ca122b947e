// Expansion of deflate (RFC 1951) from front to back, which notes where a reader may begin again.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bushel {

// A place between two blocks of a stream.
struct RestartPoint {
    std::int64_t bit;       // from the start of the stream
    std::int64_t position;  // in the expanded bytes
};

// The bytes that a stream expands to, given in parts of any size. A stream that is not deflate throws std::invalid_argument.
//
// zlib reports blocks only with Z_BLOCK, which Python lacks; linking it for that would be one more library to build
// with. The values of blocks are expanded by a library.
class Inflate {
public:
    static constexpr std::size_t window = 32 * 1024;
    static constexpr std::size_t most_expanded = 256 * 1024;  // bytes that one call of feed gives

    // Note a restart point at the first border of blocks that is at least `spacing` bytes after the one before.
    explicit Inflate(std::int64_t spacing);

    // Expand bytes that follow those which earlier calls used. Return how many are used: not all if the expanded bytes
    // are as many as one call gives, or the stream ends, or they end within a symbol. `last`: no bytes follow.
    std::size_t feed(const std::uint8_t *data, std::size_t size, bool last);

    // The bytes that the last call expanded, until the next one.
    const std::uint8_t *expanded() const { return buffer_.data() + begin_; }
    std::size_t expanded_size() const { return end_ - begin_; }

    bool done() const { return phase_ == Phase::done; }
    // Those that the last call noted.
    const std::vector<RestartPoint> &points() const { return points_; }

private:
    enum class Phase { header, stored, codes, done };

    // A prefix code: symbols of up to `fast_bits` are found in a table, longer ones bit by bit.
    struct Code {
        static constexpr unsigned fast_bits = 10, longest = 15;
        enum class Kind { lengths, symbols };

        std::array<std::uint16_t, std::size_t{1} << fast_bits> fast;  // symbol * 16 + length; 0: longer, or none
        std::array<std::uint16_t, longest + 1> count;
        std::array<std::uint16_t, 288> symbol;

        void build(const std::uint8_t *lengths, std::size_t size, Kind kind);
    };

    struct Input;

    void make_room();
    void read_header(Input &input);
    void read_codes(Input &input);
    void copy_stored(Input &input);
    void expand_symbol(Input &input);
    void copy_match(Input &input, unsigned symbol);
    static unsigned decode(Input &input, const Code &code);

    std::vector<std::uint8_t> buffer_;  // up to a window of old bytes, and the new ones
    std::size_t begin_ = 0, end_ = 0;
    std::int64_t before_ = 0;  // position of buffer_[0] in the expanded bytes

    Phase phase_ = Phase::header;
    bool final_ = false;
    std::size_t stored_ = 0;  // bytes that are left of a stored block
    Code literals_, distances_;

    unsigned bit_ = 0;        // bits of the next byte that are used already
    std::int64_t used_ = 0;   // bytes that earlier calls used
    std::int64_t spacing_, last_point_ = 0;
    std::vector<RestartPoint> points_;
};

}  // namespace bushel
