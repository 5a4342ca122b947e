// Python bindings: frames of videos.
#include "common/python.hpp"
#include "video/yuv420.hpp"

namespace bushel {

namespace {

using Pixels = nb::ndarray<std::uint8_t, nb::shape<-1, -1, 3>, nb::c_contig, nb::device::cpu>;

void check_plane(const BufferArgument &plane, std::size_t rows, std::size_t row, std::size_t stride) {
    if (rows == 0 || row == 0) return;
    if (stride < row || plane.size() < row || (rows - 1) > (plane.size() - row) / stride) {
        throw nb::value_error("a plane is smaller than its frame");
    }
}

void to_rgb(nb::handle luma, nb::handle cb, nb::handle cr, std::size_t luma_stride, std::size_t chroma_stride,
            int matrix, nb::handle out) {
    Pixels pixels;
    if (!nb::try_cast(out, pixels, false)) {
        throw nb::type_error("out: expected a contiguous writable uint8 array of rows, columns and 3 colours");
    }
    const std::size_t height = pixels.shape(0), width = pixels.shape(1);
    if (height % 2) throw nb::value_error("out: expected an even number of rows");
    if (matrix != 601 && matrix != 709) throw nb::value_error("matrix: expected 601 or 709");
    const BufferArgument planes[3] = {BufferArgument(luma), BufferArgument(cb), BufferArgument(cr)};
    check_plane(planes[0], height, width, luma_stride);
    for (int i = 1; i < 3; ++i) check_plane(planes[i], height / 2, (width + 1) / 2, chroma_stride);
    const Yuv420 frame{planes[0].data(), planes[1].data(), planes[2].data(), luma_stride, chroma_stride};
    const nb::gil_scoped_release unlocked;
    yuv420_to_rgb(frame, width, height, matrix == 709 ? Matrix::bt709 : Matrix::bt601, pixels.data());
}

}  // namespace

void bind_video(nb::module_ &module) {
    module.def("yuv420_to_rgb", &to_rgb, nb::arg("luma"), nb::arg("cb"), nb::arg("cr"), nb::arg("luma_stride"),
               nb::arg("chroma_stride"), nb::arg("matrix"), nb::arg("out"));
}

}  // namespace bushel
