#include "server/serving/ordered_stream.h"

#include <utility>

#include "server/serving/inference_core.h"

namespace ckn {
namespace {

// Requests that are read before the first of them is answered: enough that workers need not wait for answers to travel,
// little enough to be held in memory.
constexpr std::size_t kReadAhead = 16;

}  // namespace

OrderedStream::OrderedStream(std::shared_ptr<GrpcCall> call, std::size_t max_message_bytes, Answer answer)
    : call_(std::move(call)), max_message_bytes_(max_message_bytes), answer_(std::move(answer)) {}

void OrderedStream::Serve(std::shared_ptr<GrpcCall> call, std::size_t max_message_bytes, Answer answer) {
  if (const absl::Status refused = CheckCaller(*call); !refused.ok()) return call->Finish(refused);
  const std::shared_ptr<OrderedStream> stream(new OrderedStream(std::move(call), max_message_bytes, std::move(answer)));
  stream->Step(Event::kOpened);
}

void OrderedStream::Read(bool ok) {
  if (!ok) return Step(Event::kReadAll);
  Item* item = nullptr;
  {
    const absl::MutexLock lock(&mu_);
    item = items_.back().get();
    SetBytes(*item, item->message.Length());
  }
  // reading_ is still set and keeps the stream open until this is done.
  answer_(*call_, &item->message, [self = shared_from_this(), item](grpc::ByteBuffer reply) {
    item->message.Swap(&reply);
    self->Step(Event::kAnswered, item);
  });
  Step(Event::kRead);
}

void OrderedStream::Note(Event event, Item* item) {
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
      SetBytes(*item, item->message.Length());
      item->held = call_->Hold(item->message);
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

void OrderedStream::SetBytes(Item& item, std::size_t bytes) {
  held_bytes_ += bytes - item.bytes;
  item.bytes = bytes;
}

void OrderedStream::PopFront() {
  SetBytes(*items_.front(), 0);
  items_.pop_front();
}

void OrderedStream::Step(Event event, Item* item) {
  Item* to_read = nullptr;
  Item* to_write = nullptr;
  bool finish = false;
  {
    const absl::MutexLock lock(&mu_);
    Note(event, item);
    while (broken_ && !items_.empty() && items_.front()->answered) PopFront();
    if (!reading_ && !read_all_ && items_.size() < kReadAhead && held_bytes_ < max_message_bytes_) {
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
  if (to_read != nullptr) {
    call_->Read(&to_read->message, [self = shared_from_this()](bool ok) { self->Read(ok); });
  }
  if (to_write != nullptr) {
    call_->Write(to_write->message,
                 [self = shared_from_this()](bool ok) { self->Step(ok ? Event::kWritten : Event::kBroken); });
  }
  if (finish) call_->Finish(absl::OkStatus());
}

}  // namespace ckn
