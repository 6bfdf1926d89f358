// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/fuzz/generate_program.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/string_view.h"
#include "testing/conformance/fuzz/program_limits.h"
#include "testing/conformance/fuzz/random_ops.h"

namespace cotan::conformance {
namespace {

using Numbers = std::vector<int64_t>;

bool IsAllOfItsMemory(const at::Tensor& tensor) {
  return tensor.is_contiguous() && tensor.nbytes() == tensor.storage().nbytes();
}

// Returns whether Cotan refuses many of the programs that have such a step.
bool IsOftenRefused(const RandomStep& step, const at::Tensor& arg) {
  if (step.op == "view_dtype") return !arg.is_complex();
  return step.op == "as_strided" && !IsAllOfItsMemory(arg);
}

bool IsInRange(RandomOpKind kind, absl::string_view name, ProgramRange range) {
  static constexpr absl::string_view kWideOnly[] = {"to",         "data",       "view_dtype", "view_as_complex",
                                                    "as_strided", "as_strided_"};
  if (range == ProgramRange::kWide) return true;
  return kind != RandomOpKind::kStateWrite && !absl::c_linear_search(kWideOnly, name);
}

class Generator {
 public:
  Generator(uint64_t seed, ProgramRange range) : random_(seed), range_(range) { program_.seed = seed; }

  RandomProgram Generate() {
    program_.grad = !Chance(7);
    AddBases();
    AddInputs();
    // Steps are tried out on real tensors as they are drawn.
    at::manual_seed(0);
    for (const at::Tensor& input : MakeProgramInputs(program_)) values_[next_value_++] = input;
    limits_.Note(values_);
    const at::AutoGradMode mode(program_.grad);
    const int64_t num_steps = 2 + Below(6, random_);
    for (int64_t i = 0; i < num_steps; ++i) AddStep();
    AddOutputs();
    return program_;
  }

 private:
  bool Chance(int percent) { return Below(100, random_) < percent; }
  bool IsWide() const { return range_ == ProgramRange::kWide; }

  template <typename T>
  const T& OneOf(const std::vector<T>& choices) {
    return choices[static_cast<size_t>(Below(static_cast<int64_t>(choices.size()), random_))];
  }

  const RandomOp& OneOf(RandomOpKind kind) {
    const absl::Span<const RandomOp> ops = OpsOf(kind);
    return ops[static_cast<size_t>(Below(static_cast<int64_t>(ops.size()), random_))];
  }

  void AddBases() {
    static const std::vector<Numbers> kSizes = {{2, 3}, {3, 2}, {3, 3}, {6}, {2, 2, 3}, {2, 2}, {4}};
    static const std::vector<Numbers> kRareSizes = {{}, {1}, {1, 3}, {0, 3}, {2, 1, 2}};
    static const std::vector<at::ScalarType> kRareTypes = {at::kDouble, at::kComplexFloat, at::kLong, at::kBool};
    const int64_t count = 1 + Below(2, random_);
    for (int64_t i = 0; i < count; ++i) {
      RandomBase base;
      base.kind = Chance(60) ? RandomBase::kComputed : Chance(50) ? RandomBase::kLeaf : RandomBase::kBuffer;
      base.sizes = Chance(90) ? OneOf(kSizes) : OneOf(kRareSizes);
      if (!IsWide() && c10::multiply_integers(base.sizes) == 0) base.sizes = {1};
      if (Chance(25) && IsWide()) base.dtype = OneOf(kRareTypes);
      if (at::isIntegralType(base.dtype, /*includeBool=*/true)) base.kind = RandomBase::kBuffer;
      program_.bases.push_back(base);
    }
  }

  void AddInputs() {
    const int64_t count = 1 + Below(4, random_);
    for (int64_t i = 0; i < count; ++i) {
      RandomProgram::Input input;
      if (i > 0 && Chance(10)) {
        input.same_as = static_cast<int>(Below(i, random_));
        while (program_.inputs[static_cast<size_t>(input.same_as)].same_as >= 0) {
          input.same_as = program_.inputs[static_cast<size_t>(input.same_as)].same_as;
        }
        program_.inputs.push_back(input);
        continue;
      }
      if (i > 0 && Chance(20)) {  // a view of an earlier input, or a second view made in the same way
        input = OneOf(program_.inputs);
        input.same_as = -1;
      } else {
        input.base = static_cast<int>(Below(static_cast<int64_t>(program_.bases.size()), random_));
      }
      program_.inputs.push_back(input);
      for (int64_t views = Chance(50) ? 1 + Below(2, random_) : 0; views > 0; --views) AddInputView();
    }
  }

