// SPDX-License-Identifier: Apache-2.0

// Graphs of work, the captures that make them, and executable graphs.
#ifndef COTAN_KERNELS_CUDA_SIM_GRAPH_H_
#define COTAN_KERNELS_CUDA_SIM_GRAPH_H_

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/cuda/driver/driver_types.h"
#include "kernels/cuda/sim/device_memory.h"
#include "kernels/cuda/sim/work.h"
#include "kernels/cuda/sim/work_queue.h"

namespace cotan::cuda::sim {

struct GraphNode {
  driver::CUgraphNode handle = nullptr;
  Work work;
  std::vector<int> after;  // Nodes of smaller index.
};

// The recording of a capture.
class Graph {
 public:
  // Appends a node and returns its index.
  int Add(Work work, absl::Span<const int> after);

  // Returns whether all of `nodes` are among `ends` or come before one of them.
  bool Covers(absl::Span<const int> ends, absl::Span<const int> nodes) const;

  const std::vector<GraphNode>& nodes() const { return nodes_; }

 private:
  std::vector<GraphNode> nodes_;
};

// A capture in progress, or one that failed.
struct Capture {
  driver::CUstream origin = nullptr;
  driver::CUstreamCaptureMode mode = driver::CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  bool invalidated = false;
  bool ended = false;
  std::unique_ptr<Graph> graph;
};

// An instantiated graph.
class ExecutableGraph {
 public:
  // Copies the nodes of `graph`, whose handle is `source`; branches get lanes of `queue`.
  ExecutableGraph(driver::CUgraph source, const Graph& graph, DeviceMemory& memory, WorkQueue& queue);

  driver::CUgraph source() const { return source_; }

  // Returns the index of a node of the source, or -1.
  int Find(driver::CUgraphNode handle) const;
  const Work& work(int index) const { return nodes_[static_cast<size_t>(index)].work; }
  // Replaces the work from the next launch on.
  void SetWork(int index, Work work, DeviceMemory& memory);

  // FailedPrecondition: device memory or a module that a node refers to is gone.
  absl::Status CheckAlive(DeviceMemory& memory) const;

  // Returns the work of all nodes, in order.
  std::vector<const Work*> Works() const;

  // Queues the nodes, with `works` in place of their own, between `start` and the result, an item of `lane`.
  // Launches of one executable graph run one after the other.
  Ticket Queue(WorkQueue& queue, int lane, absl::Span<const Ticket> start, std::vector<Work> works);

 private:
  static constexpr int kLaneOfStream = -1;
  struct Node {
    driver::CUgraphNode handle = nullptr;
    Work work;
    std::vector<int> after;
    int lane = kLaneOfStream;
    bool is_last = true;              // No other node comes after it.
    std::vector<uint64_t> addresses;  // Of live device memory, when the work was set.
  };

  static std::vector<uint64_t> LiveAddresses(const Work& work, DeviceMemory& memory);

  const driver::CUgraph source_;
  std::vector<Node> nodes_;
  Ticket last_launch_;
};

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_GRAPH_H_
