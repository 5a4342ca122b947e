// Python bindings: zip archives.
#include <algorithm>
#include <mutex>
#include <stdexcept>

#include "common/python.hpp"
#include "scans/member_groups.hpp"
#include "scans/zip.hpp"

namespace bushel {

namespace {

// ZipDirectory, which threads may share.
class ZipScanner {
public:
    ZipScanner(std::int64_t size, std::int64_t shift, bool all) : scan_(size, shift, all) {
        if (size < 0) throw nb::value_error("size must not be negative");
    }

    std::size_t feed(nb::handle data) {
        const BufferArgument buffer(data);  // first, as it may run code of others
        const nb::gil_scoped_release unlocked;
        const std::lock_guard<std::mutex> alone(mutex_);
        return scan_.feed(buffer.data(), buffer.size());
    }

    nb::tuple take() {
        const std::lock_guard<std::mutex> alone(mutex_);
        ZipEntries found = scan_.take();
        return nb::make_tuple(array_of(std::move(found.names)), array_of(std::move(found.name_offsets)),
                              array_of(std::move(found.header)), array_of(std::move(found.stored)),
                              array_of(std::move(found.size)), array_of(std::move(found.crc32)),
                              array_of(std::move(found.method)), array_of(std::move(found.flags)));
    }

    const ZipDirectory &scan() const { return scan_; }

private:
    std::mutex mutex_;
    ZipDirectory scan_;
};

// MemberGroups, which threads may share, and the arrays of its names.
class Groups {
public:
    Groups(nb::handle names, nb::handle offsets)
        : names_(array_argument<const std::uint8_t>(names, "names")),
          offsets_(array_argument<const std::int64_t>(offsets, "offsets")),
          groups_(names_.data(), names_.size(), offsets_.data(), std::max<std::size_t>(offsets_.size(), 1) - 1) {}

    nb::tuple group(nb::handle members) {
        const auto rows = array_argument<const std::int64_t>(members, "members");
        std::vector<std::int64_t> sample(rows.size());
        std::vector<std::int32_t> extension(rows.size());
        {
            const nb::gil_scoped_release unlocked;
            const std::lock_guard<std::mutex> alone(mutex_);
            groups_.group(rows.data(), rows.size(), sample.data(), extension.data());
        }
        return nb::make_tuple(array_of(std::move(sample)), array_of(std::move(extension)));
    }

    nb::tuple take_keys() {
        std::vector<std::uint8_t> text;
        std::vector<std::int64_t> ends;
        {
            const nb::gil_scoped_release unlocked;
            const std::lock_guard<std::mutex> alone(mutex_);
            groups_.append_keys(taken_, text, ends);
            taken_ = groups_.samples();
        }
        return nb::make_tuple(array_of(std::move(text)), array_of(std::move(ends)));
    }

    nb::list extensions() {
        const std::lock_guard<std::mutex> alone(mutex_);
        nb::list found;
        for (const std::string &each : groups_.extensions) found.append(nb::bytes(each.data(), each.size()));
        return found;
    }

private:
    std::mutex mutex_;
    Array<const std::uint8_t> names_;
    Array<const std::int64_t> offsets_;
    MemberGroups groups_;
    std::size_t taken_ = 0;
};

nb::object data_offsets(const MappedFile &file, nb::handle header) {
    const auto offsets = array_argument<const std::int64_t>(header, "header");
    std::vector<std::int64_t> found;
    {
        const nb::gil_scoped_release unlocked;
        found = zip_data(file, offsets.data(), offsets.size());
    }
    return array_of(std::move(found));
}

}  // namespace

void bind_zip(nb::module_ &module) {
    nb::class_<ZipScanner>(module, "ZipScanner")
        .def(nb::init<std::int64_t, std::int64_t, bool>(), nb::arg("size"), nb::arg("shift") = 0, nb::arg("all") = false)
        .def("feed", &ZipScanner::feed, nb::arg("data"), nb::lock_self())
        .def_prop_ro("end", [](const ZipScanner &self) { return self.scan().end; }, nb::lock_self())
        .def_prop_ro("need", [](const ZipScanner &self) { return self.scan().need; }, nb::lock_self())
        .def_prop_ro("problem", [](const ZipScanner &self) { return optional_text(self.scan().problem); }, nb::lock_self())
        .def("take", &ZipScanner::take, nb::lock_self());
    nb::class_<Groups>(module, "MemberGroups")
        .def(nb::init<nb::handle, nb::handle>(), nb::arg("names"), nb::arg("offsets"))
        .def("group", &Groups::group, nb::arg("members"), nb::lock_self())
        .def("take_keys", &Groups::take_keys, nb::lock_self())
        .def_prop_ro("extensions", &Groups::extensions, nb::lock_self());
    module.def("zip_data", &data_offsets, nb::arg("file"), nb::arg("header"));
}

}  // namespace bushel
