#include "files/small_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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

bool read_small(const SmallRead &read) {
    if (read.offset < 0 || read.length < 0 || read.offset > read.size - read.length) return false;
    // O_NONBLOCK: opening a named pipe would wait for a writer.
    const int file = ::open(read.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return false;
    struct stat info;
    const bool same = ::fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == read.size &&
                      mtime_of(info) == read.mtime_ns;
    const bool whole = same && fill(file, read);
    ::close(file);
    return whole;
}

}  // namespace bushel
