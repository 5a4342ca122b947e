#include "files/batched_read.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>

#include "common/cache.hpp"
#include "common/exceptions.hpp"
#include "files/byte_source.hpp"
#include "files/crc32.hpp"
#include "files/direct_read.hpp"

namespace bushel {

namespace {

using Reason = ExtentError::Reason;

constexpr std::int64_t max_int64 = std::numeric_limits<std::int64_t>::max();

// A page that has to be read from the disk while it is copied costs about as much time as reading this many bytes of
// other rows with system calls, which they need when nothing is known of their pages.
constexpr std::int64_t bytes_per_fault = 512 * 1024;

thread_local std::int64_t cold_batches = 0;

// The end of an extent for an error message: no sum of what a file says may overflow.
std::int64_t end_of(std::int64_t offset, std::int64_t length) {
    length = std::max(length, std::int64_t{0});
    return offset > max_int64 - length ? max_int64 : offset + length;
}

ExtentError shrunk(const MappedFile &file, std::size_t row) {
    return ExtentError(Reason::shrunk, row, file.size(), file.size_now(), file.path());
}

// Rows that have a page which has not been seen in memory. The system is asked about them, until some are not there: asking
// takes a tenth of the time of reading with a system call, and lets the next read take none.
std::vector<std::size_t> unseen_rows(const Batch &batch) {
    constexpr std::size_t most_absent = 8;
    std::vector<std::size_t> rows;
    for (std::size_t row = 0; row < batch.rows; ++row) {
        if (batch.missing(row)) continue;
        const MappedFile &file = batch.file_of(row);
        const std::int64_t offset = batch.offset[row], length = batch.length[row];
        if (file.seen(offset, length)) continue;
        if (rows.size() < most_absent && file.find_resident(offset, length)) continue;
        rows.push_back(row);
    }
    return rows;
}

void sort_by_offset(const Batch &batch, std::vector<std::size_t> &rows) {
    std::sort(rows.begin(), rows.end(), [&](std::size_t a, std::size_t b) {
        const int file_a = batch.file ? batch.file[a] : 0, file_b = batch.file ? batch.file[b] : 0;
        return file_a != file_b ? file_a < file_b : batch.offset[a] < batch.offset[b];
    });
}

// Request rows on the same or adjacent pages together. `rows` are sorted by offset.
void prefetch_rows(const Batch &batch, const std::vector<std::size_t> &rows) {
    for (std::size_t i = 0; i < rows.size();) {
        const MappedFile &file = batch.file_of(rows[i]);
        const std::int64_t begin = batch.offset[rows[i]];
        std::int64_t end = begin + batch.length[rows[i]];
        for (++i;
             i < rows.size() && &batch.file_of(rows[i]) == &file && batch.offset[rows[i]] <= end + MappedFile::page;
             ++i) {
            end = std::max(end, batch.offset[rows[i]] + batch.length[rows[i]]);
        }
        file.prefetch(begin, end - begin);
    }
}

// Copies rows and keeps the first one with a wrong checksum.
class CopySink final : public RowSink {
public:
    CopySink(const Batch &batch, std::uint8_t *const *out) : batch_(batch), out_(out) {}

    std::uint8_t *room(std::size_t row) override { return out_[row]; }

    void take(std::size_t row, const std::uint8_t *data, const std::uint8_t *next) override {
        const auto length = static_cast<std::size_t>(batch_.length[row]);
        if (data != out_[row]) copy_and_load(out_[row], data, length, next);
        if (!batch_.crc) return;
        const std::uint32_t sum = crc32(out_[row], length);
        if (sum != batch_.crc[row] && row < bad_row_) bad_row_ = row, bad_sum_ = sum;
    }

    void finish() const {
        if (bad_row_ < batch_.rows) {
            throw ExtentError(Reason::checksum, bad_row_, batch_.crc[bad_row_], bad_sum_,
                              batch_.file_of(bad_row_).path());
        }
    }

private:
    const Batch &batch_;
    std::uint8_t *const *out_;
    std::size_t bad_row_ = std::numeric_limits<std::size_t>::max();
    std::uint32_t bad_sum_ = 0;
};

// Takes rows from the map or from the file.
class RowReader {
public:
    RowReader(const Batch &batch, RowSink &sink) : batch_(batch), sink_(sink) {}

    void from_map(std::size_t row) { sink_.take(row, address(row), row + 1 < batch_.rows ? address(row + 1) : nullptr); }

    // Take a row without touching unseen pages of the map. Return false if one of them is not in memory.
    bool from_memory(std::size_t row) { return from_seen(row) || pread(row, &MappedFile::pread_if_resident); }

    void from_disk(std::size_t row) {
        if (!from_seen(row) && !pread(row, &MappedFile::pread)) throw shrunk(batch_.file_of(row), row);
    }

    // Load the beginning of a row into the cache: the processor does not predict the jump to another record.
    void load_ahead(std::size_t row) const {
        if (row < batch_.rows) load_into_cache(batch_, row, 512);
    }

private:
    // Null for a missing row, and for one in a file that is not mapped, as an empty one.
    const std::uint8_t *address(std::size_t row) const {
        const std::uint8_t *const map = batch_.missing(row) ? nullptr : batch_.file_of(row).data();
        return map ? map + batch_.offset[row] : nullptr;
    }

    // The pages may have been seen since, with another row of the batch.
    bool from_seen(std::size_t row) {
        if (!batch_.file_of(row).seen(batch_.offset[row], batch_.length[row])) return false;
        from_map(row);
        return true;
    }

