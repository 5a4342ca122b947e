// Python bindings: JPEGs that are written again without loss, and the coefficients that this keeps.
#include <algorithm>
#include <memory>

#include "common/python.hpp"
#include "jpeg/encode.hpp"

namespace bushel {

namespace {

nb::object tile(nb::handle data, bool metadata, std::int64_t limit) {
    const BufferArgument buffer(data);
    const std::vector<std::uint8_t> tiled = without_lock([&] { return tile_jpeg(buffer.data(), buffer.size(), metadata, limit); });
    return nb::bytes(tiled.data(), tiled.size());
}

bool is_tiled(nb::handle data) {
    const BufferArgument buffer(data);
    return is_tiled_jpeg(buffer.data(), buffer.size());
}

nb::object baseline(nb::handle data, std::int64_t limit) {
    const BufferArgument buffer(data);
    const std::vector<std::uint8_t> written = without_lock([&] { return baseline_jpeg(buffer.data(), buffer.size(), limit); });
    if (written.empty()) return nb::none();
    return nb::bytes(written.data(), written.size());
}

nb::object coefficients(nb::handle data, std::int64_t limit) {
    const BufferArgument buffer(data);
    const std::vector<JpegCoefficients> components = without_lock([&] { return read_coefficients(buffer.data(), buffer.size(), limit); });
    nb::list arrays;
    for (const JpegCoefficients &component : components) {
        const std::vector<std::int16_t> &values = component.values;
        std::unique_ptr<std::int16_t[]> copy(new std::int16_t[values.size()]);
        std::copy(values.begin(), values.end(), copy.get());
        arrays.append(owned_array(copy.release(), {component.rows, component.columns, 64}));
    }
    return arrays;
}

}  // namespace

void bind_rewrite(nb::module_ &module) {
    module.def("tile_jpeg", &tile, nb::arg("data"), nb::kw_only(), nb::arg("metadata") = false,
               nb::arg("max_pixels") = default_max_pixels);
    module.def("is_tiled_jpeg", &is_tiled, nb::arg("data"));
    module.def("jpeg_coefficients", &coefficients, nb::arg("data"), nb::kw_only(),
               nb::arg("max_pixels") = default_max_pixels);
    module.def("baseline_jpeg", &baseline, nb::arg("data"), nb::kw_only(),
               nb::arg("max_pixels") = default_max_pixels);
}

}  // namespace bushel
