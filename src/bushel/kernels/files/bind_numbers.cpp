// Python bindings: gathering numbers.
#include <algorithm>
#include <memory>
#include <string_view>

#include "common/python.hpp"
#include "files/crc32.hpp"
#include "files/numbers.hpp"

namespace bushel {

namespace {

NumberKind kind_argument(nb::handle name) {
    constexpr std::string_view names[] = {"bytes", "signed", "unsigned", "real", "whole-real", "decimal"};
    Py_ssize_t length = 0;
    const char *const text = PyUnicode_AsUTF8AndSize(name.ptr(), &length);
    if (!text) throw nb::python_error();
    for (std::size_t i = 0; i < std::size(names); ++i) {
        if (names[i] == std::string_view(text, static_cast<std::size_t>(length))) return static_cast<NumberKind>(i);
    }
    raise_value_error(std::string("kind ") + text + " is unknown");
}

class Forms {
public:
    explicit Forms(nb::handle headers) {
        if (!PyDict_Check(headers.ptr())) throw nb::type_error("headers: expected a dict of lengths to bytes");
        const nb::ft_object_guard unchanged(headers);
        PyObject *length, *header;
        Py_ssize_t at = 0;
        while (PyDict_Next(headers.ptr(), &at, &length, &header)) {
            const long long stored = PyLong_AsLongLong(length);
            if (stored == -1 && PyErr_Occurred()) throw nb::python_error();
            if (!PyBytes_Check(header)) throw nb::type_error("headers: expected a dict of lengths to bytes");
            const Py_ssize_t size = PyBytes_GET_SIZE(header);
            if (stored < size) throw nb::value_error("headers: a header is longer than the stored value");
            const char *const data = PyBytes_AS_STRING(header);
            forms[stored] = {std::string(data, static_cast<std::size_t>(size)),
                             crc32(reinterpret_cast<const std::uint8_t *>(data), static_cast<std::size_t>(size))};
        }
    }

    NumberForms forms;
};

// An array or buffer to write to, as bytes.
class WritableArgument {
public:
    explicit WritableArgument(nb::handle object) {
        if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) != 0) {
            throw nb::python_error();
        }
    }
    ~WritableArgument() {
        if (view_.obj) PyBuffer_Release(&view_);
    }
    WritableArgument(WritableArgument &&other) noexcept : view_(other.view_) { other.view_.obj = nullptr; }
    WritableArgument(const WritableArgument &) = delete;
    WritableArgument &operator=(const WritableArgument &) = delete;

    std::uint8_t *data() const { return static_cast<std::uint8_t *>(view_.buf); }
    std::int64_t size() const { return view_.len; }

private:
    Py_buffer view_;
};

using Samples = Array<const std::int64_t>;

class Table {
public:
    Table(nb::handle shards, std::size_t columns) : columns_(columns) {
        const Sequence list(shards, "shards: expected a list");
        for (std::size_t i = 0; i < list.size(); ++i) add(list[i]);
    }

    nb::object gather(nb::handle samples, nb::handle targets) const {
        const auto chosen = array_argument<const std::int64_t>(samples, "samples");
        const Sequence list(targets, "targets: expected a list");
        if (list.size() != columns_) {
            throw nb::value_error("targets: expected the arrays of each column");
        }
        std::vector<WritableArgument> kept;
        std::vector<NumberTargets> rows;
        std::vector<bool> wanted;
        for (std::size_t i = 0; i < list.size(); ++i) {
            const nb::handle arrays = list[i];
            rows.push_back(arrays.is_none() ? NumberTargets() : dense(arrays, chosen.size(), kept));
            wanted.push_back(!arrays.is_none());
        }
        std::vector<std::vector<std::int64_t>> bad(columns_);
        bool waited = false;
        {
            const nb::gil_scoped_release unlocked;
            for (std::size_t i = 0; i < columns_; ++i) {
                if (!wanted[i]) continue;
                waited |= gather_numbers(shards_, i, chosen.data(), chosen.size(), rows[i], bad[i]);
            }
        }
        nb::list places;
        for (std::vector<std::int64_t> &rows_of_column : bad) places.append(places_of(rows_of_column));
        return nb::make_tuple(places, waited);
    }

