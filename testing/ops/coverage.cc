// SPDX-License-Identifier: Apache-2.0

#include "testing/ops/coverage.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/capture/argument.h"
#include "aot/lowering/op_table.h"
#include "testing/ops/functional_cases.h"
#include "testing/ops/op_cases.h"
#include "testing/ops/schema_arguments.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

constexpr uint64_t kSeed = 5;

struct CasesOfOp {
  double tolerance = 0;
  bool random = false;
  std::vector<std::vector<Arg>> arguments;
};

// Cases by op, without "aten.".
std::map<std::string, CasesOfOp> AllCases() {
  std::map<std::string, CasesOfOp> found;
  const auto add = [&](const OpCaseGroup& group, bool random) {
    for (const OpCase& c : group.cases) {
      CasesOfOp& cases = found[c.op];
      cases.tolerance = std::max(cases.tolerance, group.tolerance);
      cases.random = random;
      cases.arguments.push_back(c.arguments);
    }
  };
  for (const OpCaseGroup& group : OpCases()) add(group, false);
  add(TracedOpCases(), false);
  add(RandomOpCases(), true);
  add(RefusedOpCases(), false);
  return found;
}

// The tolerance of a gradient, which chains several functions.
double BackwardTolerance(double tolerance) { return std::max(tolerance, kMatmul); }

bool IsWorse(const Judgement& a, const Judgement& b) {
  const auto badness = [](Verdict verdict) {
    switch (verdict) {
      case Verdict::kRefusedByLibTorch:
        return 0;
      case Verdict::kNotDifferentiable:
        return 1;
      case Verdict::kAgrees:
        return 2;
      case Verdict::kRefused:
        return 3;
      case Verdict::kDiffers:
      case Verdict::kFailed:
        return 4;
    }
    return 4;
  };
  return badness(a.verdict) > badness(b.verdict);
}

void Add(const FunctionOutcome& outcome, CoverageRow& row) {
  if (!IsWorse(row.forward, outcome.forward)) row.forward = outcome.forward;
  if (!IsWorse(row.backward, outcome.backward)) row.backward = outcome.backward;
}

CoverageRow NewRow(const std::string& name) {
  const Judgement none{Verdict::kRefusedByLibTorch, "it has no case whose arguments make sense"};
  return {name, none, none};
}

FunctionOutcome RunOp(const std::string& op, const OpArguments& arguments, double tolerance, bool random) {
  std::vector<at::Tensor> inputs;
  const aot::TensorFunction function = FunctionOf(op, arguments, inputs);
  return RunFunctionBothWays(function, inputs, {.tolerance = BackwardTolerance(tolerance), .random = random});
}

// Returns cases with arguments guessed from the schema: floats if the op accepts them, else integers.
void RunGuessedCases(const std::string& op, const c10::FunctionSchema& schema, CoverageRow& row) {
  for (const at::ScalarType dtype : {at::kFloat, at::kLong}) {
    for (const Shape& shape : Shapes()) {
      if (std::string(shape.name) != "matrix" && std::string(shape.name) != "broadcast") continue;
      Add(RunOp(op, MakeArguments(schema, shape, dtype), kTranscendental, false), row);
    }
    if (row.forward.verdict != Verdict::kRefusedByLibTorch) return;
  }
}

bool IsCore(const c10::OperatorHandle& op) {
  return op.schema().name().rfind("aten::", 0) == 0 && op.hasTag(at::Tag::core);
}

std::string VerdictText(const Judgement& judgement) {
  switch (judgement.verdict) {
    case Verdict::kAgrees:
      return "yes";
    case Verdict::kNotDifferentiable:
      return "-";
    case Verdict::kRefused:
      return "refused";
    case Verdict::kDiffers:
    case Verdict::kFailed:
    case Verdict::kRefusedByLibTorch:
      return "no";
  }
  return "no";
}

}  // namespace

std::vector<CoverageRow> CoreOpCoverage() {
  at::manual_seed(kSeed);
  const std::map<std::string, CasesOfOp> cases = AllCases();
  std::map<std::string, CoverageRow> rows;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto handle = c10::Dispatcher::singleton().findSchema(name);
    if (!handle.has_value() || !IsCore(*handle)) continue;
    const std::string op = aot::NodeOpName(handle->schema());
    CoverageRow row = NewRow(op);
    const auto found = cases.find(op.substr(op.find('.') + 1));
    if (found == cases.end()) {
      RunGuessedCases(op, handle->schema(), row);
    } else {
      for (const std::vector<Arg>& args : found->second.arguments) {
        OpArguments arguments;
        for (const Arg& arg : args) arguments.push_back(arg(at::kFloat));
        Add(RunOp(op, arguments, found->second.tolerance, found->second.random), row);
      }
    }
    rows.emplace(op, std::move(row));
  }
  std::vector<CoverageRow> result;
  for (auto& [op, row] : rows) result.push_back(std::move(row));
  return result;
}

