#include "client/client.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ckn/v1/inference.grpc.pb.h"
#include "client/channel.h"
#include "grpcpp/grpcpp.h"

namespace ckn {

struct Client::Impl {
  std::string server;
  ClientOptions options;
  std::unique_ptr<v1::Inference::Stub> stub;

  template <typename Response, typename Request, typename Method>
  absl::StatusOr<Response> Call(const Method& method, const Request& request) const {
    grpc::ClientContext context;
    // No deadline at all is gRPC's default.
    if (options.timeout != absl::InfiniteDuration()) {
      context.set_deadline(absl::ToChronoTime(absl::Now() + options.timeout));
    }
    PrepareContext(options, context);
    Response response;
    const grpc::Status status = (stub.get()->*method)(&context, request, &response);
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
      // gRPC's words name an address or none; the user knows the name they gave.
      return absl::UnavailableError(absl::StrCat("server ", server, ": ", status.error_message()));
    }
    if (!status.ok()) return StatusFromGrpc(status);
    return response;
  }
};

Client::Client(const std::string& server, const ClientOptions& options)
    : impl_(new Impl{
          .server = server, .options = options, .stub = v1::Inference::NewStub(MakeChannel(server, options))}) {}

Client::~Client() = default;
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;

absl::StatusOr<v1::ClassifyResponse> Client::Classify(const v1::ClassifyRequest& request) const {
  return impl_->Call<v1::ClassifyResponse>(&v1::Inference::Stub::Classify, request);
}

absl::StatusOr<v1::EncodeResponse> Client::Encode(const v1::EncodeRequest& request) const {
  return impl_->Call<v1::EncodeResponse>(&v1::Inference::Stub::Encode, request);
}

absl::StatusOr<v1::ListModelsResponse> Client::ListModels() const {
  return impl_->Call<v1::ListModelsResponse>(&v1::Inference::Stub::ListModels, v1::ListModelsRequest());
}

absl::StatusOr<v1::GetModelResponse> Client::GetModel(const v1::GetModelRequest& request) const {
  return impl_->Call<v1::GetModelResponse>(&v1::Inference::Stub::GetModel, request);
}

absl::Status StatusOf(const v1::ItemStatus& status) {
  return {static_cast<absl::StatusCode>(status.code()), status.message()};
}

}  // namespace ckn
