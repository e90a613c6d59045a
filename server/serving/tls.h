#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "grpcpp/security/server_credentials.h"

namespace ckn {

// PEM files. They are read again when they change, so that certificates are renewed without a restart.
struct TlsFiles {
  std::string certificate;  // chain, the server's own first
  std::string key;
  std::string client_ca;  // clients must have a certificate of one of these; empty: they need none
};

// Whether the files are there, can be read and belong together. Messages name the file.
absl::Status CheckTlsFiles(const TlsFiles& files);

// For files that CheckTlsFiles has accepted.
std::shared_ptr<grpc::ServerCredentials> TlsCredentials(const TlsFiles& files);

}  // namespace ckn
