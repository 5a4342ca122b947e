// Python bindings: TFRecord.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <mutex>

#include "common/python.hpp"
#include "files/crc32c.hpp"
#include "scans/tfrecord.hpp"

namespace bushel {

namespace {

// TfrecordScan, which threads may share.
class TfrecordScanner {
public:
    TfrecordScanner(bool examples, bool checksums) : scan_(examples, checksums) {}

    std::size_t feed(nb::handle data) {
        const BufferArgument buffer(data);  // first, as it may run code of others
        if (finished_) throw nb::value_error("the scan is over: an array was asked for");
        const nb::gil_scoped_release unlocked;
        const std::lock_guard<std::mutex> alone(mutex_);
        return scan_.feed(buffer.data(), buffer.size());
    }

    const TfrecordScan &scan() const { return scan_; }

    // The arrays are views from now on, so nothing may be added.
    nb::object features(nb::handle self) {
        finished_ = true;
        nb::list found;
        for (const ExampleFeature &each : scan_.features) {
            found.append(nb::make_tuple(nb::bytes(each.name.data(), each.name.size()), each.kind,
                                        view_of(each.record, self), view_of(each.count, self),
                                        view_of(each.offset, self), view_of(each.length, self),
                                        view_of(each.first, self), view_of(each.value_offset, self),
                                        view_of(each.value_length, self)));
        }
        return found;
    }

    template <typename T>
    nb::object view(std::vector<T> TfrecordScan::*field, nb::handle self) {
        finished_ = true;
        return view_of(scan_.*field, self);
    }

private:
    std::mutex mutex_;
    TfrecordScan scan_;
    bool finished_ = false;
};

template <typename T>
auto column(std::vector<T> TfrecordScan::*field) {
    return [field](nb::handle self) { return nb::inst_ptr<TfrecordScanner>(self)->view(field, self); };
}

nb::object decode_varints_of(nb::handle data) {
    const BufferArgument buffer(data);
    const std::vector<std::int64_t> values = decode_varints(buffer.data(), buffer.size());
    auto *const copy = new std::int64_t[values.size()];
    std::copy(values.begin(), values.end(), copy);
    return owned_array(copy, values.size());
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
        .def_prop_ro("offset", column(&TfrecordScan::offset), nb::lock_self())
        .def_prop_ro("length", column(&TfrecordScan::length), nb::lock_self())
        .def_prop_ro("wrong", column(&TfrecordScan::wrong), nb::lock_self())
        .def_prop_ro("held", column(&TfrecordScan::held), nb::lock_self())
        .def_prop_ro(
            "features", [](nb::handle self) { return nb::inst_ptr<TfrecordScanner>(self)->features(self); },
            nb::lock_self());
    module.def("decode_varints", &decode_varints_of, nb::arg("data"));
    module.def("crc32c", [](nb::handle data) {
        const BufferArgument buffer(data);
        return crc32c(buffer.data(), buffer.size());
    }, nb::arg("data"));
}

}  // namespace bushel
