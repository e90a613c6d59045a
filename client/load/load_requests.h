#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ckn/v1/inference.pb.h"
#include "client/load/status_codes.h"
#include "grpcpp/support/byte_buffer.h"
#include "inference/open_inference.pb.h"

// The messages of a load: requests are serialised once, before the clock starts, and sent again and again.
namespace ckn {

enum class LoadProtocol { kNative, kOpenInference };
enum class LoadMethod { kClassify, kEncode };

struct RequestOptions {
  LoadProtocol protocol = LoadProtocol::kNative;
  LoadMethod method = LoadMethod::kClassify;
  bool stream = false;                         // open inference only
  std::string model = {}, model_version = {};  // empty: the server's only one, the latest
  int batch = 1;                               // images a call, at least 1
};

// Noise: raw pixels of `height` x `width`, 1 or 3 channels; the same seed gives the same.
v1::Image NoiseImage(int height, int width, int channels, std::uint64_t seed);

// The path of the RPC, "/package.Service/Method".
std::string RpcPath(const RequestOptions& options);

// Requests that hold the images in turn, as many requests as it takes to send each image at least once. `images`, at
// least one: all encoded, or all pixels of one size. RESOURCE_EXHAUSTED: a request is longer than `max_message_bytes`.
absl::StatusOr<std::vector<grpc::ByteBuffer>> MakeRequests(const RequestOptions& options,
                                                           const std::vector<v1::Image>& images,
                                                           std::int64_t max_message_bytes);

// Reads replies to such requests. Not thread-safe: it keeps its messages' memory.
class ReplyReader {
 public:
  explicit ReplyReader(RequestOptions options) : options_(std::move(options)) {}

  // The status of the call, which in a stream is part of the reply; INTERNAL: this is no reply to such a request. Of a
  // good call, adds the codes of its images to `images`.
  absl::Status Read(grpc::ByteBuffer& reply, CodeCounts& images);

 private:
  const RequestOptions options_;
  v1::ClassifyResponse classify_;
  v1::EncodeResponse encode_;
  inference::ModelInferResponse infer_;
  inference::ModelStreamInferResponse stream_infer_;
};

}  // namespace ckn
