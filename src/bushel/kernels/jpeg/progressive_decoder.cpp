#include "jpeg/progressive_decoder.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/vectors.hpp"
#include "jpeg/progressive_entropy.hpp"

namespace bushel {

namespace {

// Whether shifted DC coefficients fit 16 bits, as in every image.
bool fits_16_bits(int dc_prediction, int shift) {
    return static_cast<unsigned>(dc_prediction) + (0x8000U >> shift) < 0x10000U >> shift;
}

}  // namespace

bool ProgressiveDecoder::read(const std::uint8_t *data, std::size_t size, const JpegHeader &header,
                              const Region &region, int scale, int channels, const ImageRows &out) {
    static const bool is_supported = supports(vectors_need);
    if (!is_supported || !is_usual_progressive(header)) return false;
    const std::vector<ProgressiveScan> scans = read_progression(data, size, header);
    if (scans.empty()) return false;
    data_ = data;
    plan_ = plan_region(header, region, scale, channels);
    set_up(header);
    const bool done = read_scans(scans) && read_pixels(*this, plan_, region, channels, out);
    coefficients_.shrink();
    nonzero_.shrink();
    return done;
}

void ProgressiveDecoder::set_up(const JpegHeader &header) {
    constexpr std::size_t block_bytes = 64 * sizeof(std::int16_t);
    std::size_t needed = 0, above = 0;
    for (int i = 0; i < plan_.planes; ++i) {
        Component &component = component_[i];
        component.plan = plan_.plane[i];
        component.columns = divide_up(header.width * header.component[i].h_samp_factor, 8 * header.max_h_samp_factor());
        component.rows = component.plan.blocks.is_empty() ? 0 : component.plan.blocks.bottom;
        if (component.rows == 0) continue;
        needed += static_cast<std::size_t>(component.plan.blocks.width()) *
                  static_cast<std::size_t>(component.plan.blocks.height());
        above += static_cast<std::size_t>(component.columns) * static_cast<std::size_t>(component.rows);
        component.transform = inverse_dct(component.plan.side);
        for (int k = 0; k < 64; ++k) component.quantisers.factor[natural_order[k]] = header.component[i].quantisers[k];
    }
    auto *blocks = reinterpret_cast<std::int16_t *>(coefficients_.bytes(needed * block_bytes));
    auto *nonzero = reinterpret_cast<std::uint64_t *>(nonzero_.bytes(above * sizeof(std::uint64_t)));
    std::memset(blocks, 0, needed * block_bytes);
    std::memset(nonzero, 0, above * sizeof(std::uint64_t));
    for (int i = 0; i < plan_.planes; ++i) {
        Component &component = component_[i];
        if (component.rows == 0) continue;
        component.coefficients = blocks, component.nonzero = nonzero;
        blocks += 64 * static_cast<std::ptrdiff_t>(component.plan.blocks.width()) * component.plan.blocks.height();
        nonzero += static_cast<std::ptrdiff_t>(component.columns) * component.rows;
    }
    planes_.set_up(plan_, 1);
    next_row_ = plan_.mcus.top;
}

bool ProgressiveDecoder::read_scans(const std::vector<ProgressiveScan> &scans) {
    return std::all_of(scans.begin(), scans.end(), [this](const ProgressiveScan &scan) { return read_scan(scan); });
}

// Read the segments of a scan down to the last needed block.
bool ProgressiveDecoder::read_scan(const ProgressiveScan &scan) {
    if (!needs(scan)) return true;
    if (!set_up_tables(scan)) return false;
    const int count = scan.columns * scan.rows, end = scan.columns * needed_rows(scan);
    const std::size_t *offsets = scan.offsets.data();
    for (int at = 0; at < end; ++offsets) {
        bits_.set(data_ + offsets[0], offsets[1] - offsets[0]);
        reader_.begin_at(bits_, 0);
        std::fill(std::begin(dc_prediction_), std::end(dc_prediction_), 0);
        eob_run_ = 0;
        const int stop = std::min(at + scan.interval, count), last = std::min(stop, end);
        while (at < last) {
            const int row = at / scan.columns, first = at % scan.columns;
            const int after = std::min(scan.columns, first + last - at);
            if (!read_mcus(scan, row, first, after)) return false;
            at += after - first;
        }
        if (!reader_.is_valid(bits_, at == stop, false) || (at == stop && eob_run_ > 0)) return false;
    }
    return true;
}

// Whether any sample depends on a scan. At 1/8 of the size, samples depend on nothing but DC coefficients.
bool ProgressiveDecoder::needs(const ProgressiveScan &scan) const {
    return std::any_of(scan.component, scan.component + scan.components, [this, &scan](int number) {
        const Component &component = component_[number];
        return component.rows > 0 && (scan.is_dc() || component.plan.side > 1);
    });
}

bool ProgressiveDecoder::set_up_tables(const ProgressiveScan &scan) {
    if (!scan.is_dc()) return ac_.set(scan.ac, HuffmanTable::Kind::ac);
    for (int i = 0; i < scan.components && !scan.refines; ++i) {
        if (!dc_[i].set(scan.dc[i], HuffmanTable::Kind::dc)) return false;
    }
    return true;
}

// The rows of MCUs of a scan down to the last needed block.
int ProgressiveDecoder::needed_rows(const ProgressiveScan &scan) const {
    return scan.components > 1 ? plan_.mcus.bottom : component_[scan.component[0]].rows;
}

bool ProgressiveDecoder::read_mcus(const ProgressiveScan &scan, int row, int first, int last) {
    if (scan.is_dc())
        return scan.refines ? read_dc<true>(scan, row, first, last) : read_dc<false>(scan, row, first, last);
    return scan.refines ? read_ac<true>(scan, row, first, last) : read_ac<false>(scan, row, first, last);
}

template <bool Refines>
BUSHEL_VECTORS bool ProgressiveDecoder::read_dc(const ProgressiveScan &scan, int row, int first, int last) {
    BitReader reader = reader_;
    for (int mcu = first; mcu < last; ++mcu) {
        for (int i = 0; i < scan.components; ++i) {
            const Component &component = component_[scan.component[i]];
            const int across = scan.components > 1 ? component.plan.h_samp_factor : 1;
            const int down = scan.components > 1 ? component.plan.v_samp_factor : 1;
            for (int block = 0; block < across * down; ++block) {
                const int column = mcu * across + block % across, block_row = row * down + block / across;
                int value = 0;
                if constexpr (Refines) {
                    reader.fill();
                    value = static_cast<int>(reader.first(1)) << scan.shift;
                    reader.skip(1);
                } else {
                    if (!take_dc(reader, dc_[i], dc_prediction_[i])) return false;
                    if (!fits_16_bits(dc_prediction_[i], scan.shift)) return false;
                    value = dc_prediction_[i] * (1 << scan.shift);
                }
                if (!component.needs(column, block_row)) continue;
                std::int16_t &dc = *component.block(column, block_row);
                dc = static_cast<std::int16_t>(dc | value);
            }
        }
        if (reader.next > bits_.limit() && !go_on(reader, bits_)) return false;
    }
    reader_ = reader;
    return true;
}

template <bool Refines>
BUSHEL_VECTORS bool ProgressiveDecoder::read_ac(const ProgressiveScan &scan, int row, int first, int last) {
    const Component &component = component_[scan.component[0]];
    const Region &needed = component.plan.blocks;
    const bool is_needed_row = row >= needed.top;
    const int left = is_needed_row ? needed.left : last, right = is_needed_row ? needed.right : last;
    std::uint64_t *const nonzero = component.nonzero + static_cast<std::ptrdiff_t>(row) * component.columns;
    const Band band(scan);
    BitReader reader = reader_;
    int eob_run = eob_run_;
    for (int column = first; column < last; ++column) {
        const bool is_needed = column >= left && column < right;
        std::int16_t unneeded[64];
        std::int16_t *const block = is_needed ? component.block(column, row) : unneeded;
        if constexpr (Refines) {
            if (!(is_needed ? refine_ac<true>(reader, ac_, band, block, nonzero[column], eob_run)
                            : refine_ac<false>(reader, ac_, band, block, nonzero[column], eob_run))) {
                return false;
            }
        } else if (eob_run > 0) {
            const int skipped = std::min(eob_run, last - column);
            eob_run -= skipped, column += skipped - 1;
        } else if (!take_first_ac(reader, ac_, band, block, nonzero[column], eob_run)) {
            return false;
        }
        if (reader.next > bits_.limit() && !go_on(reader, bits_)) return false;
    }
    reader_ = reader;
    eob_run_ = eob_run;
    return true;
}

bool ProgressiveDecoder::read() {
    bool good = true;
    for (int i = 0; i < plan_.planes; ++i) {
        const Component &component = component_[i];
        if (component.rows == 0) continue;
        const PlanePlan &plan = component.plan;
        const int top = std::max(next_row_ * plan.v_samp_factor, plan.blocks.top);
        const int bottom = std::min((next_row_ + 1) * plan.v_samp_factor, plan.blocks.bottom);
        for (int row = top; row < bottom; ++row) {
            const std::uint64_t *nonzero = component.nonzero + static_cast<std::ptrdiff_t>(row) * component.columns;
            for (int column = plan.blocks.left; column < plan.blocks.right; ++column) {
                const int last = 63 - __builtin_clzll(nonzero[column] | 1);
                good &= component.transform(component.block(column, row), component.quantisers, last,
                                            planes_[i].block(column, row), planes_[i].stride);
            }
        }
    }
    ++next_row_;
    return good;
}

}  // namespace bushel
