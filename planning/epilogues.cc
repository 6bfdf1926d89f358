// SPDX-License-Identifier: Apache-2.0

#include "planning/epilogues.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"
#include "kernels/api/expr_program.h"
#include "kernels/api/matmul_epilogue.h"
#include "planning/expr_parts.h"
#include "planning/overwrite.h"

namespace cotan {
namespace {

using serialization::Expr;
using serialization::Method;
using serialization::Op;

// What an epilogue spares, in launches, if the expression would wait for a group anyway: the product's way to memory
// and back.
constexpr double kSparedPass = 0.25;

// Returns the dense row-major operand for `spec` in a new arena buffer.
Operand NewBuffer(const TensorSpec& spec, Schedule& schedule) {
  const int64_t bytes = NumElements(spec.layout.sizes) * static_cast<int64_t>(ByteSize(spec.dtype));
  schedule.buffers.push_back({BufferKind::kArena, 0, bytes});
  Operand operand;
  operand.buffer = static_cast<int>(schedule.buffers.size()) - 1;
  operand.geometry.dtype = spec.dtype;
  operand.geometry.layout = spec.layout;
  return operand;
}

// Gives an operand of a product [m, n] the rows of a domain [rows..., n] instead of its m.
void SplitRows(absl::Span<const int64_t> rows, Operand& operand) {
  StridedLayout& layout = operand.geometry.layout;
  const size_t at = layout.sizes.size() - 2;
  const bool repeats = layout.sizes[at] == 1;
  int64_t stride = layout.strides[at];
  DimVector sizes(rows.size(), 1);
  DimVector strides(rows.size(), stride);
  for (size_t d = rows.size(); d-- > 0 && !repeats;) {
    sizes[d] = rows[d];
    strides[d] = stride;
    stride *= rows[d];
  }
  sizes.push_back(layout.sizes.back());
  strides.push_back(layout.strides.back());
  layout.sizes = std::move(sizes);
  layout.strides = std::move(strides);
}

// One schedule, of which no step is a group yet.
class EpiloguePlacer {
 public:
  EpiloguePlacer(const Method& method, absl::Span<const int64_t> symbols, Schedule& schedule)
      : method_(method), symbols_(symbols), schedule_(schedule), memory_(FindSharedMemory(schedule)) {}

  absl::Status Place() {
    for (size_t i = 0; i < schedule_.steps.size(); ++i) COTAN_RETURN_IF_ERROR(SplitUnlessSmall(i));
    for (size_t i = schedule_.steps.size(); i-- > 0;) {
      const Op& op = OpOf(method_, schedule_.steps[i]);
      if (op.has_matmul() && !op.matmul().has_epilogue()) COTAN_RETURN_IF_ERROR(TryFuse(i));
    }
    return absl::OkStatus();
  }

 private:
  std::vector<ScheduledStep>& steps() { return schedule_.steps; }
  int MemoryOf(const Operand& operand) const { return memory_[static_cast<size_t>(operand.buffer)]; }

  bool Reads(const ScheduledStep& step, int memory) const {
    return std::any_of(step.inputs.begin(), step.inputs.end(), [&](const Operand& o) { return MemoryOf(o) == memory; });
  }
  bool Writes(const ScheduledStep& step, int memory) const {
    return std::any_of(step.outputs.begin(), step.outputs.end(),
                       [&](const Operand& o) { return MemoryOf(o) == memory; });
  }

  // Returns true if a step after `step` reads one of `outputs`, before another one writes it.
  bool IsReadLater(size_t step, const std::vector<Operand>& outputs) const {
    return std::any_of(outputs.begin(), outputs.end(), [&](const Operand& output) {
      for (size_t i = step + 1; i < schedule_.steps.size(); ++i) {
        if (Reads(schedule_.steps[i], MemoryOf(output))) return true;
        if (Writes(schedule_.steps[i], MemoryOf(output))) return false;
      }
      return false;
    });
  }

