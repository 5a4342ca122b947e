#include "scans/member_groups.hpp"

#include <stdexcept>

namespace bushel {

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
