#include "scans/tar.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace bushel {

namespace {

constexpr std::int64_t block_size = 512;
constexpr std::int64_t max_extra = 1024 * 1024;  // bytes of a long name or pax block
constexpr std::int64_t max_int64 = std::numeric_limits<std::int64_t>::max();

constexpr std::int64_t large_window = 256 * 1024;
// Bytes for a header, the next one if the member is short, and the longer name before it.
constexpr std::int64_t small_window = 2 * 1024;
// The bytes between headers that are closer than this are in memory before the headers are read.
constexpr std::int64_t near_stride = 64 * 1024;

std::int64_t padded(std::int64_t size) {
    return (size + block_size - 1) / block_size * block_size;
}  // size <= max_int64 - 511

bool all_zero(const std::uint8_t *data, std::int64_t length) {
    return length == 0 || (data[0] == 0 && std::memcmp(data, data + 1, static_cast<std::size_t>(length - 1)) == 0);
}

// Parse an octal number between spaces or NULs; or, if the first bit is set, a big-endian binary number (GNU).
std::optional<std::int64_t> number(const std::uint8_t *field, int width) {
    std::int64_t value = 0;
    if (field[0] & 0x80) {
        if (field[0] & 0x40) return std::nullopt;  // negative
        value = field[0] & 0x3F;
        for (int i = 1; i < width; ++i) {
            if (value > max_int64 >> 8) return std::nullopt;
            value = value << 8 | field[i];
        }
        return value;
    }
    int i = 0;
    while (i < width && (field[i] == ' ' || field[i] == 0)) ++i;
    for (; i < width && field[i] >= '0' && field[i] <= '7'; ++i) value = value << 3 | (field[i] - '0');
    for (; i < width; ++i) {
        if (field[i] != ' ' && field[i] != 0) return std::nullopt;
    }
    return value;
}

bool is_checksum_valid(const std::uint8_t *block) {
    const std::optional<std::int64_t> stated = number(block + 148, 8);
    if (!stated) return false;
    std::int32_t sum = 0;
    for (int i = 0; i < block_size; ++i) sum += block[i];
    for (int i = 148; i < 156; ++i) sum += ' ' - block[i];
    if (*stated == sum) return true;
    std::int32_t high = 0;
    for (int i = 0; i < block_size; ++i) high += i < 148 || i >= 156 ? block[i] >> 7 : 0;
    return *stated == sum - 256 * high;  // some old writers add signed bytes
}

std::string_view text(const std::uint8_t *field, std::size_t width) {
    return {reinterpret_cast<const char *>(field), ::strnlen(reinterpret_cast<const char *>(field), width)};
}

std::optional<std::int64_t> decimal(const char *begin, const char *end) {
    if (begin == end || end - begin > 19) return std::nullopt;
    std::uint64_t value = 0;
    for (; begin < end; ++begin) {
        if (*begin < '0' || *begin > '9') return std::nullopt;
        value = value * 10 + static_cast<std::uint64_t>(*begin - '0');
    }
    return value <= static_cast<std::uint64_t>(max_int64)
               ? std::optional<std::int64_t>(static_cast<std::int64_t>(value))
               : std::nullopt;
}

bool has_no_data(std::uint8_t type) { return type >= '1' && type <= '6'; }  // links, devices, directories, pipes

}  // namespace

TarScan::TarScan(std::int64_t size, std::int64_t start)
    : size_(size), pos_(start), need_(std::min(block_size, size - start)) {
    members_.end = start;
    if (need_ <= 0) phase_ = Phase::over;
}

std::optional<TarScan::Window> TarScan::next(std::int64_t dense_stride) const {
    if (phase_ == Phase::over) return std::nullopt;
    const bool dense = phase_ == Phase::tail || stride_ < dense_stride;
    const std::int64_t wish = std::max(need_, dense ? large_window : small_window);
    return Window{pos_, need_, std::min(wish, size_ - pos_)};
}

void TarScan::feed(const std::uint8_t *data, std::int64_t length) {
    const std::int64_t base = pos_;
    while (phase_ != Phase::over && pos_ - base <= length && length - (pos_ - base) >= need_) {
        const std::uint8_t *here = data + (pos_ - base);
        const std::int64_t left = length - (pos_ - base);
        if (phase_ == Phase::tail)
            read_tail(here, left);
        else
            read_header(here, left);
        // The next step starts after the bytes just read, or needs more bytes at the same offset.
        const std::int64_t rest = size_ - pos_;
        if (phase_ == Phase::over) return;
        if (rest == 0) {
            if (phase_ == Phase::headers && first_header_ >= 0) stop("a long name or pax header without its member");
            phase_ = Phase::over;
        }
        need_ = std::min(need_, rest);
    }
}

