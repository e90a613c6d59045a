#include "server/base/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/status.h"

namespace ckn {
namespace {

absl::Status FileError(int error, std::string_view path, const char* what) {
  return absl::ErrnoToStatus(error, absl::StrCat(absl::string_view(path.data(), path.size()), ": ", what));
}

// A crash after the rename must not bring the old name back.
absl::Status SyncFolder(const std::filesystem::path& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return FileError(errno, folder.native(), "cannot open the folder");
  absl::Status status;
  // Some file systems cannot flush a folder and say EINVAL; there is nothing more to do for them.
  if (fsync(fd) != 0 && errno != EINVAL) status = FileError(errno, folder.native(), "cannot flush the folder");
  close(fd);
  return status;
}

// The file behind symbolic links, which need not exist yet.
std::filesystem::path FollowLinks(std::filesystem::path path) {
  constexpr int kMaxLinks = 40;  // as the kernel; a loop then fails when the file is opened
  std::error_code error;
  for (int i = 0; i < kMaxLinks && std::filesystem::is_symlink(path, error); ++i) {
    const std::filesystem::path link = std::filesystem::read_symlink(path, error);
    if (error) break;
    path = path.parent_path() / link;  // an absolute link replaces the whole path
  }
  return path;
}

// "TARGET.PROCESS.NUMBER.tmp"
constexpr std::string_view kTemporaryEnd = ".tmp";

bool IsTemporaryOf(std::string_view name, std::string_view target_name) {
  if (!name.starts_with(target_name) || !name.ends_with(kTemporaryEnd)) return false;
  name.remove_prefix(target_name.size());
  if (name.size() <= kTemporaryEnd.size()) return false;
  name.remove_suffix(kTemporaryEnd.size());
  const std::size_t dot = name.find('.', 1);
  const auto number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return name.front() == '.' && dot != std::string_view::npos && number(name.substr(1, dot - 1)) &&
         number(name.substr(dot + 1));
}

// Removes what killed processes have left of earlier attempts at this file. Those at work hold a lock; one that has
// not got it yet is young.
void RemoveStale(const std::filesystem::path& target) {
  constexpr time_t kYoung = 60;  // seconds
  std::error_code ignored;
  const std::filesystem::path folder = target.has_parent_path() ? target.parent_path() : ".";
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (!IsTemporaryOf(entry.path().filename().native(), target.filename().native())) continue;
    const int fd = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) continue;
    struct stat status = {};
    const bool stale = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && time(nullptr) - status.st_mtime > kYoung &&
                       flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (stale) unlink(entry.path().c_str());
    close(fd);
  }
}

}  // namespace

AtomicFile::AtomicFile(std::string path, std::string temporary, int fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::exchange(other.fd_, -1)) {}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::StatusOr<AtomicFile> AtomicFile::Create(const std::string& path) {
  const std::filesystem::path target = FollowLinks(path);
  if (!target.has_filename()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", path, "\": not the name of a file to write"));
  }
  struct stat old = {};
  const bool exists = stat(target.c_str(), &old) == 0;
  if (exists && !S_ISREG(old.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file, it is left alone"));
  }

  RemoveStale(target);
  static std::atomic<unsigned> counter{0};
  std::string temporary;
  int fd = -1;
  do {
    temporary = absl::StrCat(target.native(), ".", getpid(), ".", counter.fetch_add(1),
                             absl::string_view(kTemporaryEnd.data(), kTemporaryEnd.size()));
    fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (fd < 0 && errno == EEXIST);
  if (fd < 0) return FileError(errno, path, "cannot write here");
  (void)flock(fd, LOCK_EX | LOCK_NB);  // some file systems have no locks, and then nothing is found stale either
  AtomicFile file(path, std::move(temporary), fd);
  file.target_ = target.native();
  if (exists && fchmod(fd, old.st_mode & 07777) != 0) return FileError(errno, path, "cannot keep the permissions");
  return file;
}

absl::Status AtomicFile::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError(errno, path_, "cannot write");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit() {
  if (fsync(fd_) != 0) return FileError(errno, path_, "cannot flush to disk");
  // Network file systems report a failed write only here.
  if (close(std::exchange(fd_, -1)) != 0) return FileError(errno, path_, "cannot close");
  if (rename(temporary_.c_str(), target_.c_str()) != 0) return FileError(errno, path_, "cannot rename into place");
  temporary_.clear();
  const std::filesystem::path folder = std::filesystem::path(target_).parent_path();
  return SyncFolder(folder.empty() ? std::filesystem::path(".") : folder);
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view content) {
  CKN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  CKN_RETURN_IF_ERROR(file.Append(content));
  return file.Commit();
}

}  // namespace ckn
