// Records of CSV with vectors, in two steps for some kilobytes at a time: masks of the bytes in blocks of 64 say where
// cells end; then the cells are taken column by column, so that no cell waits for the one before it, and what a column
// needs stays in registers. A record that is not as records usually are is left to the code of csv_lines.cpp.
#include <algorithm>

#include "scans/blocks.hpp"
#include "scans/fast_numbers.hpp"
#include "scans/lines.hpp"

namespace bushel {

namespace {

constexpr std::size_t window = 16384;  // bytes in which cells are found at once
constexpr std::size_t most_bytes = std::size_t{1} << 31;  // positions have 32 bits
constexpr std::uint64_t last_bit = std::uint64_t{1} << 63;

// Append the positions of the bits of a mask. There is room for four more.
BUSHEL_VECTORS_INLINE std::size_t append_bits(std::uint32_t *positions, std::size_t count, std::uint64_t mask,
                                              std::size_t at) {
    const auto end = count + static_cast<std::size_t>(__builtin_popcountll(mask));
    do {  // usually once: no branch depends on the number of bits
        for (std::size_t i = 0; i < 4; ++i, mask &= mask - 1) {
            positions[count + i] = static_cast<std::uint32_t>(at) + static_cast<std::uint32_t>(lowest(mask | last_bit));
        }
        count += 4;
    } while (count < end);
    return end;
}

// Where bytes are in a block.
struct BlockMasks {
    std::uint64_t quotes, lines, stops;  // stops are delimiters and line ends
};

BUSHEL_VECTORS_INLINE BlockMasks masks_of(const Block &block, vectors::Vector delimiter) {
    const std::uint64_t lines = mask_of(block, '\n');
    const Block delimiters{vectors::equal_8(block.first, delimiter), vectors::equal_8(block.second, delimiter)};
    return {mask_of(block, '"'), lines, lines | mask_of(delimiters)};
}

// What the bytes before a block mean for it.
struct BlockState {
    std::uint64_t in_quotes = 0;  // all bits, if the block begins in quotes
    std::uint64_t after_end = 1, after_quote = 0;  // 1 if the block follows the end of a cell, or a quote
};

// What the bytes of a block are.
struct BlockEnds {
    std::uint64_t quotes;   // those that begin or end a cell, or are doubled
    std::uint64_t ends;     // of cells
    std::uint64_t inside;   // bytes in quotes, and the quotes before them
    std::uint64_t doubled;  // the second of two quotes in quotes
    std::uint64_t wrong;    // quotes that begin after the first byte of a cell
};

inline BlockEnds ends_of(const BlockMasks &masks, const BlockState &before) {
    const std::uint64_t inside = odd_up_to(masks.quotes) ^ before.in_quotes, ends = masks.stops & ~inside;
    const std::uint64_t opening = masks.quotes & inside, doubled = opening & (masks.quotes << 1 | before.after_quote);
    return {masks.quotes, ends, inside, doubled, opening & ~doubled & ~(ends << 1 | before.after_end)};
}

// A cell: its first byte, the byte after its last one, and whether it ends as its column does.
struct CellFound {
    const std::uint8_t *at, *last;
    bool ends;

    std::int64_t size() const { return last - at; }
};

// The cells of a column, and where their values go.
struct ColumnCells {
    const std::uint8_t *base;
    const std::uint32_t *records;  // the end of the last record; the next one is `columns` further
    const std::uint32_t *ends;     // the end of the first cell, the same
    std::size_t columns, count;
    std::uint8_t terminator;
    FieldValues::Slots slots;

