// Python bindings: scans of lines of JSON and records of CSV.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/shared.hpp"
#include "scans/line_blocks.hpp"
#include "scans/line_rows.hpp"
#include "scans/lines.hpp"

namespace bushel {

namespace {

std::vector<std::string> names_argument(nb::handle names) {
    const Sequence items(names, "names: expected a sequence of bytes");
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < items.size(); ++i) {
        const BufferArgument buffer(items[i]);
        texts.emplace_back(reinterpret_cast<const char *>(buffer.data()), buffer.size());
    }
    return texts;
}

void make_line_scanner(Shared<LineScan> *self, nb::handle names, std::uint8_t delimiter, bool closed,
                       std::int64_t most_names) {
    const auto most = static_cast<std::size_t>(std::max<std::int64_t>(most_names, 0));
    new (self) Shared<LineScan>(names_argument(names), delimiter, closed, most);
}

nb::object facts(Shared<LineScan> &self, std::int64_t field) {
    const FieldFacts facts = self.with([field](LineScan &scan) {
        if (field < 0 || static_cast<std::size_t>(field) >= scan.known_facts()) throw nb::index_error("no such field");
        return scan.facts(static_cast<std::size_t>(field));
    });
    return nb::make_tuple(facts.kinds, facts.negative, facts.inexact);
}

// Blocks of lines, whose memory is an array.
class LineBlockReader {
public:
    LineBlockReader(nb::handle data, nb::handle at, nb::handle first)
        : data_(array_argument<const std::uint8_t>(data, "data")), at_(array_argument<const std::int64_t>(at, "at")),
          first_(array_argument<const std::int64_t>(first, "first")), blocks_(made()) {}

    std::int64_t samples() const { return blocks_.samples(); }

    const LineBlocks &operator*() const { return blocks_; }

private:
    LineBlocks made() const {
        if (!first_.size() || first_.size() != at_.size()) throw std::invalid_argument("the arrays of blocks of lines do not fit");
        return LineBlocks(data_.data(), data_.size(), at_.data(), first_.data(), first_.size() - 1);
    }

    Array<const std::uint8_t> data_;
    Array<const std::int64_t> at_, first_;
    LineBlocks blocks_;
};

// A part of the values of a field.
class LineColumn {
public:
    LineColumn(nb::handle blocks, std::size_t field, const std::string &part, bool quotes)
        : kept_(nb::borrow(blocks)), blocks_(**nb::cast<const LineBlockReader *>(blocks)), field_(field),
          part_(part_of(part)), quotes_(quotes), rows_(blocks_, field, part_, quotes) {}

    nb::object read(std::int64_t row, std::int64_t count) const {
        if (count < 0 || count > blocks_.samples()) throw nb::index_error("samples that do not exist");
        std::unique_ptr<std::int64_t[]> out(new std::int64_t[static_cast<std::size_t>(count)]);
        without_lock([&] { blocks_.read(field_, part_, quotes_, row, static_cast<std::size_t>(count), out.get()); });
        return result(std::move(out), static_cast<std::size_t>(count));
    }

    void write(nb::handle rows, nb::handle out) const {
        const auto samples = array_argument<const std::int64_t>(rows, "rows");
        const auto values = array_argument<std::int64_t>(out, "out");
        if (values.size() != samples.size()) throw nb::value_error("rows and out must have the same length");
        rows_.take(samples.data(), samples.size(), values.data());
    }

    nb::object take(nb::handle rows) const {
        const auto samples = array_argument<const std::int64_t>(rows, "rows");
        std::unique_ptr<std::int64_t[]> out(new std::int64_t[samples.size()]);
        rows_.take(samples.data(), samples.size(), out.get());
        return result(std::move(out), samples.size());
    }

    nb::object extents(nb::handle rows) const {
        const auto samples = array_argument<const std::int64_t>(rows, "rows");
        const std::size_t count = samples.size();
        std::unique_ptr<std::int64_t[]> offset(new std::int64_t[count]), length(new std::int64_t[count]);
        rows_.extents(samples.data(), count, offset.get(), length.get());
        return nb::make_tuple(owned_array(offset.release(), count), owned_array(length.release(), count));
    }

