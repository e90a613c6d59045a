// Writes the models of tests/testing/model_kinds.h for tests in other languages, with images and what the library makes
// of them: write_model_kinds FOLDER. Of each model NAME in FOLDER:
//   NAME.ckn
//   NAME.pixels.npy         [images][height][width][channels], 0 to 255
//   NAME-0.pnm, ...         the same images
//   NAME.scores.npy         [images][classes]
//   NAME.probabilities.npy  [images][classes], when it is calibrated
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/atomic_file.h"
#include "server/base/npy.h"
#include "server/base/status.h"
#include "server/pipeline.h"
#include "server/store/model_file.h"
#include "tests/testing/model_kinds.h"
#include "tests/testing/tiny_model.h"

namespace ckn {
namespace {

constexpr int kImages = 7;

// Of the model's size: flat, shaded and noisy parts side by side, as in pictures, so that patch norms of all sizes come
// up.
ImageU8 TestImage(const Model& model, int index) {
  ImageU8 image = testing::TinyImage(model, static_cast<std::uint64_t>(index) + 1);
  for (const Network& network : model.networks) {
    if (network.input.channels > image.channels) {
      Model other;
      other.networks.push_back(network);
      image = testing::TinyImage(other, static_cast<std::uint64_t>(index) + 1);
    }
  }
  std::size_t at = 0;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      for (int c = 0; c < image.channels; ++c, ++at) {
        const double shade = 128 + 100 * std::sin(0.3 * x + 0.2 * y * (c + 1) + index);
        if (3 * x < image.width) {
          image.pixels[at] = static_cast<std::uint8_t>(shade);
        } else if (3 * x < 2 * image.width && 2 * y < image.height) {
          image.pixels[at] = static_cast<std::uint8_t>(40 * index);
        }
      }
    }
  }
  return image;
}

absl::Status Write(const Model& model, const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", model.name);
  CKN_RETURN_IF_ERROR(WriteModelFile(model, path + ".ckn"));
  CKN_ASSIGN_OR_RETURN(const Pipeline pipeline, Pipeline::Create(model));
  std::vector<float> pixels, scores, probabilities;
  ImageU8 image;
  for (int i = 0; i < kImages; ++i) {
    image = TestImage(model, i);
    pixels.insert(pixels.end(), image.pixels.begin(), image.pixels.end());
    CKN_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(path, "-", i, ".pnm"), testing::EncodePnm(image)));
    CKN_ASSIGN_OR_RETURN(const std::vector<float> margins, pipeline.Classify(image));
    scores.insert(scores.end(), margins.begin(), margins.end());
    const std::vector<float> calibrated = pipeline.Probabilities(margins);
    probabilities.insert(probabilities.end(), calibrated.begin(), calibrated.end());
  }
  CKN_RETURN_IF_ERROR(WriteNpy(path + ".pixels.npy", pixels,
                               std::vector<std::int64_t>{kImages, image.height, image.width, image.channels}));
  const std::vector<std::int64_t> shape = {kImages, pipeline.class_count()};
  CKN_RETURN_IF_ERROR(WriteNpy(path + ".scores.npy", scores, shape));
  if (probabilities.empty()) return absl::OkStatus();
  return WriteNpy(path + ".probabilities.npy", probabilities, shape);
}

}  // namespace
}  // namespace ckn

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_model_kinds FOLDER\n");
    return 2;
  }
  for (const ckn::Model& model : ckn::testing::ModelsOfAllKinds()) {
    const absl::Status status = ckn::Write(model, argv[1]);
    if (status.ok()) continue;
    std::fprintf(stderr, "write_model_kinds: %s: %s\n", model.name.c_str(), status.ToString().c_str());
    return 1;
  }
  return 0;
}
