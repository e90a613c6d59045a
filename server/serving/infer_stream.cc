#include "server/serving/infer_stream.h"

#include "server/serving/status_to_grpc.h"

namespace ckn {
namespace {

// Requests that are read before the first of them is answered: enough that workers need not wait for answers to travel,
// little enough to be held in memory.
constexpr std::size_t kReadAhead = 16;

}  // namespace

InferStream::InferStream(OpenInference& api, grpc::CallbackServerContext& context, const CallerAccess& access)
    : api_(api), call_(context, access) {
  if (const absl::Status refused = CheckCaller(call_); !refused.ok()) {
    Finish(StatusToGrpc(refused));
    return;
  }
  Step(Event::kOpened);
}

void InferStream::OnReadDone(bool ok) {
  if (!ok) return Step(Event::kReadAll);
  Item* item = nullptr;
  {
    const absl::MutexLock lock(&mu_);
    item = items_.back().get();
    SetBytes(*item, item->request.ByteSizeLong());
  }
  // reading_ is still set and keeps the stream open until this is done.
  api_.ModelStreamInfer(call_, item->request, &item->response,
                        [this, item](const absl::Status&) { Step(Event::kAnswered, item); });
  Step(Event::kRead);
}

void InferStream::OnWriteDone(bool ok) { Step(ok ? Event::kWritten : Event::kBroken); }

void InferStream::Note(Event event, Item* item) {
  switch (event) {
    case Event::kOpened:
      break;
    case Event::kRead:
      reading_ = false;
      break;
    case Event::kReadAll:
      reading_ = false;
      read_all_ = true;
      items_.pop_back();
      break;
    case Event::kAnswered:
      item->answered = true;
      inference::ModelInferRequest().Swap(&item->request);  // frees it
      SetBytes(*item, item->response.ByteSizeLong());
      break;
    case Event::kBroken:
      broken_ = true;
      [[fallthrough]];
    case Event::kWritten:
      writing_ = false;
      PopFront();
      break;
  }
}

void InferStream::SetBytes(Item& item, std::size_t bytes) {
  held_bytes_ += bytes - item.bytes;
  item.bytes = bytes;
}

void InferStream::PopFront() {
  SetBytes(*items_.front(), 0);
  items_.pop_front();
}

void InferStream::Step(Event event, Item* item) {
  Item* to_read = nullptr;
  Item* to_write = nullptr;
  bool finish = false;
  {
    const absl::MutexLock lock(&mu_);
    Note(event, item);
    while (broken_ && !items_.empty() && items_.front()->answered) PopFront();
    if (!reading_ && !read_all_ && items_.size() < kReadAhead && held_bytes_ < api_.max_message_bytes()) {
      to_read = items_.emplace_back(std::make_unique<Item>()).get();
      reading_ = true;
    }
    if (!writing_ && !items_.empty() && items_.front()->answered) {
      to_write = items_.front().get();
      writing_ = true;
    }
    finish = read_all_ && items_.empty() && !finished_;
    finished_ = finished_ || finish;
  }
  if (to_read != nullptr) StartRead(&to_read->request);
  if (to_write != nullptr) StartWrite(&to_write->response);
  if (finish) Finish(grpc::Status::OK);
}

}  // namespace ckn
