// libjpeg: its errors as exceptions, a limit on scans, and a compressor that writes into memory.
#pragma once
#include <cstddef>
#include <cstdio>
// jpeglib.h needs the two headers above.
#include <jpeglib.h>

#include <csetjmp>
#include <cstdlib>

#include "common/exceptions.hpp"

namespace bushel {

// The error manager of one or several libjpeg objects.
class LibjpegErrors {
public:
    LibjpegErrors() {
        jpeg_std_error(&manager_);
        manager_.errors = this;
        manager_.error_exit = on_error;
        manager_.emit_message = on_message;
    }
    LibjpegErrors(const LibjpegErrors &) = delete;
    LibjpegErrors &operator=(const LibjpegErrors &) = delete;

    jpeg_error_mgr *manager() { return &manager_; }
    void tolerate_warnings(bool tolerant) { tolerant_ = tolerant; }

    // Run a step that calls libjpeg. After an error, run `clean` and throw JpegError. An error leaves the step by
    // longjmp, so the step must not create objects with destructors.
    template <typename Step, typename Clean>
    void guard(Step step, Clean clean) {
        if (setjmp(escape_)) {
            clean();
            throw JpegError(message_);
        }
        step();
    }

    // Leave the step with a message.
    template <typename... Values>
    [[noreturn]] void fail(const char *format, Values... values) {
        std::snprintf(message_, sizeof message_, format, values...);
        std::longjmp(escape_, 1);
    }

private:
    struct Manager : jpeg_error_mgr {
        LibjpegErrors *errors;
    };

    static void on_error(j_common_ptr object) {
        LibjpegErrors *errors = static_cast<Manager *>(object->err)->errors;
        errors->manager_.format_message(object, errors->message_);
        std::longjmp(errors->escape_, 1);
    }

    static void on_message(j_common_ptr object, int level) {
        if (level < 0 && !static_cast<Manager *>(object->err)->errors->tolerant_) on_error(object);
    }

    Manager manager_{};
    std::jmp_buf escape_;
    char message_[JMSG_LENGTH_MAX] = "";
    bool tolerant_ = false;
};

// Ends the decoding of a file with very many scans, since each costs a pass over the whole image. Progressive
// encoders write about ten.
struct ScanLimit : jpeg_progress_mgr {
    explicit ScanLimit(LibjpegErrors &errors) : jpeg_progress_mgr{}, errors(&errors) { progress_monitor = check; }

    static void check(j_common_ptr object) {
        constexpr int max_scans = 200;
        const auto *image = reinterpret_cast<j_decompress_ptr>(object);
        if (image->input_scan_number > max_scans) {
            static_cast<ScanLimit *>(object->progress)->errors->fail("it has more than %d scans", max_scans);
        }
    }

    LibjpegErrors *errors;
};

// Columns of a decoded block: libjpeg 7 and 8, whose interface Ubuntu's libjpeg-turbo has, distinguish
// them from its rows.
#if JPEG_LIB_VERSION >= 70
inline int block_width(const jpeg_component_info &component) { return component.DCT_h_scaled_size; }
inline int block_width(const jpeg_decompress_struct &image) { return image.min_DCT_h_scaled_size; }
#else
inline int block_width(const jpeg_component_info &component) { return component.DCT_scaled_size; }
inline int block_width(const jpeg_decompress_struct &image) { return image.min_DCT_scaled_size; }
#endif

// A JPEG that is written into memory.
class LibjpegTarget {
public:
    explicit LibjpegTarget(LibjpegErrors &errors) {
        image.err = errors.manager();
        errors.guard([this] { jpeg_create_compress(&image); }, [] {});
    }
    ~LibjpegTarget() {
        jpeg_destroy_compress(&image);
        std::free(bytes);  // jpeg_mem_dest allocates it with malloc
    }
    LibjpegTarget(const LibjpegTarget &) = delete;
    LibjpegTarget &operator=(const LibjpegTarget &) = delete;

    jpeg_compress_struct image{};
    unsigned char *bytes = nullptr;
    unsigned long length = 0;
};

}  // namespace bushel
