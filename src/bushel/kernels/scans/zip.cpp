#include "scans/zip.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "common/bytes.hpp"
#include "files/crc32.hpp"

namespace bushel {

namespace {

constexpr std::size_t entry_size = 46, header_size = 30;
constexpr std::uint8_t newest_version = 63;
constexpr std::uint16_t utf8_flag = 0x800, zip64_extra = 1, unicode_path_extra = 0x7075;
constexpr std::uint32_t elsewhere = 0xFFFFFFFF;  // a number is in the zip64 extra field

// Characters of code page 437 from 128 on.
constexpr std::uint16_t cp437[128] = {
    0x00C7, 0x00FC, 0x00E9, 0x00E2, 0x00E4, 0x00E0, 0x00E5, 0x00E7, 0x00EA, 0x00EB, 0x00E8, 0x00EF, 0x00EE, 0x00EC, 0x00C4, 0x00C5,
    0x00C9, 0x00E6, 0x00C6, 0x00F4, 0x00F6, 0x00F2, 0x00FB, 0x00F9, 0x00FF, 0x00D6, 0x00DC, 0x00A2, 0x00A3, 0x00A5, 0x20A7, 0x0192,
    0x00E1, 0x00ED, 0x00F3, 0x00FA, 0x00F1, 0x00D1, 0x00AA, 0x00BA, 0x00BF, 0x2310, 0x00AC, 0x00BD, 0x00BC, 0x00A1, 0x00AB, 0x00BB,
    0x2591, 0x2592, 0x2593, 0x2502, 0x2524, 0x2561, 0x2562, 0x2556, 0x2555, 0x2563, 0x2551, 0x2557, 0x255D, 0x255C, 0x255B, 0x2510,
    0x2514, 0x2534, 0x252C, 0x251C, 0x2500, 0x253C, 0x255E, 0x255F, 0x255A, 0x2554, 0x2569, 0x2566, 0x2560, 0x2550, 0x256C, 0x2567,
    0x2568, 0x2564, 0x2565, 0x2559, 0x2558, 0x2552, 0x2553, 0x256B, 0x256A, 0x2518, 0x250C, 0x2588, 0x2584, 0x258C, 0x2590, 0x2580,
    0x03B1, 0x00DF, 0x0393, 0x03C0, 0x03A3, 0x03C3, 0x00B5, 0x03C4, 0x03A6, 0x0398, 0x03A9, 0x03B4, 0x221E, 0x03C6, 0x03B5, 0x2229,
    0x2261, 0x00B1, 0x2265, 0x2264, 0x2320, 0x2321, 0x00F7, 0x2248, 0x00B0, 0x2219, 0x00B7, 0x221A, 0x207F, 0x00B2, 0x25A0, 0x00A0};

bool is_ascii(const std::uint8_t *text, std::size_t length) {
    std::uint8_t every = 0;
    for (std::size_t i = 0; i < length; ++i) every |= text[i];
    return every < 0x80;
}

// Whether a text is UTF-8: shortest forms of characters up to U+10FFFF, without surrogates.
bool is_utf8(const std::uint8_t *text, std::size_t length) {
    for (std::size_t i = 0; i < length;) {
        const std::uint8_t lead = text[i];
        if (lead < 0x80) {
            ++i;
            continue;
        }
        const std::size_t more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
        if (lead < 0xC2 || lead > 0xF4 || length - i <= more) return false;
        for (std::size_t k = 1; k <= more; ++k)
            if ((text[i + k] & 0xC0) != 0x80) return false;
        const std::uint8_t second = text[i + 1];
        if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second >= 0xA0) || (lead == 0xF0 && second < 0x90) ||
            (lead == 0xF4 && second >= 0x90))
            return false;
        i += more + 1;
    }
    return true;
}

// The numbers of an entry that a zip64 extra field may have.
struct Numbers {
    std::uint64_t size, stored, header;
};

// Take from a zip64 extra field the numbers that are elsewhere. Return whether it has them.
bool take_zip64(const std::uint8_t *data, std::size_t length, Numbers &numbers) {
    for (std::uint64_t *const number : {&numbers.size, &numbers.stored, &numbers.header}) {
        if (*number != elsewhere) continue;
        if (length < 8) return false;
        *number = little_64(data);
        data += 8, length -= 8;
    }
    return true;
}

}  // namespace

std::size_t ZipDirectory::feed(const std::uint8_t *data, std::size_t size) {
    std::size_t used = 0;
    while (problem.empty() && end < size_) {
        const std::uint8_t *const entry = data + used;
        const std::size_t left = size - used;
        const auto rest = static_cast<std::uint64_t>(size_ - end);
        need = entry_size;
        if (left >= entry_size) {
            if (std::memcmp(entry, "PK\1\2", 4) != 0) {
                problem = "no entry of the directory begins here";
                break;
            }
            need += std::uint64_t{little_16(entry + 28)} + little_16(entry + 30) + little_16(entry + 32);
        }
        if (need > rest) {
            problem = "an entry of the directory needs " + std::to_string(need) + " bytes, but " + std::to_string(rest) + " are left";
            break;
        }
        if (left < need) break;
        const auto length = static_cast<std::size_t>(need);
        read_entry(entry);
        if (!problem.empty()) break;
        used += length;
        end += static_cast<std::int64_t>(length);
    }
    return used;
}

