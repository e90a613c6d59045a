#include "server/serving/grpc_services.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ckn/v1/inference.grpc.pb.h"
#include "inference/open_inference.grpc.pb.h"
#include "server/base/status.h"
#include "server/serving/ordered_stream.h"
#include "server/serving/unary_call.h"
#include "server/serving/wire_message.h"

namespace ckn {
namespace {

using Bytes = grpc::ByteBuffer;
using Done = InferenceCore::Done;

// Room for each image's messages and strings, and some for what goes with a call.
ParseLimits LimitsOf(const InferenceLimits& limits) {
  return {.max_elements = 8 * std::int64_t{limits.max_images} + 1024,
          .max_bytes = 8 * limits.max_message_bytes + (std::int64_t{1} << 20)};
}

template <typename Request, typename Response>
struct Messages {
  Request request;
  Response response;
};

// Adds the methods of one service to a server.
template <typename Api>
class Service {
 public:
  // What an API does with a call.
  template <typename Request, typename Response>
  using Start = void (Api::*)(const CallContext&, const Request&, Response*, Done);

  Service(const char* name, Api& api, InferenceCore& core, RpcServer& server)
      : name_(name), api_(api), core_(core), parse_(LimitsOf(core.limits())), server_(server) {}

  template <typename Request, typename Response>
  void Unary(const char* name, Method method, Start<Request, Response> start) const {
    server_.Add(Path(name), [=, &api = api_, &core = core_, parse = parse_](const auto& call) {
      ReadUnless(CheckCaller(*call), call, method, parse, start, api, core);
    });
  }

  // Of a call with images, which a full queue refuses, too.
  template <typename Request, typename Response>
  void Inference(const char* name, Method method, Start<Request, Response> start) const {
    server_.Add(Path(name), [=, &api = api_, &core = core_, parse = parse_](const auto& call) {
      absl::Status refused = CheckCaller(*call);
      refused.Update(core.CheckRoom());
      ReadUnless(refused, call, method, parse, start, api, core);
    });
  }

  template <typename Request, typename Response>
  void Stream(const char* name, Method method, Start<Request, Response> start) const {
    server_.Add(Path(name), [method, start, &api = api_, &core = core_, parse = parse_](const auto& stream) {
      const auto answer = [=, &api, &core](const CallContext& call, Bytes* bytes, OrderedStream::Done done) {
        const auto messages = std::make_shared<Messages<Request, Response>>();
        Begin(method, call, bytes, parse, *messages, start, api, core,
              [messages, done = std::move(done)](const absl::Status& status) {
                if (!status.ok()) SetError(status, &messages->response);
                Bytes reply;
                if (const absl::Status failed = SerializeMessage(messages->response, &reply); !failed.ok()) {
                  messages->response.Clear();
                  SetError(failed, &messages->response);
                  (void)SerializeMessage(messages->response, &reply);
                }
                done(reply);
              });
      };
      OrderedStream::Serve(stream, static_cast<std::size_t>(core.limits().max_message_bytes), answer);
    });
  }

  // What everyone may ask and is known at once: `tell` fills the response.
  template <typename Request, typename Response, typename Tell>
  void Open(const char* name, Tell tell) const {
    server_.Add(Path(name), [tell, parse = parse_](const auto& call) {
      ReadRequest(call, [call, tell, parse](Bytes* bytes) {
        Request request;
        Response response;
        const absl::Status parsed = ParseMessage(bytes, parse, &request);
        if (parsed.ok()) tell(request, &response);
        Reply(*call, parsed, response);
      });
    });
  }

 private:
  [[nodiscard]] std::string Path(const char* method) const { return absl::StrCat("/", name_, "/", method); }

