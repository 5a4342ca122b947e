// Python bindings: scans of lines of JSON and records of CSV, and of values that follow each other with their lengths.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/python.hpp"
#include "scans/byte_arrays.hpp"
#include "scans/lines.hpp"

namespace bushel {

namespace {

template <typename T>
nb::object copy_of(const std::vector<T> &elements) {
    T *const copy = new T[elements.size()];
    std::copy_n(elements.data(), elements.size(), copy);
    return owned_array(copy, elements.size());
}

// Return the first elements of memory, which is empty without elements.
template <typename T>
nb::object array_of(std::unique_ptr<T[]> memory, std::size_t count) {
    if (!count) memory.reset(new T[0]);
    return owned_array(memory.release(), count);
}

std::vector<std::string> texts(nb::handle names) {
    const nb::object items = sequence_argument(names, "names: expected a sequence of bytes");
    const nb::handle list = items;
    std::vector<std::string> found;
    for (const nb::handle each : list) {
        const BufferArgument buffer(each);
        found.emplace_back(reinterpret_cast<const char *>(buffer.data()), buffer.size());
    }
    return found;
}

// A scan of lines, which threads may share.
class LineScanner {
public:
    LineScanner(nb::handle names, std::uint8_t delimiter, bool closed, std::int64_t most_names)
        : scan_(texts(names), delimiter, closed, static_cast<std::size_t>(std::max<std::int64_t>(most_names, 0))) {}

    std::size_t feed(nb::handle data, std::int64_t start, bool last) {
        const BufferArgument buffer(data);
        const nb::gil_scoped_release unlocked;
        const std::lock_guard<std::mutex> alone(mutex_);
        return scan_.feed(buffer.data(), buffer.size(), start, last);
    }

    nb::object values(std::int64_t field) {
        const std::lock_guard<std::mutex> alone(mutex_);
        FieldValues &own = values_of(field);
        const FieldFacts facts = facts_of(own);
        const std::int32_t first = own.first();
        const std::size_t size = own.size();
        FieldValues::Released memory = own.release();
        return nb::make_tuple(first, array_of(std::move(memory.offset), size), array_of(std::move(memory.length), size),
                              array_of(std::move(memory.kind), size),
                              array_of(std::move(memory.number), facts.has_numbers() ? size : 0), facts.kinds,
                              facts.least, facts.most);
    }

    void include_quotes(std::int64_t field) {
        const std::lock_guard<std::mutex> alone(mutex_);
        values_of(field).include_quotes();
    }

    void clear() {
        const std::lock_guard<std::mutex> alone(mutex_);
        scan_.clear();
    }

    bool full() {
        const std::lock_guard<std::mutex> alone(mutex_);
        return scan_.full();
    }

    nb::object names() {
        const std::lock_guard<std::mutex> alone(mutex_);
        nb::list found;
        for (const std::string &each : scan_.names()) found.append(nb::bytes(each.data(), each.size()));
        return found;
    }

    std::int64_t rows() {
        const std::lock_guard<std::mutex> alone(mutex_);
        return scan_.rows();
    }

    std::int64_t lines() {
        const std::lock_guard<std::mutex> alone(mutex_);
        return scan_.lines();
    }

    nb::object problem() {
        const std::lock_guard<std::mutex> alone(mutex_);
        return optional_text(scan_.problem());
    }

    std::int64_t problem_offset() {
        const std::lock_guard<std::mutex> alone(mutex_);
        return scan_.problem_offset();
    }

private:
    FieldValues &values_of(std::int64_t field) {
        if (field < 0 || static_cast<std::size_t>(field) >= scan_.names().size()) throw nb::index_error("no such field");
        return scan_.values(static_cast<std::size_t>(field));
    }

    std::mutex mutex_;
    LineScan scan_;
};

nb::object csv_record(nb::handle data, std::uint8_t delimiter, bool last, std::int64_t most) {
    const BufferArgument buffer(data);
    const auto limit = static_cast<std::size_t>(std::max<std::int64_t>(most, 0));
    CsvRecord record;
    {
        const nb::gil_scoped_release unlocked;
        record = first_csv_record(buffer.data(), buffer.size(), delimiter, last, limit);
    }
    return nb::make_tuple(copy_of(record.offset), copy_of(record.length), copy_of(record.kind), record.end);
}

nb::object scan_byte_arrays(nb::handle data, std::int64_t count) {
    const BufferArgument buffer(data);
    ByteArrays found;
    {
        const nb::gil_scoped_release unlocked;
        found = find_byte_arrays(buffer.data(), buffer.size(), count);
    }
    return nb::make_tuple(copy_of(found.offset), copy_of(found.length));
}

}  // namespace

void bind_lines(nb::module_ &module) {
    nb::class_<LineScanner>(module, "LineScanner")
        .def(nb::init<nb::handle, std::uint8_t, bool, std::int64_t>(), nb::arg("names"), nb::arg("delimiter") = 0,
             nb::arg("closed") = false, nb::arg("most_names") = 10000)
        .def("feed", &LineScanner::feed, nb::arg("data"), nb::arg("start"), nb::arg("last"))
        .def("values", &LineScanner::values, nb::arg("field"))
        .def("include_quotes", &LineScanner::include_quotes, nb::arg("field"))
        .def("clear", &LineScanner::clear)
        .def_prop_ro("full", &LineScanner::full)
        .def_prop_ro("names", &LineScanner::names)
        .def_prop_ro("rows", &LineScanner::rows)
        .def_prop_ro("lines", &LineScanner::lines)
        .def_prop_ro("problem", &LineScanner::problem)
        .def_prop_ro("problem_offset", &LineScanner::problem_offset);
    module.def("csv_record", &csv_record, nb::arg("data"), nb::arg("delimiter"), nb::arg("last"), nb::arg("most"));
    module.def("scan_byte_arrays", &scan_byte_arrays, nb::arg("data"), nb::arg("count"));
}

}  // namespace bushel
