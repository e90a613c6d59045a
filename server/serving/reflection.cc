#include "server/serving/reflection.h"

#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ckn/v1/inference.grpc.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "inference/open_inference.grpc.pb.h"
#include "server/base/quote.h"
#include "server/serving/ordered_stream.h"
#include "server/serving/wire_message.h"

namespace ckn {
namespace {

namespace v1alpha = grpc::reflection::v1alpha;
using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1::ServerReflection;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

// Requests hold a name or two.
constexpr std::size_t kMaxRequestBytes = 4096;
constexpr ParseLimits kParseLimits{.max_elements = 16, .max_bytes = 8 * kMaxRequestBytes};

void SetError(absl::StatusCode code, const std::string& message, ServerReflectionResponse* response) {
  response->mutable_error_response()->set_error_code(static_cast<int>(code));
  response->mutable_error_response()->set_error_message(message);
}

void NotFound(const char* what, const std::string& name, ServerReflectionResponse* response) {
  SetError(absl::StatusCode::kNotFound, absl::StrCat(what, " ", Quote(name), ": not known"), response);
}

// The file, then what it imports, each once.
void AddFiles(const FileDescriptor* file, std::set<const FileDescriptor*>& seen, ServerReflectionResponse* response) {
  if (!seen.insert(file).second) return;
  google::protobuf::FileDescriptorProto proto;
  file->CopyTo(&proto);
  response->mutable_file_descriptor_response()->add_file_descriptor_proto(proto.SerializeAsString());
  for (int i = 0; i < file->dependency_count(); ++i) AddFiles(file->dependency(i), seen, response);
}

void TellFile(const char* what, const std::string& name, const FileDescriptor* file,
              ServerReflectionResponse* response) {
  if (file == nullptr) return NotFound(what, name, response);
  std::set<const FileDescriptor*> seen;
  AddFiles(file, seen, response);
}

// The bytes of a request to those of its answer.
grpc::ByteBuffer Answer(grpc::ByteBuffer* bytes, const std::vector<std::string>& services) {
  ServerReflectionRequest request;
  ServerReflectionResponse response;
  const absl::Status parsed = bytes->Length() > kMaxRequestBytes
                                  ? absl::InvalidArgumentError(absl::StrCat(
                                        "got ", bytes->Length(), " bytes, expected at most ", kMaxRequestBytes))
                                  : ParseMessage(bytes, kParseLimits, &request);
  if (parsed.ok()) {
    response = Reflect(request, services);
  } else {
    SetError(parsed.code(), std::string(parsed.message()), &response);
  }
  grpc::ByteBuffer reply;
  (void)SerializeMessage(response, &reply);  // it is far below 2 GiB
  return reply;
}

}  // namespace

ServerReflectionResponse Reflect(const ServerReflectionRequest& request, const std::vector<std::string>& services) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kListServices:
      for (const std::string& name : services) response.mutable_list_services_response()->add_service()->set_name(name);
      break;
    case ServerReflectionRequest::kFileByFilename:
      TellFile("file", request.file_by_filename(), pool.FindFileByName(request.file_by_filename()), &response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol: {
      // Names of types in descriptors begin with a dot, and some tools pass them on.
      std::string name = request.file_containing_symbol();
      if (!name.empty() && name.front() == '.') name.erase(0, 1);
      TellFile("symbol", name, pool.FindFileContainingSymbol(name), &response);
      break;
    }
    case ServerReflectionRequest::kAllExtensionNumbersOfType: {
      const std::string& type = request.all_extension_numbers_of_type();
      if (pool.FindMessageTypeByName(type) == nullptr) {
        NotFound("message", type, &response);
      } else {
        // No message of this server's can be extended.
        response.mutable_all_extension_numbers_response()->set_base_type_name(type);
      }
      break;
    }
    case ServerReflectionRequest::kFileContainingExtension:
      NotFound("extension of", request.file_containing_extension().containing_type(), &response);
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      SetError(absl::StatusCode::kInvalidArgument, "message_request: not set", &response);
      break;
  }
  return response;
}

void AddReflectionServices(RpcServer& server) {
  // The older name is there for those who ask for it, and need not be found.
  const std::vector<std::string> names = {v1::Inference::service_full_name(),
                                          inference::GRPCInferenceService::service_full_name(),
                                          ServerReflection::service_full_name()};
  // The two differ in nothing but their names.
  for (const char* const service :
       {ServerReflection::service_full_name(), v1alpha::ServerReflection::service_full_name()}) {
    server.Add(absl::StrCat("/", service, "/ServerReflectionInfo"), [names](const std::shared_ptr<GrpcCall>& call) {
      OrderedStream::Serve(call, kMaxRequestBytes,
                           [names](const CallContext& /*call*/, grpc::ByteBuffer* request,
                                   const OrderedStream::Done& done) { done(Answer(request, names)); });
    });
  }
}

}  // namespace ckn
