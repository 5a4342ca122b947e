// The upper limit of loading crops: the decoding kernel in a C++ loop, with all bytes and boxes in memory.
//
//     jpeg_ceiling WORK SIDE THREADS
//
// WORK holds i64 (number of epochs) and records: i32[epochs][10] (geometries as in the kernel's `decode_jpegs`), i64
// (size of the JPEG in bytes), the JPEG, i64 (size of its seek table in bytes, 0 without one) and the table. For each
// line of standard input, which has the number of an epoch, all records are decoded once into images of SIDE x SIDE x 3
// bytes, and their number is printed. Threads and the memory of the images last from epoch to epoch, as in a
// Loader do.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "jpeg/crop.hpp"
#include "jpeg/libjpeg.hpp"

namespace {

constexpr std::size_t batch = 128, at_once = 16;

struct Record {
    std::vector<std::int32_t> geometries;  // ten numbers for each epoch
    std::vector<std::uint8_t> data, table;
};

bool read_bytes(std::istream &file, std::vector<std::uint8_t> &bytes) {
    std::int64_t size = 0;
    if (!file.read(reinterpret_cast<char *>(&size), sizeof size)) return false;
    bytes.resize(static_cast<std::size_t>(size));
    file.read(reinterpret_cast<char *>(bytes.data()), size);
    return true;
}

std::vector<Record> read_work(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    std::vector<Record> records;
    Record record;
    std::int64_t epochs = 0;
    file.read(reinterpret_cast<char *>(&epochs), sizeof epochs);
    record.geometries.resize(static_cast<std::size_t>(epochs) * 10);
    const auto size = static_cast<std::streamsize>(record.geometries.size() * sizeof(std::int32_t));
    while (file.read(reinterpret_cast<char *>(record.geometries.data()), size) && read_bytes(file, record.data) &&
           read_bytes(file, record.table)) {
        records.push_back(record);
    }
    if (records.empty()) throw std::runtime_error(path + " holds no JPEGs");
    return records;
}

bushel::Geometry geometry_of(const std::int32_t *row) {
    return {{row[0], row[1], row[2], row[3]}, row[4], row[5], row[6], row[7], row[8] != 0, row[9] != 0};
}

// What a thread keeps from epoch to epoch.
struct Worker {
    explicit Worker(int side) {
        out.height = out.width = side;
        out.channels = 3;
        pixels.resize(batch * out.bytes());
    }

    bushel::JpegDecoders decoders;
    bushel::OutputImage out;
    std::vector<std::uint8_t> pixels;
};

void decode(const std::vector<Record> &records, std::size_t epoch, std::atomic<std::size_t> &next, Worker &worker) {
    bushel::JpegOptions options;
    options.reducing_gap = 2;
    options.max_pixels = 89478485;
    for (std::size_t first = next.fetch_add(at_once); first < records.size(); first = next.fetch_add(at_once)) {
        for (std::size_t i = first; i < std::min(first + at_once, records.size()); ++i) {
            const Record &record = records[i];
            const bushel::Geometry geometry = geometry_of(record.geometries.data() + epoch * 10);
            const bushel::SeekTable table(record.table.data(), record.table.size());
            worker.out.data = worker.pixels.data() + i % batch * worker.out.bytes();
            try {
                decode_crop(worker.decoders, record.data.data(), record.data.size(), geometry, options, worker.out,
                            table);
            } catch (const bushel::JpegError &error) {
                std::cerr << "image " << i << ": " << error.message << std::endl;
                std::exit(1);
            }
        }
    }
}

// Threads that decode an epoch together whenever they are asked to.
class Team {
public:
    Team(const std::vector<Record> &records, int side, int threads) : records_(records) {
        for (int i = 0; i < threads; ++i) threads_.emplace_back([this, side] { work(side); });
    }

    void decode_epoch(std::size_t epoch) {
        std::unique_lock<std::mutex> lock(mutex_);
        next_ = 0, epoch_ = epoch, busy_ = threads_.size();
        ++asked_;
        start_.notify_all();
        done_.wait(lock, [this] { return busy_ == 0; });
    }

    ~Team() {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            is_over_ = true;
        }
        start_.notify_all();
        for (std::thread &thread : threads_) thread.join();
    }

private:
    void work(int side) {
        Worker worker(side);
        for (std::size_t seen = 0;; ++seen) {
            std::unique_lock<std::mutex> lock(mutex_);
            start_.wait(lock, [&] { return is_over_ || asked_ > seen; });
            if (is_over_) return;
            lock.unlock();
            decode(records_, epoch_, next_, worker);
            lock.lock();
            if (--busy_ == 0) done_.notify_one();
        }
    }

    const std::vector<Record> &records_;
    std::atomic<std::size_t> next_{0};
    std::mutex mutex_;
    std::condition_variable start_, done_;
    std::size_t asked_ = 0, epoch_ = 0, busy_ = 0;
    bool is_over_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace

int main(int count, char **arguments) {
    if (count != 4) {
        std::cerr << "usage: jpeg_ceiling WORK SIDE THREADS" << std::endl;
        return 2;
    }
    try {
        const std::vector<Record> records = read_work(arguments[1]);
        const int side = std::stoi(arguments[2]), threads = std::stoi(arguments[3]);
        Team team(records, side, threads);
        std::cout << "ready" << std::endl;
        for (std::string line; std::getline(std::cin, line);) {
            const auto epoch = static_cast<std::size_t>(std::stoul(line));
            if ((epoch + 1) * 10 > records[0].geometries.size()) throw std::runtime_error("unknown epoch " + line);
            team.decode_epoch(epoch);
            std::cout << records.size() << std::endl;
        }
    } catch (const std::exception &error) {
        std::cerr << error.what() << std::endl;
        return 1;
    }
    return 0;
}
