#include "resize/batch_output.hpp"

#include <cstring>

namespace bushel {

namespace {

template <typename Element>
void write_levels(const OutputImage &out, std::size_t row, const std::uint8_t *pixels) {
    const auto width = static_cast<std::size_t>(out.width), channels = static_cast<std::size_t>(out.channels);
    const auto *table = static_cast<const Element *>(out.table);
    const std::size_t plane = out.channels_first ? static_cast<std::size_t>(out.height) * width : 1;
    const std::size_t step = out.channels_first ? 1 : channels, levels = out.is_grey ? 1 : channels;
    Element *first = static_cast<Element *>(out.data) + row * width * step;
    for (std::size_t channel = 0; channel < channels; ++channel) {
        Element *to = first + channel * plane;
        const std::uint8_t *from = pixels + (out.is_grey ? 0 : channel);
        if (table) {
            for (std::size_t x = 0; x < width; ++x) to[x * step] = table[from[x * levels] * channels + channel];
        } else {
            for (std::size_t x = 0; x < width; ++x) to[x * step] = from[x * levels];
        }
    }
}

}  // namespace

void write_row(const OutputImage &out, int row, const std::uint8_t *pixels) {
    const auto number = static_cast<std::size_t>(row);
    if (out.itemsize == 4) {
        write_levels<std::uint32_t>(out, number, pixels);
    } else if (out.itemsize == 2) {
        write_levels<std::uint16_t>(out, number, pixels);
    } else if (out.channels_first || out.table || out.is_grey) {
        write_levels<std::uint8_t>(out, number, pixels);
    } else {
        const auto length = static_cast<std::size_t>(out.width) * static_cast<std::size_t>(out.channels);
        std::memcpy(static_cast<std::uint8_t *>(out.data) + number * length, pixels, length);
    }
}

}  // namespace bushel