  KernelRequest RequestOf(const Op& op, const std::vector<TensorSpec>& inputs,
                          const std::vector<TensorSpec>& outputs) const {
    return {.op = op, .inputs = inputs, .outputs = outputs, .symbols = symbols_};
  }

  absl::Status SplitUnlessSmall(size_t i) {
    ScheduledStep& step = steps()[i];
    const Op& op = OpOf(method_, step);
    if (!op.has_matmul() || !op.matmul().has_epilogue()) return absl::OkStatus();
    const std::vector<TensorSpec> inputs = SpecsOf(step.inputs);
    const std::vector<TensorSpec> outputs = SpecsOf(step.outputs);
    COTAN_ASSIGN_OR_RETURN(MatmulParts parts, TakeApartMatmul(RequestOf(op, inputs, outputs)));
    const double spared = IsReadLater(i, step.outputs) ? 1 : kSparedPass;
    if (IsSmallProduct(inputs[0], parts.expr_inputs[0], spared)) return absl::OkStatus();
    const Operand product = NewBuffer(parts.expr_inputs[0], schedule_);
    memory_.push_back(product.buffer);
    ScheduledStep epilogue = {.op = step.op,
                              .inputs = {product},
                              .outputs = std::move(step.outputs),
                              .part = std::make_shared<const Op>(std::move(parts.expr_op))};
    epilogue.inputs.insert(epilogue.inputs.end(), step.inputs.begin() + 2, step.inputs.end());
    step.inputs.resize(2);
    step.outputs = {product};
    step.part = std::make_shared<const Op>(std::move(parts.product_op));
    steps().insert(steps().begin() + static_cast<std::ptrdiff_t>(i) + 1, std::move(epilogue));
    return absl::OkStatus();
  }

  struct Reader {
    size_t step = 0;
    bool operands_change = false;  // before it, a step writes an operand of the product
  };

  // Returns the only reader of the product of step `p` if it is an expression.
  std::optional<Reader> FindReader(size_t p) const {
    const ScheduledStep& step = schedule_.steps[p];
    const Operand& product = step.outputs[0];
    const int memory = MemoryOf(product);
    if (schedule_.buffers[static_cast<size_t>(product.buffer)].kind != BufferKind::kArena) return std::nullopt;
    Reader reader;
    for (reader.step = p + 1; reader.step < schedule_.steps.size(); ++reader.step) {
      const ScheduledStep& next = schedule_.steps[reader.step];
      if (Reads(next, memory)) {
        const bool is_last = Writes(next, memory) || !IsReadLater(reader.step, {product});
        return OpOf(method_, next).has_expr() && is_last ? std::optional(reader) : std::nullopt;
      }
      if (Writes(next, memory)) return std::nullopt;
      for (const Operand& input : step.inputs) reader.operands_change |= Writes(next, MemoryOf(input));
    }
    return std::nullopt;
  }

  // Returns true if `fused`, made of steps `p` and `reader`, may be executed at the place of `p`: the steps between
  // them do not access its results, which no check has to precede, and do not write what the epilogue reads.
  bool MayBeEarly(const ScheduledStep& fused, size_t p, size_t reader) const {
    for (const Operand& output : fused.outputs) {
      const BufferKind kind = schedule_.buffers[static_cast<size_t>(output.buffer)].kind;
      if (kind == BufferKind::kState || kind == BufferKind::kInput) return false;
    }
    for (size_t i = p + 1; i < reader; ++i) {
      const ScheduledStep& step = schedule_.steps[i];
      const auto writes = [&](const Operand& operand) { return Writes(step, MemoryOf(operand)); };
      const auto accesses = [&](const Operand& operand) { return writes(operand) || Reads(step, MemoryOf(operand)); };
      if (std::any_of(fused.inputs.begin() + 2, fused.inputs.end(), writes)) return false;
      if (std::any_of(fused.outputs.begin(), fused.outputs.end(), accesses)) return false;
    }
    return true;
  }

