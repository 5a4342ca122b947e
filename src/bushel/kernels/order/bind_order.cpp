// Python bindings: the permutations of orders, draws from sets and by weight, and the rows of packs.
#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "common/python.hpp"
#include "order/draws.hpp"
#include "order/even_draws.hpp"
#include "order/first_fit.hpp"
#include "order/permutation.hpp"
#include "order/shuffle.hpp"

namespace bushel {

namespace {

nb::object permute(nb::handle values, std::int64_t size, std::uint64_t key, nb::handle tweak, bool inverse) {
    const auto given = array_argument<const std::int64_t>(values, "values");
    if (size < 1 || size > Permutation::limit) throw nb::value_error("size: expected 1 to 2**48");
    Array<const std::uint32_t> tweaks;
    if (!tweak.is_none()) {
        tweaks = array_argument<const std::uint32_t>(tweak, "tweak");
        if (tweaks.size() != given.size()) throw nb::value_error("values and tweak must have the same length");
    }
    const bool inside = std::all_of(given.data(), given.data() + given.size(), [size](std::int64_t value) {
        return static_cast<std::uint64_t>(value) < static_cast<std::uint64_t>(size);
    });
    if (!inside) throw nb::index_error("values: expected 0 to size - 1");
    std::unique_ptr<std::int64_t[]> images(new std::int64_t[given.size()]);
    std::copy(given.data(), given.data() + given.size(), images.get());
    without_lock([&] {
        Permutation(size, key).apply(images.get(), given.size(), tweak.is_none() ? nullptr : tweaks.data(), inverse);
    });
    return owned_array(images.release(), given.size());
}

// Add up the entries of each window of items. They are anywhere, so they are asked for some items ahead.
void add_entries(const std::uint32_t *table, const std::int32_t *items, std::size_t count, std::size_t width,
                 std::int64_t *sums) {
    constexpr std::size_t ahead = 32;
    for (std::size_t first = 0; first < count; first += width, ++sums) {
        const std::size_t last = std::min(count, first + width);
        std::int64_t sum = 0;
        for (std::size_t i = first; i < last; ++i) {
            __builtin_prefetch(table + items[std::min(i + ahead, count - 1)]);
            sum += table[items[i]];
        }
        *sums = sum;
    }
}

nb::object look_up(nb::handle table, std::int64_t first, std::int64_t count, std::uint64_t key) {
    const auto given = array_argument<const std::uint32_t>(table, "table");
    const auto size = static_cast<std::int64_t>(given.size());
    if (size > Permutation::limit) throw nb::value_error("table: expected at most 2**48 entries");
    if (first < 0 || count < 0 || first > size || count > size - first) {
        throw nb::index_error("first, count: expected values of 0 to the length of the table - 1");
    }
    std::unique_ptr<std::uint32_t[]> entries(new std::uint32_t[count]);
    if (count) {
        const nb::gil_scoped_release unlocked;
        Permutation(size, key).look_up(given.data(), first, entries.get(), static_cast<std::size_t>(count));
    }
    return owned_array(entries.release(), static_cast<std::size_t>(count));
}

// The sizes and the capacity of rows of items.
std::uint32_t check_rows(const Array<const std::uint32_t> &sizes, std::int64_t capacity) {
    if (capacity < 1 || capacity > std::numeric_limits<std::int32_t>::max()) {
        throw nb::value_error("capacity: expected 1 to 2**31 - 1");
    }
    const auto most = static_cast<std::uint32_t>(capacity);
    const bool fits =
        std::all_of(sizes.data(), sizes.data() + sizes.size(), [most](std::uint32_t size) { return size <= most; });
    if (!fits) throw nb::value_error("sizes: expected at most capacity");
    if (sizes.size() >= std::numeric_limits<std::uint32_t>::max())
        throw nb::value_error("sizes: expected fewer than 2**32");
    return most;
}

nb::object count_rows_of(nb::handle sizes, std::int64_t window, std::int64_t capacity) {
    const auto given = array_argument<const std::uint32_t>(sizes, "sizes");
    const std::uint32_t most = check_rows(given, capacity);
    if (window < 1) throw nb::value_error("window: expected 1 or more");
    const auto width = static_cast<std::size_t>(window);
    const std::size_t windows = given.size() / width + (given.size() % width != 0);
    std::unique_ptr<std::int64_t[]> counts(new std::int64_t[windows]);
    without_lock([&] { count_rows(given.data(), given.size(), width, most, counts.get()); });
    return owned_array(counts.release(), windows);
}

nb::object window_sums(nb::handle table, nb::handle items, std::int64_t window) {
    const auto entries = array_argument<const std::uint32_t>(table, "table");
    const auto given = array_argument<const std::int32_t>(items, "items");
    if (window < 1) throw nb::value_error("window: expected 1 or more");
    const auto width = static_cast<std::size_t>(window);
    const std::size_t count = given.size(), windows = count / width + (count % width != 0);
    std::unique_ptr<std::int64_t[]> sums(new std::int64_t[windows]());
    std::uint32_t most = 0;  // a negative item is a large number
    {
        const nb::gil_scoped_release unlocked;
        for (std::size_t i = 0; i < count; ++i) most = std::max(most, static_cast<std::uint32_t>(given.data()[i]));
        if (!count || most < entries.size()) add_entries(entries.data(), given.data(), count, width, sums.get());
    }
    if (count && most >= entries.size()) throw nb::index_error("items: expected 0 to the length of the table - 1");
    return owned_array(sums.release(), windows);
}

nb::object shuffle_items(nb::handle items, nb::handle key, std::int64_t position) {
    const auto given = array_argument<std::int32_t>(items, "items");
    const auto state = array_argument<const std::uint32_t>(key, "key");
    if (state.size() != Mt19937::words || position < 0 || position > Mt19937::words) {
        throw nb::value_error("key, position: expected 624 words, and 0 to 624");
    }
    std::unique_ptr<std::uint32_t[]> after(new std::uint32_t[Mt19937::words]);
    Mt19937 draw(state.data(), static_cast<int>(position));
    without_lock([&] { shuffle(draw, given.data(), given.size()); });
    std::copy(draw.key(), draw.key() + Mt19937::words, after.get());
    return nb::make_tuple(owned_array(after.release(), std::size_t{Mt19937::words}), draw.position());
}

// Whether all values are at least `least`, and below `end`.
bool within(const Array<const std::int64_t> &values, std::int64_t least, std::int64_t end) {
    return std::all_of(values.data(), values.data() + values.size(),
                       [least, end](std::int64_t value) { return value >= least && value < end; });
}

nb::object mixed_draws_of(nb::handle draws, nb::handle shares, std::uint64_t state) {
    const auto given = array_argument<const std::int64_t>(draws, "draws");
    const auto per_set = array_argument<const std::int64_t>(shares, "shares");
    constexpr std::int64_t most = Permutation::limit;
    if (!per_set.size() || !within(per_set, 1, most))
        throw nb::value_error("shares: expected one or more, each 1 or more");
    std::int64_t width = 0;
    for (std::size_t i = 0; i < per_set.size(); ++i) {
        width += per_set.data()[i];
        if (width > most) throw nb::value_error("shares: expected a sum up to 2**48");
    }
    if (!within(given, 0, std::int64_t{1} << 62)) throw nb::index_error("draws: expected 0 to 2**62 - 1");
    std::unique_ptr<std::int64_t[]> set(new std::int64_t[given.size()]), number(new std::int64_t[given.size()]);
    without_lock([&] {
        mixed_draws(given.data(), given.size(), per_set.data(), per_set.size(), static_cast<std::size_t>(width), state,
                    set.get(), number.get());
    });
    return nb::make_tuple(owned_array(set.release(), given.size()), owned_array(number.release(), given.size()));
}

nb::object draw_samples_of(nb::handle sets, nb::handle numbers, nb::handle sizes, std::uint64_t state,
                           std::uint64_t seed) {
    const auto set = array_argument<const std::int64_t>(sets, "sets");
    const auto number = array_argument<const std::int64_t>(numbers, "numbers");
    const auto size = array_argument<const std::int64_t>(sizes, "sizes");
    if (set.size() != number.size()) throw nb::value_error("sets and numbers must have the same length");
    if (!within(size, 1, Permutation::limit + 1)) throw nb::value_error("sizes: expected 1 to 2**48");
    if (!within(set, 0, static_cast<std::int64_t>(size.size())))
        throw nb::index_error("sets: expected 0 to the number of sizes - 1");
    if (!within(number, 0, std::int64_t{1} << 62)) throw nb::value_error("numbers: expected 0 to 2**62 - 1");
    std::unique_ptr<std::int64_t[]> samples(new std::int64_t[set.size()]);
    without_lock([&] {
        draw_samples(set.data(), number.data(), set.size(), size.data(), size.size(), state, seed, samples.get());
    });
    return owned_array(samples.release(), set.size());
}

nb::object even_draws_of(nb::handle draws, nb::handle starts, nb::handle firsts, nb::handle lasts, std::int64_t ramp,
                         std::int64_t next, nb::handle drawn) {
    const auto given = array_argument<const std::int64_t>(draws, "draws");
    const auto start = array_argument<const std::int64_t>(starts, "starts");
    const auto first = array_argument<const std::int64_t>(firsts, "firsts");
    const auto last = array_argument<const std::int64_t>(lasts, "lasts");
    const auto before = array_argument<const std::int64_t>(drawn, "drawn");
    constexpr std::int64_t most = Permutation::limit, far = std::int64_t{1} << 60;
    const std::size_t sets = start.size();
    if (!sets || sets > EvenDraws::most_sets || first.size() != sets || last.size() != sets || before.size() != sets)
        throw nb::value_error("starts, firsts, lasts, drawn: expected one of each for 1 to 2048 sets");
    if (ramp < 0 || ramp > std::int64_t{1} << 36) throw nb::value_error("ramp: expected 0 to 2**36");
    if (!within(start, -far, far) || !within(first, 0, Share::one + 1) || !within(last, 0, Share::one + 1) ||
        !within(before, 0, most + 1))
        throw nb::value_error("starts, firsts, lasts, drawn: a number is out of range");
    const std::int64_t *const end = given.data() + given.size();
    const bool ascend = std::adjacent_find(given.data(), end, std::greater_equal<>()) == end;
    if (next < 0 || !ascend || !within(given, next, most))
        throw nb::index_error("draws: expected ascending numbers from next to 2**48 - 1");
    std::unique_ptr<std::int64_t[]> set(new std::int64_t[given.size()]), number(new std::int64_t[given.size()]),
        after(new std::int64_t[sets]);
    std::int64_t at = 0;
    {
        const nb::gil_scoped_release unlocked;
        std::vector<Share> shares(sets);
        for (std::size_t i = 0; i < sets; ++i) shares[i] = {start.data()[i], first.data()[i], last.data()[i], ramp};
        EvenDraws even(std::move(shares), next, before.data());
        for (std::size_t i = 0; i < given.size(); ++i) {
            const auto draw = even.draw(given.data()[i]);
            set[i] = static_cast<std::int64_t>(draw.first);
            number[i] = draw.second;
        }
        std::copy(even.drawn().begin(), even.drawn().end(), after.get());
        at = even.next();
    }
    return nb::make_tuple(owned_array(set.release(), given.size()), owned_array(number.release(), given.size()), at,
                          owned_array(after.release(), sets));
}

nb::object guide_of_sums(nb::handle sums, std::int64_t buckets) {
    const auto given = array_argument<const double>(sums, "sums");
    if (!given.size() || !(given.data()[given.size() - 1] > 0))
        throw nb::value_error("sums: expected one or more, the last above 0");
    if (buckets < 1 || buckets > Permutation::limit) throw nb::value_error("buckets: expected 1 to 2**48");
    const auto count = static_cast<std::size_t>(buckets);
    std::unique_ptr<std::int64_t[]> guide(new std::int64_t[count + 2]);
    without_lock([&] { guide_sums(given.data(), given.size(), guide.get(), count); });
    return owned_array(guide.release(), count + 2);
}

nb::object draws_by_weight(nb::handle sums, nb::handle guide, std::uint64_t key, nb::handle positions) {
    const auto given = array_argument<const double>(sums, "sums");
    const auto guides = array_argument<const std::int64_t>(guide, "guide");
    const auto places = array_argument<const std::int64_t>(positions, "positions");
    if (!given.size() || !(given.data()[given.size() - 1] > 0))
        throw nb::value_error("sums: expected one or more, the last above 0");
    if (guides.size() < 3) throw nb::value_error("guide: expected what guide_sums returns");
    std::unique_ptr<std::int64_t[]> samples(new std::int64_t[places.size()]);
    without_lock([&] {
        draw_by_weight(given.data(), given.size(), guides.data(), guides.size() - 2, key, places.data(), places.size(),
                       samples.get());
    });
    return owned_array(samples.release(), places.size());
}

nb::object pack_rows(nb::handle sizes, std::int64_t capacity) {
    const auto given = array_argument<const std::uint32_t>(sizes, "sizes");
    const std::uint32_t most = check_rows(given, capacity);
    std::size_t rows = 0;
    std::unique_ptr<std::int64_t[]> items(new std::int64_t[given.size()]), ends;
    {
        const nb::gil_scoped_release unlocked;
        std::unique_ptr<std::uint32_t[]> row(new std::uint32_t[given.size()]);
        rows = first_fit(given.data(), given.size(), most, row.get());
        ends.reset(new std::int64_t[rows + 1]());
        for (std::size_t i = 0; i < given.size(); ++i) ++ends[row[i] + 1];
        for (std::size_t i = 0; i < rows; ++i) ends[i + 1] += ends[i];
        // each becomes the end of its row as the items are put there, and so the start of the next one
        for (std::size_t i = 0; i < given.size(); ++i) items[ends[row[i]]++] = static_cast<std::int64_t>(i);
    }
    return nb::make_tuple(owned_array(items.release(), given.size()), owned_array(ends.release(), rows));
}

}  // namespace

void bind_order(nb::module_ &module) {
    module.def("permute", &permute, nb::arg("values"), nb::arg("size"), nb::arg("key"), nb::arg("tweak") = nb::none(),
               nb::arg("inverse") = false);
    module.def("look_up", &look_up, nb::arg("table"), nb::arg("first"), nb::arg("count"), nb::arg("key"));
    module.def("count_rows", &count_rows_of, nb::arg("sizes"), nb::arg("window"), nb::arg("capacity"));
    module.def("window_sums", &window_sums, nb::arg("table"), nb::arg("items"), nb::arg("window"));
    module.def("shuffle_mt19937", &shuffle_items, nb::arg("items"), nb::arg("key"), nb::arg("position"));
    module.def("mixed_draws", &mixed_draws_of, nb::arg("draws"), nb::arg("shares"), nb::arg("state"));
    module.def("draw_samples", &draw_samples_of, nb::arg("sets"), nb::arg("numbers"), nb::arg("sizes"),
               nb::arg("state"), nb::arg("seed"));
    module.def("even_draws", &even_draws_of, nb::arg("draws"), nb::arg("starts"), nb::arg("firsts"), nb::arg("lasts"),
               nb::arg("ramp"), nb::arg("next"), nb::arg("drawn"));
    module.def("guide_sums", &guide_of_sums, nb::arg("sums"), nb::arg("buckets"));
    module.def("draw_by_weight", &draws_by_weight, nb::arg("sums"), nb::arg("guide"), nb::arg("key"),
               nb::arg("positions"));
    module.def("pack_rows", &pack_rows, nb::arg("sizes"), nb::arg("capacity"));
}

}  // namespace bushel
