// Runs a fuzz target over files, without libFuzzer: ctest does so with the files of tests/fuzz/corpus.
// Usage: NAME_fuzz FILE-OR-FOLDER...
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

// No input of a few kilobytes is worth more memory than this. Where AddressSanitizer is in the program it asks for its
// options here.
extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=512"; }

namespace {

namespace fs = std::filesystem;

// A file's bytes in memory of exactly their size, so that AddressSanitizer sees every read past the end.
bool Run(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file) return false;
  const auto copy = std::make_unique<std::uint8_t[]>(bytes.size());  // NOLINT: a vector may have room at its end
  std::copy(bytes.begin(), bytes.end(), copy.get());
  // If the target aborts, this is the last line.
  std::printf("%s\n", path.c_str());
  std::fflush(stdout);
  LLVMFuzzerTestOneInput(copy.get(), bytes.size());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      files.emplace_back(argv[i]);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(argv[i])) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& path : files) {
    if (!Run(path)) {
      std::fprintf(stderr, "%s: cannot read\n", path.c_str());
      return 1;
    }
  }
  std::printf("%zu files\n", files.size());
  return files.empty() ? 1 : 0;
}
