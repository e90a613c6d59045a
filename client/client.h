#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ckn/v1/inference.pb.h"

namespace ckn {

// Contents of PEM files.
struct ClientTls {
  std::string server_ca = {};              // empty: those that the system trusts
  std::string server_name = {};            // that the server's certificate must hold; empty: the address's
  std::string certificate = {}, key = {};  // for servers that ask for one
};

struct ClientOptions {
  // Of each call, from its start to its reply.
  absl::Duration timeout = absl::Seconds(60);
  // Of a request or a reply; gRPC's own default of 4 MiB is too small for many images.
  std::int64_t max_message_bytes = std::int64_t{64} << 20;
  // True: a call waits, up to its timeout, for a server that does not answer yet. False: it fails with UNAVAILABLE.
  bool wait_for_ready = false;
  // True: of a server's addresses, those get no calls whose health is NOT_SERVING, as it is for a while before a server
  // stops (ckn serve --lame-duck-ms): no call meets a server that stops, as long as there is another. False: calls are
  // sent as long as there is a connection. With a list of addresses (ipv4:A:PORT,B:PORT) health is always followed.
  bool follow_health = false;
  std::optional<ClientTls> tls = std::nullopt;  // not set: clear text
  std::string token = {};                       // for servers that ask for one
};

// A client of ckn.v1.Inference; the messages are those of proto/ckn/v1/inference.proto, which also documents the errors
// of each call. Throws nothing. Thread-safe: all threads may share one client, which is one HTTP/2 connection to each
// address of the server.
//
//   ckn::Client client("127.0.0.1:8500");
//   ckn::v1::ClassifyRequest request;
//   request.add_images()->set_encoded(png_bytes);
//   absl::StatusOr<ckn::v1::ClassifyResponse> reply = client.Classify(request);
//   if (!reply.ok()) ...                       // the call failed
//   reply->results(0).classes(0).label();      // with several images, look at results(i).status() first
class Client {
 public:
  // `server`: HOST:PORT, or any name that gRPC resolves ("dns:///host:port"). Calls are spread over all addresses that
  // the name has, in turn. Connects at the first call.
  explicit Client(const std::string& server, const ClientOptions& options = {});
  ~Client();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;

  // A call that a server refuses has the server's code and message. DEADLINE_EXCEEDED: no reply within the timeout;
  // UNAVAILABLE: no connection; RESOURCE_EXHAUSTED: queue full, or a message over the limit.
  [[nodiscard]] absl::StatusOr<v1::ClassifyResponse> Classify(const v1::ClassifyRequest& request) const;
  [[nodiscard]] absl::StatusOr<v1::EncodeResponse> Encode(const v1::EncodeRequest& request) const;
  [[nodiscard]] absl::StatusOr<v1::ListModelsResponse> ListModels() const;
  [[nodiscard]] absl::StatusOr<v1::GetModelResponse> GetModel(const v1::GetModelRequest& request) const;

  // OK while the server's health is SERVING: of the server as a whole, or of the model or gRPC service of that name.
  // UNAVAILABLE: it is not, or no connection; NOT_FOUND: no model or service of that name.
  [[nodiscard]] absl::Status CheckHealth(const std::string& service = "") const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The status of one image of a reply.
absl::Status StatusOf(const v1::ItemStatus& status);

}  // namespace ckn
