#include "server/serving/metrics.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "prometheus/text_serializer.h"
#include "server/base/resource_usage.h"
#include "server/image/decoder_versions.h"

namespace ckn {
namespace {

constexpr std::array<std::string_view, kMethodCount> kMethodNames = {"Classify",
                                                                     "Encode",
                                                                     "ClassifyStream",
                                                                     "EncodeStream",
                                                                     "ListModels",
                                                                     "GetModel",
                                                                     "ModelInfer",
                                                                     "ModelStreamInfer",
                                                                     "ModelMetadata",
                                                                     "ModelConfig",
                                                                     "RepositoryIndex",
                                                                     "RepositoryModelLoad",
                                                                     "RepositoryModelUnload"};
constexpr std::array<const char*, kStageCount> kStageNames = {"decode", "queue", "compute"};
constexpr std::array<const char*, kImageOutcomeCount> kOutcomeNames = {"ok", "invalid", "expired", "error"};
// In parentheses, so that it reads unlike a model's name.
constexpr const char* kUnknownModel = "(unknown)";

template <typename Enum>
constexpr std::size_t Index(Enum value) {
  return static_cast<std::size_t>(value);
}

// Six steps a decade from 0.1 ms to 0.75 s: a quantile read from them is at most 67 % off. Then coarse up to 10 s.
std::vector<double> SecondsBuckets() {
  std::vector<double> bounds;
  // Bounds whose labels are short: that of 7 / 100 has seventeen digits, and nobody would guess them.
  for (const double fraction : {1e4, 1e3, 1e2, 1e1}) {
    for (const double step : {1.0, 1.5, 2.0, 3.0, 5.0, 7.5}) bounds.push_back(step / fraction);
  }
  for (const double bound : {1.0, 2.0, 5.0, 10.0}) bounds.push_back(bound);
  return bounds;
}

prometheus::Gauge* AddGauge(prometheus::Registry& registry, const char* name, const char* help) {
  return &prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
}

}  // namespace

std::string_view MethodName(Method method) { return kMethodNames[Index(method)]; }

Metrics::Metrics(const std::string& version)
    : images_(prometheus::BuildCounter()
                  .Name("ckn_images_total")
                  .Help("Images by model and outcome: ok, invalid (the client's fault), expired (deadline or "
                        "cancellation), error (the server's fault).")
                  .Register(registry_)),
      unknown_model_images_(AddImageCounters(kUnknownModel)) {
  const std::vector<double> buckets = SecondsBuckets();
  auto& requests = prometheus::BuildCounter()
                       .Name("ckn_requests_total")
                       .Help("Finished calls that reached the service, by method and gRPC status code.")
                       .Register(registry_);
  auto& request_seconds =
      prometheus::BuildHistogram()
          .Name("ckn_request_duration_seconds")
          .Help("From the parsed request to its reply, of calls that ended with OK: refusing is fast.")
          .Register(registry_);
  for (std::size_t method = 0; method < kMethodCount; ++method) {
    const std::string name(kMethodNames[method]);
    for (std::size_t code = 0; code < kStatusCodeCount; ++code) {
      requests_[method][code] =
          &requests.Add({{"method", name}, {"code", absl::StatusCodeToString(static_cast<absl::StatusCode>(code))}});
    }
    request_seconds_[method] = &request_seconds.Add({{"method", name}}, buckets);
  }
  auto& stage_seconds =
      prometheus::BuildHistogram()
          .Name("ckn_stage_duration_seconds")
          .Help("decode and compute: one image; queue: one call until a worker takes its first image.")
          .Register(registry_);
  for (std::size_t stage = 0; stage < kStageCount; ++stage) {
    stage_seconds_[stage] = &stage_seconds.Add({{"stage", kStageNames[stage]}}, buckets);
  }
  queue_length_ = AddGauge(registry_, "ckn_queue_length", "Calls with images that no worker has taken yet.");
  in_flight_ = AddGauge(registry_, "ckn_in_flight_requests", "Calls received and not yet answered.");
  in_flight_bytes_ =
      AddGauge(registry_, "ckn_in_flight_request_bytes",
               "Memory of requests with images that are not answered yet and of replies that are not taken yet.");
  models_loaded_ = AddGauge(registry_, "ckn_models_loaded", "Models that answer calls, each version by itself.");
  models_failed_ = AddGauge(registry_, "ckn_models_failed", "Model files that cannot be used; the log says why.");
  auto& loads = prometheus::BuildCounter()
                    .Name("ckn_model_loads_total")
                    .Help("Model files read, at the start and later, by outcome: ok, failed.")
                    .Register(registry_);
  loads_ok_ = &loads.Add({{"outcome", "ok"}});
  loads_failed_ = &loads.Add({{"outcome", "failed"}});
  reply_timeouts_ = &prometheus::BuildCounter()
                         .Name("ckn_reply_timeouts_total")
                         .Help("Calls that were cancelled because their client did not take a reply in time.")
                         .Register(registry_)
                         .Add({});
  connections_ = AddGauge(registry_, "ckn_connections", "Connections to the gRPC port, counted every second.");
  ready_ = AddGauge(registry_, "ckn_ready", "1 when all models are loaded and warm and the server is not stopping.");
  // The names that Prometheus' own client libraries give them.
  AddGauge(registry_, "process_start_time_seconds", "When the server began, in seconds since 1970.")
      ->Set(absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()));
  resident_memory_ = AddGauge(registry_, "process_resident_memory_bytes", "Resident memory.");
  cpu_seconds_ = &prometheus::BuildCounter()
                      .Name("process_cpu_seconds_total")
                      .Help("Processor time of all threads.")
                      .Register(registry_)
                      .Add({});
  auto& decoders = prometheus::BuildGauge()
                       .Name("ckn_image_decoder_info")
                       .Help("Always 1; the labels say which libraries decode images.")
                       .Register(registry_);
  for (const auto& [library, number] : DecoderVersions()) {
    decoders.Add({{"library", library}, {"version", number}}).Set(1);
  }
  prometheus::BuildGauge()
      .Name("ckn_build_info")
      .Help("Always 1; the labels say what runs.")
      .Register(registry_)
      .Add({{"version", version}})
      .Set(1);
}

