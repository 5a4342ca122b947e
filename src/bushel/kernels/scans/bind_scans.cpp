// Python bindings: scans of containers without an index of their own.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "common/shared.hpp"
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
        raise_value_error("start must be a multiple of " + std::to_string(alignment) + " between 0 and " +
                          std::to_string(size));
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

template <typename Found>
void bind_problem(nb::class_<Found> &found) {
    found.def_ro("end", &Found::end)
        .def_prop_ro("problem", [](const Found &self) { return optional_text(self.problem); })
        .def_prop_ro("problem_offset", [](const Found &self) { return self.problem_offset; })
        .def("__len__", [](const Found &self) { return self.offset.size(); });
}

void make_inflater(Shared<Inflate> *self, std::int64_t spacing) {
    if (spacing < 1) throw nb::value_error("spacing must be at least 1");
    new (self) Shared<Inflate>(spacing);
}

nb::object inflate(Shared<Inflate> &self, nb::handle data, bool last) {
    const BufferArgument buffer(data);
    std::size_t used;
    const std::string expanded = self.unlocked_with([&](Inflate &inflate) {
        used = inflate.feed(buffer.data(), buffer.size(), last);
        return std::string(reinterpret_cast<const char *>(inflate.expanded()), inflate.expanded_size());
    });
    return nb::make_tuple(used, bytes_of(expanded));
}

nb::object restart_points(Shared<Inflate> &self) {
    nb::list points;
    for (const RestartPoint &point : self.with([](Inflate &inflate) { return inflate.points(); }))
        points.append(nb::make_tuple(point.bit, point.position));
    return points;
}

nb::object scan_snappy_parts(nb::handle data, std::int64_t spacing) {
    if (spacing < 1) throw nb::value_error("spacing must be at least 1");
    const BufferArgument buffer(data);
    SnappyParts parts = without_lock([&] { return scan_snappy(buffer.data(), buffer.size(), spacing); });
    return nb::make_tuple(array_of(std::move(parts.start)), array_of(std::move(parts.offset)),
                          array_of(std::move(parts.length)), array_of(std::move(parts.literal)));
}

// The tar scan in steps. The caller fetches the bytes, or the scan reads a mapped file.
using TarScanner = Shared<TarScan>;

void make_tar_scanner(TarScanner *self, std::int64_t size, std::int64_t start) {
    check_start(start, size, 512);
    new (self) TarScanner(size, start);
}

TarMembers read_tar(TarScanner &self, const MappedFile &file, std::size_t most) {
    FileByteSource source(file);
    return self.unlocked_with([&](TarScan &scan) {
        if (file.size() != scan.size()) throw nb::value_error("the file is of another size than the archive");
        scan.read(source, most);
        return scan.take();
    });
}

nb::object next_window(TarScanner &self) {
    const std::optional<TarScan::Window> window = self.with([](TarScan &scan) { return scan.next(); });
    if (!window) return nb::none();
    return nb::make_tuple(window->offset, window->wish);
}

void feed_tar(TarScanner &self, nb::handle data) {
    const BufferArgument buffer(data);  // first, as it may run code of others
    self.with([&](TarScan &scan) {
        const std::optional<TarScan::Window> window = scan.next();
        if (!window) throw nb::value_error("the scan is over: next_window() is None");
        const auto length = static_cast<std::int64_t>(buffer.size());
        if (length < window->need) {
            raise_value_error("fed " + std::to_string(length) + " bytes at " + std::to_string(window->offset) +
                              ", but at least " + std::to_string(window->need) + " are needed");
        }
        scan.feed(buffer.data(), std::min(length, window->wish));
    });
}

nb::object group_names(SampleNames &names, nb::handle data, nb::handle offsets, bool last) {
    const KeysArgument texts(data, offsets);
    for (std::size_t row = 0; row < texts.count(); ++row) texts.check(row);
    GroupedNames grouped = names.group(texts.begin(), texts.offsets(), static_cast<std::int64_t>(texts.count()), last);
    return nb::make_tuple(grouped.used, array_of(std::move(grouped.row)), array_of(std::move(grouped.sample)),
                          array_of(std::move(grouped.extension)), array_of(std::move(grouped.text)),
                          array_of(std::move(grouped.ends)));
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
    std::unique_ptr<std::int32_t[]> headers(new std::int32_t[batch->rows * header_numbers]());
    {
        const nb::gil_scoped_release unlocked;
        for (std::size_t row = 0; row < batch->rows && mapped.data(); ++row) {
            if (batch->missing(row)) continue;
            put_header(mapped.data() + batch->offset[row], static_cast<std::size_t>(batch->length[row]),
                       headers.get() + row * header_numbers);
        }
    }
    return owned_array(headers.release(), {batch->rows, header_numbers});
}

// The header of an image in memory, as the bytes of five int32.
nb::bytes image_header(nb::handle data) {
    const BufferArgument image(data);
    std::int32_t numbers[header_numbers];
    put_header(image.data(), image.size(), numbers);
    return nb::bytes(reinterpret_cast<const char *>(numbers), sizeof numbers);
}

// Offsets of some frames of an MP3 file, and the number of all of them.
nb::object mp3_frames(nb::handle data, std::int64_t start, std::int64_t first, std::int64_t step) {
    const BufferArgument buffer(data);
    check_start(start, static_cast<std::int64_t>(buffer.size()), 1);
    if (first < 1 || step < 1) throw nb::value_error("first and step must be positive");
    Mp3Frames frames = without_lock([&] {
        return find_mp3_frames(buffer.data(), buffer.size(), static_cast<std::size_t>(start), first, step);
    });
    return nb::make_tuple(array_of(std::move(frames.offset)), frames.frames);
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
    nb::class_<Shared<Inflate>>(module, "Inflater")
        .def("__init__", &make_inflater, nb::arg("spacing"))
        .def("feed", &inflate, nb::arg("data"), nb::arg("last") = false)
        .def_prop_ro("done", fact_of<Inflate>(&Inflate::done))
        .def_prop_ro("points", &restart_points, nb::lock_self());
    nb::class_<TarScanner>(module, "TarScanner")
        .def("__init__", &make_tar_scanner, nb::arg("size"), nb::arg("start") = 0)
        .def("next_window", &next_window, nb::lock_self())
        .def("feed", &feed_tar, nb::arg("data"), nb::lock_self())
        .def("read", &read_tar, nb::arg("file"), nb::arg("most"), nb::lock_self())
        .def("take", fact_of<TarScan>(&TarScan::take), nb::lock_self())
        .def_prop_ro("members", fact_of<TarScan>(&TarScan::members), nb::lock_self())
        .def_prop_ro("over", fact_of<TarScan>([](const TarScan &scan) { return !scan.next(); }), nb::lock_self())
        .def_prop_ro("need", fact_of<TarScan>(&TarScan::need), nb::lock_self());
    module.def(
        "scan_tar", [](nb::handle input, std::int64_t start) { return scan(input, start, 512, scan_tar); },
        nb::arg("file"), nb::arg("start") = 0);

    nb::class_<SampleNames>(module, "SampleNames")
        .def(nb::init<>())
        .def("group", &group_names, nb::arg("names"), nb::arg("offsets"), nb::arg("last"), nb::lock_self())
        .def_prop_ro("extensions", [](const SampleNames &self) { return list_of_bytes(self.extensions()); },
                     nb::lock_self());

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
