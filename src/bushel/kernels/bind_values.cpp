// Kernels on values in memory: checksums and keys.
#include <memory>

#include "crc32.hpp"
#include "keys.hpp"
#include "python.hpp"

namespace bushel {

namespace {

constexpr std::size_t keep_lock_below = 64 * 1024;

std::uint32_t crc32_of(nb::handle data, std::uint32_t value) {
    const BufferArgument buffer(data);
    if (buffer.size() < keep_lock_below) return crc32(buffer.data(), buffer.size(), value);
    const nb::gil_scoped_release unlocked;
    return crc32(buffer.data(), buffer.size(), value);
}

// Key bytes and where each key begins; keys are checked when they are used.
class Keys {
public:
    Keys(nb::handle data, nb::handle offsets)
        : data_(array_argument<const std::uint8_t>(data, "data")),
          offsets_(array_argument<const std::int64_t>(offsets, "offsets")) {
        if (offsets_.size() == 0) throw nb::value_error("offsets: expected one element more than there are keys");
    }

    std::size_t count() const { return offsets_.size() - 1; }
    const std::uint8_t *key(std::size_t row) const { return data_.data() + offsets_.data()[row]; }
    std::size_t length(std::size_t row) const {
        return static_cast<std::size_t>(offsets_.data()[row + 1] - offsets_.data()[row]);
    }

    // Random rows miss the cache twice each, in the offsets and then in the text: both are asked for some rows ahead.
    void prefetch(const Array<const std::int64_t> &rows, std::size_t i) const {
        constexpr std::size_t near = 8, far = 16;
        const auto valid = [&](std::size_t at) {
            return at < rows.size() && static_cast<std::uint64_t>(rows.data()[at]) < count();
        };
        if (valid(i + far)) __builtin_prefetch(offsets_.data() + rows.data()[i + far]);
        if (!valid(i + near)) return;
        const std::int64_t begin = offsets_.data()[rows.data()[i + near]];
        if (begin >= 0 && static_cast<std::uint64_t>(begin) < data_.size()) __builtin_prefetch(data_.data() + begin);
    }

    void check(std::size_t row) const {
        const std::int64_t begin = offsets_.data()[row], end = offsets_.data()[row + 1];
        if (begin < 0 || end < begin || static_cast<std::uint64_t>(end) > data_.size()) {
            throw nb::value_error(("key " + std::to_string(row) + " lies at bytes " + std::to_string(begin) + " to " +
                                   std::to_string(end) + " of " + std::to_string(data_.size()))
                                      .c_str());
        }
    }

private:
    Array<const std::uint8_t> data_;
    Array<const std::int64_t> offsets_;
};

nb::object hash_keys(nb::handle data, nb::handle offsets) {
    const Keys keys(data, offsets);
    std::unique_ptr<std::uint64_t[]> hashes(new std::uint64_t[keys.count()]);
    {
        const nb::gil_scoped_release unlocked;
        for (std::size_t row = 0; row < keys.count(); ++row) {
            keys.check(row);
            hashes[row] = hash_key(keys.key(row), keys.length(row));
        }
    }
    return owned_array(hashes.release(), keys.count());
}

nb::object slice_keys(nb::handle data, nb::handle offsets, nb::handle rows) {
    const Keys keys(data, offsets);
    const auto wanted = array_argument<const std::int64_t>(rows, "rows");
    nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(wanted.size())));
    if (!list.is_valid()) throw nb::python_error();
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        keys.prefetch(wanted, i);
        const std::int64_t row = wanted.data()[i];
        if (row < 0 || static_cast<std::uint64_t>(row) >= keys.count()) {
            throw nb::index_error(("key " + std::to_string(row) + " of " + std::to_string(keys.count())).c_str());
        }
        const auto at = static_cast<std::size_t>(row);
        keys.check(at);
        PyObject *text = PyUnicode_DecodeUTF8(reinterpret_cast<const char *>(keys.key(at)),
                                              static_cast<Py_ssize_t>(keys.length(at)), "surrogateescape");
        if (!text) throw nb::python_error();
        PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), text);
    }
    return list;
}

}  // namespace

void bind_values(nb::module_ &module) {
    module.def("crc32", &crc32_of, nb::arg("data"), nb::arg("value") = 0);
    module.def("hash_keys", &hash_keys, nb::arg("data"), nb::arg("offsets"));
    module.def("slice_keys", &slice_keys, nb::arg("data"), nb::arg("offsets"), nb::arg("rows"));
}

}  // namespace bushel
