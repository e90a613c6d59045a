#pragma once

#include <string>

namespace ckn::testing {

// A certificate and its private key, in PEM form.
struct Certificate {
  std::string pem, key;
};

// An authority of its own. EC keys on P-256; valid from an hour ago for a day.
Certificate MakeAuthority(const std::string& name);
// For the host "localhost" and 127.0.0.1, signed by the authority.
Certificate MakeCertificate(const std::string& name, const Certificate& authority);

}  // namespace ckn::testing