void TarScan::stop(const char *problem) {
    members_.problem = problem;
    members_.problem_offset = pos_;
    phase_ = Phase::over;
}

void TarScan::read_header(const std::uint8_t *block, std::int64_t length) {
    if (size_ - pos_ < block_size) {
        if (all_zero(block, size_ - pos_))
            phase_ = Phase::over;  // a truncated end marker
        else
            stop("header is cut by the end of the file");
        return;
    }
    if (all_zero(block, block_size)) return read_end(block, length);
    if (!is_checksum_valid(block)) return stop("header checksum is wrong");
    const std::optional<std::int64_t> size = number(block + 124, 12);
    if (!size) return stop("size field is not a size");
    const std::uint8_t type = block[156];
    if (type == 'L' || type == 'K' || type == 'x' || type == 'X' || type == 'g')
        return read_name_or_pax(block, length, *size, type);
    add_member(block, length, *size, type);
}

void TarScan::read_end(const std::uint8_t *block, std::int64_t length) {
    if (first_header_ >= 0) return stop("a long name or pax header without its member");
    const std::int64_t both = std::min(2 * block_size, size_ - pos_);
    if (length < both) {
        need_ = both;
        return;
    }
    members_.zero_blocks = both == 2 * block_size && all_zero(block + block_size, block_size) ? 2 : 1;
    pos_ += members_.zero_blocks * block_size;
    phase_ = Phase::tail;
    need_ = 1;
}

void TarScan::read_tail(const std::uint8_t *data, std::int64_t length) {
    const std::uint8_t *nonzero = std::find_if(data, data + length, [](std::uint8_t byte) { return byte != 0; });
    pos_ += nonzero - data;
    if (nonzero == data + length) return;
    members_.trailing_bytes = size_ - pos_;
    phase_ = Phase::over;
}

void TarScan::read_name_or_pax(const std::uint8_t *block, std::int64_t length, std::int64_t size, std::uint8_t type) {
    if (size > max_extra) return stop("long name or pax block of more than 1 MiB");
    if (size > size_ - pos_ - block_size) return stop("long name or pax block goes beyond the end of the file");
    if (length < block_size + size) {
        need_ = block_size + size;
        return;
    }
    const std::uint8_t *data = block + block_size;
    if (type == 'g') {
        if (!read_pax(data, size, global_)) return stop("pax record is malformed");
        if (global_.comment) members_.comment = std::move(*global_.comment);
        global_.comment.reset();
    } else {
        if (first_header_ < 0) first_header_ = pos_;
        if (type == 'L')
            long_name_ = std::string(text(data, static_cast<std::size_t>(size)));
        else if (type != 'K' && !read_pax(data, size, local_))
            return stop("pax record is malformed");
    }
    pos_ = std::min(pos_ + block_size + padded(size), size_);
    need_ = block_size;
}

// Parse records "LENGTH KEY=VALUE\n"; LENGTH counts the whole record. An empty value removes an earlier one.
bool TarScan::read_pax(const std::uint8_t *data, std::int64_t length, Overrides &into) {
    const char *here = reinterpret_cast<const char *>(data);
    const char *const end = here + length;
    while (here < end && *here) {  // some writers pad with NULs
        const char *space = std::find(here, std::min(end, here + 20), ' ');
        const std::optional<std::int64_t> stated = decimal(here, space);
        if (!stated || *stated > end - here || *stated < space - here + 3) return false;
        const char *const next = here + *stated;
        const char *const equals = std::find(space + 1, next, '=');
        if (equals == next || next[-1] != '\n' || equals == space + 1) return false;
        const std::string key(space + 1, equals), value(equals + 1, next - 1);
        if (key == "path" || key == "GNU.sparse.name") {
            // For a sparse file, "path" is where an old extractor would put the packed form.
            if (key != "path" || !into.sparse)
                into.path = value.empty() ? std::nullopt : std::optional<std::string>(value);
        } else if (key == "size") {
            into.size = decimal(value.data(), value.data() + value.size());
            if (!into.size && !value.empty()) return false;
        } else if (key == "comment" && &into == &global_) {
            into.comment = value;
        }
        if (key.compare(0, 11, "GNU.sparse.") == 0) into.sparse = true;
        here = next;
    }
    return true;
}

