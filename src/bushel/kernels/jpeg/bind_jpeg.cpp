// Python bindings: JPEG headers, decoding, encoding, segments of tiled JPEGs, and resizing.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>

#include "common/exceptions.hpp"
#include "common/memory.hpp"
#include "common/python.hpp"
#include "jpeg/crop.hpp"
#include "jpeg/encode.hpp"
#include "jpeg/plan.hpp"
#include "jpeg/seek.hpp"
#include "jpeg/tiles.hpp"

namespace bushel {

namespace {

using AnyArray = nb::ndarray<nb::c_contig, nb::device::cpu>;
using AnyConstant = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using GeometryRows = nb::ndarray<const std::int32_t, nb::shape<-1, 10>, nb::c_contig, nb::device::cpu>;

JpegDecoders &decoders_of_thread() {
    thread_local JpegDecoders decoders;
    return decoders;
}

template <typename Type>
Type argument_of(nb::handle object, const char *name, const char *expected) {
    Type array;
    if (!nb::try_cast(object, array, false)) {
        raise_type_error(std::string(name) + ": expected a contiguous " + expected);
    }
    return array;
}

Geometry geometry_row(const std::int32_t *number) {
    Geometry geometry;
    geometry.box = {number[0], number[1], number[2], number[3]};
    geometry.width = number[4], geometry.height = number[5];
    geometry.left = number[6], geometry.top = number[7];
    geometry.flip_x = number[8] != 0, geometry.flip_y = number[9] != 0;
    return geometry;
}

GeometryRows geometry_argument(nb::handle object, std::size_t rows) {
    GeometryRows numbers;
    if (!nb::try_cast(object, numbers, false))
        throw nb::type_error("geometry: expected an int32 array of shape (n, 10)");
    if (numbers.shape(0) != rows) {
        raise_value_error("geometry has " + std::to_string(numbers.shape(0)) + " rows, expected " +
                          std::to_string(rows));
    }
    return numbers;
}

// A batch array: `out` of shape (n, height, width, channels) or (n, channels, height, width).
class BatchOutput {
public:
    BatchOutput(nb::handle out, bool channels_first, nb::handle table)
        : out_(argument_of<AnyArray>(out, "out", "writable array")) {
        if (out_.ndim() != 4) throw nb::type_error("out: expected an array with four dimensions");
        const std::size_t height = out_.shape(channels_first ? 2 : 1), width = out_.shape(channels_first ? 3 : 2);
        const std::size_t channels = out_.shape(channels_first ? 1 : 3);
        constexpr std::size_t max_side = 1 << 24;
        if (height < 1 || width < 1 || height > max_side || width > max_side || channels < 1 || channels > 4) {
            raise_value_error("out: images of " + std::to_string(width) + "x" + std::to_string(height) +
                              " pixels with " + std::to_string(channels) + " channels are not supported");
        }
        image_.height = static_cast<int>(height), image_.width = static_cast<int>(width);
        image_.channels = static_cast<int>(channels);
        image_.channels_first = channels_first;
        image_.itemsize = out_.itemsize();
        if (table.is_none()) {
            if (out_.dtype() != nb::dtype<std::uint8_t>()) throw nb::type_error("out: expected uint8 without a table");
            return;
        }
        table_ = argument_of<AnyConstant>(table, "table", "array");
        if (table_.dtype() != out_.dtype()) throw nb::type_error("table: expected the dtype of out");
        if (image_.itemsize != 1 && image_.itemsize != 2 && image_.itemsize != 4) {
            throw nb::type_error("out: expected elements of 1, 2 or 4 bytes");
        }
        if (table_.ndim() != 2 || table_.shape(0) != 256 || table_.shape(1) != channels) {
            raise_value_error("table: expected shape (256, " + std::to_string(channels) + ")");
        }
        image_.table = table_.data();
    }

    std::size_t count() const { return out_.shape(0); }

