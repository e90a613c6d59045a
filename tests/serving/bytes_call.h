#pragma once

#include <memory>
#include <string>

#include "absl/synchronization/notification.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace ckn::testing {

// A unary call with whatever bytes; `reply`, if any, gets those of the answer.
inline grpc::Status CallWithBytes(const std::shared_ptr<grpc::Channel>& channel, const std::string& path,
                                  const std::string& bytes, std::string* reply = nullptr) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::Status result;
  absl::Notification done;
  stub.UnaryCall(&context, path, {}, &request, &response, [&](const grpc::Status& status) {
    result = status;
    done.Notify();
  });
  done.WaitForNotification();
  grpc::Slice whole;
  if (reply != nullptr && response.DumpToSingleSlice(&whole).ok()) {
    *reply = {reinterpret_cast<const char*>(whole.begin()), whole.size()};
  }
  return result;
}

}  // namespace ckn::testing