    CellFound at(std::size_t i) const {
        const std::uint32_t *const end = ends + i * columns;
        const std::uint8_t *const first = base + static_cast<std::uint32_t>(end[-1] + 1), *last = base + *end;
        const bool usual = *last == terminator;
        if (terminator == '\n' && last > first && last[-1] == '\r') --last;
        return {first, last, usual};
    }
    // Set where a cell is in its record.
    void set_extent(std::size_t i, const CellFound &cell) const {
        slots.place[i] = (ends + i * columns)[-1] - records[i * columns];
        slots.length[i] = static_cast<std::uint32_t>(cell.size()) + 1;
    }
    void set(std::size_t i, const CellFound &cell, std::int64_t number) const {
        set_extent(i, cell);
        slots.number[i] = number;
    }
};

// The functions below take cells from `first` on, up to one that is of another kind, and return which that is. They are
// not inlined, so that each has the registers for its loop.

BUSHEL_VECTORS __attribute__((noinline)) std::size_t quoted_cells(const ColumnCells cells, const std::size_t first) {
    const FieldValues::Slots slots = cells.slots;
    std::size_t i = first;
    for (; i < cells.count; ++i) {
        const CellFound cell = cells.at(i);
        if (!cell.ends || *cell.at != '"' || cell.last[-1] != '"') break;
        cells.set_extent(i, cell);
    }
    slots.set_kinds(first, i, ValueKind::quoted);
    std::fill(slots.number + first, slots.number + i, 0);
    return i;
}

template <ValueKind Kind, bool Parse(const std::uint8_t *last, std::int64_t size, std::int64_t &number)>
BUSHEL_VECTORS __attribute__((noinline)) std::size_t numbers(const ColumnCells cells, const std::size_t first) {
    std::size_t i = first;
    for (; i < cells.count; ++i) {
        const CellFound cell = cells.at(i);
        std::int64_t number;
        if (!cell.ends || !Parse(cell.last, cell.size(), number)) break;
        cells.set(i, cell, number);
    }
    cells.slots.set_kinds(first, i, Kind);
    return i;
}

// Take a cell of another kind; false if it is damaged.
bool other_cell(const ColumnCells &cells, std::size_t i) {
    const CellFound cell = cells.at(i);
    const std::int64_t size = cell.size();
    if (!cell.ends || (size && *cell.at == '"') || (!size && cells.columns == 1)) return false;
    const ParsedNumber number = parse_number(cell.at, cell.last);
    const bool whole = size && static_cast<std::int64_t>(number.size) == size;
    cells.set(i, cell, whole ? number.bits : 0);
    if (!size) cells.slots.place[i] = cells.slots.length[i] = 0;
    cells.slots.set_kinds(i, i + 1, whole ? number.kind : size ? ValueKind::bare : ValueKind::null);
    return true;
}

}  // namespace

struct FastRecords {
    LineScan &scan;
    const std::uint8_t *const base;
    const std::size_t size;
    const std::size_t columns = scan.names_.size();
    std::size_t scanned = 0;  // bytes, in whole blocks
    std::size_t next = 1;        // the next end of a cell to be taken, after one end that was
    std::size_t known_ends = 1;  // all ends in memory
    std::size_t damaged = 1;  // the first cell with more bytes after its closing quote, or all ends
    std::size_t next_inner = 0;
    BlockState carried;

    FastRecords(LineScan &lines, const std::uint8_t *at, const std::uint8_t *end)
        : scan(lines), base(at), size(std::min(static_cast<std::size_t>(end - at), most_bytes)) {
        scan.ends_.resize(1 + columns + window + block_size + 4);
        scan.ends_[0] = ~std::uint32_t{0};  // the byte before the first one
        scan.inner_.clear();
    }

    // Return where the next record begins.
    const std::uint8_t *record() const { return base + static_cast<std::uint32_t>(scan.ends_[next - 1] + 1); }

    // Find ends in more blocks, until a record is whole; false if the bytes end before.
    BUSHEL_VECTORS __attribute__((noinline)) bool fill() {
        std::uint32_t *const ends = scan.ends_.data();
        auto count = static_cast<std::size_t>(std::copy(ends + next - 1, ends + known_ends, ends) - ends);
        std::size_t at = scanned;
        next = 1;
        scan.inner_.erase(scan.inner_.begin(), scan.inner_.begin() + static_cast<std::ptrdiff_t>(next_inner));
        next_inner = 0;
        const std::size_t enough = at + window;
        const std::uint8_t *const bytes = base;
        BlockState state = carried;
        const vectors::Vector delimiters = vectors::all_8(scan.delimiter_);
        for (; at < size && (at < enough || count <= columns); at += block_size) {
            const BlockMasks masks = masks_of(block_at(bytes + at, bytes + size), delimiters);
            BlockEnds block = ends_of(masks, state);
            if (block.wrong | block.doubled | (masks.lines & block.inside)) block = inner_bytes(at, masks, state);
            state.in_quotes = static_cast<std::uint64_t>(static_cast<std::int64_t>(block.inside) >> 63);
            state.after_end = block.ends >> 63;
            state.after_quote = block.quotes >> 63;
            count = append_bits(ends, count, block.ends, at);
        }
        carried = state;
        scanned = at;
        known_ends = count;
        find_damage();
        return known_ends > columns;
    }

    // Keep the places of quotes and line ends within the cells of a block. A quote that begins within a cell is a byte as
    // any other, which changes what the quotes after it mean.
    __attribute__((noinline)) BlockEnds inner_bytes(std::size_t at, BlockMasks masks, BlockState before) {
        std::uint64_t literal = 0;
        BlockEnds block = ends_of(masks, before);
        for (; block.wrong; block = ends_of(masks, before)) {
            const std::uint64_t first = block.wrong & (~block.wrong + 1);
            literal |= first;
            masks.quotes &= ~first;
        }
        for (std::uint64_t inner = literal | block.doubled | (masks.lines & block.inside); inner; inner &= inner - 1) {
            const int bit = lowest(inner);
            const auto place = static_cast<std::uint32_t>(at) + static_cast<std::uint32_t>(bit);
            scan.inner_.push_back({place, (literal >> bit & 1) != 0});
        }
        return block;
    }