  // A call that would be refused then is refused before its request is read: under overload that is most of what there
  // is to do, and who may not call must not be able to send much, or little that gRPC unpacks to much.
  template <typename Request, typename Response>
  static void ReadUnless(const absl::Status& refused, const std::shared_ptr<GrpcCall>& call, Method method,
                         const ParseLimits& parse, Start<Request, Response> start, Api& api, InferenceCore& core) {
    if (!refused.ok()) {
      const auto response = std::make_shared<Response>();
      return core.Answer(
          method, *call, response.get(), [&refused] { return refused; },
          [call, response](const absl::Status& status) { Reply(*call, status, *response); });
    }
    ReadRequest(call, [=, &api, &core](Bytes* bytes) {
      const auto messages = std::make_shared<Messages<Request, Response>>();
      Begin(method, *call, bytes, parse, *messages, start, api, core,
            [call, messages](const absl::Status& status) { Reply(*call, status, messages->response); });
    });
  }

  // Parses a request, whose caller may call, and hands it on.
  template <typename Request, typename Response>
  static void Begin(Method method, const CallContext& call, Bytes* bytes, const ParseLimits& parse,
                    Messages<Request, Response>& messages, Start<Request, Response> start, Api& api,
                    InferenceCore& core, Done done) {
    const absl::Status parsed = ParseMessage(bytes, parse, &messages.request);
    if (parsed.ok()) return (api.*start)(call, messages.request, &messages.response, std::move(done));
    core.Answer(
        method, call, &messages.response, [&parsed] { return absl::Status(parsed); }, std::move(done));
  }

  const char* const name_;
  Api& api_;
  InferenceCore& core_;
  const ParseLimits parse_;
  RpcServer& server_;
};

}  // namespace

void AddNativeService(NativeApi& api, InferenceCore& core, RpcServer& server) {
  const Service<NativeApi> service(v1::Inference::service_full_name(), api, core, server);
  service.Inference<v1::ClassifyRequest, v1::ClassifyResponse>("Classify", Method::kClassify, &NativeApi::Classify);
  service.Inference<v1::EncodeRequest, v1::EncodeResponse>("Encode", Method::kEncode, &NativeApi::Encode);
  service.Stream("ClassifyStream", Method::kClassifyStream, &NativeApi::ClassifyStream);
  service.Stream("EncodeStream", Method::kEncodeStream, &NativeApi::EncodeStream);
  service.Unary("GetModel", Method::kGetModel, &NativeApi::GetModel);
  service.Unary("ListModels", Method::kListModels, &NativeApi::ListModels);
}

void AddOpenInferenceService(OpenInference& api, InferenceCore& core, RpcServer& server) {
  const Service<OpenInference> service(inference::GRPCInferenceService::service_full_name(), api, core, server);
  service.Open<inference::ServerLiveRequest, inference::ServerLiveResponse>(
      "ServerLive", [](const auto&, auto* response) { response->set_live(true); });
  service.Open<inference::ServerReadyRequest, inference::ServerReadyResponse>(
      "ServerReady", [&api](const auto&, auto* response) { response->set_ready(api.ServerReady()); });
  service.Open<inference::ModelReadyRequest, inference::ModelReadyResponse>(
      "ModelReady", [&api](const auto& model, auto* response) { response->set_ready(api.ModelReady(model)); });
  service.Open<inference::ServerMetadataRequest, inference::ServerMetadataResponse>(
      "ServerMetadata", [&api](const auto&, auto* response) { api.ServerMetadata(response); });
  service.Unary("ModelMetadata", Method::kModelMetadata, &OpenInference::ModelMetadata);
  service.Inference("ModelInfer", Method::kModelInfer, &OpenInference::ModelInfer);
  service.Stream("ModelStreamInfer", Method::kModelStreamInfer, &OpenInference::ModelStreamInfer);
  service.Unary("ModelConfig", Method::kModelConfig, &OpenInference::ModelConfig);
  service.Unary("RepositoryIndex", Method::kRepositoryIndex, &OpenInference::RepositoryIndex);
  service.Unary("RepositoryModelLoad", Method::kRepositoryModelLoad, &OpenInference::RepositoryModelLoad);
  service.Unary("RepositoryModelUnload", Method::kRepositoryModelUnload, &OpenInference::RepositoryModelUnload);
}

}  // namespace ckn
