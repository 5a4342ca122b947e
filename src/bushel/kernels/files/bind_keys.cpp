// Python bindings: hashing and decoding of sample keys.
#include <memory>

#include "common/python.hpp"

namespace bushel {

namespace {

// The hash is part of the index format and must never change: FNV-1a, 64 bit (offset basis 0xCBF29CE484222325, prime
// 0x100000001B3), then the finaliser of splitmix64.
std::uint64_t hash_key(const std::uint8_t *key, std::size_t length) {
    std::uint64_t hash = 0xCBF29CE484222325;
    for (std::size_t i = 0; i < length; ++i) hash = (hash ^ key[i]) * 0x100000001B3;
    hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9;
    hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EB;
    return hash ^ (hash >> 31);
}

// The bytes of all keys, and the offset of each key. Keys are checked when they are used.
class Keys {
public:
    Keys(nb::handle data, nb::handle offsets)
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

    // A random row misses the cache twice, in the offsets and then in the text: both are loaded some rows in advance.
    void prefetch(const Array<const std::int64_t> &rows, std::size_t i) const {
        constexpr std::size_t text_distance = 8, offset_distance = 16;
        const auto valid = [&](std::size_t at) {
            return at < rows.size() && static_cast<std::uint64_t>(rows.data()[at]) < count();
        };
        if (valid(i + offset_distance)) __builtin_prefetch(offsets_.data() + rows.data()[i + offset_distance]);
        if (!valid(i + text_distance)) return;
        const std::int64_t begin = offsets_.data()[rows.data()[i + text_distance]];
        if (begin >= 0 && static_cast<std::uint64_t>(begin) < data_.size()) __builtin_prefetch(data_.data() + begin);
    }

    void check(std::size_t row) const {
        const std::int64_t begin = offsets_.data()[row], end = offsets_.data()[row + 1];
        if (begin < 0 || end < begin || static_cast<std::uint64_t>(end) > data_.size()) {
            throw nb::value_error(("key " + std::to_string(row) + " is at bytes " + std::to_string(begin) + " to " +
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

nb::object decode_keys(nb::handle data, nb::handle offsets, nb::handle rows) {
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

void bind_keys(nb::module_ &module) {
    module.def("hash_keys", &hash_keys, nb::arg("data"), nb::arg("offsets"));
    module.def("decode_keys", &decode_keys, nb::arg("data"), nb::arg("offsets"), nb::arg("rows"));
}

}  // namespace bushel
