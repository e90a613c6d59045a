#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/serving/host_port.h"

namespace ckn {

// What the HTTP port answers; called from its threads.
struct HttpHandlers {
  std::function<std::string()> metrics;  // body of GET /metrics, Prometheus text format
  std::function<bool()> ready;           // GET /readyz: 200 or 503
};

// The port for machines that watch the server: GET /metrics, /healthz (200 as long as the process answers) and /readyz.
// Uses the web server that prometheus-cpp's own Exposer uses; that class cannot answer anything but metrics.
class HttpEndpoint {
 public:
  // Listens until destroyed. Fails as CheckCanListen does.
  static absl::StatusOr<std::unique_ptr<HttpEndpoint>> Start(const HostPort& address, HttpHandlers handlers);
  ~HttpEndpoint();
  HttpEndpoint(const HttpEndpoint&) = delete;
  HttpEndpoint& operator=(const HttpEndpoint&) = delete;

  // The port in use, also when 0 was asked for.
  [[nodiscard]] int port() const;

 private:
  struct Impl;

  explicit HttpEndpoint(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace ckn
