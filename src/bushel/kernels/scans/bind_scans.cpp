// Python bindings: scans of containers without an index of their own.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "files/batch_argument.hpp"
#include "files/key_argument.hpp"
#include "scans/image_headers.hpp"
#include "scans/inflate.hpp"
#include "scans/mp3_frames.hpp"
#include "scans/recordio.hpp"
#include "scans/sample_names.hpp"
#include "scans/snappy.hpp"
#include "scans/tar.hpp"

namespace bushel {

namespace {

void check_start(std::int64_t start, std::int64_t size, std::int64_t alignment) {
    if (start < 0 || start > size || start % alignment) {
        throw nb::value_error(
            ("start must be a multiple of " + std::to_string(alignment) + " between 0 and " + std::to_string(size))
                .c_str());
    }
}

// Run a scan over a MappedFile, or over any object with the buffer protocol.
template <typename Found>
Found scan(nb::handle input, std::int64_t start, std::int64_t alignment, Found (*run)(ByteSource &, std::int64_t)) {
    if (nb::isinstance<MappedFile>(input)) {
        const MappedFile &file = *nb::inst_ptr<MappedFile>(input);
        check_start(start, file.size(), alignment);
        FileByteSource source(file);
        const nb::gil_scoped_release unlocked;
        return run(source, start);
    }
    const BufferArgument buffer(input);
    check_start(start, static_cast<std::int64_t>(buffer.size()), alignment);
    BufferByteSource source(buffer.data(), static_cast<std::int64_t>(buffer.size()));
    const nb::gil_scoped_release unlocked;
    return run(source, start);
}

template <typename Found, typename T>
auto column(std::vector<T> Found::*field) {
    return [field](nb::handle self) { return view_of((*nb::inst_ptr<Found>(self)).*field, self); };
}

template <typename Found>
void bind_problem(nb::class_<Found> &found) {
    found.def_ro("end", &Found::end)
        .def_prop_ro("problem", [](const Found &self) { return optional_text(self.problem); })
        .def_prop_ro("problem_offset", [](const Found &self) { return self.problem_offset; })
        .def("__len__", [](const Found &self) { return self.offset.size(); });
}

nb::bytes bytes_of(const std::string &text) { return nb::bytes(text.data(), text.size()); }

// Inflate, which threads may share.
class Inflater {
public:
    explicit Inflater(std::int64_t spacing) : inflate_(spacing) {}

    nb::object feed(nb::handle data, bool last) {
        const BufferArgument buffer(data);
        std::size_t used;
        std::string expanded;
        {
            const nb::gil_scoped_release unlocked;
            const std::lock_guard<std::mutex> alone(mutex_);
            used = inflate_.feed(buffer.data(), buffer.size(), last);
            expanded.assign(reinterpret_cast<const char *>(inflate_.expanded()), inflate_.expanded_size());
        }
        return nb::make_tuple(used, bytes_of(expanded));
    }

    bool done() const { return inflate_.done(); }

    nb::object points() const {
        nb::list points;
        for (const RestartPoint &point : inflate_.points()) points.append(nb::make_tuple(point.bit, point.position));
        return points;
    }

private:
    std::mutex mutex_;
    Inflate inflate_;
};

nb::object scan_snappy_parts(nb::handle data, std::int64_t spacing) {
    if (spacing < 1) throw nb::value_error("spacing must be at least 1");
    const BufferArgument buffer(data);
    SnappyParts parts;
    {
        const nb::gil_scoped_release unlocked;
        parts = scan_snappy(buffer.data(), buffer.size(), spacing);
    }
    const auto owned = [](const auto &elements) {
        using Element = typename std::decay_t<decltype(elements)>::value_type;
        Element *const copy = new Element[elements.size()];
        std::copy(elements.begin(), elements.end(), copy);
        return owned_array(copy, elements.size());
    };
    return nb::make_tuple(owned(parts.start), owned(parts.offset), owned(parts.length), owned(parts.literal));
}

// The tar scan in steps. The caller fetches the bytes, or the scan reads a mapped file.
class TarScanner {
public:
    TarScanner(std::int64_t size, std::int64_t start, std::int64_t min_window)
        : scan_(size, start, min_window), size_(size) {}

    bool over() const {
        const std::lock_guard<std::mutex> alone(mutex_);
        return !scan_.next();
    }

    std::size_t members() const {
        const std::lock_guard<std::mutex> alone(mutex_);
        return scan_.members();
    }

    TarMembers take() {
        const std::lock_guard<std::mutex> alone(mutex_);
        return scan_.take();
    }

