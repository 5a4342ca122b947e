// Scans that threads may share, as classes of Python.
#pragma once
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "common/python.hpp"

namespace bushel {

// A scan, and the lock by which one thread at a time uses it.
template <typename Scan>
class Shared {
public:
    template <typename... Arguments>
    explicit Shared(Arguments &&...arguments) : scan_(std::forward<Arguments>(arguments)...) {}
    Shared(const Shared &) = delete;
    Shared(Shared &&) = delete;

    template <typename Use>
    auto with(Use use) {
        const std::lock_guard<std::mutex> alone(mutex_);
        return use(scan_);
    }

    // The same without the interpreter lock, for uses that take long.
    template <typename Use>
    auto unlocked_with(Use use) {
        const nb::gil_scoped_release unlocked;
        return with(use);
    }

private:
    std::mutex mutex_;
    Scan scan_;
};

// Give bytes to a scan, and return how many it has used.
template <typename Scan, typename... More>
std::size_t feed(Shared<Scan> &self, nb::handle data, More... more) {
    const BufferArgument buffer(data);  // first, as it may run code of others
    return self.unlocked_with([&](Scan &scan) { return scan.feed(buffer.data(), buffer.size(), more...); });
}

// A property: what a member of the scan, or a function of it, returns.
template <typename Scan, typename Member>
auto fact_of(Member member) {
    return [member](Shared<Scan> &self) {
        return self.with([member](Scan &scan) { return std::invoke(member, scan); });
    };
}

// A property: a text of the scan; None if it is empty.
template <typename Scan, typename Member>
auto text_of(Member member) {
    return [member](Shared<Scan> &self) {
        return optional_text(self.with([member](Scan &scan) { return std::string(std::invoke(member, scan)); }));
    };
}

}  // namespace bushel
