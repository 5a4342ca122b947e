// The upper limit of loading crops: the decoding kernel in a C++ loop, with all bytes and boxes in memory.
//
//     jpeg_ceiling WORK SIDE THREADS
//
// WORK holds records: i32[10] (a geometry as in the kernel's `decode_jpegs`), i64 (size of the JPEG in bytes) and the JPEG.
// For each line of standard input, all records are decoded once into images of SIDE x SIDE x 3 bytes, which each thread
// reuses, and their number is printed.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "jpeg/crop.hpp"
#include "jpeg/libjpeg.hpp"

namespace {

constexpr std::size_t batch = 128, at_once = 16;

struct Record {
    std::int32_t geometry[10];
    std::vector<std::uint8_t> data;
};

std::vector<Record> read_work(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    std::vector<Record> records;
    Record record;
    std::int64_t size = 0;
    while (file.read(reinterpret_cast<char *>(record.geometry), sizeof record.geometry) &&
           file.read(reinterpret_cast<char *>(&size), sizeof size)) {
        record.data.resize(static_cast<std::size_t>(size));
        file.read(reinterpret_cast<char *>(record.data.data()), size);
        records.push_back(record);
    }
    if (records.empty()) throw std::runtime_error(path + " holds no JPEGs");
    return records;
}

bushel::Geometry geometry_of(const std::int32_t *row) {
    return {{row[0], row[1], row[2], row[3]}, row[4], row[5], row[6], row[7], row[8] != 0, row[9] != 0};
}

void decode(const std::vector<Record> &records, std::atomic<std::size_t> &next, int side) {
    bushel::JpegOptions options;
    options.reducing_gap = 2;
    options.max_pixels = 89478485;
    bushel::OutputImage out;
    out.height = out.width = side;
    out.channels = 3;
    static thread_local bushel::JpegDecoders decoders;
    std::vector<std::uint8_t> pixels(batch * out.bytes());
    for (std::size_t first = next.fetch_add(at_once); first < records.size(); first = next.fetch_add(at_once)) {
        for (std::size_t i = first; i < std::min(first + at_once, records.size()); ++i) {
            out.data = pixels.data() + i % batch * out.bytes();
            const Record &record = records[i];
            try {
                decode_crop(decoders, record.data.data(), record.data.size(), geometry_of(record.geometry), options,
                            out);
            } catch (const bushel::JpegError &error) {
                std::cerr << "image " << i << ": " << error.message << std::endl;
                std::exit(1);
            }
        }
    }
}

}  // namespace

int main(int count, char **arguments) {
    if (count != 4) {
        std::cerr << "usage: jpeg_ceiling WORK SIDE THREADS" << std::endl;
        return 2;
    }
    try {
        const std::vector<Record> records = read_work(arguments[1]);
        const int side = std::stoi(arguments[2]), threads = std::stoi(arguments[3]);
        std::cout << "ready" << std::endl;
        for (std::string line; std::getline(std::cin, line);) {
            std::atomic<std::size_t> next{0};
            std::vector<std::thread> running;
            for (int i = 0; i < threads; ++i) {
                running.emplace_back([&] { decode(records, next, side); });
            }
            for (std::thread &thread : running) thread.join();
            std::cout << records.size() << std::endl;
        }
    } catch (const std::exception &error) {
        std::cerr << error.what() << std::endl;
        return 1;
    }
    return 0;
}
