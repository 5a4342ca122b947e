// Python bindings: framing many values at once.
#include <cstring>
#include <deque>
#include <memory>
#include <optional>

#include "common/cache.hpp"
#include "common/python.hpp"
#include "files/batch_argument.hpp"
#include "files/crc32.hpp"
#include "framing/framing.hpp"
#include "scans/recordio.hpp"

namespace bushel {

namespace {

// Values from (data, offsets), checked.
class ValuesArgument {
public:
    ValuesArgument(nb::handle data, nb::handle offsets)
        : data_(array_argument<const std::uint8_t>(data, "data")),
          offsets_(array_argument<const std::int64_t>(offsets, "offsets")) {
        if (offsets_.size() == 0) throw nb::value_error("offsets is empty");
        const std::int64_t *at = offsets_.data();
        const std::size_t count = offsets_.size() - 1;
        bool ascending = at[0] >= 0 && static_cast<std::uint64_t>(at[count]) <= data_.size();
        for (std::size_t i = 0; i < count; ++i) ascending = ascending && at[i] <= at[i + 1];
        if (!ascending) throw nb::value_error("offsets must ascend and lie inside data");
        values_.data = data_.data();
        values_.offsets = at;
        values_.count = count;
    }

    const Values &operator*() const { return values_; }
    const Values *operator->() const { return &values_; }

private:
    Array<const std::uint8_t> data_;
    Array<const std::int64_t> offsets_;
    Values values_;
};

// The pieces of one record.
class RecordPieces {
public:
    explicit RecordPieces(nb::handle pieces) {
        const Sequence list(pieces, "pieces: expected a list of bytes-like objects");
        for (std::size_t i = 0; i < list.size(); ++i) {
            pieces_.emplace_back(list[i]);
            total_ += pieces_.back().size();
        }
    }

    std::size_t count() const { return pieces_.size(); }
    const BufferArgument &operator[](std::size_t i) const { return pieces_[i]; }

    // Calls `work`, without the interpreter lock if there is much to do.
    template <typename Work>
    void run(Work work) const {
        if (total_ < static_cast<std::size_t>(keep_lock_below)) return work();
        const nb::gil_scoped_release unlocked;
        work();
    }

private:
    std::deque<BufferArgument> pieces_;
    std::size_t total_ = 0;
};

// The items of a list. Each must be a bytes object, not of a subclass. Python creates bytes objects one after
// another, but lists of them are often shuffled: those that come soon are loaded into the cache.
class BytesItems {
public:
#ifdef NB_FREE_THREADED
    using Item = nb::object;  // another thread may change the list
#else
    using Item = nb::handle;
#endif

    BytesItems(nb::handle list, std::size_t first, std::size_t last) : items_(list.ptr()), last_(last) {
        if (!PyList_CheckExact(items_)) throw nb::type_error("values: expected a list");
        const auto size = static_cast<std::size_t>(PyList_GET_SIZE(items_));
        if (first > last || last > size) throw nb::value_error("the list has fewer values: it has changed");
    }