  absl::Status TryFuse(size_t p) {
    const std::optional<Reader> reader = FindReader(p);
    if (!reader) return absl::OkStatus();
    const ScheduledStep& product = steps()[p];
    const ScheduledStep& expression = steps()[reader->step];
    const std::vector<TensorSpec> inputs = SpecsOf(expression.inputs);
    const std::vector<TensorSpec> outputs = SpecsOf(expression.outputs);
    COTAN_ASSIGN_OR_RETURN(const ExprProgram program,
                           ResolveExpr(RequestOf(OpOf(method_, expression), inputs, outputs)));
    const std::optional<ExprParts> parts = PartsOf(product, reader->step, program);
    if (!parts) return absl::OkStatus();
    std::optional<ScheduledStep> fused = MakeFused(product, expression, program, *parts);
    if (!fused || !IsSafe(*fused)) return absl::OkStatus();
    if (reader->operands_change && !MayBeEarly(*fused, p, reader->step)) return absl::OkStatus();
    std::optional<ScheduledStep> rest;
    if (parts->has_rest) {
      rest = MakeRest(expression, *parts);
      if (!IsSafe(*rest) || Overwrites(*fused, *rest, *parts)) return absl::OkStatus();
    }
    Replace(p, *reader, *std::move(fused), std::move(rest));
    return absl::OkStatus();
  }

  // Puts the new steps in the places of the product and its reader.
  void Replace(size_t p, const Reader& reader, ScheduledStep fused, std::optional<ScheduledStep> rest) {
    if (reader.operands_change) {
      steps()[p] = std::move(fused);
      if (rest) {
        steps()[reader.step] = *std::move(rest);
      } else {
        steps().erase(steps().begin() + static_cast<std::ptrdiff_t>(reader.step));
      }
      return;
    }
    steps()[reader.step] = std::move(fused);
    if (rest) steps().insert(steps().begin() + static_cast<std::ptrdiff_t>(reader.step) + 1, *std::move(rest));
    steps().erase(steps().begin() + static_cast<std::ptrdiff_t>(p));
  }

  // Returns what becomes an epilogue of the expression that reads a product, and what does not.
  std::optional<ExprParts> PartsOf(const ScheduledStep& product, size_t reader, const ExprProgram& program) const {
    const ScheduledStep& expression = schedule_.steps[reader];
    std::vector<bool> is_product;
    for (const Operand& input : expression.inputs)
      is_product.push_back(MemoryOf(input) == MemoryOf(product.outputs[0]));
    std::optional<ExprParts> parts =
        SplitExpr(OpOf(method_, expression).expr(), program, is_product, product.outputs[0].geometry.dtype);
    if (!parts) return std::nullopt;
    std::vector<Operand> fused;
    std::vector<Operand> rest;
    for (const int output : parts->fused_outputs) fused.push_back(expression.outputs[static_cast<size_t>(output)]);
    for (const int output : parts->rest_outputs) rest.push_back(expression.outputs[static_cast<size_t>(output)]);
    const bool is_urgent = IsReadLater(reader, fused);
    if (parts->has_rest && (!is_urgent || IsReadLater(reader, rest))) return std::nullopt;
    const double spared = is_urgent ? 1 : kSparedPass;
    if (!IsSmallProduct(SpecOf(product.inputs[0]), SpecOf(product.outputs[0]), spared)) return std::nullopt;
    return parts;
  }

