// The samples that the members of an archive belong to by their names, as WebDataset has it (containers/tar/names.py).
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/siphash.hpp"

namespace bushel {

// Numbers extensions in the order in which they appear. Most follow the same one as the last time.
class ExtensionNumbers {
public:
    std::int32_t number_of(std::string_view extension) {
        if (extensions_.empty()) return find(extension);
        const auto likely = static_cast<std::size_t>(next_[last_]);
        if (extensions_[likely] != extension) return find(extension);
        last_ = likely;
        return static_cast<std::int32_t>(likely);
    }

    const std::vector<std::string> &all() const { return extensions_; }

private:
    std::int32_t find(std::string_view extension);

    std::vector<std::string> extensions_;
    std::vector<std::int32_t> next_;  // the extension that came after each one, the last time
    std::size_t last_ = 0;
    std::map<std::string, std::int32_t, std::less<>> numbers_;
};

// The members among some that belong to samples.
struct GroupedNames {
    std::int64_t used = 0;                // number of members that were grouped
    std::vector<std::int64_t> row;        // numbers of those that belong to a sample
    std::vector<std::int64_t> sample;     // number of the sample of each, from 0 on
    std::vector<std::int64_t> extension;  // number of the extension of each
    std::vector<std::uint8_t> text;       // the keys of the samples
    std::vector<std::int64_t> ends;       // where each key ends
};

// Numbers the extensions of the members of an archive, and groups members that follow each other and have one key.
class SampleNames {
public:
    // Group members, given their names, name i from offsets[i] to offsets[i + 1]. The members from the last sample on
    // are left for the next call, unless these are the last ones.
    GroupedNames group(const std::uint8_t *names, const std::int64_t *offsets, std::int64_t count, bool last);

    const std::vector<std::string> &extensions() const { return extensions_.all(); }

private:
    ExtensionNumbers extensions_;
};

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
