// Python bindings: JPEGs that are written again without loss, and the coefficients that this keeps.
#include <algorithm>
#include <memory>

#include "common/python.hpp"
#include "jpeg/encode.hpp"

namespace bushel {

namespace {

nb::object tile(nb::handle data, bool metadata, std::int64_t limit) {
    const BufferArgument buffer(data);
    std::vector<std::uint8_t> tiled;
    {
        const nb::gil_scoped_release unlocked;
        tiled = tile_jpeg(buffer.data(), buffer.size(), metadata, limit);
    }
    return nb::bytes(tiled.data(), tiled.size());
}

bool is_tiled(nb::handle data) {
    const BufferArgument buffer(data);
    return is_tiled_jpeg(buffer.data(), buffer.size());
}

nb::object baseline(nb::handle data, std::int64_t limit) {
    const BufferArgument buffer(data);
    std::vector<std::uint8_t> written;
    {
        const nb::gil_scoped_release unlocked;
        written = baseline_jpeg(buffer.data(), buffer.size(), limit);
    }
    if (written.empty()) return nb::none();
    return nb::bytes(written.data(), written.size());
}

nb::object coefficients(nb::handle data, std::int64_t limit) {
    const BufferArgument buffer(data);
    std::vector<JpegCoefficients> components;
    {
        const nb::gil_scoped_release unlocked;
        components = read_coefficients(buffer.data(), buffer.size(), limit);
    }
    nb::list arrays;
    for (const JpegCoefficients &component : components) {
        std::unique_ptr<std::int16_t[]> values(new std::int16_t[component.values.size()]);
        std::copy(component.values.begin(), component.values.end(), values.get());
        std::int16_t *first = values.release();
        nb::capsule owner(first, [](void *memory) noexcept { delete[] static_cast<std::int16_t *>(memory); });
        arrays.append(nb::cast(
            nb::ndarray<nb::numpy, std::int16_t, nb::ndim<3>>(first, {component.rows, component.columns, 64}, owner)));
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
