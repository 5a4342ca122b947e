// Arguments of the bindings that read batches of extents.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "common/python.hpp"
#include "files/batched_read.hpp"

namespace bushel {

// Smaller batches are copied faster than the interpreter lock is released and taken again.
constexpr std::int64_t keep_lock_below = 64 * 1024;

inline void copy_without_lock(const Batch &batch, std::uint8_t *const *out) {
    const nb::gil_scoped_release unlocked;
    copy(batch, out);
}

// Copy a batch of `total` bytes, with the interpreter lock if it is small and in memory.
inline void copy_quickly(const Batch &batch, std::int64_t total, std::uint8_t *const *out) {
    if (total >= keep_lock_below || !in_memory(batch))
        copy_without_lock(batch, out);
    else
        copy(batch, out);
}

inline const MappedFile &file_argument(nb::handle files, Py_ssize_t number, std::vector<nb::object> &kept) {
    const nb::handle object = PySequence_Fast_GET_ITEM(files.ptr(), number);
    if (!nb::isinstance<MappedFile>(object)) {
        throw nb::type_error(("files[" + std::to_string(number) + "] is not a MappedFile").c_str());
    }
    kept.push_back(nb::borrow(object));
    return *nb::inst_ptr<MappedFile>(object);
}

[[noreturn]] inline void throw_file_number(const std::string &what, Py_ssize_t number, Py_ssize_t count) {
    throw nb::value_error(
        (what + " is " + std::to_string(number) + ", but there are " + std::to_string(count) + " files").c_str());
}

// Find those files of a list that rows of a batch are in, given the number of each row's file.
inline void find_files(Batch &batch, nb::handle list, std::vector<nb::object> &kept) {
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(list.ptr());
    batch.files.assign(static_cast<std::size_t>(count), nullptr);
    for (std::size_t row = 0; row < batch.rows; ++row) {
        if (batch.missing(row)) continue;
        const std::int32_t number = batch.file[row];
        if (number < 0 || number >= count) throw_file_number("file[" + std::to_string(row) + "]", number, count);
        const MappedFile *&known = batch.files[static_cast<std::size_t>(number)];
        if (!known) known = &file_argument(list, number, kept);
    }
}

// A number of a file; -1 for one that is too large.
inline Py_ssize_t file_number(nb::handle number) {
    const Py_ssize_t value = PyLong_AsSsize_t(number.ptr());
    if (value == -1 && PyErr_Occurred()) PyErr_Clear();
    return value;
}

// A batch, and the Python objects whose memory it borrows.
class BatchArgument {
public:
    BatchArgument(nb::handle files, nb::handle file, nb::handle offset, nb::handle length, nb::handle crc) {
        const nb::object list = sequence_argument(files, "files: expected a list of MappedFile");
        offset_ = array_argument<const std::int64_t>(offset, "offset");
        length_ = array_argument<const std::int64_t>(length, "length");
        batch_.offset = offset_.data();
        batch_.length = length_.data();
        batch_.rows = offset_.size();
        bool equal = length_.size() == batch_.rows;
        if (!crc.is_none()) {
            crc_ = array_argument<const std::uint32_t>(crc, "crc32");
            batch_.crc = crc_.data();
            equal = equal && crc_.size() == batch_.rows;
        }
        if (PyLong_Check(file.ptr())) {
            const Py_ssize_t number = file_number(file), count = PySequence_Fast_GET_SIZE(list.ptr());
            if (number < 0 || number >= count) throw_file_number("file", number, count);
            batch_.files.push_back(&file_argument(list, number, kept_));
        } else {
            file_ = array_argument<const std::int32_t>(file, "file");
            batch_.file = file_.data();
            equal = equal && file_.size() == batch_.rows;
        }
        if (!equal) throw nb::value_error("file, offset, length and crc32 must have the same number of rows");
        if (batch_.file) find_files(batch_, list, kept_);
    }

    const Batch &operator*() const { return batch_; }
    const Batch *operator->() const { return &batch_; }

private:
    Array<const std::int64_t> offset_, length_;
    Array<const std::int32_t> file_;
    Array<const std::uint32_t> crc_;
    std::vector<nb::object> kept_;
    Batch batch_;
};

}  // namespace bushel
