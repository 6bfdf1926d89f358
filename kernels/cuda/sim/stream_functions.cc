// SPDX-License-Identifier: Apache-2.0

// Streams and events.
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/sim/sim_driver.h"

namespace cotan::cuda::sim {

using namespace driver;  // The names of the vendor's API. NOLINT(google-build-using-namespace)

namespace {

// The handle that names the legacy default stream, as null does.
constexpr uintptr_t kLegacyHandle = 1;

bool IsLegacy(CUstream handle) { return handle == nullptr || reinterpret_cast<uintptr_t>(handle) == kLegacyHandle; }

}  // namespace

Stream* SimDriver::FindStream(CUstream handle) { return IsLegacy(handle) ? &legacy_ : streams_.Find(handle); }

std::vector<Ticket> SimDriver::ImplicitOrder(const Stream& stream) const {
  std::vector<Ticket> tickets;
  if (&stream == &legacy_) {
    for (const auto& [handle, other] : streams_.objects()) {
      if (other->flags != CU_STREAM_NON_BLOCKING) tickets.push_back(other->last);
    }
    tickets.insert(tickets.end(), destroyed_.begin(), destroyed_.end());
  } else if (stream.flags != CU_STREAM_NON_BLOCKING) {
    tickets.push_back(legacy_.last);
  }
  return tickets;
}

CUresult SimDriver::Submit(CUstream handle, Work work) {
  Stream* stream = FindStream(handle);
  if (stream == nullptr) return InvalidHandle("stream");
  return Submit(*stream, std::move(work));
}

CUresult SimDriver::Submit(Stream& stream, Work work) {
  if (const CUresult result = CheckCapture(stream); result != CUDA_SUCCESS) return result;
  if (stream.capture != nullptr) {
    stream.ends = {stream.capture->graph->Add(std::move(work), stream.ends)};
    return CUDA_SUCCESS;
  }
  if (&stream == &legacy_) {
    if (const CUresult result = CheckLegacyAllowed(); result != CUDA_SUCCESS) return result;
  }
  std::vector<Work> works;
  works.push_back(std::move(work));
  if (const absl::Status status = PrepareHostMemory(works); !status.ok()) return InvalidValue(status.message());
  stream.last = queue_.Add(stream.lane, ImplicitOrder(stream), std::move(works[0]));
  return CUDA_SUCCESS;
}

CUresult SimDriver::Wait(const Ticket& ticket) { return Stick(queue_.Complete(ticket)); }

CUresult SimDriver::StreamCreate(CUstream* stream, unsigned flags) {
  if (stream == nullptr || flags > CU_STREAM_NON_BLOCKING)
    return InvalidValue("cuStreamCreate: null, or unknown flags");
  const int lane = queue_.AddLane(absl::StrCat("stream ", ++num_streams_));
  *stream = streams_.Add(std::make_unique<Stream>(Stream{.flags = flags, .lane = lane, .last = {}}));
  return CUDA_SUCCESS;
}

CUresult SimDriver::StreamDestroy(CUstream handle) {
  const Stream* stream = streams_.Find(handle);
  if (stream == nullptr) return InvalidHandle("stream");
  if (stream->capture != nullptr) {
    return Invalidate(*stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                      "cuStreamDestroy_v2 of a captured stream");
  }
  if (stream->flags != CU_STREAM_NON_BLOCKING && !queue_.IsDone(stream->last)) destroyed_.push_back(stream->last);
  streams_.Remove(handle);
  return CUDA_SUCCESS;
}

CUresult SimDriver::StreamSynchronize(CUstream handle) {
  const Stream* stream = FindStream(handle);
  if (stream == nullptr) return InvalidHandle("stream");
  CUresult result = CheckNotCapturing(*stream, "cuStreamSynchronize");
  if (result == CUDA_SUCCESS) result = CheckCallAllowed("cuStreamSynchronize");
  if (result != CUDA_SUCCESS) return result;
  ++statistics_.synchronizations;
  for (const Ticket& ticket : WorkOf(*stream)) {
    result = Wait(ticket);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

std::vector<Ticket> SimDriver::WorkOf(const Stream& stream) const {
  // The legacy stream's next work would also wait for these.
  std::vector<Ticket> tickets;
  if (&stream == &legacy_) tickets = ImplicitOrder(stream);
  tickets.push_back(stream.last);
  return tickets;
}

CUresult SimDriver::StreamQuery(CUstream handle) {
  const Stream* stream = FindStream(handle);
  if (stream == nullptr) return InvalidHandle("stream");
  CUresult result = CheckNotCapturing(*stream, "cuStreamQuery");
  if (result == CUDA_SUCCESS) result = CheckCallAllowed("cuStreamQuery");
  if (result != CUDA_SUCCESS) return result;
  for (const Ticket& ticket : WorkOf(*stream)) {
    if (queue_.IsDone(ticket)) continue;
    result = Stick(queue_.Advance(ticket));
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_NOT_READY;
  }
  return Wait(stream->last);
}

CUresult SimDriver::StreamWaitEvent(CUstream handle, CUevent event, unsigned flags) {
  Stream* stream = FindStream(handle);
  const Event* found = events_.Find(event);
  if (stream == nullptr) return InvalidHandle("stream");
  if (found == nullptr) return InvalidHandle("event");
  if (flags != 0) return InvalidValue("cuStreamWaitEvent: the flags have to be 0");
  if (const CUresult result = CheckCapture(*stream); result != CUDA_SUCCESS) return result;
  if (found->capture != nullptr) return WaitForCapturedEvent(handle, *stream, *found);
  if (found->stamp == nullptr) return CUDA_SUCCESS;  // Never recorded.
  if (stream->capture != nullptr) {
    return Invalidate(*stream->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                      "cuStreamWaitEvent in a capture for an event that was recorded outside of it");
  }
  if (stream == &legacy_) {
    if (const CUresult result = CheckLegacyAllowed(); result != CUDA_SUCCESS) return result;
  }
  std::vector<Ticket> after = ImplicitOrder(*stream);
  after.push_back(found->recorded);
  stream->last = queue_.Add(stream->lane, after, OrderOnly{});
  return CUDA_SUCCESS;
}

CUresult SimDriver::EventCreate(CUevent* event, unsigned flags) {
  constexpr unsigned kKnownFlags = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
  if (event == nullptr || (flags & ~kKnownFlags) != 0) return InvalidValue("cuEventCreate: null, or unknown flags");
  *event = events_.Add(std::make_unique<Event>(Event{.flags = flags, .recorded = {}}));
  return CUDA_SUCCESS;
}

CUresult SimDriver::EventDestroy(CUevent event) {
  if (events_.Find(event) == nullptr) return InvalidHandle("event");
  events_.Remove(event);
  return CUDA_SUCCESS;
}

CUresult SimDriver::EventRecord(CUevent event, CUstream handle) {
  Stream* stream = FindStream(handle);
  Event* found = events_.Find(event);
  if (stream == nullptr) return InvalidHandle("stream");
  if (found == nullptr) return InvalidHandle("event");
  if (const CUresult result = CheckCapture(*stream); result != CUDA_SUCCESS) return result;
  if (stream->capture != nullptr) return RecordInCapture(*stream, *found);
  auto stamp = std::make_shared<EventStamp>();
  if (const CUresult result = Submit(*stream, EventMark{stamp}); result != CUDA_SUCCESS) return result;
  *found = {.flags = found->flags, .recorded = stream->last, .stamp = std::move(stamp)};
  return CUDA_SUCCESS;
}

CUresult SimDriver::EventQuery(CUevent event) {
  const Event* found = events_.Find(event);
  if (found == nullptr) return InvalidHandle("event");
  if (found->capture != nullptr) {
    return Invalidate(*found->capture, CUDA_ERROR_CAPTURED_EVENT, "cuEventQuery of an event recorded in a capture");
  }
  if (const CUresult result = CheckCallAllowed("cuEventQuery"); result != CUDA_SUCCESS) return result;
  if (queue_.IsDone(found->recorded)) return Wait(found->recorded);
  const CUresult result = Stick(queue_.Advance(found->recorded));
  return result != CUDA_SUCCESS ? result : CUDA_ERROR_NOT_READY;
}

CUresult SimDriver::EventSynchronize(CUevent event) {
  const Event* found = events_.Find(event);
  if (found == nullptr) return InvalidHandle("event");
  if (found->capture != nullptr) {
    return Invalidate(*found->capture, CUDA_ERROR_CAPTURED_EVENT,
                      "cuEventSynchronize of an event recorded in a capture");
  }
  if (const CUresult result = CheckCallAllowed("cuEventSynchronize"); result != CUDA_SUCCESS) return result;
  ++statistics_.synchronizations;
  return Wait(found->recorded);
}

CUresult SimDriver::EventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  const Event* first = events_.Find(start);
  const Event* last = events_.Find(end);
  if (first == nullptr || last == nullptr) return InvalidHandle("event");
  if (milliseconds == nullptr) return InvalidValue("cuEventElapsedTime_v2: null");
  for (const Event* event : {first, last}) {
    if (event->stamp == nullptr || (event->flags & CU_EVENT_DISABLE_TIMING) != 0) {
      return Fail(CUDA_ERROR_INVALID_HANDLE, "cuEventElapsedTime_v2: an event was not recorded, or has no timing");
    }
  }
  if (!first->stamp->done || !last->stamp->done) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(
      (static_cast<double>(last->stamp->time_ns) - static_cast<double>(first->stamp->time_ns)) * 1e-6);
  return CUDA_SUCCESS;
}

}  // namespace cotan::cuda::sim
