// Python bindings: PNG.
#include <memory>
#include <string>

#include "common/python.hpp"
#include "png/unfilter.hpp"

namespace bushel {

namespace {

nb::object unfilter(nb::handle filtered, std::size_t rows, std::size_t row, std::size_t pixel) {
    const BufferArgument buffer(filtered);
    if (pixel < 1 || pixel > 4) throw nb::value_error("pixel: expected 1 to 4 bytes");
    if (row % pixel) throw nb::value_error("row: expected a whole number of pixels");
    if (rows && (row >= buffer.size() || (row + 1) > buffer.size() / rows || (row + 1) * rows != buffer.size())) {
        throw nb::value_error("the filtered rows have another size");
    }
    std::unique_ptr<std::uint8_t[]> out(new std::uint8_t[rows * row]);
    auto done = without_lock([&] { return unfilter_png(buffer.data(), rows, row, pixel, out.get()); });
    if (done < rows) {
        raise_value_error("row " + std::to_string(done) + " has an unknown filter");
    }
    return owned_array(out.release(), rows * row);
}

nb::object colour(nb::handle indices, nb::handle palette, std::size_t channels) {
    const auto pixels = array_argument<const std::uint8_t>(indices, "indices");
    const auto colours = array_argument<const std::uint8_t>(palette, "palette");
    if (channels != 3 && channels != 4) throw nb::value_error("channels: expected 3 or 4");
    const std::size_t count = pixels.size();
    std::unique_ptr<std::uint8_t[]> out(new std::uint8_t[count * channels]);
    auto known = without_lock([&] {
        return colour_png(pixels.data(), count, colours.data(), colours.size() / 4, channels, out.get());
    });
    if (!known) throw nb::value_error("an index is not in the palette");
    return owned_array(out.release(), count * channels);
}

}  // namespace

void bind_png(nb::module_ &module) {
    module.def("unfilter_png", &unfilter, nb::arg("filtered"), nb::arg("rows"), nb::arg("row"), nb::arg("pixel"));
    module.def("colour_png", &colour, nb::arg("indices"), nb::arg("palette"), nb::arg("channels"));
}

}  // namespace bushel
