// Many values at once in the form in which containers store them: RecordIO records, lines of an .idx, members of a tar.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace bushel {

// Values one after another: value i is data[offsets[i]] up to data[offsets[i + 1]]. Borrowed and checked by the caller.
struct Values {
    const std::uint8_t *data = nullptr;
    const std::int64_t *offsets = nullptr;
    std::size_t count = 0;

    const std::uint8_t *at(std::size_t row) const { return data + offsets[row]; }
    std::size_t length(std::size_t row) const { return static_cast<std::size_t>(offsets[row + 1] - offsets[row]); }
};

// The bytes of all samples, and the end of each one. The bytes are not zeroed before they are written.
struct Framed {
    void allocate(std::size_t count) {
        bytes.reset(new std::uint8_t[count]);
        size = count;
    }

    std::unique_ptr<std::uint8_t[]> bytes;
    std::size_t size = 0;
    std::vector<std::int64_t> ends;
};

// One RecordIO record per value; split[i] is whether value i contains the magic word, so that it is stored in parts.
Framed frame_recordio(const Values &values, std::vector<std::uint8_t> &split);

// One line `key TAB offset LF` per record. Without `keys`, the keys are the numbers from `first` on.
Framed frame_idx(const Values *keys, std::int64_t first, const std::int64_t *offsets, std::size_t count);

// The members of each sample, in the order of `suffixes`: a header, the value, and zeros up to a multiple of 512 bytes.
// `header` is a header whose name and size are empty. Names must have at most 100 bytes, and values less than 8 GiB.
// starts[i * fields + j] is where value j of sample i begins. The caller writes values of more than `longest` bytes
// itself: they are left out of the bytes, and places[i * fields + j] is where they belong in them; -1 for the others.
// Starts and ends count all values.
Framed frame_tar(const std::uint8_t *header, const Values &keys, const std::vector<std::string> &suffixes,
                 const std::vector<Values> &fields, std::size_t longest, std::vector<std::int64_t> &starts,
                 std::vector<std::int64_t> &places);

}  // namespace bushel
