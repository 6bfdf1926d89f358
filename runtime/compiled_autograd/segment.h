// SPDX-License-Identifier: Apache-2.0

// Segment: the nodes of a backward between two calls of the host, described but not run.
#ifndef COTAN_RUNTIME_COMPILED_AUTOGRAD_SEGMENT_H_
#define COTAN_RUNTIME_COMPILED_AUTOGRAD_SEGMENT_H_

#include <vector>

#include "absl/container/inlined_vector.h"
#include "base/dtype.h"
#include "runtime/autograd/capture.h"
#include "runtime/autograd/graph_task.h"
#include "runtime/tensor/tensor.h"

namespace cotan {

// The sum of the gradients that arrive at one input of a node, in the engine's order: first a tensor, if there was one
// before the segment, then results of nodes of the segment.
struct Arrival {
  bool defined() const { return record_input >= 0 || !results.empty(); }

  DType dtype = DType::kUndefined;
  int rank = 0;
  int first_size = 0;  // in the record
  int record_input = -1;
  absl::InlinedVector<int, 2> results;
};

struct DescribedNode {
  autograd::GraphTask::Visit* visit = nullptr;
  bool runs = true;       // false: its gradients are only captured
  int first_arrival = 0;  // one for each input of the node
  int first_size = 0;
  int first_input = 0;
  int num_inputs = 0;  // that the node recorded
  int first_output = 0;
  size_t first_key = 0;
  int first_edge = 0;  // into Segment::results
  int num_edges = 0;
};

// A gradient that the host gets when the segment has run.
struct SegmentOutput {
  int arrival = 0;
  autograd::GraphTask::Visit* visit = nullptr;  // the input of a later node, or
  int input = 0;
  int captured = -1;  // an index of BackwardRun::captured()
};

struct Segment {
  bool empty() const { return nodes.empty(); }
  // Drops all references. Keeps the memory.
  void Clear();

  autograd::CaptureRecord record;
  std::vector<Arrival> arrivals;
  std::vector<DescribedNode> nodes;
  std::vector<SegmentOutput> outputs;
  std::vector<int> results;  // by edge of each node: the number of the result; -1: undefined or not needed
  int num_results = 0;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_COMPILED_AUTOGRAD_SEGMENT_H_
