// Exif orientations: how an image is stored against how it is looked at.
#pragma once
#include "resize.hpp"

namespace bushel {

struct Orientation {
    explicit Orientation(int exif)
        : turned(exif >= 5),
          across(exif == 2 || exif == 3 || exif == 7 || exif == 8),
          down(exif == 3 || exif == 4 || exif == 6 || exif == 7) {}

    bool is_upright() const { return !turned && !across && !down; }

    // The upright image is the stored one, mirrored, then with rows and columns exchanged.
    bool turned;
    bool across, down;  // the stored image is mirrored from left to right, from top to bottom
};

// Writes the upright image without gaps between its rows.
Pixels make_upright(const Pixels &stored, const Orientation &orientation, std::uint8_t *out);

}  // namespace bushel
