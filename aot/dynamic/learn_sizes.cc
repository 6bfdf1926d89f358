// SPDX-License-Identifier: Apache-2.0

#include "aot/dynamic/learn_sizes.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/dynamic/random_slices.h"
#include "aot/dynamic/size_fitter.h"
#include "aot/dynamic/window.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using Integers = std::vector<int64_t>;
using Sizes = std::vector<SymInt>;

// "aten.view.default in layer1.0".
std::string NodeText(const Node& node) {
  return node.source.empty() ? node.op : absl::StrCat(node.op, " in ", node.source);
}

class Learner {
 public:
  Learner(const DynamicShapes& shapes, absl::Span<const DimVector> points, int num_base, LearnedSizes& learned)
      : shapes_(shapes),
        num_base_(static_cast<size_t>(num_base)),
        fitter_(std::vector<DimVector>(points.begin(), points.end())),
        base_fitter_(std::vector<DimVector>(points.begin(), points.begin() + num_base)),
        learned_(learned) {}

  absl::Status Learn(const MethodTraces& traces) {
    method_ = traces.name;
    graphs_ = &traces.graphs;
    std::vector<Graph::NodeList::const_iterator> nodes;
    for (const Graph& graph : *graphs_) nodes.push_back(graph.nodes().begin());
    COTAN_RETURN_IF_ERROR(LearnInputs(/*tangents=*/false));
    LearnRandomSlices();
    const Graph& first = graphs_->front();
    for (const Node& node : first.nodes()) {
      std::vector<const Node*> same;
      for (size_t k = 0; k < nodes.size(); ++k) {
        if (nodes[k] == (*graphs_)[k].nodes().end()) return DiffersFrom(NodeText(node), k, "its end");
        same.push_back(&*nodes[k]++);
        if (same[k]->op != node.op) return DiffersFrom(NodeText(node), k, NodeText(*same[k]));
      }
      COTAN_RETURN_IF_ERROR(LearnNode(same));
    }
    for (size_t k = 0; k < nodes.size(); ++k) {
      if (nodes[k] != (*graphs_)[k].nodes().end()) return DiffersFrom("its end", k, NodeText(*nodes[k]));
    }
    return LearnInputs(/*tangents=*/true);
  }

 private:
  absl::Status Refuse(absl::string_view where, absl::string_view what) const {
    std::vector<std::string> points;
    for (const DimVector& point : fitter_.points()) points.push_back(absl::StrCat("{", shapes_.ToString(point), "}"));
    return absl::InvalidArgumentError(absl::StrCat("method '", method_, "', ", where, ": ", what, " (traced with ",
                                                   absl::StrJoin(points, ", "), ")"));
  }

  absl::Status DiffersFrom(absl::string_view where, size_t point, absl::string_view other) const {
    return absl::InvalidArgumentError(absl::StrCat(
        "method '", method_, "': what it computes depends on its sizes: where it has ", where, " with ",
        shapes_.ToString(fitter_.points()[0]), ", it has ", other, " with ", shapes_.ToString(fitter_.points()[point]),
        "; narrow the ranges of the dynamic dimensions to one of the ways, or make the model independent of the size"));
  }

  // Tangents have the sizes of outputs, whose producers give more information about them.
  absl::Status LearnInputs(bool tangents) {
    const Graph& first = graphs_->front();
    for (size_t i = 0; i < first.inputs().size(); ++i) {
      const GraphInput& input = first.inputs()[i];
      if ((input.kind == InputKind::kTangent) != tangents) continue;
      const std::string where = absl::StrCat("input '", input.name, "'");
      for (const Graph& graph : *graphs_) {
        if (i >= graph.inputs().size() || graph.inputs()[i].kind != input.kind ||
            graph.inputs()[i].value != input.value) {
          return Refuse(where, "there are other inputs at other sizes");
        }
      }
      COTAN_RETURN_IF_ERROR(LearnType(input.value, where));
    }
    return absl::OkStatus();
  }

  absl::Status LearnType(ValueId value, const std::string& where) {
    if (value == kNoValue) return absl::OkStatus();
    const TensorType& type = graphs_->front().value(value).type;
    for (const Graph& graph : *graphs_) {
      const TensorType& other = graph.value(value).type;
      if (other.dtype != type.dtype || other.sizes.size() != type.sizes.size()) {
        return Refuse(where, "its dtype or rank depends on the size");
      }
    }
    for (size_t d = 0; d < type.sizes.size(); ++d) {
      Integers values;
      for (const Graph& graph : *graphs_) values.push_back(graph.value(value).type.sizes[d].constant());
      COTAN_RETURN_IF_ERROR(LearnSize(values, where));
    }
    return absl::OkStatus();
  }

