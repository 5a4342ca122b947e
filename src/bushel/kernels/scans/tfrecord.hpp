// A scan of the records of a TFRecord file, and of the features of those that are tf.train.Examples.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace bushel {

// The values of one feature. Positions count from the start of the file; -1 - n stands for position n of all bytes that
// TfrecordScan::held has had.
struct ExampleFeature {
    std::string name;
    std::uint8_t kind = 0;                              // 1 bytes, 2 floats, 3 integers, as in Feature
    std::int64_t most = 0;                              // values of the record that has most of them
    bool copied = false;                                // whether values of a record are in TfrecordScan::held
    std::vector<std::int64_t> record;                   // a row for each record that has the feature
    std::vector<std::int64_t> count;                    // of bytes: values of each of these records
    std::vector<std::int64_t> offset, length, first;    // of floats and integers: packed values, and the first one
    std::vector<std::int64_t> value_offset, value_length;  // of bytes: all values, one after another
};

class TfrecordScan {
public:
    // `examples`: whether to read features. `checksums`: whether to compare the checksums of the data.
    TfrecordScan(bool examples, bool checksums) : parsing_(examples), checksums_(checksums) {}

    // Read the complete records of the bytes that follow those read before. Return the number of bytes that they have.
    // If that is 0, `need` is the number of bytes to feed next, unless there is a problem.
    std::size_t feed(const std::uint8_t *data, std::size_t size);

    // Forget the rows of the records so far, which the caller has moved elsewhere; names and kinds of features stay.
    void forget_rows();

    std::vector<std::int64_t> offset, length;  // of the data of each record
    std::deque<ExampleFeature> features;
    std::vector<std::uint8_t> held;             // lists of numbers that are not in one piece
    std::vector<std::int64_t> wrong;            // numbers of the records whose data have another checksum
    std::size_t rows = 0;                       // of records, of their features, and of values of bytes
    std::int64_t end = 0;                       // of the last complete record
    std::uint64_t need = 0;
    std::string problem;  // empty: none. It ends the scan, at `end`.
    std::int64_t other = -1;  // number of the first record that is not an Example
    std::string reason;       // why it is not one
    bool others = false;      // whether records before it have features; if it is the first record, the second one

private:
    void read_example(const std::uint8_t *data, std::size_t size);
    void read_feature(std::string_view name, const std::uint8_t *data, const std::uint8_t *end);
    void add_bytes(ExampleFeature &feature, const std::uint8_t *data, const std::uint8_t *end);
    void add_numbers(ExampleFeature &feature, const std::uint8_t *data, const std::uint8_t *end);
    ExampleFeature &feature_of(std::string_view name, std::uint8_t kind);

    std::int64_t last_record() const { return records_before_ + static_cast<std::int64_t>(offset.size()) - 1; }

    bool parsing_, checksums_;
    std::int64_t records_before_ = 0, held_before_ = 0;  // the rows of these records, and these bytes, are forgotten
    const std::uint8_t *base_ = nullptr;  // of the data of the current record
    std::unordered_map<std::string_view, ExampleFeature *> by_name_;
};

// Decode packed varints as int64. Throws std::invalid_argument if they are damaged.
std::vector<std::int64_t> decode_varints(const std::uint8_t *data, std::size_t size);

}  // namespace bushel
