// Python bindings: values that consist of pieces of mapped files and of buffers.
#include <memory>

#include "common/memory.hpp"
#include "common/python.hpp"
#include "files/batch_argument.hpp"
#include "files/pieces.hpp"

namespace bushel {

namespace {

// Pieces, and the Python objects whose memory they borrow.
class PiecesArgument {
public:
    PiecesArgument(nb::handle files, nb::handle buffers, nb::handle length, nb::handle crc, nb::handle source,
                   nb::handle offset, nb::handle size, nb::handle row, nb::handle at)
        : files_(files, "files: expected a list of MappedFile"),
          buffers_(buffers, "buffers: expected a list of buffers"),
          length_(array_argument<const std::int64_t>(length, "length")),
          source_(array_argument<const std::int32_t>(source, "source")),
          offset_(array_argument<const std::int64_t>(offset, "offset")),
          size_(array_argument<const std::int64_t>(size, "size")),
          row_(array_argument<const std::int64_t>(row, "row")),
          at_(array_argument<const std::int64_t>(at, "at")) {
        pieces_.length = length_.data();
        pieces_.values = length_.size();
        pieces_.source = source_.data();
        pieces_.offset = offset_.data();
        pieces_.size = size_.data();
        pieces_.row = row_.data();
        pieces_.at = at_.data();
        pieces_.count = source_.size();
        if (!crc.is_none()) {
            crc_ = array_argument<const std::uint32_t>(crc, "crc32");
            pieces_.crc = crc_.data();
            if (crc_.size() != pieces_.values) throw nb::value_error("length and crc32 must have the same size");
        }
        for (const std::size_t other : {offset_.size(), size_.size(), row_.size(), at_.size()}) {
            if (other != pieces_.count)
                throw nb::value_error("source, offset, size, row and at must have the same size");
        }
        for (std::size_t i = 0; i < buffers_.size(); ++i) {
            views_.push_back(std::make_unique<BufferArgument>(buffers_[i]));
            pieces_.buffers.push_back({views_.back()->data(), static_cast<std::int64_t>(views_.back()->size())});
        }
        pieces_.files.assign(files_.size(), nullptr);
        for (std::size_t i = 0; i < pieces_.count; ++i) {
            if (!is_among(files_, pieces_.source[i])) continue;
            const auto number = static_cast<std::size_t>(pieces_.source[i]);
            if (!pieces_.files[number]) pieces_.files[number] = &file_argument(files_, number, kept_);
        }
        if (const std::string what = problem(pieces_, total_); !what.empty()) throw nb::value_error(what.c_str());
        mapped_ = std::make_unique<MappedPieces>(pieces_);
        check(pieces_, *mapped_);
    }

    const Pieces &pieces() const { return pieces_; }
    std::int64_t total() const { return total_; }

    void copy_to(std::uint8_t *const *out) const {
        if (total_ < keep_lock_below && in_memory(mapped_->batch())) {
            copy(pieces_, *mapped_, out);
            return;
        }
        const nb::gil_scoped_release unlocked;
        copy(pieces_, *mapped_, out);
    }

private:
    Sequence files_, buffers_;
    Array<const std::int64_t> length_;
    Array<const std::int32_t> source_;
    Array<const std::int64_t> offset_, size_, row_, at_;
    Array<const std::uint32_t> crc_;
    std::vector<std::unique_ptr<BufferArgument>> views_;
    std::vector<nb::object> kept_;
    Pieces pieces_;
    std::unique_ptr<MappedPieces> mapped_;
    std::int64_t total_ = 0;
};

nb::object read_pieces(nb::handle files, nb::handle buffers, nb::handle length, nb::handle crc, nb::handle source,
                       nb::handle offset, nb::handle size, nb::handle row, nb::handle at) {
    const PiecesArgument argument(files, buffers, length, crc, source, offset, size, row, at);
    const Pieces &pieces = argument.pieces();
    keep_freed_memory(static_cast<std::size_t>(argument.total()));
    const auto [list, out] = new_bytes_list(pieces.length, pieces.values);
    argument.copy_to(out.data());
    return list;
}

nb::object gather_pieces(nb::handle files, nb::handle buffers, nb::handle length, nb::handle crc, nb::handle source,
                         nb::handle offset, nb::handle size, nb::handle row, nb::handle at) {
    const PiecesArgument argument(files, buffers, length, crc, source, offset, size, row, at);
    const Pieces &pieces = argument.pieces();
    std::unique_ptr<std::int64_t[]> offsets(new std::int64_t[pieces.values + 1]);
    std::unique_ptr<std::uint8_t[]> data(new std::uint8_t[static_cast<std::size_t>(argument.total())]);
    std::vector<std::uint8_t *> out(pieces.values);
    offsets[0] = 0;
    for (std::size_t value = 0; value < pieces.values; ++value) {
        out[value] = data.get() + offsets[value];
        offsets[value + 1] = offsets[value] + (pieces.missing(value) ? 0 : pieces.length[value]);
    }
    argument.copy_to(out.data());
    const nb::object buffer = owned_array(data.release(), static_cast<std::size_t>(argument.total()));
    return nb::make_tuple(buffer, owned_array(offsets.release(), pieces.values + 1));
}

}  // namespace

void bind_pieces(nb::module_ &module) {
    const auto define = [&module](const char *name, auto function) {
        module.def(name, function, nb::arg("files"), nb::arg("buffers"), nb::arg("length"), nb::arg("crc32").none(),
                   nb::arg("source"), nb::arg("offset"), nb::arg("size"), nb::arg("row"), nb::arg("at"));
    };
    define("read_pieces", &read_pieces);
    define("gather_pieces", &gather_pieces);
}

}  // namespace bushel
