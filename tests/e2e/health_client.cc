#include "tests/e2e/health_client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace ckn::testing {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

HealthCheckRequest Request(const std::string& service) {
  HealthCheckRequest request;
  request.set_service(service);
  return request;
}

HealthClient::Serving Status(const HealthCheckResponse& response) {
  return static_cast<HealthClient::Serving>(response.status());
}

}  // namespace

HealthClient::HealthClient(int port)
    : channel_(grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials())) {}

HealthClient::Serving HealthClient::Check(const std::string& service, grpc::StatusCode* code) {
  grpc::ClientContext context;
  HealthCheckResponse response;
  const grpc::Status status = Health::NewStub(channel_)->Check(&context, Request(service), &response);
  if (code != nullptr) *code = status.error_code();
  return status.ok() ? Status(response) : kError;
}

struct HealthClient::Watch::Impl {
  std::unique_ptr<Health::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> stream;
};

HealthClient::Watch::Watch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HealthClient::Watch::~Watch() {
  impl_->context.TryCancel();
  HealthCheckResponse response;
  while (impl_->stream->Read(&response)) {
  }
  impl_->stream->Finish();
}

HealthClient::Serving HealthClient::Watch::Next() {
  HealthCheckResponse response;
  return impl_->stream->Read(&response) ? Status(response) : kError;
}

std::unique_ptr<HealthClient::Watch> HealthClient::StartWatch(const std::string& service) {
  auto impl = std::make_unique<Watch::Impl>();
  impl->stub = Health::NewStub(channel_);
  impl->stream = impl->stub->Watch(&impl->context, Request(service));
  return std::unique_ptr<Watch>(new Watch(std::move(impl)));
}

}  // namespace ckn::testing
