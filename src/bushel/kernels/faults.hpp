// The ways in which reading bytes, and decoding them, can fail. Plain C++ values: module.cpp turns them into Python
// exceptions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>

namespace bushel {

// An extent that cannot be read as asked: becomes bushel.kernels.ExtentError.
struct ExtentFault : std::exception {
    enum class Reason { beyond, checksum, shrunk };

    ExtentFault(Reason reason, std::size_t row, std::int64_t expected, std::int64_t found, std::string path)
        : reason(reason), row(row), expected(expected), found(found), path(std::move(path)) {}

    const char *what() const noexcept override { return "extent cannot be read"; }

    Reason reason;
    std::size_t row;
    std::int64_t expected;
    std::int64_t found;
    std::string path;
};

// A system call that failed on a file: becomes the OSError of that errno.
struct SystemFault : std::exception {
    SystemFault(int error, std::string path) : error(error), path(std::move(path)) {}

    const char *what() const noexcept override { return "system call failed"; }

    int error;
    std::string path;
};

// Bytes that are no JPEG, or one that cannot be decoded as asked: becomes bushel.kernels.JpegError.
struct JpegFault : std::exception {
    explicit JpegFault(std::string message) : message(std::move(message)) {}

    const char *what() const noexcept override { return message.c_str(); }

    std::string message;
};

}  // namespace bushel
