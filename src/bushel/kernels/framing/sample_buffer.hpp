// Small samples that were accepted one by one, as columns: the bytes of each field one after another, and the keys.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bushel {

// Values one after another. The last ones can be removed again.
struct GrowingValues {
    std::vector<std::uint8_t> data;
    std::vector<std::int64_t> offsets{0};

    std::size_t count() const { return offsets.size() - 1; }

    void add(const void *bytes, std::size_t length) {
        const auto *const first = static_cast<const std::uint8_t *>(bytes);
        data.insert(data.end(), first, first + length);
        offsets.push_back(static_cast<std::int64_t>(data.size()));
    }

    void truncate(std::size_t count) {
        if (count >= this->count()) return;
        offsets.resize(count + 1);
        data.resize(static_cast<std::size_t>(offsets.back()));
    }
};

struct BufferedSamples {
    explicit BufferedSamples(std::size_t fields) : columns(fields) {}

    void truncate(std::size_t count) {
        for (GrowingValues &column : columns) column.truncate(count);
        keys.truncate(count);
    }

    std::vector<GrowingValues> columns;
    GrowingValues keys;  // empty if samples have none
};

}  // namespace bushel