    nb::object gather_rows(std::size_t column, nb::handle samples, nb::handle out, nb::handle offsets,
                           nb::handle fill, nb::handle skip) const {
        check_column(column);
        const auto chosen = array_argument<const std::int64_t>(samples, "samples");
        const auto starts = array_argument<const std::int64_t>(offsets, "offsets");
        const WritableArgument buffer(out);
        if (starts.size() != chosen.size() + 1) throw nb::value_error("offsets: expected one more than samples");
        NumberTargets targets;
        if (!fill.is_none()) {
            char *data;
            Py_ssize_t size;
            if (PyBytes_AsStringAndSize(fill.ptr(), &data, &size) != 0) throw nb::python_error();
            targets.fill.assign(data, static_cast<std::size_t>(size));
        }
        if (!skip.is_none()) {
            const auto before = array_argument<const std::int64_t>(skip, "skip");
            if (before.size() != chosen.size() || !fill.is_none()) {
                throw nb::value_error("skip: expected as many as samples, and no fill");
            }
            if (std::any_of(before.data(), before.data() + before.size(), [](std::int64_t size) { return size < 0; })) {
                throw nb::value_error("skip: expected 0 or more");
            }
            targets.skip.assign(before.data(), before.data() + before.size());
        }
        for (std::size_t i = 0; i < chosen.size(); ++i) {
            const std::int64_t begin = starts.data()[i], end = starts.data()[i + 1];
            if (begin < 0 || end < begin || end > buffer.size()) {
                throw nb::value_error("offsets: expected ascending offsets inside out");
            }
            targets.out.push_back(buffer.data() + begin);
            targets.room.push_back(end - begin);
        }
        std::vector<std::int64_t> bad;
        const bool waited = without_lock([&] {
            return gather_numbers(shards_, column, chosen.data(), chosen.size(), targets, bad);
        });
        return nb::make_tuple(places_of(bad), waited);
    }

    nb::object measure(std::size_t column, nb::handle samples) const {
        check_column(column);
        const auto chosen = array_argument<const std::int64_t>(samples, "samples");
        std::unique_ptr<std::int64_t[]> sizes(new std::int64_t[chosen.size()]);
        measure_numbers(shards_, column, chosen.data(), chosen.size(), sizes.get());
        return owned_array(sizes.release(), chosen.size());
    }

    void prefetch(nb::handle samples) const {
        const auto chosen = array_argument<const std::int64_t>(samples, "samples");
        const nb::gil_scoped_release unlocked;
        for (std::size_t i = 0; i < columns_; ++i) prefetch_numbers(shards_, i, chosen.data(), chosen.size());
    }

private:
    void add(nb::handle shard) {
        const Sequence parts(shard, "shards: expected tuples of first, samples and columns");
        if (parts.size() != 3) throw nb::type_error("shards: expected tuples of first, samples and columns");
        NumberShard added;
        added.first = nb::cast<std::int64_t>(parts[0]);
        added.samples = nb::cast<std::int64_t>(parts[1]);
        const std::int64_t end = shards_.empty() ? 0 : shards_.back().first + shards_.back().samples;
        if (added.samples < 0 || added.first < end || added.first > (std::int64_t{1} << 62) - added.samples) {
            throw nb::value_error("shards: expected ascending shards that do not overlap");
        }
        const Sequence columns(parts[2], "shards: expected a list of columns");
        if (columns.size() != columns_) {
            throw nb::value_error("shards: expected the same number of columns in each");
        }
        for (std::size_t i = 0; i < columns.size(); ++i) {
            added.columns.push_back(column(columns[i], static_cast<std::size_t>(added.samples)));
        }
        shards_.push_back(std::move(added));
    }

    NumberColumn column(nb::handle object, std::size_t samples) {
        const Sequence parts(object, "columns: expected tuples");
        if (parts.size() != 6) {
            throw nb::type_error("columns: expected tuples of file, offset, length, crc32, kind and forms");
        }
        NumberColumn values;
        if (!nb::isinstance<MappedFile>(parts[0])) throw nb::type_error("columns: expected a MappedFile");
        values.file = nb::inst_ptr<MappedFile>(parts[0]);
        const auto offset = array_argument<const std::int64_t>(parts[1], "offset");
        const auto length = array_argument<const std::int64_t>(parts[2], "length");
        if (offset.size() != samples || length.size() != samples) {
            throw nb::value_error("columns: offset and length must have an element per sample");
        }
        values.offset = offset.data();
        values.length = length.data();
        if (!parts[3].is_none()) {
            const auto crc = array_argument<const std::uint32_t>(parts[3], "crc32");
            if (crc.size() != samples) throw nb::value_error("columns: crc32 must have an element per sample");
            values.crc = crc.data();
        }
        values.kind = kind_argument(parts[4]);
        if (!parts[5].is_none()) {
            if (!nb::isinstance<Forms>(parts[5])) throw nb::type_error("columns: expected NumberForms");
            values.forms = &nb::inst_ptr<Forms>(parts[5])->forms;
        }
        for (std::size_t i = 0; i < parts.size(); ++i) kept_.push_back(nb::borrow(parts[i]));
        return values;
    }

