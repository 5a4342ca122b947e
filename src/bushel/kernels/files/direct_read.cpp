#include "files/direct_read.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#if defined(__linux__) && __has_include(<linux/aio_abi.h>)
#include <fcntl.h>
#include <linux/aio_abi.h>
#define BUSHEL_DIRECT_READS 1
#endif

#include "common/exceptions.hpp"

namespace bushel {

namespace {

constexpr std::int64_t most_alignment = 4096, most_room = std::int64_t{8} << 20;

std::int64_t round_down(std::int64_t offset, std::int64_t alignment) { return offset & ~(alignment - 1); }

std::int64_t round_up(std::int64_t offset, std::int64_t alignment) {
    return round_down(offset + alignment - 1, alignment);
}

// Aligned memory of a thread, which grows up to `most_room`. The previous contents are lost.
std::uint8_t *aligned_room(std::int64_t size) {
    struct Free {
        void operator()(std::uint8_t *memory) const { std::free(memory); }
    };
    thread_local std::unique_ptr<std::uint8_t, Free> room;
    thread_local std::int64_t room_size = 0;
    if (size > room_size) {
        room.reset();
        room_size = 0;
        const std::int64_t new_size = round_up(std::min(size + size / 8, most_room), most_alignment);
        room.reset(static_cast<std::uint8_t *>(std::aligned_alloc(most_alignment, static_cast<std::size_t>(new_size))));
        if (!room) throw std::bad_alloc();
        room_size = new_size;
    }
    return room.get();
}

// Adjacent rows of one file, which are read with one request.
struct Stretch {
    const MappedFile *file;
    std::int64_t begin, end;  // multiples of the alignment
    std::size_t first, last;  // of the sorted rows
    std::int64_t at;          // in the room
    std::int64_t got;         // bytes that were read; negative for an error
};

#ifdef BUSHEL_DIRECT_READS

// The asynchronous I/O of the system, for a thread. A child of a fork does not inherit it, and begins with its own.
class AsynchronousReads {
public:
    static constexpr long most = 128;

    ~AsynchronousReads() {
        if (owner_ == ::getpid()) ::syscall(SYS_io_destroy, context_);
    }

    // Read all stretches. Those that the system does not accept keep a negative `got`.
    void read(std::vector<Stretch> &stretches, std::uint8_t *room) {
        if (!usable()) return;
        std::vector<iocb> blocks(stretches.size());
        std::vector<iocb *> waiting(stretches.size());
        for (std::size_t i = 0; i < blocks.size(); ++i) {
            const Stretch &stretch = stretches[i];
            blocks[i].aio_data = i;
            blocks[i].aio_lio_opcode = IOCB_CMD_PREAD;
            blocks[i].aio_fildes = static_cast<std::uint32_t>(stretch.file->descriptor());
            blocks[i].aio_buf = reinterpret_cast<std::uintptr_t>(room + stretch.at);
            blocks[i].aio_nbytes = static_cast<std::uint64_t>(stretch.end - stretch.begin);
            blocks[i].aio_offset = stretch.begin;
            waiting[i] = &blocks[i];
        }
        const long count = static_cast<long>(blocks.size());
        for (long submitted = 0, running = 0; submitted < count || running > 0;) {
            const long more = std::min(count - submitted, most - running);
            const long taken = more > 0 ? ::syscall(SYS_io_submit, context_, more, waiting.data() + submitted) : 0;
            if (taken > 0) submitted += taken, running += taken;
            if (running == 0) return;  // the system accepts none
            running -= finish(stretches, running);
        }
    }

private:
    bool usable() {
        if (const pid_t process = ::getpid(); owner_ != process) {
            context_ = 0;
            owner_ = ::syscall(SYS_io_setup, most, &context_) == 0 ? process : -1;
        }
        return owner_ > 0;
    }

    // Wait until some of the running requests are finished, and return their number.
    long finish(std::vector<Stretch> &stretches, long running) {
        io_event events[most];
        const long finished = ::syscall(SYS_io_getevents, context_, running, running, events, nullptr);
        for (long i = 0; i < finished; ++i) stretches[events[i].data].got = events[i].res;
        return std::max(finished, 0L);  // a signal interrupts the wait
    }

