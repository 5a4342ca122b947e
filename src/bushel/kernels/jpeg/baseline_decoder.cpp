#include "jpeg/baseline_decoder.hpp"

#include "common/vectors.hpp"
#include "jpeg/plan.hpp"
#include "jpeg/planes.hpp"
#include "jpeg/scan.hpp"

namespace bushel {

namespace {

// Whether this processor, and the decoder, can read an image.
bool can_read(const JpegHeader &header) {
    static const bool is_supported = supports(vectors_need);
    return is_supported && is_usual_jpeg(header);
}

}  // namespace

BaselineDecoder::BaselineDecoder() = default;
BaselineDecoder::~BaselineDecoder() = default;

bool BaselineDecoder::read(const std::uint8_t *data, std::size_t size, const JpegHeader &header, const SeekTable &table,
                           const Region &region, int scale, int channels, const ImageRows &out) {
    if (!can_read(header)) return false;
    if (!state_) state_ = std::make_unique<ScanDecoder>();
    const RegionPlan plan = plan_region(header, region, scale, channels);
    const bool begun = table.is_empty() ? state_->begin(data, size, header, plan)
                                        : state_->begin(data, size, header, plan, table);
    return begun && read_pixels(*state_, plan, region, channels, out);
}

std::vector<std::uint64_t> BaselineDecoder::make_seek_table(const std::uint8_t *data, std::size_t size,
                                                            const JpegHeader &header, int pixels) {
    if (!can_read(header) || !is_seekable(header)) return {};
    if (!state_) state_ = std::make_unique<ScanDecoder>();
    return state_->make_seek_table(data, size, header, pixels);
}

}  // namespace bushel
