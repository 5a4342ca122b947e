// Python bindings: pages of Parquet.
#include <utility>

#include "common/python.hpp"
#include "scans/byte_arrays.hpp"
#include "scans/deltas.hpp"
#include "scans/hybrid.hpp"
#include "scans/levels.hpp"

namespace bushel {

namespace {

nb::object find_values(nb::handle input, std::int64_t count, std::int64_t start, std::int64_t length) {
    ByteArrays arrays;
    const auto scan = [&](auto source) {
        const std::int64_t size = length < 0 ? source.size() - start : length;
        const nb::gil_scoped_release unlocked;
        arrays = find_byte_arrays(source, start, size, count);
    };
    if (nb::isinstance<MappedFile>(input)) {
        scan(FileByteSource(*nb::inst_ptr<MappedFile>(input)));
    } else {
        const BufferArgument buffer(input);
        scan(BufferByteSource(buffer.data(), static_cast<std::int64_t>(buffer.size())));
    }
    return nb::make_tuple(array_of(std::move(arrays.offset)), array_of(std::move(arrays.length)));
}

nb::object hybrid_of(nb::handle data, unsigned width, std::int64_t count) {
    const BufferArgument buffer(data);
    return array_of(without_lock([&] { return read_hybrid(buffer.data(), buffer.size(), width, count); }));
}

// Which values are there; None if all are.
nb::object mask_of(Present &present) {
    return present.there.empty() ? nb::none() : nb::object(array_of(std::move(present.there)).attr("view")("bool"));
}

void check_levels(std::int64_t largest, std::int64_t values) {
    if (largest < 0 || largest > 255 || values < 0) throw nb::value_error("levels are numbers up to 255");
}

nb::object present_values(nb::handle definition, std::int64_t largest, std::int64_t values) {
    check_levels(largest, values);
    const BufferArgument levels(definition);
    Present present = without_lock([&] {
        return find_present({levels.data(), levels.size()}, static_cast<unsigned>(largest), values);
    });
    return nb::make_tuple(present.count, mask_of(present));
}

nb::object present_elements(nb::handle repetition, nb::handle definition, std::int64_t largest, std::int64_t list,
                            std::int64_t values, std::int64_t rows, nb::handle counts, nb::handle absent) {
    check_levels(largest, values);
    check_levels(list, rows);
    const BufferArgument repeated(repetition), defined(definition);
    const auto elements = array_argument<std::int64_t>(counts, "counts");
    const auto nulls = array_argument<std::uint8_t>(absent, "absent");
    if (elements.size() != nulls.size()) throw nb::value_error("counts and absent must have the same length");
    const ListRows lists{elements.data(), nulls.data(), static_cast<std::int64_t>(elements.size()), rows};
    Present present = without_lock([&] {
        return find_elements({repeated.data(), repeated.size()}, {defined.data(), defined.size()},
                             static_cast<unsigned>(largest), static_cast<unsigned>(list), values, lists);
    });
    return nb::make_tuple(present.rows, present.values, present.count, mask_of(present));
}

nb::object deltas_of(nb::handle data, std::int64_t count) {
    const BufferArgument buffer(data);
    Deltas deltas = without_lock([&] { return decode_deltas(buffer.data(), buffer.size(), count); });
    return nb::make_tuple(array_of(std::move(deltas.numbers)), deltas.used);
}

std::size_t join_values(nb::handle data, nb::handle prefix, nb::handle length, nb::handle out) {
    const BufferArgument buffer(data);
    const auto prefixes = array_argument<const std::int64_t>(prefix, "prefix");
    const auto lengths = array_argument<const std::int64_t>(length, "length");
    const auto target = array_argument<std::uint8_t>(out, "out");
    if (lengths.size() != prefixes.size()) throw nb::value_error("prefix and length must have the same length");
    const nb::gil_scoped_release unlocked;
    return join_prefixed(buffer.data(), buffer.size(), prefixes.data(), lengths.data(), lengths.size(), target.data(),
                         target.size());
}

}  // namespace

void bind_parquet(nb::module_ &module) {
    module.def("scan_byte_arrays", &find_values, nb::arg("data"), nb::arg("count"), nb::arg("start") = 0,
               nb::arg("size") = -1);
    module.def("read_hybrid", &hybrid_of, nb::arg("data"), nb::arg("width"), nb::arg("count"));
    module.def("present_values", &present_values, nb::arg("definition"), nb::arg("largest"), nb::arg("values"));
    module.def("present_elements", &present_elements, nb::arg("repetition"), nb::arg("definition"), nb::arg("largest"),
               nb::arg("list"), nb::arg("values"), nb::arg("rows"), nb::arg("counts"), nb::arg("absent"));
    module.def("decode_deltas", &deltas_of, nb::arg("data"), nb::arg("count") = -1);
    module.def("join_prefixed", &join_values, nb::arg("data"), nb::arg("prefix"), nb::arg("length"), nb::arg("out"));
}

}  // namespace bushel
