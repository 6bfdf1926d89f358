// SPDX-License-Identifier: Apache-2.0

// Measures the overhead of a call: functions of Variables over empty programs. Links no LibTorch.
//
//   ./bazelw run //testing/bench:call [-- --iterations=N]
//
// Prints nanoseconds per call, the minimum of many rounds. With --check it fails if a call takes
// longer than a fixed limit.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "runtime/autograd/engine.h"
#include "runtime/function.h"
#include "runtime/testing/function_builder.h"

namespace {

using cotan::Function;
using cotan::FunctionResult;
using cotan::InputAliasInfo;
using cotan::OutputType;
using cotan::Session;
using cotan::Tensor;
using cotan::Variable;
using cotan::ViewAndMutationMetaFields;
using cotan::testing::MethodBuilder;
using cotan::testing::ProgramBuilder;

constexpr cotan::DType kF32 = cotan::DType::kFloat32;

struct Case {
  const char* name;
  ProgramBuilder program;
  std::vector<Variable> arguments;
  double promised_ns;  // limit of --check; 0: none
};

Variable Vector(int64_t size) { return Variable(*Tensor::Zeros(kF32, {size})); }

// f(x) returns x itself.
Case Identity() {
  ProgramBuilder program;
  MethodBuilder f = program.AddMethod("f");
  f.Input("x", kF32, {"4"});
  ViewAndMutationMetaFields facts;
  facts.input_info = {cotan::testing::Plain()};
  facts.output_info = {cotan::testing::AliasOf(OutputType::kIsInput, 0, false)};
  SetMetadata(f, facts);
  return {"empty program", std::move(program), {Vector(4)}, 1000};
}

// Two overlapping arguments, one of which is written with its own elements.
Case SyntheticBase() {
  ProgramBuilder program;
  MethodBuilder f = program.AddMethod("f");
  const uint32_t base = f.Input("base", kF32, {"6"});
  f.proto().add_input_updates()->set_value(base);
  cotan::serialization::InputBinding& binding = *f.proto().mutable_input_binding();
  binding.set_num_bases(1);
  *binding.add_bases()->mutable_geometry() = cotan::testing::RowMajor({6}).ToProto();
  for (const int64_t offset : {0, 2}) {
    cotan::TensorGeometry view = cotan::testing::RowMajor({4});
    view.offset = offset;
    *binding.add_inner_inputs()->mutable_base_view()->mutable_geometry() = view.ToProto();
  }
  ViewAndMutationMetaFields facts;
  facts.keep_input_mutations = true;
  facts.input_info = {cotan::testing::Mutated(cotan::testing::Plain()), cotan::testing::Plain()};
  for (InputAliasInfo& info : facts.input_info) info.keep_input_mutations = true;
  SetMetadata(f, facts);
  facts.input_info.pop_back();
  SetProgramMetadata(f, facts);
  const Variable all = Vector(6);
  std::vector<Variable> arguments;
  for (const int64_t offset : {0, 2}) {
    arguments.push_back(*all.AsStrided({.sizes = {4}, .strides = {1}, .offset = offset}));
  }
  return {"synthetic base", std::move(program), std::move(arguments), 3000};
}

// f(x) = x + 1 over four elements, in new memory.
Case OneResult() {
  ProgramBuilder program;
  MethodBuilder f = program.AddMethod("f");
  f.Output("y", cotan::testing::Plus(f, f.Input("x", kF32, {"4"}), 1.0));
  ViewAndMutationMetaFields facts;
  facts.input_info = {cotan::testing::Plain()};
  facts.output_info = {cotan::testing::Fresh(false)};
  SetMetadata(f, facts);
  return {"one op, one new result", std::move(program), {Vector(4)}, 0};
}

// f(x) = x * x with gradients: saves x.
Case Recorded() {
  ProgramBuilder program;
  MethodBuilder f = program.AddMethod("f");
  const uint32_t x = f.Input("x", kF32, {"4"});
  f.proto().add_outputs(cotan::testing::Times(f, x, x));
  f.proto().add_outputs(x);
  MethodBuilder b = program.AddMethod("b");
  const uint32_t saved = b.Input("saved", kF32, {"4"});
  b.proto().add_outputs(cotan::testing::Times(b, saved, b.Input("tangent", kF32, {"4"})));
  Pair(f, b, 1, {0});
  ViewAndMutationMetaFields facts;
  facts.is_train = true;
  facts.input_info = {cotan::testing::LeafInput()};
  facts.output_info = {cotan::testing::Fresh(true)};
  facts.saved = cotan::SavedForBackward();
  facts.saved->num_tensors = 1;
  SetMetadata(f, facts);
  return {"one op, recorded", std::move(program), {*Variable::Leaf(*Tensor::Zeros(kF32, {4}))}, 0};
}

// Nanoseconds per call; negative if a call fails.
double Measure(Case& test, int iterations) {
  const Session session =
      *Session::Create(test.program.Load(), {.kernels = &cotan::testing::TestKernels(), .threads = 1});
  Function f = *Function::Create(session, "f");
  std::vector<FunctionResult> results;
  double least = 1e18;
  for (int round = 0; round < 20; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < iterations; ++i) {
      const absl::Status status = f.Call(test.arguments, results);
      if (status.ok()) continue;
      std::fprintf(stderr, "%s: %s\n", test.name, status.ToString().c_str());
      return -1;
    }
    const std::chrono::duration<double, std::nano> passed = std::chrono::steady_clock::now() - start;
    least = std::min(least, passed.count() / iterations);
  }
  return least;
}

}  // namespace

int main(int argc, char** argv) {
  int iterations = 20000;
  bool check = false;
  for (int i = 1; i < argc; ++i) {
    absl::string_view flag = argv[i];
    if (flag == "--check") {
      check = true;
    } else if (!absl::ConsumePrefix(&flag, "--iterations=") || !absl::SimpleAtoi(flag, &iterations) || iterations < 1) {
      std::fprintf(stderr, "usage: call [--iterations=N] [--check]\n");
      return 2;
    }
  }
  bool kept = true;
  Case cases[] = {Identity(), SyntheticBase(), OneResult(), Recorded()};
  for (Case& test : cases) {
    const double ns = Measure(test, iterations);
    if (ns < 0) return 1;
    std::printf("%-26s %8.0f ns\n", test.name, ns);
    kept = kept && (test.promised_ns == 0 || ns <= test.promised_ns);
  }
  return kept || !check ? 0 : 1;
}
