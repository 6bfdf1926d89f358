// SPDX-License-Identifier: Apache-2.0

// Measures captured backwards: a network of three programs (backbone, head, loss) against one fused program, captured
// when it runs or linked and fused ahead of time, and the overhead of a backward that has been captured before.
//
//   ./bazelw run //testing/bench:captured [-- --seconds=N]
#include <ATen/ATen.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "aot/compile.h"
#include "aot/linking/fuse_linked.h"
#include "base/status_macros.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "runtime/execution/program.h"
#include "runtime/function.h"
#include "runtime/session.h"
#include "serialization/container/container.h"
#include "testing/bench/measure.h"

ABSL_FLAG(double, seconds, 2, "time to spend on each side of each measurement");

namespace cotan::testing {
namespace {

using Tensors = std::vector<at::Tensor>;

struct Sizes {
  const char* name;
  int64_t batch, features, hidden, classes;
};

Tensors Backbone(const Tensors& in) {
  return {at::relu(at::linear(at::relu(at::linear(in[0], in[1], in[2])), in[3], in[4]))};
}
Tensors Head(const Tensors& in) { return {at::linear(in[0], in[1], in[2])}; }
Tensors Loss(const Tensors& in) { return {-at::log_softmax(in[0], 1).select(1, 0).mean()}; }
Tensors Fused(const Tensors& in) { return Loss(Head({Backbone({in.begin(), in.begin() + 5})[0], in[5], in[6]})); }

struct Called {
  static absl::StatusOr<std::unique_ptr<Called>> Create(Tensors (*function)(const Tensors&), Tensors examples) {
    for (at::Tensor& example : examples) example = example.detach().clone().set_requires_grad(true);
    COTAN_ASSIGN_OR_RETURN(const aot::CompiledModel model, aot::CompileFunction(function, examples, {}));
    COTAN_ASSIGN_OR_RETURN(auto program, Program::LoadBytes(model.bytes()));
    COTAN_ASSIGN_OR_RETURN(Session session, Session::Create(program, {.kernels = &CpuKernels(), .threads = 1}));
    COTAN_ASSIGN_OR_RETURN(Function called, Function::Create(session, "forward"));
    return std::unique_ptr<Called>(new Called{std::move(session), std::move(called)});
  }

  absl::StatusOr<Variable> Call(const std::vector<Variable>& arguments) {
    COTAN_RETURN_IF_ERROR(function.Call(arguments, results));
    return std::get<Variable>(results[0]);
  }

