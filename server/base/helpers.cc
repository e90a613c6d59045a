#include "server/base/helpers.h"

namespace ckn {
namespace {

thread_local Helpers* helpers_of_this_thread = nullptr;

}  // namespace

void SharedLoop::Run(const std::atomic<bool>* leave) {
  while (leave == nullptr || !leave->load(std::memory_order_relaxed)) {
    const std::size_t i = next_.fetch_add(1, std::memory_order_relaxed);
    if (i >= count_) return;
    try {
      body_(i);
    } catch (...) {
      const absl::MutexLock lock(&mu_);
      if (!error_) error_ = std::current_exception();
      next_.store(count_, std::memory_order_relaxed);
    }
  }
}

void SharedLoop::RethrowError() {
  const absl::MutexLock lock(&mu_);
  if (error_) std::rethrow_exception(error_);
}

Helpers::Attention::Attention(Helpers* helpers, std::size_t count) : helpers_(helpers) {
  if (helpers_ != nullptr) helpers_->BeginAttention(count);
}

Helpers::Attention::~Attention() {
  if (helpers_ != nullptr) helpers_->EndAttention();
}

Helpers* Helpers::OfThisThread() { return helpers_of_this_thread; }

Helpers::Scope::Scope(Helpers* helpers) : before_(helpers_of_this_thread) { helpers_of_this_thread = helpers; }

Helpers::Scope::~Scope() { helpers_of_this_thread = before_; }

}  // namespace ckn
