// Who may talk to the server: TLS, client certificates, tokens.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "inference/open_inference.grpc.pb.h"
#include "server/serving/server.h"
#include "tests/testing/captured_log.h"
#include "tests/testing/certificates.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/tiny_model.h"

namespace ckn {
namespace {

using ::ckn::testing::CapturedLog;
using ::ckn::testing::Certificate;
using ::ckn::testing::MakeAuthority;
using ::ckn::testing::MakeCertificate;
using ::ckn::testing::TempDir;
using ::ckn::testing::TinyModel;
using ::testing::HasSubstr;

constexpr const char* kToken = "a-token-that-is-long-enough";
constexpr const char* kManagerToken = "another-token-for-managers";

class SecurityTest : public ::testing::Test {
 protected:
  SecurityTest() {
    EXPECT_TRUE(WriteModelFile(TinyModel(), folder_.File("tiny.ckn")).ok());
    options_.models_folder = folder_.path();
    options_.listen = {.host = "127.0.0.1", .port = 0};
    options_.version = "test";
  }

  void UseTls(bool clients_too) {
    WriteServerCertificate();
    options_.tls =
        TlsFiles{.certificate = folder_.File("server.pem"), .key = folder_.File("server.key"), .client_ca = {}};
    if (clients_too) options_.tls->client_ca = folder_.Write("clients.pem", client_authority_.pem);
  }
  Certificate WriteServerCertificate() {
    Certificate certificate = MakeCertificate("server", authority_);
    folder_.Write("server.pem", certificate.pem);
    folder_.Write("server.key", certificate.key);
    return certificate;
  }

