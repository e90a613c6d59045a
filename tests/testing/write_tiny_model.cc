// Writes the tiny model of tiny_model.h to a file, for tests in other languages: write_tiny_model FILE
#include <cstdio>

#include "server/store/model_file.h"
#include "tests/testing/tiny_model.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_tiny_model FILE\n");
    return 2;
  }
  const absl::Status status = ckn::WriteModelFile(ckn::testing::TinyModel(), argv[1]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "write_tiny_model: %s\n", status.ToString().c_str());
  return 1;
}
