// Python bindings: SampleBuffer, which collects appended samples, and KeySet, which has their keys.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <memory>

#include "common/python.hpp"
#include "framing/key_set.hpp"
#include "framing/sample_buffer.hpp"

namespace bushel {

namespace {

// A sample with more bytes than this is written at once: to copy it would cost more than to frame it alone.
constexpr std::size_t large = 1 << 15;
// Bytes, and number of samples, that are collected at most.
constexpr std::size_t most_bytes = 1 << 18;
constexpr std::size_t most_samples = 1 << 12;
// No container stores a sample in more than 4 times its bytes, and this many for each field and for the key.
constexpr std::size_t overhead = 2048;

// What `add` returns instead of the position of a sample: it was not added, or, below this number, it was added as the
// last one.
constexpr std::int64_t refused = -1;

// The bytes of a bytes-like object.
class Contents {
public:
    Contents() = default;
    Contents(const Contents &) = delete;
    Contents &operator=(const Contents &) = delete;
    ~Contents() { release(); }

    // Return false, without an exception, for an object that does not have contiguous bytes.
    bool of(PyObject *object) {
        release();
        if (PyBytes_CheckExact(object)) {
            data = PyBytes_AS_STRING(object);
            size = static_cast<std::size_t>(PyBytes_GET_SIZE(object));
            return true;
        }
        if (PyObject_GetBuffer(object, &view_, PyBUF_SIMPLE) != 0) {
            PyErr_Clear();
            return false;
        }
        held_ = true;
        data = view_.buf;
        size = static_cast<std::size_t>(view_.len);
        return true;
    }

    const void *data = nullptr;
    std::size_t size = 0;

private:
    void release() {
        if (held_) PyBuffer_Release(&view_);
        held_ = false;
    }

    Py_buffer view_;
    bool held_ = false;
};

// One item for each field, which need no memory of their own if there are few.
template <typename Item>
class ForFields {
public:
    explicit ForFields(std::size_t fields) : size_(fields) {
        if (fields > few) many_.reset(new Item[fields]);
    }

    std::size_t size() const { return size_; }
    Item &operator[](std::size_t field) { return many_ ? many_[field] : few_[field]; }

private:
    static constexpr std::size_t few = 4;
    std::size_t size_;
    Item few_[few];
    std::unique_ptr<Item[]> many_;
};

// The key of a sample without one: its number, in at least nine digits.
struct Digits {
    // Return false if it is longer than a key may be.
    bool of(std::int64_t number, std::size_t longest) {
        std::uint64_t left = number < 0 ? 0 : static_cast<std::uint64_t>(number);
        char *first = text + sizeof text;
        for (int places = 0; left || places < 9; left /= 10, ++places) *--first = static_cast<char>('0' + left % 10);
        length = static_cast<std::size_t>(text + sizeof text - first);
        std::memmove(text, first, length);
        return length <= longest;
    }

