// Grouping the members of an archive into samples by their names, as WebDataset does (containers/tar/names.py).
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace bushel {

// Return the place of the dot between key and extension; npos for a name that belongs to no sample.
std::size_t dot_of(std::string_view name);

// Numbers extensions in the order in which they appear. Most follow the same one as the last time.
class ExtensionNumbers {
public:
    std::int32_t number_of(std::string_view extension);

    const std::vector<std::string> &all() const { return extensions_; }

private:
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

}  // namespace bushel
