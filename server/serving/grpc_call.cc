#include "server/serving/grpc_call.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace ckn {
namespace {

constexpr std::size_t kMaxRequestIdBytes = 64;
// Version, trace, parent and flags: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.
constexpr std::string_view kTraceparentShape = "hh-hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh-hhhhhhhhhhhhhhhh-hh";

bool IsTraceparent(std::string_view text) {
  const auto fits = [](char got, char shape) {
    return shape == 'h' ? (got >= '0' && got <= '9') || (got >= 'a' && got <= 'f') : got == shape;
  };
  return text.size() == kTraceparentShape.size() &&
         std::equal(text.begin(), text.end(), kTraceparentShape.begin(), fits);
}

bool IsRequestId(std::string_view text) {
  const auto visible = [](char c) { return c > ' ' && c <= '~' && c != '"' && c != '\\'; };
  return !text.empty() && text.size() <= kMaxRequestIdBytes && std::all_of(text.begin(), text.end(), visible);
}

std::string Header(const grpc::CallbackServerContext& context, const char* name) {
  const auto found = context.client_metadata().find(name);
  if (found == context.client_metadata().end()) return {};
  return {found->second.data(), found->second.size()};
}

}  // namespace

GrpcCall::GrpcCall(grpc::CallbackServerContext& context, const CallerAccess& access)
    : context_(context), deadline_(absl::FromChrono(context.deadline())), peer_(context.peer()) {
  if (access.callers != nullptr || access.managers != nullptr) {
    const std::string authorization = Header(context, "authorization");
    const bool manager = access.managers != nullptr && access.managers->Allows(authorization);
    may_call_ = manager || access.callers == nullptr || access.callers->Allows(authorization);
    may_manage_ = manager || (access.managers == nullptr && may_call_);
  }
  if (std::string id = Header(context, "x-request-id"); IsRequestId(id)) {
    context.AddInitialMetadata("x-request-id", id);
    request_id_ = std::move(id);
  }
  if (std::string trace = Header(context, "traceparent"); IsTraceparent(trace)) {
    context.AddInitialMetadata("traceparent", trace);
    traceparent_ = std::move(trace);
  }
}

}  // namespace ckn
