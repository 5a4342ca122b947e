// Draws from sets by weights, each set as evenly as possible: the order `scheduled` of docs/order.md.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace bushel {

// The share of a set: the number of draws that it should have, in units of 2^-52 draw.
struct Share {
    std::int64_t start;  // the share before the first draw, relative to the draws that the set had; of either sign
    std::int64_t first, last;  // the weights at the start and at the end of the ramp, up to 2^52
    std::int64_t ramp;         // draws in which the weight goes from `first` to `last`, where it stays; 0 to 2^36

    // The share after some draws.
    __int128 after(std::int64_t draws) const;

    // The smallest number of draws after which the share is at least a number; `never` if no number is large enough.
    std::int64_t reaches(__int128 number) const;

    static constexpr std::int64_t one = std::int64_t{1} << 52;
    static constexpr std::int64_t never = std::int64_t{1} << 62;
};

// Draws in their order. Each is from a set that is not ahead of its share by too much, of these from the one that has
// to be drawn first.
class EvenDraws {
public:
    // The sets have drawn `drawn`, from the start, before draw `next`.
    EvenDraws(std::vector<Share> shares, std::int64_t next, const std::int64_t *drawn);

    // Go on to a draw, and return its set and the number of earlier draws from it. Draws must ascend.
    std::pair<std::size_t, std::int64_t> draw(std::int64_t number);

    std::int64_t next() const { return next_; }
    const std::vector<std::int64_t> &drawn() const { return drawn_; }

    static constexpr std::size_t most_sets = std::size_t{1} << 11;

private:
    // The first number of draws after which a share is at least a number, which grows by one each time.
    struct Crossing {
        std::int64_t draws = 0, over = -1;  // how far the share is above the number; -1 if that does not help
        std::int64_t whole = 0, rest = 0;   // of a draw, divided by the last weight

        void find(const Share &share, __int128 number);
        void next(const Share &share, __int128 number);
    };

    std::int64_t near(std::int64_t number) const;
    void jump(std::int64_t to);
    void begin();
    void enter(std::size_t set);
    std::size_t advance();
    // How often a set with a share must have been drawn.
    std::int64_t must_be_drawn(__int128 share) const {
        return static_cast<std::int64_t>((share + slack_ + Share::one - 1) >> 52) - 1;
    }
    __int128 from(std::size_t set) const { return static_cast<__int128>(drawn_[set]) * Share::one + slack_; }
    __int128 due(std::size_t set) const { return static_cast<__int128>(drawn_[set] + 1) * Share::one - slack_ + 1; }

    std::vector<Share> shares_;
    std::int64_t slack_, next_;
    std::int64_t (*first_turn_)(const std::int64_t *opens, const std::int64_t *turns, std::size_t count,
                                std::int64_t next);
    std::vector<std::int64_t> drawn_;
    std::vector<Crossing> from_, due_;  // of each set: when it may be drawn next, and when it must have been
    std::vector<std::int64_t> opens_,
        turns_;  // the same for the search; a turn is a time with the set in its last bits
};

}  // namespace bushel