    nb::object item(std::int64_t row) const {
        std::int64_t values;
        rows_.take(&row, 1, &values);
        if (part_ != LinePart::real) return nb::int_(values);
        double real;
        std::memcpy(&real, &values, sizeof real);
        return nb::float_(real);
    }

private:
    static LinePart part_of(const std::string &name) {
        if (name == "offset") return LinePart::offset;
        if (name == "length") return LinePart::length;
        if (name == "kind") return LinePart::kind;
        if (name == "number") return LinePart::number;
        if (name == "real") return LinePart::real;
        throw nb::value_error("part: expected offset, length, kind, number or real");
    }

    nb::object result(std::unique_ptr<std::int64_t[]> out, std::size_t count) const {
        if (part_ != LinePart::real) return owned_array(out.release(), count);
        std::int64_t *const bits = out.release();
        const nb::capsule owner(bits, [](void *memory) noexcept { delete[] static_cast<std::int64_t *>(memory); });
        return nb::cast(nb::ndarray<nb::numpy, double, nb::ndim<1>>(reinterpret_cast<double *>(bits), {count}, owner));
    }

    nb::object kept_;
    const LineBlocks &blocks_;
    std::size_t field_;
    LinePart part_;
    bool quotes_;
    LineRows rows_;
};

nb::object csv_record(nb::handle data, std::uint8_t delimiter, bool last, std::int64_t most) {
    const BufferArgument buffer(data);
    const auto limit = static_cast<std::size_t>(std::max<std::int64_t>(most, 0));
    auto record = without_lock([&] { return first_csv_record(buffer.data(), buffer.size(), delimiter, last, limit); });
    return nb::make_tuple(copy_of(record.offset), copy_of(record.length), copy_of(record.kind), record.end);
}

}  // namespace

void bind_lines(nb::module_ &module) {
    nb::class_<Shared<LineScan>>(module, "LineScanner")
        .def("__init__", &make_line_scanner, nb::arg("names"), nb::arg("delimiter") = 0, nb::arg("closed") = false,
             nb::arg("most_names") = 10000)
        .def("feed", &feed<LineScan, std::int64_t, bool>, nb::arg("data"), nb::arg("start"), nb::arg("last"))
        .def("take",
             [](Shared<LineScan> &self) { return self.with([](LineScan &scan) { return copy_of(scan.take()); }); })
        .def("facts", &facts, nb::arg("field"))
        .def_prop_ro("full", fact_of<LineScan>(&LineScan::full))
        .def_prop_ro("names",
                     [](Shared<LineScan> &self) {
                         return list_of_bytes(self.with([](LineScan &scan) { return scan.names(); }));
                     })
        .def_prop_ro("rows", fact_of<LineScan>(&LineScan::rows))
        .def_prop_ro("lines", fact_of<LineScan>(&LineScan::lines))
        .def_prop_ro("problem", text_of<LineScan>(&LineScan::problem))
        .def_prop_ro("problem_offset", fact_of<LineScan>(&LineScan::problem_offset));
    nb::class_<LineBlockReader>(module, "LineBlocks")
        .def(nb::init<nb::handle, nb::handle, nb::handle>(), nb::arg("data"), nb::arg("at"), nb::arg("first"))
        .def_prop_ro("samples", &LineBlockReader::samples);
    nb::class_<LineColumn>(module, "LineColumn")
        .def(nb::init<nb::handle, std::size_t, const std::string &, bool>(), nb::arg("blocks"), nb::arg("field"),
             nb::arg("part"), nb::arg("quotes"))
        .def("read", &LineColumn::read, nb::arg("row"), nb::arg("count"))
        .def("write", &LineColumn::write, nb::arg("rows"), nb::arg("out"))
        .def("take", &LineColumn::take, nb::arg("rows"))
        .def("extents", &LineColumn::extents, nb::arg("rows"))
        .def("item", &LineColumn::item, nb::arg("row"));
    module.def("csv_record", &csv_record, nb::arg("data"), nb::arg("delimiter"), nb::arg("last"), nb::arg("most"));
}

}  // namespace bushel
