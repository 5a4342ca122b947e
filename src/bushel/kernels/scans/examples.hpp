// A scan of TFRecord files whose records all are usual tf.train.Examples: each feature has at most one value of bytes, or
// its numbers in one piece. Values go into blocks of lines (line_blocks.hpp). TfrecordScan reads all other files.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "scans/lines.hpp"

namespace bushel {

class ExampleScan {
public:
    // `vectors` says whether vectors are used, where the processor has them.
    explicit ExampleScan(bool vectors = true);

    // Scan whole records, up to the one that makes the scan full, and return how many bytes they take. `start` is the
    // position of the bytes in the file. If no record is whole, `need` is the number of bytes to feed next.
    std::size_t feed(const std::uint8_t *data, std::size_t size, std::int64_t start);

    // Take out all samples as a block, which is valid until the next call.
    const std::vector<std::uint8_t> &take();

    // Whether the samples must be taken out before more bytes are fed.
    bool full() const { return static_cast<std::size_t>(row_) * (names_.size() + 1) > most_values(); }

    // Whether a record is not as usual: it is damaged, not an Example, or one that blocks of lines cannot have. This
    // ends the scan, and what it has is of no use.
    bool unusual() const { return unusual_; }

    std::size_t need() const { return need_; }
    std::int32_t rows() const { return row_; }       // samples since some were taken
    std::int64_t values() const { return values_of_all_; }  // of all samples
    std::size_t fields() const { return names_.size(); }
    const std::string &name(std::size_t field) const { return names_[field]; }
    std::uint8_t kind(std::size_t field) const { return kinds_[field]; }  // 1 bytes, 2 floats, 3 integers

    // Facts of the samples that were taken: the kinds are `bare` for bytes and for lists without numbers, `integer` and
    // `real` for a single number, and `nested` for more.
    const FieldFacts &facts(std::size_t field) const { return facts_[field]; }
    std::size_t known_facts() const { return facts_.size(); }

    static constexpr std::size_t most_fields = 512;

private:
    friend struct FastExamples;

    // The bytes of an entry before its value: where lengths have one byte each, they differ by that of the value.
    struct Lead {
        static constexpr std::size_t longest = 64;
        std::uint8_t bytes[longest];
        std::uint8_t varies[longest];  // 255 for lengths that the length of the value is added to
        std::uint64_t mask = 0;        // a bit for each byte
        std::size_t size = 0;          // 0: none
        std::size_t length = 0;        // of the value, if lengths have more bytes; then none varies
        std::uint8_t most = 0;         // greatest length for which all lengths have one byte
        std::uint8_t kind = 0;
        std::size_t field = 0;
    };

    bool example(const std::uint8_t *at, const std::uint8_t *end);
    const std::uint8_t *entry(const std::uint8_t *at, const std::uint8_t *limit, std::size_t place);
    bool put(std::size_t field, std::uint8_t kind, const std::uint8_t *value, std::size_t size);
    void learn(std::size_t place, const std::uint8_t *entry, const std::uint8_t *value, std::size_t size,
               std::size_t chars, std::size_t field);
    std::int64_t field_of(std::string_view name, std::uint8_t kind, std::size_t place);
    // Few values stay in the processor's cache; but fields take time, however few values they have.
    std::size_t most_values() const {
        constexpr std::size_t few = std::size_t{1} << 15, most = std::size_t{1} << 19, rows = 4096;
        return std::clamp((names_.size() + 1) * rows, few, most);
    }

    std::vector<std::string> names_;
    std::vector<std::uint8_t> kinds_;
    std::unordered_map<std::string, std::size_t> numbers_;
    std::vector<FieldValues> fields_;
    std::vector<FieldFacts> facts_;
    std::vector<std::int64_t> starts_;
    std::vector<std::uint8_t> block_;
    std::vector<Lead> leads_;  // of the entries of the record before: the next one usually has the same
    std::int32_t row_ = 0;
    std::int64_t taken_ = 0, values_of_all_ = 0;
    std::size_t need_ = 0;
    bool vectors_, unusual_ = false;
    const std::uint8_t *limit_ = nullptr, *record_ = nullptr;
};

}  // namespace bushel
