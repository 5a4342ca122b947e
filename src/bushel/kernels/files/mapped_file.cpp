#include "files/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <new>

#include "common/exceptions.hpp"
#include "files/direct_read.hpp"

namespace bushel {

namespace {

// For a request, Linux reads at most the device's read-ahead size in the background, 128 KiB by default.
constexpr std::int64_t prefetch_chunk = 128 * 1024;

// One pread returns at most about 2 GiB.
constexpr std::int64_t pread_chunk = std::int64_t{1} << 30;

// Linux says of the pages of a file whether they are in memory only to those who may write to it, and "yes" to others.
bool may_write(const std::string &path, const struct stat &info) {
    return info.st_uid == ::geteuid() || ::access(path.c_str(), W_OK) == 0;
}

std::uint64_t bits(std::int64_t first, std::int64_t last) {  // bits first..last of a word
    return (~std::uint64_t{0} << first) & (~std::uint64_t{0} >> (63 - last));
}

}  // namespace

std::int64_t mtime_of(const struct stat &info) {
#ifdef __APPLE__
    return std::int64_t{info.st_mtimespec.tv_sec} * 1000000000 + info.st_mtimespec.tv_nsec;
#else
    return std::int64_t{info.st_mtim.tv_sec} * 1000000000 + info.st_mtim.tv_nsec;
#endif
}

int open_regular(const std::string &path, struct stat &info) {
    // O_NONBLOCK: without it, opening a named pipe would wait for a writer instead of failing.
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) throw SystemError(errno, path);
    int error = ::fstat(file, &info) == 0 ? 0 : errno;
    if (!error && S_ISDIR(info.st_mode)) error = EISDIR;
    if (!error && !S_ISREG(info.st_mode)) error = ESPIPE;
    if (!error) return file;
    ::close(file);
    throw SystemError(error, path);
}

void MappedFile::FreeWords::operator()(std::atomic<std::uint64_t> *words) const { std::free(words); }

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
    struct stat info;
    fd_ = open_regular(path_, info);
    size_ = info.st_size;
    mtime_ns_ = mtime_of(info);
    if (size_ == 0) return;
    tells_resident_ = may_write(path_, info);

    void *mapping = ::mmap(nullptr, static_cast<std::size_t>(size_), PROT_READ, MAP_SHARED, fd_, 0);
    if (mapping == MAP_FAILED) return;
    // Without this, a fault on a cold page reads the whole read-ahead window (megabytes) for one record.
    ::madvise(mapping, static_cast<std::size_t>(size_), MADV_RANDOM);
    data_ = static_cast<const std::uint8_t *>(mapping);

    // calloc takes memory only for those parts of a huge file that are read.
    static_assert(sizeof(std::atomic<std::uint64_t>) == sizeof(std::uint64_t) &&
                  std::atomic<std::uint64_t>::is_always_lock_free);
    seen_words_ = static_cast<std::size_t>(size_ / (page * 64) + 1);
    seen_.reset(static_cast<std::atomic<std::uint64_t> *>(std::calloc(seen_words_, sizeof(std::uint64_t))));
    if (!seen_) {
        ::munmap(mapping, static_cast<std::size_t>(size_));
        ::close(fd_);
        throw std::bad_alloc();
    }
}

MappedFile::MappedFile(const MappedFile &file, int descriptor, std::int64_t alignment)
    : path_(file.path_), fd_(descriptor), size_(file.size_), mtime_ns_(file.mtime_ns_), alignment_(alignment) {}

std::unique_ptr<MappedFile> MappedFile::direct() const {
#ifdef O_DIRECT
    const std::int64_t alignment = direct_alignment(fd_);
    if (!alignment || !size_) return nullptr;
    // The path may name another file by now.
    const std::string name = "/proc/self/fd/" + std::to_string(fd_);
    const int descriptor = ::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (descriptor < 0) return nullptr;
    std::unique_ptr<MappedFile> file(new MappedFile(*this, descriptor, alignment));
    std::uint8_t first;
    if (file->size_now() < size_ || pread_direct(descriptor, alignment, &first, 0, 1) != 1) return nullptr;
    return file;
#else
    return nullptr;
#endif
}

MappedFile::~MappedFile() {
    if (data_) ::munmap(const_cast<std::uint8_t *>(data_), static_cast<std::size_t>(size_));
    ::close(fd_);
}

std::int64_t MappedFile::size_now() const {
    struct stat info;
    if (::fstat(fd_, &info) != 0) throw SystemError(errno, path_);
    return info.st_size;
}