  absl::Status LearnSize(const Integers& values, const std::string& where) {
    const std::optional<SymInt> size = fitter_.Fit(values);
    if (!size.has_value()) {
      return Refuse(where, absl::StrCat("a size is not a known function of the dynamic dimensions: it was ",
                                        absl::StrJoin(values, ", ")));
    }
    const Integers base(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(num_base_));
    const auto [known, is_new] = known_.try_emplace(base, values);
    if (known->second != values) {
      return Refuse(where, absl::StrCat("sizes that are equal at the first points differ at others: ",
                                        absl::StrJoin(values, ", "), " and ", absl::StrJoin(known->second, ", "),
                                        "; narrow the ranges of the dynamic dimensions"));
    }
    if (is_new && !size->is_constant()) learned_.others.push_back(*size);
    return absl::OkStatus();
  }

  absl::Status LearnNode(const std::vector<const Node*>& nodes) {
    const Node& first = *nodes[0];
    const std::string where = NodeText(first);
    for (const Node* node : nodes) {
      if (node->arguments.size() != first.arguments.size() || node->outputs != first.outputs) {
        return Refuse(where, "it has other operands or results at other sizes");
      }
    }
    LearnWindows(first);
    for (const ValueId output : first.outputs) COTAN_RETURN_IF_ERROR(LearnType(output, where));
    for (size_t i = 0; i < first.arguments.size(); ++i) {
      std::vector<const Argument*> arguments;
      for (const Node* node : nodes) arguments.push_back(&node->arguments[i]);
      COTAN_RETURN_IF_ERROR(LearnArgument(arguments, where));
    }
    return absl::OkStatus();
  }

  absl::Status LearnArgument(const std::vector<const Argument*>& arguments, const std::string& where) {
    const Argument& first = *arguments[0];
    for (const Argument* argument : arguments) {
      if (argument->index() != first.index()) return Refuse(where, "an argument is of another kind at other sizes");
    }
    if (std::holds_alternative<SymInt>(first)) {
      Integers values;
      for (const Argument* argument : arguments) values.push_back(std::get<SymInt>(*argument).constant());
      return LearnSize(values, where);
    }
    if (const Sizes* sizes = std::get_if<Sizes>(&first)) {
      for (size_t d = 0; d < sizes->size(); ++d) {
        Integers values;
        for (const Argument* argument : arguments) {
          const Sizes& other = std::get<Sizes>(*argument);
          if (other.size() != sizes->size()) return Refuse(where, "it has more sizes at other sizes");
          values.push_back(other[d].constant());
        }
        COTAN_RETURN_IF_ERROR(LearnSize(values, where));
      }
      return absl::OkStatus();
    }
    if (std::holds_alternative<double>(first)) {
      std::vector<double> values;
      for (const Argument* argument : arguments) values.push_back(std::get<double>(*argument));
      return CheckNumber(values, where);
    }
    for (const Argument* argument : arguments) {
      if (*argument == first) continue;
      return Refuse(where, std::holds_alternative<Use>(first) ? "it takes another value at other sizes"
                                                              : "an argument depends on the size");
    }
    return absl::OkStatus();
  }

  // Numbers are fitted at the base points, where the artifacts are compiled. Refuses one that is something else at the
  // ends of the ranges.
  absl::Status CheckNumber(absl::Span<const double> values, const std::string& where) {
    const auto is_same = [](double a, double b) {
      return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= 1e-6 * std::abs(b);
    };
    const auto is_constant = [&](absl::Span<const double> numbers) {
      return std::all_of(numbers.begin(), numbers.end(), [&](double number) { return is_same(number, numbers[0]); });
    };
    if (is_constant(values)) return absl::OkStatus();
    const absl::Span<const double> base = values.first(num_base_);
    bool is_known = !is_constant(base);
    if (is_known) {
      const std::optional<NumberFit> fit = base_fitter_.FitNumber(base, /*tolerance=*/1e-14);
      if (!fit.has_value()) return absl::OkStatus();  // refused where an expression has it
      for (size_t k = num_base_; k < values.size(); ++k) {
        const absl::StatusOr<int64_t> size = fit->size.Evaluate(fitter_.points()[k]);
        is_known = is_known && size.ok() && is_same(fit->Evaluate(*size), values[k]);
      }
    }
    if (is_known) return absl::OkStatus();
    return Refuse(where, absl::StrCat("a number is not a known function of the dynamic dimensions: it was ",
                                      absl::StrJoin(values, ", "), "; narrow the ranges of the dynamic dimensions"));
  }