  // Returns the matmul with its epilogue, or nothing if the product cannot have the domain of the expression, or has an
  // addend that is rounded together with it.
  std::optional<ScheduledStep> MakeFused(const ScheduledStep& product, const ScheduledStep& expression,
                                         const ExprProgram& program, const ExprParts& parts) const {
    const Operand& result = product.outputs[0];
    const DimVector& sizes = result.geometry.layout.sizes;
    const DimVector& domain = program.domain_sizes;
    const bool has_addend = product.inputs.size() == 3;
    if (has_addend && ByteSize(result.geometry.dtype) == 2) return std::nullopt;
    for (const Operand& input : expression.inputs) {
      if (MemoryOf(input) != MemoryOf(result)) continue;
      const StridedLayout& seen = input.geometry.layout;
      const bool is_whole = seen.sizes == domain && IsContiguous(seen) &&
                            seen.offset == result.geometry.layout.offset &&
                            input.geometry.dtype == result.geometry.dtype;
      if (!is_whole || !IsContiguous(result.geometry.layout)) return std::nullopt;
    }
    ScheduledStep step = {.op = product.op, .inputs = product.inputs, .outputs = {}};
    if (domain != sizes) {
      const bool splits_rows = sizes.size() == 2 && domain.size() >= 2 && domain.back() == sizes[1] &&
                               NumElements(domain) == NumElements(sizes) && sizes[1] != 0;
      if (!splits_rows) return std::nullopt;
      const absl::Span<const int64_t> rows = absl::MakeConstSpan(domain).subspan(0, domain.size() - 1);
      SplitRows(rows, step.inputs[0]);
      if (has_addend && step.inputs[2].geometry.layout.rank() >= 2) SplitRows(rows, step.inputs[2]);
    }
    Op op;
    *op.mutable_matmul()->mutable_epilogue() = EpilogueOf(parts, has_addend, result.geometry.dtype);
    for (const int input : parts.fused_inputs) step.inputs.push_back(expression.inputs[static_cast<size_t>(input)]);
    for (const int output : parts.fused_outputs)
      step.outputs.push_back(expression.outputs[static_cast<size_t>(output)]);
    step.part = std::make_shared<const Op>(std::move(op));
    return step;
  }

  static ScheduledStep MakeRest(const ScheduledStep& expression, const ExprParts& parts) {
    ScheduledStep step = {.op = expression.op, .inputs = {}, .outputs = {}};
    for (const int input : parts.rest_inputs) step.inputs.push_back(expression.inputs[static_cast<size_t>(input)]);
    for (const int output : parts.fused_outputs) step.inputs.push_back(expression.outputs[static_cast<size_t>(output)]);
    for (const int output : parts.rest_outputs) step.outputs.push_back(expression.outputs[static_cast<size_t>(output)]);
    Op op;
    *op.mutable_expr() = parts.rest;
    step.part = std::make_shared<const Op>(std::move(op));
    return step;
  }

  // Returns true if outputs of the step may be where they are.
  bool IsSafe(const ScheduledStep& step) const {
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      for (size_t k = 0; k < step.outputs.size(); ++k) {
        const bool shares = MemoryOf(step.inputs[i]) == MemoryOf(step.outputs[k]);
        if (shares && !IsSafeInPlace(method_, step, symbols_, static_cast<int>(i), static_cast<int>(k))) return false;
      }
    }
    return true;
  }

  // Returns true if the epilogue writes memory that the rest reads, other than its outputs.
  bool Overwrites(const ScheduledStep& fused, const ScheduledStep& rest, const ExprParts& parts) const {
    return std::any_of(rest.inputs.begin(), rest.inputs.begin() + static_cast<std::ptrdiff_t>(parts.rest_inputs.size()),
                       [&](const Operand& input) { return Writes(fused, MemoryOf(input)); });
  }

  const Method& method_;
  const absl::Span<const int64_t> symbols_;
  Schedule& schedule_;
  std::vector<int> memory_;  // by buffer
};

}  // namespace

absl::Status PlaceEpilogues(const Method& method, absl::Span<const int64_t> symbols, Schedule& schedule) {
  return EpiloguePlacer(method, symbols, schedule).Place();
}

std::vector<int> FindSharedMemory(const Schedule& schedule) {
  absl::flat_hash_map<std::pair<BufferKind, int>, int> first;
  std::vector<int> memory;
  for (size_t i = 0; i < schedule.buffers.size(); ++i) {
    const Buffer& buffer = schedule.buffers[i];
    const int own = static_cast<int>(i);
    memory.push_back(buffer.kind == BufferKind::kArena
                         ? own
                         : first.try_emplace(std::pair(buffer.kind, buffer.index), own).first->second);
  }
  return memory;
}

}  // namespace cotan
