#include "server/serving/http_endpoint.h"

#include <exception>
#include <utility>
#include <vector>

#include "CivetServer.h"
#include "absl/strings/str_cat.h"

namespace ckn {
namespace {

class GetHandler final : public CivetHandler {
 public:
  struct Reply {
    int code = 200;
    std::string body;
    const char* content_type = "text/plain; charset=utf-8";
  };

  explicit GetHandler(std::function<Reply()> reply) : reply_(std::move(reply)) {}

  bool handleGet(CivetServer* /*server*/, mg_connection* connection) override {
    Reply reply;
    try {
      reply = reply_();
    } catch (const std::exception&) {  // out of memory
      reply = {.code = 500, .body = "internal error\n"};
    }
    const std::string head =
        absl::StrCat("HTTP/1.1 ", reply.code, " ", mg_get_response_code_text(connection, reply.code),
                     "\r\nContent-Type: ", reply.content_type, "\r\nContent-Length: ", reply.body.size(),
                     "\r\nCache-Control: no-store\r\n\r\n");
    mg_write(connection, head.data(), head.size());
    mg_write(connection, reply.body.data(), reply.body.size());
    return true;
  }

 private:
  const std::function<Reply()> reply_;
};

}  // namespace

struct HttpEndpoint::Impl {
  Impl(const std::vector<std::string>& options, HttpHandlers handlers)
      : metrics([get = std::move(handlers.metrics)] {
          return GetHandler::Reply{.body = get(), .content_type = "text/plain; version=0.0.4; charset=utf-8"};
        }),
        health([] { return GetHandler::Reply{.body = "ok\n"}; }),
        ready([is_ready = std::move(handlers.ready)] {
          return is_ready() ? GetHandler::Reply{.body = "ready\n"}
                            : GetHandler::Reply{.code = 503, .body = "not ready\n"};
        }),
        server(options) {
    server.addHandler("/metrics", metrics);
    server.addHandler("/healthz", health);
    server.addHandler("/readyz", ready);
  }

  GetHandler metrics;
  GetHandler health;
  GetHandler ready;
  CivetServer server;  // last: stops before the handlers go
};

absl::StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::Start(const HostPort& address, HttpHandlers handlers) {
  const std::vector<std::string> options = {"listening_ports", address.ToString(), "num_threads", "2"};
  try {
    auto impl = std::make_unique<Impl>(options, std::move(handlers));
    if (impl->server.getListeningPorts().size() == 1) {
      return std::unique_ptr<HttpEndpoint>(new HttpEndpoint(std::move(impl)));
    }
  } catch (const std::exception&) {
    // It does not say why; the operating system does.
  }
  if (const absl::Status status = CheckCanListen(address); !status.ok()) return status;
  return absl::FailedPreconditionError(absl::StrCat("the web server cannot listen on ", address.ToString()));
}

HttpEndpoint::HttpEndpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpEndpoint::~HttpEndpoint() = default;

int HttpEndpoint::port() const { return impl_->server.getListeningPorts().front(); }

}  // namespace ckn
