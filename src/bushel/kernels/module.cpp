// The module bushel.kernels._kernels: its exceptions and its parts. _kernels.pyi documents it.
#include <cerrno>

#include "faults.hpp"
#include "python.hpp"

namespace bushel {

namespace {

std::string sentence(const ExtentFault &fault) {
    const std::string row = "row " + std::to_string(fault.row) + ": ";
    const std::string expected = std::to_string(fault.expected), found = std::to_string(fault.found);
    switch (fault.reason) {
        case ExtentFault::Reason::beyond:
            return row + "extent up to byte " + expected + " is not inside " + fault.path + " (" + found + " bytes)";
        case ExtentFault::Reason::checksum:
            return row + "CRC-32 is " + found + ", expected " + expected + ", in " + fault.path;
        default:
            return row + fault.path + " has shrunk from " + expected + " to " + found + " bytes since it was opened";
    }
}

const char *word(ExtentFault::Reason reason) {
    switch (reason) {
        case ExtentFault::Reason::beyond:
            return "beyond";
        case ExtentFault::Reason::checksum:
            return "checksum";
        default:
            return "shrunk";
    }
}

nb::object text(const std::string &bytes) {  // may hold a path of any bytes
    return nb::steal(PyUnicode_DecodeFSDefaultAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
}

struct ErrorTypes {
    PyObject *extent, *jpeg;
};

void translate(const std::exception_ptr &thrown, void *types) {
    try {
        std::rethrow_exception(thrown);
    } catch (const JpegFault &fault) {
        PyErr_SetString(static_cast<ErrorTypes *>(types)->jpeg, fault.what());
    } catch (const ExtentFault &fault) {
        const nb::handle type = static_cast<ErrorTypes *>(types)->extent;
        nb::object error = type(text(sentence(fault)));
        error.attr("row") = fault.row;
        error.attr("reason") = word(fault.reason);
        error.attr("expected") = fault.expected;
        error.attr("found") = fault.found;
        PyErr_SetObject(type.ptr(), error.ptr());
    } catch (const SystemFault &fault) {
        errno = fault.error;
        PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, text(fault.path).ptr());
    }
}

}  // namespace

}  // namespace bushel

NB_MODULE(_kernels, module) {
    namespace nb = nanobind;
    // What a daemon thread still holds when the interpreter ends is nobody's mistake, and the system takes it back.
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
    bushel::bind_images(module);
    bushel::bind_scans(module);
    bushel::bind_values(module);
}
