// Arguments of the bindings that use the keys of an index.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "common/cache.hpp"
#include "common/python.hpp"

namespace bushel {

// The bytes of all keys, and the offset of each key. Keys are checked when they are used.
class KeysArgument {
public:
    KeysArgument(nb::handle data, nb::handle offsets)
        : data_(array_argument<const std::uint8_t>(data, "data")),
          offsets_(array_argument<const std::int64_t>(offsets, "offsets")) {
        if (offsets_.size() == 0)
            throw nb::value_error("offsets is empty: expected the offset of each key, and the end of the last one");
    }

    std::size_t count() const { return offsets_.size() - 1; }
    const std::uint8_t *key(std::size_t row) const { return data_.data() + offsets_.data()[row]; }
    std::size_t length(std::size_t row) const {
        return static_cast<std::size_t>(offsets_.data()[row + 1] - offsets_.data()[row]);
    }

    // A random row misses the cache twice: in the offsets, which `load_offsets` loads, and then in the text.
    void load_offsets(std::int64_t row) const {
        if (is_row(row)) load_line(offsets_.data() + row);
    }
    void load_text(std::int64_t row) const {
        if (!is_row(row)) return;
        const std::int64_t begin = offsets_.data()[row];
        if (begin >= 0 && static_cast<std::uint64_t>(begin) < data_.size()) load_line(data_.data() + begin);
    }

    void check(std::size_t row) const {
        const std::int64_t begin = offsets_.data()[row], end = offsets_.data()[row + 1];
        if (begin < 0 || end < begin || static_cast<std::uint64_t>(end) > data_.size()) {
            throw nb::value_error(("key " + std::to_string(row) + " is at bytes " + std::to_string(begin) + " to " +
                                   std::to_string(end) + " of " + std::to_string(data_.size()))
                                      .c_str());
        }
    }

    // The key of a row, which is checked, as str.
    nb::object text(std::int64_t row) const {
        if (!is_row(row)) {
            throw nb::index_error(("key " + std::to_string(row) + " of " + std::to_string(count())).c_str());
        }
        const auto at = static_cast<std::size_t>(row);
        check(at);
        PyObject *const text = decode(key(at), static_cast<Py_ssize_t>(length(at)));
        if (!text) throw nb::python_error();
        return nb::steal(text);
    }

private:
    bool is_row(std::int64_t row) const { return static_cast<std::uint64_t>(row) < count(); }

    // Most keys are ASCII, which Python's decoder finds out more slowly.
    static PyObject *decode(const std::uint8_t *key, Py_ssize_t length) {
        std::uint8_t every = 0;
        for (Py_ssize_t i = 0; i < length; ++i) every |= key[i];
        if (every < 0x80 && length > 1) {  // shorter strings are shared objects
            PyObject *const text = PyUnicode_New(length, 0x7F);
            if (text) std::memcpy(PyUnicode_1BYTE_DATA(text), key, static_cast<std::size_t>(length));
            return text;
        }
        return PyUnicode_DecodeUTF8(reinterpret_cast<const char *>(key), length, "surrogateescape");
    }

    Array<const std::uint8_t> data_;
    Array<const std::int64_t> offsets_;
};

// Loads the keys of random rows into the cache some rows in advance.
class LoadAhead {
public:
    LoadAhead(const KeysArgument &keys, const std::int64_t *rows, std::size_t count)
        : keys_(keys), rows_(rows), count_(count) {
        for (std::size_t i = 0; i < std::min(offset_distance, count); ++i) keys.load_offsets(rows[i]);
        for (std::size_t i = 0; i < std::min(text_distance, count); ++i) keys.load_text(rows[i]);
    }

    // Called before the key of the i-th row is used, for each i in order.
    void at(std::size_t i) const {
        if (i + offset_distance < count_) keys_.load_offsets(rows_[i + offset_distance]);
        if (i + text_distance < count_) keys_.load_text(rows_[i + text_distance]);
    }

private:
    static constexpr std::size_t text_distance = 16, offset_distance = 48;

    const KeysArgument &keys_;
    const std::int64_t *rows_;
    std::size_t count_;
};

}  // namespace bushel