    // Invalid if the item is something else, or the list has become shorter.
    Item at(std::size_t number) const {
#ifdef NB_FREE_THREADED
        Item item = nb::steal(PyList_GetItemRef(items_, static_cast<Py_ssize_t>(number)));
        if (!item.is_valid()) PyErr_Clear();
#else
        constexpr std::size_t ahead = 8;
        if (number + ahead < last_) {
            const auto *const next = reinterpret_cast<const char *>(PyList_GET_ITEM(items_, number + ahead));
            for (std::size_t line = 0; line < 4; ++line) load_line(next + line * cache_line);
        }
        Item item(PyList_GET_ITEM(items_, number));
#endif
        return item.is_valid() && PyBytes_CheckExact(item.ptr()) ? item : Item();
    }

private:
    PyObject *items_;
    std::size_t last_;
};

nb::object bytes_offsets(nb::handle values) {
    if (!PyList_CheckExact(values.ptr())) throw nb::type_error("values: expected a list");
    const auto count = static_cast<std::size_t>(PyList_GET_SIZE(values.ptr()));
    const BytesItems items(values, 0, count);
    std::vector<std::int64_t> offsets(count + 1);
    for (std::size_t i = 0; i < count; ++i) {
        const BytesItems::Item item = items.at(i);
        if (!item.is_valid()) return nb::none();
        offsets[i + 1] = offsets[i] + PyBytes_GET_SIZE(item.ptr());
    }
    return array_of(std::move(offsets));
}

nb::object join_bytes(nb::handle values, std::size_t first, std::size_t last, std::size_t size) {
    const BytesItems items(values, first, last);
    nb::object joined = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)));
    if (!joined.is_valid()) throw nb::python_error();
    char *const out = PyBytes_AS_STRING(joined.ptr());
    std::size_t at = 0;
    for (std::size_t i = first; i < last; ++i) {
        const BytesItems::Item item = items.at(i);
        const std::size_t length = item.is_valid() ? static_cast<std::size_t>(PyBytes_GET_SIZE(item.ptr())) : 0;
        if (!item.is_valid() || length > size - at) throw nb::value_error("the list has other values: it has changed");
        if (length) std::memcpy(out + at, PyBytes_AS_STRING(item.ptr()), length);
        at += length;
    }
    if (at != size) throw nb::value_error("the list has other values: it has changed");
    return joined;
}

nb::list list_of(const std::vector<std::uint32_t> &sums) {
    nb::list list;
    for (const std::uint32_t sum : sums) list.append(sum);
    return list;
}

nb::object crc32_pieces(nb::handle pieces) {
    constexpr std::size_t small = 1024;  // summed again faster than joined
    const RecordPieces argument(pieces);
    std::vector<std::uint32_t> sums(argument.count());
    std::uint32_t whole = 0;
    argument.run([&] {
        for (std::size_t i = 0; i < sums.size(); ++i) {
            const std::uint8_t *const data = argument[i].data();
            const std::size_t size = argument[i].size();
            sums[i] = crc32(data, size);
            whole = size < small ? crc32(data, size, whole) : join_crc32(whole, sums[i], size);
        }
    });
    return nb::make_tuple(list_of(sums), whole);
}

nb::object recordio_crc32(nb::handle pieces) {
    const RecordPieces argument(pieces);
    std::vector<std::uint32_t> sums(argument.count());
    bool whole = true;
    for (std::size_t i = 0; i + 1 < sums.size(); ++i) whole = whole && argument[i].size() % 4 == 0;
    argument.run([&] {
        for (std::size_t i = 0; whole && i < sums.size(); ++i) {
            const std::optional<std::uint32_t> sum = crc32_unless_magic(argument[i].data(), argument[i].size());
            whole = sum.has_value();
            if (whole) sums[i] = *sum;
        }
    });
    return whole ? nb::object(list_of(sums)) : nb::none();
}

nb::object crc32_rows(nb::handle data, nb::handle offsets) {
    const ValuesArgument values(data, offsets);
    std::vector<std::uint32_t> sums(values->count);
    {
        const nb::gil_scoped_release unlocked;
        for (std::size_t row = 0; row < values->count; ++row) sums[row] = crc32(values->at(row), values->length(row));
    }
    return array_of(std::move(sums));
}

nb::object recordio(nb::handle data, nb::handle offsets) {
    const ValuesArgument values(data, offsets);
    for (std::size_t row = 0; row < values->count; ++row) {
        if (values->length(row) >= std::size_t{1} << 29) throw nb::value_error("a record has 512 MiB or more");
    }
    std::vector<std::uint8_t> split;
    auto framed = without_lock([&] { return frame_recordio(*values, split); });
    return nb::make_tuple(owned_array(framed.bytes.release(), framed.size), array_of(std::move(framed.ends)),
                          array_of(std::move(split)));
}

nb::object contain_magic(nb::handle data, nb::handle offsets) {
    const ValuesArgument values(data, offsets);
    bool *const found = new bool[values->count];
    const nb::object array = owned_array(found, values->count);
    const nb::gil_scoped_release unlocked;
    for (std::size_t row = 0; row < values->count; ++row) found[row] = contains_magic(values->at(row), values->length(row));
    return array;
}

