#include "server/serving/grpc_services.h"

#include <memory>
#include <utility>

#include "server/base/status.h"
#include "server/serving/ordered_stream.h"
#include "server/serving/status_to_grpc.h"

namespace ckn {
namespace {

using Unary = grpc::ServerUnaryReactor;
using Context = grpc::CallbackServerContext;
using Bytes = grpc::ByteBuffer;
using Done = InferenceCore::Done;

// When a full queue is worth another try.
constexpr const char* kRetryAfterMs = "100";

// What an API does with a call.
template <typename Api, typename Request, typename Response>
using Start = void (Api::*)(const CallContext&, const Request&, Response*, Done);

template <typename Request, typename Response>
struct Messages {
  Request request;
  Response response;
};

// gRPC hands a request's bytes over as const but has no more use for them; left alone, they would lie in memory beside
// the parsed request until the call has ended.
Bytes* Owned(const Bytes* request) {
  return const_cast<Bytes*>(request);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

// Parses a request, unless its caller may not call: then the core says so.
template <typename Request>
absl::Status Parse(const CallRules& rules, const CallContext& call, Bytes* bytes, Request* request) {
  return call.MayCall() ? ParseMessage(bytes, rules.parse, request) : absl::OkStatus();
}

template <typename Api, typename Request, typename Response>
Unary* Serve(const CallRules& rules, Method method, Context* context, const Bytes* bytes, Bytes* reply, Api& api,
             Start<Api, Request, Response> start) {
  Unary* const reactor = context->DefaultReactor();
  const auto call = std::make_shared<GrpcCall>(*context, rules.access);
  const auto messages = std::make_shared<Messages<Request, Response>>();
  // Finish() is what ends the life of context and reply.
  Done done = [call, messages, reactor, context, reply](const absl::Status& status) {
    absl::Status result = status;
    if (result.ok()) result = SerializeMessage(messages->response, reply);
    // Understood by gRPC's own retries, where the client has them.
    if (absl::IsResourceExhausted(result)) context->AddTrailingMetadata("grpc-retry-pushback-ms", kRetryAfterMs);
    reactor->Finish(StatusToGrpc(result));
  };
  const absl::Status parsed = Parse(rules, *call, Owned(bytes), &messages->request);
  if (parsed.ok()) {
    (api.*start)(*call, messages->request, &messages->response, std::move(done));
  } else {
    rules.core.Answer(
        method, *call, &messages->response, [&parsed] { return absl::Status(parsed); }, std::move(done));
  }
  return reactor;
}

template <typename Api, typename Request, typename Response>
OrderedStream* ServeStream(const CallRules& rules, Method method, Context* context, Api& api,
                           Start<Api, Request, Response> start) {
  const auto answer = [&rules, method, &api, start](const CallContext& call, Bytes* bytes, OrderedStream::Done done) {
    const auto messages = std::make_shared<Messages<Request, Response>>();
    const auto finish = [messages, done = std::move(done)](const absl::Status& failed) {
      if (!failed.ok()) SetError(failed, &messages->response);
      Bytes reply;
      if (const absl::Status status = SerializeMessage(messages->response, &reply); !status.ok()) {
        messages->response.Clear();
        SetError(status, &messages->response);
        (void)SerializeMessage(messages->response, &reply);
      }
      done(reply);
    };
    const absl::Status parsed = Parse(rules, call, bytes, &messages->request);
    if (parsed.ok()) {
      (api.*start)(call, messages->request, &messages->response, finish);
    } else {
      rules.core.Answer(
          method, call, &messages->response, [&parsed] { return absl::Status(parsed); }, finish);
    }
  };
  const auto max_message_bytes = static_cast<std::size_t>(rules.core.limits().max_message_bytes);
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): deletes itself
  return new OrderedStream(*context, rules.access, max_message_bytes, answer);
}

// What everyone may ask and is known at once.
Unary* Tell(Context* context, const absl::Status& status, const google::protobuf::Message& response, Bytes* reply) {
  Unary* const reactor = context->DefaultReactor();
  reactor->Finish(StatusToGrpc(status.ok() ? SerializeMessage(response, reply) : status));
  return reactor;
}

// Room for each image's messages and strings, and some for what goes with a call.
ParseLimits LimitsOf(const InferenceLimits& limits) {
  return {.max_elements = 8 * std::int64_t{limits.max_images} + 1024,
          .max_bytes = 8 * limits.max_message_bytes + (std::int64_t{1} << 20)};
}

}  // namespace

CallRules::CallRules(InferenceCore& the_core, const CallerAccess& the_access)
    : core(the_core), access(the_access), parse(LimitsOf(the_core.limits())) {}

Unary* NativeService::Classify(Context* context, const Bytes* request, Bytes* response) {
  return Serve(rules_, Method::kClassify, context, request, response, api_, &NativeApi::Classify);
}

Unary* NativeService::Encode(Context* context, const Bytes* request, Bytes* response) {
  return Serve(rules_, Method::kEncode, context, request, response, api_, &NativeApi::Encode);
}

NativeService::Stream* NativeService::ClassifyStream(Context* context) {
  return ServeStream(rules_, Method::kClassifyStream, context, api_, &NativeApi::ClassifyStream);
}

NativeService::Stream* NativeService::EncodeStream(Context* context) {
  return ServeStream(rules_, Method::kEncodeStream, context, api_, &NativeApi::EncodeStream);
}

Unary* NativeService::GetModel(Context* context, const Bytes* request, Bytes* response) {
  return Serve(rules_, Method::kGetModel, context, request, response, api_, &NativeApi::GetModel);
}

Unary* NativeService::ListModels(Context* context, const Bytes* request, Bytes* response) {
  return Serve(rules_, Method::kListModels, context, request, response, api_, &NativeApi::ListModels);
}

Unary* OpenInferenceService::ServerLive(Context* context, const Bytes* /*request*/, Bytes* response) {
  inference::ServerLiveResponse live;
  live.set_live(true);
  return Tell(context, absl::OkStatus(), live, response);
}

Unary* OpenInferenceService::ServerReady(Context* context, const Bytes* /*request*/, Bytes* response) {
  inference::ServerReadyResponse ready;
  ready.set_ready(api_.ServerReady());
  return Tell(context, absl::OkStatus(), ready, response);
}

Unary* OpenInferenceService::ModelReady(Context* context, const Bytes* request, Bytes* response) {
  inference::ModelReadyRequest model;
  const absl::Status parsed = ParseMessage(Owned(request), rules_.parse, &model);
  inference::ModelReadyResponse ready;
  if (parsed.ok()) ready.set_ready(api_.ModelReady(model));
  return Tell(context, parsed, ready, response);
}

Unary* OpenInferenceService::ServerMetadata(Context* context, const Bytes* /*request*/, Bytes* response) {
  inference::ServerMetadataResponse metadata;
  api_.ServerMetadata(&metadata);
  return Tell(context, absl::OkStatus(), metadata, response);
}

Unary* OpenInferenceService::ModelMetadata(Context* context, const Bytes* request, Bytes* response) {
  return Serve(rules_, Method::kModelMetadata, context, request, response, api_, &OpenInference::ModelMetadata);
}

Unary* OpenInferenceService::ModelInfer(Context* context, const Bytes* request, Bytes* response) {
  return Serve(rules_, Method::kModelInfer, context, request, response, api_, &OpenInference::ModelInfer);
}

OpenInferenceService::Stream* OpenInferenceService::ModelStreamInfer(Context* context) {
  return ServeStream(rules_, Method::kModelStreamInfer, context, api_, &OpenInference::ModelStreamInfer);
}

Unary* OpenInferenceService::ModelConfig(Context* context, const Bytes* request, Bytes* response) {
  return Serve(rules_, Method::kModelConfig, context, request, response, api_, &OpenInference::ModelConfig);
}

Unary* OpenInferenceService::RepositoryIndex(Context* context, const Bytes* request, Bytes* response) {
  return Serve(rules_, Method::kRepositoryIndex, context, request, response, api_, &OpenInference::RepositoryIndex);
}

Unary* OpenInferenceService::RepositoryModelLoad(Context* context, const Bytes* request, Bytes* response) {
  return Serve(rules_, Method::kRepositoryModelLoad, context, request, response, api_,
               &OpenInference::RepositoryModelLoad);
}

Unary* OpenInferenceService::RepositoryModelUnload(Context* context, const Bytes* request, Bytes* response) {
  return Serve(rules_, Method::kRepositoryModelUnload, context, request, response, api_,
               &OpenInference::RepositoryModelUnload);
}

}  // namespace ckn
