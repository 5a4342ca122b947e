// libjpeg's errors as exceptions.
#pragma once
#include <cstddef>
#include <cstdio>
// jpeglib.h needs the two headers above it.
#include <jpeglib.h>

#include <csetjmp>

#include "faults.hpp"

namespace bushel {

// The error manager of one or several libjpeg objects.
class JpegErrors {
public:
    JpegErrors() {
        jpeg_std_error(&manager_);
        manager_.errors = this;
        manager_.error_exit = on_error;
        manager_.emit_message = on_message;
    }
    JpegErrors(const JpegErrors &) = delete;
    JpegErrors &operator=(const JpegErrors &) = delete;

    jpeg_error_mgr *manager() { return &manager_; }
    void tolerate_warnings(bool tolerant) { tolerant_ = tolerant; }

    // Runs a step that calls libjpeg. An error leaves it by longjmp, so it must hold nothing that has a destructor;
    // then `clean` is run, and a JpegFault thrown.
    template <typename Step, typename Clean>
    void guard(Step step, Clean clean) {
        if (setjmp(escape_)) {
            clean();
            throw JpegFault(message_);
        }
        step();
    }

    // Leaves the step with a message of one's own.
    template <typename... Values>
    [[noreturn]] void leave(const char *format, Values... values) {
        std::snprintf(message_, sizeof message_, format, values...);
        std::longjmp(escape_, 1);
    }

private:
    struct Manager : jpeg_error_mgr {
        JpegErrors *errors;
    };

    static void on_error(j_common_ptr object) {
        JpegErrors *errors = static_cast<Manager *>(object->err)->errors;
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

// Ends a decoding that costs a pass over a whole image for a few bytes again and again. Progressive encoders write some
// ten scans.
struct JpegScanLimit : jpeg_progress_mgr {
    explicit JpegScanLimit(JpegErrors &errors) : jpeg_progress_mgr{}, errors(&errors) { progress_monitor = check; }

    static void check(j_common_ptr object) {
        constexpr int most = 200;
        const auto *image = reinterpret_cast<j_decompress_ptr>(object);
        if (image->input_scan_number > most) {
            static_cast<JpegScanLimit *>(object->progress)->errors->leave("it has more than %d scans", most);
        }
    }

    JpegErrors *errors;
};

}  // namespace bushel
