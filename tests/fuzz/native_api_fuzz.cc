// Requests of ckn.v1.Inference, from the bytes of the message to those of the reply.
#include "server/serving/native_api.h"

#include "tests/fuzz/serving_fixture.h"

namespace {

using ckn::testing::FakeCall;
using ckn::testing::FuzzInput;
using ckn::testing::ServingFixture;
using Done = ckn::NativeApi::Done;

template <typename Request, typename Response>
void CheckResults(const Request& request, const Response& response) {
  CKN_FUZZ_CHECK(response.results_size() == request.images_size(), response.results_size());
  CKN_FUZZ_CHECK(request.model().empty() || response.model() == request.model(), response.model());
  for (const auto& result : response.results()) {
    const auto code = static_cast<absl::StatusCode>(result.status().code());
    if (code == absl::StatusCode::kOk) continue;
    CKN_FUZZ_CHECK(code == absl::StatusCode::kInvalidArgument, result.status().ShortDebugString());
    CKN_FUZZ_CHECK(ckn::IsPrintableUtf8(result.status().message()), result.status().ShortDebugString());
  }
}

}  // namespace

// First which method and, after how many looks at it, the client cancels; then the message.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static ServingFixture& fixture = *new ServingFixture;
  ckn::NativeApi api(fixture.core());
  FuzzInput input(data, size);
  const std::uint8_t choice = input.Byte();
  FakeCall call;
  if (const int cancel_after = choice >> 4; cancel_after > 0) call.cancel_after = cancel_after - 1;
  const std::string message(input.Rest());
  switch (choice & 3) {
    case 0: {
      ckn::v1::ClassifyRequest request;
      ckn::v1::ClassifyResponse response;
      if (!request.ParseFromString(message)) break;
      const auto start = [&](Done done) { api.Classify(call, request, &response, std::move(done)); };
      if (!fixture.RunCall(start, response).ok()) break;
      CheckResults(request, response);
      for (const auto& result : response.results()) {
        const bool failed = result.status().code() != 0;
        CKN_FUZZ_CHECK(failed == (result.classes_size() == 0), result.ShortDebugString());
      }
      break;
    }
    case 1: {
      ckn::v1::EncodeRequest request;
      ckn::v1::EncodeResponse response;
      if (!request.ParseFromString(message)) break;
      const auto start = [&](Done done) { api.Encode(call, request, &response, std::move(done)); };
      if (!fixture.RunCall(start, response).ok()) break;
      CheckResults(request, response);
      for (const auto& result : response.results()) {
        const bool failed = result.status().code() != 0;
        CKN_FUZZ_CHECK(failed == (result.values_size() == 0), result.ShortDebugString());
      }
      break;
    }
    case 2: {
      ckn::v1::GetModelRequest request;
      ckn::v1::GetModelResponse response;
      if (!request.ParseFromString(message)) break;
      fixture.RunCall([&](Done done) { api.GetModel(call, request, &response, std::move(done)); }, response)
          .IgnoreError();
      break;
    }
    default: {
      ckn::v1::ListModelsResponse response;
      fixture.RunCall([&](Done done) { api.ListModels(call, &response, std::move(done)); }, response).IgnoreError();
      break;
    }
  }
  return 0;
}
