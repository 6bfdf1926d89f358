// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/fuzz/random_program.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "testing/conformance/fuzz/random_ops.h"

namespace cotan::conformance {
namespace {

using Tensors = std::vector<at::Tensor>;

at::Tensor MakeBase(const RandomBase& base, int64_t k) {
  if (base.kind == RandomBase::kBuffer) return buf(k, base.sizes, base.dtype);
  const at::Tensor root = leaf(k, base.sizes, base.dtype);
  return base.kind == RandomBase::kLeaf ? root : root.clone();
}

// Inputs that the program makes leaves are roots, too.
void AddNewRoots(const RandomProgram& program, const Tensors& inputs) {
  for (const RandomStep& step : program.steps) {
    if (step.op != "requires_grad_" || static_cast<size_t>(step.args[0]) >= inputs.size()) continue;
    const at::Tensor& input = inputs[static_cast<size_t>(step.args[0])];
    const bool is_known = absl::c_any_of(g_roots, [&](const at::Tensor& root) { return root.is_same(input); });
    if (!input.requires_grad() && !is_known) g_roots.push_back(input);
  }
}

Tensors RunProgram(const RandomProgram& program, const Tensors& inputs) {
  ProgramValues values;
  for (size_t i = 0; i < inputs.size(); ++i) values[static_cast<int>(i)] = inputs[i];
  for (const RandomStep& step : program.steps) values[step.result] = RunStep(step, values);
  Tensors outputs;
  for (int output : program.outputs) outputs.push_back(values.at(output));
  return outputs;
}

bool DrawsNumbers(const RandomProgram& program) {
  return absl::c_any_of(program.steps,
                        [](const RandomStep& step) { return FindOp(step.op).kind == RandomOpKind::kDraw; });
}

// --- Text ----------------------------------------------------------------------------

std::string ValueName(int value) { return absl::StrCat("v", value); }

std::string StepText(const RandomStep& step, const std::string& self) {
  std::vector<std::string> args;
  for (size_t i = 1; i < step.args.size(); ++i) args.push_back(ValueName(step.args[i]));
  for (int64_t number : step.numbers) args.push_back(absl::StrCat(number));
  static constexpr const char* kModes[] = {"", "{no_grad}", "{grad}", "{inference}"};
  return absl::StrCat(self, ".", step.op, "(", absl::StrJoin(args, ", "), ")", kModes[step.mode]);
}

std::string BaseText(const RandomBase& base, size_t index) {
  const std::string sizes =
      absl::StrCat("(", index, ", [", absl::StrJoin(base.sizes, ", "), "]",
                   base.dtype == at::kFloat ? "" : absl::StrCat(", ", at::toString(base.dtype)), ")");
  if (base.kind == RandomBase::kBuffer) return "buf" + sizes;
  return absl::StrCat("leaf", sizes, base.kind == RandomBase::kComputed ? ".clone()" : "");
}

}  // namespace

at::Tensor RunStep(const RandomStep& step, const ProgramValues& values) {
  Tensors args;
  for (int arg : step.args) args.push_back(values.at(arg));
  const RandomOp& op = FindOp(step.op).op;
  if (step.mode == RandomStep::kCallers) return op.run(args, step.numbers);
  if (step.mode == RandomStep::kInference) {
    const c10::InferenceMode mode;
    return op.run(args, step.numbers);
  }
  const at::AutoGradMode mode(step.mode == RandomStep::kEnableGrad);
  return op.run(args, step.numbers);
}

Tensors MakeProgramInputs(const RandomProgram& program) {
  const at::AutoGradMode mode(true);
  Tensors bases;
  for (const RandomBase& base : program.bases) bases.push_back(MakeBase(base, static_cast<int64_t>(bases.size())));
  Tensors inputs;
  for (const RandomProgram::Input& input : program.inputs) {
    if (input.same_as >= 0) {
      inputs.push_back(inputs[static_cast<size_t>(input.same_as)]);
      continue;
    }
    at::Tensor view = bases[static_cast<size_t>(input.base)];
    for (const RandomStep& step : input.views) view = RunStep(step, {{0, view}});
    inputs.push_back(view);
  }
  AddNewRoots(program, inputs);
  return inputs;
}

ConfCase CaseOf(const RandomProgram& program) {
  return {"random",
          "random",
          [program] { return MakeProgramInputs(program); },
          [program](Tensors inputs) { return RunProgram(program, inputs); },
          /*grad=*/program.grad,
          /*loss_outs=*/{-1},
          /*loss_inputs=*/true,
          "contig",
          /*rng=*/DrawsNumbers(program),
          /*after_bw=*/false};
}

std::string ToText(const RandomProgram& program) {
  std::string text = program.grad ? "" : "called under no_grad\n";
  for (size_t i = 0; i < program.bases.size(); ++i) {
    absl::StrAppend(&text, "b", i, " = ", BaseText(program.bases[i], i), "\n");
  }
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const RandomProgram::Input& input = program.inputs[i];
    std::string view = input.same_as >= 0 ? ValueName(input.same_as) : absl::StrCat("b", input.base);
    for (const RandomStep& step : input.views) view = StepText(step, view);
    absl::StrAppend(&text, "v", i, " = ", view, "\n");
  }
  absl::StrAppend(&text, "---\n");
  for (const RandomStep& step : program.steps) {
    absl::StrAppend(&text, ValueName(step.result), " = ", StepText(step, ValueName(step.args[0])), "\n");
  }
  absl::StrAppend(
      &text, "return ",
      absl::StrJoin(program.outputs, ", ", [](std::string* out, int value) { out->append(ValueName(value)); }), "\n");
  return text;
}

}  // namespace cotan::conformance
