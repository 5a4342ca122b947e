#include "scans/levels.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "scans/hybrid.hpp"

namespace bushel {

namespace {

unsigned bits_of(unsigned largest) {
    unsigned bits = 0;
    for (; largest; largest >>= 1) ++bits;
    return bits;
}

void check_level(std::uint32_t level, unsigned largest) {
    if (level > largest) {
        throw std::invalid_argument("a level is " + std::to_string(level) + ", where the largest is " +
                                    std::to_string(largest));
    }
}

}  // namespace

Present find_present(Section definition, unsigned largest, std::int64_t values) {
    HybridRuns levels(definition.data, definition.size, bits_of(largest), values);
    Present present;
    while (!levels.done()) {
        const std::int64_t numbers = levels.run(), step = levels.same() ? numbers : 1;
        for (std::int64_t i = 0; i < numbers; i += step) {
            check_level(levels[i], largest);
            present.add(step, levels[i] == largest);
        }
        levels.skip(numbers);
    }
    return present;
}

Present find_elements(Section repetition, Section definition, unsigned largest, unsigned list, std::int64_t values,
                      ListRows rows) {
    HybridRuns repeated(repetition.data, repetition.size, 1, values);
    HybridRuns defined(definition.data, definition.size, bits_of(largest), values);
    Present present;
    std::int64_t row = rows.rows;  // the rows that have begun
    const auto add = [&](std::int64_t number, std::uint32_t repeats, std::uint32_t level) {
        check_level(repeats, 1), check_level(level, largest);
        const bool element = level > list;
        if (element) present.add(number, level == largest);
        if (repeats && !row) throw std::invalid_argument("the first level of a column chunk continues a list");
        const std::int64_t first = repeats ? row - 1 : row, end = repeats ? row : row + number;
        for (std::int64_t i = first; i < std::min(end, rows.capacity); ++i) {
            if (!repeats) rows.counts[i] = 0, rows.absent[i] = level < list;
            if (element) rows.counts[i] += repeats ? number : 1;
        }
        row = end;
    };
    while (!repeated.done() && !defined.done()) {
        const std::int64_t numbers = std::min(repeated.run(), defined.run());
        const std::int64_t step = repeated.same() && defined.same() ? numbers : 1;
        for (std::int64_t i = 0; i < numbers; i += step) add(step, repeated[i], defined[i]);
        repeated.skip(numbers), defined.skip(numbers);
    }
    present.rows = row;
    return present;
}

}  // namespace bushel
