// Python bindings: reading a batch of samples, as dicts of their keys and stored bytes.
#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>

#include "common/cache.hpp"
#include "common/memory.hpp"
#include "files/batch_argument.hpp"
#include "files/key_argument.hpp"

namespace bushel {

namespace {

// A batch of at most this many bytes is loaded into the cache while its samples are made.
constexpr std::int64_t cache_size = 256 * 1024;

// One field: its name, and where its values are.
struct FieldArgument {
    explicit FieldArgument(nb::handle object) {
        PyObject *parts[5];
        if (!PyTuple_Check(object.ptr()) || PyTuple_GET_SIZE(object.ptr()) != 5) {
            throw nb::type_error("fields: expected tuples of name, file, offset, length and crc32");
        }
        for (Py_ssize_t i = 0; i < 5; ++i) parts[i] = PyTuple_GET_ITEM(object.ptr(), i);
        if (!PyUnicode_Check(parts[0])) throw nb::type_error("fields: a name is not a str");
        name = nb::borrow(parts[0]);
        if (PyLong_Check(parts[1])) {
            const Py_ssize_t wide = file_number(parts[1]);
            number = wide == static_cast<std::int32_t>(wide) ? static_cast<std::int32_t>(wide) : -1;
        } else {
            file = array_argument<const std::int32_t>(parts[1], "file");
            has_file = true;
        }
        offset = array_argument<const std::int64_t>(parts[2], "offset");
        if (!nb::try_cast(nb::handle(parts[3]), length, false)) {
            throw nb::type_error("length: expected a one-dimensional int64 array");
        }
        step = length.stride(0);
        has_crc = parts[4] != Py_None;
        if (has_crc) crc = array_argument<const std::uint32_t>(parts[4], "crc32");
        const std::size_t rows = offset.size();
        if (length.shape(0) != rows || (has_crc && crc.size() != rows) || (has_file && file.size() != rows)) {
            throw nb::value_error("file, offset, length and crc32 of a field must have the same number of rows");
        }
    }

    nb::object name;
    bool has_file = false, has_crc = false;
    std::int32_t number = 0;
    Array<const std::int32_t> file;
    Array<const std::int64_t> offset;
    nb::ndarray<const std::int64_t, nb::ndim<1>, nb::device::cpu> length;
    std::int64_t step = 1;  // between lengths; 0 if they are one for all
    Array<const std::uint32_t> crc;
};

// The extents of a batch of samples: the first field's, then the second field's, … Rows of an index
// are random, so each of its arrays misses the cache: all of them are loaded some rows in advance.
class Extents {
public:
    Extents(const std::vector<FieldArgument> &fields, const std::int64_t *rows, std::size_t samples) {
        const std::size_t total = fields.size() * samples;
        offset_.resize(total);
        length_.resize(total);
        file_.resize(total);
        checked_ = !fields.empty() && fields[0].has_crc;
        if (checked_) crc_.resize(total);
        std::size_t at = 0;
        for (const FieldArgument &field : fields) {
            if (field.has_crc != checked_) {
                throw nb::value_error("crc32 must be given for all fields, or for none");
            }
            if (!rows && field.offset.size() != samples) {
                throw nb::value_error("fields and keys must have the same number of rows");
            }
            const std::size_t count = field.offset.size();
            for (std::size_t i = 0; rows && i < std::min(ahead, samples); ++i) load(field, rows[i], count);
            for (std::size_t i = 0; i < samples; ++i, ++at) {
                if (rows && i + ahead < samples) load(field, rows[i + ahead], count);
                const std::size_t row = rows ? static_cast<std::size_t>(rows[i]) : i;
                if (row >= count) {
                    raise_index_error("row " + std::to_string(rows[i]) + " of " + std::to_string(count) + " samples");
                }
                offset_[at] = field.offset.data()[row];
                length_[at] = field.length.data()[static_cast<std::int64_t>(row) * field.step];
                file_[at] = field.has_file ? field.file.data()[row] : field.number;
                if (checked_) crc_[at] = field.crc.data()[row];
            }
        }
    }

