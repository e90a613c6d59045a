#include "server/serving/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <cstdint>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "server/base/quote.h"
#include "server/base/regular_file.h"
#include "server/base/status.h"
#include "spdlog/spdlog.h"

namespace ckn {
namespace {

constexpr std::uint64_t kMaxFileBytes = 1 << 24;

using Bio = std::unique_ptr<BIO, decltype(&BIO_free_all)>;
using X509Pointer = std::unique_ptr<X509, decltype(&X509_free)>;
using KeyPointer = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

Bio Text(std::string_view pem) { return {BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free_all}; }

// A key that asks for a password is not used.
int NoPassword(char*, int, int, void*) { return -1; }

X509Pointer NextCertificate(BIO* bio) { return {PEM_read_bio_X509(bio, nullptr, NoPassword, nullptr), &X509_free}; }

// Whether what ended the reading is the end of the text.
bool AtEnd() {
  const unsigned long error = ERR_peek_last_error();
  return ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
}

// What OpenSSL had to say last.
absl::Status OpenSslError(const std::string& path, const char* what) {
  const char* reason = nullptr;
  while (const unsigned long error = ERR_get_error()) reason = ERR_reason_error_string(error);
  return absl::InvalidArgumentError(
      absl::StrCat(Printable(path), ": ", what, reason == nullptr ? "" : absl::StrCat(": ", reason)));
}

// At least one certificate, and nothing broken after it.
bool AreCertificates(std::string_view pem) {
  const Bio bio = Text(pem);
  int count = 0;
  while (NextCertificate(bio.get())) ++count;
  return count > 0 && AtEnd();
}

}  // namespace

// In grpc++ there are no credentials whose files change, except by its FileWatcherCertificateProvider, which takes
// over whatever is in them, and then no connection succeeds; the core library has what is needed.
class TlsCertificates::PortCredentials : public grpc::ServerCredentials {
 public:
  PortCredentials(TlsCertificates& certificates, bool verify_clients)
      : credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                verify_clients ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                               : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
                &Fetch, &certificates))) {}
  ~PortCredentials() override { grpc_server_credentials_release(credentials_); }
  PortCredentials(const PortCredentials&) = delete;
  PortCredentials& operator=(const PortCredentials&) = delete;

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* const credentials_;
};

absl::StatusOr<std::unique_ptr<TlsCertificates>> TlsCertificates::Open(const TlsFiles& files, const Clock& clock) {
  std::unique_ptr<TlsCertificates> certificates(new TlsCertificates(files, clock));
  const absl::MutexLock lock(&certificates->mu_);
  certificates->identities_ = certificates->Identities();
  CKN_ASSIGN_OR_RETURN(certificates->texts_, certificates->Read());
  return certificates;
}

std::shared_ptr<grpc::ServerCredentials> TlsCertificates::Credentials() {
  return std::make_shared<PortCredentials>(*this, !files_.client_ca.empty());
}

std::array<FileIdentity, 3> TlsCertificates::Identities() const {
  return {IdentityOf(files_.certificate), IdentityOf(files_.key),
          files_.client_ca.empty() ? FileIdentity() : IdentityOf(files_.client_ca)};
}

absl::StatusOr<TlsCertificates::Texts> TlsCertificates::Read() const {
  Texts texts;
  for (const auto& [path, text] :
       {std::pair(&files_.certificate, &texts.certificate), std::pair(&files_.key, &texts.key),
        std::pair(&files_.client_ca, &texts.client_ca)}) {
    if (path->empty()) continue;
    absl::StatusOr<std::string> read = ReadWholeFile(*path, kMaxFileBytes);
    CKN_RETURN_IF_ERROR(Annotate(read.status(), Printable(*path)));
    *text = *std::move(read);
  }
  ERR_clear_error();
  const X509Pointer own = NextCertificate(Text(texts.certificate).get());
  if (own == nullptr || !AreCertificates(texts.certificate)) {
    return OpenSslError(files_.certificate, "no certificate in PEM form");
  }
  ERR_clear_error();
  const KeyPointer key(PEM_read_bio_PrivateKey(Text(texts.key).get(), nullptr, NoPassword, nullptr), &EVP_PKEY_free);
  if (key == nullptr || X509_check_private_key(own.get(), key.get()) != 1) {
    return OpenSslError(files_.key, "no private key in PEM form for this certificate");
  }
  ERR_clear_error();
  if (!files_.client_ca.empty() && !AreCertificates(texts.client_ca)) {
    return OpenSslError(files_.client_ca, "no certificates in PEM form");
  }
  ERR_clear_error();
  return texts;
}

void TlsCertificates::ReadIfChanged() {
  const absl::Time now = clock_.Now();
  if (now - looked_at_ < absl::Seconds(1)) return;
  looked_at_ = now;
  const std::array<FileIdentity, 3> identities = Identities();
  if (identities == identities_) return;
  identities_ = identities;
  absl::StatusOr<Texts> texts = Read();
  if (!texts.ok()) {
    spdlog::error("TLS: {}; the certificates that were there stay", std::string(texts.status().message()));
    return;
  }
  texts_ = *std::move(texts);
  fetched_ = false;
  spdlog::info("TLS: {} and what belongs to it was read again", Printable(files_.certificate));
}

grpc_ssl_certificate_config_reload_status TlsCertificates::Fetch(void* self,
                                                                 grpc_ssl_server_certificate_config** config) {
  auto& certificates = *static_cast<TlsCertificates*>(self);
  const absl::MutexLock lock(&certificates.mu_);
  certificates.ReadIfChanged();
  if (certificates.fetched_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  certificates.fetched_ = true;
  const Texts& texts = certificates.texts_;
  const grpc_ssl_pem_key_cert_pair pair{.private_key = texts.key.c_str(), .cert_chain = texts.certificate.c_str()};
  // gRPC wants some, also where clients are not asked for a certificate and these have no meaning.
  const std::string& authorities = certificates.files_.client_ca.empty() ? texts.certificate : texts.client_ca;
  *config = grpc_ssl_server_certificate_config_create(authorities.c_str(), &pair, 1);
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

}  // namespace ckn
