#include "order/even_draws.hpp"

#include <algorithm>
#include <cmath>

#include "common/simd.hpp"

namespace bushel {

namespace {

constexpr std::int64_t one = Share::one, never = Share::never;
constexpr std::int64_t smallest = 1 << 20;  // weight whose crossings are found by adding
constexpr std::int64_t worth_a_jump = 256;  // draws; fewer are drawn one by one

// The quotient, rounded up, of a number from 0 and one above 0.
std::int64_t divided_up(__int128 number, std::int64_t by) {
    const __int128 most = number + by - 1;
    if (most >> 63 == 0) return static_cast<std::int64_t>(most) / by;  // much faster
    return static_cast<std::int64_t>(std::min<__int128>(most / by, never));
}

constexpr std::int64_t never_due = std::int64_t{1} << 50;
constexpr std::size_t lanes = 8, few = 8;

// The first turn of those that are open; the first of all if none is, which weights of the right sum rule out. The
// compiler makes vector instructions of it.
__attribute__((always_inline)) inline std::int64_t first_turn(const std::int64_t *opens, const std::int64_t *turns,
                                                              std::size_t count, std::int64_t next) {
    std::int64_t best[lanes];
    std::fill(best, best + lanes, never);
    for (std::size_t i = 0; i < count; i += lanes) {
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            const std::int64_t turn = opens[i + lane] <= next ? turns[i + lane] : never;
            best[lane] = turn < best[lane] ? turn : best[lane];
        }
    }
    for (std::size_t half = lanes / 2; half; half /= 2) {
        for (std::size_t lane = 0; lane < half; ++lane) best[lane] = std::min(best[lane], best[lane + half]);
    }
    return best[0] < never ? best[0] : *std::min_element(turns, turns + count);
}

std::int64_t turn_scalar(const std::int64_t *opens, const std::int64_t *turns, std::size_t count, std::int64_t next) {
    return first_turn(opens, turns, count, next);
}

#ifdef BUSHEL_X86
BUSHEL_AVX2 std::int64_t turn_avx2(const std::int64_t *opens, const std::int64_t *turns, std::size_t count,
                                   std::int64_t next) {
    return first_turn(opens, turns, count, next);
}

BUSHEL_AVX512 std::int64_t turn_avx512(const std::int64_t *opens, const std::int64_t *turns, std::size_t count,
                                       std::int64_t next) {
    return first_turn(opens, turns, count, next);
}
#endif

using Turn = std::int64_t (*)(const std::int64_t *, const std::int64_t *, std::size_t, std::int64_t);

Turn turn_here() {
    static const Turn chosen = select<Turn>({
#ifdef BUSHEL_X86
        {Simd::avx512, &turn_avx512},
        {Simd::avx2, &turn_avx2},
#endif
        {Simd::scalar, &turn_scalar},
    });
    return chosen;
}

}  // namespace

__int128 Share::after(std::int64_t draws) const {
    const std::int64_t inside = std::min(draws, ramp);
    __int128 share = start + static_cast<__int128>(draws - inside) * last;
    if (inside)
        share += inside * (static_cast<__int128>(first) * (2 * ramp - inside) + static_cast<__int128>(last) * inside) /
                 (2 * ramp);
    return share;
}

std::int64_t Share::reaches(__int128 number) const {
    if (number <= start) return 0;
    const __int128 at_end = ramp ? after(ramp) : start;
    if (number > at_end) return last ? ramp + divided_up(number - at_end, last) : never;
    const auto missing = static_cast<double>(number - start), weight = static_cast<double>(first);
    const double growth = (static_cast<double>(last) - weight) / static_cast<double>(ramp);
    const double root = std::sqrt(std::max(weight * weight + 2 * growth * missing, 0.0));
    const double guess = std::clamp(2 * missing / (weight + root), 0.0, static_cast<double>(ramp));
    // the share is below the number after `low` draws, and not after `high`
    std::int64_t low = static_cast<std::int64_t>(guess) - 1, high = low + 2;
    for (std::int64_t step = 1; low > 0 && after(low) >= number; step *= 2) {
        high = low;
        low -= step;
    }
    low = std::max(low, std::int64_t{0});
    high = std::min(high, ramp);
    for (std::int64_t step = 1; high < ramp && after(high) < number; step *= 2) {
        low = high;
        high = std::min(high + step, ramp);
    }
    while (high - low > 1) {
        const std::int64_t middle = low + (high - low) / 2;
        (after(middle) < number ? low : high) = middle;
    }
    return high;
}