nb::object idx(nb::handle keys, std::int64_t first, nb::handle offsets) {
    const auto starts = array_argument<const std::int64_t>(offsets, "offsets");
    if (first < 0) throw nb::value_error("first must not be negative");
    for (std::size_t row = 0; row < starts.size(); ++row) {
        if (starts.data()[row] < 0) throw nb::value_error("an offset is negative");
    }
    std::unique_ptr<ValuesArgument> texts;
    if (!keys.is_none()) {
        if (!PyTuple_Check(keys.ptr()) || PyTuple_GET_SIZE(keys.ptr()) != 2) {
            throw nb::type_error("keys: expected text and offsets");
        }
        texts.reset(new ValuesArgument(PyTuple_GET_ITEM(keys.ptr(), 0), PyTuple_GET_ITEM(keys.ptr(), 1)));
        if ((*texts)->count != starts.size()) throw nb::value_error("keys and offsets must have the same length");
    }
    Framed framed = frame_idx(texts ? &**texts : nullptr, first, starts.data(), starts.size());
    return nb::make_tuple(owned_array(framed.bytes.release(), framed.size), array_of(std::move(framed.ends)));
}

nb::object tar(nb::handle header, nb::handle keys, nb::handle key_offsets, nb::handle suffixes, nb::handle columns,
               std::size_t longest) {
    const BufferArgument start(header);
    if (start.size() != 512) throw nb::value_error("header: expected 512 bytes");
    const ValuesArgument names(keys, key_offsets);
    std::vector<std::string> endings;
    for (const nb::handle suffix : suffixes) {
        const BufferArgument bytes(suffix);
        endings.emplace_back(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    }
    std::vector<std::unique_ptr<ValuesArgument>> kept;
    std::vector<Values> fields;
    for (const nb::handle column : columns) {
        if (!PyTuple_Check(column.ptr()) || PyTuple_GET_SIZE(column.ptr()) != 2) {
            throw nb::type_error("columns: expected tuples of data and offsets");
        }
        kept.emplace_back(new ValuesArgument(PyTuple_GET_ITEM(column.ptr(), 0), PyTuple_GET_ITEM(column.ptr(), 1)));
        fields.push_back(**kept.back());
        if (fields.back().count != names->count) throw nb::value_error("columns and keys must have the same length");
    }
    if (endings.size() != fields.size()) throw nb::value_error("there must be a suffix for each column");
    for (std::size_t row = 0; row < names->count; ++row) {
        for (std::size_t field = 0; field < fields.size(); ++field) {
            if (names->length(row) + endings[field].size() > 100 || fields[field].length(row) >> 33) {
                raise_value_error("sample " + std::to_string(row) + " does not fit a plain header");
            }
        }
    }
    std::vector<std::int64_t> starts, places;
    auto framed = without_lock([&] {
        return frame_tar(start.data(), *names, endings, fields, longest, starts, places);
    });
    return nb::make_tuple(owned_array(framed.bytes.release(), framed.size), array_of(std::move(framed.ends)),
                          array_of(std::move(starts)), array_of(std::move(places)));
}

}  // namespace

void bind_framing(nb::module_ &module) {
    module.def("crc32_pieces", &crc32_pieces, nb::arg("pieces"));
    module.def("recordio_crc32", &recordio_crc32, nb::arg("pieces"));
    module.def("crc32_rows", &crc32_rows, nb::arg("data"), nb::arg("offsets"));
    module.def("bytes_offsets", &bytes_offsets, nb::arg("values"));
    module.def("join_bytes", &join_bytes, nb::arg("values"), nb::arg("first"), nb::arg("last"), nb::arg("size"));
    module.def("frame_recordio", &recordio, nb::arg("data"), nb::arg("offsets"));
    module.def("contain_magic", &contain_magic, nb::arg("data"), nb::arg("offsets"));
    module.def("frame_idx", &idx, nb::arg("keys").none(), nb::arg("first"), nb::arg("offsets"));
    module.def("frame_tar", &tar, nb::arg("header"), nb::arg("keys"), nb::arg("key_offsets"), nb::arg("suffixes"),
               nb::arg("columns"), nb::arg("longest"));
}

}  // namespace bushel
