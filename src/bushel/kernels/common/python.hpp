// Helpers of the bindings: arguments from Python objects, and arrays to Python objects.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace bushel {

namespace nb = nanobind;

[[noreturn]] inline void raise_value_error(const std::string &message) { throw nb::value_error(message.c_str()); }
[[noreturn]] inline void raise_index_error(const std::string &message) { throw nb::index_error(message.c_str()); }
[[noreturn]] inline void raise_type_error(const std::string &message) { throw nb::type_error(message.c_str()); }

template <typename T>
using Array = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <typename T>
constexpr const char *type_name();
template <>
constexpr const char *type_name<const std::uint8_t>() {
    return "uint8";
}
template <>
constexpr const char *type_name<std::uint8_t>() {
    return "writable uint8";
}
template <>
constexpr const char *type_name<const std::int32_t>() {
    return "int32";
}
template <>
constexpr const char *type_name<std::int32_t>() {
    return "writable int32";
}
template <>
constexpr const char *type_name<const std::uint32_t>() {
    return "uint32";
}
template <>
constexpr const char *type_name<const std::int64_t>() {
    return "int64";
}
template <>
constexpr const char *type_name<std::int64_t>() {
    return "writable int64";
}
template <>
constexpr const char *type_name<std::uint64_t>() {
    return "writable uint64";
}
template <>
constexpr const char *type_name<const double>() {
    return "float64";
}

// Return the array itself, never a converted copy: that would hide a wrong dtype and cost a copy per call.
template <typename T>
Array<T> array_argument(nb::handle object, const char *name) {
    Array<T> array;
    if (!nb::try_cast(object, array, false)) {
        raise_type_error(std::string(name) + ": expected a contiguous one-dimensional " + type_name<T>() + " array");
    }
    return array;
}

// The items of a list or another sequence. Without the interpreter lock, another thread may change a list while its items
// are taken, so that a copy is used.
class Sequence {
public:
    Sequence(nb::handle object, const char *expected) {
#ifdef NB_FREE_THREADED
        if (!PySequence_Check(object.ptr())) throw nb::type_error(expected);
        items_ = nb::steal(PySequence_Tuple(object.ptr()));
#else
        items_ = nb::steal(PySequence_Fast(object.ptr(), expected));
#endif
        if (!items_.is_valid()) throw nb::python_error();
    }

    std::size_t size() const { return static_cast<std::size_t>(PySequence_Fast_GET_SIZE(items_.ptr())); }
    nb::handle operator[](std::size_t i) const {
        return PySequence_Fast_GET_ITEM(items_.ptr(), static_cast<Py_ssize_t>(i));
    }

private:
    nb::object items_;
};

// The bytes of any object with the buffer protocol.
class BufferArgument {
public:
    explicit BufferArgument(nb::handle object) {
        if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
    }
    ~BufferArgument() { PyBuffer_Release(&view_); }
    BufferArgument(const BufferArgument &) = delete;
    BufferArgument &operator=(const BufferArgument &) = delete;

    const std::uint8_t *data() const { return static_cast<const std::uint8_t *>(view_.buf); }
    std::size_t size() const { return static_cast<std::size_t>(view_.len); }

private:
    Py_buffer view_;
};

// Call `work` without the interpreter lock.
template <typename Work>
auto without_lock(Work work) {
    const nb::gil_scoped_release unlocked;
    return work();
}

// Return a new array that owns its elements.
template <typename T>
nb::object owned_array(T *elements, std::initializer_list<std::size_t> shape) {
    nb::capsule owner(elements, [](void *memory) noexcept { delete[] static_cast<T *>(memory); });
    return nb::cast(nb::ndarray<nb::numpy, T>(elements, shape.size(), shape.begin(), owner));
}

template <typename T>
nb::object owned_array(T *elements, std::size_t count) {
    return owned_array(elements, {count});
}

// Return a new array with the elements of a vector, whose memory is used again.
template <typename T>
nb::object copy_of(const std::vector<T> &elements) {
    T *const copy = new T[elements.size()];
    std::copy_n(elements.data(), elements.size(), copy);
    return owned_array(copy, elements.size());
}

// Return an array that owns a vector.
template <typename T>
nb::object array_of(std::vector<T> &&elements) {
    auto *const kept = new std::vector<T>(std::move(elements));
    nb::capsule owner(kept, [](void *memory) noexcept { delete static_cast<std::vector<T> *>(memory); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

// Return a read-only view of a vector, which keeps `owner` alive.
template <typename T>
nb::object view_of(const std::vector<T> &elements, nb::handle owner) {
    return nb::cast(nb::ndarray<nb::numpy, const T, nb::ndim<1>>(elements.data(), {elements.size()}, owner));
}

// A property that shows a vector of a bound object.
template <typename Found, typename T>
auto column(std::vector<T> Found::*field) {
    return [field](nb::handle self) { return view_of((*nb::inst_ptr<Found>(self)).*field, self); };
}

inline nb::bytes bytes_of(const std::string &text) { return nb::bytes(text.data(), text.size()); }

inline nb::list list_of_bytes(const std::vector<std::string> &texts) {
    nb::list list;
    for (const std::string &text : texts) list.append(bytes_of(text));
    return list;
}

// Return a new bytes object, and where its bytes are to be written.
inline std::pair<nb::object, std::uint8_t *> new_bytes(std::int64_t size) {
    nb::object bytes = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)));
    if (!bytes.is_valid()) throw nb::python_error();
    return {bytes, reinterpret_cast<std::uint8_t *>(PyBytes_AS_STRING(bytes.ptr()))};
}

// Return a list of `count` items, which the caller sets by PyList_SET_ITEM.
inline nb::object new_list(std::size_t count) {
    nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(count)));
    if (!list.is_valid()) throw nb::python_error();
    return list;
}

// Return a list of new bytes objects of these lengths, with None for -1, and where the bytes of each are to be written.
inline std::pair<nb::object, std::vector<std::uint8_t *>> new_bytes_list(const std::int64_t *lengths, std::size_t count) {
    nb::object list = new_list(count);
    std::vector<std::uint8_t *> out(count);
    for (std::size_t i = 0; i < count; ++i) {
        PyObject *item = Py_None;
        if (lengths[i] == -1)
            Py_INCREF(item);
        else if ((item = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(lengths[i]))) == nullptr)
            throw nb::python_error();
        else
            out[i] = reinterpret_cast<std::uint8_t *>(PyBytes_AS_STRING(item));
        PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), item);
    }
    return {list, std::move(out)};
}

inline nb::object optional_text(const std::string &text) {
    return text.empty() ? nb::none() : nb::object(nb::str(text.c_str()));
}

void bind_files(nb::module_ &module);
void bind_framing(nb::module_ &module);
void bind_sample_buffer(nb::module_ &module);
void bind_samples(nb::module_ &module);
void bind_jpeg(nb::module_ &module);
void bind_crops(nb::module_ &module);
void bind_scans(nb::module_ &module);
void bind_tfrecord(nb::module_ &module);
void bind_lines(nb::module_ &module);
void bind_parquet(nb::module_ &module);
void bind_riegeli(nb::module_ &module);
void bind_keys(nb::module_ &module);
void bind_numbers(nb::module_ &module);
void bind_order(nb::module_ &module);
void bind_pieces(nb::module_ &module);
void bind_png(nb::module_ &module);
void bind_range_values(nb::module_ &module);
void bind_rewrite(nb::module_ &module);
void bind_video(nb::module_ &module);
void bind_zip(nb::module_ &module);

}  // namespace bushel
