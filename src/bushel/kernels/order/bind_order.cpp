// Python bindings: the permutation of orders.
#include <algorithm>
#include <memory>

#include "common/python.hpp"
#include "order/permutation.hpp"

namespace bushel {

namespace {

nb::object permute(nb::handle values, std::int64_t size, std::uint64_t key, nb::handle tweak, bool inverse) {
    const auto given = array_argument<const std::int64_t>(values, "values");
    if (size < 1 || size > Permutation::limit) throw nb::value_error("size: expected 1 to 2**48");
    Array<const std::uint32_t> tweaks;
    if (!tweak.is_none()) {
        tweaks = array_argument<const std::uint32_t>(tweak, "tweak");
        if (tweaks.size() != given.size()) throw nb::value_error("values and tweak must have the same length");
    }
    const bool inside = std::all_of(given.data(), given.data() + given.size(), [size](std::int64_t value) {
        return static_cast<std::uint64_t>(value) < static_cast<std::uint64_t>(size);
    });
    if (!inside) throw nb::index_error("values: expected 0 to size - 1");
    std::unique_ptr<std::int64_t[]> images(new std::int64_t[given.size()]);
    std::copy(given.data(), given.data() + given.size(), images.get());
    {
        const nb::gil_scoped_release unlocked;
        Permutation(size, key).apply(images.get(), given.size(), tweak.is_none() ? nullptr : tweaks.data(), inverse);
    }
    return owned_array(images.release(), given.size());
}

}  // namespace

void bind_order(nb::module_ &module) {
    module.def("permute", &permute, nb::arg("values"), nb::arg("size"), nb::arg("key"), nb::arg("tweak") = nb::none(),
               nb::arg("inverse") = false);
}

}  // namespace bushel