EvenDraws::EvenDraws(std::vector<Share> shares, std::int64_t next, const std::int64_t *drawn)
    : shares_(std::move(shares)),
      next_(next),
      first_turn_(turn_here()),
      drawn_(drawn, drawn + shares_.size()),
      from_(shares_.size()),
      due_(shares_.size()),
      opens_((shares_.size() + lanes - 1) / lanes * lanes, never),
      turns_(opens_.size(), never) {
    const auto sets = static_cast<std::int64_t>(shares_.size());
    slack_ = sets > 1 ? one / (2 * sets - 2) - sets : 0;
    begin();
}

std::pair<std::size_t, std::int64_t> EvenDraws::draw(std::int64_t number) {
    if (number - next_ > worth_a_jump) {
        const std::int64_t start = near(number);
        if (start > next_) jump(start);
    }
    while (next_ < number) advance();
    const std::size_t set = advance();
    return {set, drawn_[set] - 1};
}

void EvenDraws::Crossing::find(const Share &share, __int128 number) {
    draws = share.reaches(number);
    over = -1;
    if (draws >= share.ramp && share.last >= smallest) {
        const __int128 above = share.after(draws) - number;
        if (above < share.last) {
            over = static_cast<std::int64_t>(above);
            whole = one / share.last;
            rest = one % share.last;
        }
    }
}

void EvenDraws::Crossing::next(const Share &share, __int128 number) {
    if (over < 0) {
        find(share, number);
        return;
    }
    draws += whole;
    over -= rest;
    if (over < 0) {
        ++draws;
        over += share.last;
    }
}

void EvenDraws::enter(std::size_t set) {
    opens_[set] = from_[set].draws - 1;
    turns_[set] =
        std::min(due_[set].draws, never_due) * static_cast<std::int64_t>(most_sets) | static_cast<std::int64_t>(set);
}

void EvenDraws::begin() {
    for (std::size_t set = 0; set < shares_.size(); ++set) {
        from_[set].find(shares_[set], from(set));
        due_[set].find(shares_[set], due(set));
        enter(set);
    }
}

// Draw once, and return the set.
std::size_t EvenDraws::advance() {
    std::int64_t turn = never;
    if (shares_.size() > few) {
        turn = first_turn_(opens_.data(), turns_.data(), opens_.size(), next_);
    } else {
        for (std::size_t i = 0; i < shares_.size(); ++i) turn = std::min(turn, opens_[i] <= next_ ? turns_[i] : never);
        if (turn == never) turn = *std::min_element(turns_.begin(), turns_.end());
    }
    const std::size_t set = static_cast<std::size_t>(turn) % most_sets;
    ++drawn_[set];
    ++next_;
    from_[set].next(shares_[set], from(set));
    due_[set].next(shares_[set], due(set));
    enter(set);
    return set;
}

// The last draw at which sets may be drawn only if they must be before a number; 0 if that is too near the start, where
// sets may be farther from their shares. After `jump` to it, the draws from the number on are those from the start.
std::int64_t EvenDraws::near(std::int64_t number) const {
    std::int64_t nearest = number;
    for (const Share &share : shares_) {
        const std::int64_t due = must_be_drawn(share.after(number));
        nearest = std::min(nearest, share.reaches(static_cast<__int128>(due) * one + slack_) - 1);
    }
    const auto is_settled = [nearest](const Share &share) {
        return share.after(nearest) >= std::max(share.start, std::int64_t{0}) + 2 * one;
    };
    return nearest > 0 && std::all_of(shares_.begin(), shares_.end(), is_settled) ? nearest : 0;
}

// Go to a draw without those before it. Each set was drawn as often as it had to be, and those that have to be drawn
// next once more, until the sum is right.
void EvenDraws::jump(std::int64_t to) {
    std::vector<std::pair<std::int64_t, std::size_t>> next;
    std::int64_t left = to;
    for (std::size_t set = 0; set < shares_.size(); ++set) {
        const __int128 share = shares_[set].after(to);
        drawn_[set] = must_be_drawn(share);
        left -= drawn_[set];
        if (share >= from(set)) next.emplace_back(shares_[set].reaches(due(set)), set);
    }
    std::sort(next.begin(), next.end());
    for (const auto &[time, set] : next) {
        if (left-- > 0) ++drawn_[set];
    }
    next_ = to;
    begin();
}

}  // namespace bushel
