// The subcommand export, run as the real program.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ckn/onnx/onnx.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/model_file.h"
#include "tests/e2e/process.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/tiny_model.h"

namespace ckn {
namespace {

using ::testing::AllOf;
using testing::Finished;
using ::testing::HasSubstr;
using testing::TempDir;

class ExportTest : public ::testing::Test {
 protected:
  ExportTest() : model_(dir_.File("tiny.ckn")), out_(dir_.File("tiny.onnx")) {
    EXPECT_TRUE(WriteModelFile(testing::TinyModel(), model_).ok());
  }

  static Finished Export(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {CKN_BINARY, "export"});
    return testing::RunProgram(arguments);
  }

  TempDir dir_;
  std::string model_;
  std::string out_;
};

TEST_F(ExportTest, WritesAModelThatNamesTheFileItComesFrom) {
  const Finished run = Export({model_, "--onnx", out_});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("image [N][1][8][8] -> features [N][36], scores [N][3]"));
  onnx::ModelProto proto;
  std::ifstream file(out_, std::ios::binary);
  ASSERT_TRUE(proto.ParseFromIstream(&file));
  EXPECT_NE(proto.producer_version(), "");
  const absl::StatusOr<LoadedModel> loaded = ReadModelFile(model_);
  ASSERT_TRUE(loaded.ok());
  bool found = false;
  for (const onnx::StringStringEntryProto& entry : proto.metadata_props()) {
    found = found || (entry.key() == "ckn_sha256" && entry.value() == loaded->sha256);
  }
  EXPECT_TRUE(found);
}

TEST_F(ExportTest, FailuresExitWith1AndWriteNothing) {
  const std::string text = dir_.Write("notes.ckn", "not a model, but longer than the header of one would have to be");
  Finished run = Export({text, "--onnx", out_});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("ckn export: "), HasSubstr("not a model file")));
  EXPECT_FALSE(std::filesystem::exists(out_));

  run = Export({model_, "--onnx", model_});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("would overwrite"));
  EXPECT_TRUE(ReadModelFile(model_).ok());

  run = Export({model_, "--onnx", dir_.File("no/such/folder/tiny.onnx")});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("no/such/folder"));
}

TEST_F(ExportTest, WrongUseExitsWith2AndHelpExplains) {
  EXPECT_EQ(Export({model_}).exit_code, 2);
  EXPECT_EQ(Export({"--onnx", out_}).exit_code, 2);
  const Finished help = Export({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("FILE"), HasSubstr("Example:"), HasSubstr("probabilities")));
}

}  // namespace
}  // namespace ckn
