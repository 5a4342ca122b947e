// A JPEG that is written into memory.
#pragma once
#include <cstdlib>

#include "jpeg_errors.hpp"

namespace bushel {

class JpegTarget {
public:
    explicit JpegTarget(JpegErrors &errors) {
        image.err = errors.manager();
        errors.guard([this] { jpeg_create_compress(&image); }, [] {});
    }
    ~JpegTarget() {
        jpeg_destroy_compress(&image);
        std::free(bytes);  // jpeg_mem_dest takes it from malloc
    }
    JpegTarget(const JpegTarget &) = delete;
    JpegTarget &operator=(const JpegTarget &) = delete;

    jpeg_compress_struct image{};
    unsigned char *bytes = nullptr;
    unsigned long length = 0;
};

}  // namespace bushel