ZipEntries ZipDirectory::take() { return std::exchange(entries_, ZipEntries()); }

void ZipDirectory::read_entry(const std::uint8_t *data) {
    const std::uint16_t flags = little_16(data + 8);
    const std::size_t stored_length = little_16(data + 28);
    const std::uint8_t *const stored_name = data + entry_size, *extra = stored_name + stored_length;
    if (data[6] > newest_version) {  // the next byte is the system of the writer
        problem = "an entry needs version " + std::to_string(data[6]) + " of the format; " + std::to_string(newest_version) + " is known";
        return;
    }
    Numbers numbers{little_32(data + 24), little_32(data + 20), little_32(data + 42)};
    const std::uint8_t *name = stored_name;
    std::size_t name_length = stored_length;
    bool utf8 = flags & utf8_flag;
    for (std::size_t left = little_16(data + 30); left >= 4;) {
        const std::size_t length = little_16(extra + 2);
        if (length + 4 > left) {
            problem = "an extra field of an entry has " + std::to_string(length) + " bytes, but " + std::to_string(left - 4) + " are left";
            return;
        }
        const std::uint8_t *const content = extra + 4;
        if (little_16(extra) == zip64_extra && !take_zip64(content, length, numbers)) {
            problem = "the zip64 field of an entry is too short for its numbers";
            return;
        }
        if (little_16(extra) == unicode_path_extra && length > 5 && content[0] == 1 &&
            little_32(content + 1) == crc32(stored_name, stored_length)) {  // else the name was changed without it
            name = content + 5, name_length = length - 5, utf8 = true;
        }
        extra += 4 + length, left -= 4 + length;
    }
    constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max() / 2);
    if (std::max({numbers.size, numbers.stored, numbers.header}) > most) {
        problem = "an entry has sizes or an offset that no file can have";
        return;
    }
    const std::size_t before = entries_.names.size();
    add_name(name, name_length, utf8);
    if (!problem.empty()) {
        entries_.names.resize(before);
        return;
    }
    entries_.name_offsets.push_back(static_cast<std::int64_t>(entries_.names.size()));
    entries_.header.push_back(static_cast<std::int64_t>(numbers.header) + shift_);
    entries_.stored.push_back(static_cast<std::int64_t>(numbers.stored));
    entries_.size.push_back(static_cast<std::int64_t>(numbers.size));
    entries_.crc32.push_back(little_32(data + 16));
    entries_.method.push_back(little_16(data + 10));
    entries_.flags.push_back(flags);
}

// Add a name up to its first zero byte, as readers of zip archives do.
void ZipDirectory::add_name(const std::uint8_t *name, std::size_t length, bool utf8) {
    if (utf8 && !is_utf8(name, length)) {
        problem = "the name of an entry is not UTF-8, which it is said to be";
        return;
    }
    length = static_cast<std::size_t>(std::find(name, name + length, 0) - name);
    if (utf8 || is_ascii(name, length)) {
        entries_.names.insert(entries_.names.end(), name, name + length);
    } else {
        for (std::size_t i = 0; i < length; ++i) {
            append_utf8(entries_.names, name[i] < 0x80 ? name[i] : cp437[name[i] - 0x80]);
        }
    }
}

std::vector<std::int64_t> zip_data(const MappedFile &file, const std::int64_t *header, std::size_t count) {
    constexpr std::int64_t most = 1 << 16, near = 2048, far = 1 << 16;
    constexpr std::size_t in_advance = 64;
    std::vector<std::int64_t> places(count, -1);
    FileByteSource source(file);
    const auto is_inside = [&](std::size_t i) { return i < count && file.contains(header[i], header_size); };
    std::size_t together = 0;  // number of the header after those that are read together
    std::int64_t wish = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (!is_inside(i)) continue;
        if (i >= together) {
            wish = header_size;
            for (together = i + 1; is_inside(together); ++together) {
                const std::int64_t gap = header[together] - header[together - 1], size = header[together] - header[i] + header_size;
                if (gap < 0 || gap > near || size > most) break;
                wish = size;
            }
            const std::int64_t gap = is_inside(together) ? header[together] - header[i] : 0;
            if (gap >= 0 && gap <= far) {
                source.read_ahead(header[i]);
            } else if (is_inside(i + in_advance)) {
                file.prefetch(header[i + in_advance], header_size);
            }
        }
        const std::uint8_t *const data = source.view(header[i], header_size, wish);
        if (std::memcmp(data, "PK\3\4", 4) == 0) {
            const int name_length = little_16(data + 26), extra_length = little_16(data + 28);
            places[i] = header[i] + static_cast<std::int64_t>(header_size) + name_length + extra_length;
        }
    }
    return places;
}

}  // namespace bushel
