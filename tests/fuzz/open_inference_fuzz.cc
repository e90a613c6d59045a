// Requests of the Open Inference Protocol, from the bytes of the message to those of the reply.
#include "server/serving/open_inference.h"

#include "tests/fuzz/serving_fixture.h"

namespace {

using ckn::testing::FakeCall;
using ckn::testing::FuzzInput;
using ckn::testing::ServingFixture;
using Done = ckn::OpenInference::Done;

std::int64_t ElementCount(const inference::ModelInferResponse::InferOutputTensor& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t size : tensor.shape()) count *= size;
  return count;
}

// Every tensor holds what its shape says, in one of the two ways.
void CheckTensors(const inference::ModelInferRequest& request, const inference::ModelInferResponse& response) {
  CKN_FUZZ_CHECK(response.id() == request.id(), response.id());
  CKN_FUZZ_CHECK(response.outputs_size() > 0, response.ShortDebugString());
  const bool raw = request.raw_input_contents_size() > 0;
  CKN_FUZZ_CHECK(response.raw_output_contents_size() == (raw ? response.outputs_size() : 0),
                 response.raw_output_contents_size());
  for (int i = 0; i < response.outputs_size(); ++i) {
    const auto& tensor = response.outputs(i);
    const bool text = tensor.datatype() == "BYTES";
    const std::int64_t elements = ElementCount(tensor);
    if (!raw) {
      const int got = text ? tensor.contents().bytes_contents_size() : tensor.contents().fp32_contents_size();
      CKN_FUZZ_CHECK(got == elements, tensor.ShortDebugString());
    } else if (!text) {
      CKN_FUZZ_CHECK(std::cmp_equal(response.raw_output_contents(i).size(), 4 * elements), tensor.ShortDebugString());
    }
  }
}

// The stream gives what the call gives, and errors as text.
void CheckInfer(ServingFixture& fixture, ckn::OpenInference& api, const inference::ModelInferRequest& request,
                int cancel_after) {
  FakeCall call, call_again;
  call.cancel_after = call_again.cancel_after = cancel_after;
  inference::ModelInferResponse response;
  const absl::Status status =
      fixture.RunCall([&](Done done) { api.ModelInfer(call, request, &response, std::move(done)); }, response);
  if (status.ok()) CheckTensors(request, response);
  inference::ModelStreamInferResponse streamed;
  const absl::Status of_stream = fixture.RunCall(
      [&](Done done) { api.ModelStreamInfer(call_again, request, &streamed, std::move(done)); }, streamed);
  CKN_FUZZ_CHECK(of_stream.ok(), of_stream.ToString());
  CKN_FUZZ_CHECK(streamed.error_message().empty() == status.ok(), streamed.error_message());
  if (status.ok()) {
    CKN_FUZZ_CHECK(streamed.infer_response().SerializeAsString() == response.SerializeAsString(), "");
  } else {
    CKN_FUZZ_CHECK(streamed.error_message().find(std::string(status.message())) != std::string::npos,
                   streamed.error_message());
  }
}

// A method without images.
template <typename Request, typename Response>
void CheckCall(ServingFixture& fixture, ckn::OpenInference& api, const std::string& message,
               void (ckn::OpenInference::*method)(const ckn::CallContext&, const Request&, Response*, Done)) {
  Request request;
  Response response;
  if (!request.ParseFromString(message)) return;
  const FakeCall call;
  fixture.RunCall([&](Done done) { (api.*method)(call, request, &response, std::move(done)); }, response).IgnoreError();
}

}  // namespace

// First which method and, after how many looks at it, the client cancels; then the message.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static ServingFixture& fixture = *new ServingFixture;
  const auto control = [](const std::string&, const Done& done) { done(absl::OkStatus()); };
  ckn::OpenInference api(
      fixture.core(), "test", [] { return true; },
      ckn::OpenInference::ModelControl{.load = control, .unload = control});
  FuzzInput input(data, size);
  const std::uint8_t choice = input.Byte();
  const std::string message(input.Rest());
  switch (choice & 7) {
    case 1:
      CheckCall(fixture, api, message, &ckn::OpenInference::ModelMetadata);
      break;
    case 2:
      CheckCall(fixture, api, message, &ckn::OpenInference::ModelConfig);
      break;
    case 3:
      CheckCall(fixture, api, message, &ckn::OpenInference::RepositoryIndex);
      break;
    case 4:
      CheckCall(fixture, api, message, &ckn::OpenInference::RepositoryModelLoad);
      break;
    case 5:
      CheckCall(fixture, api, message, &ckn::OpenInference::RepositoryModelUnload);
      break;
    case 6: {
      inference::ModelReadyRequest request;
      if (request.ParseFromString(message)) static_cast<void>(api.ModelReady(request));
      break;
    }
    default: {
      inference::ModelInferRequest request;
      const int cancel_after = choice >> 4 > 0 ? (choice >> 4) - 1 : std::numeric_limits<int>::max();
      if (request.ParseFromString(message)) CheckInfer(fixture, api, request, cancel_after);
      break;
    }
  }
  return 0;
}