    TarMembers read(const MappedFile &file, std::size_t most) {
        if (file.size() != size_) throw nb::value_error("the file is of another size than the archive");
        FileByteSource source(file);
        const nb::gil_scoped_release unlocked;
        const std::lock_guard<std::mutex> alone(mutex_);
        scan_.read(source, most);
        return scan_.take();
    }

    std::int64_t need() const {
        const std::lock_guard<std::mutex> alone(mutex_);
        const std::optional<TarScan::Window> window = scan_.next();
        return window ? window->need : 0;
    }

    nb::object next_window() const {
        const std::lock_guard<std::mutex> alone(mutex_);
        const std::optional<TarScan::Window> window = scan_.next();
        if (!window) return nb::none();
        return nb::make_tuple(window->offset, window->wish);
    }

    void feed(nb::handle data) {
        const BufferArgument buffer(data);  // first, as it may run code of others
        const std::lock_guard<std::mutex> alone(mutex_);
        const std::optional<TarScan::Window> window = scan_.next();
        if (!window) throw nb::value_error("the scan is over: next_window() is None");
        const auto length = static_cast<std::int64_t>(buffer.size());
        if (length < window->need) {
            throw nb::value_error(("fed " + std::to_string(length) + " bytes at " + std::to_string(window->offset) +
                                   ", but at least " + std::to_string(window->need) + " are needed")
                                      .c_str());
        }
        scan_.feed(buffer.data(), std::min(length, window->wish));
    }

