// Python bindings: the scan of the chunks of ArrayRecord files.
#include "common/python.hpp"
#include "scans/riegeli.hpp"

namespace bushel {

namespace {

RiegeliChunks scan_riegeli_of(const MappedFile &file, std::int64_t position, std::int64_t end, std::int64_t most) {
    if (position < 0 || most < 0) throw nb::value_error("position and most must not be negative");
    FileByteSource source(file);
    const nb::gil_scoped_release unlocked;
    return scan_riegeli(source, position, end, static_cast<std::size_t>(most));
}

}  // namespace

void bind_riegeli(nb::module_ &module) {
    nb::class_<RiegeliChunks>(module, "RiegeliChunks")
        .def_prop_ro("start", column(&RiegeliChunks::start))
        .def_prop_ro("length", column(&RiegeliChunks::length))
        .def_prop_ro("records", column(&RiegeliChunks::records))
        .def_prop_ro("expanded", column(&RiegeliChunks::expanded))
        .def_prop_ro("sizes", column(&RiegeliChunks::sizes))
        .def_prop_ro("values", column(&RiegeliChunks::values))
        .def_prop_ro("compression", column(&RiegeliChunks::compression))
        .def_ro("end", &RiegeliChunks::end);
    module.def("scan_riegeli", &scan_riegeli_of, nb::arg("file"), nb::arg("position"), nb::arg("end"), nb::arg("most"));
}

}  // namespace bushel
