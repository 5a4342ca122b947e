// Python bindings: RangeValues, which copies the values of a range of a file out of the chunks in which it arrives.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "common/python.hpp"

namespace bushel {

namespace {

constexpr std::size_t worth_preparing = std::size_t{32} << 10;  // bytes of new memory

// Get the pages of new memory from the system in one call, which takes half of the time of a page fault for each.
void prepare(std::uint8_t *begin, std::uint8_t *end) {
#ifdef __linux__
#ifndef MADV_POPULATE_WRITE
    constexpr int MADV_POPULATE_WRITE = 23;  // since Linux 5.14
#endif
    static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    if (static_cast<std::size_t>(end - begin) < worth_preparing) return;
    const auto first = (reinterpret_cast<std::uintptr_t>(begin) + page - 1) / page * page;
    const auto last = reinterpret_cast<std::uintptr_t>(end) / page * page;
    const int known = errno;
    // without it, or if it fails, writing gets the pages
    if (first < last) madvise(reinterpret_cast<void *>(first), last - first, MADV_POPULATE_WRITE);
    errno = known;
#else
    (void)begin, (void)end;
#endif
}

class RangeValues {
public:
    RangeValues(nb::handle offset, nb::handle length) {
        const auto offsets = array_argument<const std::int64_t>(offset, "offset");
        const auto lengths = array_argument<const std::int64_t>(length, "length");
        if (offsets.size() != lengths.size()) throw nb::value_error("offset and length must have the same size");
        std::int64_t last = 0;
        for (std::size_t row = 0; row < offsets.size(); ++row) {
            const Extent value{offsets.data()[row], lengths.data()[row]};
            if (value.offset < last || value.length < 0 || value.offset > INT64_MAX - value.length)
                throw nb::value_error("extents must be ordered by offset, and none may be negative");
            last = value.offset;
            needed_ = std::max(needed_, value.offset + value.length);
            extents_.push_back(value);
        }
        values_ = nb::steal(PyList_New(static_cast<Py_ssize_t>(extents_.size())));
        if (!values_.is_valid()) throw nb::python_error();
        for (std::size_t row = 0; row < extents_.size(); ++row) {
            PyObject *const value = PyBytes_FromStringAndSize(nullptr, extents_[row].length);
            if (!value) throw nb::python_error();
            PyList_SET_ITEM(values_.ptr(), static_cast<Py_ssize_t>(row), value);
            out_.push_back(reinterpret_cast<std::uint8_t *>(PyBytes_AS_STRING(value)));
        }
    }

    // Take the next bytes of the range.
    void put(nb::handle data) {
        if (taken_) throw nb::value_error("the values have been taken");
        const BufferArgument chunk(data);
        const auto size = static_cast<std::int64_t>(chunk.size());
        if (size > INT64_MAX - position_) throw nb::value_error("the range is too long");
        const std::int64_t begin = position_, end = begin + size;
        const nb::gil_scoped_release unlocked;
        prepare_until(end);
        for (std::size_t row = first_; row < extents_.size() && extents_[row].offset < end; ++row) {
            const Extent value = extents_[row];
            const std::int64_t from = std::max(begin, value.offset), to = std::min(end, value.offset + value.length);
            if (from < to)
                std::memcpy(out_[row] + (from - value.offset), chunk.data() + (from - begin),
                            static_cast<std::size_t>(to - from));
        }
        while (first_ < extents_.size() && extents_[first_].offset + extents_[first_].length <= end) ++first_;
        position_ = end;
    }

    // Begin with the first byte of the range again.
    void restart() {
        position_ = 0;
        first_ = 0;
    }

    std::int64_t arrived() const { return position_; }

    nb::object take() {
        if (taken_ || position_ < needed_) throw nb::value_error("the range has not arrived");
        taken_ = true;
        return values_;
    }

private:
    struct Extent {
        std::int64_t offset, length;
    };

    // Prepare the memory of values before their first bytes come; values that are beside each other together.
    void prepare_until(std::int64_t arrived) {
        constexpr std::uintptr_t beside = 256;
        std::uint8_t *begin = nullptr, *end = nullptr;
        for (; prepared_ < extents_.size() && extents_[prepared_].offset < arrived; ++prepared_) {
            std::uint8_t *const value = out_[prepared_];
            if (!begin || reinterpret_cast<std::uintptr_t>(value) - reinterpret_cast<std::uintptr_t>(end) > beside) {
                prepare(begin, end);
                begin = value;
            }
            end = value + extents_[prepared_].length;
        }
        prepare(begin, end);
    }

    std::vector<Extent> extents_;
    std::vector<std::uint8_t *> out_;  // where the bytes of `values_` are
    nb::object values_;
    std::atomic<std::int64_t> position_ = 0;  // other threads look at it
    std::int64_t needed_ = 0;
    std::size_t first_ = 0, prepared_ = 0;  // values before these are complete, and have their memory
    bool taken_ = false;
};

}  // namespace

void bind_range_values(nb::module_ &module) {
    nb::class_<RangeValues>(module, "RangeValues")
        .def(nb::init<nb::handle, nb::handle>(), nb::arg("offset"), nb::arg("length"))
        .def_prop_ro("arrived", &RangeValues::arrived)
        .def("put", &RangeValues::put, nb::arg("data"), nb::lock_self())
        .def("restart", &RangeValues::restart, nb::lock_self())
        .def("take", &RangeValues::take, nb::lock_self());
}

}  // namespace bushel
