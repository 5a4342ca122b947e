// Python binding: the random crops of the images of a batch.
#include <memory>
#include <string>
#include <vector>

#include "common/exceptions.hpp"
#include "common/python.hpp"
#include "jpeg/header.hpp"
#include "jpeg/orientation.hpp"
#include "jpeg/random_crops.hpp"

namespace bushel {

namespace {

// The items of a step: its kind, and numbers.
class StepArgument {
public:
    explicit StepArgument(nb::handle step) : items_(step, expected), kind_(nb::cast<nb::str>(item(0))) {}

    bool is(const char *kind, std::size_t numbers) const {
        return std::string(kind_.c_str()) == kind && items_.size() == numbers + 1;
    }

    double number(std::size_t at) const { return nb::cast<double>(item(at)); }

    std::int64_t side(std::size_t at) const {
        const auto side = nb::cast<std::int64_t>(item(at));
        if (side < 1 || side > max_crop_side) throw nb::value_error("steps: expected sides of 1 to 2**24 pixels");
        return side;
    }

private:
    static constexpr const char *expected = "steps: expected tuples of a kind and numbers";

    nb::handle item(std::size_t at) const {
        if (items_.size() <= at) throw nb::value_error(expected);
        return items_[at];
    }

    Sequence items_;
    nb::str kind_;
};

CropStep step_of(const StepArgument &given) {
    using Kind = CropStep::Kind;
    CropStep step;
    if (given.is("flip_x", 1) || given.is("flip_y", 1)) {
        step.kind = given.is("flip_x", 1) ? Kind::flip_x : Kind::flip_y;
        step.probability = given.number(1);
        return step;
    }
    if (given.is("resize_shorter", 1)) {
        step.kind = Kind::resize_shorter;
        step.height = step.width = given.side(1);
        return step;
    }
    if (given.is("resize", 2)) {
        step.kind = Kind::resize;
    } else if (given.is("center_crop", 2)) {
        step.kind = Kind::center_crop;
    } else if (given.is("random_crop", 2)) {
        step.kind = Kind::random_crop;
    } else if (given.is("random_resized_crop", 8)) {
        step.kind = Kind::random_resized_crop;
        step.least_scale = given.number(3), step.most_scale = given.number(4);
        step.least_ratio = given.number(5), step.most_ratio = given.number(6);
        step.log_least_ratio = given.number(7), step.log_most_ratio = given.number(8);
    } else {
        throw nb::value_error("steps: unknown kind, or another number of numbers");
    }
    step.height = given.side(1), step.width = given.side(2);
    return step;
}

// Draw the geometry of one image. Return false if Python has to do it.
bool draw(const BufferArgument &data, const std::vector<CropStep> &steps, bool orient, SampleDraws &draws,
          std::int32_t *geometry) {
    if (data.size() < 2 || data.data()[0] != 0xFF || data.data()[1] != SOI) return false;
    try {
        const JpegHeader header = read_jpeg_header(data.data(), data.size());
        const bool transposed = orient && Orientation(header.orientation).transposed;
        return draw_geometry(steps.data(), steps.size(), transposed ? header.height : header.width,
                             transposed ? header.width : header.height, draws, geometry);
    } catch (const JpegError &) {
        return false;
    }
}

nb::object draw_crops(nb::handle datas, nb::handle steps, std::uint64_t seed, std::uint64_t epoch, nb::handle samples,
                      nb::handle drawn, bool orient) {
    const Sequence images(datas, "datas: expected a list of bytes");
    const std::size_t count = images.size();
    const auto numbers = array_argument<const std::int64_t>(samples, "samples");
    const auto before = array_argument<std::int64_t>(drawn, "drawn");
    if (numbers.size() != count || before.size() != count) {
        throw nb::value_error("samples, drawn: expected a number for each image");
    }
    std::vector<CropStep> program;
    const Sequence step_list(steps, "steps: expected a sequence");
    for (std::size_t i = 0; i < step_list.size(); ++i) program.push_back(step_of(StepArgument(step_list[i])));
    constexpr std::size_t width = 10;
    std::unique_ptr<std::int32_t[]> rows(new std::int32_t[count * width]());
    nb::list undrawn;
    // A header takes less than a microsecond, and waiting for the interpreter lock longer, so it is not released.
    for (std::size_t i = 0; i < count; ++i) {
        const BufferArgument data(images[i]);
        const std::int64_t count_before = before.data()[i];
        SampleDraws draws(seed, epoch, static_cast<std::uint64_t>(numbers.data()[i]),
                          static_cast<std::uint64_t>(count_before));
        if (count_before >= 0 && draw(data, program, orient, draws, rows.get() + i * width)) {
            before.data()[i] = static_cast<std::int64_t>(draws.drawn());
        } else {
            undrawn.append(i);
        }
    }
    return nb::make_tuple(owned_array(rows.release(), {count, width}), undrawn);
}

}  // namespace

void bind_crops(nb::module_ &module) {
    module.def("draw_crops", &draw_crops, nb::arg("datas"), nb::arg("steps"), nb::arg("seed"), nb::arg("epoch"),
               nb::arg("samples"), nb::arg("drawn"), nb::kw_only(), nb::arg("orient") = false);
}

}  // namespace bushel
