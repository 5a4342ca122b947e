#include "scans/sample_names.hpp"

#include <stdexcept>

namespace bushel {

namespace {

// Whether the first part of a name is `__like_this__`. As the original's regular expression has it, a line feed at the
// end of the name does not count.
inline bool is_meta(std::string_view name) {
    if (name.size() < 4 || name[0] != '_' || name[1] != '_') return false;
    std::string_view first = name.substr(0, name.find('/'));
    if (first.size() == name.size() && first.back() == '\n') first.remove_suffix(1);
    return first.size() >= 4 && first[first.size() - 1] == '_' && first[first.size() - 2] == '_';
}

// Return the place of the dot between key and extension; npos for a name that belongs to no sample.
inline std::size_t dot_of(std::string_view name) {
    const std::size_t base = name.rfind('/') + 1;  // 0 without a slash
    const std::size_t dot = name.find('.', base);
    if (dot == std::string_view::npos || is_meta(name)) return std::string_view::npos;
    if (dot > base) return dot;
    if (base == 0) return std::string_view::npos;
    // a hidden file, whose key is its folder if this has no dots
    const std::size_t folder = base >= 2 ? name.rfind('/', base - 2) + 1 : 0;
    const bool dotted = name.substr(folder, base - folder).find('.') != std::string_view::npos;
    return dotted ? std::string_view::npos : dot;
}

}  // namespace

std::int32_t ExtensionNumbers::find(std::string_view extension) {
    auto known = numbers_.find(extension);
    if (known == numbers_.end()) {
        known = numbers_.emplace(extension, static_cast<std::int32_t>(extensions_.size())).first;
        extensions_.emplace_back(extension);
        next_.push_back(0);
    }
    const std::int32_t number = known->second;
    next_[last_] = number;
    last_ = static_cast<std::size_t>(number);
    return number;
}

GroupedNames SampleNames::group(const std::uint8_t *names, const std::int64_t *offsets, std::int64_t count, bool last) {
    GroupedNames grouped;
    std::string_view key;
    for (std::int64_t row = 0; row < count; ++row) {
        const std::string_view name(reinterpret_cast<const char *>(names + offsets[row]),
                                    static_cast<std::size_t>(offsets[row + 1] - offsets[row]));
        const std::size_t dot = dot_of(name);
        if (dot == std::string_view::npos) continue;
        const std::string_view key_here = name.substr(0, dot);
        if (key_here != key) {  // a key is never empty
            key = key_here;
            grouped.text.insert(grouped.text.end(), key.begin(), key.end());
            grouped.ends.push_back(static_cast<std::int64_t>(grouped.text.size()));
        }
        grouped.row.push_back(row);
        grouped.sample.push_back(static_cast<std::int64_t>(grouped.ends.size()) - 1);
        grouped.extension.push_back(extensions_.number_of(name.substr(dot + 1)));
    }
    grouped.used = count;
    if (last || grouped.ends.empty()) return grouped;
    while (!grouped.sample.empty() && grouped.sample.back() == static_cast<std::int64_t>(grouped.ends.size()) - 1) {
        grouped.used = grouped.row.back();
        grouped.row.pop_back(), grouped.sample.pop_back(), grouped.extension.pop_back();
    }
    grouped.ends.pop_back();
    grouped.text.resize(grouped.ends.empty() ? 0 : static_cast<std::size_t>(grouped.ends.back()));
    return grouped;
}

MemberGroups::MemberGroups(const std::uint8_t *names, std::size_t size, const std::int64_t *offsets, std::size_t count)
    : names_(names), size_(size), offsets_(offsets), count_(count), table_(1024, no_sample), seed_(random_seed()) {}

void MemberGroups::group(const std::int64_t *members, std::size_t count, std::int64_t *sample, std::int32_t *extension) {
    for (std::size_t i = 0; i < count; ++i) {
        const std::string_view name = name_of(members[i]);
        const std::size_t dot = dot_of(name);
        if (dot == std::string_view::npos) {
            sample[i] = extension[i] = -1;
            continue;
        }
        const std::string_view key = name.substr(0, dot);
        if (last_ == no_sample || key_of(last_) != key) last_ = sample_of(key);
        sample[i] = last_;
        extension[i] = extensions.number_of(name.substr(dot + 1));
    }
}

void MemberGroups::append_keys(std::size_t first, std::vector<std::uint8_t> &text, std::vector<std::int64_t> &ends) const {
    for (std::size_t sample = first; sample < samples(); ++sample) {
        const std::string_view key = key_of(static_cast<std::uint32_t>(sample));
        text.insert(text.end(), key.begin(), key.end());
        ends.push_back(static_cast<std::int64_t>(text.size()));
    }
}

std::string_view MemberGroups::name_of(std::int64_t member) const {
    if (member < 0 || static_cast<std::size_t>(member) >= count_) throw std::invalid_argument("a member is not among the names");
    const std::int64_t begin = offsets_[member], end = offsets_[member + 1];
    if (begin < 0 || end < begin || static_cast<std::uint64_t>(end) > size_ || end - begin > 0xFFFFFFFF)
        throw std::invalid_argument("a name is not inside the text of all names");
    return {reinterpret_cast<const char *>(names_) + begin, static_cast<std::size_t>(end - begin)};
}

std::uint32_t MemberGroups::sample_of(std::string_view key) {
    std::size_t place = place_of(key);
    for (; table_[place] != no_sample; place = (place + 1) & (table_.size() - 1))
        if (key_of(table_[place]) == key) return table_[place];
    if (samples() >= no_sample) throw std::invalid_argument("there are 4294967295 samples or more");
    const auto sample = static_cast<std::uint32_t>(samples());
    begin_.push_back(reinterpret_cast<const std::uint8_t *>(key.data()) - names_);
    length_.push_back(static_cast<std::uint32_t>(key.size()));
    table_[place] = sample;
    if (2 * samples() > table_.size()) grow();
    return sample;
}

// Return where a key may be in the table, or after that.
std::size_t MemberGroups::place_of(std::string_view key) const {
    return static_cast<std::size_t>(SipHash(seed_).of(key)) & (table_.size() - 1);
}

void MemberGroups::grow() {
    table_.assign(2 * table_.size(), no_sample);
    for (std::uint32_t sample = 0; sample < samples(); ++sample) {
        std::size_t place = place_of(key_of(sample));
        while (table_[place] != no_sample) place = (place + 1) & (table_.size() - 1);
        table_[place] = sample;
    }
}

}  // namespace bushel
