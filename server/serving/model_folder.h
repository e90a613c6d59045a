#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

// Which model files a folder holds, without opening them.
//
// Two layouts, also side by side: NAME.ckn, any number of them, each of version 1; and NAME/VERSION/ANY.ckn, versions
// being whole numbers from 1 on, with one file in each. Whatever else lies there, and what begins with a dot, is not
// looked at.
namespace ckn {

// Tells whether a file has been changed or replaced.
struct FileIdentity {
  explicit FileIdentity(const struct stat& status)
      : device(status.st_dev),
        inode(status.st_ino),
        size(status.st_size),
        modified_seconds(status.st_mtim.tv_sec),
        modified_nanoseconds(status.st_mtim.tv_nsec),
        changed_seconds(status.st_ctim.tv_sec),
        changed_nanoseconds(status.st_ctim.tv_nsec) {}
  FileIdentity() = default;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;

  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  time_t modified_seconds = 0;
  long modified_nanoseconds = 0;
  // Of the permissions, too, and not under the control of programs that copy.
  time_t changed_seconds = 0;
  long changed_nanoseconds = 0;
};

// Of a file; that of one that is not there is FileIdentity().
FileIdentity IdentityOf(const std::string& path);

struct ModelFileEntry {
  std::string path;
  std::string folder_name;  // NAME of the second layout, which must be the model's; empty in the first one
  std::int64_t version = 1;
  FileIdentity identity;
};

// A part of the folder that cannot be used: a folder that cannot be read, or a version's with two files.
struct UnusableFolder {
  std::string path;
  std::string name;  // of the model that it would be
  absl::Status status;
};

struct ModelFolderContents {
  std::vector<ModelFileEntry> files;  // sorted by path
  std::vector<UnusableFolder> unusable;
  std::vector<std::string> ignored;  // folders with model files whose names are no versions
};

// NOT_FOUND and the like: the folder itself cannot be read, or there is nothing in it.
absl::StatusOr<ModelFolderContents> ScanModelFolder(const std::string& folder);

}  // namespace ckn
