#pragma once

#include <functional>
#include <memory>

#include "spdlog/logger.h"

namespace ckn {

// What gRPC has to say goes to `logger` from now on, each message one printable line, and those from one place of its
// source as a RepeatLimit admits them: clients can cause some with every call, with text of their own.
//
// `listener_lost` is called, once, when gRPC has ended listening for good. It does so when there is no file descriptor
// left for a connection (gRPC 1.51).
void LogGrpc(std::shared_ptr<spdlog::logger> logger, std::function<void()> listener_lost);

}  // namespace ckn
