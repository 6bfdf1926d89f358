// SPDX-License-Identifier: Apache-2.0

#include "kernels/reference/expr.h"

#include <utility>
#include <vector>

#include "base/philox.h"
#include "base/status_macros.h"
#include "kernels/api/expr_program.h"
#include "kernels/reference/element.h"
#include "kernels/reference/scalar_functions.h"

namespace cotan::reference {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many

class ExprKernel final : public Kernel {
 public:
  ExprKernel(ExprProgram program, absl::Span<const TensorSpec> inputs, absl::Span<const TensorSpec> outputs)
      : program_(std::move(program)),
        inputs_(inputs.begin(), inputs.end()),
        outputs_(outputs.begin(), outputs.end()),
        domain_strides_(ContiguousStrides(program_.domain_sizes)),
        reduced_strides_(ContiguousStrides(program_.reduced_sizes)) {
    for (size_t d = 0; d < program_.reduce.size(); ++d) {
      if (program_.reduce[d]) reduced_strides_[d] = 0;
    }
  }

  absl::Status Run(const KernelArgs& args) override {
    std::vector<std::vector<Scalar>> results(program_.nodes.size());
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      const ExprNode& node = program_.nodes[i];
      results[i].resize(static_cast<size_t>(NumElements(SizesOf(node))));
      if (IsExprReduction(node.fn)) {
        Reduce(node, results, results[i]);
      } else {
        ForEachIndex(SizesOf(node), [&](absl::Span<const int64_t> index) {
          results[i][At(node, index)] = Evaluate(node, index, results, args);
        });
      }
    }
    for (size_t k = 0; k < program_.outputs.size(); ++k) {
      const auto stored = static_cast<size_t>(program_.outputs[k]);
      const ExprNode& node = program_.nodes[stored];
      ForEachIndex(SizesOf(node), [&](absl::Span<const int64_t> index) {
        Store(node.dtype, args.outputs[k], Offset(index, outputs_[k].layout.strides), results[stored][At(node, index)]);
      });
    }
    return absl::OkStatus();
  }

 private:
  using Results = std::vector<std::vector<Scalar>>;

  const DimVector& SizesOf(const ExprNode& node) const {
    return node.level == ExprLevel::kFull ? program_.domain_sizes : program_.reduced_sizes;
  }

  // Position of a domain index in the results of a node.
  size_t At(const ExprNode& node, absl::Span<const int64_t> index) const {
    return static_cast<size_t>(Offset(index, node.level == ExprLevel::kFull ? domain_strides_ : reduced_strides_));
  }

  Scalar Operand(const ExprNode& node, size_t k, absl::Span<const int64_t> index, const Results& results) const {
    if (static_cast<int>(k) >= ExprArity(node.fn)) return {};
    const auto operand = static_cast<size_t>(node.operands[k]);
    return results[operand][At(program_.nodes[operand], index)];
  }

  DType OperandDType(const ExprNode& node, size_t k) const {
    return program_.nodes[static_cast<size_t>(node.operands[k])].dtype;
  }

  Scalar Evaluate(const ExprNode& node, absl::Span<const int64_t> index, const Results& results,
                  const KernelArgs& args) const {
    switch (node.fn) {
      case FN_INPUT: {
        const auto input = static_cast<size_t>(node.index);
        const DimVector strides = BroadcastStrides(inputs_[input].layout, program_.domain_sizes);
        return Load(node.dtype, args.inputs[input], Offset(index, strides));
      }
      case FN_CONSTANT:
      case FN_SIZE:
        return RoundTo(node.dtype, {node.float_value, node.int_value});
      case FN_IOTA: {
        const int64_t position = index[static_cast<size_t>(node.index)];
        return RoundTo(node.dtype, {static_cast<double>(position), position});
      }
      case FN_RANDOM_UNIFORM: {
        const auto input = static_cast<size_t>(node.index);
        const void* state = args.inputs[input];
        const int64_t stride = inputs_[input].layout.strides[0];
        const auto seed = static_cast<uint64_t>(ReadAs<int64_t>(state, 0));
        const auto offset = static_cast<uint64_t>(ReadAs<int64_t>(state, stride));
        const auto element = static_cast<uint64_t>(Offset(index, domain_strides_));
        const PhiloxBlock block = Philox(seed, offset + node.slice + element / 4);
        return {UniformFloat(block.lane[element % 4]), 0};
      }
      case FN_CAST:
        return Cast(OperandDType(node, 0), node.dtype, Operand(node, 0, index, results));
      default:
        // A function computes in the dtype of its last operand: the first one of a select is bool.
        return Apply(node.fn, OperandDType(node, static_cast<size_t>(ExprArity(node.fn) - 1)),
                     Operand(node, 0, index, results), Operand(node, 1, index, results),
                     Operand(node, 2, index, results));
    }
  }

  void Reduce(const ExprNode& node, const Results& results, std::vector<Scalar>& totals) const {
    for (Scalar& total : totals) total = ReduceStart(node.fn, node.dtype);
    ForEachIndex(program_.domain_sizes, [&](absl::Span<const int64_t> index) {
      Scalar& total = totals[At(node, index)];
      total = ReduceStep(node.fn, node.dtype, total, Operand(node, 0, index, results));
    });
    for (Scalar& total : totals) total = RoundTo(node.dtype, total);
  }

  const ExprProgram program_;
  const std::vector<TensorSpec> inputs_;
  const std::vector<TensorSpec> outputs_;
  const DimVector domain_strides_;
  DimVector reduced_strides_;  // 0 along reduce dims
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeExpr(const KernelRequest& request) {
  COTAN_ASSIGN_OR_RETURN(ExprProgram program, ResolveExpr(request));
  return std::make_unique<ExprKernel>(std::move(program), request.inputs, request.outputs);
}

}  // namespace cotan::reference