  Session session;
  Function function;
  std::vector<FunctionResult> results = {};
};

// Returns what this thread has captured, fused as by `cotan link`.
absl::StatusOr<std::shared_ptr<const LinkedMethods>> LinkAheadOfTime() {
  const std::string path = absl::StrCat(std::filesystem::temp_directory_path().string(), "/captures.cotan");
  COTAN_RETURN_IF_ERROR(CompiledAutograd::SaveCaptures(path));
  COTAN_ASSIGN_OR_RETURN(const auto captures, Program::Load(path));
  COTAN_ASSIGN_OR_RETURN(serialization::Artifact fused, aot::FuseLinked(captures->artifact()));
  COTAN_ASSIGN_OR_RETURN(std::string bytes, ArtifactWriter().Serialize(std::move(fused)));
  COTAN_ASSIGN_OR_RETURN(const auto program, Program::LoadBytes(std::move(bytes)));
  return LinkedMethods::Load(program);
}

// The leaves of the network, on which all variants work.
std::vector<Variable> MakeLeaves(const Tensors& values) {
  std::vector<Variable> leaves;
  for (const at::Tensor& value : values) {
    const absl::Span<const float> elements(value.data_ptr<float>(), static_cast<size_t>(value.numel()));
    const std::vector<int64_t> sizes = value.sizes().vec();
    leaves.push_back(*Variable::Leaf(*Tensor::From<float>(elements, sizes)));
  }
  return leaves;
}

absl::Status Step(absl::StatusOr<Variable> loss, std::vector<Variable>& leaves, TensorOps& ops) {
  COTAN_RETURN_IF_ERROR(loss.status());
  COTAN_RETURN_IF_ERROR(autograd::Backward({*loss}, {}, ops));
  for (Variable& leaf : leaves) leaf.ClearGrad();
  return absl::OkStatus();
}

// Measures steps with backwards that were linked ahead of time, after steps that were captured.
absl::Status MeasureLinked(const Sizes& sizes, absl::FunctionRef<absl::Status()> run_three,
                           absl::FunctionRef<absl::Status()> run_fused) {
  COTAN_ASSIGN_OR_RETURN(const auto methods, LinkAheadOfTime());
  COTAN_RETURN_IF_ERROR(CompiledAutograd::Reset());
  const auto linked = [&] {
    CompiledAutograd scope({.linked = methods, .capture = false});
    return run_three();
  };
  const MeasureOptions options = {.seconds = absl::GetFlag(FLAGS_seconds)};
  COTAN_ASSIGN_OR_RETURN(const auto times, MeasureInTurns(options, linked, run_fused));
  absl::PrintF("%-6s step: 3 programs linked ahead of time %9.1f us, 1 program %9.1f us, ratio %.3f\n", sizes.name,
               times.first.min_us, times.second.min_us, times.first.min_us / times.second.min_us);
  if (CompiledAutograd::Stats().walked_segments == 0) return CompiledAutograd::Reset();
  return absl::InternalError(CompiledAutograd::Messages().back());
}

absl::Status Measure(const Sizes& sizes) {
  at::manual_seed(1);
  const int64_t h = sizes.hidden;
  const Tensors values = {at::randn({sizes.batch, sizes.features}),
                          at::randn({h, sizes.features}),
                          at::randn({h}),
                          at::randn({h, h}),
                          at::randn({h}),
                          at::randn({sizes.classes, h}),
                          at::randn({sizes.classes})};
  const at::Tensor features = at::randn({sizes.batch, h}), logits = at::randn({sizes.batch, sizes.classes});
  COTAN_ASSIGN_OR_RETURN(const auto fused, Called::Create(Fused, values));
  COTAN_ASSIGN_OR_RETURN(const auto backbone, Called::Create(Backbone, {values.begin(), values.begin() + 5}));
  COTAN_ASSIGN_OR_RETURN(const auto head, Called::Create(Head, {features, values[5], values[6]}));
  COTAN_ASSIGN_OR_RETURN(const auto loss, Called::Create(Loss, {logits}));
  std::vector<Variable> leaves = MakeLeaves(values);
  TensorOps& ops = fused->session.ops();
  const std::vector<Variable> backbone_arguments(leaves.begin(), leaves.begin() + 5);

  const auto run_fused = [&] { return Step(fused->Call(leaves), leaves, ops); };
  const auto run_three = [&]() -> absl::Status {
    COTAN_ASSIGN_OR_RETURN(const Variable seen, backbone->Call(backbone_arguments));
    COTAN_ASSIGN_OR_RETURN(const Variable scores, head->Call({seen, leaves[5], leaves[6]}));
    return Step(loss->Call({scores}), leaves, ops);
  };
  const auto captured = [&] {
    CompiledAutograd scope;
    return run_three();
  };
  const MeasureOptions options = {.seconds = absl::GetFlag(FLAGS_seconds)};
  COTAN_ASSIGN_OR_RETURN(const auto against_fused, MeasureInTurns(options, captured, run_fused));
  COTAN_ASSIGN_OR_RETURN(const auto against_walk, MeasureInTurns(options, captured, run_three));

  // Backwards alone, of one retained graph.
  COTAN_ASSIGN_OR_RETURN(const Variable whole, fused->Call(leaves));
  COTAN_ASSIGN_OR_RETURN(const Variable seen, backbone->Call(backbone_arguments));
  COTAN_ASSIGN_OR_RETURN(const Variable scores, head->Call({seen, leaves[5], leaves[6]}));
  COTAN_ASSIGN_OR_RETURN(const Variable parts, loss->Call({scores}));
  const auto backward = [&](const Variable& root) {
    const absl::Status status = autograd::Backward({root}, {}, ops, {.retain_graph = true});
    for (Variable& leaf : leaves) leaf.ClearGrad();
    return status;
  };
  const auto captured_backward = [&] {
    CompiledAutograd scope;
    return backward(parts);
  };
  const auto fused_backward = [&] { return backward(whole); };
  COTAN_ASSIGN_OR_RETURN(const auto backwards, MeasureInTurns(options, captured_backward, fused_backward));
  absl::PrintF("%-6s step: 3 programs captured %9.1f us, walked %9.1f us, 1 program %9.1f us, ratio %.3f\n", sizes.name,
               against_fused.first.min_us, against_walk.second.min_us, against_fused.second.min_us,
               against_fused.first.min_us / against_fused.second.min_us);
  absl::PrintF("%-6s backward: 3 programs captured %9.1f us, 1 program %9.1f us, difference %9.1f us\n", sizes.name,
               backwards.first.min_us, backwards.second.min_us, backwards.first.min_us - backwards.second.min_us);
  const CaptureStats& stats = CompiledAutograd::Stats();
  absl::PrintF("%-6s %d captures, %d hits, %d walked segments\n", sizes.name, stats.captures, stats.hits,
               stats.walked_segments);
  if (stats.walked_segments != 0) return absl::InternalError(CompiledAutograd::Messages().back());
  return MeasureLinked(sizes, run_three, run_fused);
}

}  // namespace
}  // namespace cotan::testing

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  using cotan::testing::Sizes;
  for (const Sizes& sizes :
       {Sizes{"tiny", 2, 4, 4, 3}, Sizes{"small", 64, 64, 128, 10}, Sizes{"large", 128, 512, 512, 64}}) {
    const absl::Status status = cotan::testing::Measure(sizes);
    if (status.ok()) continue;
    std::fprintf(stderr, "%s: %s\n", sizes.name, status.ToString().c_str());
    return 1;
  }
  return 0;
}
