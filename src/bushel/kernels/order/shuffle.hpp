// The shuffle of NumPy's legacy generator, `numpy.random.RandomState.shuffle`.
#pragma once
#include <cstddef>
#include <cstdint>

namespace bushel {

// The generator MT19937 (Matsumoto and Nishimura, 1998), from a state of `RandomState.get_state()`.
class Mt19937 {
public:
    static constexpr int words = 624;

    // `key` has `words` words; `position` (0 to `words`) of them were drawn.
    Mt19937(const std::uint32_t *key, int position);

    // The next 32 bits.
    std::uint32_t next() {
        if (position_ == words) refill();
        std::uint32_t word = key_[position_++];
        word ^= word >> 11;
        word ^= word << 7 & 0x9d2c5680U;
        word ^= word << 15 & 0xefc60000U;
        return word ^ word >> 18;
    }

    const std::uint32_t *key() const { return key_; }
    int position() const { return position_; }

private:
    void refill();

    std::uint32_t key_[words];
    int position_;
};

// Shuffle fewer than 2**32 items in place, as `RandomState.shuffle` does.
void shuffle(Mt19937 &draw, std::int32_t *items, std::size_t count);

}  // namespace bushel