    template <typename Read>
    bool pread(std::size_t row, Read read) {
        const MappedFile &file = batch_.file_of(row);
        std::uint8_t *const room = sink_.room(row);
        if ((file.*read)(room, batch_.offset[row], batch_.length[row]) != batch_.length[row]) return false;
        file.mark_seen(batch_.offset[row], batch_.length[row]);
        sink_.take(row, room, nullptr);
        return true;
    }

    const Batch &batch_;
    RowSink &sink_;
};

}  // namespace

std::int64_t check(const Batch &batch) {
    std::int64_t total = 0;
    std::vector<bool> measured(batch.files.size());
    for (std::size_t row = 0; row < batch.rows; ++row) {
        if (batch.missing(row)) continue;
        const MappedFile &file = batch.file_of(row);
        const std::int64_t offset = batch.offset[row], length = batch.length[row];
        if (!file.contains(offset, length))
            throw ExtentError(Reason::beyond, row, end_of(offset, length), file.size(), file.path());
        const std::size_t number = batch.file ? static_cast<std::size_t>(batch.file[row]) : 0;
        if (!measured[number]) {
            measured[number] = true;
            if (file.size_now() < file.size()) throw shrunk(file, row);
        }
        if (length > max_int64 - total) throw ExtentError(Reason::beyond, row, max_int64, file.size(), file.path());
        total += length;
    }
    return total;
}

bool in_memory(const Batch &batch) { return unseen_rows(batch).empty(); }

void prefetch(const Batch &batch) {
    std::vector<std::size_t> fresh = unseen_rows(batch);
    sort_by_offset(batch, fresh);
    prefetch_rows(batch, fresh);
}

// This touches no page that is not mapped.
void load_into_cache(const Batch &batch, std::size_t row, std::int64_t limit) {
    if (batch.missing(row)) return;
    const MappedFile &file = batch.file_of(row);
    if (!file.data()) return;
    const std::uint8_t *start = file.data() + batch.offset[row];
    const std::int64_t length = std::min(batch.length[row], limit);
    for (std::int64_t i = 0; i < length; i += 64) load_line_for_later(start + i);
}

// Rows whose pages have all been seen before are copied from the map, without a system call. The others are not read
// through the map, where each page that is not in memory would cost a wait of its own: they are sorted by offset and
// read with a call that fails for pages not in memory, up to the first failure. The rest is requested at once, and read
// after all other rows have been copied. Rows of files that are open for direct reads are read at once.
bool read_rows(const Batch &batch, RowSink &sink) {
    RowReader reader(batch, sink);
    const std::vector<std::size_t> fresh = unseen_rows(batch);
    std::vector<std::size_t> cold = fresh;
    sort_by_offset(batch, cold);
    std::vector<std::size_t> direct;
    const auto past_cache = [&](std::size_t row) { return batch.file_of(row).alignment() != 0; };
    std::copy_if(cold.begin(), cold.end(), std::back_inserter(direct), past_cache);
    cold.erase(std::remove_if(cold.begin(), cold.end(), past_cache), cold.end());
    const auto resident = [&](std::size_t row) { return reader.from_memory(row); };
    cold.erase(cold.begin(), std::find_if_not(cold.begin(), cold.end(), resident));
    prefetch_rows(batch, cold);

    constexpr std::size_t ahead = 24;
    const long before = major_faults();
    std::int64_t copied = 0;
    auto skip = fresh.begin();
    for (std::size_t row = 0; row < std::min(ahead, batch.rows); ++row) reader.load_ahead(row);
    for (std::size_t row = 0; row < batch.rows; ++row) {
        reader.load_ahead(row + ahead);
        if (skip != fresh.end() && *skip == row)
            ++skip;
        else if (!batch.missing(row))
            reader.from_map(row), copied += batch.length[row];
    }
    // Seen pages have left memory. If they are many, forget all; some may leave it at any time.
    if (const long faults = major_faults() - before; faults > copied / bytes_per_fault) {
        for (const MappedFile *file : batch.files) {
            if (file) file->forget_seen();
        }
    }

    for (const std::size_t row : cold) reader.from_disk(row);
    read_rows_directly(batch, direct, sink);
    const bool waited = !cold.empty() || !direct.empty();
    cold_batches += waited;
    return waited;
}

std::int64_t cold_reads() { return cold_batches; }

void copy(const Batch &batch, std::uint8_t *const *out) {
    CopySink sink(batch, out);
    read_rows(batch, sink);
    sink.finish();
}

void checksum(const Batch &batch, std::uint32_t *out) {
    constexpr std::int64_t piece = 256 * 1024, max_gap = 16 * 1024;
    const MappedFile *current = nullptr;
    FileByteSource source;
    for (std::size_t row = 0; row < batch.rows; ++row) {
        out[row] = 0;
        if (batch.missing(row)) continue;
        const MappedFile &file = batch.file_of(row);
        if (&file != current) source = FileByteSource(file), current = &file;
        // Small rows in the order of the file share a read.
        const std::size_t next = row + 1;
        const bool follows = next < batch.rows && !batch.missing(next) && &batch.file_of(next) == &file &&
                             batch.offset[next] >= batch.offset[row] &&
                             batch.offset[next] - batch.offset[row] < max_gap;
        for (std::int64_t done = 0; done < batch.length[row];) {
            const std::int64_t part = std::min(batch.length[row] - done, piece);
            const std::int64_t wish = follows ? piece : part;
            try {
                out[row] =
                    crc32(source.view(batch.offset[row] + done, part, wish), static_cast<std::size_t>(part), out[row]);
            } catch (ExtentError &error) {
                error.row = row;
                throw;
            }
            done += part;
        }
        file.mark_seen(batch.offset[row], batch.length[row]);  // what follows may read it through the map
    }
}

}  // namespace bushel
