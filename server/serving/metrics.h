#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace ckn {

enum class Method {
  kClassify,
  kEncode,
  kClassifyStream,  // a request of a stream
  kEncodeStream,
  kListModels,
  kGetModel,
  // The Open Inference Protocol's
  kModelInfer,
  kModelStreamInfer,
  kModelMetadata,
  kModelConfig,
  kRepositoryIndex,
  kRepositoryModelLoad,
  kRepositoryModelUnload,
};
enum class Stage { kDecode, kQueue, kCompute };
enum class ImageOutcome {
  kOk,
  kInvalid,  // the client's: cannot be decoded, does not fit the model, unknown model
  kExpired,  // deadline passed, call cancelled, or failed by another image, before this one was done
  kError,    // ours
};

inline constexpr std::size_t kMethodCount = 13;
inline constexpr std::size_t kStageCount = 3;
inline constexpr std::size_t kImageOutcomeCount = 4;
inline constexpr std::size_t kStatusCodeCount = 17;

// The name of the RPC.
std::string_view MethodName(Method method);

// What /metrics shows. Label values come from closed sets only: methods, status codes, stages, outcomes, and the names
// of loaded models; whatever else a client asks for counts under one value. All children exist before the first call.
// Thread-safe.
class Metrics {
 public:
  explicit Metrics(const std::string& version);
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // The names of the models that are loaded now, of each as often as it has versions. All that ever were may appear as
  // a label.
  void SetModels(const std::vector<std::string>& names);

  // A model file was read, or could not be used.
  void CountModelLoad(bool ok);
  // Model files that cannot be used now.
  void SetFailedModels(std::size_t count) { models_failed_->Set(static_cast<double>(count)); }

  // To the gRPC port.
  void SetConnections(int count) { connections_->Set(count); }
  // A client did not take a reply in time.
  void CountReplyTimeout() { reply_timeouts_->Increment(); }
  void CountRequest(Method method, absl::StatusCode code, double seconds);
  void ObserveStage(Stage stage, double seconds);
  // An unknown or empty `model` counts under "(unknown)".
  void CountImages(std::string_view model, ImageOutcome outcome, std::size_t count);

  [[nodiscard]] prometheus::Gauge& queue_length() { return *queue_length_; }
  [[nodiscard]] prometheus::Gauge& in_flight_bytes() { return *in_flight_bytes_; }
  [[nodiscard]] prometheus::Gauge& in_flight() { return *in_flight_; }
  [[nodiscard]] prometheus::Gauge& ready() { return *ready_; }

  // Prometheus text format, version 0.0.4. What concerns the process as a whole is looked up on the way.
  [[nodiscard]] std::string Text() const;

 private:
  using ImageCounters = std::array<prometheus::Counter*, kImageOutcomeCount>;

  ImageCounters AddImageCounters(const std::string& model);

  prometheus::Registry registry_;
  std::array<std::array<prometheus::Counter*, kStatusCodeCount>, kMethodCount> requests_{};
  std::array<prometheus::Histogram*, kMethodCount> request_seconds_{};
  std::array<prometheus::Histogram*, kStageCount> stage_seconds_{};
  prometheus::Family<prometheus::Counter>& images_;
  ImageCounters unknown_model_images_;
  prometheus::Gauge* queue_length_ = nullptr;
  prometheus::Gauge* in_flight_ = nullptr;
  prometheus::Gauge* in_flight_bytes_ = nullptr;
  prometheus::Gauge* models_loaded_ = nullptr;
  prometheus::Gauge* models_failed_ = nullptr;
  prometheus::Counter* loads_ok_ = nullptr;
  prometheus::Counter* reply_timeouts_ = nullptr;
  prometheus::Gauge* connections_ = nullptr;
  prometheus::Counter* loads_failed_ = nullptr;
  prometheus::Gauge* ready_ = nullptr;
  prometheus::Gauge* resident_memory_ = nullptr;
  prometheus::Counter* cpu_seconds_ = nullptr;

  mutable absl::Mutex mu_;
  std::map<std::string, ImageCounters, std::less<>> model_images_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ckn
