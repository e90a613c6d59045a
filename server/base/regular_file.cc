#include "server/base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/base/status.h"

namespace ckn {

absl::StatusOr<RegularFile> RegularFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::ErrnoToStatus(errno, "cannot open");
  RegularFile file(fd, 0);
  struct stat info = {};
  if (fstat(fd, &info) != 0) return absl::ErrnoToStatus(errno, "cannot read");
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError("not a regular file");
  file.size_ = static_cast<std::uint64_t>(info.st_size);
  return file;
}

RegularFile::RegularFile(RegularFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

RegularFile::~RegularFile() {
  if (fd_ >= 0) close(fd_);
}

// NOLINTNEXTLINE(readability-make-member-function-const): it moves the place in the file.
absl::StatusOr<std::size_t> RegularFile::Read(std::span<std::byte> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = read(fd_, out.data() + done, out.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, "cannot read");
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, std::uint64_t max_bytes) {
  CKN_ASSIGN_OR_RETURN(RegularFile file, RegularFile::Open(path));
  if (file.size() > max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("got ", file.size(), " bytes, expected at most ", max_bytes));
  }
  std::string bytes(file.size(), '\0');
  CKN_ASSIGN_OR_RETURN(const std::size_t got, file.Read(std::as_writable_bytes(std::span(bytes))));
  bytes.resize(got);  // shorter when the file shrank meanwhile
  return bytes;
}

}  // namespace ckn
