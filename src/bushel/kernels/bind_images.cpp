// Kernels on images: JPEG headers, decoding, crops, resizing.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>

#include "faults.hpp"
#include "jpeg_crop.hpp"
#include "jpeg_encode.hpp"
#include "jpeg_tiles.hpp"
#include "jpeg_transcode.hpp"
#include "orientation.hpp"
#include "pixel_store.hpp"
#include "python.hpp"

namespace bushel {

namespace {

using AnyArray = nb::ndarray<nb::c_contig, nb::device::cpu>;
using AnyConstant = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Numbers = nb::ndarray<const std::int32_t, nb::shape<-1, 10>, nb::c_contig, nb::device::cpu>;

constexpr std::int64_t most_pixels = (std::int64_t{1} << 30) / 12;  // Pillow's limit against decompression bombs

JpegDecoders &decoders_of_thread() {
    thread_local JpegDecoders decoders;
    return decoders;
}

[[noreturn]] void wrong(const std::string &message) { throw nb::value_error(message.c_str()); }

template <typename Type>
Type array_of(nb::handle object, const char *name, const char *expected) {
    Type array;
    if (!nb::try_cast(object, array, false)) {
        throw nb::type_error((std::string(name) + ": expected a contiguous " + expected).c_str());
    }
    return array;
}

Geometry geometry_row(const std::int32_t *number) {
    Geometry geometry;
    geometry.box = {number[0], number[1], number[2], number[3]};
    geometry.width = number[4], geometry.height = number[5];
    geometry.left = number[6], geometry.top = number[7];
    geometry.flip_across = number[8] != 0, geometry.flip_down = number[9] != 0;
    return geometry;
}

Numbers geometry_argument(nb::handle object, std::size_t rows) {
    Numbers numbers;
    if (!nb::try_cast(object, numbers, false))
        throw nb::type_error("geometry: expected an int32 array of shape (n, 10)");
    if (numbers.shape(0) != rows) {
        wrong("geometry has " + std::to_string(numbers.shape(0)) + " rows, expected " + std::to_string(rows));
    }
    return numbers;
}

// A batch array as slots: `out` of shape (n, height, width, channels) or (n, channels, height, width).
class Slots {
public:
    Slots(nb::handle out, bool planar, nb::handle table) : out_(array_of<AnyArray>(out, "out", "writable array")) {
        if (out_.ndim() != 4) throw nb::type_error("out: expected four dimensions");
        const std::size_t height = out_.shape(planar ? 2 : 1), width = out_.shape(planar ? 3 : 2);
        const std::size_t channels = out_.shape(planar ? 1 : 3);
        constexpr std::size_t longest = 1 << 24;
        if (height < 1 || width < 1 || height > longest || width > longest || channels < 1 || channels > 4) {
            wrong("out: slots of " + std::to_string(width) + "x" + std::to_string(height) + " pixels with " +
                  std::to_string(channels) + " channels are not possible");
        }
        slot_.height = static_cast<int>(height), slot_.width = static_cast<int>(width);
        slot_.channels = static_cast<int>(channels);
        slot_.planar = planar;
        slot_.element = out_.itemsize();
        if (table.is_none()) {
            if (out_.dtype() != nb::dtype<std::uint8_t>()) throw nb::type_error("out: expected uint8 without a table");
            return;
        }
        table_ = array_of<AnyConstant>(table, "table", "array");
        if (table_.dtype() != out_.dtype()) throw nb::type_error("table: expected the dtype of out");
        if (slot_.element != 1 && slot_.element != 2 && slot_.element != 4) {
            throw nb::type_error("out: expected elements of 1, 2 or 4 bytes");
        }
        if (table_.ndim() != 2 || table_.shape(0) != 256 || table_.shape(1) != channels) {
            wrong("table: expected shape (256, " + std::to_string(channels) + ")");
        }
        slot_.table = table_.data();
    }

    std::size_t count() const { return out_.shape(0); }

