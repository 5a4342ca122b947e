// Arguments of the bindings that use the keys of an index.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

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
    const std::uint8_t *begin() const { return data_.data(); }
    const std::int64_t *offsets() const { return offsets_.data(); }
    const std::uint8_t *key(std::size_t row) const { return data_.data() + offsets_.data()[row]; }
    std::size_t length(std::size_t row) const {
        return static_cast<std::size_t>(offsets_.data()[row + 1] - offsets_.data()[row]);
    }

    void check(std::size_t row) const {
        const std::int64_t begin = offsets_.data()[row], end = offsets_.data()[row + 1];
        if (begin < 0 || end < begin || static_cast<std::uint64_t>(end) > data_.size()) {
            raise_value_error("key " + std::to_string(row) + " is at bytes " + std::to_string(begin) + " to " +
                              std::to_string(end) + " of " + std::to_string(data_.size()));
        }
    }

private:
    Array<const std::uint8_t> data_;
    Array<const std::int64_t> offsets_;
};

// The keys of some rows, copied in short loops: random rows miss the cache twice, in the offsets and in the text, and
// the processor waits for many of them at once only if little is done in between.
class KeysOfRows {
public:
    KeysOfRows(const KeysArgument &keys, const std::int64_t *rows, std::size_t count) : ends_(count) {
        std::vector<const std::uint8_t *> begins(count);
        std::size_t total = 0;
        for (std::size_t i = 0; i < count; ++i) {
            if (static_cast<std::uint64_t>(rows[i]) >= keys.count()) {
                raise_index_error("key " + std::to_string(rows[i]) + " of " + std::to_string(keys.count()));
            }
            const auto row = static_cast<std::size_t>(rows[i]);
            keys.check(row);
            begins[i] = keys.key(row);
            ends_[i] = total += keys.length(row);
        }
        text_.reset(new std::uint8_t[total]);
        for (std::size_t i = 0, at = 0; i < count; at = ends_[i++]) {
            if (ends_[i] > at) std::memcpy(text_.get() + at, begins[i], ends_[i] - at);
        }
    }

    // The i-th key as str.
    nb::object text(std::size_t i) const {
        const std::size_t begin = i ? ends_[i - 1] : 0;
        PyObject *const text = decode(text_.get() + begin, static_cast<Py_ssize_t>(ends_[i] - begin));
        if (!text) throw nb::python_error();
        return nb::steal(text);
    }

private:
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

    std::vector<std::size_t> ends_;
    std::unique_ptr<std::uint8_t[]> text_;
};

}  // namespace bushel
