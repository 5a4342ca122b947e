// The Python module bushel.kernels._kernels, which _kernels.pyi documents, and its exceptions.
#include <cerrno>

#include "common/exceptions.hpp"
#include "common/python.hpp"

namespace bushel {

namespace {

std::string message_of(const ExtentError &error) {
    const std::string row = "row " + std::to_string(error.row) + ": ";
    const std::string expected = std::to_string(error.expected), found = std::to_string(error.found);
    switch (error.reason) {
        case ExtentError::Reason::beyond:
            return row + "extent up to byte " + expected + " is not inside " + error.path + " (" + found + " bytes)";
        case ExtentError::Reason::checksum:
            return row + "CRC-32 is " + found + ", expected " + expected + ", in " + error.path;
        default:
            return row + error.path + " has shrunk from " + expected + " to " + found + " bytes since it was opened";
    }
}

const char *reason_of(ExtentError::Reason reason) {
    switch (reason) {
        case ExtentError::Reason::beyond:
            return "beyond";
        case ExtentError::Reason::checksum:
            return "checksum";
        default:
            return "shrunk";
    }
}

nb::object text(const std::string &bytes) {  // paths may have any bytes
    return nb::steal(PyUnicode_DecodeFSDefaultAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
}

struct ErrorTypes {
    PyObject *extent, *jpeg;
};

void translate(const std::exception_ptr &thrown, void *types) {
    try {
        std::rethrow_exception(thrown);
    } catch (const JpegError &error) {
        PyErr_SetString(static_cast<ErrorTypes *>(types)->jpeg, error.what());
    } catch (const ExtentError &error) {
        const nb::handle type = static_cast<ErrorTypes *>(types)->extent;
        nb::object raised = type(text(message_of(error)));
        raised.attr("row") = error.row;
        raised.attr("reason") = reason_of(error.reason);
        raised.attr("expected") = error.expected;
        raised.attr("found") = error.found;
        PyErr_SetObject(type.ptr(), raised.ptr());
    } catch (const SystemError &error) {
        errno = error.error;
        PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, text(error.path).ptr());
    }
}

}  // namespace

}  // namespace bushel

NB_MODULE(_kernels, module) {
    namespace nb = nanobind;
    // Daemon threads may hold objects when the interpreter ends. That is not a leak.
    nb::set_leak_warnings(false);
    module.doc() = "Compiled hot loops of Bushel.";
    static bushel::ErrorTypes types;  // lives as long as the module, which is never unloaded
    const auto error_type = [&module](const char *name, const char *full_name) {
        const nb::object type = nb::steal(PyErr_NewException(full_name, PyExc_ValueError, nullptr));
        if (!type.is_valid()) throw nb::python_error();
        module.attr(name) = type;
        return type.ptr();
    };
    types.extent = error_type("ExtentError", "bushel.kernels.ExtentError");
    types.jpeg = error_type("JpegError", "bushel.kernels.JpegError");
    nb::register_exception_translator(bushel::translate, &types);
    bushel::bind_files(module);
    bushel::bind_framing(module);
    bushel::bind_sample_buffer(module);
    bushel::bind_samples(module);
    bushel::bind_jpeg(module);
    bushel::bind_crops(module);
    bushel::bind_scans(module);
    bushel::bind_tfrecord(module);
    bushel::bind_lines(module);
    bushel::bind_parquet(module);
    bushel::bind_riegeli(module);
    bushel::bind_keys(module);
    bushel::bind_numbers(module);
    bushel::bind_order(module);
    bushel::bind_pieces(module);
    bushel::bind_png(module);
    bushel::bind_range_values(module);
    bushel::bind_rewrite(module);
    bushel::bind_video(module);
    bushel::bind_zip(module);
}
