// The headers of images: size, channels, orientation. Nothing is decoded.
#pragma once
#include <cstddef>
#include <cstdint>

namespace bushel {

struct ImageHeader {
    enum Format : std::int32_t { unknown = 0, jpeg = 1, png = 2 };

    std::int32_t format = unknown;
    std::int32_t width = 0, height = 0;  // as stored: before an orientation turns the image
    std::int32_t channels = 0;           // of the decoded image: 1 grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha
    std::int32_t orientation = 1;        // 1 to 8, as in Exif
};

// Read the header of a JPEG, or of a PNG without a palette or Exif data. The format of anything else is unknown.
ImageHeader read_image_header(const std::uint8_t *data, std::size_t size);

}  // namespace bushel
