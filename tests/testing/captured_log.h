#pragma once

#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"

namespace ckn::testing {

// Takes the lines of the default logger, "LEVEL MESSAGE", for as long as it lives.
class CapturedLog {
 public:
  CapturedLog() : before_(spdlog::default_logger()) {
    auto logger = std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_));
    logger->set_pattern("%l %v");
    spdlog::set_default_logger(std::move(logger));
  }
  ~CapturedLog() { spdlog::set_default_logger(before_); }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  // The lines since the last call. No other thread may log meanwhile.
  std::string Take() {
    std::string lines = lines_.str();
    lines_.str("");
    return lines;
  }

 private:
  std::shared_ptr<spdlog::logger> before_;
  std::ostringstream lines_;
};

}  // namespace ckn::testing
