// Random crops, flips and resizing, drawn for many images at once. A step does the same arithmetic, in the same order,
// as `steps` of its transform in Python, so that both give the same geometry for the same random numbers.
#pragma once
#include <cstddef>
#include <cstdint>

namespace bushel {

// The random numbers of one sample: Philox4x64-10 (Salmon et al., 2011) with the counter (i, 0, sample, 0), i from 1,
// as NumPy's Philox gives them.
class SampleDraws {
public:
    SampleDraws(std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample, std::uint64_t drawn)
        : seed_(seed), epoch_(epoch), sample_(sample), drawn_(drawn) {}

    // Return the next number of 0 to 1, as `Generator.random` does.
    double next();

    // How many numbers have been drawn in all.
    std::uint64_t drawn() const { return drawn_; }

private:
    void make_block(std::uint64_t number);

    std::uint64_t seed_, epoch_, sample_, drawn_;
    std::uint64_t block_ = 0;  // the number of the words, from 1; 0 for none
    std::uint64_t words_[4] = {};
};

// One transform. Numbers that its kind does not use are 0.
struct CropStep {
    enum class Kind { resize, resize_shorter, center_crop, random_crop, random_resized_crop, flip_x, flip_y };
    Kind kind = Kind::resize;
    std::int64_t height = 0, width = 0;           // of the result; both are the shorter edge of resize_shorter
    double least_scale = 0, most_scale = 0;       // share of the area
    double least_ratio = 0, most_ratio = 0;       // width / height
    double log_least_ratio = 0, log_most_ratio = 0;
    double probability = 0;                       // of a flip
};

constexpr std::int64_t max_crop_side = 1 << 24;

// Write the geometry of an image, ten numbers as `decode_crop` takes them, after all steps. Return false, without a
// geometry, if Python has to draw it: a crop does not fit, a second resizing follows, or a number is too large.
bool draw_geometry(const CropStep *steps, std::size_t count, std::int64_t width, std::int64_t height,
                   SampleDraws &draws, std::int32_t *geometry);

}  // namespace bushel
