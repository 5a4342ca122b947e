// libFuzzer targets for the scans of containers (scripts/fuzz_scans.sh): BUSHEL_SCAN names the one that is compiled. Each
// gives the bytes whole and in parts, which must find the same, and checks that all that is found is in the bytes.
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "files/byte_source.hpp"
#include "files/crc32c.hpp"
#include "scans/byte_arrays.hpp"
#include "scans/deltas.hpp"
#include "scans/examples.hpp"
#include "scans/hybrid.hpp"
#include "scans/image_headers.hpp"
#include "scans/inflate.hpp"
#include "scans/levels.hpp"
#include "scans/line_blocks.hpp"
#include "scans/lines.hpp"
#include "scans/sample_names.hpp"
#include "scans/recordio.hpp"
#include "scans/riegeli.hpp"
#include "scans/snappy.hpp"
#include "scans/tar.hpp"
#include "scans/tfrecord.hpp"
#include "scans/zip.hpp"

namespace {

using namespace bushel;
using Bytes = std::vector<std::uint8_t>;  // a copy of exactly its size, so that AddressSanitizer sees reads beyond its end

void require(bool holds, const char *what) {
    if (holds) return;
    std::fprintf(stderr, "%s\n", what);
    std::abort();
}

void inside(const std::vector<std::int64_t> &offset, const std::vector<std::int64_t> &length, std::size_t size) {
    const auto end = static_cast<std::int64_t>(size);
    require(offset.size() == length.size(), "as many offsets as lengths");
    for (std::size_t i = 0; i < offset.size(); ++i) {
        require(offset[i] >= 0 && length[i] >= 0 && offset[i] <= end && length[i] <= end - offset[i], "an extent outside");
    }
}

// Return a number below `limit` that follows from the bytes.
std::size_t choice(const Bytes &data, std::size_t limit) { return data.empty() ? 0 : data.back() * 7 % limit; }

void snappy(const Bytes &data) {
    for (const std::int64_t spacing : {std::int64_t{1}, std::int64_t{100}, std::int64_t{65536}}) {
        try {
            const SnappyParts parts = scan_snappy(data.data(), data.size(), spacing);
            inside(parts.offset, parts.length, data.size());
            require(parts.start.size() == parts.offset.size() + 1, "a start for each part, and the end");
            for (std::size_t i = 0; i < parts.offset.size(); ++i) {
                require(parts.start[i] < parts.start[i + 1], "a part without bytes");
                if (parts.literal[i]) require(parts.start[i + 1] - parts.start[i] == parts.length[i], "another literal");
            }
        } catch (const std::invalid_argument &) {
        }
    }
}

void tar(const Bytes &data) {
    BufferByteSource source(data.data(), static_cast<std::int64_t>(data.size()));
    const TarMembers whole = scan_tar(source, 0);
    inside(whole.offset, whole.size, data.size());
    const auto more = static_cast<std::int64_t>(choice(data, 4) * 512);  // bytes than are needed
    TarScan scan(static_cast<std::int64_t>(data.size()), 0);
    while (const auto window = scan.next()) {
        const std::int64_t length = std::min(window->need + more, window->wish);
        inside({window->offset}, {length}, data.size());
        const auto first = data.begin() + static_cast<std::ptrdiff_t>(window->offset);
        const Bytes part(first, first + static_cast<std::ptrdiff_t>(length));
        scan.feed(part.data(), length);
    }
    const TarMembers parts = scan.take();
    require(parts.offset == whole.offset && parts.size == whole.size && parts.names == whole.names, "other members");
    require(parts.problem == whole.problem && parts.end == whole.end, "another end");
}

void recordio(const Bytes &data) {
    BufferByteSource source(data.data(), static_cast<std::int64_t>(data.size()));
    const RecordioRecords found = scan_recordio(source, 0);
    for (std::size_t i = 0; i < found.offset.size(); ++i) {
        inside({found.offset[i]}, {found.span[i] + 8}, data.size());
        const auto first = data.begin() + static_cast<std::ptrdiff_t>(found.offset[i]);
        const Bytes raw(first, first + static_cast<std::ptrdiff_t>(found.span[i] + 8));
        join_recordio(raw.data(), raw.size());
    }
    try {
        join_recordio(data.data(), data.size());
    } catch (const std::invalid_argument &) {
    }
    const std::string framed = split_recordio(data.data(), data.size());
    const Bytes raw(framed.begin(), framed.end() - static_cast<std::ptrdiff_t>((4 - data.size() % 4) % 4));  // without padding
    const std::string joined = join_recordio(raw.data(), raw.size());
    require(Bytes(joined.begin(), joined.end()) == data, "another payload");
}

void riegeli(const Bytes &data) {
    const auto size = static_cast<std::int64_t>(data.size());
    BufferByteSource source(data.data(), size);
    for (const std::size_t most : {std::size_t{1}, std::size_t{1000}}) {
        const std::int64_t start = most == 1 ? static_cast<std::int64_t>(choice(data, data.size() + 1)) : 0;
        const RiegeliChunks found = scan_riegeli(source, start, size, most);
        inside(found.start, found.length, data.size());
        for (std::size_t i = 0; i < found.start.size(); ++i) {
            require(found.records[i] > 0 && found.sizes[i] >= 0 && found.expanded[i] >= 0, "a chunk without records");
            require(found.values[i] >= found.start[i] && found.values[i] <= found.start[i] + found.length[i], "values outside");
        }
    }
}

// The blocks of records that all are usual Examples; nothing if one is not.
Bytes blocks_of_examples(ExampleScan &scan, const Bytes &file) {
    const std::size_t used = scan.feed(file.data(), file.size(), 0);
    require(used <= file.size() && (scan.unusual() || used == file.size() || scan.need() > file.size() - used), "a hang");
    return scan.unusual() || used < file.size() ? Bytes{} : scan.take();
}

// Usual Examples have the extents that TfrecordScan finds, with vectors and without.
void examples(const Bytes &file, const TfrecordScan &found) {
    ExampleScan fast(true), slow(false);
    const Bytes block = blocks_of_examples(fast, file);
    require(block == blocks_of_examples(slow, file) && fast.unusual() == slow.unusual(), "vectors find others");
    if (block.empty()) return;
    require(found.other < 0 && found.problem.empty() && found.features.size() == fast.fields(), "no Examples");
    const std::int64_t at[] = {0, static_cast<std::int64_t>(block.size())};
    const std::int64_t first[] = {0, static_cast<std::int64_t>(found.offset.size())};
    const LineBlocks blocks(block.data(), block.size(), at, first, 1);
    for (std::size_t i = 0; i < found.features.size(); ++i) {
        const ExampleFeature &own = found.features[i];
        std::vector<std::int64_t> offset(found.offset.size()), length(found.offset.size());
        blocks.read(i, LinePart::offset, false, 0, offset.size(), offset.data());
        blocks.read(i, LinePart::length, false, 0, length.size(), length.data());
        inside(offset, std::vector<std::int64_t>(length.size(), 0), file.size());
        require(own.name == fast.name(i) && own.kind == fast.kind(i), "another feature");
        std::size_t value = 0;
        for (std::size_t row = 0; row < own.record.size(); ++row) {
            const auto sample = static_cast<std::size_t>(own.record[row]);
            if (own.kind != 1) {
                require(offset[sample] == own.offset[row] && length[sample] == own.length[row], "other numbers");
            } else if (own.count[row] == 0) {
                require(length[sample] == -1, "a value");
            } else {
                require(offset[sample] == own.value_offset[value] && length[sample] == own.value_length[value], "other bytes");
                ++value;
            }
        }
    }
}

void append_with_checksum(Bytes &file, const std::uint8_t *from, std::size_t size) {
    file.insert(file.end(), from, from + size);
    const std::uint32_t crc = crc32c(from, size), masked = (crc >> 15 | crc << 17) + 0xa282ead8u;
    for (int shift = 0; shift < 32; shift += 8) file.push_back(static_cast<std::uint8_t>(masked >> shift));
}

void append_record(Bytes &file, const std::uint8_t *from, std::size_t size) {
    std::uint8_t length[8];
    for (int i = 0; i < 8; ++i) length[i] = static_cast<std::uint8_t>(std::uint64_t{size} >> 8 * i);
    append_with_checksum(file, length, 8);
    append_with_checksum(file, from, size);
}

// Records that are nearly the same, and empty ones, as vectors read on after a record.
void similar_examples(Bytes data) {
    Bytes file;
    append_record(file, data.data(), data.size());
    append_record(file, data.data(), data.size());
    const std::size_t changed = choice(data, data.size() + 1);
    if (changed < data.size()) data[changed] = data[data.size() / 2];
    append_record(file, data.data(), data.size());
    for (int i = 0; i < 8; ++i) append_record(file, data.data(), 0);
    file.shrink_to_fit();
    TfrecordScan found(true, false);
    found.feed(file.data(), file.size());
    examples(file, found);
}

// The fuzzer finds no checksums, so the bytes become the data of two records.
void tfrecord(const Bytes &data) {
    Bytes file;
    const std::size_t middle = choice(data, data.size() + 1);
    append_record(file, data.data(), middle);
    append_record(file, data.data() + middle, data.size() - middle);
    if (choice(data, 3) == 1 && !data.empty()) file[choice(data, 16)] ^= data[0];  // damaged lengths and checksums
    file.shrink_to_fit();
    TfrecordScan whole(true, true), parts(true, true);
    const std::size_t used = whole.feed(file.data(), file.size());
    require(used <= file.size(), "more bytes than there are");
    inside(whole.offset, whole.length, file.size());
    std::size_t at = 0, window = 1;
    while (at < file.size() && parts.problem.empty()) {
        const Bytes part(file.begin() + static_cast<std::ptrdiff_t>(at),
                         file.begin() + static_cast<std::ptrdiff_t>(std::min(file.size(), at + window)));
        const std::size_t taken = parts.feed(part.data(), part.size());
        if (!taken && parts.problem.empty() && parts.need > file.size() - at) break;
        if (!taken) window = parts.need;
        at += taken;
        if (taken) window = 1;
    }
    require(parts.offset == whole.offset && parts.problem == whole.problem && parts.other == whole.other, "other records");
    require(parts.features.size() == whole.features.size() && parts.held == whole.held, "other features");
    for (std::size_t i = 0; i < whole.features.size(); ++i) {
        const ExampleFeature &one = whole.features[i], &other = parts.features[i];
        require(one.name == other.name && one.record == other.record && one.count == other.count, "another feature");
        require(one.offset == other.offset && one.value_offset == other.value_offset, "other extents");
        inside(one.value_offset, one.value_length, file.size());
        for (std::size_t row = 0; row < one.offset.size(); ++row) {
            const bool held = one.offset[row] < 0;
            inside({held ? -1 - one.offset[row] : one.offset[row]}, {one.length[row]}, held ? whole.held.size() : file.size());
        }
    }
    examples(file, whole);
    similar_examples(data);
    try {
        decode_varints(data.data(), data.size());
    } catch (const std::invalid_argument &) {
    }
}

// Expand with zlib. Return whether it succeeds.
bool by_zlib(const Bytes &data, Bytes &out) {
    z_stream stream{};
    require(inflateInit2(&stream, -15) == Z_OK, "zlib does not start");
    stream.next_in = const_cast<std::uint8_t *>(data.data()), stream.avail_in = static_cast<unsigned>(data.size());
    int state = Z_OK;
    while (state == Z_OK) {
        Bytes part(65536);
        stream.next_out = part.data(), stream.avail_out = static_cast<unsigned>(part.size());
        state = ::inflate(&stream, Z_NO_FLUSH);
        out.insert(out.end(), part.begin(), part.end() - stream.avail_out);
    }
    inflateEnd(&stream);
    return state == Z_STREAM_END;
}

bool in_parts(const Bytes &data, std::size_t size, Bytes &out) {
    Inflate inflate(1000);
    std::size_t at = 0, window = size;
    try {
        while (!inflate.done()) {
            const std::size_t taken = std::min(window, data.size() - at);
            const Bytes part(data.begin() + static_cast<std::ptrdiff_t>(at), data.begin() + static_cast<std::ptrdiff_t>(at + taken));
            const std::size_t used = inflate.feed(part.data(), part.size(), at + taken == data.size());
            require(used <= taken && inflate.expanded_size() <= Inflate::most_expanded, "more bytes than allowed");
            out.insert(out.end(), inflate.expanded(), inflate.expanded() + inflate.expanded_size());
            for (const RestartPoint &point : inflate.points()) {
                require(point.position >= 0 && point.position <= static_cast<std::int64_t>(out.size()), "a point outside");
            }
            at += used;
            window = used || inflate.expanded_size() ? size : 2 * window;
        }
    } catch (const std::invalid_argument &) {
        return false;
    }
    return true;
}

void inflate(const Bytes &data) {
    Bytes expected, whole, parts;
    const bool valid = by_zlib(data, expected);
    require(in_parts(data, data.size() + 1, whole) == valid, "zlib finds another state of the stream");
    require(in_parts(data, 1 + choice(data, 400), parts) == valid, "zlib finds another state of the stream in parts");
    if (valid) require(whole == expected && parts == expected, "zlib expands to other bytes");
}

void byte_arrays(const Bytes &data) {
    for (const std::int64_t count : {std::int64_t{0}, static_cast<std::int64_t>(choice(data, 50)), std::int64_t{1} << 62}) {
        try {
            const auto size = static_cast<std::int64_t>(data.size()), start = static_cast<std::int64_t>(choice(data, 9));
            BufferByteSource source(data.data(), size);
            const ByteArrays found = find_byte_arrays(source, start, size - start, count);
            inside(found.offset, found.length, data.size());
            for (const std::int64_t offset : found.offset) require(offset >= start + 4, "a value before the start");
        } catch (const std::invalid_argument &) {
        }
    }
}

// Return the numbers of a section, or none if it is damaged.
std::vector<std::uint32_t> numbers_of(const Bytes &data, unsigned width, std::int64_t count, bool &damaged) {
    try {
        const std::vector<std::uint32_t> found = read_hybrid(data.data(), data.size(), width, count);
        require(found.size() == static_cast<std::size_t>(count), "another number of numbers");
        const unsigned bits = (width + 7) / 8 * 8;  // of a run, whose number has whole bytes
        for (const std::uint32_t each : found) require(bits == 32 || each >> bits == 0, "a number of too many bits");
        return found;
    } catch (const std::invalid_argument &) {
        damaged = true;
        return {};
    }
}

// Levels that are read run by run give what levels one by one give.
void parquet_levels(const Bytes &data) {
    const auto count = static_cast<std::int64_t>(choice(data, 3000));
    bool damaged = false;
    for (const unsigned width : {0u, 1u, 7u, 8u, 31u, 32u}) numbers_of(data, width, count, damaged);
    const unsigned largest = 1 + static_cast<unsigned>(choice(data, 6)), list = largest > 1 ? largest - 2 : 0;
    const std::size_t middle = choice(data, data.size() + 1);
    const Bytes first(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(middle));
    const Bytes second(data.begin() + static_cast<std::ptrdiff_t>(middle), data.end());
    damaged = false;
    const std::vector<std::uint32_t> repetition = numbers_of(first, 1, count, damaged);
    const std::vector<std::uint32_t> definition = numbers_of(second, largest == 1 ? 1 : largest < 4 ? 2 : 3, count, damaged);
    std::vector<std::int64_t> counts(choice(data, 100)), own(counts.size());
    std::vector<std::uint8_t> absent(counts.size()), nulls(counts.size()), there;
    try {
        const Present found = find_elements({first.data(), first.size()}, {second.data(), second.size()}, largest, list, count,
                                            {counts.data(), absent.data(), static_cast<std::int64_t>(counts.size()), 0});
        require(!damaged, "damaged levels are read");
        std::size_t rows = 0;
        for (std::size_t i = 0; i < repetition.size(); ++i) {
            require(repetition[i] <= 1 && definition[i] <= largest, "a level is too large");
            if (!repetition[i] && ++rows <= own.size()) own[rows - 1] = 0, nulls[rows - 1] = definition[i] < list;
            if (definition[i] <= list) continue;
            there.push_back(definition[i] == largest);
            if (rows <= own.size()) ++own[rows - 1];
        }
        require(found.rows == static_cast<std::int64_t>(rows) && counts == own && absent == nulls, "other rows");
        const std::int64_t present = std::count(there.begin(), there.end(), 1);
        require(found.values == static_cast<std::int64_t>(there.size()) && found.count == present, "other elements");
        require(found.there.empty() ? found.count == found.values : found.there == there, "other nulls");
    } catch (const std::invalid_argument &) {
    }
    try {
        const Present found = find_present({second.data(), second.size()}, largest, count);
        require(found.values == count && found.count <= count, "another number of values");
        require(found.there.empty() || found.there.size() == static_cast<std::size_t>(count), "another number of nulls");
    } catch (const std::invalid_argument &) {
    }
}

void parquet_deltas(const Bytes &data) {
    try {
        const Deltas prefix = decode_deltas(data.data(), data.size(), -1);
        require(prefix.used <= data.size(), "more bytes than there are");
        const Bytes rest(data.begin() + static_cast<std::ptrdiff_t>(prefix.used), data.end());
        const Deltas length = decode_deltas(rest.data(), rest.size(), static_cast<std::int64_t>(prefix.numbers.size()));
        const Bytes ends(rest.begin() + static_cast<std::ptrdiff_t>(length.used), rest.end());
        Bytes out(choice(data, 5000));
        const std::size_t written = join_prefixed(ends.data(), ends.size(), prefix.numbers.data(), length.numbers.data(),
                                                  length.numbers.size(), out.data(), out.size());
        std::int64_t sum = 0;
        for (std::size_t i = 0; i < length.numbers.size(); ++i) sum += prefix.numbers[i] + length.numbers[i];
        require(written <= out.size() && static_cast<std::int64_t>(written) == sum, "another number of bytes");
    } catch (const std::invalid_argument &) {
    }
}

void check_lines(const Bytes &data, std::uint8_t delimiter) {
    const std::vector<std::string> names = delimiter || choice(data, 2) ? std::vector<std::string>{"a", "", "c"} : std::vector<std::string>{};
    LineScan vectors(names, delimiter, choice(data, 3) == 0, 50), plain(names, delimiter, choice(data, 3) == 0, 50, false);
    const std::size_t size = choice(data, 5) ? data.size() : 1 + choice(data, 100);
    for (std::size_t at = 0, window = size; at < data.size() && vectors.problem().empty();) {
        const std::size_t stop = std::min(data.size(), at + window);
        const Bytes part(data.begin() + static_cast<std::ptrdiff_t>(at), data.begin() + static_cast<std::ptrdiff_t>(stop));
        const auto start = static_cast<std::int64_t>(at);
        const std::size_t used = vectors.feed(part.data(), part.size(), start, stop == data.size());
        require(used == plain.feed(part.data(), part.size(), start, stop == data.size()), "vectors use other bytes");
        require(vectors.names() == plain.names() && vectors.rows() == plain.rows() && vectors.problem() == plain.problem(), "other lines");
        for (std::size_t field = 0; field < vectors.names().size(); ++field) {
            const FieldValues &one = vectors.values(field), &other = plain.values(field);
            require(one.size() == other.size(), "other numbers of values");
            for (std::size_t i = 0; i < one.size(); ++i) {
                require(one.place()[i] == other.place()[i] && one.length()[i] == other.length()[i], "other extents");
                require(one.kind()[i] == other.kind()[i] && one.number()[i] == other.number()[i], "other values");
                if (one.length()[i]) inside({one.place()[i]}, {one.length()[i] - 1}, data.size());
            }
        }
        at += used;
        window = used ? size : 2 * window;
    }
}

void json_lines(const Bytes &data) { check_lines(data, 0); }

void csv_lines(const Bytes &data) {
    check_lines(data, ',');
    try {
        const CsvRecord record = first_csv_record(data.data(), data.size(), ',', choice(data, 2), 100);
        inside(record.offset, record.length, data.size());
    } catch (const std::invalid_argument &) {
    }
}

void image_headers(const Bytes &data) {
    const ImageHeader header = read_image_header(data.data(), data.size());
    if (header.format) require(header.width > 0 && header.height > 0 && header.channels > 0, "a header without a size");
}

// Add the entries of a part to those of the parts before it.
void add(ZipEntries &all, const ZipEntries &part) {
    const auto start = static_cast<std::int64_t>(all.names.size());
    all.names.insert(all.names.end(), part.names.begin(), part.names.end());
    for (std::size_t i = 1; i < part.name_offsets.size(); ++i) all.name_offsets.push_back(start + part.name_offsets[i]);
    all.header.insert(all.header.end(), part.header.begin(), part.header.end());
    all.stored.insert(all.stored.end(), part.stored.begin(), part.stored.end());
    all.size.insert(all.size.end(), part.size.begin(), part.size.end());
}

// The bytes are a directory, and the names in it become samples.
void zip(const Bytes &data) {
    const auto size = static_cast<std::int64_t>(data.size());
    const std::int64_t shift = static_cast<std::int64_t>(choice(data, 50)) - 10;
    ZipDirectory whole(size, shift, choice(data, 2)), parts(size, shift, choice(data, 2));
    whole.feed(data.data(), data.size());
    const ZipEntries found = whole.take();
    require(whole.end == size || !whole.problem.empty(), "a scan that stops");
    ZipEntries joined;
    for (std::size_t window = 1; parts.end < size && parts.problem.empty();) {
        const auto at = data.begin() + static_cast<std::ptrdiff_t>(parts.end);
        const Bytes part(at, at + std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(window), data.end() - at));
        window = parts.feed(part.data(), part.size()) ? 1 : parts.need;
        add(joined, parts.take());
    }
    require(parts.end == whole.end && parts.problem == whole.problem, "another end");
    require(joined.names == found.names && joined.name_offsets == found.name_offsets, "other names");
    require(joined.header == found.header && joined.stored == found.stored && joined.size == found.size, "other entries");
    const std::size_t count = found.header.size();
    require(found.name_offsets.size() == count + 1 && found.stored.size() == count && found.size.size() == count &&
                found.crc32.size() == count && found.method.size() == count && found.flags.size() == count,
            "columns of other lengths");
    for (std::size_t i = 0; i < count; ++i) require(found.stored[i] >= 0 && found.size[i] >= 0, "a negative size");

    MemberGroups groups(found.names.data(), found.names.size(), found.name_offsets.data(), count);
    std::vector<std::int64_t> members(count), sample(count), ends;
    std::vector<std::int32_t> extension(count);
    for (std::size_t i = 0; i < count; ++i) members[i] = static_cast<std::int64_t>(choice(data, 2) ? i : count - 1 - i);
    groups.group(members.data(), count, sample.data(), extension.data());
    Bytes keys;
    groups.append_keys(0, keys, ends);
    require(ends.size() == groups.samples(), "a key for each sample");
    for (std::size_t i = 0; i < count; ++i) {
        if (sample[i] < 0) continue;
        const auto own = static_cast<std::size_t>(sample[i]), member = static_cast<std::size_t>(members[i]);
        const std::int64_t start = own ? ends[own - 1] : 0;
        std::string name(keys.begin() + start, keys.begin() + ends[own]);
        name += '.' + groups.extensions.all()[static_cast<std::size_t>(extension[i])];
        const std::string expected(found.names.begin() + found.name_offsets[member], found.names.begin() + found.name_offsets[member + 1]);
        require(name == expected, "key and extension are not the name");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    BUSHEL_SCAN(Bytes(data, data + size));
    return 0;
}
