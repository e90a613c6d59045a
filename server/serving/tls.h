#pragma once

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpc/grpc_security.h"
#include "grpcpp/security/server_credentials.h"
#include "server/serving/clock.h"
#include "server/serving/model_folder.h"

namespace ckn {

struct TlsFiles {
  std::string certificate;  // PEM: chain, the server's own first
  std::string key;          // PEM
  std::string client_ca;    // PEM: clients must have a certificate of one of these; empty: they need none
};

// What the server shows of itself, and asks clients for. The files are read again when a connection comes and they have
// changed, at most once a second. Files that cannot be used, or do not belong together, change nothing: the log names
// them, and what was there stays. Thread-safe.
class TlsCertificates {
 public:
  // Messages name the file that cannot be read or used. `clock` must outlive this.
  static absl::StatusOr<std::unique_ptr<TlsCertificates>> Open(const TlsFiles& files, const Clock& clock);

  // Of a port. This must outlive its server.
  std::shared_ptr<grpc::ServerCredentials> Credentials();

 private:
  class PortCredentials;

  struct Texts {
    std::string certificate, key, client_ca;
  };

  TlsCertificates(TlsFiles files, const Clock& clock) : files_(std::move(files)), clock_(clock) {}

  // All files, if they can be used.
  [[nodiscard]] absl::StatusOr<Texts> Read() const;
  [[nodiscard]] std::array<FileIdentity, 3> Identities() const;
  void ReadIfChanged() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // gRPC asks at the start and for each connection whether there is something new.
  static grpc_ssl_certificate_config_reload_status Fetch(void* self, grpc_ssl_server_certificate_config** config);

  const TlsFiles files_;
  const Clock& clock_;
  absl::Mutex mu_;
  Texts texts_ ABSL_GUARDED_BY(mu_);
  bool fetched_ ABSL_GUARDED_BY(mu_) = false;  // gRPC has texts_
  std::array<FileIdentity, 3> identities_ ABSL_GUARDED_BY(mu_);
  absl::Time looked_at_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
};

}  // namespace ckn