    Slot operator[](std::size_t row) const {
        Slot slot = slot_;
        slot.data = static_cast<std::uint8_t *>(out_.data()) + row * slot.bytes();
        return slot;
    }

private:
    AnyArray out_;
    AnyConstant table_;
    Slot slot_;
};

bool is_planar(const std::string &layout) {
    if (layout != "HWC" && layout != "CHW") wrong("layout: expected \"HWC\" or \"CHW\", found \"" + layout + "\"");
    return layout == "CHW";
}

nb::tuple jpeg_header(nb::handle data) {
    const BufferArgument buffer(data);
    const JpegHeader header = read_jpeg_header(buffer.data(), buffer.size());
    return nb::make_tuple(header.width, header.height, header.components, header.orientation);
}

void give_back(std::uint8_t *pixels) noexcept { PixelStore::shared().give(pixels); }

nb::object decode_jpeg(nb::handle data, bool orient, bool tolerant, bool fast, bool grey, bool libjpeg,
                       std::int64_t limit) {
    const BufferArgument buffer(data);
    JpegOptions options;
    options.orient = orient, options.tolerant = tolerant, options.most_pixels = limit;
    options.libjpeg = libjpeg, options.fast = fast;
    const JpegHeader header = check_jpeg(buffer.data(), buffer.size(), options);
    const Orientation orientation(orient ? header.orientation : 1);
    if (grey && header.components == 4) throw JpegFault("it is CMYK, whose luma is not decoded");
    const int channels = grey || header.components == 1 ? 1 : 3;
    const auto height = static_cast<std::size_t>(orientation.turned ? header.width : header.height);
    const auto width = static_cast<std::size_t>(orientation.turned ? header.height : header.width);
    std::unique_ptr<std::uint8_t, void (*)(std::uint8_t *)> pixels(
        PixelStore::shared().take(height * width * static_cast<std::size_t>(channels)), give_back);
    {
        const nb::gil_scoped_release unlocked;
        JpegDecoders &decoders = decoders_of_thread();
        if (orientation.is_upright()) {
            decode_all(decoders, buffer.data(), buffer.size(), header, channels, options, pixels.get());
        } else {
            std::uint8_t *stored = decoders.pixels.bytes(height * width * static_cast<std::size_t>(channels));
            decode_all(decoders, buffer.data(), buffer.size(), header, channels, options, stored);
            make_upright({stored, std::ptrdiff_t{header.width} * channels, header.width, header.height, channels},
                         orientation, pixels.get());
        }
    }
    std::uint8_t *first = pixels.release();
    nb::capsule owner(first, [](void *memory) noexcept { give_back(static_cast<std::uint8_t *>(memory)); });
    const std::size_t shape[] = {height, width, 3};
    return nb::cast(nb::ndarray<nb::numpy, std::uint8_t>(first, channels == 1 ? 2 : 3, shape, owner));
}

nb::object decode_jpegs(nb::handle datas, nb::handle geometry, nb::handle out, const std::string &layout,
                        nb::handle table, std::optional<double> reducing_gap, bool orient, bool tolerant,
                        bool libjpeg, std::int64_t limit) {
    const Slots slots(out, is_planar(layout), table);
    const nb::object list = nb::steal(PySequence_Fast(datas.ptr(), "datas: expected a list of bytes"));
    if (!list.is_valid()) throw nb::python_error();
    const auto count = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(list.ptr()));
    if (slots.count() != count) {
        wrong("out has " + std::to_string(slots.count()) + " slots, expected " + std::to_string(count));
    }
    const Numbers numbers = geometry_argument(geometry, count);
    std::deque<BufferArgument> buffers;
    for (std::size_t row = 0; row < count; ++row) {
        buffers.emplace_back(PySequence_Fast_GET_ITEM(list.ptr(), static_cast<Py_ssize_t>(row)));
    }
    JpegOptions options;
    options.reducing_gap = reducing_gap.value_or(0);
    options.orient = orient, options.tolerant = tolerant, options.libjpeg = libjpeg, options.most_pixels = limit;
    if (reducing_gap && !(*reducing_gap >= 1)) wrong("reducing_gap: expected a number from 1 on, or None");

