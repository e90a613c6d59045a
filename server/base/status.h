#pragma once

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Leaves the enclosing function with the status of `expression` unless it is OK.
#define CKN_RETURN_IF_ERROR(expression)                             \
  do {                                                              \
    if (absl::Status ckn_status = (expression); !ckn_status.ok()) { \
      return ckn_status;                                            \
    }                                                               \
  } while (false)

#define CKN_STATUS_CONCAT_INNER(a, b) a##b
#define CKN_STATUS_CONCAT(a, b) CKN_STATUS_CONCAT_INNER(a, b)

// Assigns the value of the StatusOr `expression` to `declaration`, or leaves the enclosing function with its status.
#define CKN_ASSIGN_OR_RETURN(declaration, expression) \
  CKN_ASSIGN_OR_RETURN_IMPL(CKN_STATUS_CONCAT(ckn_statusor_, __LINE__), declaration, expression)
#define CKN_ASSIGN_OR_RETURN_IMPL(statusor, declaration, expression) \
  auto statusor = (expression);                                      \
  if (!statusor.ok()) return std::move(statusor).status();           \
  declaration = *std::move(statusor)

namespace ckn {

// The same code with "context: " in front of the message, so that an error names where it arose.
absl::Status Annotate(const absl::Status& status, std::string_view context);

}  // namespace ckn
