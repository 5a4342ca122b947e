// Crops of decoded images to results of one size, on a GPU: antialiased bilinear resizing as in Pillow, without its
// rounding between columns and rows. nvidia_resample.py compiles this when it is first needed, by NVRTC.

// A row of the table of images; all are 64-bit integers, as NumPy writes them.
struct Crop {
    const unsigned char* pixels;  // height x width x 3, the box that is resized; null if there is none
    long long stride;             // bytes from row to row
    long long width, height;      // of the box
    long long scaled_width, scaled_height;
    long long left, top;  // of the window in the resized box
    long long mirrored, upside_down;
};

// The pixels of one axis that a pixel of the result is made of.
struct Taps {
    int first, end;
    float centre, inverse;

    __device__ Taps(int at, int size, int scaled) {
        float scale = float(size) / float(scaled), support = scale < 1.0f ? 1.0f : scale;
        centre = (at + 0.5f) * scale;
        inverse = 1.0f / support;
        first = max(int(centre - support + 0.5f), 0);
        end = min(int(centre + support + 0.5f), size);
    }

    __device__ float weight(int at) const { return max(0.0f, 1.0f - fabsf((at - centre + 0.5f) * inverse)); }
};

// One thread makes one pixel of one result; results are height x width x 3, one after another.
extern "C" __global__ void resample(const Crop* crops, unsigned char* results, int height, int width) {
    const Crop crop = crops[blockIdx.z];
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    unsigned char* result = results + 3 * ((size_t(blockIdx.z) * height + y) * width + x);
    if (crop.pixels == nullptr) {
        result[0] = result[1] = result[2] = 0;
        return;
    }
    const Taps columns(int(crop.left) + (crop.mirrored ? width - 1 - x : x), int(crop.width), int(crop.scaled_width));
    const Taps rows(int(crop.top) + (crop.upside_down ? height - 1 - y : y), int(crop.height), int(crop.scaled_height));
    float red = 0, green = 0, blue = 0, total = 0;
    for (int row = rows.first; row < rows.end; ++row) {
        const unsigned char* pixel = crop.pixels + row * crop.stride + 3 * columns.first;
        const float of_row = rows.weight(row);
        for (int column = columns.first; column < columns.end; ++column, pixel += 3) {
            const float weight = of_row * columns.weight(column);
            red += weight * pixel[0];
            green += weight * pixel[1];
            blue += weight * pixel[2];
            total += weight;
        }
    }
    const float scale = 1.0f / total;
    result[0] = (unsigned char)(red * scale + 0.5f);
    result[1] = (unsigned char)(green * scale + 0.5f);
    result[2] = (unsigned char)(blue * scale + 0.5f);
}
