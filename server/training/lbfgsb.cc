#include "server/training/lbfgsb.h"

#include <cstring>
#include <string_view>

#include "absl/strings/str_format.h"

// Fortran: all arguments by address, lengths of the character arguments last. Re-entrant: all state is in the arrays.
extern "C" void setulb_(const int* n, const int* m, double* x, const double* l, const double* u, const int* nbd,
                        double* f, double* g, const double* factr, const double* pgtol, double* wa, int* iwa,
                        char* task, const int* iprint, char* csave, int* lsave, int* isave, double* dsave,
                        std::size_t task_length, std::size_t csave_length);

namespace ckn {
namespace {

constexpr int kFree = 0;
constexpr int kLowerBound = 1;
constexpr int kSilent = -1;
constexpr int kIterationsInIsave = 29;  // isave(30)

bool StartsWith(const char (&text)[60], std::string_view prefix) {
  return std::string_view(text, sizeof(text)).substr(0, prefix.size()) == prefix;
}

}  // namespace

Lbfgsb::Lbfgsb(std::vector<double> x0, const std::vector<bool>& lower_bounded, const LbfgsbOptions& options)
    : size_(static_cast<int>(x0.size())),
      memory_(options.memory),
      options_(options),
      x_(std::move(x0)),
      lower_(x_.size(), 0.0),
      upper_(x_.size(), 0.0),
      gradient_(x_.size(), 0.0),
      work_((2 * static_cast<std::size_t>(memory_) + 5) * x_.size() + 11 * static_cast<std::size_t>(memory_) * memory_ +
            8 * static_cast<std::size_t>(memory_)),
      integer_work_(3 * x_.size()) {
  for (const bool bounded : lower_bounded) bound_kind_.push_back(bounded ? kLowerBound : kFree);
  std::memset(task_, ' ', sizeof(task_));
  std::memset(csave_, ' ', sizeof(csave_));
  std::memcpy(task_, "START", 5);
}

Lbfgsb::Request Lbfgsb::Step() {
  setulb_(&size_, &memory_, x_.data(), lower_.data(), upper_.data(), bound_kind_.data(), &value_, gradient_.data(),
          &options_.factr, &options_.pgtol, work_.data(), integer_work_.data(), task_, &kSilent, csave_, lsave_, isave_,
          dsave_, sizeof(task_), sizeof(csave_));
  if (StartsWith(task_, "FG")) return Request::kEvaluate;
  if (StartsWith(task_, "NEW_X")) return Request::kIteration;
  return Request::kDone;
}

int Lbfgsb::iterations() const { return isave_[kIterationsInIsave]; }

std::string Lbfgsb::Message() const {
  const std::string text(task_, sizeof(task_));
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

namespace {

// One list of the state for both directions.
template <typename Visitor, typename... Fields>
void Visit(Visitor&& visit, Fields&... fields) {
  (visit(fields), ...);
}

template <typename T>
std::span<char> Bytes(std::vector<T>& values) {
  return {reinterpret_cast<char*>(values.data()), values.size() * sizeof(T)};
}
template <typename T>
std::span<char> Bytes(T& value) {
  return {reinterpret_cast<char*>(&value), sizeof(T)};
}

}  // namespace

std::string Lbfgsb::Save() const {
  std::string out;
  Lbfgsb copy = *this;
  Visit([&out](auto& field) { out.append(Bytes(field).data(), Bytes(field).size()); }, copy.value_, copy.x_,
        copy.gradient_, copy.work_, copy.integer_work_, copy.task_, copy.csave_, copy.lsave_, copy.isave_, copy.dsave_);
  return out;
}

absl::Status Lbfgsb::Restore(std::string_view state) {
  std::size_t expected = 0;
  const auto count = [&expected](auto& field) { expected += Bytes(field).size(); };
  Visit(count, value_, x_, gradient_, work_, integer_work_, task_, csave_, lsave_, isave_, dsave_);
  if (state.size() != expected) {
    return absl::DataLossError(
        absl::StrFormat("state of the optimiser: got %d bytes, expected %d", state.size(), expected));
  }
  const auto copy = [&state](auto& field) {
    std::memcpy(Bytes(field).data(), state.data(), Bytes(field).size());
    state.remove_prefix(Bytes(field).size());
  };
  Visit(copy, value_, x_, gradient_, work_, integer_work_, task_, csave_, lsave_, isave_, dsave_);
  return absl::OkStatus();
}

}  // namespace ckn
