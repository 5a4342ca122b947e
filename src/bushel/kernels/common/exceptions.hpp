// The exceptions of the kernels, as plain C++ values. module.cpp turns them into Python exceptions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace bushel {

// An extent cannot be read: becomes bushel.kernels.ExtentError, whose documentation explains the fields.
struct ExtentError : std::exception {
    enum class Reason { beyond, checksum, shrunk };

    ExtentError(Reason reason, std::size_t row, std::int64_t expected, std::int64_t found, std::string path)
        : reason(reason), row(row), expected(expected), found(found), path(std::move(path)) {}

    const char *what() const noexcept override { return "extent cannot be read"; }

    Reason reason;
    std::size_t row;
    std::int64_t expected;
    std::int64_t found;
    std::string path;
};

// A system call failed on a file: becomes the OSError of that errno.
struct SystemError : std::exception {
    SystemError(int error, std::string path) : error(error), path(std::move(path)) {}

    const char *what() const noexcept override { return "system call failed"; }

    int error;
    std::string path;
};

// Bytes are not a JPEG, or the JPEG cannot be decoded or encoded: becomes bushel.kernels.JpegError.
struct JpegError : std::exception {
    explicit JpegError(std::string message) : message(std::move(message)) {}

    const char *what() const noexcept override { return message.c_str(); }

    std::string message;
};

}  // namespace bushel