  void Start() {
    auto server = Server::Start(options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    // Not "localhost": Debian's resolver for names leaks.
    address_ = absl::StrCat("127.0.0.1:", server_->grpc_port());
  }
  std::string ErrorOfStart() {
    const auto server = Server::Start(options_);
    EXPECT_FALSE(server.ok());
    return std::string(server.status().message());
  }

  [[nodiscard]] absl::StatusCode Call(const std::optional<ClientTls>& tls, const std::string& token = {}) const {
    ClientOptions options;
    options.timeout = absl::Seconds(20);
    options.tls = tls;
    options.token = token;
    return Client(address_, options).ListModels().status().code();
  }

  const Certificate authority_ = MakeAuthority("authority");
  const Certificate client_authority_ = MakeAuthority("authority of clients");
  TempDir folder_;
  ServerOptions options_;
  std::unique_ptr<Server> server_;
  std::string address_;
};

TEST_F(SecurityTest, TlsIsForClientsThatTrustTheAuthority) {
  UseTls(false);
  ASSERT_NO_FATAL_FAILURE(Start());
  EXPECT_EQ(Call(ClientTls{.server_ca = authority_.pem}), absl::StatusCode::kOk);
  EXPECT_EQ(Call(ClientTls{.server_ca = client_authority_.pem}), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Call(std::nullopt), absl::StatusCode::kUnavailable) << "no clear text";
}

TEST_F(SecurityTest, ClientsWithoutACertificateAreKeptOut) {
  UseTls(true);
  ASSERT_NO_FATAL_FAILURE(Start());
  const Certificate good = MakeCertificate("client", client_authority_);
  const Certificate stranger = MakeCertificate("stranger", authority_);
  const auto shown = [&](const Certificate& certificate) {
    return ClientTls{.server_ca = authority_.pem, .certificate = certificate.pem, .key = certificate.key};
  };
  EXPECT_EQ(Call(shown(good)), absl::StatusCode::kOk);
  EXPECT_EQ(Call(shown(stranger)), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Call(ClientTls{.server_ca = authority_.pem}), absl::StatusCode::kUnavailable);
}

TEST_F(SecurityTest, ARenewedCertificateNeedsNoRestart) {
  UseTls(false);
  const Certificate renewed_authority = MakeAuthority("renewed");
  ASSERT_NO_FATAL_FAILURE(Start());
  ASSERT_EQ(Call(ClientTls{.server_ca = authority_.pem}), absl::StatusCode::kOk);
  const Certificate renewed = MakeCertificate("server", renewed_authority);
  folder_.Write("server.pem", renewed.pem);
  folder_.Write("server.key", renewed.key);
  absl::StatusCode code = absl::StatusCode::kUnknown;
  for (int i = 0; i < 300 && code != absl::StatusCode::kOk; ++i) {
    absl::SleepFor(absl::Milliseconds(100));
    code = Call(ClientTls{.server_ca = renewed_authority.pem});
  }
  EXPECT_EQ(code, absl::StatusCode::kOk);
}

// Half of a renewal, rubbish, and files that are gone: the certificates that were there stay.
TEST_F(SecurityTest, UnusableTlsFilesChangeNothingLater) {
  CapturedLog log;
  UseTls(true);
  const Certificate first = WriteServerCertificate();
  ASSERT_NO_FATAL_FAILURE(Start());
  const Certificate client = MakeCertificate("client", client_authority_);
  const auto call = [&] {
    return Call(ClientTls{.server_ca = authority_.pem, .certificate = client.pem, .key = client.key});
  };
  ASSERT_EQ(call(), absl::StatusCode::kOk);
  std::string lines;
  const auto expect_named = [&](const std::string& error) {
    lines.clear();
    for (int i = 0; i < 300 && lines.find(error) == std::string::npos; ++i) {
      ASSERT_EQ(call(), absl::StatusCode::kOk) << error;
      absl::SleepFor(absl::Milliseconds(100));
      lines += log.Take();
    }
    EXPECT_THAT(lines, HasSubstr(error));
    EXPECT_EQ(call(), absl::StatusCode::kOk) << error;
  };
  const Certificate renewed = MakeCertificate("server", authority_);
  folder_.Write("server.pem", renewed.pem);
  expect_named("server.key: no private key in PEM form for this certificate");
  folder_.Write("server.pem", "rubbish");
  expect_named("server.pem: no certificate in PEM form");
  folder_.Write("server.pem", renewed.pem + "-----BEGIN CERTIFICATE-----\nbroken\n-----END CERTIFICATE-----\n");
  expect_named("server.pem: no certificate in PEM form");
  std::filesystem::remove(folder_.File("server.pem"));
  expect_named("server.pem: cannot open");
  folder_.Write("server.pem", first.pem);
  expect_named("server.pem and what belongs to it was read again");
  folder_.Write("clients.pem", "");
  expect_named("clients.pem: no certificates in PEM form");
  EXPECT_THAT(lines, HasSubstr("; the certificates that were there stay"));
  server_.reset();
}

TEST_F(SecurityTest, UnusableTlsFilesAreNamedAtTheStart) {
  UseTls(true);
  folder_.Write("server.key", MakeCertificate("other", authority_).key);
  EXPECT_THAT(ErrorOfStart(), HasSubstr("server.key: no private key in PEM form for this certificate"));
  WriteServerCertificate();
  folder_.Write("clients.pem", "nothing");
  EXPECT_THAT(ErrorOfStart(), HasSubstr("clients.pem: no certificates in PEM form"));
  folder_.Write("server.pem", "nothing");
  EXPECT_THAT(ErrorOfStart(), HasSubstr("server.pem: no certificate in PEM form"));
  options_.tls->certificate = folder_.File("nowhere.pem");
  EXPECT_THAT(ErrorOfStart(), HasSubstr("nowhere.pem: cannot open: No such file"));
}

TEST_F(SecurityTest, CallsNeedAToken) {
  options_.token_file = folder_.Write("tokens", absl::StrCat("# of the gateway\n", kToken, "\n"));
  ASSERT_NO_FATAL_FAILURE(Start());
  EXPECT_EQ(Call(std::nullopt, kToken), absl::StatusCode::kOk);
  EXPECT_EQ(Call(std::nullopt), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(Call(std::nullopt, "a-token-that-is-long-enougH"), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(Call(std::nullopt, "# of the gateway"), absl::StatusCode::kUnauthenticated);

  // The same for the other protocol, and for streams; not for readiness.
  const auto stub =
      inference::GRPCInferenceService::NewStub(grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
  grpc::ClientContext ready_context, metadata_context, stream_context;
  inference::ServerReadyResponse ready;
  EXPECT_TRUE(stub->ServerReady(&ready_context, {}, &ready).ok());
  inference::ModelMetadataResponse metadata;
  EXPECT_EQ(stub->ModelMetadata(&metadata_context, {}, &metadata).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  const auto stream = stub->ModelStreamInfer(&stream_context);
  inference::ModelStreamInferResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(SecurityTest, ANewTokenNeedsNoRestart) {
  options_.token_file = folder_.Write("tokens", kToken);
  ASSERT_NO_FATAL_FAILURE(Start());
  ASSERT_EQ(Call(std::nullopt, kToken), absl::StatusCode::kOk);
  const std::string renewed = "a-token-of-the-next-month";
  folder_.Write("tokens", renewed);
  absl::StatusCode code = absl::StatusCode::kUnknown;
  for (int i = 0; i < 300 && code != absl::StatusCode::kOk; ++i) {
    absl::SleepFor(absl::Milliseconds(50));
    code = Call(std::nullopt, renewed);
  }
  EXPECT_EQ(code, absl::StatusCode::kOk);
  EXPECT_EQ(Call(std::nullopt, kToken), absl::StatusCode::kUnauthenticated);
}

TEST_F(SecurityTest, OnlyManagersManage) {
  options_.model_control = true;
  options_.token_file = folder_.Write("tokens", kToken);
  options_.manager_token_file = folder_.Write("managers", kManagerToken);
  ASSERT_NO_FATAL_FAILURE(Start());
  const auto stub =
      inference::GRPCInferenceService::NewStub(grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
  const auto load = [&](const std::string& token) {
    grpc::ClientContext context;
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    inference::RepositoryModelLoadRequest request;
    request.set_model_name("tiny");
    inference::RepositoryModelLoadResponse response;
    return stub->RepositoryModelLoad(&context, request, &response).error_code();
  };
  EXPECT_EQ(load({}), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(load(kToken), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(load(kManagerToken), grpc::StatusCode::OK);
  EXPECT_EQ(Call(std::nullopt, kManagerToken), absl::StatusCode::kOk) << "managers may call, too";
}

TEST_F(SecurityTest, UnusableTokenFilesAreNamedAtTheStartWithoutTheirContents) {
  options_.token_file = folder_.Write("tokens", "# nothing\n");
  EXPECT_THAT(ErrorOfStart(), HasSubstr("tokens: got no token, expected one a line"));
  folder_.Write("tokens", "short");
  EXPECT_THAT(ErrorOfStart(), ::testing::AllOf(HasSubstr("line 1: got a token of 5 bytes, expected at least 16"),
                                               ::testing::Not(HasSubstr("short"))));
  folder_.Write("tokens", "this is one with blanks");
  EXPECT_THAT(ErrorOfStart(), HasSubstr("and no blanks"));
  options_.token_file = folder_.File("nowhere");
  EXPECT_THAT(ErrorOfStart(), HasSubstr("No such file"));
}

}  // namespace
}  // namespace ckn