    // Return the cell with a byte: the number of its end in memory.
    std::size_t cell_of(std::uint32_t at) const {
        const std::uint32_t *const ends = scan.ends_.data();
        return static_cast<std::size_t>(std::upper_bound(ends + next, ends + known_ends, at) - ends);
    }

    // Find the first cell with more bytes after its closing quote.
    void find_damage() {
        damaged = known_ends;
        for (const LineScan::InnerByte &inner : scan.inner_) {
            const std::size_t cell = inner.literal ? cell_of(inner.at) : known_ends;
            if (cell < known_ends && base[static_cast<std::uint32_t>(scan.ends_[cell - 1] + 1)] == '"') {
                damaged = cell;
                return;
            }
        }
    }

    // Take the cells of a column in some records, and return how many are usual, up to the first that is not.
    BUSHEL_VECTORS std::size_t take(std::size_t column, std::size_t records) {
        FieldValues &values = scan.names_[column].empty() ? scan.unwanted_ : scan.values_[column];
        const ColumnCells cells{base,
                                scan.ends_.data() + next - 1,
                                scan.ends_.data() + next + column,
                                columns,
                                records,
                                column + 1 == columns ? std::uint8_t{'\n'} : scan.delimiter_,
                                values.slots(scan.row_, records)};
        const bool usual = can_read_before();
        std::size_t done = 0;
        while (done < records) {
            const std::size_t before = done;
            done = quoted_cells(cells, done);
            if (usual) {
                done = numbers<ValueKind::integer, usual_integer>(cells, done);
                done = numbers<ValueKind::real, usual_real>(cells, done);
            }
            if (done == before && !other_cell(cells, done++)) return before;
        }
        return records;
    }

    // Set where records begin.
    void set_starts(std::size_t records) {
        const std::size_t rows = static_cast<std::size_t>(scan.row_) + records;
        if (scan.starts_.size() < rows) scan.starts_.resize(2 * rows);
        std::int64_t *const starts = scan.starts_.data() + scan.row_;
        const std::int64_t start = scan.start_ + (base - scan.data_);
        for (std::size_t i = 0; i < records; ++i) {
            starts[i] = start + static_cast<std::uint32_t>(scan.ends_[next - 1 + i * columns] + 1);
        }
    }

    // Whether the bytes that vectors read before the end of a number are in memory, for the next record.
    bool can_read_before() const { return record() - scan.data_ >= number_room_before; }

    // Set what quotes and line ends within the cells of some records mean.
    void take_inner(std::size_t records) {
        for (; next_inner < scan.inner_.size(); ++next_inner) {
            const LineScan::InnerByte &inner = scan.inner_[next_inner];
            const std::size_t cell = cell_of(inner.at) - next, column = cell % columns, row = cell / columns;
            if (row >= records) break;
            const bool ends_line = base[inner.at] == '\n';
            scan.lines_ += ends_line;
            if (inner.literal || ends_line || scan.names_[column].empty()) continue;
            scan.values_[column].slots(scan.row_, records).set_kinds(row, row + 1, ValueKind::escaped);
        }
    }

    // Take the records whose ends are known, or an empty line; false if the next record is unusual.
    BUSHEL_VECTORS bool take() {
        const std::size_t known = can_read_before() ? std::min((known_ends - next) / columns, scan.rows_left()) : 1;
        std::size_t records = std::min(known, (damaged - next) / columns);
        set_starts(records);
        for (std::size_t column = 0; column < columns; ++column) records = take(column, records);
        take_inner(records);
        const std::int32_t rows = scan.row_ + static_cast<std::int32_t>(records);
        for (std::size_t column = 0; column < columns; ++column) {
            if (!scan.names_[column].empty()) scan.values_[column].resize(rows);
        }
        next += records * columns;
        scan.row_ = rows;
        scan.lines_ += static_cast<std::int64_t>(records);
        return records == known || empty_line();
    }

    // Take an empty line, if one follows.
    bool empty_line() {
        const std::uint8_t *const at = record(), *const end = base + scan.ends_[next];
        if (*end != '\n' || end - at > 1 || (end > at && *at != '\r')) return false;
        ++next;
        ++scan.lines_;
        return true;
    }

    BUSHEL_VECTORS const std::uint8_t *records() {
        while (!scan.full() && (known_ends - next >= columns || fill()) && take()) {}
        return record();
    }
};

const std::uint8_t *LineScan::fast_records(const std::uint8_t *at, const std::uint8_t *end) {
    return FastRecords{*this, at, end}.records();
}

}  // namespace bushel
