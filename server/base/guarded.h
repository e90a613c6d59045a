#pragma once

#include <exception>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ckn {

// Runs `body`, which returns a status; what a library throws in it becomes one.
template <typename Body>
absl::Status Guarded(const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("unexpected failure: ", error.what()));
  } catch (...) {
    return absl::InternalError("unexpected failure");
  }
}

}  // namespace ckn
