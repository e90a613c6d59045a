#include "client/load/stream_lane.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/channel.h"

namespace ckn {

StreamLane::StreamLane(const std::shared_ptr<grpc::Channel>& channel, std::string path, const ClientOptions& options,
                       grpc::CompletionQueue& queue, LaneOwner& owner)
    : stub_(channel),
      path_(std::move(path)),
      options_(options),
      queue_(queue),
      owner_(owner),
      opened_(*this, &StreamLane::OnOpened),
      written_(*this, &StreamLane::OnWritten),
      read_(*this, &StreamLane::OnRead),
      finished_(*this, &StreamLane::OnFinished) {}

void StreamLane::Send(const grpc::ByteBuffer& message, SteadyTime due) {
  const absl::MutexLock lock(&mu_);
  unanswered_.push_back({due, std::chrono::steady_clock::now()});
  to_write_.push_back(&message);
  if (state_ == State::kIdle) Open();
  if (state_ == State::kOpen) WriteNext();
}

void StreamLane::Close() {
  {
    const absl::MutexLock lock(&mu_);
    closing_since_ = std::chrono::steady_clock::now();
    if (state_ == State::kOpen) WriteNext();
    if (state_ != State::kIdle) return;
  }
  owner_.OnClosed();
}

void StreamLane::CheckTimeout() {
  const absl::MutexLock lock(&mu_);
  if (state_ == State::kIdle) return;
  std::optional<SteadyTime> since = closing_since_;
  if (!unanswered_.empty()) since = unanswered_.front().sent;
  if (!since || absl::FromChrono(std::chrono::steady_clock::now() - *since) <= options_.timeout) return;
  late_ = true;
  context_->TryCancel();
}

void StreamLane::Open() {
  state_ = State::kOpening;
  late_ = false;
  half_closed_ = false;
  stream_.reset();  // before its context
  context_ = std::make_unique<grpc::ClientContext>();
  PrepareContext(options_, *context_);
  stream_ = stub_.PrepareCall(context_.get(), path_, &queue_);
  stream_->StartCall(&opened_);
}

void StreamLane::WriteNext() {
  if (writing_ || half_closed_) return;
  if (to_write_.empty()) {
    if (!closing_since_) return;
    writing_ = half_closed_ = true;
    return stream_->WritesDone(&written_);
  }
  writing_ = true;
  stream_->Write(*to_write_.front(), &written_);
  to_write_.pop_front();
}

void StreamLane::Break() {
  state_ = State::kBroken;
  if (!writing_) stream_->Finish(&status_, &finished_);
}

void StreamLane::OnOpened(bool ok) {
  const absl::MutexLock lock(&mu_);
  if (!ok) return Break();
  state_ = State::kOpen;
  stream_->Read(&reply_, &read_);
  WriteNext();
}

void StreamLane::OnWritten(bool /*ok*/) {
  const absl::MutexLock lock(&mu_);
  writing_ = false;
  // After a write that failed, the read fails too.
  if (state_ == State::kOpen) return WriteNext();
  Break();
}

void StreamLane::OnRead(bool ok) {
  Sent sent;
  grpc::ByteBuffer reply;
  {
    const absl::MutexLock lock(&mu_);
    if (!ok) return Break();
    if (unanswered_.size() <= to_write_.size()) {
      // An answer to no request that was sent: not a server that this can measure.
      context_->TryCancel();
      stream_->Read(&reply_, &read_);
      return;
    }
    sent = unanswered_.front();
    unanswered_.pop_front();
    reply.Swap(&reply_);
    stream_->Read(&reply_, &read_);
  }
  owner_.OnDone(*this, {absl::OkStatus(), &reply, sent.due, sent.sent});
}

void StreamLane::OnFinished(bool /*ok*/) {
  std::deque<Sent> lost;
  absl::Status status;
  bool closed = false;
  {
    const absl::MutexLock lock(&mu_);
    status = StatusFromGrpc(status_);
    if (late_) {
      status = absl::DeadlineExceededError(
          absl::StrCat("no answer in the stream within ", absl::FormatDuration(options_.timeout)));
    } else if (status.ok()) {
      status = absl::UnavailableError("the server ended the stream before all answers");
    }
    lost.swap(unanswered_);
    to_write_.clear();
    state_ = State::kIdle;
    closed = closing_since_.has_value();
  }
  for (const Sent& sent : lost) owner_.OnDone(*this, {status, nullptr, sent.due, sent.sent});
  if (closed) owner_.OnClosed();
}

}  // namespace ckn
