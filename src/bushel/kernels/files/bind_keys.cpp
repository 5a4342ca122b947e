// Python bindings: hashing and decoding of sample keys.
#include <memory>

#include "files/key_argument.hpp"

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

nb::object hash_keys(nb::handle data, nb::handle offsets) {
    const KeysArgument keys(data, offsets);
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
    const KeysArgument keys(data, offsets);
    const auto wanted = array_argument<const std::int64_t>(rows, "rows");
    nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(wanted.size())));
    if (!list.is_valid()) throw nb::python_error();
    const KeysOfRows chosen(keys, wanted.data(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), chosen.text(i).release().ptr());
    }
    return list;
}

}  // namespace

void bind_keys(nb::module_ &module) {
    module.def("hash_keys", &hash_keys, nb::arg("data"), nb::arg("offsets"));
    module.def("decode_keys", &decode_keys, nb::arg("data"), nb::arg("offsets"), nb::arg("rows"));
}

}  // namespace bushel