    // The batch, which borrows the arrays. `files` are kept alive by the caller.
    Batch batch(const Sequence &files, std::vector<nb::object> &kept) const {
        Batch batch;
        batch.file = file_.data();
        batch.offset = offset_.data();
        batch.length = length_.data();
        batch.crc = checked_ ? crc_.data() : nullptr;
        batch.rows = offset_.size();
        find_files(batch, files, kept);
        return batch;
    }

private:
    static constexpr std::size_t ahead = 128;

    static void load(const FieldArgument &field, std::int64_t row, std::size_t count) {
        if (static_cast<std::uint64_t>(row) >= count) return;
        load_line(field.offset.data() + row);
        load_line(field.length.data() + row * field.step);
        if (field.has_crc) load_line(field.crc.data() + row);
    }

    std::vector<std::int64_t> offset_, length_;
    std::vector<std::int32_t> file_;
    std::vector<std::uint32_t> crc_;
    bool checked_ = false;
};

void set_item(PyObject *sample, nb::handle name, PyObject *value) {
    if (PyDict_SetItem(sample, name.ptr(), value) != 0) throw nb::python_error();
}

// Return a list of dicts with the key of each sample only.
template <typename KeyOf>
nb::object keyed_dicts(std::size_t samples, nb::handle key_name, KeyOf key_of) {
    nb::object list = new_list(samples);
    for (std::size_t i = 0; i < samples; ++i) {
        PyObject *const sample = PyDict_New();
        if (!sample) throw nb::python_error();
        PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), sample);
        set_item(sample, key_name, key_of(i).ptr());
    }
    return list;
}

// Memory of the caller for the values of some fields, which become read-only views of it.
class Room {
public:
    // `take` returns a writable buffer of at least that many bytes, or None.
    Room(nb::handle take, std::int64_t size) {
        const nb::object buffer = take(size);
        if (buffer.is_none()) return;
        const nb::object whole = nb::steal(PyMemoryView_FromObject(buffer.ptr()));
        if (!whole.is_valid()) throw nb::python_error();
        const Py_buffer *const view = PyMemoryView_GET_BUFFER(whole.ptr());
        if (view->readonly || view->itemsize != 1 || view->ndim != 1 || !PyBuffer_IsContiguous(view, 'C') ||
            view->len < size) {
            throw nb::value_error("room: expected a writable buffer of single bytes that is large enough");
        }
        next_ = static_cast<std::uint8_t *>(view->buf);
        views_ = whole.attr("toreadonly")();
    }

    explicit operator bool() const { return next_ != nullptr; }

    // Return a view of the next `length` bytes, and where they are to be written.
    std::pair<nb::object, std::uint8_t *> next(std::int64_t length) {
        const nb::object start = nb::int_(used_), end = nb::int_(used_ + length);
        const nb::object slice = nb::steal(PySlice_New(start.ptr(), end.ptr(), nullptr));
        if (!slice.is_valid()) throw nb::python_error();
        nb::object view = nb::steal(PyObject_GetItem(views_.ptr(), slice.ptr()));
        if (!view.is_valid()) throw nb::python_error();
        std::uint8_t *const bytes = next_ + used_;
        used_ += length;
        return {std::move(view), bytes};
    }

private:
    nb::object views_;
    std::uint8_t *next_ = nullptr;
    std::int64_t used_ = 0;
};

// Whether the values of a field become views. `names` is a set, or None.
bool are_views(nb::handle names, const nb::object &name) {
    if (names.is_none()) return false;
    const int found = PySequence_Contains(names.ptr(), name.ptr());
    if (found < 0) throw nb::python_error();
    return found == 1;
}

