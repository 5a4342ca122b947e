// Values of lines in any order: each is in another line of the cache, so the values of some samples are loaded at once.
#include "scans/line_rows.hpp"

#include "scans/open_block.hpp"

#include <algorithm>
#include <stdexcept>
#include <tuple>

namespace bushel {

LineRows::LineRows(const LineBlocks &blocks, std::size_t field, LinePart part, bool quotes)
    : blocks_(blocks), field_(field), part_(part), quotes_(quotes),
      extent_(part == LinePart::offset || part == LinePart::length) {}

LineRows::~LineRows() {
    for (std::size_t i = 0; known_ && i < blocks_.blocks(); ++i) delete known_[i].load();
}

const OpenBlock &LineRows::block(std::size_t number) const {
    const OpenBlock *const known = known_[number].load(std::memory_order_acquire);
    return known ? *known : opened(number);
}

const OpenBlock &LineRows::opened(std::size_t number) const {
    auto fresh = std::make_unique<OpenBlock>();
    fresh->open(blocks_.block(number), field_, extent_);
    const OpenBlock *before = nullptr;
    if (known_[number].compare_exchange_strong(before, fresh.get())) return *fresh.release();
    return *before;  // of another thread
}

template <typename Put>
void LineRows::each(const std::int64_t *rows, std::size_t count, Put put) const {
    constexpr std::size_t together = 32;
    const OpenBlock *blocks[together];
    std::size_t places[together];
    const std::int64_t samples = blocks_.samples();
    std::call_once(made_, [&] { known_.reset(new std::atomic<const OpenBlock *>[blocks_.blocks()]()); });
    for (std::size_t first = 0; first < count; first += together) {
        const std::size_t batch = std::min(together, count - first);
        for (std::size_t i = 0; i < batch; ++i) {
            std::int64_t row = rows[first + i];
            if (row < 0) row += samples;
            if (row < 0 || row >= samples) throw std::out_of_range("samples that do not exist");
            blocks[i] = &block(blocks_.block_of(row));
            places[i] = static_cast<std::size_t>(row - blocks[i]->first());
            blocks[i]->load(extent_, places[i]);
        }
        for (std::size_t i = 0; i < batch; ++i) put(*blocks[i], first + i, places[i]);
    }
}

void LineRows::take(const std::int64_t *rows, std::size_t count, std::int64_t *out) const {
    const LinePart part = part_;
    const bool quotes = quotes_;
    if (part == LinePart::number || part == LinePart::real) {
        each(rows, count, [=](const OpenBlock &block, std::size_t i, std::size_t row) { out[i] = block.number(part, row); });
    } else {
        each(rows, count, [=](const OpenBlock &block, std::size_t i, std::size_t row) { out[i] = block.value(part, quotes, row); });
    }
}

void LineRows::extents(const std::int64_t *rows, std::size_t count, std::int64_t *offset, std::int64_t *length) const {
    if (!extent_) throw std::invalid_argument("extents: expected the offsets or the lengths of a field");
    each(rows, count, [&](const OpenBlock &block, std::size_t i, std::size_t row) {
        std::tie(offset[i], length[i]) = block.extent(quotes_, row);
    });
}

}  // namespace bushel
