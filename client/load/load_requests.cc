#include "client/load/load_requests.h"

#include <algorithm>
#include <random>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "server/base/endian.h"
#include "server/base/status.h"

namespace ckn {
namespace {

// Images number first, first + 1, ..., in turn.
template <typename Request>
Request NativeRequest(const RequestOptions& options, const std::vector<v1::Image>& images, std::size_t first) {
  Request request;
  request.set_model(options.model);
  request.set_version(options.model_version);
  for (std::size_t i = 0; i < static_cast<std::size_t>(options.batch); ++i) {
    *request.add_images() = images[(first + i) % images.size()];
  }
  return request;
}

// An element of a raw BYTES tensor.
void AppendBytesElement(const std::string& bytes, std::string& raw) {
  const std::uint32_t length = LittleEndian32(static_cast<std::uint32_t>(bytes.size()));
  raw.append(reinterpret_cast<const char*>(&length), sizeof length);
  raw += bytes;
}

inference::ModelInferRequest InferRequest(const RequestOptions& options, const std::vector<v1::Image>& images,
                                          std::size_t first) {
  inference::ModelInferRequest request;
  request.set_model_name(options.model);
  request.set_model_version(options.model_version);
  auto& tensor = *request.add_inputs();
  tensor.add_shape(options.batch);
  std::string& raw = *request.add_raw_input_contents();
  if (const v1::Image& image = images.front(); image.has_pixels()) {
    tensor.set_name("pixels");
    tensor.set_datatype("UINT8");
    tensor.add_shape(image.pixels().height());
    tensor.add_shape(image.pixels().width());
    tensor.add_shape(image.pixels().channels());
  } else {
    tensor.set_name("image");
    tensor.set_datatype("BYTES");
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(options.batch); ++i) {
    const v1::Image& image = images[(first + i) % images.size()];
    if (image.has_pixels()) {
      raw += image.pixels().data();
    } else {
      AppendBytesElement(image.encoded(), raw);
    }
  }
  if (options.method == LoadMethod::kEncode) {
    request.add_outputs()->set_name("features");
  } else {
    request.add_outputs()->set_name("label");
    request.add_outputs()->set_name("scores");
  }
  return request;
}

template <typename Request>
absl::StatusOr<grpc::ByteBuffer> Serialised(const Request& request, std::int64_t max_message_bytes) {
  if (const auto bytes = static_cast<std::int64_t>(request.ByteSizeLong()); bytes > max_message_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("a request with ", bytes, " bytes, the limit is ",
                                                     max_message_bytes, "; send fewer images a call"));
  }
  const grpc::Slice slice(request.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

template <typename Reply>
absl::Status Parse(grpc::ByteBuffer& bytes, Reply& reply) {
  reply.Clear();
  if (grpc::SerializationTraits<Reply>::Deserialize(&bytes, &reply).ok()) return absl::OkStatus();
  return absl::InternalError("the reply is no message of its type");
}

absl::Status WrongCount(int got, int expected) {
  return absl::InternalError(absl::StrCat("the reply is about ", got, " images, expected ", expected));
}

template <typename Reply>
absl::Status ReadNative(grpc::ByteBuffer& bytes, int batch, Reply& reply, CodeCounts& images) {
  CKN_RETURN_IF_ERROR(Parse(bytes, reply));
  if (reply.results_size() != batch) return WrongCount(reply.results_size(), batch);
  for (const auto& result : reply.results()) ++images[CodeIndex(result.status().code())];
  return absl::OkStatus();
}

absl::Status CountInferred(const inference::ModelInferResponse& reply, int batch, CodeCounts& images) {
  if (reply.outputs().empty()) return absl::InternalError("the reply has no outputs");
  for (const auto& output : reply.outputs()) {
    if (output.shape().empty() || output.shape(0) != batch) {
      return WrongCount(output.shape().empty() ? 0 : static_cast<int>(output.shape(0)), batch);
    }
  }
  images[CodeIndex(0)] += batch;
  return absl::OkStatus();
}

// "CODE: message", as the answers in a stream begin.
absl::Status StreamError(const std::string& text) {
  const std::size_t colon = text.find(": ");
  if (colon != std::string::npos) {
    const auto code = ParseStatusCode(std::string_view(text).substr(0, colon));
    if (code && *code != absl::StatusCode::kOk) return {*code, text.substr(colon + 2)};
  }
  return absl::UnknownError(text);
}

}  // namespace

v1::Image NoiseImage(int height, int width, int channels, std::uint64_t seed) {
  v1::Image image;
  v1::Pixels& pixels = *image.mutable_pixels();
  pixels.set_height(height);
  pixels.set_width(width);
  pixels.set_channels(channels);
  std::mt19937_64 rng(seed);
  std::string& data = *pixels.mutable_data();
  data.resize(static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * static_cast<std::size_t>(channels));
  for (char& value : data) value = static_cast<char>(rng() & 0xFFU);
  return image;
}

std::string RpcPath(const RequestOptions& options) {
  if (options.protocol == LoadProtocol::kNative) {
    return options.method == LoadMethod::kClassify ? "/ckn.v1.Inference/Classify" : "/ckn.v1.Inference/Encode";
  }
  return options.stream ? "/inference.GRPCInferenceService/ModelStreamInfer"
                        : "/inference.GRPCInferenceService/ModelInfer";
}

absl::StatusOr<std::vector<grpc::ByteBuffer>> MakeRequests(const RequestOptions& options,
                                                           const std::vector<v1::Image>& images,
                                                           std::int64_t max_message_bytes) {
  const auto batch = static_cast<std::size_t>(options.batch);
  std::vector<grpc::ByteBuffer> requests;
  for (std::size_t first = 0; first < images.size(); first += batch) {
    const auto serialised = [&]() -> absl::StatusOr<grpc::ByteBuffer> {
      if (options.protocol == LoadProtocol::kOpenInference) {
        return Serialised(InferRequest(options, images, first), max_message_bytes);
      }
      if (options.method == LoadMethod::kEncode) {
        return Serialised(NativeRequest<v1::EncodeRequest>(options, images, first), max_message_bytes);
      }
      return Serialised(NativeRequest<v1::ClassifyRequest>(options, images, first), max_message_bytes);
    };
    CKN_ASSIGN_OR_RETURN(grpc::ByteBuffer request, serialised());
    requests.push_back(std::move(request));
  }
  return requests;
}

absl::Status ReplyReader::Read(grpc::ByteBuffer& reply, CodeCounts& images) {
  if (options_.protocol == LoadProtocol::kNative) {
    return options_.method == LoadMethod::kClassify ? ReadNative(reply, options_.batch, classify_, images)
                                                    : ReadNative(reply, options_.batch, encode_, images);
  }
  if (!options_.stream) {
    CKN_RETURN_IF_ERROR(Parse(reply, infer_));
    return CountInferred(infer_, options_.batch, images);
  }
  CKN_RETURN_IF_ERROR(Parse(reply, stream_infer_));
  if (!stream_infer_.error_message().empty()) return StreamError(stream_infer_.error_message());
  return CountInferred(stream_infer_.infer_response(), options_.batch, images);
}

}  // namespace ckn
