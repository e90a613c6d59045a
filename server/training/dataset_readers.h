#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/training/dataset.h"

// One reader a kind, and what they share. Callers use LoadDataset; `title` is set there.
namespace ckn {

absl::StatusOr<Dataset> LoadIdx(const std::filesystem::path& folder, Split split);
absl::StatusOr<Dataset> LoadCifar10(const std::filesystem::path& folder, Split split);
absl::StatusOr<Dataset> LoadStl10(const std::filesystem::path& folder, Split split);
// `stretch`: see LoadDataset.
absl::StatusOr<Dataset> LoadImageFolder(const std::filesystem::path& folder, Split split,
                                        std::optional<ImageSize> stretch);

bool HasIdx(const std::filesystem::path& folder, Split split);
bool HasCifar10(const std::filesystem::path& folder, Split split);
bool HasStl10(const std::filesystem::path& folder, Split split);
bool HasImageFolder(const std::filesystem::path& folder, Split split);

bool IsFile(const std::filesystem::path& path);

// A whole file whose size must be a positive multiple of `unit` bytes; the size is checked before memory is asked for.
// NOT_FOUND, or INVALID_ARGUMENT naming the file.
absl::StatusOr<std::vector<std::uint8_t>> ReadFileBytes(const std::filesystem::path& path, std::size_t unit);

// A text file with one class name a line, for labels 0, 1, ...; empty lines at the end do not count.
// INVALID_ARGUMENT: fewer than `min_count`, empty, repeated or unprintable names.
absl::StatusOr<std::vector<std::string>> ReadClassNames(const std::filesystem::path& path, std::size_t min_count);

// The same when the file is there, exactly as many as there are defaults; else the defaults.
absl::StatusOr<std::vector<std::string>> ReadClassNamesOr(const std::filesystem::path& path,
                                                          std::span<const char* const> defaults);

}  // namespace ckn
