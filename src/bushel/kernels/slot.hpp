// Where a finished image goes: its place in a batch array, whatever the array's layout and element type.
#pragma once
#include <cstddef>
#include <cstdint>

namespace bushel {

struct Slot {
    void *data = nullptr;
    int height = 0, width = 0, channels = 0;
    bool planar = false;          // CHW instead of HWC
    std::size_t element = 1;      // bytes of an element: 1, 2 or 4
    const void *table = nullptr;  // elements [256][channels] that stand for the levels; null: the levels themselves

    std::size_t bytes() const {
        return static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * static_cast<std::size_t>(channels) *
               element;
    }
};

// Writes one row of interleaved 8-bit pixels.
void write_row(const Slot &slot, int row, const std::uint8_t *pixels);

}  // namespace bushel
