// SPDX-License-Identifier: Apache-2.0

#include "aot/lowering/complex/complex.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/lowering/complex/complex_math.h"
#include "aot/lowering/complex/complex_node.h"
#include "aot/lowering/complex/complex_rules.h"

namespace cotan::aot {
namespace {

class Splitter {
 public:
  explicit Splitter(Graph& graph) : graph_(graph), at_(graph.nodes().begin()), math_(graph, at_) {}

  absl::Status Run() {
    for (const GraphInput& input : graph_.inputs()) {
      if (!IsComplex(input.value)) continue;
      pairs_[input.value] = math_.Emit("aten.view_as_real.default", {Use{input.value}}, PairType(graph_, input.value));
    }
    while (at_ != graph_.nodes().end()) {
      if (!Touches(*at_)) {
        ++at_;
        continue;
      }
      const Node node = *at_;
      math_.set_source(node.source);
      if (IsInterleavedComplex(node) && !Rewrite(node)) unsupported_.insert(node.op);
      at_ = graph_.nodes().erase(at_);
    }
    if (!unsupported_.empty()) {
      return absl::UnimplementedError(absl::StrCat(absl::StrJoin(unsupported_, ", "), " of complex numbers"));
    }
    for (GraphOutput& output : graph_.outputs()) {
      const auto pair = pairs_.find(output.value);
      if (pair == pairs_.end() || IsInput(output.value)) continue;
      output.value = math_.Emit("aten.view_as_complex.default", {Use{pair->second}}, graph_.value(output.value).type);
    }
    return absl::OkStatus();
  }

 private:
  // Emits the real form of a node before it; returns false if it has none.
  bool Rewrite(const Node& node) {
    const ComplexRule rule = FindComplexRule(node.op);
    if (rule == nullptr) return false;
    ComplexNode on_pairs(node, graph_, at_, math_, pairs_);
    return rule(on_pairs);
  }

  bool IsComplex(ValueId id) const { return id != kNoValue && cotan::IsComplex(graph_.value(id).type.dtype); }

  bool IsInput(ValueId id) const {
    return std::any_of(graph_.inputs().begin(), graph_.inputs().end(),
                       [id](const GraphInput& input) { return input.value == id; });
  }

  bool Touches(const Node& node) const {
    const std::vector<ValueId> operands = TensorOperands(node);
    const auto is_complex = [this](ValueId id) { return IsComplex(id); };
    return std::any_of(operands.begin(), operands.end(), is_complex) ||
           std::any_of(node.outputs.begin(), node.outputs.end(), is_complex);
  }

  // Returns false for values that depend on an unsupported op.
  bool IsInterleavedComplex(const Node& node) const {
    const std::vector<ValueId> operands = TensorOperands(node);
    return std::all_of(operands.begin(), operands.end(),
                       [this](ValueId id) { return !IsComplex(id) || pairs_.contains(id); });
  }

  Graph& graph_;
  Graph::NodeList::iterator at_;
  ComplexMath math_;
  ComplexPairs pairs_;
  std::set<std::string> unsupported_;
};

}  // namespace

absl::Status SplitComplex(Graph& graph) { return Splitter(graph).Run(); }

}  // namespace cotan::aot
