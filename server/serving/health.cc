#include "server/serving/health.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/quote.h"
#include "server/serving/unary_call.h"
#include "server/serving/wire_message.h"

namespace ckn {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// A request holds a name.
constexpr ParseLimits kParseLimits{.max_elements = 16, .max_bytes = 8192};

HealthCheckResponse Response(HealthCheckResponse::ServingStatus status) {
  HealthCheckResponse response;
  response.set_status(status);
  return response;
}

absl::Status Stopping() { return absl::UnavailableError("the server is stopping"); }

// Reads the request of a call and hands on the name in it.
void ReadName(const std::shared_ptr<GrpcCall>& call, std::function<void(const std::string& name)> handle) {
  ReadRequest(call, [call, handle = std::move(handle)](grpc::ByteBuffer* bytes) {
    HealthCheckRequest request;
    if (const absl::Status parsed = ParseMessage(bytes, kParseLimits, &request); !parsed.ok()) {
      return call->Finish(parsed);
    }
    handle(request.service());
  });
}

}  // namespace

// A call that is told of the last status that it does not know yet, once it has taken the one before. Until the first
// Tell() it does nothing.
class Health::Watch final : public std::enable_shared_from_this<Watch> {
 public:
  explicit Watch(std::shared_ptr<GrpcCall> call) : call_(std::move(call)) {}

  // Before the watch is shared.
  void SetName(const std::string& name) { name_ = name; }
  [[nodiscard]] const std::string& name() const { return name_; }

  void Tell(Status status) {
    {
      const absl::MutexLock lock(&mu_);
      status_ = status;
    }
    GoOn();
  }

  void End() {
    {
      const absl::MutexLock lock(&mu_);
      end_ = true;
    }
    GoOn();
  }

 private:
  void GoOn() {
    std::optional<Status> to_write;
    {
      const absl::MutexLock lock(&mu_);
      if (!status_ || writing_ || finished_) return;
      if (!end_ && status_ == written_) return;
      if (status_ != written_) to_write = written_ = status_;
      (to_write ? writing_ : finished_) = true;
    }
    if (!to_write) return call_->Finish(Stopping());
    grpc::ByteBuffer bytes;
    (void)SerializeMessage(Response(*to_write), &bytes);  // a few bytes
    call_->Write(bytes, [self = shared_from_this()](bool ok) { self->Written(ok); });
  }

  void Written(bool ok) {
    {
      const absl::MutexLock lock(&mu_);
      writing_ = false;
      if (!ok) {
        end_ = true;
        written_ = status_;
      }
    }
    GoOn();
  }

  const std::shared_ptr<GrpcCall> call_;
  std::string name_;
  absl::Mutex mu_;
  std::optional<Status> status_ ABSL_GUARDED_BY(mu_);
  std::optional<Status> written_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool end_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

Health::Health() = default;
Health::~Health() = default;

void Health::AddTo(RpcServer& server) {
  server.Add("/grpc.health.v1.Health/Check", [this](const std::shared_ptr<GrpcCall>& call) {
    ReadName(call, [this, call](const std::string& name) { Check(*call, name); });
  });
  server.Add("/grpc.health.v1.Health/Watch", [this](const std::shared_ptr<GrpcCall>& call) {
    const auto watch = std::make_shared<Watch>(call);
    call->WhenDone([this, watch] {
      watch->End();
      const absl::MutexLock lock(&mu_);
      watches_.erase(watch);
    });
    ReadName(call, [this, call, watch](const std::string& name) {
      watch->SetName(name);
      const absl::MutexLock lock(&mu_);
      if (ended_ || call->Cancelled()) return call->Finish(Stopping());
      watches_.insert(watch);
      watch->Tell(StatusOf(name));
    });
  });
}

void Health::Check(GrpcCall& call, const std::string& name) {
  const absl::MutexLock lock(&mu_);
  const Status status = StatusOf(name);
  if (status == HealthCheckResponse::SERVICE_UNKNOWN) {
    return call.Finish(absl::NotFoundError(absl::StrCat("service ", Quote(name), ": not known")));
  }
  Reply(call, absl::OkStatus(), Response(status));
}

Health::Status Health::StatusOf(const std::string& name) const {
  const auto found = statuses_.find(name);
  return found == statuses_.end() ? HealthCheckResponse::SERVICE_UNKNOWN : found->second;
}

void Health::Set(const std::string& name, bool serving) {
  const absl::MutexLock lock(&mu_);
  if (stopped_) return;
  statuses_[name] = serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
  for (const auto& watch : watches_) {
    if (watch->name() == name) watch->Tell(StatusOf(name));
  }
}

void Health::StopServing() {
  const absl::MutexLock lock(&mu_);
  stopped_ = true;
  for (auto& [name, status] : statuses_) status = HealthCheckResponse::NOT_SERVING;
  for (const auto& watch : watches_) watch->Tell(StatusOf(watch->name()));
}

void Health::EndWatches() {
  const absl::MutexLock lock(&mu_);
  ended_ = true;
  for (const auto& watch : watches_) watch->End();
}

}  // namespace ckn