bool MappedFile::seen(std::int64_t offset, std::int64_t length) const {
    if (!data_) return length == 0;
    if (length == 0) return true;
    const std::int64_t first = offset / page, last = (offset + length - 1) / page;
    for (std::int64_t word = first / 64; word <= last / 64; ++word) {
        const std::uint64_t pages =
            bits(std::max(first - word * 64, std::int64_t{0}), std::min(last - word * 64, std::int64_t{63}));
        if ((seen_[static_cast<std::size_t>(word)].load(std::memory_order_relaxed) & pages) != pages) return false;
    }
    return true;
}

void MappedFile::mark_seen(std::int64_t offset, std::int64_t length) const {
    if (!data_ || length == 0) return;
    const std::int64_t first = offset / page, last = (offset + length - 1) / page;
    for (std::int64_t word = first / 64; word <= last / 64; ++word) {
        const std::uint64_t pages =
            bits(std::max(first - word * 64, std::int64_t{0}), std::min(last - word * 64, std::int64_t{63}));
        seen_[static_cast<std::size_t>(word)].fetch_or(pages, std::memory_order_relaxed);
    }
}

void MappedFile::forget_seen() const {
    for (std::size_t word = 0; word < seen_words_; ++word) {
        // Reading first leaves untouched memory untouched.
        if (seen_[word].load(std::memory_order_relaxed)) seen_[word].store(0, std::memory_order_relaxed);
    }
}

bool MappedFile::find_resident(std::int64_t offset, std::int64_t length) const {
#if defined(__linux__)
    static const std::int64_t system_page = ::sysconf(_SC_PAGESIZE);
    constexpr std::int64_t most_pages = 64;  // of more, page faults cost more than a system call that copies
    if (!data_ || !tells_resident_ || length == 0) return false;
    const std::int64_t first = offset / system_page, pages = (offset + length - 1) / system_page - first + 1;
    if (pages > most_pages) return false;
    unsigned char state[most_pages];
    void *const start = const_cast<std::uint8_t *>(data_) + first * system_page;
    if (::mincore(start, static_cast<std::size_t>(pages * system_page), state) != 0) return false;
    if (!std::all_of(state, state + pages, [](unsigned char page_state) { return page_state & 1; })) return false;
    mark_seen(offset, length);
    return true;
#else
    (void)offset, (void)length;
    return false;
#endif
}

void MappedFile::prefetch(std::int64_t offset, std::int64_t length) const {
    if (alignment_) return;  // it would fill the page cache
    // This is advice only: bytes that are not read now are read when they are used, and errors are reported then.
    for (const std::int64_t end = offset + length; offset < end; offset += prefetch_chunk) {
        const std::int64_t part = std::min(end - offset, prefetch_chunk);
#if defined(POSIX_FADV_WILLNEED)
        ::posix_fadvise(fd_, offset, part, POSIX_FADV_WILLNEED);
#elif defined(F_RDADVISE)
        struct radvisory advice = {offset, static_cast<int>(part)};
        ::fcntl(fd_, F_RDADVISE, &advice);
#endif
    }
}

std::int64_t MappedFile::pread(std::uint8_t *out, std::int64_t offset, std::int64_t length) const {
    std::int64_t done = 0;
    if (alignment_ && (done = pread_direct(fd_, alignment_, out, offset, length)) < 0) throw SystemError(errno, path_);
    if (alignment_) return done;
    while (done < length) {
        const auto part = static_cast<std::size_t>(std::min(length - done, pread_chunk));
        const ssize_t got = ::pread(fd_, out + done, part, offset + done);
        if (got == 0) break;
        if (got > 0)
            done += got;
        else if (errno != EINTR)
            throw SystemError(errno, path_);
    }
    return done;
}

std::int64_t MappedFile::pread_if_resident(std::uint8_t *out, std::int64_t offset, std::int64_t length) const {
#ifdef RWF_NOWAIT
    if (alignment_) return -1;
    struct iovec target = {out, static_cast<std::size_t>(length)};
    return ::preadv2(fd_, &target, 1, offset, RWF_NOWAIT);
#else
    (void)out, (void)offset, (void)length;
    return -1;
#endif
}

long major_faults() {
#ifdef RUSAGE_THREAD
    struct rusage usage;
    return ::getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_majflt : 0;
#else
    return 0;
#endif
}

}  // namespace bushel