    OutputImage operator[](std::size_t row) const {
        OutputImage image = image_;
        image.data = static_cast<std::uint8_t *>(out_.data()) + row * image.bytes();
        return image;
    }

private:
    AnyArray out_;
    AnyConstant table_;
    OutputImage image_;
};

bool is_channels_first(const std::string &layout) {
    if (layout != "HWC" && layout != "CHW")
        raise_value_error("layout: expected \"HWC\" or \"CHW\", found \"" + layout + "\"");
    return layout == "CHW";
}

// The named tuple that jpeg_header returns. bind_jpeg makes it, when one thread imports the module: one that waited
// here for another would stop a free-threaded interpreter that wants all threads to pause.
PyTypeObject *header_type() {
    static PyTypeObject *const type = [] {
        static PyStructSequence_Field fields[] = {{"width", nullptr},
                                                  {"height", nullptr},
                                                  {"components", nullptr},
                                                  {"orientation", nullptr},
                                                  {nullptr, nullptr}};
        static PyStructSequence_Desc description = {"bushel.kernels.JpegHeader", nullptr, fields, 4};
        return PyStructSequence_NewType(&description);
    }();
    if (!type) throw nb::python_error();
    return type;
}

nb::object jpeg_header(nb::handle data) {
    const BufferArgument buffer(data);
    const JpegHeader header = read_jpeg_header(buffer.data(), buffer.size());
    const nb::object result = nb::steal(PyStructSequence_New(header_type()));
    if (!result.is_valid()) throw nb::python_error();
    Py_ssize_t field = 0;
    for (const int value : {header.width, header.height, header.components, header.orientation}) {
        PyStructSequence_SetItem(result.ptr(), field++, PyLong_FromLong(value));
    }
    return result;
}

// A seek table that may be missing. A file holds its words in little-endian order.
class TableArgument {
public:
    explicit TableArgument(nb::handle table) {
        if (!table.is_none()) buffer_.emplace(table);
    }

