#include "jpeg/random_crops.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace bushel {

namespace {

struct Product {
    std::uint64_t high, low;
};

Product multiply(std::uint64_t a, std::uint64_t b) {
    __extension__ typedef unsigned __int128 Wide;
    const Wide product = static_cast<Wide>(a) * b;
    return {static_cast<std::uint64_t>(product >> 64), static_cast<std::uint64_t>(product)};
}

// A region, or a size, in pixels.
struct Box {
    std::int64_t left, top, right, bottom;

    std::int64_t width() const { return right - left; }
    std::int64_t height() const { return bottom - top; }
};

// The combined effect of the steps so far, as `Geometry` of bushel.transforms.spatial.
class Combined {
public:
    Combined(std::int64_t width, std::int64_t height)
        : box_{0, 0, width, height}, scaled_{0, 0, width, height}, window_{0, 0, width, height} {}

    std::int64_t width() const { return window_.width(); }
    std::int64_t height() const { return window_.height(); }

    bool crop(std::int64_t left, std::int64_t top, std::int64_t width, std::int64_t height) {
        if (left < 0 || top < 0 || left + width > this->width() || top + height > this->height()) return false;
        if (flip_x_) left = this->width() - left - width;
        if (flip_y_) top = this->height() - top - height;
        if (resizes()) {
            left += window_.left, top += window_.top;
            window_ = {left, top, left + width, top + height};
            return true;
        }
        left += box_.left, top += box_.top;
        box_ = {left, top, left + width, top + height};
        scaled_ = window_ = {0, 0, width, height};
        return true;
    }

    bool scale(std::int64_t width, std::int64_t height) {
        if (width == this->width() && height == this->height()) return true;
        if (resizes() || width > max_crop_side || height > max_crop_side) return false;
        scaled_ = window_ = {0, 0, width, height};
        return true;
    }

    void flip_x() { flip_x_ = !flip_x_; }
    void flip_y() { flip_y_ = !flip_y_; }

    void write(std::int32_t *row) const {
        const std::int64_t numbers[] = {box_.left,      box_.top,        box_.right,   box_.bottom, scaled_.right,
                                        scaled_.bottom, window_.left,    window_.top,  flip_x_,     flip_y_};
        std::copy(std::begin(numbers), std::end(numbers), row);
    }

private:
    bool resizes() const { return scaled_.width() != box_.width() || scaled_.height() != box_.height(); }

