#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/base/host_port.h"

namespace ckn {

// What the HTTP port answers; called from its thread.
struct HttpHandlers {
  std::function<std::string()> metrics;  // body of GET /metrics, Prometheus text format
  std::function<bool()> ready;           // GET /readyz: 200 or 503
};

// The port for programs that watch the server: GET and HEAD of /metrics, /healthz (200 as long as the process answers)
// and /readyz. One thread of its own, apart from the workers, so that it answers under load.
//
// Not prometheus-cpp's Exposer: it can answer nothing but metrics, and its web server's threads have fixed stacks of
// 100 KiB. Thread-local data of libraries lives on them too (60 KiB of OpenBLAS alone, where it is the BLAS of
// L-BFGS-B); what is left does not suffice for its own "404 Not Found".
class HttpEndpoint {
 public:
  // Listens until destroyed. Fails as ListeningSocket::Open does.
  static absl::StatusOr<std::unique_ptr<HttpEndpoint>> Start(const HostPort& address, HttpHandlers handlers);
  ~HttpEndpoint();
  HttpEndpoint(const HttpEndpoint&) = delete;
  HttpEndpoint& operator=(const HttpEndpoint&) = delete;

  // The port in use, also when 0 was asked for.
  [[nodiscard]] int port() const { return port_; }

 private:
  struct Daemon;

  HttpEndpoint(std::unique_ptr<Daemon> daemon, int port);

  const std::unique_ptr<Daemon> daemon_;
  const int port_;
};

}  // namespace ckn
