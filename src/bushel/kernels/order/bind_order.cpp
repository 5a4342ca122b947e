// Python bindings: the permutation of orders, and the rows of packs.
#include <algorithm>
#include <limits>
#include <memory>

#include "common/python.hpp"
#include "order/first_fit.hpp"
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

nb::object pack_rows(nb::handle sizes, std::int64_t capacity) {
    const auto given = array_argument<const std::uint32_t>(sizes, "sizes");
    if (capacity < 1 || capacity > std::numeric_limits<std::int32_t>::max()) {
        throw nb::value_error("capacity: expected 1 to 2**31 - 1");
    }
    const auto most = static_cast<std::uint32_t>(capacity);
    const bool fits = std::all_of(given.data(), given.data() + given.size(), [most](std::uint32_t size) { return size <= most; });
    if (!fits) throw nb::value_error("sizes: expected at most capacity");
    if (given.size() >= std::numeric_limits<std::uint32_t>::max()) throw nb::value_error("sizes: expected fewer than 2**32");
    std::size_t rows = 0;
    std::unique_ptr<std::int64_t[]> items(new std::int64_t[given.size()]), ends;
    {
        const nb::gil_scoped_release unlocked;
        std::unique_ptr<std::uint32_t[]> row(new std::uint32_t[given.size()]);
        rows = first_fit(given.data(), given.size(), most, row.get());
        ends.reset(new std::int64_t[rows + 1]());
        for (std::size_t i = 0; i < given.size(); ++i) ++ends[row[i] + 1];
        for (std::size_t i = 0; i < rows; ++i) ends[i + 1] += ends[i];
        // each becomes the end of its row as the items are put there, and so the start of the next one
        for (std::size_t i = 0; i < given.size(); ++i) items[ends[row[i]]++] = static_cast<std::int64_t>(i);
    }
    return nb::make_tuple(owned_array(items.release(), given.size()), owned_array(ends.release(), rows));
}

}  // namespace

void bind_order(nb::module_ &module) {
    module.def("permute", &permute, nb::arg("values"), nb::arg("size"), nb::arg("key"), nb::arg("tweak") = nb::none(),
               nb::arg("inverse") = false);
    module.def("pack_rows", &pack_rows, nb::arg("sizes"), nb::arg("capacity"));
}

}  // namespace bushel
