#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace ckn {

struct BulkOptions {
  std::string model;         // empty: the server's only one
  std::string version = {};  // empty: the latest
  int batch = 32;            // images a call, at least 1
  int top_k = 1;             // classify only
  std::int64_t max_message_bytes = std::int64_t{64} << 20;
};

// What became of one file.
template <typename Result>
struct FileResult {
  std::string file;
  absl::Status status;  // of reading the file, of its image, or of its call
  Result result;        // when status is OK
};

template <typename Result>
struct BulkResult {
  // That answered last; empty when no call succeeded.
  std::string model;
  std::string version = {};
  std::vector<FileResult<Result>> files;  // in the order of the arguments
  absl::Status call = {};                 // why the work ended early: a call failed as a whole
};

// Sends the files in calls of up to `batch` images, fewer when they would not fit into a message. A file that cannot be
// read and an image that the server refuses have their own status and do not keep the others from being sent. After a
// call that failed as a whole, no further call is made: the remaining files get its status.
BulkResult<v1::Classification> ClassifyFiles(const Client& client, const std::vector<std::string>& files,
                                             const BulkOptions& options);
BulkResult<v1::Features> EncodeFiles(const Client& client, const std::vector<std::string>& files,
                                     const BulkOptions& options);

}  // namespace ckn
