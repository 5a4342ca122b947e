#pragma once

namespace bushel {

// Columns and rows of an image, the last ones exclusive.
struct Region {
    int left = 0, top = 0, right = 0, bottom = 0;

    int width() const { return right - left; }
    int height() const { return bottom - top; }
    bool is_empty() const { return right <= left || bottom <= top; }
};

}  // namespace bushel