    // The rows of a list of arrays, which all have the same size.
    static NumberTargets dense(nb::handle arrays, std::size_t count, std::vector<WritableArgument> &kept) {
        const Sequence list(arrays, "targets: expected a list of arrays of each column");
        const std::size_t first = kept.size();
        std::int64_t total = 0;
        for (std::size_t i = 0; i < list.size(); ++i) {
            kept.emplace_back(list[i]);
            total += kept.back().size();
        }
        NumberTargets targets;
        const auto rows = static_cast<std::int64_t>(count);
        if (!rows) return targets;
        const std::int64_t room = total / rows;
        targets.room.assign(count, room);
        for (std::size_t i = first; room && i < kept.size(); ++i) {
            if (kept[i].size() % room) throw nb::value_error("targets: expected arrays of whole rows");
            for (std::int64_t at = 0; at < kept[i].size(); at += room) targets.out.push_back(kept[i].data() + at);
        }
        if (targets.out.size() != count) throw nb::value_error("targets: expected a row for each sample");
        return targets;
    }

    static nb::object places_of(std::vector<std::int64_t> &bad) {
        if (bad.empty()) return nb::none();
        return array_of(std::move(bad));
    }

    void check_column(std::size_t column) const {
        if (column >= columns_) throw nb::index_error("column is out of range");
    }

    std::size_t columns_;
    NumberShards shards_;
    std::vector<nb::object> kept_;  // files, arrays and forms
};

// Decode the numbers of stored values in memory, one after another. Return the rows of other values; None if all
// are numbers.
nb::object decode_numbers(nb::handle data, nb::handle length, nb::handle kind, nb::handle forms, nb::handle out) {
    constexpr std::size_t number_size = 8;
    const BufferArgument stored(data);
    const auto lengths = array_argument<const std::int64_t>(length, "length");
    const WritableArgument target(out);
    if (static_cast<std::size_t>(target.size()) != number_size * lengths.size()) {
        throw nb::value_error("out: expected 8 bytes for each value");
    }
    NumberColumn column;
    column.kind = kind_argument(kind);
    if (!forms.is_none()) {
        if (!nb::isinstance<Forms>(forms)) throw nb::type_error("forms: expected NumberForms");
        column.forms = &nb::inst_ptr<Forms>(forms)->forms;
    }
    std::vector<std::int64_t> bad;
    std::size_t at = 0;
    for (std::size_t row = 0; row < lengths.size(); ++row) {
        const std::int64_t size = lengths.data()[row];
        if (size < -1 || (size > 0 && static_cast<std::uint64_t>(size) > stored.size() - at)) {
            throw nb::value_error("length: the values do not fit into the data");
        }
        std::uint8_t *const place = target.data() + number_size * row;
        if (!decode_number(column, stored.data() + at, size, place)) bad.push_back(static_cast<std::int64_t>(row));
        if (size > 0) at += static_cast<std::size_t>(size);
    }
    if (bad.empty()) return nb::none();
    return array_of(std::move(bad));
}

}  // namespace

void bind_numbers(nb::module_ &module) {
    nb::class_<Forms>(module, "NumberForms").def(nb::init<nb::handle>(), nb::arg("headers"));
    module.def("decode_numbers", &decode_numbers, nb::arg("data"), nb::arg("length"), nb::arg("kind"),
               nb::arg("forms").none(), nb::arg("out"));
    nb::class_<Table>(module, "NumberTable")
        .def(nb::init<nb::handle, std::size_t>(), nb::arg("shards"), nb::arg("columns"))
        .def("gather", &Table::gather, nb::arg("samples"), nb::arg("targets"))
        .def("gather_rows", &Table::gather_rows, nb::arg("column"), nb::arg("samples"), nb::arg("out"),
             nb::arg("offsets"), nb::arg("fill").none(), nb::arg("skip") = nb::none())
        .def("measure", &Table::measure, nb::arg("column"), nb::arg("samples"))
        .def("prefetch", &Table::prefetch, nb::arg("samples"));
}

}  // namespace bushel
