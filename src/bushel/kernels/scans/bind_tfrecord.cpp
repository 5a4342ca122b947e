// Python bindings: TFRecord.
#include "common/shared.hpp"
#include "files/crc32c.hpp"
#include "scans/examples.hpp"
#include "scans/tfrecord.hpp"

namespace bushel {

namespace {

// Return the rows of the records since the last call, and forget them.
nb::tuple take_rows(TfrecordScan &scan) {
    nb::list features;
    int number = 0;
    for (const ExampleFeature &feature : scan.features) {
        if (!feature.record.empty()) {
            features.append(nb::make_tuple(number, copy_of(feature.record), copy_of(feature.count),
                                           copy_of(feature.offset), copy_of(feature.length), copy_of(feature.first),
                                           copy_of(feature.value_offset), copy_of(feature.value_length)));
        }
        ++number;
    }
    nb::tuple rows = nb::make_tuple(copy_of(scan.offset), copy_of(scan.length), copy_of(scan.wrong),
                                    copy_of(scan.held), features);
    scan.forget_rows();
    return rows;
}

// Name, kind, greatest number of values, and whether values were copied.
nb::list features_of_records(const TfrecordScan &scan) {
    nb::list features;
    for (const ExampleFeature &feature : scan.features)
        features.append(nb::make_tuple(bytes_of(feature.name), feature.kind, feature.most, feature.copied));
    return features;
}

// Name and kind, and the bits of the kinds of values that were taken.
nb::list features_of_examples(const ExampleScan &scan) {
    nb::list features;
    for (std::size_t i = 0; i < scan.fields(); ++i) {
        const std::uint32_t kinds = i < scan.known_facts() ? scan.facts(i).kinds : 0;
        features.append(nb::make_tuple(bytes_of(scan.name(i)), scan.kind(i), kinds));
    }
    return features;
}

}  // namespace

void bind_tfrecord(nb::module_ &module) {
    nb::class_<Shared<TfrecordScan>>(module, "TfrecordScanner")
        .def(nb::init<bool, bool>(), nb::arg("examples") = true, nb::arg("checksums") = false)
        .def("feed", &feed<TfrecordScan>, nb::arg("data"), nb::lock_self())
        .def_prop_ro("end", fact_of<TfrecordScan>(&TfrecordScan::end), nb::lock_self())
        .def_prop_ro("need", fact_of<TfrecordScan>(&TfrecordScan::need), nb::lock_self())
        .def_prop_ro("problem", text_of<TfrecordScan>(&TfrecordScan::problem), nb::lock_self())
        .def_prop_ro("other", fact_of<TfrecordScan>(&TfrecordScan::other), nb::lock_self())
        .def_prop_ro("reason", text_of<TfrecordScan>(&TfrecordScan::reason), nb::lock_self())
        .def_prop_ro("others", fact_of<TfrecordScan>(&TfrecordScan::others), nb::lock_self())
        .def_prop_ro("rows", fact_of<TfrecordScan>(&TfrecordScan::rows), nb::lock_self())
        .def_prop_ro("features", fact_of<TfrecordScan>(&features_of_records), nb::lock_self())
        .def("take", fact_of<TfrecordScan>(&take_rows), nb::lock_self());
    nb::class_<Shared<ExampleScan>>(module, "ExampleScanner")
        .def(nb::init<>())
        .def("feed", &feed<ExampleScan, std::int64_t>, nb::arg("data"), nb::arg("start"), nb::lock_self())
        .def("take",
             [](Shared<ExampleScan> &self) { return self.with([](ExampleScan &scan) { return copy_of(scan.take()); }); },
             nb::lock_self())
        .def_prop_ro("features", fact_of<ExampleScan>(&features_of_examples), nb::lock_self())
        .def_prop_ro("full", fact_of<ExampleScan>(&ExampleScan::full), nb::lock_self())
        .def_prop_ro("unusual", fact_of<ExampleScan>(&ExampleScan::unusual), nb::lock_self())
        .def_prop_ro("need", fact_of<ExampleScan>(&ExampleScan::need), nb::lock_self())
        .def_prop_ro("rows", fact_of<ExampleScan>(&ExampleScan::rows), nb::lock_self())
        .def_prop_ro("values", fact_of<ExampleScan>(&ExampleScan::values), nb::lock_self());
    module.def("decode_varints", [](nb::handle data) {
        const BufferArgument buffer(data);
        return copy_of(decode_varints(buffer.data(), buffer.size()));
    }, nb::arg("data"));
    module.def("crc32c", [](nb::handle data) {
        const BufferArgument buffer(data);
        return crc32c(buffer.data(), buffer.size());
    }, nb::arg("data"));
}

}  // namespace bushel
