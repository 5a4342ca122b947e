// Python bindings: hashing and decoding of sample keys.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

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

// Write the hashes of keys in ascending order, and the row of each; ascending rows where hashes are equal. Rows are
// placed by the first bits of their hashes, which are evenly spread, and then sorted with the few others of these bits.
void sort_keys(nb::handle data, nb::handle offsets, nb::handle hashes, nb::handle order) {
    const KeysArgument keys(data, offsets);
    const auto hash_out = array_argument<std::uint64_t>(hashes, "hashes");
    const auto row_out = array_argument<std::int64_t>(order, "order");
    const std::size_t count = keys.count();
    if (hash_out.size() != count || row_out.size() != count)
        throw nb::value_error("hashes and order: expected as many elements as there are keys");
    std::uint64_t *const hash = hash_out.data();
    std::int64_t *const row = row_out.data();
    const nb::gil_scoped_release unlocked;
    int bits = 0;
    while (bits < 18 && (count >> bits) > 16) ++bits;
    const auto bucket = [bits](std::uint64_t key_hash) {
        return bits ? static_cast<std::size_t>(key_hash >> (64 - bits)) : 0;
    };
    std::vector<std::size_t> at((std::size_t{1} << bits) + 1);
    for (std::size_t i = 0; i < count; ++i) {
        keys.check(i);
        ++at[bucket(hash_key(keys.key(i), keys.length(i))) + 1];
    }
    for (std::size_t i = 1; i < at.size(); ++i) at[i] += at[i - 1];
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t key_hash = hash_key(keys.key(i), keys.length(i));
        const std::size_t place = at[bucket(key_hash)]++;
        hash[place] = key_hash, row[place] = static_cast<std::int64_t>(i);
    }
    std::vector<std::pair<std::uint64_t, std::int64_t>> bucket_keys;
    for (std::size_t i = 0, first = 0; i + 1 < at.size(); first = at[i++]) {
        bucket_keys.clear();
        for (std::size_t j = first; j < at[i]; ++j) bucket_keys.emplace_back(hash[j], row[j]);
        std::sort(bucket_keys.begin(), bucket_keys.end());
        for (std::size_t j = 0; j < bucket_keys.size(); ++j) {
            std::tie(hash[first + j], row[first + j]) = bucket_keys[j];
        }
    }
}

nb::object decode_keys(nb::handle data, nb::handle offsets, nb::handle rows) {
    const KeysArgument keys(data, offsets);
    const auto numbers = array_argument<const std::int64_t>(rows, "rows");
    nb::object list = new_list(numbers.size());
    const KeysOfRows texts(keys, numbers.data(), numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), texts.text(i).release().ptr());
    }
    return list;
}

// The decimal text of each number.
nb::object decimal_texts(nb::handle numbers) {
    const auto given = array_argument<const std::int64_t>(numbers, "numbers");
    nb::object list = new_list(given.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
        char digits[24];
        const std::to_chars_result end = std::to_chars(digits, digits + sizeof digits, given.data()[i]);
        const Py_ssize_t length = end.ptr - digits;
        // the interpreter shares strings of one character
        PyObject *const text =
            length == 1 ? PyUnicode_FromStringAndSize(digits, length) : PyUnicode_New(length, 0x7F);
        if (!text) throw nb::python_error();
        if (length > 1) std::memcpy(PyUnicode_1BYTE_DATA(text), digits, static_cast<std::size_t>(length));
        PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), text);
    }
    return list;
}

// Number the distinct texts in the order of their first rows. None if there are more than `most`.
nb::object number_texts(nb::handle data, nb::handle offsets, std::size_t most) {
    const KeysArgument texts(data, offsets);
    constexpr std::uint32_t none = 0xFFFFFFFF;
    std::unique_ptr<std::uint32_t[]> numbers(new std::uint32_t[texts.count()]);
    std::vector<std::int64_t> first;  // row of each distinct text
    std::vector<std::uint64_t> hashes;
    bool too_many = false;
    {
        const nb::gil_scoped_release unlocked;
        std::vector<std::uint32_t> table(16, none);  // at most half full, by hash
        for (std::size_t row = 0; row < texts.count() && !too_many; ++row) {
            texts.check(row);
            const std::size_t length = texts.length(row);
            const std::uint64_t hash = hash_key(texts.key(row), length);
            std::size_t place = hash & (table.size() - 1);
            for (; table[place] != none; place = (place + 1) & (table.size() - 1)) {
                const std::uint32_t number = table[place];
                const auto other = static_cast<std::size_t>(first[number]);
                if (hashes[number] == hash && texts.length(other) == length &&
                    std::equal(texts.key(row), texts.key(row) + length, texts.key(other))) {
                    break;
                }
            }
            if (table[place] == none) {
                if ((too_many = first.size() >= most || first.size() >= none)) break;
                table[place] = static_cast<std::uint32_t>(first.size());
                first.push_back(static_cast<std::int64_t>(row));
                hashes.push_back(hash);
            }
            numbers[row] = table[place];
            if (2 * first.size() > table.size()) {
                table.assign(2 * table.size(), none);
                for (std::size_t number = 0; number < hashes.size(); ++number) {
                    std::size_t free = hashes[number] & (table.size() - 1);
                    while (table[free] != none) free = (free + 1) & (table.size() - 1);
                    table[free] = static_cast<std::uint32_t>(number);
                }
            }
        }
    }
    if (too_many) return nb::none();
    return nb::make_tuple(owned_array(numbers.release(), texts.count()), array_of(std::move(first)));
}

}  // namespace

void bind_keys(nb::module_ &module) {
    module.def("hash_keys", &hash_keys, nb::arg("data"), nb::arg("offsets"));
    module.def("sort_keys", &sort_keys, nb::arg("data"), nb::arg("offsets"), nb::arg("hashes"), nb::arg("order"));
    module.def("decimal_texts", &decimal_texts, nb::arg("numbers"));
    module.def("number_texts", &number_texts, nb::arg("data"), nb::arg("offsets"), nb::arg("most"));
    module.def("decode_keys", &decode_keys, nb::arg("data"), nb::arg("offsets"), nb::arg("rows"));
}

}  // namespace bushel