    char text[24];
    std::size_t length = 0;
};

// Seconds on a clock that does not go back. It is exact to some milliseconds, and is read in a third of the time.
double coarse_time() {
#ifdef CLOCK_MONOTONIC_COARSE
    timespec now;
    if (clock_gettime(CLOCK_MONOTONIC_COARSE, &now) == 0) {
        return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
    }
#endif
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool is_stored(PyObject *value) {
    return PyBytes_Check(value) || PyByteArray_Check(value) || PyMemoryView_Check(value);
}

// Whether any container can hold a key: ASCII letters, digits, `-`, `_` but first, and `/` but first or last.
// StoredColumn.harmless is this too.
bool is_harmless(const char *key, std::size_t length) {
    if (length == 0 || key[0] == '_' || key[0] == '/' || key[length - 1] == '/') return false;
    return std::all_of(key, key + length, [](char sign) {
        return (sign >= '0' && sign <= '9') || (sign >= 'a' && sign <= 'z') || (sign >= 'A' && sign <= 'Z') ||
               sign == '-' || sign == '_' || sign == '/';
    });
}

class SampleBuffer {
public:
    SampleBuffer(const nb::sequence &fields, nb::object key_name, bool keyed, bool numbered, std::size_t longest_key,
                 const nb::bytes &refused_start)
        : key_name_(std::move(key_name)),
          keyed_(keyed),
          numbered_(numbered),
          longest_key_(longest_key),
          refused_start_(refused_start.c_str(), refused_start.size()) {
        if (!PyUnicode_Check(key_name_.ptr())) throw nb::type_error("key_name: expected a str");
        for (const nb::handle field : fields) {
            if (!PyTuple_Check(field.ptr()) || PyTuple_GET_SIZE(field.ptr()) != 2 ||
                !PyUnicode_Check(PyTuple_GET_ITEM(field.ptr(), 0)) ||
                !PyCallable_Check(PyTuple_GET_ITEM(field.ptr(), 1))) {
                throw nb::type_error("fields: expected tuples of a name and a function");
            }
            names_.push_back(nb::borrow(PyTuple_GET_ITEM(field.ptr(), 0)));
            encoders_.push_back(nb::borrow(PyTuple_GET_ITEM(field.ptr(), 1)));
        }
        if (names_.empty()) throw nb::value_error("fields is empty");
        samples_ = std::make_shared<BufferedSamples>(names_.size());
    }

    std::size_t count() const { return samples_->columns[0].count(); }

    // The position of the sample that is added next.
    std::int64_t next() const { return first_ + static_cast<std::int64_t>(count()); }

    std::int64_t pause() {
        paused_ = true;
        return next();
    }

    void clear() {
        paused_ = true;
        first_ = next();
        if (is_shared()) {
            samples_ = std::make_shared<BufferedSamples>(names_.size());
        } else {
            samples_->truncate(0);
        }
        bytes_ = 0;
    }

    void restart(std::size_t room_samples, std::size_t room_bytes, double seconds, std::int64_t position,
                 std::int64_t number, nb::object known) {
        if (!known.is_none() && !nb::isinstance<KeySet>(known)) throw nb::type_error("known: expected a KeySet");
        clear();
        counted_ = keyed_ && numbered_ && known.is_none();
        first_ = position;
        number_ = number;
        known_ = std::move(known);
        room_samples_ = std::min(room_samples, most_samples);
        room_bytes_ = room_bytes;
        deadline_ = coarse_time() + std::min(std::max(seconds, 0.0), 1e6);
        paused_ = false;
    }

    // Other threads may add samples, or pause the buffer, while code of others runs, such as an encoder. Such code comes
    // first; nothing of it runs between the look at the state and the end of the change.
    std::int64_t add(nb::handle sample, nb::handle given_key) {
        if (is_full() || !PyDict_CheckExact(sample.ptr())) return refused;
        nb::object key = nb::borrow(given_key);
        const auto entries = static_cast<std::size_t>(PyDict_GET_SIZE(sample.ptr()));
        if (entries != names_.size()) {
            if (entries != names_.size() + 1) return refused;
            nb::object stored_key = item(sample, key_name_);
            if (!stored_key.is_valid()) return refused;
            if (key.is_none()) key = std::move(stored_key);
        }
        if (key.is_none() ? keyed_ && !numbered_ : !keyed_ || counted_ || !is_good(key)) return refused;
        ForFields<nb::object> values(names_.size());
        if (!find(sample, values)) return refused;
        encode(values);
        ForFields<Contents> contents(values.size());
        for (std::size_t field = 0; field < values.size(); ++field) {
            if (!contents[field].of(values[field].ptr()) || starts_refused(contents[field])) return refused;
        }
        if (is_full()) return refused;
        if (keyed_) {
            Digits digits;
            const bool counted = key.is_none();
            if (counted && !digits.of(number_ + next(), longest_key_)) return refused;
            if (counted && counted_) return store(contents, digits.text, digits.length);
            if (counted) key = nb::steal(PyUnicode_FromStringAndSize(digits.text, static_cast<Py_ssize_t>(digits.length)));
            if (!key.is_valid() || !is_new(key)) return refused;
            return store(contents, text(key), static_cast<std::size_t>(PyUnicode_GET_LENGTH(key.ptr())));
        }
        return store(contents, nullptr, 0);
    }

    nb::object drop_last() {
        if (count() == 0) throw nb::value_error("the buffer is empty");
        nb::object key = nb::none();
        const GrowingValues &keys = samples_->keys;
        if (keyed_) {
            const auto start = static_cast<std::size_t>(keys.offsets[keys.count() - 1]);
            key = nb::str(reinterpret_cast<const char *>(keys.data.data()) + start, keys.data.size() - start);
        }
        own().truncate(count() - 1);
        return key;
    }

    nb::object rows(std::size_t first) const {
        if (first > count()) throw nb::index_error("the buffer has fewer samples");
        const std::shared_ptr<BufferedSamples> samples = samples_;  // making arrays may let other threads in
        nb::object keys = nb::none();
        if (keyed_) keys = view(samples, samples->keys, first);
        nb::dict columns;
        for (std::size_t field = 0; field < names_.size(); ++field) {
            columns[names_[field]] = view(samples, samples->columns[field], first);
        }
        return nb::make_tuple(keys, columns);
    }

private:
    static const char *text(const nb::object &key) {
        return reinterpret_cast<const char *>(PyUnicode_1BYTE_DATA(key.ptr()));
    }

    // Invalid if the sample has no such item.
    static nb::object item(nb::handle sample, const nb::object &name) {
#if PY_VERSION_HEX >= 0x030D0000  // without the interpreter lock, another thread may remove a borrowed object
        PyObject *value;
        if (PyDict_GetItemRef(sample.ptr(), name.ptr(), &value) < 0) throw nb::python_error();
        return nb::steal(value);
#else
        PyObject *const value = PyDict_GetItemWithError(sample.ptr(), name.ptr());
        if (!value && PyErr_Occurred()) throw nb::python_error();
        return nb::borrow(value);
#endif
    }

    bool is_full() const {
        return paused_ || count() >= room_samples_ || bytes_ >= most_bytes || 4 * bytes_ + framing() >= room_bytes_;
    }

    std::size_t framing() const { return count() * (names_.size() + 1) * overhead; }

    // Whether an array refers to the samples.
    bool is_shared() const {
        if (samples_.use_count() > 1) return true;
        std::atomic_thread_fence(
            std::memory_order_acquire);  // after the last reads of an array that another thread had
        return false;
    }

    // Samples that no array refers to.
    BufferedSamples &own() {
        if (is_shared()) samples_ = std::make_shared<BufferedSamples>(*samples_);
        return *samples_;
    }

    // Find the values of all fields. Return false if the sample has to be written in another way.
    bool find(nb::handle sample, ForFields<nb::object> &values) const {
        std::size_t stored = 0;
        Contents contents;
        for (std::size_t field = 0; field < names_.size(); ++field) {
            nb::object value = item(sample, names_[field]);
            bool fits = value.is_valid() && !value.is_none();
            if (fits && is_stored(value.ptr())) {
                fits = contents.of(value.ptr()) && (stored += contents.size) <= large && !starts_refused(contents);
            }
            if (!fits) return false;
            values[field] = std::move(value);
        }
        return true;
    }

    bool starts_refused(const Contents &contents) const {
        return !refused_start_.empty() && contents.size >= refused_start_.size() &&
               std::memcmp(contents.data, refused_start_.data(), refused_start_.size()) == 0;
    }

    // Encode values that are not bytes-like. This runs code of others, before anything is stored.
    void encode(ForFields<nb::object> &values) const {
        for (std::size_t field = 0; field < values.size(); ++field) {
            if (!is_stored(values[field].ptr())) values[field] = encoders_[field](values[field]);
        }
    }

    bool is_good(const nb::object &key) const {
        if (!PyUnicode_CheckExact(key.ptr()) || !PyUnicode_IS_COMPACT_ASCII(key.ptr())) return false;
        const auto length = static_cast<std::size_t>(PyUnicode_GET_LENGTH(key.ptr()));
        return length <= longest_key_ && is_harmless(text(key), length);
    }

    // Add a key to those that are known, unless it is one of them.
    bool is_new(const nb::object &key) const {
        if (known_.is_none()) return false;
        const nb::ft_object_guard guard(known_);
        return nb::inst_ptr<KeySet>(known_)->add(key);
    }

    std::int64_t store(ForFields<Contents> &contents, const char *key, std::size_t length) {
        const std::int64_t position = next();
        BufferedSamples &samples = own();
        for (std::size_t field = 0; field < contents.size(); ++field) {
            samples.columns[field].add(contents[field].data, contents[field].size);
            bytes_ += contents[field].size;
        }
        if (keyed_) {
            samples.keys.add(key, length);
            bytes_ += length;
        }
        paused_ = is_full() || coarse_time() >= deadline_;
        return paused_ ? refused - 1 - position : position;
    }

    static nb::object view(const std::shared_ptr<BufferedSamples> &samples, const GrowingValues &values,
                           std::size_t first) {
        nb::capsule owner(new std::shared_ptr<BufferedSamples>(samples),
                          [](void *kept) noexcept { delete static_cast<std::shared_ptr<BufferedSamples> *>(kept); });
        return nb::make_tuple(nb::cast(nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>>(
                                  values.data.data(), {values.data.size()}, owner)),
                              nb::cast(nb::ndarray<nb::numpy, const std::int64_t, nb::ndim<1>>(
                                  values.offsets.data() + first, {values.offsets.size() - first}, owner)));
    }

    std::vector<nb::object> names_, encoders_;
    nb::object key_name_;
    bool keyed_, numbered_;
    std::size_t longest_key_;
    std::string refused_start_;
    std::shared_ptr<BufferedSamples> samples_;
    std::size_t room_samples_ = 0, room_bytes_ = 0, bytes_ = 0;
    double deadline_ = 0;
    std::int64_t first_ = 0, number_ = 0;
    nb::object known_ = nb::none();
    bool counted_ = false, paused_ = true;
};

}  // namespace

void bind_sample_buffer(nb::module_ &module) {
    nb::class_<KeySet>(module, "KeySet")
        .def(nb::init<>())
        .def("__len__", &KeySet::size, nb::lock_self())
        .def("__contains__", &KeySet::has, nb::arg("key"), nb::lock_self())
        .def("add", &KeySet::add, nb::arg("key"), nb::lock_self())
        .def("discard", &KeySet::discard, nb::arg("key"), nb::lock_self())
        .def("add_all", &KeySet::add_all, nb::arg("keys"), nb::lock_self())
        .def("first_of", &KeySet::first_of, nb::arg("keys"), nb::lock_self());
    nb::class_<SampleBuffer>(module, "SampleBuffer")
        .def(nb::init<nb::sequence, nb::object, bool, bool, std::size_t, nb::bytes>(), nb::arg("fields"),
             nb::arg("key_name"), nb::arg("keyed"), nb::arg("numbered"), nb::arg("longest_key"),
             nb::arg("refused_start"))
        .def_prop_ro("count", &SampleBuffer::count, nb::lock_self())
        .def_prop_ro("next", &SampleBuffer::next, nb::lock_self())
        .def("pause", &SampleBuffer::pause, nb::lock_self())
        .def("clear", &SampleBuffer::clear, nb::lock_self())
        .def("restart", &SampleBuffer::restart, nb::arg("samples"), nb::arg("bytes"), nb::arg("seconds"),
             nb::arg("position") = 0, nb::arg("number") = 0, nb::arg("known").none() = nb::none(), nb::lock_self())
        .def("add", &SampleBuffer::add, nb::arg("sample").none(), nb::arg("key").none() = nb::none(),
             nb::lock_self())
        .def("drop_last", &SampleBuffer::drop_last, nb::lock_self())
        .def("rows", &SampleBuffer::rows, nb::arg("first"), nb::lock_self());
}

}  // namespace bushel
