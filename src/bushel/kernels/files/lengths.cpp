#include "files/lengths.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

#include "common/bytes.hpp"

namespace bushel {

void load_lengths(const MappedFile &file, const std::vector<ValuesOfFile> &places, const std::function<void()> &check) {
    // Fewer than `fewest` reads at the same time take longer than reading all bytes between. So do reads of a disk that
    // must seek, which takes milliseconds for each.
    constexpr std::size_t most = 256, fewest = 4, enough = 512, between_checks = 4096;
    constexpr std::chrono::milliseconds slow{1};
    // Values are far larger than that. Others, of a damaged file, may be millions.
    constexpr std::int64_t least = 8192, some = 16;
    const auto started = std::chrono::steady_clock::now();
    struct Walk {
        std::int64_t at, end, left;  // `left` lengths are read at most
    };
    std::vector<Walk> active;
    std::size_t begun = 0, reads = 0, checked = 0;
    while (true) {
        const auto is_done = [](const Walk &values) { return values.end - values.at < 4 || values.left == 0; };
        active.erase(std::remove_if(active.begin(), active.end(), is_done), active.end());
        for (; active.size() < most && begun < places.size(); ++begun) {
            const auto [at, end] = places[begun];
            if (end - at >= 4) active.push_back({at, end, (end - at) / least + some});
        }
        if (active.size() < fewest) return;
        for (const Walk &values : active) file.prefetch(values.at, 4);
        for (Walk &values : active) {
            std::array<std::uint8_t, 4> length{};
            if (file.pread(length.data(), values.at, 4) < 4) return;  // it shrank, which the scan finds
            values.at += 4 + std::int64_t{little_32(length.data())};
            --values.left;
        }
        reads += active.size();
        const auto taken = std::chrono::steady_clock::now() - started;
        if (reads >= enough && taken > slow * static_cast<std::int64_t>(reads)) return;
        if (reads - checked > between_checks) check(), checked = reads;
    }
}

}  // namespace bushel
