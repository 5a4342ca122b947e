// Python bindings: TFRecord.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <mutex>

#include "common/python.hpp"
#include "files/crc32c.hpp"
#include "scans/examples.hpp"
#include "scans/tfrecord.hpp"

namespace bushel {

namespace {

template <typename T>
nb::object copy_of(const std::vector<T> &elements) {
    auto *const copy = new T[elements.size()];
    std::copy(elements.begin(), elements.end(), copy);
    return owned_array(copy, elements.size());
}

// TfrecordScan, which threads may share.
class TfrecordScanner {
public:
    TfrecordScanner(bool examples, bool checksums) : scan_(examples, checksums) {}

    std::size_t feed(nb::handle data) {
        const BufferArgument buffer(data);  // first, as it may run code of others
        const nb::gil_scoped_release unlocked;
        const std::lock_guard<std::mutex> alone(mutex_);
        return scan_.feed(buffer.data(), buffer.size());
    }

    const TfrecordScan &scan() const { return scan_; }

    // Return the rows of the records since the last call, and forget them.
    nb::tuple take() {
        const std::lock_guard<std::mutex> alone(mutex_);
        nb::list features;
        int number = 0;
        for (const ExampleFeature &each : scan_.features) {
            if (!each.record.empty()) {
                features.append(nb::make_tuple(number, copy_of(each.record), copy_of(each.count), copy_of(each.offset),
                                               copy_of(each.length), copy_of(each.first), copy_of(each.value_offset),
                                               copy_of(each.value_length)));
            }
            ++number;
        }
        nb::tuple all = nb::make_tuple(copy_of(scan_.offset), copy_of(scan_.length), copy_of(scan_.wrong),
                                       copy_of(scan_.held), features);
        scan_.forget_rows();
        return all;
    }

    // Name, kind, greatest number of values, and whether values were copied.
    nb::list features() const {
        nb::list found;
        for (const ExampleFeature &each : scan_.features)
            found.append(nb::make_tuple(nb::bytes(each.name.data(), each.name.size()), each.kind, each.most, each.copied));
        return found;
    }

private:
    std::mutex mutex_;
    TfrecordScan scan_;
};

// ExampleScan, which threads may share.
class ExampleScanner {
public:
    std::size_t feed(nb::handle data, std::int64_t start) {
        const BufferArgument buffer(data);  // first, as it may run code of others
        const nb::gil_scoped_release unlocked;
        const std::lock_guard<std::mutex> alone(mutex_);
        return scan_.feed(buffer.data(), buffer.size(), start);
    }

    nb::object take() {
        const std::lock_guard<std::mutex> alone(mutex_);
        return copy_of(scan_.take());
    }

    // Name and kind, and the bits of the kinds of values that were taken.
    nb::list features() const {
        nb::list found;
        for (std::size_t i = 0; i < scan_.fields(); ++i) {
            const std::string &name = scan_.name(i);
            const std::uint32_t kinds = i < scan_.known_facts() ? scan_.facts(i).kinds : 0;
            found.append(nb::make_tuple(nb::bytes(name.data(), name.size()), scan_.kind(i), kinds));
        }
        return found;
    }

    const ExampleScan &scan() const { return scan_; }

private:
    std::mutex mutex_;
    ExampleScan scan_;
};

nb::object decode_varints_of(nb::handle data) {
    const BufferArgument buffer(data);
    return copy_of(decode_varints(buffer.data(), buffer.size()));
}

}  // namespace

void bind_tfrecord(nb::module_ &module) {
    nb::class_<TfrecordScanner>(module, "TfrecordScanner")
        .def(nb::init<bool, bool>(), nb::arg("examples") = true, nb::arg("checksums") = false)
        .def("feed", &TfrecordScanner::feed, nb::arg("data"), nb::lock_self())
        .def_prop_ro("end", [](const TfrecordScanner &self) { return self.scan().end; }, nb::lock_self())
        .def_prop_ro("need", [](const TfrecordScanner &self) { return self.scan().need; }, nb::lock_self())
        .def_prop_ro("problem", [](const TfrecordScanner &self) { return optional_text(self.scan().problem); },
                     nb::lock_self())
        .def_prop_ro("other", [](const TfrecordScanner &self) { return self.scan().other; }, nb::lock_self())
        .def_prop_ro("reason", [](const TfrecordScanner &self) { return optional_text(self.scan().reason); },
                     nb::lock_self())
        .def_prop_ro("others", [](const TfrecordScanner &self) { return self.scan().others; }, nb::lock_self())
        .def_prop_ro("rows", [](const TfrecordScanner &self) { return self.scan().rows; }, nb::lock_self())
        .def_prop_ro("features", &TfrecordScanner::features, nb::lock_self())
        .def("take", &TfrecordScanner::take, nb::lock_self());
    nb::class_<ExampleScanner>(module, "ExampleScanner")
        .def(nb::init<>())
        .def("feed", &ExampleScanner::feed, nb::arg("data"), nb::arg("start"), nb::lock_self())
        .def("take", &ExampleScanner::take, nb::lock_self())
        .def_prop_ro("features", &ExampleScanner::features, nb::lock_self())
        .def_prop_ro("full", [](const ExampleScanner &self) { return self.scan().full(); }, nb::lock_self())
        .def_prop_ro("unusual", [](const ExampleScanner &self) { return self.scan().unusual(); }, nb::lock_self())
        .def_prop_ro("need", [](const ExampleScanner &self) { return self.scan().need(); }, nb::lock_self())
        .def_prop_ro("rows", [](const ExampleScanner &self) { return self.scan().rows(); }, nb::lock_self())
        .def_prop_ro("values", [](const ExampleScanner &self) { return self.scan().values(); }, nb::lock_self());
    module.def("decode_varints", &decode_varints_of, nb::arg("data"));
    module.def("crc32c", [](nb::handle data) {
        const BufferArgument buffer(data);
        return crc32c(buffer.data(), buffer.size());
    }, nb::arg("data"));
}

}  // namespace bushel
