// The samples that the members of an archive belong to, by their names.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/siphash.hpp"
#include "scans/sample_names.hpp"

namespace bushel {

// Divides names into keys and extensions by the rules of WebDataset (containers/tar/names.py). Members with the same key
// are a sample, wherever they are. The names stay with the caller: a sample takes 12 bytes, and a table of its hash 8 to 16.
class MemberGroups {
public:
    // `names`: all names, one after another. `offsets`: of each of the `count` names, and the end of the last one.
    MemberGroups(const std::uint8_t *names, std::size_t size, const std::int64_t *offsets, std::size_t count);

    // Find the sample of each of some members, and the number of its extension; -1 for a member that belongs to none.
    // Samples are numbered as they appear. Throws std::invalid_argument if a number or an offset is not inside.
    void group(const std::int64_t *members, std::size_t count, std::int64_t *sample, std::int32_t *extension);

    // Append the keys of the samples from `first` on to `text`, and the end of each in it to `ends`.
    void append_keys(std::size_t first, std::vector<std::uint8_t> &text, std::vector<std::int64_t> &ends) const;

    std::size_t samples() const { return begin_.size(); }

    ExtensionNumbers extensions;

private:
    static constexpr std::uint32_t no_sample = 0xFFFFFFFF;

    std::string_view name_of(std::int64_t member) const;
    std::string_view key_of(std::uint32_t sample) const {
        return {reinterpret_cast<const char *>(names_) + begin_[sample], length_[sample]};
    }
    std::uint32_t sample_of(std::string_view key);
    std::size_t place_of(std::string_view key) const;
    void grow();

    const std::uint8_t *names_;
    std::size_t size_;
    const std::int64_t *offsets_;
    std::size_t count_;
    std::vector<std::int64_t> begin_;    // of the key of each sample in the names
    std::vector<std::uint32_t> length_;  // of the key of each sample
    std::vector<std::uint32_t> table_;   // samples by the hash of their key, at most half full
    std::uint32_t last_ = no_sample;
    Seed seed_;
};

}  // namespace bushel
