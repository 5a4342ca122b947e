// Python bindings: JPEGs that are written again without loss.
#include "common/python.hpp"
#include "jpeg/encode.hpp"

namespace bushel {

namespace {

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

}  // namespace

void bind_rewrite(nb::module_ &module) {
    module.def("baseline_jpeg", &baseline, nb::arg("data"), nb::kw_only(), nb::arg("max_pixels") = 89478485);
}

}  // namespace bushel
