#include "files/small_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "files/mapped_file.hpp"

namespace bushel {

namespace {

bool fill(int file, const SmallRead &read, std::uint8_t *out) {
    for (std::int64_t done = 0; done < read.length;) {
        const ssize_t got = ::pread(file, out + done, static_cast<std::size_t>(read.length - done), read.offset + done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        done += got;
    }
    return true;
}

// An open file, or -1. O_NONBLOCK: opening a named pipe would wait for a writer.
class OpenFile {
public:
    OpenFile(const std::string &path, int folder)
        : fd(::openat(folder, path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
    ~OpenFile() {
        if (fd >= 0) ::close(fd);
    }
    OpenFile(const OpenFile &) = delete;
    OpenFile &operator=(const OpenFile &) = delete;

    const int fd;
};

}  // namespace

std::int64_t read_whole(const std::string &path, int folder, std::uint8_t *out, std::size_t room) {
    const OpenFile file(path, folder);
    struct stat info;
    if (file.fd < 0 || ::fstat(file.fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < 0) return -1;
    const auto size = static_cast<std::size_t>(info.st_size);
    if (size >= room) return -1;
    std::size_t done = 0;
    do {
        const ssize_t got = ::read(file.fd, out + done, size + 1 - done);  // one byte more: it may have grown
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 || (got == 0 && size > 0)) return -1;
        done += static_cast<std::size_t>(got);
    } while (done < size);
    return done == size ? static_cast<std::int64_t>(size) : -1;
}

Stamp stamp_of(const std::string &path, int folder) {
    struct stat info;
    if (::fstatat(folder, path.c_str(), &info, 0) != 0) return {};
    return {info.st_size, mtime_of(info)};
}

bool leads_out(const std::string &path) {
    for (std::size_t at = 0;; ++at) {
        const std::size_t end = std::min(path.find('/', at), path.size());
        const std::size_t size = end - at;
        if (size == 0 || (size <= 2 && path.compare(at, size, "..", size) == 0)) return true;
        if (end == path.size()) return false;
        at = end;
    }
}

OpenFolder::OpenFolder(const std::string &name)
    : fd_(name.empty() ? AT_FDCWD : ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}

OpenFolder::~OpenFolder() {
    if (fd_ >= 0) ::close(fd_);
}

bool read_small(const SmallRead &read, int folder, std::uint8_t *out) {
    const OpenFile file(read.path, folder);
    struct stat info;
    if (file.fd < 0 || ::fstat(file.fd, &info) != 0) return false;
    const bool same = S_ISREG(info.st_mode) && info.st_size == read.size && mtime_of(info) == read.mtime_ns;
    return same && fill(file.fd, read, out);
}

}  // namespace bushel