    std::vector<std::pair<std::size_t, std::string>> faults;
    {
        const nb::gil_scoped_release unlocked;
        JpegDecoders &decoders = decoders_of_thread();
        for (std::size_t row = 0; row < count; ++row) {
            try {
                decode_crop(decoders, buffers[row].data(), buffers[row].size(),
                            geometry_row(numbers.data() + row * numbers.shape(1)), options, slots[row]);
            } catch (const JpegFault &fault) {
                faults.emplace_back(row, fault.message);
            }
        }
    }
    nb::list found;
    for (const auto &[row, message] : faults) found.append(nb::make_tuple(row, message));
    return found;
}

nb::object encode(nb::handle image, int quality, const std::array<int, 2> &sampling, bool fast) {
    const auto array = array_of<AnyConstant>(image, "image", "array");
    const std::size_t channels = array.ndim() == 2 ? 1 : array.ndim() == 3 ? array.shape(2) : 0;
    if (array.dtype() != nb::dtype<std::uint8_t>() || (channels != 1 && channels != 3)) {
        throw nb::type_error("image: expected a uint8 array of shape (height, width) or (height, width, 3)");
    }
    if (quality < 1 || quality > 100) wrong("quality: expected 1 to 100, found " + std::to_string(quality));
    const auto [across, down] = sampling;
    if (across < 1 || across > 2 || down < 1 || down > 2) wrong("sampling: expected 1 or 2, across and down");
    constexpr std::size_t longest = 65535;
    if (array.shape(0) > longest || array.shape(1) > longest) wrong("image: it is too large for a JPEG");
    std::vector<std::uint8_t> encoded;
    {
        const nb::gil_scoped_release unlocked;
        encoded = encode_jpeg(static_cast<const std::uint8_t *>(array.data()), static_cast<int>(array.shape(1)),
                              static_cast<int>(array.shape(0)), static_cast<int>(channels), {quality, across, down, fast});
    }
    return nb::bytes(encoded.data(), encoded.size());
}

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

nb::object jpeg_segments(nb::handle data) {
    const BufferArgument buffer(data);
    const JpegHeader header = read_jpeg_header(buffer.data(), buffer.size());
    const std::vector<std::size_t> begins = find_segments(buffer.data(), buffer.size(), header);
    std::unique_ptr<std::int64_t[]> offsets(new std::int64_t[begins.size()]);
    std::copy(begins.begin(), begins.end(), offsets.get());
    return owned_array(offsets.release(), begins.size());
}

Region box_argument(const JpegHeader &header, const std::array<int, 4> &box) {
    const Region region{box[0], box[1], box[2], box[3]};
    if (region.left < 0 || region.top < 0 || region.right > header.width || region.bottom > header.height ||
        region.is_empty()) {
        wrong("the box is not inside the image, which is " + std::to_string(header.width) + "x" +
              std::to_string(header.height));
    }
    return region;
}

nb::object jpeg_segment_window(nb::handle head, const std::array<int, 4> &box) {
    const BufferArgument buffer(head);
    const JpegHeader header = read_jpeg_header(buffer.data(), buffer.size());
    const SegmentWindow window = find_window(header, box_argument(header, box));
    if (window.is_empty()) return nb::none();
    return nb::make_tuple(window.first, window.last, window.top, window.bottom, JpegGrid(header).segments_across());
}

// A table of segments that somebody kept: right for the header, and inside the data.
std::vector<std::size_t> checked_segments(nb::handle segments, const JpegHeader &header, std::size_t size) {
    const auto given = array_argument<const std::int64_t>(segments, "segments");
    const JpegGrid grid(header);
    const std::size_t expected =
        static_cast<std::size_t>(grid.rows) * static_cast<std::size_t>(grid.per_segment ? grid.segments_across() : 0) +
        1;
    bool right = given.size() == expected;
    std::vector<std::size_t> begins(given.size());
    std::int64_t least = static_cast<std::int64_t>(header.data);
    for (std::size_t i = 0; i < given.size(); ++i) {
        right = right && given.data()[i] >= least && given.data()[i] <= static_cast<std::int64_t>(size);
        least = given.data()[i] + 2;
        begins[i] = static_cast<std::size_t>(given.data()[i]);
    }
    if (!right) wrong("segments: they are not those of this JPEG");
    return begins;
}

nb::object splice_jpeg(nb::handle data, const std::array<int, 4> &box, nb::handle segments) {
    const BufferArgument buffer(data);
    const JpegHeader header = read_jpeg_header(buffer.data(), buffer.size());
    const SegmentWindow window = find_window(header, box_argument(header, box));
    if (window.is_empty()) return nb::none();
    const std::vector<std::size_t> begins = segments.is_none() ? find_segments(buffer.data(), buffer.size(), header)
                                                               : checked_segments(segments, header, buffer.size());
    if (begins.empty()) return nb::none();
    std::vector<std::uint8_t> spliced;
    const Region shown = splice(buffer.data(), header, window, begins.data(), spliced);
    return nb::make_tuple(nb::bytes(spliced.data(), spliced.size()), shown.left, shown.top);
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

void resize_image(nb::handle image, nb::handle geometry, nb::handle out, const std::string &layout, nb::handle table) {
    const auto array = array_of<AnyConstant>(image, "image", "array");
    if (array.dtype() != nb::dtype<std::uint8_t>() || array.ndim() != 3) {
        throw nb::type_error("image: expected a uint8 array of shape (height, width, channels)");
    }
    const Slots slots(out, is_planar(layout), table);
    const Numbers numbers = geometry_argument(geometry, 1);
    if (slots.count() != 1) wrong("out has " + std::to_string(slots.count()) + " slots, expected 1");
    const Slot slot = slots[0];
    if (array.shape(2) != static_cast<std::size_t>(slot.channels)) {
        wrong("image has " + std::to_string(array.shape(2)) + " channels, out " + std::to_string(slot.channels));
    }
    constexpr std::size_t longest = 1 << 24;
    if (array.shape(0) > longest || array.shape(1) > longest) wrong("image: it is too large");
    const int height = static_cast<int>(array.shape(0)), width = static_cast<int>(array.shape(1));
    const Geometry wanted = geometry_row(numbers.data());
    const std::string problem = geometry_problem(wanted, width, height, slot);
    if (!problem.empty()) wrong(problem);
    const nb::gil_scoped_release unlocked;
    resize_crop({static_cast<const std::uint8_t *>(array.data()), std::ptrdiff_t{width} * slot.channels, width, height,
                 slot.channels},
                wanted, slot);
}

}  // namespace

void bind_images(nb::module_ &module) {
    module.def("jpeg_header", &jpeg_header, nb::arg("data"));
    module.def("decode_jpeg", &decode_jpeg, nb::arg("data"), nb::kw_only(), nb::arg("orient") = false,
               nb::arg("tolerant") = false, nb::arg("fast") = false, nb::arg("grey") = false,
               nb::arg("libjpeg") = false, nb::arg("most_pixels") = most_pixels);
    module.def("decode_jpegs", &decode_jpegs, nb::arg("datas"), nb::arg("geometry"), nb::arg("out"),
               nb::arg("layout") = "HWC", nb::arg("table") = nb::none(), nb::kw_only(), nb::arg("reducing_gap") = 2.0,
               nb::arg("orient") = false, nb::arg("tolerant") = false, nb::arg("libjpeg") = false,
               nb::arg("most_pixels") = most_pixels);
    module.def("encode_jpeg", &encode, nb::arg("image"), nb::arg("quality") = 95,
               nb::arg("sampling") = std::array<int, 2>{2, 2}, nb::kw_only(), nb::arg("fast") = false);
    module.def("tile_jpeg", &tile, nb::arg("data"), nb::kw_only(), nb::arg("metadata") = false,
               nb::arg("most_pixels") = most_pixels);
    module.def("is_tiled_jpeg", &is_tiled, nb::arg("data"));
    module.def("jpeg_segments", &jpeg_segments, nb::arg("data"));
    module.def("jpeg_segment_window", &jpeg_segment_window, nb::arg("head"), nb::arg("box"));
    module.def("splice_jpeg", &splice_jpeg, nb::arg("data"), nb::arg("box"), nb::arg("segments") = nb::none());
    module.def("jpeg_coefficients", &coefficients, nb::arg("data"), nb::kw_only(),
               nb::arg("most_pixels") = most_pixels);
    module.def("resize", &resize_image, nb::arg("image"), nb::arg("geometry"), nb::arg("out"),
               nb::arg("layout") = "HWC", nb::arg("table") = nb::none());
}

}  // namespace bushel
