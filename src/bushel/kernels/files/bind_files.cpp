// Python bindings: MappedFile, batched reads, reads of small files, and CRC-32.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "common/exceptions.hpp"
#include "common/memory.hpp"
#include "common/python.hpp"
#include "files/batch_argument.hpp"
#include "files/crc32.hpp"
#include "files/lengths.hpp"
#include "files/small_files.hpp"

namespace bushel {

namespace {

std::string path_argument(nb::handle path) {
    PyObject *encoded = nullptr;
    if (!PyUnicode_FSConverter(path.ptr(), &encoded)) throw nb::python_error();
    const nb::object owner = nb::steal(encoded);
    return std::string(PyBytes_AS_STRING(encoded), static_cast<std::size_t>(PyBytes_GET_SIZE(encoded)));
}

nb::object read(const MappedFile &file, std::int64_t offset, std::int64_t length) {
    Batch batch;
    batch.files.push_back(&file);
    batch.offset = &offset;
    batch.length = &length;
    batch.rows = 1;
    if (length < 0) throw nb::value_error("length must not be negative");
    check(batch);
    auto [bytes, out] = new_bytes(length);
    copy_without_lock(batch, &out);
    return bytes;
}

void read_into(const MappedFile &file, std::int64_t offset, nb::handle out) {
    const auto room = array_argument<std::uint8_t>(out, "out");
    const auto length = static_cast<std::int64_t>(room.shape(0));
    const nb::gil_scoped_release unlocked;
    if (!file.contains(offset, length)) {
        const std::int64_t end = offset > INT64_MAX - length ? INT64_MAX : offset + length;
        throw ExtentError(ExtentError::Reason::beyond, 0, end, file.size(), file.path());
    }
    const std::int64_t got = file.pread(room.data(), offset, length);
    if (got < length) throw ExtentError(ExtentError::Reason::shrunk, 0, file.size(), offset + got, file.path());
}

nb::object read_many(nb::handle files, nb::handle file, nb::handle offset, nb::handle length, nb::handle crc) {
    const BatchArgument batch(files, file, offset, length, crc);
    const std::int64_t total = check(*batch);
    keep_freed_memory(static_cast<std::size_t>(total));
    const auto [list, out] = new_bytes_list(batch->length, batch->rows);
    copy_quickly(*batch, total, out.data());
    return list;
}

nb::object read_small_files(nb::handle paths, nb::handle size, nb::handle mtime, nb::handle offset, nb::handle length,
                            nb::handle folder) {
    const std::string root = path_argument(folder);
    const Sequence names(paths, "paths: expected a list of paths");
    const auto sizes = array_argument<const std::int64_t>(size, "size");
    const auto times = array_argument<const std::int64_t>(mtime, "mtime_ns");
    const auto offsets = array_argument<const std::int64_t>(offset, "offset");
    const auto lengths = array_argument<const std::int64_t>(length, "length");
    const std::size_t rows = names.size();
    for (const std::size_t other : {sizes.size(), times.size(), offsets.size(), lengths.size()}) {
        if (other != rows) throw nb::value_error("paths, size, mtime_ns, offset and length must have the same size");
    }
    std::vector<SmallRead> reads;
    reads.reserve(rows);
    for (std::size_t row = 0; row < rows; ++row) {
        SmallRead read{path_argument(names[row]), sizes.data()[row], times.data()[row], offsets.data()[row],
                       lengths.data()[row]};
        if (read.offset < 0 || read.length < 0 || read.size < 0 || read.offset > read.size - read.length)
            raise_value_error("extent " + std::to_string(row) + " is not inside its file");
        reads.push_back(std::move(read));
    }
    const auto [list, out] = new_bytes_list(lengths.data(), rows);
    const std::vector<std::size_t> failed = without_lock([&reads, &root, &out = out] {
        std::vector<std::size_t> unread;
        const OpenFolder open(root);
        for (std::size_t row = 0; row < reads.size(); ++row) {
            const bool outside = !root.empty() && leads_out(reads[row].path);
            if (outside || !read_small(reads[row], open.descriptor(), out[row])) unread.push_back(row);
        }
        return unread;
    });
    for (const std::size_t row : failed) {
        if (PyList_SetItem(list.ptr(), static_cast<Py_ssize_t>(row), Py_NewRef(Py_None)) != 0) throw nb::python_error();
    }
    return list;
}

nb::object stamps_of(nb::handle paths, nb::handle folder) {
    const std::string root = path_argument(folder);
    const Sequence names(paths, "paths: expected a list of paths");
    std::vector<std::string> files;
    for (std::size_t i = 0; i < names.size(); ++i) files.push_back(path_argument(names[i]));
    std::vector<std::int64_t> sizes, times;
    {
        const nb::gil_scoped_release unlocked;
        const OpenFolder open(root);
        for (const std::string &file : files) {
            const bool outside = !root.empty() && leads_out(file);
            const Stamp stamp = outside ? Stamp{} : stamp_of(file, open.descriptor());
            sizes.push_back(stamp.size);
            times.push_back(stamp.mtime_ns);
        }
    }
    return nb::make_tuple(array_of(std::move(sizes)), array_of(std::move(times)));
}

nb::object read_files(nb::handle paths, nb::handle out, nb::handle folder) {
    const std::string root = path_argument(folder);
    const Sequence names(paths, "paths: expected a list of paths");
    const Array<std::uint8_t> room = array_argument<std::uint8_t>(out, "out");
    std::vector<std::string> files;
    for (std::size_t i = 0; i < names.size(); ++i) files.push_back(path_argument(names[i]));
    std::vector<std::int64_t> offsets{0};
    std::vector<std::uint32_t> sums;
    {
        const nb::gil_scoped_release unlocked;
        const OpenFolder open(root);
        std::size_t used = 0;
        for (const std::string &file : files) {
            if (!root.empty() && leads_out(file)) break;
            const std::int64_t size = read_whole(file, open.descriptor(), room.data() + used, room.size() - used);
            if (size < 0) break;
            sums.push_back(crc32(room.data() + used, static_cast<std::size_t>(size)));
            used += static_cast<std::size_t>(size);
            offsets.push_back(static_cast<std::int64_t>(used));
        }
    }
    return nb::make_tuple(array_of(std::move(offsets)), array_of(std::move(sums)));
}

// Return the offset of each row in one buffer, and the total as the last element.
std::unique_ptr<std::int64_t[]> row_offsets(const Batch &batch) {
    std::unique_ptr<std::int64_t[]> offsets(new std::int64_t[batch.rows + 1]);
    std::int64_t total = 0;
    for (std::size_t row = 0; row < batch.rows; ++row) {
        offsets[row] = total;
        if (!batch.missing(row)) total += batch.length[row];
    }
    offsets[batch.rows] = total;
    return offsets;
}

void gather_rows(const Batch &batch, const std::int64_t *offsets, std::uint8_t *out) {
    std::vector<std::uint8_t *> rows(batch.rows);
    for (std::size_t row = 0; row < batch.rows; ++row) rows[row] = out + offsets[row];
    copy_without_lock(batch, rows.data());
}

nb::object gather_into(nb::handle files, nb::handle file, nb::handle offset, nb::handle length, nb::handle crc,
                       nb::handle out) {
    const BatchArgument batch(files, file, offset, length, crc);
    const Array<std::uint8_t> buffer = array_argument<std::uint8_t>(out, "out");
    const std::int64_t total = check(*batch);
    if (static_cast<std::uint64_t>(total) > buffer.size()) {
        raise_value_error("out holds " + std::to_string(buffer.size()) + " bytes, but the rows have " +
                          std::to_string(total));
    }
    std::unique_ptr<std::int64_t[]> offsets = row_offsets(*batch);
    gather_rows(*batch, offsets.get(), buffer.data());
    return owned_array(offsets.release(), batch->rows + 1);
}

nb::object gather(nb::handle files, nb::handle file, nb::handle offset, nb::handle length, nb::handle crc) {
    const BatchArgument batch(files, file, offset, length, crc);
    const std::int64_t total = check(*batch);
    std::unique_ptr<std::int64_t[]> offsets = row_offsets(*batch);
    std::unique_ptr<std::uint8_t[]> data(new std::uint8_t[static_cast<std::size_t>(total)]);
    gather_rows(*batch, offsets.get(), data.get());
    const nb::object buffer = owned_array(data.release(), static_cast<std::size_t>(total));
    return nb::make_tuple(buffer, owned_array(offsets.release(), batch->rows + 1));
}

void prefetch_many(nb::handle files, nb::handle file, nb::handle offset, nb::handle length) {
    const BatchArgument batch(files, file, offset, length, nb::none());
    check(*batch);
    const nb::gil_scoped_release unlocked;
    prefetch(*batch);
}

nb::object crc32_many(nb::handle files, nb::handle file, nb::handle offset, nb::handle length) {
    const BatchArgument batch(files, file, offset, length, nb::none());
    check(*batch);
    std::unique_ptr<std::uint32_t[]> sums(new std::uint32_t[batch->rows]);
    without_lock([&] { checksum(*batch, sums.get()); });
    return owned_array(sums.release(), batch->rows);
}

std::uint32_t crc32_of(nb::handle data, std::uint32_t value) {
    const BufferArgument buffer(data);
    if (buffer.size() < static_cast<std::size_t>(keep_lock_below)) return crc32(buffer.data(), buffer.size(), value);
    const nb::gil_scoped_release unlocked;
    return crc32(buffer.data(), buffer.size(), value);
}

// Return the first extent that is not inside a file of `size` bytes, or -1. A length of -1 means a missing value, at any
// offset.
std::int64_t first_outside(const std::int64_t *offset, const std::int64_t *length, std::size_t count,
                           std::int64_t size) {
    constexpr std::size_t together = 256;  // without a branch for each, so that compilers use vectors
    const auto is_outside = [&](std::size_t i) {
        const auto start = static_cast<std::uint64_t>(offset[i]), bytes = static_cast<std::uint64_t>(length[i]);
        const auto limit = static_cast<std::uint64_t>(size);  // numbers below zero are above it
        return (length[i] != -1) & ((start > limit) | (bytes > limit) | (bytes > limit - start));
    };
    for (std::size_t first = 0; first < count; first += together) {
        const std::size_t end = std::min(count, first + together);
        bool any = false;
        for (std::size_t i = first; i < end; ++i) any |= is_outside(i);
        if (!any) continue;
        for (std::size_t i = first; i < end; ++i) {
            if (is_outside(i)) return static_cast<std::int64_t>(i);
        }
    }
    return -1;
}

std::int64_t first_outside_of(nb::handle offset, nb::handle length, std::int64_t size) {
    const auto starts = array_argument<const std::int64_t>(offset, "offset");
    const auto lengths = array_argument<const std::int64_t>(length, "length");
    if (starts.shape(0) != lengths.shape(0)) throw nb::value_error("offset and length must have the same length");
    if (size < 0) throw nb::value_error("size must not be negative");
    const nb::gil_scoped_release unlocked;
    return first_outside(starts.data(), lengths.data(), starts.shape(0), size);
}

// Map a whole file as an array. The descriptor is closed at once: a dataset may have more shards than a process may
// have open files. All pages are requested at once.
nb::object map_array(nb::handle path) {
    struct Mapping {
        void *data;
        std::size_t size;
    };
    const std::string name = path_argument(path);
    struct stat info;
    const int file = open_regular(name, info);
    int error = 0;
    const auto size = static_cast<std::size_t>(info.st_size);
    void *data = nullptr;
    if (size > 0) {
        data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
        if (data == MAP_FAILED) error = errno;
    }
    ::close(file);
    if (error) throw SystemError(error, name);
    if (size > 0) ::madvise(data, size, MADV_WILLNEED);
    nb::capsule owner(new Mapping{data, size}, [](void *memory) noexcept {
        const std::unique_ptr<Mapping> mapping(static_cast<Mapping *>(memory));
        if (mapping->size > 0) ::munmap(mapping->data, mapping->size);
    });
    return nb::cast(nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>>(data, {size}, owner));
}

void load_lengths_of(const MappedFile &file, nb::handle places) {
    const auto borders = array_argument<const std::int64_t>(places, "places");
    std::vector<ValuesOfFile> values;
    for (std::size_t i = 0; i + 1 < borders.size(); i += 2) {
        const std::int64_t begin = borders.data()[i], end = borders.data()[i + 1];
        if (begin >= 0) values.push_back({begin, std::min(end, file.size())});
    }
    const nb::gil_scoped_release unlocked;
    load_lengths(file, values, [] {
        const nb::gil_scoped_acquire locked;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
    });
}

}  // namespace

void bind_files(nb::module_ &module) {
    nb::class_<MappedFile>(module, "MappedFile")
        .def(
            "__init__", [](MappedFile *self, nb::handle path) { new (self) MappedFile(path_argument(path)); },
            nb::arg("path"))
        .def_prop_ro("path",
                     [](const MappedFile &self) {
                         return nb::steal(PyUnicode_DecodeFSDefaultAndSize(
                             self.path().data(), static_cast<Py_ssize_t>(self.path().size())));
                     })
        .def_prop_ro("size", &MappedFile::size)
        .def_prop_ro("mtime_ns", &MappedFile::mtime_ns)
        .def("read", &read, nb::arg("offset"), nb::arg("length"))
        .def("load_lengths", &load_lengths_of, nb::arg("places"))
        .def("read_into", &read_into, nb::arg("offset"), nb::arg("out"))
        .def("direct", [](const MappedFile &self) { return self.direct().release(); },
             nb::rv_policy::take_ownership);
    module.def("read_many", &read_many, nb::arg("files"), nb::arg("file"), nb::arg("offset"), nb::arg("length"),
               nb::arg("crc32") = nb::none());
    module.def("cold_reads", &cold_reads);
    module.def("read_small_files", &read_small_files, nb::arg("paths"), nb::arg("size"), nb::arg("mtime_ns"),
               nb::arg("offset"), nb::arg("length"), nb::kw_only(), nb::arg("folder") = "");
    module.def("file_stamps", &stamps_of, nb::arg("paths"), nb::kw_only(), nb::arg("folder") = "");
    module.def("read_files", &read_files, nb::arg("paths"), nb::arg("out"), nb::kw_only(), nb::arg("folder") = "");
    module.def("gather", &gather, nb::arg("files"), nb::arg("file"), nb::arg("offset"), nb::arg("length"),
               nb::arg("crc32") = nb::none());
    module.def("gather_into", &gather_into, nb::arg("files"), nb::arg("file"), nb::arg("offset"), nb::arg("length"),
               nb::arg("crc32").none(), nb::arg("out"));
    module.def("prefetch", &prefetch_many, nb::arg("files"), nb::arg("file"), nb::arg("offset"), nb::arg("length"));
    module.def("first_outside", &first_outside_of, nb::arg("offset"), nb::arg("length"), nb::arg("size"));
    module.def("map_array", &map_array, nb::arg("path"));
    module.def("crc32", &crc32_of, nb::arg("data"), nb::arg("value") = 0);
    module.def("join_crc32", &join_crc32, nb::arg("beginning"), nb::arg("rest"), nb::arg("length"));
    module.def("crc32_many", &crc32_many, nb::arg("files"), nb::arg("file"), nb::arg("offset"), nb::arg("length"));
}

}  // namespace bushel