Metrics::ImageCounters Metrics::AddImageCounters(const std::string& model) {
  ImageCounters counters{};
  for (std::size_t outcome = 0; outcome < kImageOutcomeCount; ++outcome) {
    counters[outcome] = &images_.Add({{"model", model}, {"outcome", kOutcomeNames[outcome]}});
  }
  return counters;
}

void Metrics::SetModels(const std::vector<std::string>& names) {
  const absl::MutexLock lock(&mu_);
  // Models that left stay: calls that they answer may still be under way.
  for (const std::string& name : names) {
    if (!model_images_.contains(name)) model_images_.emplace(name, AddImageCounters(name));
  }
  models_loaded_->Set(static_cast<double>(names.size()));
}

void Metrics::CountModelLoad(bool ok) { (ok ? loads_ok_ : loads_failed_)->Increment(); }

void Metrics::CountRequest(Method method, absl::StatusCode code, double seconds) {
  auto index = static_cast<std::size_t>(code);
  if (index >= kStatusCodeCount) index = static_cast<std::size_t>(absl::StatusCode::kUnknown);
  requests_[Index(method)][index]->Increment();
  if (code == absl::StatusCode::kOk) request_seconds_[Index(method)]->Observe(seconds);
}

void Metrics::ObserveStage(Stage stage, double seconds) { stage_seconds_[Index(stage)]->Observe(seconds); }

void Metrics::CountImages(std::string_view model, ImageOutcome outcome, std::size_t count) {
  if (count == 0) return;
  prometheus::Counter* counter = unknown_model_images_[Index(outcome)];
  {
    const absl::ReaderMutexLock lock(&mu_);
    if (const auto found = model_images_.find(model); found != model_images_.end()) {
      counter = found->second[Index(outcome)];
    }
  }
  counter->Increment(static_cast<double>(count));
}

std::string Metrics::Text() const {
  {
    const absl::MutexLock lock(&mu_);
    resident_memory_->Set(1048576 * ResidentMemoryMib());
    cpu_seconds_->Increment(ProcessCpuSeconds() - cpu_seconds_->Value());
  }
  return prometheus::TextSerializer().Serialize(registry_.Collect());
}

}  // namespace ckn