    TarMembers finish() {
        const std::lock_guard<std::mutex> alone(mutex_);
        if (finished_) throw nb::value_error("finish() was called before");
        if (scan_.next()) throw nb::value_error("the scan is not over: feed what next_window() asks for");
        finished_ = true;
        return scan_.take();
    }

private:
    mutable std::mutex mutex_;
    TarScan scan_;
    std::int64_t size_;
    bool finished_ = false;
};

nb::object group_names(SampleNames &names, nb::handle data, nb::handle offsets, bool last) {
    const KeysArgument given(data, offsets);
    for (std::size_t row = 0; row < given.count(); ++row) given.check(row);
    GroupedNames found = names.group(given.begin(), given.offsets(), static_cast<std::int64_t>(given.count()), last);
    return nb::make_tuple(found.used, array_of(std::move(found.row)), array_of(std::move(found.sample)),
                          array_of(std::move(found.extension)), array_of(std::move(found.text)),
                          array_of(std::move(found.ends)));
}

nb::list extensions_of(const SampleNames &names) {
    nb::list all;
    for (const std::string &each : names.extensions()) all.append(bytes_of(each));
    return all;
}

constexpr std::size_t header_numbers = 5;  // of ImageHeader

void put_header(const std::uint8_t *data, std::size_t size, std::int32_t *out) {
    const ImageHeader header = read_image_header(data, size);
    out[0] = header.format, out[1] = header.width, out[2] = header.height;
    out[3] = header.channels, out[4] = header.orientation;
}

// The headers of the rows of a mapped file, which is not copied.
nb::object image_headers(nb::handle file, nb::handle offset, nb::handle length) {
    nb::list files;
    files.append(file);
    const BatchArgument batch(files, nb::int_(0), offset, length, nb::none());
    check(*batch);
    const MappedFile &mapped = *batch->files[0];
    std::unique_ptr<std::int32_t[]> found(new std::int32_t[batch->rows * header_numbers]());
    {
        const nb::gil_scoped_release unlocked;
        for (std::size_t row = 0; row < batch->rows && mapped.data(); ++row) {
            if (batch->missing(row)) continue;
            put_header(mapped.data() + batch->offset[row], static_cast<std::size_t>(batch->length[row]),
                       found.get() + row * header_numbers);
        }
    }
    const nb::object flat = owned_array(found.release(), batch->rows * header_numbers);
    return flat.attr("reshape")(batch->rows, header_numbers);
}

// The header of an image in memory, as the bytes of five int32.
nb::bytes image_header(nb::handle data) {
    const BufferArgument image(data);
    std::int32_t found[header_numbers];
    put_header(image.data(), image.size(), found);
    return nb::bytes(reinterpret_cast<const char *>(found), sizeof found);
}

// Offsets of some frames of an MP3 file, and the number of all of them.
nb::object mp3_frames(nb::handle data, std::int64_t start, std::int64_t first, std::int64_t step) {
    const BufferArgument buffer(data);
    check_start(start, static_cast<std::int64_t>(buffer.size()), 1);
    if (first < 1 || step < 1) throw nb::value_error("first and step must be positive");
    Mp3Frames found;
    {
        const nb::gil_scoped_release unlocked;
        found = find_mp3_frames(buffer.data(), buffer.size(), static_cast<std::size_t>(start), first, step);
    }
    return nb::make_tuple(array_of(std::move(found.offset)), found.frames);
}

}  // namespace

void bind_scans(nb::module_ &module) {
    module.def("mp3_frames", &mp3_frames, nb::arg("data"), nb::arg("start"), nb::arg("first"), nb::arg("step"));
    module.def("image_header", &image_header, nb::arg("data"));
    module.def("image_headers", &image_headers, nb::arg("file"), nb::arg("offset"), nb::arg("length"));

    nb::class_<TarMembers> members(module, "TarMembers");
    members.def_prop_ro("names", column(&TarMembers::names))
        .def_prop_ro("name_offsets", column(&TarMembers::name_offsets))
        .def_prop_ro("offset", column(&TarMembers::offset))
        .def_prop_ro("size", column(&TarMembers::size))
        .def_prop_ro("header", column(&TarMembers::header))
        .def_prop_ro("type", column(&TarMembers::type))
        .def_ro("zero_blocks", &TarMembers::zero_blocks)
        .def_prop_ro("terminated", [](const TarMembers &self) { return self.zero_blocks == 2; })
        .def_ro("trailing_bytes", &TarMembers::trailing_bytes)
        .def_prop_ro("comment", [](const TarMembers &self) { return bytes_of(self.comment); });
    bind_problem(members);

    module.def("scan_snappy", &scan_snappy_parts, nb::arg("data"), nb::arg("spacing"));
    nb::class_<Inflater>(module, "Inflater")
        .def(
            "__init__",
            [](Inflater *self, std::int64_t spacing) {
                if (spacing < 1) throw nb::value_error("spacing must be at least 1");
                new (self) Inflater(spacing);
            },
            nb::arg("spacing"))
        .def("feed", &Inflater::feed, nb::arg("data"), nb::arg("last") = false)
        .def_prop_ro("done", &Inflater::done)
        .def_prop_ro("points", &Inflater::points, nb::lock_self());
    nb::class_<TarScanner>(module, "TarScanner")
        .def(
            "__init__",
            [](TarScanner *self, std::int64_t size, std::int64_t start, std::int64_t min_window) {
                check_start(start, size, 512);
                new (self) TarScanner(size, start, min_window);
            },
            nb::arg("size"), nb::arg("start") = 0, nb::arg("min_window") = 0)
        .def("next_window", &TarScanner::next_window, nb::lock_self())
        .def("feed", &TarScanner::feed, nb::arg("data"), nb::lock_self())
        .def("read", &TarScanner::read, nb::arg("file"), nb::arg("most"), nb::lock_self())
        .def("take", &TarScanner::take, nb::lock_self())
        .def_prop_ro("members", &TarScanner::members, nb::lock_self())
        .def_prop_ro("over", &TarScanner::over, nb::lock_self())
        .def_prop_ro("need", &TarScanner::need, nb::lock_self())
        .def("finish", &TarScanner::finish, nb::lock_self());
    module.def(
        "scan_tar", [](nb::handle input, std::int64_t start) { return scan(input, start, 512, scan_tar); },
        nb::arg("file"), nb::arg("start") = 0);

    nb::class_<SampleNames>(module, "SampleNames")
        .def(nb::init<>())
        .def("group", &group_names, nb::arg("names"), nb::arg("offsets"), nb::arg("last"), nb::lock_self())
        .def_prop_ro("extensions", &extensions_of, nb::lock_self());

    nb::class_<RecordioRecords> records(module, "RecordioRecords");
    records.def_prop_ro("offset", column(&RecordioRecords::offset))
        .def_prop_ro("span", column(&RecordioRecords::span))
        .def_prop_ro("parts", column(&RecordioRecords::parts));
    bind_problem(records);
    module.def(
        "scan_recordio", [](nb::handle input, std::int64_t start) { return scan(input, start, 4, scan_recordio); },
        nb::arg("file"), nb::arg("start") = 0);
    module.def(
        "join_recordio",
        [](nb::handle raw) {
            const BufferArgument buffer(raw);
            return bytes_of(join_recordio(buffer.data(), buffer.size()));
        },
        nb::arg("raw"));
    module.def(
        "split_recordio",
        [](nb::handle payload) {
            const BufferArgument buffer(payload);
            return bytes_of(split_recordio(buffer.data(), buffer.size()));
        },
        nb::arg("payload"));
}

}  // namespace bushel
