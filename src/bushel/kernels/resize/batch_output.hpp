// The place of a finished image in a batch array of any layout and element type.
#pragma once
#include <cstddef>
#include <cstdint>

namespace bushel {

struct OutputImage {
    void *data = nullptr;
    int height = 0, width = 0, channels = 0;
    bool channels_first = false;  // CHW instead of HWC
    bool is_grey = false;         // pixels have one level, which goes into every channel
    std::size_t itemsize = 1;     // 1, 2 or 4
    const void *table = nullptr;  // elements [256][channels] that replace the levels; null: write the levels

    std::size_t bytes() const {
        return static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * static_cast<std::size_t>(channels) *
               itemsize;
    }
};

// Write one row of interleaved 8-bit pixels, or of grey ones.
void write_row(const OutputImage &out, int row, const std::uint8_t *pixels);

}  // namespace bushel