    Box box_, scaled_, window_;
    bool flip_x_ = false, flip_y_ = false;
};

// Round half to even, as `round` of Python does; -1 for numbers that are not a possible count of pixels.
std::int64_t rounded(double value) { return value >= 0 && value < 1e15 ? std::llrint(value) : -1; }

bool crop_at(Combined &image, std::int64_t width, std::int64_t height, double x, double y) {
    if (height > image.height() || width > image.width()) return false;
    return image.crop(static_cast<std::int64_t>(x * static_cast<double>(image.width() - width + 1)),
                      static_cast<std::int64_t>(y * static_cast<double>(image.height() - height + 1)), width, height);
}

bool crop_center(Combined &image, const CropStep &step) {
    if (step.height > image.height() || step.width > image.width()) return false;
    return image.crop(rounded(static_cast<double>(image.width() - step.width) / 2),
                      rounded(static_cast<double>(image.height() - step.height) / 2), step.width, step.height);
}

bool resize_shorter(Combined &image, std::int64_t edge) {
    const double width = static_cast<double>(image.width()), height = static_cast<double>(image.height());
    const double longer = std::max(width, height), shorter = std::min(width, height);
    const double other = static_cast<double>(edge) * longer / shorter;
    if (other > static_cast<double>(max_crop_side)) return false;
    const auto whole = static_cast<std::int64_t>(other);
    return width <= height ? image.scale(edge, whole) : image.scale(whole, edge);
}

// The largest centred box with an allowed ratio.
bool crop_largest(Combined &image, const CropStep &step) {
    const double width = static_cast<double>(image.width()), height = static_cast<double>(image.height());
    const double ratio = std::min(std::max(width / height, step.least_ratio), step.most_ratio);
    const std::int64_t tall = rounded(width / ratio), wide = rounded(height * ratio);
    if (tall < 0 || wide < 0) return false;
    const std::int64_t crop_height = std::min(image.height(), std::max<std::int64_t>(1, tall));
    const std::int64_t crop_width = std::min(image.width(), std::max<std::int64_t>(1, wide));
    return image.crop((image.width() - crop_width) / 2, (image.height() - crop_height) / 2, crop_width, crop_height);
}

bool crop_and_resize(Combined &image, const CropStep &step, SampleDraws &draws) {
    for (int i = 0; i < 10; ++i) {
        const double part = draws.next(), shape = draws.next(), x = draws.next(), y = draws.next();
        const double area = static_cast<double>(image.width() * image.height()) *
                            (step.least_scale + part * (step.most_scale - step.least_scale));
        const double ratio = std::exp(step.log_least_ratio + shape * (step.log_most_ratio - step.log_least_ratio));
        const std::int64_t height = rounded(std::sqrt(area / ratio)), width = rounded(std::sqrt(area * ratio));
        if (height < 0 || width < 0) return false;
        if (0 < height && height <= image.height() && 0 < width && width <= image.width()) {
            return crop_at(image, width, height, x, y) && image.scale(step.width, step.height);
        }
    }
    return crop_largest(image, step) && image.scale(step.width, step.height);
}

bool apply(Combined &image, const CropStep &step, SampleDraws &draws) {
    switch (step.kind) {
        case CropStep::Kind::resize:
            return image.scale(step.width, step.height);
        case CropStep::Kind::resize_shorter:
            return resize_shorter(image, step.height);
        case CropStep::Kind::center_crop:
            return crop_center(image, step);
        case CropStep::Kind::random_crop: {
            const double x = draws.next(), y = draws.next();
            return crop_at(image, step.width, step.height, x, y);
        }
        case CropStep::Kind::random_resized_crop:
            return crop_and_resize(image, step, draws);
        case CropStep::Kind::flip_x:
            if (draws.next() < step.probability) image.flip_x();
            return true;
        case CropStep::Kind::flip_y:
            if (draws.next() < step.probability) image.flip_y();
            return true;
    }
    return false;
}

}  // namespace

double SampleDraws::next() {
    const std::uint64_t number = drawn_ / 4 + 1;
    if (block_ != number) make_block(number);
    return static_cast<double>(words_[drawn_++ % 4] >> 11) * 0x1p-53;
}

void SampleDraws::make_block(std::uint64_t number) {
    std::uint64_t counter[4] = {number, 0, sample_, 0}, key[2] = {seed_, epoch_};
    for (int round = 0; round < 10; ++round) {
        const Product first = multiply(0xD2E7470EE14C6C93, counter[0]);
        const Product second = multiply(0xCA5A826395121157, counter[2]);
        counter[0] = second.high ^ counter[1] ^ key[0], counter[1] = second.low;
        counter[2] = first.high ^ counter[3] ^ key[1], counter[3] = first.low;
        key[0] += 0x9E3779B97F4A7C15, key[1] += 0xBB67AE8584CAA73B;
    }
    std::copy(counter, counter + 4, words_);
    block_ = number;
}

bool draw_geometry(const CropStep *steps, std::size_t count, std::int64_t width, std::int64_t height,
                   SampleDraws &draws, std::int32_t *geometry) {
    if (width < 1 || height < 1 || width > max_crop_side || height > max_crop_side) return false;
    Combined image(width, height);
    for (const CropStep *step = steps; step != steps + count; ++step) {
        if (!apply(image, *step, draws)) return false;
    }
    image.write(geometry);
    return true;
}

}  // namespace bushel
