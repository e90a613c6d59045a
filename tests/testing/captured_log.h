#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "spdlog/sinks/base_sink.h"
#include "spdlog/spdlog.h"

namespace ckn::testing {

// Takes the lines of the default logger, "LEVEL MESSAGE", for as long as it lives. Thread-safe.
class CapturedLog {
 public:
  CapturedLog() : before_(spdlog::default_logger()), sink_(std::make_shared<Sink>()) {
    auto logger = std::make_shared<spdlog::logger>("test", sink_);
    logger->set_pattern("%l %v");
    spdlog::set_default_logger(std::move(logger));
  }
  ~CapturedLog() { spdlog::set_default_logger(before_); }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  // The lines since the last call.
  std::string Take() { return sink_->Take(); }

 private:
  class Sink : public spdlog::sinks::base_sink<std::mutex> {
   public:
    std::string Take() {
      const std::scoped_lock lock(mutex_);
      return std::exchange(lines_, {});
    }

   private:
    void sink_it_(const spdlog::details::log_msg& message) override {
      spdlog::memory_buf_t line;
      formatter_->format(message, line);
      lines_.append(line.data(), line.size());
    }
    void flush_() override {}

    std::string lines_;
  };

  const std::shared_ptr<spdlog::logger> before_;
  const std::shared_ptr<Sink> sink_;
};

}  // namespace ckn::testing
