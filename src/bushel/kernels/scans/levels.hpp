// Levels of a page of Parquet: which values are there, and how many belong to each row. Nulls are found without writing
// down each level. Damaged levels throw std::invalid_argument; the memory is bounded by the number of levels.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bushel {

struct Section {
    const std::uint8_t *data;
    std::size_t size;
};

// The values of a page that are there.
struct Present {
    std::int64_t values = 0;          // all values, nulls among them; of lists, their elements
    std::int64_t count = 0;           // those that are there
    std::vector<std::uint8_t> there;  // which these are, 1 or 0; empty if all are
    std::int64_t rows = 0;            // of lists, the rows that have begun, also on the pages before

    void add(std::int64_t number, bool present) {
        if (!present && there.empty()) there.assign(static_cast<std::size_t>(values), 1);
        values += number;
        if (present) count += number;
        if (count < values) there.resize(static_cast<std::size_t>(values), present);
    }
};

// Find the values with the largest definition level among `values` levels.
Present find_present(Section definition, unsigned largest, std::int64_t values);

// The rows of a chunk, which its pages fill.
struct ListRows {
    std::int64_t *counts;   // elements of each
    std::uint8_t *absent;   // whether a row is null
    std::int64_t capacity;  // rows beyond it are counted, and not written
    std::int64_t rows;      // rows that have begun on pages before
};

// Count the elements of each row on a page with `values` levels. A list is there at the definition level `list`, and has
// an element, perhaps a null, above it.
Present find_elements(Section repetition, Section definition, unsigned largest, unsigned list, std::int64_t values,
                      ListRows rows);

}  // namespace bushel
