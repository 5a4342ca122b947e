#include "slot.hpp"

#include <cstring>

namespace bushel {

namespace {

template <typename Element>
void write_levels(const Slot &slot, std::size_t row, const std::uint8_t *pixels) {
    const auto width = static_cast<std::size_t>(slot.width), channels = static_cast<std::size_t>(slot.channels);
    const auto *table = static_cast<const Element *>(slot.table);
    const std::size_t plane = slot.planar ? static_cast<std::size_t>(slot.height) * width : 1;
    const std::size_t step = slot.planar ? 1 : channels;
    Element *out = static_cast<Element *>(slot.data) + row * width * step;
    for (std::size_t channel = 0; channel < channels; ++channel) {
        Element *to = out + channel * plane;
        const std::uint8_t *from = pixels + channel;
        if (table) {
            for (std::size_t x = 0; x < width; ++x) to[x * step] = table[from[x * channels] * channels + channel];
        } else {
            for (std::size_t x = 0; x < width; ++x) to[x * step] = from[x * channels];
        }
    }
}

}  // namespace

void write_row(const Slot &slot, int row, const std::uint8_t *pixels) {
    const auto number = static_cast<std::size_t>(row);
    if (slot.element == 4) {
        write_levels<std::uint32_t>(slot, number, pixels);
    } else if (slot.element == 2) {
        write_levels<std::uint16_t>(slot, number, pixels);
    } else if (slot.planar || slot.table) {
        write_levels<std::uint8_t>(slot, number, pixels);
    } else {
        const auto length = static_cast<std::size_t>(slot.width) * static_cast<std::size_t>(slot.channels);
        std::memcpy(static_cast<std::uint8_t *>(slot.data) + number * length, pixels, length);
    }
}

}  // namespace bushel
