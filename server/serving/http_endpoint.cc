#include "server/serving/http_endpoint.h"

#include <microhttpd.h>

#include <exception>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/serving/listening_socket.h"

namespace ckn {
namespace {

struct Reply {
  unsigned code = MHD_HTTP_OK;
  std::string body;
  const char* content_type = "text/plain; charset=utf-8";
};

Reply AnswerGet(const HttpHandlers& handlers, std::string_view path) {
  if (path == "/metrics") {
    return {.body = handlers.metrics(), .content_type = "text/plain; version=0.0.4; charset=utf-8"};
  }
  if (path == "/healthz") return {.body = "ok\n"};
  if (path == "/readyz") {
    if (handlers.ready()) return {.body = "ready\n"};
    return {.code = MHD_HTTP_SERVICE_UNAVAILABLE, .body = "not ready\n"};
  }
  return {.code = MHD_HTTP_NOT_FOUND, .body = "not found; this port has /metrics, /healthz and /readyz\n"};
}

MHD_Result Send(MHD_Connection* connection, const Reply& reply) {
  MHD_Response* const response =
      MHD_create_response_from_buffer(reply.body.size(), const_cast<char*>(reply.body.data()), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, reply.content_type);
  MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
  if (reply.code == MHD_HTTP_METHOD_NOT_ALLOWED) MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  const MHD_Result result = MHD_queue_response(connection, reply.code, response);
  MHD_destroy_response(response);
  return result;
}

// Called by the library for each request; MHD_NO closes the connection.
MHD_Result Answer(void* closure, MHD_Connection* connection, const char* path, const char* method,
                  const char* /*version*/, const char* /*upload*/, std::size_t* /*upload_size*/, void** /*state*/) {
  try {
    const std::string_view verb = method;
    if (verb != MHD_HTTP_METHOD_GET && verb != MHD_HTTP_METHOD_HEAD) {
      return Send(connection, {.code = MHD_HTTP_METHOD_NOT_ALLOWED, .body = "only GET and HEAD\n"});
    }
    return Send(connection, AnswerGet(*static_cast<const HttpHandlers*>(closure), path));
  } catch (const std::exception&) {  // out of memory
    return MHD_NO;
  }
}

}  // namespace

struct HttpEndpoint::Daemon {
  explicit Daemon(HttpHandlers h) : handlers(std::move(h)) {}
  ~Daemon() {
    if (daemon != nullptr) MHD_stop_daemon(daemon);
  }
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  HttpHandlers handlers;
  MHD_Daemon* daemon = nullptr;
};

absl::StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::Start(const HostPort& address, HttpHandlers handlers) {
  absl::StatusOr<ListeningSocket> socket = ListeningSocket::Open(address);
  if (!socket.ok()) return socket.status();
  auto daemon = std::make_unique<Daemon>(std::move(handlers));
  const int port = socket->port();
  const int fd = socket->Release();
  // Requests are one line and answers are made at once, so connections that wait are probes that died or worse.
  constexpr unsigned kMaxConnections = 256;
  constexpr unsigned kIdleSeconds = 5;
  daemon->daemon = MHD_start_daemon(MHD_USE_AUTO_INTERNAL_THREAD, 0, nullptr, nullptr, &Answer, &daemon->handlers,
                                    MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, kMaxConnections,
                                    MHD_OPTION_CONNECTION_TIMEOUT, kIdleSeconds, MHD_OPTION_END);
  if (daemon->daemon == nullptr) {
    // The library has closed the socket.
    return absl::InternalError(absl::StrCat("the HTTP server did not start on ", address.ToString()));
  }
  return std::unique_ptr<HttpEndpoint>(new HttpEndpoint(std::move(daemon), port));
}

HttpEndpoint::HttpEndpoint(std::unique_ptr<Daemon> daemon, int port) : daemon_(std::move(daemon)), port_(port) {}

HttpEndpoint::~HttpEndpoint() = default;

}  // namespace ckn
