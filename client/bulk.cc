#include "client/bulk.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/image_files.h"

namespace ckn {
namespace {

// Room in a message for the model's name and the fields around the images.
constexpr std::int64_t kMessageOverhead = 4096;
constexpr std::int64_t kImageOverhead = 16;

// With one image in a call, that image's status is the status of the call; these are the codes that an image can have.
bool MayBeTheImages(absl::StatusCode code) {
  return code == absl::StatusCode::kInvalidArgument || code == absl::StatusCode::kInternal;
}

// The server names an image by its index in the call; the user knows the file.
absl::Status ForFile(const absl::Status& status, std::size_t index) {
  absl::string_view message = status.message();
  absl::ConsumePrefix(&message, absl::StrCat("image ", index, ": "));
  return {status.code(), message};
}

// `call` makes the RPC of a request.
template <typename Result, typename Request, typename CallFunction>
BulkResult<Result> Run(const std::vector<std::string>& files, const BulkOptions& options, const Request& empty_request,
                       const CallFunction& call) {
  BulkResult<Result> bulk;
  for (const std::string& file : files) bulk.files.push_back({.file = file, .status = {}, .result = {}});

  absl::Status fatal;
  Request request = empty_request;
  std::int64_t request_bytes = kMessageOverhead;
  std::vector<std::size_t> members;  // indices into bulk.files of the request's images

  const auto send = [&] {
    if (members.empty()) return;
    auto response = call(request);
    if (!response.ok()) {
      for (const std::size_t member : members) bulk.files[member].status = ForFile(response.status(), 0);
      if (members.size() > 1 || !MayBeTheImages(response.status().code())) fatal = response.status();
    } else if (static_cast<std::size_t>(response->results_size()) != members.size()) {
      fatal = absl::InternalError(
          absl::StrCat("the server answered ", response->results_size(), " of ", members.size(), " images"));
      for (const std::size_t member : members) bulk.files[member].status = fatal;
    } else {
      bulk.model = response->model();
      bulk.version = response->version();
      for (std::size_t i = 0; i < members.size(); ++i) {
        FileResult<Result>& file = bulk.files[members[i]];
        file.result = std::move(*response->mutable_results(static_cast<int>(i)));
        file.status = ForFile(StatusOf(file.result.status()), i);
      }
    }
    request = empty_request;
    request_bytes = kMessageOverhead;
    members.clear();
  };

  for (std::size_t i = 0; i < bulk.files.size(); ++i) {
    if (!fatal.ok()) {
      bulk.files[i].status = fatal;
      continue;
    }
    absl::StatusOr<std::string> bytes =
        ReadFileBytes(bulk.files[i].file, options.max_message_bytes - kMessageOverhead - kImageOverhead);
    if (!bytes.ok()) {
      bulk.files[i].status = bytes.status();
      continue;
    }
    const std::int64_t image_bytes = static_cast<std::int64_t>(bytes->size()) + kImageOverhead;
    if (request_bytes + image_bytes > options.max_message_bytes) {
      send();
      if (!fatal.ok()) {
        bulk.files[i].status = fatal;
        continue;
      }
    }
    request.add_images()->set_encoded(*std::move(bytes));
    request_bytes += image_bytes;
    members.push_back(i);
    if (members.size() >= static_cast<std::size_t>(options.batch)) send();
  }
  send();
  bulk.call = fatal;
  return bulk;
}

}  // namespace

BulkResult<v1::Classification> ClassifyFiles(const Client& client, const std::vector<std::string>& files,
                                             const BulkOptions& options) {
  v1::ClassifyRequest request;
  request.set_model(options.model);
  request.set_version(options.version);
  request.set_top_k(options.top_k);
  return Run<v1::Classification>(files, options, request,
                                 [&](const v1::ClassifyRequest& full) { return client.Classify(full); });
}

BulkResult<v1::Features> EncodeFiles(const Client& client, const std::vector<std::string>& files,
                                     const BulkOptions& options) {
  v1::EncodeRequest request;
  request.set_model(options.model);
  request.set_version(options.version);
  return Run<v1::Features>(files, options, request, [&](const v1::EncodeRequest& full) { return client.Encode(full); });
}

}  // namespace ckn
