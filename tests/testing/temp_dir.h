#pragma once

#include <string>
#include <string_view>

namespace ckn::testing {

// A new empty folder that goes away, with all that is in it, with this object.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  // The path of `name` in the folder.
  [[nodiscard]] std::string File(std::string_view name) const;
  // Writes a file and returns its path.
  std::string Write(std::string_view name, std::string_view bytes) const;

 private:
  std::string path_;
};

}  // namespace ckn::testing