  // Adds the exact sizes after convolution and pooling, with their rounding.
  void LearnWindows(const Node& node) {
    const bool is_convolution = node.op == "aten.convolution.default";
    const bool is_pool = node.op == "aten.max_pool2d_with_indices.default" || node.op == "aten.avg_pool2d.default";
    if (!is_convolution && !is_pool) return;
    const ValueId input = std::get<Use>(node.arguments[0]).value;
    const auto list = [&](size_t i) -> Integers {
      const Sizes* sizes = std::get_if<Sizes>(&node.arguments[i]);
      Integers result;
      if (sizes == nullptr) return result;
      for (const SymInt& size : *sizes) result.push_back(size.constant());
      return result;
    };
    const auto at = [](const Integers& values, size_t i, int64_t otherwise) {
      if (values.empty()) return otherwise;
      return values[std::min(i, values.size() - 1)];
    };
    const Graph& first = graphs_->front();
    const size_t rank = first.value(input).type.sizes.size();
    const size_t spatial =
        is_convolution ? first.value(std::get<Use>(node.arguments[1]).value).type.sizes.size() - 2 : 2;
    for (size_t i = 0; i < spatial; ++i) {
      Window window;
      if (is_convolution) {
        if (std::get<bool>(node.arguments[6])) return;  // transposed
        window.kernel = first.value(std::get<Use>(node.arguments[1]).value).type.sizes[2 + i].constant();
        window.stride = at(list(3), i, 1);
        window.padding = at(list(4), i, 0);
        window.dilation = at(list(5), i, 1);
      } else {
        window.kernel = at(list(1), i, 1);
        window.stride = at(list(2), i, window.kernel);
        window.padding = at(list(3), i, 0);
        const bool is_max = node.arguments.size() > 5 && std::holds_alternative<Sizes>(node.arguments[4]);
        if (is_max) window.dilation = at(list(4), i, 1);
        if (const bool* ceil_mode = std::get_if<bool>(&node.arguments[is_max ? 5 : 4])) window.ceil_mode = *ceil_mode;
      }
      LearnWindow(input, node.outputs[0], rank - spatial + i, window);
    }
  }

  void LearnWindow(ValueId input, ValueId output, size_t dim, const Window& window) {
    Integers before, after;
    for (const Graph& graph : *graphs_) {
      before.push_back(graph.value(input).type.sizes[dim].constant());
      after.push_back(graph.value(output).type.sizes[dim].constant());
    }
    const std::optional<SymInt> size = fitter_.Fit(before);
    if (!size.has_value() || size->is_constant() || window.stride <= 0) return;
    const SymInt result = WindowCount(*size, window);
    for (size_t k = 0; k < after.size(); ++k) {
      const absl::StatusOr<int64_t> value = result.Evaluate(fitter_.points()[k]);
      if (!value.ok() || *value != after[k]) return;
    }
    fitter_.AddKnown(result);
    base_fitter_.AddKnown(result);
    learned_.windows.push_back(result);
  }

  void LearnRandomSlices() {
    std::vector<Draw> draws;
    for (const Graph& graph : *graphs_) {
      size_t i = 0;
      for (const Node& node : graph.nodes()) {
        if (node.op != "cotan.random_uniform.default") continue;
        if (&graph == &graphs_->front()) draws.emplace_back();
        if (i == draws.size()) return;  // rejected later
        int64_t count = 1;
        for (const SymInt& size : std::get<Sizes>(node.arguments[1])) count *= size.constant();
        draws[i].slice.push_back(std::get<SymInt>(node.arguments[2]).constant());
        draws[i++].count.push_back(count);
      }
      if (i != draws.size()) return;
    }
    for (const SymInt& slice : SlicesOf(std::move(draws), fitter_)) {
      fitter_.Remember(slice);
      learned_.others.push_back(slice);
    }
  }

  const DynamicShapes& shapes_;
  const size_t num_base_;
  SizeFitter fitter_;
  SizeFitter base_fitter_;
  LearnedSizes& learned_;
  std::string method_;
  const std::vector<Graph>* graphs_ = nullptr;
  std::map<Integers, Integers> known_;  // sizes at the base points -> at all points
};

}  // namespace

absl::StatusOr<LearnedSizes> InferSymbolicSizes(const DynamicShapes& shapes, absl::Span<const DimVector> points,
                                                int num_base, absl::Span<const MethodTraces> methods) {
  LearnedSizes learned;
  Learner learner(shapes, points, num_base, learned);
  for (const MethodTraces& traces : methods) COTAN_RETURN_IF_ERROR(learner.Learn(traces));
  return learned;
}

}  // namespace cotan::aot
