#include "scans/sample_names.hpp"

namespace bushel {

namespace {

// Whether the first part of a name is `__like_this__`. As the original's regular expression has it, a line feed at the
// end of the name does not count.
bool is_meta(std::string_view name) {
    if (name.size() < 4 || name[0] != '_' || name[1] != '_') return false;
    std::string_view first = name.substr(0, name.find('/'));
    if (first.size() == name.size() && first.back() == '\n') first.remove_suffix(1);
    return first.size() >= 4 && first[first.size() - 1] == '_' && first[first.size() - 2] == '_';
}

}  // namespace

std::size_t dot_of(std::string_view name) {
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

std::int32_t ExtensionNumbers::number_of(std::string_view extension) {
    if (!extensions_.empty() && extensions_[static_cast<std::size_t>(next_[last_])] == extension) {
        last_ = static_cast<std::size_t>(next_[last_]);
        return static_cast<std::int32_t>(last_);
    }
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
        if (name.substr(0, dot) != key) {  // a key is never empty
            key = name.substr(0, dot);
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

}  // namespace bushel