std::vector<CoverageRow> FunctionalCoverage() {
  at::manual_seed(kSeed);
  std::vector<CoverageRow> rows;
  for (const FunctionalCase& c : FunctionalCases()) {
    if (rows.empty() || rows.back().name != c.function) rows.push_back(NewRow(c.function));
    std::vector<at::Tensor> inputs;
    for (const Arg& input : c.inputs) inputs.push_back(input(at::kFloat).toTensor());
    Add(RunFunctionBothWays(c.call, inputs, {.tolerance = kMatmul, .random = c.random}), rows.back());
  }
  return rows;
}

CoverageFigure FigureOf(const std::vector<CoverageRow>& rows) {
  CoverageFigure figure;
  for (const CoverageRow& row : rows) {
    ++figure.forward_of;
    figure.forward += row.forward.verdict == Verdict::kAgrees;
    if (row.backward.verdict == Verdict::kNotDifferentiable) continue;
    ++figure.backward_of;
    figure.backward += row.backward.verdict == Verdict::kAgrees;
  }
  return figure;
}

std::string ReasonOf(const std::string& name) {
  for (const CoverageException& exception : CoverageExceptions()) {
    if (exception.name == name) return exception.reason;
  }
  return "";
}

namespace {

double Percent(int part, int whole) { return whole == 0 ? 100 : 100.0 * part / whole; }

void AppendFigure(const char* what, const std::vector<CoverageRow>& rows, std::string& out) {
  const CoverageFigure figure = FigureOf(rows);
  absl::StrAppend(&out, "| ", what, " | ", figure.forward, " of ", figure.forward_of, " (",
                  static_cast<int>(Percent(figure.forward, figure.forward_of)), " %) | ", figure.backward, " of ",
                  figure.backward_of, " (", static_cast<int>(Percent(figure.backward, figure.backward_of)), " %) |\n");
}

void AppendRows(const std::vector<CoverageRow>& rows, std::string& out) {
  absl::StrAppend(&out, "| op | forward | backward | why not |\n|---|---|---|---|\n");
  for (const CoverageRow& row : rows) {
    const std::string name = row.name.substr(row.name.rfind("aten.", 0) == 0 ? 5 : 0);
    absl::StrAppend(&out, "| ", name, " | ", VerdictText(row.forward), " | ", VerdictText(row.backward), " | ",
                    ReasonOf(row.name), " |\n");
  }
}

const char* FamilyText(aot::OpFamily family) {
  switch (family) {
    case aot::OpFamily::kPointwise:
      return "Pointwise";
    case aot::OpFamily::kReduction:
      return "Reductions";
    case aot::OpFamily::kComposite:
      return "Several expressions";
    case aot::OpFamily::kView:
      return "Views";
    case aot::OpFamily::kKernel:
      return "Own kernels";
    case aot::OpFamily::kCreation:
      return "Creation";
  }
  return "";
}

void AppendOpTable(std::string& out) {
  std::map<std::string, std::vector<std::string>> families;
  for (const aot::OpRow& row : aot::OpTable()) families[FamilyText(row.family)].emplace_back(row.op);
  for (const auto& [family, ops] : families) {
    absl::StrAppend(&out, "\n**", family, "** (", ops.size(), "): ", absl::StrJoin(ops, ", "), "\n");
  }
}

}  // namespace

std::string SupportMatrix(const std::vector<CoverageRow>& core, const std::vector<CoverageRow>& functional) {
  std::string out =
      "# Which ops are supported?\n\n"
      "Written by `./bazelw run //testing/ops:coverage -- --markdown`, which compiles each op, runs it and compares "
      "results and gradients with LibTorch; a test keeps this page up to date. `-`: not differentiable.\n\n"
      "| | forward | backward |\n|---|---|---|\n";
  AppendFigure("core ATen opset", core, out);
  AppendFigure("`torch::nn::functional`", functional, out);
  absl::StrAppend(&out, "\n## The core ATen opset\n\n");
  AppendRows(core, out);
  absl::StrAppend(&out, "\n## torch::nn::functional\n\n");
  AppendRows(functional, out);
  absl::StrAppend(&out,
                  "\n## Rows of the op table\n\nWhat a traced graph may consist of, backward ops included "
                  "([adding an op](adding_an_op.md)). Other ops are compiled if LibTorch or the tracer "
                  "(`aot/decompositions/rewrites.h`) writes them in terms of these: orthogonal polynomials of "
                  "`torch.special` only with a number of at most 64 as degree, not with a tensor.\n");
  AppendOpTable(out);
  return out;
}

}  // namespace cotan::testing
