#pragma once

#include <memory>
#include <string>

#include "grpcpp/grpcpp.h"

namespace ckn::testing {

// A client of the standard health service, grpc.health.v1, on this machine.
class HealthClient {
 public:
  enum Serving { kError = -1, kUnknown = 0, kServing = 1, kNotServing = 2, kServiceUnknown = 3 };

  explicit HealthClient(int port);

  // The status of a service; "" is the server as a whole. kError with `code` set when the call fails.
  Serving Check(const std::string& service, grpc::StatusCode* code = nullptr);

  // A stream of status changes that stays open until destroyed.
  class Watch {
   public:
    ~Watch();
    // Blocks for the next status; kError when the stream has ended.
    Serving Next();

   private:
    friend class HealthClient;
    struct Impl;
    explicit Watch(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
  };
  std::unique_ptr<Watch> StartWatch(const std::string& service);

 private:
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace ckn::testing