void TarScan::add_member(const std::uint8_t *block, std::int64_t length, std::int64_t size, std::uint8_t type) {
    if (local_.size)
        size = *local_.size;
    else if (global_.size)
        size = *global_.size;

    std::int64_t data = pos_ + block_size;
    if (type == 'S') {  // GNU: blocks of a sparse map may follow the header; each says whether there is another one
        std::int64_t used = block_size;
        bool more = block[482] != 0;
        while (more) {
            if (used > max_extra) return stop("sparse map of more than 1 MiB");
            if (used + block_size > size_ - pos_) return stop("sparse map goes beyond the end of the file");
            if (used + block_size > length) {
                // Request twice as much each time, so that a long map is not read many times.
                need_ = std::min(2 * (used + block_size), size_ - pos_);
                return;
            }
            more = block[used + 504] != 0;
            used += block_size;
        }
        data = pos_ + used;
    }

    const std::string *const other = local_.path    ? &*local_.path
                                     : long_name_   ? &*long_name_
                                     : global_.path ? &*global_.path
                                                    : nullptr;
    const std::string_view name = other ? std::string_view(*other) : text(block, 100);
    // GNU archives ("ustar  ") have other fields in place of the prefix.
    const bool prefixed = !other && block[345] && std::memcmp(block + 257, "ustar", 6) == 0;
    const std::string_view prefix = prefixed ? text(block + 345, 155) : std::string_view();
    if (local_.sparse)
        type = 'S';
    else if (type == 0 && (name.empty() ? prefixed : name.back() == '/'))
        type = '5';  // a directory in archives older than ustar
    if (has_no_data(type)) size = 0;
    if (size > size_ - data) return stop("data goes beyond the end of the file");
    // A global pax path may apply to every member: names must not take more memory than the archive.
    name_bytes_ += static_cast<std::int64_t>(prefix.size() + prefixed + name.size());
    if (name_bytes_ > size_) return stop("names are larger than the archive");

    if (prefixed) {
        members_.names.insert(members_.names.end(), prefix.begin(), prefix.end());
        members_.names.push_back('/');
    }
    members_.names.insert(members_.names.end(), name.begin(), name.end());
    members_.name_offsets.push_back(static_cast<std::int64_t>(members_.names.size()));
    members_.offset.push_back(data);
    members_.size.push_back(size);
    members_.header.push_back(first_header_ >= 0 ? first_header_ : pos_);
    members_.type.push_back(type);

    const std::int64_t rest = size_ - data;
    const std::int64_t next = data + (size > rest - block_size ? std::min(rest, padded(size)) : padded(size));
    stride_ = stride_ ? (stride_ * 3 + (next - pos_)) / 4 : next - pos_;
    pos_ = next;
    members_.end = next;
    need_ = block_size;
    if (first_header_ < 0) return;
    first_header_ = -1;
    long_name_.reset();
    local_ = Overrides{};
}

TarMembers TarScan::take() {
    TarMembers taken = std::move(members_);
    members_ = TarMembers{};
    members_.end = taken.end, members_.zero_blocks = taken.zero_blocks, members_.trailing_bytes = taken.trailing_bytes;
    members_.problem = taken.problem, members_.problem_offset = taken.problem_offset;
    members_.comment = taken.comment;
    return taken;
}

void TarScan::read(ByteSource &source, std::size_t most) {
    // Headers that are not closer are read alone, which takes less time than copying the data between them.
    constexpr std::int64_t dense_stride = 6 * 1024;
    while (members_.offset.size() < most) {
        const std::optional<Window> window = next(dense_stride);
        if (!window) return;
        if (stride_ >= dense_stride && stride_ < near_stride) source.read_ahead(window->offset);
        feed(source.view(window->offset, window->wish, window->wish), window->wish);
    }
}

TarMembers scan_tar(ByteSource &source, std::int64_t start) {
    TarScan scan(source.size(), start);
    scan.read(source, std::numeric_limits<std::size_t>::max());
    return scan.take();
}

}  // namespace bushel
