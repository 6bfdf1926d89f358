// SPDX-License-Identifier: Apache-2.0

// Captures of streams into graphs.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/sim/sim_driver.h"

namespace cotan::cuda::sim {

using namespace driver;  // The names of the vendor's API. NOLINT(google-build-using-namespace)

CUresult SimDriver::Invalidate(Capture& capture, CUresult result, absl::string_view text) {
  capture.invalidated = true;
  return Fail(result, std::string(text));
}

CUresult SimDriver::CheckCapture(const Stream& stream) {
  if (stream.capture == nullptr || !stream.capture->invalidated) return CUDA_SUCCESS;
  return Fail(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "an earlier call that is not allowed invalidated the capture");
}

CUresult SimDriver::CheckCallAllowed(absl::string_view what) {
  for (const std::shared_ptr<Capture>& capture : captures_) {
    const bool forbids =
        capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
        (capture->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && capture->thread == std::this_thread::get_id());
    if (!forbids) continue;
    return Invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                      absl::StrCat(what, " is not allowed while a stream is captured, and invalidates the capture"));
  }
  return CUDA_SUCCESS;
}

CUresult SimDriver::CheckNotCapturing(const Stream& stream, absl::string_view what) {
  if (stream.capture == nullptr) return CUDA_SUCCESS;
  return Invalidate(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                    absl::StrCat(what, " of a stream that is captured; it invalidates the capture"));
}

CUresult SimDriver::CheckLegacyAllowed() {
  for (const auto& [handle, stream] : streams_.objects()) {
    if (stream->capture == nullptr || stream->flags == CU_STREAM_NON_BLOCKING) continue;
    return Invalidate(*stream->capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                      "work in the legacy default stream would wait for a stream that is captured, and invalidates the "
                      "capture: create that stream with CU_STREAM_NON_BLOCKING");
  }
  return CUDA_SUCCESS;
}

CUresult SimDriver::StreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  Stream* stream = FindStream(handle);
  if (stream == nullptr) return InvalidHandle("stream");
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED) return InvalidValue("cuStreamBeginCapture_v2: unknown mode");
  if (stream == &legacy_) {
    return Fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the legacy default stream cannot be captured");
  }
  if (stream->capture != nullptr) return Fail(CUDA_ERROR_ILLEGAL_STATE, "the stream is captured already");
  stream->capture = std::make_shared<Capture>(Capture{
      .origin = handle, .mode = mode, .thread = std::this_thread::get_id(), .graph = std::make_unique<Graph>()});
  stream->ends.clear();
  captures_.push_back(stream->capture);
  return CUDA_SUCCESS;
}

CUresult SimDriver::StreamEndCapture(CUstream handle, CUgraph* graph) {
  Stream* stream = FindStream(handle);
  if (stream == nullptr) return InvalidHandle("stream");
  if (graph == nullptr) return InvalidValue("cuStreamEndCapture: null");
  *graph = nullptr;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return Fail(CUDA_ERROR_ILLEGAL_STATE, "cuStreamEndCapture: the stream is not captured");
  if (capture->origin != handle) {
    return Invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
                      "cuStreamEndCapture: the capture began in another stream");
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id()) {
    return Fail(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "cuStreamEndCapture: another thread began the capture");
  }
  bool joined = true;
  const std::vector<int> ends = stream->ends;
  for (const auto& [other_handle, other] : streams_.objects()) {
    if (other->capture != capture) continue;
    joined = joined && capture->graph->Covers(ends, other->ends);
    other->capture = nullptr;
    other->ends.clear();
  }
  capture->ended = true;
  std::erase(captures_, capture);
  if (capture->invalidated) {
    return Fail(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                "cuStreamEndCapture: an earlier call that is not allowed invalidated the capture");
  }
  if (!joined) {
    return Fail(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                "cuStreamEndCapture: the stream where the capture began does not wait for all work of another stream");
  }
  *graph = graphs_.Add(std::move(capture->graph));
  return CUDA_SUCCESS;
}

CUresult SimDriver::StreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  const Stream* stream = FindStream(handle);
  if (stream == nullptr) return InvalidHandle("stream");
  if (status == nullptr) return InvalidValue("cuStreamIsCapturing: null");
  if (stream == &legacy_) {
    if (const CUresult result = CheckLegacyAllowed(); result != CUDA_SUCCESS) return result;
  }
  *status = stream->capture == nullptr     ? CU_STREAM_CAPTURE_STATUS_NONE
            : stream->capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                           : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

CUresult SimDriver::RecordInCapture(Stream& stream, Event& event) {
  event = {.flags = event.flags, .recorded = {}, .capture = stream.capture, .nodes = stream.ends};
  return CUDA_SUCCESS;
}

CUresult SimDriver::WaitForCapturedEvent(CUstream handle, Stream& stream, const Event& event) {
  if (event.capture->ended) {
    return Fail(CUDA_ERROR_CAPTURED_EVENT, "cuStreamWaitEvent for an event that was recorded in a capture that ended");
  }
  if (event.capture->invalidated) {
    return Fail(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "cuStreamWaitEvent: the capture of the event is invalidated");
  }
  if (&stream == &legacy_) {
    return Invalidate(*event.capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                      "the legacy default stream cannot take part in a capture");
  }
  if (stream.capture != nullptr && stream.capture != event.capture) {
    stream.capture->invalidated = true;
    return Invalidate(*event.capture, CUDA_ERROR_STREAM_CAPTURE_MERGE, "cuStreamWaitEvent would join two captures");
  }
  stream.capture = event.capture;
  for (const int node : event.nodes) {
    if (std::find(stream.ends.begin(), stream.ends.end(), node) == stream.ends.end()) stream.ends.push_back(node);
  }
  return CUDA_SUCCESS;
}

}  // namespace cotan::cuda::sim
