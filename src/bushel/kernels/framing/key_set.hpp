// KeySet: the keys of a dataset that is written, as hashes of 16 bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/python.hpp"
#include "common/siphash.hpp"

namespace bushel {

// Two keys have the same hash with a probability of 2^-127, since the seed is secret: less often than memory fails.
class KeySet {
public:
    std::size_t size() const { return size_; }

    bool has(nb::handle key) const { return !is_free(table_[place_of(hash_of(key))]); }

    // Return false if the set has the key already.
    bool add(nb::handle key) {
        const Hash hash = hash_of(key);
        if (8 * (size_ + 1) > 7 * table_.size()) grow();
        Hash &slot = table_[place_of(hash)];
        if (!is_free(slot)) return false;
        slot = hash;
        ++size_;
        return true;
    }

    void discard(nb::handle key) {
        std::size_t hole = place_of(hash_of(key));
        if (is_free(table_[hole])) return;
        --size_;
        // later hashes that were kept from their own places move up
        for (std::size_t next = after(hole); !is_free(table_[next]); next = after(next)) {
            const std::size_t home = table_[next][0] & mask();
            if (((next - home) & mask()) < ((next - hole) & mask())) continue;
            table_[hole] = table_[next];
            hole = next;
        }
        table_[hole] = Hash{};
    }

    // Add keys, and return the first one that is there already, or twice among them; None if all are new.
    nb::object add_all(nb::handle keys) {
        nb::object first = nb::none();
        for (nb::handle key : keys) {
            if (!add(key) && first.is_none()) first = nb::borrow(key);
        }
        return first;
    }

    // The first of some keys that the set has; None if it has none of them.
    nb::object first_of(nb::handle keys) const {
        if (size_ == 0) return nb::none();
        for (nb::handle key : keys) {
            if (has(key)) return nb::borrow(key);
        }
        return nb::none();
    }

private:
    using Hash = std::array<std::uint64_t, 2>;

    static Hash hash_of(nb::handle key) {
        static const Seed seed = random_seed();
        if (!PyUnicode_Check(key.ptr())) throw nb::type_error("a key must be a str");
        const auto kind = static_cast<std::size_t>(PyUnicode_KIND(key.ptr()));  // bytes of a character
        const auto length = static_cast<std::size_t>(PyUnicode_GET_LENGTH(key.ptr()));
        Hash hash = SipHash(seed).wide_of(
            {static_cast<const char *>(PyUnicode_DATA(key.ptr())), kind * length}, kind);
        hash[1] |= 1;  // so that no hash is that of a free slot
        return hash;
    }

    static bool is_free(const Hash &slot) { return slot[1] == 0; }
    std::size_t mask() const { return table_.size() - 1; }
    std::size_t after(std::size_t place) const { return (place + 1) & mask(); }

    // Where a hash is, or where it belongs.
    std::size_t place_of(const Hash &hash) const {
        std::size_t place = hash[0] & mask();
        while (!is_free(table_[place]) && table_[place] != hash) place = after(place);
        return place;
    }

    void grow() {
        std::vector<Hash> old(2 * table_.size());
        old.swap(table_);
        for (const Hash &hash : old) {
            if (!is_free(hash)) table_[place_of(hash)] = hash;
        }
    }

    std::vector<Hash> table_ = std::vector<Hash>(16);
    std::size_t size_ = 0;
};

}  // namespace bushel