  // Adds views to the last input.
  void AddInputView() {
    const at::Tensor before = MakeProgramInputs(program_).back();
    const RandomOpKind kind = Chance(12) && IsWide() ? RandomOpKind::kAlias : RandomOpKind::kView;
    const RandomOp& op = OneOf(kind);
    if (!IsInRange(kind, op.name, range_)) return;
    const std::optional<Numbers> numbers = op.numbers(before, random_);
    // An alias with its own version counter is made only inside of programs.
    const std::string name = op.name;
    if (!numbers.has_value() || name == "data") return;
    RandomStep step{.op = op.name, .args = {0}, .numbers = *numbers};
    if (Chance(8) && IsWide()) step.mode = RandomStep::kNoGrad;
    ProgramLimits limits;
    limits.Note({{0, before}});
    try {
      if (!limits.Allow(step) || (IsOftenRefused(step, before) && !Chance(20))) return;
      const at::Tensor view = RunStep(step, {{0, before}});
      // Until the next write it would lose gradients of memory outside of the elements of `before`.
      if (name == "as_strided" && !IsAllOfItsMemory(before)) return;
      program_.inputs.back().views.push_back(step);
    } catch (const std::exception&) {  // view() of strided memory
    }
  }

  int AnyValue() {
    auto it = values_.begin();
    std::advance(it, Below(static_cast<int64_t>(values_.size()), random_));
    return it->first;
  }

  RandomOpKind AnyKind() {
    const int64_t draw = Below(100, random_);
    if (draw < 32) return RandomOpKind::kWrite;
    if (draw < 60) return RandomOpKind::kView;
    if (draw < 66) return RandomOpKind::kAlias;
    if (draw < 72) return RandomOpKind::kMetadataWrite;
    if (draw < 75) return RandomOpKind::kStateWrite;
    if (draw < 78) return RandomOpKind::kDraw;
    return RandomOpKind::kComputation;
  }

  RandomStep::Mode AnyMode(const KnownOp& op) {
    const int64_t draw = Below(100, random_);
    if (!IsWide()) return draw < 12 && !MayView(op) ? RandomStep::kNoGrad : RandomStep::kCallers;
    if (draw < 12) return RandomStep::kNoGrad;
    if (draw < 16) return RandomStep::kEnableGrad;
    // Tensors made in inference mode cannot be used outside of it.
    return draw < 22 && WritesElements(op) ? RandomStep::kInference : RandomStep::kCallers;
  }

  void AddStep() {
    for (int tries = 0; tries < 20; ++tries) {
      const RandomOpKind kind = AnyKind();
      const RandomOp& op = OneOf(kind);
      if (!IsInRange(kind, op.name, range_)) continue;
      std::vector<int> args = {AnyValue()};
      if (op.num_args == 2) args.push_back(AnyValue());
      const std::optional<Numbers> numbers = op.numbers(values_[args[0]], random_);
      if (!numbers.has_value()) continue;
      const RandomStep step{op.name, args, *numbers, AnyMode({kind, op}), next_value_};
      if (!limits_.Allow(step) || (IsOftenRefused(step, values_[args[0]]) && !Chance(20))) continue;
      try {
        values_[next_value_] = RunStep(step, values_);
      } catch (const std::exception&) {  // sizes that do not broadcast, a leaf written in place, ...
        values_.erase(next_value_);
        continue;
      }
      limits_.Note(values_);
      ++next_value_;
      program_.steps.push_back(step);
      return;
    }
  }

  void AddOutputs() {
    const int64_t count = 1 + Below(4, random_);
    for (int64_t i = 0; i < count; ++i) {
      if (i > 0 && Chance(8)) {
        program_.outputs.push_back(OneOf(program_.outputs));
        continue;
      }
      // Late values are more interesting.
      const int64_t last = static_cast<int64_t>(values_.size()) - 1;
      program_.outputs.push_back(static_cast<int>(Chance(60) ? last - Below(std::min<int64_t>(last + 1, 3), random_)
                                                             : Below(last + 1, random_)));
    }
  }

  std::mt19937_64 random_;
  const ProgramRange range_;
  RandomProgram program_;
  ProgramValues values_;
  ProgramLimits limits_;
  int next_value_ = 0;
};

}  // namespace

RandomProgram GenerateProgram(uint64_t seed, ProgramRange range) {
  // Discards programs that eager refuses or does not define, and tries the next program of the seed.
  for (uint64_t attempt = 0;; ++attempt) {
    Generator generator(seed * 1000003 + attempt, range);
    RandomProgram program;
    try {
      program = generator.Generate();
    } catch (const std::exception&) {
      continue;
    }
    program.seed = seed;
    if (IsDefined(program)) return program;
  }
}

}  // namespace cotan::conformance