// Set the values of all fields in the dicts of samples, not initialised, and return where each value goes.
std::vector<std::uint8_t *> make_values(nb::handle samples, const std::vector<FieldArgument> &fields, const Batch &batch,
                                        std::size_t count, nb::handle views, nb::handle room) {
    std::vector<std::uint8_t *> out(batch.rows);
    std::size_t first = 0;
    for (const FieldArgument &field : fields) {
        const std::size_t end = first + count;
        std::int64_t size = 0;
        for (std::size_t row = first; row < end; ++row) size += batch.missing(row) ? 0 : batch.length[row];
        std::optional<Room> shared;
        if (size && are_views(views, field.name)) shared.emplace(room, size);
        for (std::size_t row = first; row < end; ++row) {
            if (batch.missing(row)) continue;
            nb::object value;
            if (shared && *shared) {
                std::tie(value, out[row]) = shared->next(batch.length[row]);
            } else {
                std::tie(value, out[row]) = new_bytes(batch.length[row]);
            }
            set_item(PyList_GET_ITEM(samples.ptr(), static_cast<Py_ssize_t>(row - first)), field.name, value.ptr());
        }
        first = end;
    }
    return out;
}

nb::object read_samples(nb::handle files, nb::handle fields, nb::handle rows, nb::handle key_name, nb::handle keys,
                        nb::handle views, nb::handle room) {
    const Sequence list(files, "files: expected a list of MappedFile");
    const Sequence field_list(fields, "fields: expected a list of tuples");
    std::vector<FieldArgument> arguments;
    for (std::size_t i = 0; i < field_list.size(); ++i) arguments.emplace_back(field_list[i]);
    if (!PyUnicode_Check(key_name.ptr())) throw nb::type_error("key_name: expected a str");

    Array<const std::int64_t> chosen;
    if (!rows.is_none()) chosen = array_argument<const std::int64_t>(rows, "rows");
    nb::object samples;
    std::size_t count = chosen.size();
    const bool has_table = PyTuple_Check(keys.ptr());
    if (!has_table && !PyList_Check(keys.ptr())) throw nb::type_error("keys: expected a list, or text and offsets");
    if (has_table && (rows.is_none() || PyTuple_GET_SIZE(keys.ptr()) != 2)) {
        throw nb::type_error("keys: text and offsets need rows");
    }
    std::optional<Sequence> given_keys;
    if (!has_table) {
        given_keys.emplace(keys, "keys: expected a list");
        if (!rows.is_none() && given_keys->size() != count) throw nb::value_error("keys and rows must have the same length");
        count = given_keys->size();
    }
    const Extents extents(arguments, rows.is_none() ? nullptr : chosen.data(), count);
    std::vector<nb::object> kept;
    const Batch batch = extents.batch(list, kept);
    const std::int64_t total = check(batch);

    const bool fits = total <= cache_size;
    const auto load_values = [&](std::size_t i) {
        for (std::size_t row = i; fits && row < batch.rows; row += count) load_into_cache(batch, row, cache_size);
    };
    if (has_table) {
        const KeysArgument table(PyTuple_GET_ITEM(keys.ptr(), 0), PyTuple_GET_ITEM(keys.ptr(), 1));
        const KeysOfRows texts(table, chosen.data(), count);
        samples = keyed_dicts(count, key_name, [&](std::size_t i) {
            load_values(i);
            return texts.text(i);
        });
    } else {
        samples = keyed_dicts(count, key_name, [&](std::size_t i) {
            load_values(i);
            return nb::borrow((*given_keys)[i]);
        });
    }

    keep_freed_memory(static_cast<std::size_t>(total));
    const std::vector<std::uint8_t *> out = make_values(samples, arguments, batch, count, views, room);
    copy_quickly(batch, total, out.data());
    return samples;
}

}  // namespace

void bind_samples(nb::module_ &module) {
    module.def("read_samples", &read_samples, nb::arg("files"), nb::arg("fields"), nb::arg("rows").none(),
               nb::arg("key_name"), nb::arg("keys"), nb::arg("views") = nb::none(), nb::arg("room") = nb::none());
}

}  // namespace bushel
