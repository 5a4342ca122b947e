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

inline const MappedFile &file_argument(const Sequence &files, std::size_t number, std::vector<nb::object> &kept) {
    const nb::handle object = files[number];
    if (!nb::isinstance<MappedFile>(object)) {
        raise_type_error("files[" + std::to_string(number) + "] is not a MappedFile");
    }
    kept.push_back(nb::borrow(object));
    return *nb::inst_ptr<MappedFile>(object);
}

inline bool is_among(const Sequence &files, Py_ssize_t number) {
    return number >= 0 && static_cast<std::size_t>(number) < files.size();
}

[[noreturn]] inline void raise_file_number(const std::string &what, Py_ssize_t number, const Sequence &files) {
    raise_value_error(what + " is " + std::to_string(number) + ", but there are " + std::to_string(files.size()) +
                      " files");
}

// Find those files of a list that rows of a batch are in, given the number of each row's file.
inline void find_files(Batch &batch, const Sequence &files, std::vector<nb::object> &kept) {
    batch.files.assign(files.size(), nullptr);
    for (std::size_t row = 0; row < batch.rows; ++row) {
        if (batch.missing(row)) continue;
        const std::int32_t number = batch.file[row];
        if (!is_among(files, number)) raise_file_number("file[" + std::to_string(row) + "]", number, files);
        const MappedFile *&known = batch.files[static_cast<std::size_t>(number)];
        if (!known) known = &file_argument(files, static_cast<std::size_t>(number), kept);
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
        const Sequence list(files, "files: expected a list of MappedFile");
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
            const Py_ssize_t number = file_number(file);
            if (!is_among(list, number)) raise_file_number("file", number, list);
            batch_.files.push_back(&file_argument(list, static_cast<std::size_t>(number), kept_));
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
