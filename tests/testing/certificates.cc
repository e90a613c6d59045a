#include "tests/testing/certificates.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace ckn::testing {
namespace {

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Free<&EVP_PKEY_free>>;
using X509Ptr = std::unique_ptr<X509, Free<&X509_free>>;
using Bio = std::unique_ptr<BIO, Free<&BIO_free_all>>;

void Require(bool ok) {
  if (ok) return;
  std::fputs("OpenSSL failed\n", stderr);
  std::abort();
}

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

void AddExtension(X509* certificate, X509* issuer, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Free<&X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value));
  Require(extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1);
}

Certificate Make(const std::string& name, const Certificate* authority) {
  static std::atomic<long> serial{1};
  const Key key(EVP_EC_gen("P-256"));
  const X509Ptr certificate(X509_new());
  Require(key != nullptr && certificate != nullptr);
  X509_set_version(certificate.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 86400);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509Ptr issuer;
  Key issuer_key;
  if (authority != nullptr) {
    const Bio pem(BIO_new_mem_buf(authority->pem.data(), static_cast<int>(authority->pem.size())));
    issuer.reset(PEM_read_bio_X509(pem.get(), nullptr, nullptr, nullptr));
    const Bio key_pem(BIO_new_mem_buf(authority->key.data(), static_cast<int>(authority->key.size())));
    issuer_key.reset(PEM_read_bio_PrivateKey(key_pem.get(), nullptr, nullptr, nullptr));
    Require(issuer != nullptr && issuer_key != nullptr);
    AddExtension(certificate.get(), issuer.get(), NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
  } else {
    AddExtension(certificate.get(), certificate.get(), NID_basic_constraints, "critical,CA:TRUE");
  }
  X509* const signer = issuer != nullptr ? issuer.get() : certificate.get();
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(signer));
  Require(X509_sign(certificate.get(), issuer_key != nullptr ? issuer_key.get() : key.get(), EVP_sha256()) > 0);

  const Bio out(BIO_new(BIO_s_mem()));
  const Bio key_out(BIO_new(BIO_s_mem()));
  Require(PEM_write_bio_X509(out.get(), certificate.get()) == 1);
  Require(PEM_write_bio_PrivateKey(key_out.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1);
  return {TextOf(out.get()), TextOf(key_out.get())};
}

}  // namespace

Certificate MakeAuthority(const std::string& name) { return Make(name, nullptr); }

Certificate MakeCertificate(const std::string& name, const Certificate& authority) { return Make(name, &authority); }

}  // namespace ckn::testing
