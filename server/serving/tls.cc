#include "server/serving/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "server/base/quote.h"
#include "server/base/regular_file.h"
#include "server/base/status.h"

namespace ckn {
namespace {

// Between looks at the files.
constexpr unsigned kRefreshSeconds = 5;

// What OpenSSL had to say, all of it.
absl::Status OpenSslError(const std::string& path, const char* what) {
  const char* reason = nullptr;
  while (const unsigned long error = ERR_get_error()) reason = ERR_reason_error_string(error);
  return absl::InvalidArgumentError(
      absl::StrCat(Printable(path), ": ", what, reason == nullptr ? "" : absl::StrCat(": ", reason)));
}

}  // namespace

absl::Status CheckTlsFiles(const TlsFiles& files) {
  for (const std::string& path : {files.certificate, files.key, files.client_ca}) {
    if (!path.empty()) CKN_RETURN_IF_ERROR(Annotate(RegularFile::Open(path).status(), path));
  }
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  if (context == nullptr) return absl::InternalError("OpenSSL: cannot make a context");
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str()) != 1) {
    return OpenSslError(files.certificate, "no certificate in PEM form");
  }
  if (SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return OpenSslError(files.key, "no private key in PEM form for this certificate");
  }
  if (!files.client_ca.empty() && SSL_CTX_load_verify_locations(context.get(), files.client_ca.c_str(), nullptr) != 1) {
    return OpenSslError(files.client_ca, "no certificates in PEM form");
  }
  return absl::OkStatus();
}

std::shared_ptr<grpc::ServerCredentials> TlsCredentials(const TlsFiles& files) {
  using grpc::experimental::FileWatcherCertificateProvider;
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<FileWatcherCertificateProvider>(files.key, files.certificate, files.client_ca, kRefreshSeconds));
  options.watch_identity_key_cert_pairs();
  if (!files.client_ca.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace ckn
