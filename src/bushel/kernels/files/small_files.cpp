#include "files/small_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "files/mapped_file.hpp"

namespace bushel {

namespace {

bool fill(int file, const SmallRead &read) {
    for (std::int64_t done = 0; done < read.length;) {
        const ssize_t got =
            ::pread(file, read.out + done, static_cast<std::size_t>(read.length - done), read.offset + done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        done += got;
    }
    return true;
}

}  // namespace

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

bool read_small(const SmallRead &read, int folder) {
    if (read.offset < 0 || read.length < 0 || read.offset > read.size - read.length) return false;
    // O_NONBLOCK: opening a named pipe would wait for a writer.
    const int file = ::openat(folder, read.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return false;
    struct stat info;
    const bool same = ::fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == read.size &&
                      mtime_of(info) == read.mtime_ns;
    const bool whole = same && fill(file, read);
    ::close(file);
    return whole;
}

}  // namespace bushel
