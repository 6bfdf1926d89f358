// SPDX-License-Identifier: Apache-2.0

// CaptureRun: runs one backward by linked programs.
#ifndef COTAN_RUNTIME_COMPILED_AUTOGRAD_CAPTURE_RUN_H_
#define COTAN_RUNTIME_COMPILED_AUTOGRAD_CAPTURE_RUN_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/autograd/backward_run.h"
#include "runtime/compiled_autograd/capture_cache.h"
#include "runtime/compiled_autograd/nan_check.h"
#include "runtime/compiled_autograd/segment.h"

namespace cotan {

// Counters of a thread, since the last reset.
struct CaptureStats {
  int64_t backwards = 0;
  int64_t captures = 0;         // backwards of which at least one segment was captured
  int64_t hits = 0;             // backwards all of whose segments had been captured
  int64_t plans = 0;            // plans made; more than captures if sizes are symbols
  int64_t segments = 0;         // segments run
  int64_t walked_segments = 0;  // segments that were run node by node; messages say why
  int64_t called_nodes = 0;     // nodes called through: user nodes, nodes with hooks
};

// The state that the backwards of a thread share.
struct CaptureState {
  CaptureCache cache;
  LinkedArena arena;
  CaptureStats stats;
  std::vector<std::string> reasons;   // of captures, the last kMaxMessages
  std::vector<std::string> messages;  // why segments were walked, the last kMaxMessages
  std::vector<std::string> trace;     // steps of the last backward, if options ask for it
  std::string text;                   // of the linked methods of the last capture
  std::string steps;                  // of the nodes of the last capture
  Segment segment;
  std::vector<Tensor> outputs;
  bool is_running = false;

  static constexpr size_t kMaxMessages = 256;
};

// Visits the nodes in the engine's order. Nodes that can be captured are described and collected; before a hook or a
// node that is called through, the collected segment runs. Used for one backward.
class CaptureRun {
 public:
  CaptureRun(autograd::BackwardRun& run, CaptureState& state, const CaptureSettings& settings);

  // Runs the backward. Errors of nodes, hooks and linked programs.
  absl::Status Execute();

 private:
  using Visit = autograd::GraphTask::Visit;
  // Results of the segment that arrive at a node: (input, result).
  using Pending = absl::InlinedVector<std::pair<int, int>, 2>;

  absl::Status VisitNode(Visit& visit);
  // Adds the node to the segment; returns false if it has to be called through.
  absl::StatusOr<bool> Describe(Visit& visit);
  void AddDescribed(Visit& visit, const DescribedNode& from, absl::Span<const bool> needed,
                    absl::Span<const bool> results);
  void BeginSegment();
  // Moves what arrives at the input into the segment; returns the index of the arrival.
  int AddArrival(Visit& visit, int input);
  void CaptureOnly(Visit& visit);
  Pending& PendingAt(const Visit& visit);
  bool Arrives(Visit& visit, int input);

  // Runs the segment; `next` says what follows. `refusal`: why it cannot be captured.
  absl::Status Flush(absl::string_view next, const absl::Status& refusal = absl::OkStatus());
  absl::StatusOr<CaptureCache::Found> FindProgram();
  absl::Status RunSegment(const CaptureCache::Found& found);
  absl::Status FindOverlap() const;
  absl::Status Complete();
  // Runs the nodes of the segment one by one, because of `reason`.
  absl::Status WalkSegment(const absl::Status& reason);
  // Returns the nodes of the segment as text (CompiledAutograd::Steps()).
  std::string Steps() const;
  void Note(std::vector<std::string>& list, std::string text) const;
  // Returns "EVENT 3 nodes from NAME on: REASON" for the segment, after giving it to the log.
  std::string Log(absl::string_view event, absl::string_view reason) const;

  autograd::BackwardRun& run_;
  CaptureState& state_;
  const CaptureSettings settings_;
  const ExecutionTarget target_;
  Segment& segment_;
  std::vector<Pending> pending_;                  // by visit
  std::vector<std::pair<Visit*, int>> arriving_;  // inputs with pending results, in order of the first
  uint64_t previous_ = 0;                         // fingerprint of the segment before, and of what followed
  NanCheck nan_check_;
  bool captured_ = false;
  bool walked_ = false;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_COMPILED_AUTOGRAD_CAPTURE_RUN_H_
