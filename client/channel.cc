#include "client/channel.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace ckn {
namespace {

// ipv4:A:PORT,B:PORT: servers that the user knows, and not a proxy, behind which health is none of a client's business.
bool NamesSeveral(const std::string& server) { return server.find(',') != std::string::npos; }

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& server, const ClientOptions& options,
                                           grpc::ChannelArguments arguments) {
  const int bytes =
      static_cast<int>(std::min<std::int64_t>(options.max_message_bytes, std::numeric_limits<int>::max()));
  arguments.SetMaxReceiveMessageSize(bytes);
  arguments.SetMaxSendMessageSize(bytes);
  // gRPC's default sends everything to the first address of the name.
  arguments.SetLoadBalancingPolicyName("round_robin");
  if (options.follow_health || NamesSeveral(server))
    arguments.SetServiceConfigJSON(R"({"healthCheckConfig": {"serviceName": ""}})");
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (options.tls) {
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs = options.tls->server_ca;
    tls.pem_cert_chain = options.tls->certificate;
    tls.pem_private_key = options.tls->key;
    credentials = grpc::SslCredentials(tls);
    if (!options.tls->server_name.empty()) arguments.SetSslTargetNameOverride(options.tls->server_name);
  }
  return grpc::CreateCustomChannel(server, credentials, arguments);
}

void PrepareContext(const ClientOptions& options, grpc::ClientContext& context) {
  context.set_wait_for_ready(options.wait_for_ready);
  if (!options.token.empty()) context.AddMetadata("authorization", "Bearer " + options.token);
}

absl::Status StatusFromGrpc(const grpc::Status& status) {
  // The two enumerations carry the same numbers.
  return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
}

}  // namespace ckn
