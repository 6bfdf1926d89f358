// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/node.h"

#include <atomic>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "runtime/autograd/variable.h"

namespace cotan::autograd {
namespace {

using PendingNodes = absl::InlinedVector<std::shared_ptr<Node>, 8>;

// Nodes that the outermost Release() of this thread will destroy; null outside of Release().
thread_local PendingNodes* pending = nullptr;

uint64_t NextSequence() {
  static std::atomic<uint64_t> next{0};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

std::string GradientType::ToString() const {
  return absl::StrCat(DTypeName(dtype), "[", absl::StrJoin(sizes, ","), "]");
}

Node::Node() : sequence_(NextSequence()) {}

void Node::ReleaseEdges() {
  for (Edge& edge : edges_) Release(std::move(edge.node));
}

std::string Node::QualifiedName() const {
  return program_name().empty() ? std::string(name()) : absl::StrCat(program_name(), ".", name());
}

absl::Status Node::AddEdgesTo(absl::Span<const Variable> variables) {
  for (const Variable& variable : variables) {
    if (!variable.defined()) {
      AddEdge({});
      continue;
    }
    COTAN_ASSIGN_OR_RETURN(Edge edge, variable.GradientEdge());
    AddEdge(std::move(edge));
  }
  return absl::OkStatus();
}

int Node::AddInput(GradientType type) {
  inputs_.push_back(std::move(type));
  return num_inputs() - 1;
}

Hooks& Node::MutableHooks() {
  if (hooks_ == nullptr) hooks_ = std::make_shared<Hooks>();
  return *hooks_;
}

absl::Status Node::FreedError() const {
  return absl::FailedPreconditionError(absl::StrCat(name(),
                                                    ": trying to backward through the graph a second time, but the "
                                                    "saved values were freed by the first backward. Set "
                                                    "retain_graph in the first backward"));
}

absl::Status Node::NotDifferentiableError() const {
  return absl::UnimplementedError(
      absl::StrCat("create_graph: the gradients of ", name(),
                   " cannot be differentiated again (double backward). Give the operation a backward on Variables "
                   "(ApplyFunction()), or compute second derivatives inside the compiled function"));
}

void Release(std::shared_ptr<Node> node) {
  if (node == nullptr || node.use_count() > 1) return;
  if (pending != nullptr) {
    pending->push_back(std::move(node));
    return;
  }
  PendingNodes nodes;
  pending = &nodes;
  nodes.push_back(std::move(node));
  while (!nodes.empty()) {
    const std::shared_ptr<Node> last = std::move(nodes.back());
    nodes.pop_back();
  }
  pending = nullptr;
}

}  // namespace cotan::autograd
