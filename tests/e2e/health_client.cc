#include "tests/e2e/health_client.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "grpcpp/generic/generic_stub.h"

namespace ckn::testing {
namespace {

// HealthCheckRequest {string service = 1}; names are shorter than 128 bytes here.
grpc::ByteBuffer Request(const std::string& service) {
  std::string bytes;
  if (!service.empty()) bytes = absl::StrCat("\x0a", std::string(1, static_cast<char>(service.size())), service);
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

// HealthCheckResponse {ServingStatus status = 1}.
HealthClient::Serving Status(const grpc::ByteBuffer& response) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!response.Dump(&slices).ok()) return HealthClient::kError;
  for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  if (bytes.empty()) return HealthClient::kUnknown;
  if (bytes.size() != 2 || bytes[0] != 8) return HealthClient::kError;
  return static_cast<HealthClient::Serving>(bytes[1]);
}

}  // namespace

HealthClient::HealthClient(int port)
    : channel_(grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials())) {}

HealthClient::Serving HealthClient::Check(const std::string& service, grpc::StatusCode* code) {
  grpc::GenericStub stub(channel_);
  grpc::ClientContext context;
  const grpc::ByteBuffer request = Request(service);
  grpc::ByteBuffer response;
  grpc::Status status;
  absl::Notification done;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", {}, &request, &response, [&](grpc::Status result) {
    status = std::move(result);
    done.Notify();
  });
  done.WaitForNotification();
  if (code != nullptr) *code = status.error_code();
  return status.ok() ? Status(response) : kError;
}

struct HealthClient::Watch::Impl {
  explicit Impl(std::shared_ptr<grpc::Channel> channel) : stub(std::move(channel)) {}

  // Waits for the operation just started.
  bool Finished() {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  }

  grpc::GenericStub stub;
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream;
};

HealthClient::Watch::Watch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HealthClient::Watch::~Watch() {
  impl_->context.TryCancel();
  grpc::Status status;
  impl_->stream->Finish(&status, nullptr);
  impl_->Finished();
  impl_->queue.Shutdown();
  while (impl_->Finished()) {
  }
}

HealthClient::Serving HealthClient::Watch::Next() {
  grpc::ByteBuffer response;
  impl_->stream->Read(&response, nullptr);
  return impl_->Finished() ? Status(response) : kError;
}

std::unique_ptr<HealthClient::Watch> HealthClient::StartWatch(const std::string& service) {
  auto impl = std::make_unique<Watch::Impl>(channel_);
  impl->stream = impl->stub.PrepareCall(&impl->context, "/grpc.health.v1.Health/Watch", &impl->queue);
  impl->stream->StartCall(nullptr);
  impl->Finished();
  impl->stream->Write(Request(service), nullptr);
  impl->Finished();
  impl->stream->WritesDone(nullptr);
  impl->Finished();
  return std::unique_ptr<Watch>(new Watch(std::move(impl)));
}

}  // namespace ckn::testing
