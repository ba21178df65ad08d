// SPDX-License-Identifier: MIT
//
// Runs a fuzz target over the files of a folder, with any compiler and on any CPU: replay FOLDER.
#include "fuzz.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace {

fuzz::Bytes contents_of(const std::filesystem::path &path)
{
    std::ifstream file(path, std::ios::binary);
    return fuzz::Bytes(std::istreambuf_iterator<char>(file), {});
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2) {
        std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    std::error_code error;
    std::vector<std::filesystem::path> paths;
    for (const auto &entry : std::filesystem::directory_iterator(argv[1], error)) {
        paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    for (const auto &path : paths) {
        std::printf("%s\n", path.filename().string().c_str());
        std::fflush(stdout); // the last one named is the one that failed
        const fuzz::Bytes bytes = contents_of(path);
        LLVMFuzzerTestOneInput(fuzz::exactly(bytes.data(), bytes.size()).get(), bytes.size());
    }
    if (paths.empty()) {
        std::fprintf(stderr, "%s: no files\n", argv[1]);
        return 1;
    }
    return 0;
}
