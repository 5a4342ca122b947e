// Memory that a thread uses again and again.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace bushel {

class Buffer {
public:
    // At least so many bytes, not initialised; what was in them is lost.
    std::uint8_t *bytes(std::size_t size) {
        if (size > size_ || size_ > kept) {
            data_.reset();
            size_ = 0;
            data_.reset(new std::uint8_t[size]);
            size_ = size;
        }
        return data_.get();
    }

private:
    static constexpr std::size_t kept = std::size_t{32} << 20;  // one huge image must not stay for ever

    std::unique_ptr<std::uint8_t[]> data_;
    std::size_t size_ = 0;
};

}  // namespace bushel
