#include "scans/riegeli.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "common/bytes.hpp"

namespace bushel {

namespace {

constexpr std::int64_t block = 1 << 16, block_header = 24, room = block - block_header;
constexpr std::int64_t chunk_header = 40;
constexpr std::int64_t read_together = chunk_header + 11;  // a header, the compression and a number
constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max() / 4;

std::int64_t place_of(std::int64_t position) { return position / room * block + block_header + position % room; }

std::int64_t position_of(std::int64_t offset) {
    return offset / block * room + std::max(offset % block - block_header, std::int64_t{0});
}

// A number that a file can have as a size; -1 for a larger one.
std::int64_t checked(std::uint64_t number) {
    return number > static_cast<std::uint64_t>(largest) ? -1 : static_cast<std::int64_t>(number);
}

bool is_known(std::uint8_t compression) {
    return compression == 0 || compression == 'z' || compression == 'b' || compression == 's';
}

}  // namespace

RiegeliChunks scan_riegeli(ByteSource &source, std::int64_t position, std::int64_t end, std::size_t most) {
    RiegeliChunks chunks;
    const std::int64_t size = position_of(source.size());
    std::int64_t stride = 0;
    while (position < end && chunks.start.size() < most) {
        if (size - position <= chunk_header) break;
        const std::int64_t start = position + chunk_header, count = std::min(read_together, size - position);
        const std::int64_t offset = place_of(position), need = place_of(position + count - 1) + 1 - offset;
        const std::uint8_t *const data = next_view(source, offset, need, stride, source.size());
        std::uint8_t head[read_together];
        const std::int64_t before = std::min(count, block - offset % block);  // the bytes up to the next header
        std::memcpy(head, data, static_cast<std::size_t>(before));
        if (before < count) {
            std::memcpy(head + before, data + before + block_header, static_cast<std::size_t>(count - before));
        }
        const std::int64_t length = checked(little_64(head + 8)), expanded = checked(little_64(head + 32));
        const std::int64_t kind = checked(little_64(head + 24)), records = kind >> 8;
        if (length < 0 || expanded < 0 || kind < 0 || length > size - start || (kind & 0xFF) == 't') break;
        if ((kind & 0xFF) == 'r' && records) {
            const std::uint8_t compression = head[chunk_header];
            if (length < 2 || !is_known(compression)) break;
            const std::uint8_t *const number = head + chunk_header + 1, *after = number;
            std::uint64_t stored_sizes;
            if (!read_varint(after, number + std::min(length, count - chunk_header) - 1, stored_sizes)) break;
            const std::int64_t sizes = checked(stored_sizes), taken = after - number;
            if (sizes < 0 || sizes > length - 1 - taken) break;
            const std::int64_t values = start + 1 + taken + sizes;
            if (!compression && start + length - values != expanded) break;
            chunks.start.push_back(start), chunks.length.push_back(length), chunks.records.push_back(records);
            chunks.expanded.push_back(expanded), chunks.sizes.push_back(sizes), chunks.values.push_back(values);
            chunks.compression.push_back(compression);
        }
        std::int64_t next = start + length;
        if (records > length) {  // a chunk covers a byte of the file for each record, so that each has a place
            next = std::max(next, position_of(place_of(position) + records));
        }
        stride = next - position;
        position = next;
    }
    chunks.end = position;
    return chunks;
}

}  // namespace bushel