    aio_context_t context_ = 0;
    pid_t owner_ = 0;
};

void read_stretches(std::vector<Stretch> &stretches, std::uint8_t *room) {
    thread_local AsynchronousReads reads;
    reads.read(stretches, room);
}

#else

void read_stretches(std::vector<Stretch> &, std::uint8_t *) {}

#endif

void read_row(const Batch &batch, std::size_t row, RowSink &sink) {
    const MappedFile &file = batch.file_of(row);
    std::uint8_t *const out = sink.room(row);
    if (file.pread(out, batch.offset[row], batch.length[row]) != batch.length[row])
        throw ExtentError(ExtentError::Reason::shrunk, row, file.size(), file.size_now(), file.path());
    sink.take(row, out, nullptr);
}

// Give the rows of stretches to the sink. What was not read is read with ordinary calls, which also find errors.
void deliver(const Batch &batch, const std::vector<std::size_t> &rows, const std::vector<Stretch> &stretches,
             const std::uint8_t *room, RowSink &sink) {
    std::vector<std::size_t> missed;
    for (const Stretch &stretch : stretches) {
        for (std::size_t i = stretch.first; i < stretch.last; ++i) {
            const std::int64_t from = batch.offset[rows[i]] - stretch.begin;
            if (from + batch.length[rows[i]] > stretch.got)
                missed.push_back(rows[i]);
            else
                sink.take(rows[i], room + stretch.at + from, nullptr);
        }
    }
    for (const std::size_t row : missed) read_row(batch, row, sink);
}

}  // namespace

std::int64_t direct_alignment(int file) {
#ifdef BUSHEL_DIRECT_READS
    // As in struct statx of Linux 6.1, which older headers lack.
    struct {
        std::uint32_t mask;
        std::uint8_t others[148];
        std::uint32_t memory, offset;
        std::uint8_t more[96];
    } answer = {};
    constexpr unsigned dioalign = 0x2000, empty_path = 0x1000;
    static_assert(sizeof answer == 256);
    if (::syscall(SYS_statx, file, "", empty_path, dioalign, &answer) != 0 || !(answer.mask & dioalign)) return 0;
    const std::int64_t alignment = std::max(answer.memory, answer.offset);
    const bool usable = answer.offset > 0 && alignment <= most_alignment && (alignment & (alignment - 1)) == 0;
    return usable ? alignment : 0;
#else
    (void)file;
    return 0;
#endif
}

std::int64_t pread_direct(int file, std::int64_t alignment, std::uint8_t *out, std::int64_t offset,
                          std::int64_t length) {
    std::int64_t done = 0;
    while (done < length) {
        const std::int64_t begin = round_down(offset + done, alignment), skip = offset + done - begin;
        const std::int64_t size = std::min(round_up(skip + length - done, alignment), most_room);
        std::uint8_t *const room = aligned_room(size);
        const ssize_t got = ::pread(file, room, static_cast<std::size_t>(size), begin);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        const std::int64_t part = std::min(got - skip, length - done);
        if (part <= 0) break;
        std::memcpy(out + done, room + skip, static_cast<std::size_t>(part));
        done += part;
    }
    return done;
}

void read_rows_directly(const Batch &batch, const std::vector<std::size_t> &rows, RowSink &sink) {
    for (std::size_t next = 0; next < rows.size();) {
        std::vector<Stretch> stretches;
        std::int64_t used = 0;
        for (; next < rows.size(); ++next) {
            const MappedFile &file = batch.file_of(rows[next]);
            const std::int64_t begin = round_down(batch.offset[rows[next]], file.alignment());
            const std::int64_t end = round_up(batch.offset[rows[next]] + batch.length[rows[next]], file.alignment());
            if (end - begin > most_room) break;
            const bool joins = !stretches.empty() && stretches.back().file == &file && begin <= stretches.back().end;
            const std::int64_t at = round_up(used, most_alignment);
            const std::int64_t now_used = joins ? used + std::max(end - stretches.back().end, std::int64_t{0})
                                                : at + end - begin;
            if (now_used > most_room) break;
            if (joins) {
                stretches.back().end += now_used - used;
                stretches.back().last = next + 1;
            } else {
                stretches.push_back({&file, begin, end, next, next + 1, at, -1});
            }
            used = now_used;
        }
        if (stretches.empty()) {  // the row is larger than the room
            read_row(batch, rows[next++], sink);
            continue;
        }
        std::uint8_t *const room = aligned_room(used);
        read_stretches(stretches, room);
        deliver(batch, rows, stretches, room, sink);
    }
}

}  // namespace bushel
