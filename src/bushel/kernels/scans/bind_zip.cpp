// Python bindings: zip archives.
#include <algorithm>

#include "common/shared.hpp"
#include "scans/sample_names.hpp"
#include "scans/zip.hpp"

namespace bushel {

namespace {

void make_zip_scanner(Shared<ZipDirectory> *self, std::int64_t size, std::int64_t shift) {
    if (size < 0) throw nb::value_error("size must not be negative");
    new (self) Shared<ZipDirectory>(size, shift);
}

nb::tuple take_entries(Shared<ZipDirectory> &self) {
    ZipEntries entries = self.with([](ZipDirectory &directory) { return directory.take(); });
    return nb::make_tuple(array_of(std::move(entries.names)), array_of(std::move(entries.name_offsets)),
                          array_of(std::move(entries.header)), array_of(std::move(entries.stored)),
                          array_of(std::move(entries.size)), array_of(std::move(entries.crc32)),
                          array_of(std::move(entries.method)), array_of(std::move(entries.flags)));
}

// MemberGroups, and the arrays of its names.
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
        groups_.unlocked_with([&](MemberGroups &groups) {
            groups.group(rows.data(), rows.size(), sample.data(), extension.data());
        });
        return nb::make_tuple(array_of(std::move(sample)), array_of(std::move(extension)));
    }

    nb::tuple take_keys() {
        std::vector<std::uint8_t> text;
        std::vector<std::int64_t> ends;
        groups_.unlocked_with([&](MemberGroups &groups) {
            groups.append_keys(taken_, text, ends);
            taken_ = groups.samples();
        });
        return nb::make_tuple(array_of(std::move(text)), array_of(std::move(ends)));
    }

    nb::list extensions() {
        return list_of_bytes(groups_.with([](const MemberGroups &groups) { return groups.extensions.all(); }));
    }

private:
    Array<const std::uint8_t> names_;
    Array<const std::int64_t> offsets_;
    Shared<MemberGroups> groups_;
    std::size_t taken_ = 0;
};

nb::object data_offsets(const MappedFile &file, nb::handle header) {
    const auto offsets = array_argument<const std::int64_t>(header, "header");
    return array_of(without_lock([&] { return zip_data(file, offsets.data(), offsets.size()); }));
}

}  // namespace

void bind_zip(nb::module_ &module) {
    nb::class_<Shared<ZipDirectory>>(module, "ZipScanner")
        .def("__init__", &make_zip_scanner, nb::arg("size"), nb::arg("shift") = 0)
        .def("feed", &feed<ZipDirectory>, nb::arg("data"), nb::lock_self())
        .def_prop_ro("end", fact_of<ZipDirectory>(&ZipDirectory::end), nb::lock_self())
        .def_prop_ro("need", fact_of<ZipDirectory>(&ZipDirectory::need), nb::lock_self())
        .def_prop_ro("problem", text_of<ZipDirectory>(&ZipDirectory::problem), nb::lock_self())
        .def("take", &take_entries, nb::lock_self());
    nb::class_<Groups>(module, "MemberGroups")
        .def(nb::init<nb::handle, nb::handle>(), nb::arg("names"), nb::arg("offsets"))
        .def("group", &Groups::group, nb::arg("members"), nb::lock_self())
        .def("take_keys", &Groups::take_keys, nb::lock_self())
        .def_prop_ro("extensions", &Groups::extensions, nb::lock_self());
    module.def("zip_data", &data_offsets, nb::arg("file"), nb::arg("header"));
}

}  // namespace bushel
