#include "server/serving/reflection.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace ckn {
namespace {

using ::grpc::reflection::v1::ServerReflectionRequest;
using ::grpc::reflection::v1::ServerReflectionResponse;
using ::testing::HasSubstr;

ServerReflectionResponse Symbol(const std::string& name) {
  ServerReflectionRequest request;
  request.set_file_containing_symbol(name);
  return Reflect(request, {});
}

TEST(ReflectionTest, AToolCanRebuildTheServicesFromWhatIsTold) {
  for (const char* const service : {"ckn.v1.Inference", "inference.GRPCInferenceService", ".ckn.v1.Inference.Classify",
                                    "grpc.reflection.v1.ServerReflection"}) {
    const ServerReflectionResponse response = Symbol(service);
    const auto& files = response.file_descriptor_response().file_descriptor_proto();
    ASSERT_GT(files.size(), 0) << service;
    google::protobuf::DescriptorPool pool;
    // Imports come later in the answer, and have to be built first.
    for (int i = files.size() - 1; i >= 0; --i) {
      google::protobuf::FileDescriptorProto proto;
      ASSERT_TRUE(proto.ParseFromString(files[i]));
      ASSERT_NE(pool.BuildFile(proto), nullptr) << proto.name();
    }
    const std::string name = service[0] == '.' ? service + 1 : service;
    EXPECT_NE(pool.FindFileContainingSymbol(name), nullptr);
  }
}

TEST(ReflectionTest, EveryKindOfQuestionHasAnAnswer) {
  ServerReflectionRequest request;
  request.set_host("h");
  request.set_list_services("*");
  ServerReflectionResponse response = Reflect(request, {"a.B", "c.D"});
  ASSERT_EQ(response.list_services_response().service_size(), 2);
  EXPECT_EQ(response.list_services_response().service(1).name(), "c.D");
  EXPECT_EQ(response.valid_host(), "h");
  EXPECT_EQ(response.original_request().list_services(), "*");

  request.set_file_by_filename("ckn/v1/inference.proto");
  EXPECT_EQ(Reflect(request, {}).file_descriptor_response().file_descriptor_proto_size(), 1);
  request.set_all_extension_numbers_of_type("ckn.v1.Image");
  EXPECT_EQ(Reflect(request, {}).all_extension_numbers_response().base_type_name(), "ckn.v1.Image");

  constexpr int kNotFound = 5;
  EXPECT_EQ(Symbol("no.Such").error_response().error_code(), kNotFound);
  EXPECT_THAT(Symbol("no.Such").error_response().error_message(), HasSubstr("\"no.Such\""));
  EXPECT_EQ(Symbol("").error_response().error_code(), kNotFound);
  request.set_file_by_filename("../secret");
  EXPECT_EQ(Reflect(request, {}).error_response().error_code(), kNotFound);
  request.set_all_extension_numbers_of_type("no.Such");
  EXPECT_EQ(Reflect(request, {}).error_response().error_code(), kNotFound);
  request.mutable_file_containing_extension()->set_containing_type("ckn.v1.Image");
  EXPECT_EQ(Reflect(request, {}).error_response().error_code(), kNotFound);
  EXPECT_EQ(Reflect({}, {}).error_response().error_code(), 3);
}

template <typename Stub>
std::vector<std::string> ServicesOver(const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = Stub::NewStub(channel);
  grpc::ClientContext context;
  const auto stream = stub->ServerReflectionInfo(&context);
  ServerReflectionRequest request;
  request.set_list_services("");
  ServerReflectionResponse response;
  EXPECT_TRUE(stream->Write(request));
  EXPECT_TRUE(stream->Read(&response));
  // A request that is too long is an answer, too.
  request.set_file_by_filename(std::string(10000, 'x'));
  ServerReflectionResponse refused;
  EXPECT_TRUE(stream->Write(request));
  EXPECT_TRUE(stream->Read(&refused));
  EXPECT_EQ(refused.error_response().error_code(), 3);
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_TRUE(stream->Finish().ok());
  std::vector<std::string> names;
  for (const auto& service : response.list_services_response().service()) names.push_back(service.name());
  return names;
}

TEST(ReflectionTest, BothVersionsAnswerOverTheWire) {
  RpcServer server;
  AddReflectionServices(server);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  ASSERT_TRUE(server.Start(builder));
  const auto channel = grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials());
  const std::vector<std::string> names = ServicesOver<grpc::reflection::v1::ServerReflection>(channel);
  EXPECT_THAT(names, ::testing::Contains("ckn.v1.Inference"));
  EXPECT_EQ(ServicesOver<grpc::reflection::v1alpha::ServerReflection>(channel), names);
}

}  // namespace
}  // namespace ckn