    SeekTable view() const { return buffer_ ? SeekTable(buffer_->data(), buffer_->size()) : SeekTable(); }

private:
    std::optional<BufferArgument> buffer_;
};

void give_back(std::uint8_t *pixels) noexcept { PixelStore::shared().give(pixels); }

// Append the number of an image with another one's seek table to a list, if one is given.
void note_refused(nb::handle list, std::size_t number, bool is_refused) {
    if (is_refused && !list.is_none()) nb::cast<nb::list>(list).append(number);
}

nb::object decode_jpeg(nb::handle data, nb::handle table, bool orient, bool tolerant, bool fast, bool grey,
                       bool libjpeg, std::int64_t limit, nb::handle refused) {
    const BufferArgument buffer(data);
    const TableArgument states(table);
    JpegOptions options;
    options.orient = orient, options.tolerant = tolerant, options.max_pixels = limit;
    options.libjpeg = libjpeg, options.fast = fast;
    const JpegHeader header = check_jpeg(buffer.data(), buffer.size(), options);
    const Orientation orientation(orient ? header.orientation : 1);
    if (grey && header.components == 4) throw JpegError("it is CMYK, whose channels can only be decoded together");
    const int channels = grey || header.components == 1 ? 1 : 3;
    const auto height = static_cast<std::size_t>(orientation.transposed ? header.width : header.height);
    const auto width = static_cast<std::size_t>(orientation.transposed ? header.height : header.width);
    std::unique_ptr<std::uint8_t, void (*)(std::uint8_t *)> pixels(
        PixelStore::shared().take(height * width * static_cast<std::size_t>(channels)), give_back);
    without_lock([&] {
        decode_all(decoders_of_thread(), buffer.data(), buffer.size(), header, channels, options, pixels.get(),
                   states.view());
    });
    note_refused(refused, 0, decoders_of_thread().refused_table);
    std::uint8_t *first = pixels.release();
    nb::capsule owner(first, [](void *memory) noexcept { give_back(static_cast<std::uint8_t *>(memory)); });
    const std::size_t shape[] = {height, width, 3};
    return nb::cast(nb::ndarray<nb::numpy, std::uint8_t>(first, channels == 1 ? 2 : 3, shape, owner));
}

nb::object decode_jpegs(nb::handle datas, nb::handle geometry, nb::handle out, const std::string &layout,
                        nb::handle table, std::optional<double> reducing_gap, bool orient, bool tolerant, bool libjpeg,
                        std::int64_t limit, nb::handle seek_tables, nb::handle refused) {
    const BatchOutput images(out, is_channels_first(layout), table);
    const Sequence list(datas, "datas: expected a list of bytes");
    const std::size_t count = list.size();
    if (images.count() != count) {
        raise_value_error("out has room for " + std::to_string(images.count()) + " images, expected " +
                          std::to_string(count));
    }
    const GeometryRows rows = geometry_argument(geometry, count);
    std::deque<BufferArgument> buffers;
    for (std::size_t row = 0; row < count; ++row) buffers.emplace_back(list[row]);
    std::deque<TableArgument> tables;
    if (!seek_tables.is_none()) {
        const Sequence given(seek_tables, "seek_tables: expected a list");
        if (given.size() != count)
            raise_value_error("seek_tables: expected one for each image, or None");
        for (std::size_t row = 0; row < count; ++row) tables.emplace_back(given[row]);
    }
    JpegOptions options;
    options.reducing_gap = reducing_gap.value_or(0);
    options.orient = orient, options.tolerant = tolerant, options.libjpeg = libjpeg, options.max_pixels = limit;
    if (reducing_gap && !(*reducing_gap >= 1))
        raise_value_error("reducing_gap: expected a number of at least 1, or None");

    std::vector<std::pair<std::size_t, std::string>> errors;
    std::vector<std::size_t> refusals;
    {
        const nb::gil_scoped_release unlocked;
        JpegDecoders &decoders = decoders_of_thread();
        for (std::size_t row = 0; row < count; ++row) {
            try {
                decode_crop(decoders, buffers[row].data(), buffers[row].size(),
                            geometry_row(rows.data() + row * rows.shape(1)), options, images[row],
                            tables.empty() ? SeekTable() : tables[row].view());
                if (decoders.refused_table) refusals.push_back(row);
            } catch (const JpegError &error) {
                errors.emplace_back(row, error.message);
            }
        }
    }
    for (const std::size_t row : refusals) note_refused(refused, row, true);
    nb::list found;
    for (const auto &[row, message] : errors) found.append(nb::make_tuple(row, message));
    return found;
}

nb::object encode(nb::handle image, int quality, const std::array<int, 2> &sampling, bool fast) {
    const auto array = argument_of<AnyConstant>(image, "image", "array");
    const std::size_t channels = array.ndim() == 2 ? 1 : array.ndim() == 3 ? array.shape(2) : 0;
    if (array.dtype() != nb::dtype<std::uint8_t>() || (channels != 1 && channels != 3)) {
        throw nb::type_error("image: expected a uint8 array of shape (height, width) or (height, width, 3)");
    }
    if (quality < 1 || quality > 100) raise_value_error("quality: expected 1 to 100, found " + std::to_string(quality));
    const auto [h_samp_factor, v_samp_factor] = sampling;
    if (h_samp_factor < 1 || h_samp_factor > 2 || v_samp_factor < 1 || v_samp_factor > 2) {
        raise_value_error("sampling: expected factors of 1 or 2, found (" + std::to_string(h_samp_factor) + ", " +
                          std::to_string(v_samp_factor) + ")");
    }
    constexpr std::size_t max_side = 65535;
    if (array.shape(0) > max_side || array.shape(1) > max_side) {
        raise_value_error("image: a JPEG has at most 65535 rows and columns, found " + std::to_string(array.shape(0)) +
                          "x" + std::to_string(array.shape(1)));
    }
    const std::vector<std::uint8_t> encoded = without_lock([&] {
        return encode_jpeg(static_cast<const std::uint8_t *>(array.data()), static_cast<int>(array.shape(1)),
                           static_cast<int>(array.shape(0)), static_cast<int>(channels),
                           {quality, h_samp_factor, v_samp_factor, fast});
    });
    return nb::bytes(encoded.data(), encoded.size());
}

nb::object jpeg_segment_offsets(nb::handle data) {
    const BufferArgument buffer(data);
    const JpegHeader header = read_jpeg_header(buffer.data(), buffer.size());
    const std::vector<std::size_t> segments = find_segments(buffer.data(), buffer.size(), header);
    return array_of(std::vector<std::int64_t>(segments.begin(), segments.end()));
}

Region box_argument(const JpegHeader &header, const std::array<int, 4> &box) {
    const Region region{box[0], box[1], box[2], box[3]};
    if (region.left < 0 || region.top < 0 || region.right > header.width || region.bottom > header.height ||
        region.is_empty()) {
        raise_value_error("the box is not inside the image, which is " + std::to_string(header.width) + "x" +
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

// Check given offsets of segments: their number must fit the header, and they must ascend inside the data.
std::vector<std::size_t> segments_argument(nb::handle segments, const JpegHeader &header, std::size_t size) {
    const auto given = array_argument<const std::int64_t>(segments, "segments");
    const JpegGrid grid(header);
    const int segments_across = grid.per_segment ? grid.segments_across() : 0;
    bool is_valid = given.size() == static_cast<std::size_t>(grid.rows) * static_cast<std::size_t>(segments_across) + 1;
    std::vector<std::size_t> offsets;
    std::size_t least = header.data_offset;
    for (std::size_t i = 0; is_valid && i < given.size(); ++i) {
        const auto offset = static_cast<std::size_t>(given.data()[i]);  // a negative one is a large number
        is_valid = offset >= least && offset <= size;
        offsets.push_back(offset);
        least = offset + 2;
    }
    if (!is_valid) raise_value_error("segments: the offsets do not belong to this JPEG");
    return offsets;
}

nb::object splice_jpeg(nb::handle data, const std::array<int, 4> &box, nb::handle segments) {
    const BufferArgument buffer(data);
    const JpegHeader header = read_jpeg_header(buffer.data(), buffer.size());
    const SegmentWindow window = find_window(header, box_argument(header, box));
    if (window.is_empty()) return nb::none();
    const std::vector<std::size_t> offsets = segments.is_none() ? find_segments(buffer.data(), buffer.size(), header)
                                                                : segments_argument(segments, header, buffer.size());
    if (offsets.empty()) return nb::none();
    std::vector<std::uint8_t> spliced;
    const Region shown = splice(buffer.data(), header, window, offsets.data(), spliced);
    return nb::make_tuple(nb::bytes(spliced.data(), spliced.size()), shown.left, shown.top);
}

nb::object jpeg_seek_table(nb::handle data, int pixels) {
    const BufferArgument buffer(data);
    if (pixels < 1) raise_value_error("pixels: expected at least 1, found " + std::to_string(pixels));
    return array_of(without_lock([&] {
        const JpegHeader header = read_jpeg_header(buffer.data(), buffer.size());
        return decoders_of_thread().baseline.make_seek_table(buffer.data(), buffer.size(), header, pixels);
    }));
}

// The states of an image of a given size, checked as far as its header allows; none if the table is not its own.
std::optional<SeekStates> states_of(const TableArgument &table, const JpegHeader &header, std::size_t size) {
    SeekStates states;
    if (header.data_offset > size || !states.read(table.view(), header, size)) return std::nullopt;
    return states;
}

nb::object jpeg_seek_ranges(nb::handle head, std::size_t size, nb::handle table, const std::array<int, 4> &box) {
    const BufferArgument buffer(head);
    const JpegHeader header = read_jpeg_header(buffer.data(), buffer.size());
    const Region region = box_argument(header, box);
    const std::optional<SeekStates> states = states_of(TableArgument(table), header, size);
    if (!states) return nb::none();
    nb::list ranges;
    for (const auto &[begin, end] : seek_ranges(*states, header, size, plan_region(header, region, 1, 3).mcus)) {
        ranges.append(nb::make_tuple(begin, end - begin));
    }
    return ranges;
}

nb::object decode_jpeg_box(nb::handle data, nb::handle table, const std::array<int, 4> &box, std::int64_t limit) {
    const BufferArgument buffer(data);
    const TableArgument states(table);
    JpegOptions options;
    options.max_pixels = limit;
    const JpegHeader header = check_jpeg(buffer.data(), buffer.size(), options);
    const Region region = box_argument(header, box);
    const int channels = header.components == 1 ? 1 : 3;
    const auto height = static_cast<std::size_t>(region.height()), width = static_cast<std::size_t>(region.width());
    std::unique_ptr<std::uint8_t[]> pixels(new std::uint8_t[height * width * static_cast<std::size_t>(channels)]);
    const bool done = !states.view().is_empty() && without_lock([&] {
        const ImageRows rows(pixels.get(), region.width(), region.height(), channels);
        return decoders_of_thread().baseline.read(buffer.data(), buffer.size(), header, states.view(), region, 1,
                                                  channels, rows);
    });
    if (!done) return nb::none();
    if (channels == 1) return owned_array(pixels.release(), {height, width});
    return owned_array(pixels.release(), {height, width, 3});
}

void resize_image(nb::handle image, nb::handle geometry, nb::handle out, const std::string &layout, nb::handle table) {
    const auto array = argument_of<AnyConstant>(image, "image", "array");
    if (array.dtype() != nb::dtype<std::uint8_t>() || array.ndim() != 3) {
        throw nb::type_error("image: expected a uint8 array of shape (height, width, channels)");
    }
    const BatchOutput images(out, is_channels_first(layout), table);
    const GeometryRows rows = geometry_argument(geometry, 1);
    if (images.count() != 1) raise_value_error("out has " + std::to_string(images.count()) + " images, expected 1");
    OutputImage image_out = images[0];
    const int channels = static_cast<int>(std::min(array.shape(2), std::size_t{5}));
    image_out.is_grey = channels == 1 && image_out.channels == 3;
    if (channels != image_out.channels && !image_out.is_grey) {
        raise_value_error("image has " + std::to_string(array.shape(2)) + " channels, but out has " +
                          std::to_string(image_out.channels));
    }
    constexpr std::size_t max_side = 1 << 24;
    if (array.shape(0) > max_side || array.shape(1) > max_side)
        raise_value_error("image: more than 16777216 rows or columns");
    const int height = static_cast<int>(array.shape(0)), width = static_cast<int>(array.shape(1));
    const Geometry wanted = geometry_row(rows.data());
    const std::string problem = geometry_problem(wanted, width, height, image_out);
    if (!problem.empty()) raise_value_error(problem);
    const nb::gil_scoped_release unlocked;
    resize_crop({static_cast<const std::uint8_t *>(array.data()), std::ptrdiff_t{width} * channels, width, height,
                 channels},
                wanted, image_out);
}

}  // namespace

void bind_jpeg(nb::module_ &module) {
    module.attr("JpegHeader") = nb::borrow(reinterpret_cast<PyObject *>(header_type()));
    module.def("jpeg_header", &jpeg_header, nb::arg("data"));
    module.def("decode_jpeg", &decode_jpeg, nb::arg("data"), nb::arg("seek_table") = nb::none(), nb::kw_only(),
               nb::arg("orient") = false, nb::arg("tolerant") = false, nb::arg("fast") = false, nb::arg("grey") = false,
               nb::arg("libjpeg") = false, nb::arg("max_pixels") = default_max_pixels, nb::arg("refused") = nb::none());
    module.def("decode_jpegs", &decode_jpegs, nb::arg("datas"), nb::arg("geometry"), nb::arg("out"),
               nb::arg("layout") = "HWC", nb::arg("table") = nb::none(), nb::kw_only(), nb::arg("reducing_gap") = 2.0,
               nb::arg("orient") = false, nb::arg("tolerant") = false, nb::arg("libjpeg") = false,
               nb::arg("max_pixels") = default_max_pixels, nb::arg("seek_tables") = nb::none(),
               nb::arg("refused") = nb::none());
    module.def("decode_jpeg_box", &decode_jpeg_box, nb::arg("data"), nb::arg("seek_table"), nb::arg("box"),
               nb::kw_only(), nb::arg("max_pixels") = default_max_pixels);
    module.def("jpeg_seek_table", &jpeg_seek_table, nb::arg("data"), nb::arg("pixels") = 64);
    module.def("jpeg_seek_ranges", &jpeg_seek_ranges, nb::arg("head"), nb::arg("size"), nb::arg("seek_table"),
               nb::arg("box"));
    module.def("encode_jpeg", &encode, nb::arg("image"), nb::arg("quality") = 95,
               nb::arg("sampling") = std::array<int, 2>{2, 2}, nb::kw_only(), nb::arg("fast") = false);
    module.def("jpeg_segment_offsets", &jpeg_segment_offsets, nb::arg("data"));
    module.def("jpeg_segment_window", &jpeg_segment_window, nb::arg("head"), nb::arg("box"));
    module.def("splice_jpeg", &splice_jpeg, nb::arg("data"), nb::arg("box"), nb::arg("segments") = nb::none());
    module.def("resize", &resize_image, nb::arg("image"), nb::arg("geometry"), nb::arg("out"),
               nb::arg("layout") = "HWC", nb::arg("table") = nb::none());
}

}  // namespace bushel
