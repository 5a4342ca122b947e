// Grouping the members of an archive into samples by their names, as WebDataset does.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace bushel {

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

    const std::vector<std::string> &extensions() const { return extensions_; }

private:
    std::int64_t number(std::string_view extension);

    std::map<std::string, std::int64_t, std::less<>> numbers_;
    std::vector<std::string> extensions_;
    std::vector<std::int64_t> next_;  // the extension that came after each when it was met last
    std::int64_t before_ = -1;        // the last extension
};

}  // namespace bushel
