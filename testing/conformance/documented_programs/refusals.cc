// SPDX-License-Identifier: Apache-2.0

// Programs that Cotan refuses: the last part of section "Known differences", and section "Refused
// when compiled".
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <vector>

#include "testing/conformance/documented_programs/programs.h"

namespace cotan::conformance {
namespace {

using at::Tensor;
using ::testing::ElementsAre;

// Bits of 1.0f and of 2.0f.
constexpr double kBitsOfTwo = 0x40000000;

Tensors OneBuffer() { return {buf(0, {6})}; }

// The page says that eager's result is not defined, or says nothing about it.
void RunsInEager(const ConfCase&, const EagerRun&) {}

void AddBackwardOfAResult(std::vector<KnownRefusal>& all) {
  const ExecutedProgram program = COTAN_PROGRAM((Tensor x), Tensor z = x.exp(); z.mul_(2); return {z, x * 3};);
  all.push_back({program.code,
                 CaseOf(
                     "AResultWhoseBackwardEagerWouldRefuse", []() -> Tensors { return {leaf(0, {3})}; }, program),
                 [](const ConfCase&, const EagerRun& run) {
                   const Tensors roots = run.in.roots;
                   const Tensor ones = at::ones({3});
                   EXPECT_ANY_THROW(torch::autograd::grad({run.outputs[0]}, roots, {ones}));
                   EXPECT_THAT(ValuesOf(torch::autograd::grad({run.outputs[1]}, roots, {ones})[0]),
                               ElementsAre(3, 3, 3));
                 },
                 Stage::kCompile, absl::StatusCode::kInvalidArgument, ""});
}

void AddViewsOfMemory(std::vector<KnownRefusal>& all) {
  const ExecutedProgram windows = COTAN_PROGRAM((Tensor x), x.unfold(0, 3, 1).mul_(2););
  all.push_back({windows.code, CaseOf("AWriteToWindowsThatOverlap", OneBuffer, windows), RunsInEager, Stage::kCompile,
                 absl::StatusCode::kInvalidArgument,
                 "a write to windows that overlap (unfold of size 3, step 1) is not defined"});

  const ExecutedProgram between = COTAN_PROGRAM((Tensor x), return x.as_strided({3}, {1}, 0) * 2;);
  all.push_back({between.code,
                 CaseOf(
                     "MemoryBetweenTheElements", []() -> Tensors { return {buf(0, {6}).slice(0, 0, 6, 2)}; }, between),
                 [](const ConfCase&, const EagerRun& run) {
                   EXPECT_EQ(ValuesOf(run.outputs[0]), ValuesOf(buf(0, {6}).slice(0, 0, 3) * 2));
                 },
                 Stage::kCompile, absl::StatusCode::kUnimplemented,
                 "it accesses memory outside the elements of its argument"});

  const ExecutedProgram column = COTAN_PROGRAM((Tensor x), x.select(1, 0).mul_(2););
  all.push_back({column.code,
                 CaseOf(
                     "AWriteToAnExpandedArgument",
                     []() -> Tensors {
                       return {buf(0, {3, 1}).expand({3, 2})};
                     },
                     column),
                 [](const ConfCase&, const EagerRun& run) {
                   EXPECT_EQ(ValuesOf(run.in.inputs[0]), ValuesOf((buf(0, {3, 1}) * 2).expand({3, 2})));
                 },
                 Stage::kCall, absl::StatusCode::kInvalidArgument, "refused when called"});
}

void AddDTypes(std::vector<KnownRefusal>& all) {
  const ExecutedProgram complex = COTAN_PROGRAM((Tensor x), return {x.cumprod(0), x.acosh()};);
  all.push_back({complex.code,
                 CaseOf(
                     "OpsOfComplexNumbers", []() -> Tensors { return {buf(0, {3}, at::kComplexFloat)}; }, complex),
                 [](const ConfCase&, const EagerRun& run) { EXPECT_EQ(run.outputs.size(), 2u); }, Stage::kCompile,
                 absl::StatusCode::kUnimplemented, "aten.acosh.default, aten.cumprod.default of complex numbers"});
}

void AddArgumentsThatShareMemory(std::vector<KnownRefusal>& all) {
  const ExecutedProgram bits = COTAN_PROGRAM((Tensor x, Tensor y), x.mul_(2); return y + 1;);
  all.push_back({bits.code,
                 CaseOf(
                     "ViewsWithDifferentDTypes",
                     []() -> Tensors {
                       const Tensor x = at::ones({1}, at::kComplexFloat);
                       return {x, x.view(at::kInt)};
                     },
                     bits),
                 [](const ConfCase&, const EagerRun& run) {
                   EXPECT_THAT(ValuesOf(run.in.inputs[1]), ElementsAre(kBitsOfTwo, 0));
                 },
                 Stage::kCompile, absl::StatusCode::kInvalidArgument,
                 "input mutations on complex views with different dtypes are not supported"});

  const ExecutedProgram data = COTAN_PROGRAM((Tensor x, Tensor y, Tensor w), x.mul_(w); return x + y;);
  all.push_back({data.code,
                 CaseOf(
                     "DifferentTensorsInAutograd",
                     []() -> Tensors {
                       const Tensor x = buf(0, {3});
                       return {x, x.data(), leaf(1, {3})};
                     },
                     data),
                 [](const ConfCase&, const EagerRun& run) {
                   EXPECT_EQ(ValuesOf(run.in.inputs[1]), ValuesOf(buf(0, {3}) * buf(1, {3})));
                   EXPECT_FALSE(run.in.inputs[1].requires_grad());
                 },
                 Stage::kCompile, absl::StatusCode::kInvalidArgument,
                 "they are different tensors in autograd: pass views of one tensor, or return the result instead"});

  const ExecutedProgram detached = COTAN_PROGRAM((Tensor x, Tensor y), return x.add_(y););
  all.push_back({detached.code,
                 CaseOf(
                     "ADetachedArgumentIsWrittenWithWhatRequiresGrad",
                     []() -> Tensors {
                       const Tensor y = leaf(0, {6}).clone();
                       return {y.detach(), y};
                     },
                     detached),
                 [](const ConfCase&, const EagerRun& run) {
                   EXPECT_FALSE(run.in.inputs[0].is_leaf());
                   EXPECT_EQ(ValuesOf(run.in.inputs[1]), ValuesOf(buf(0, {6}) * 2));
                 },
                 Stage::kCompile, absl::StatusCode::kUnimplemented,
                 "it is detached from another input, whose memory it shares, and written with what requires grad"});

  const ExecutedProgram new_leaf = COTAN_PROGRAM((Tensor x, Tensor y), y.mul_(2); x.requires_grad_(); return x * 3;);
  all.push_back({new_leaf.code,
                 CaseOf(
                     "ANewLeafSharesWrittenMemory",
                     []() -> Tensors {
                       const Tensor x = buf(0, {4});
                       return {x, x.slice(0, 0, 2)};
                     },
                     new_leaf),
                 [](const ConfCase&, const EagerRun& run) {
                   EXPECT_TRUE(run.in.inputs[0].is_leaf());
                   EXPECT_TRUE(run.in.inputs[0].requires_grad());
                 },
                 Stage::kCompile, absl::StatusCode::kUnimplemented,
                 "it is made to require grad (requires_grad_) and shares memory that is written to with another "
                 "input"});
}

void AddMetadataMutations(std::vector<KnownRefusal>& all) {
  const ExecutedProgram shrunk =
      COTAN_PROGRAM((Tensor x, Tensor y), x.as_strided_({2}, {1}, 2); return {x * 2, y * 3};);
  all.push_back({shrunk.code,
                 CaseOf(
                     "TheFinalViewDoesNotContainAnInput",
                     []() -> Tensors {
                       const Tensor x = leaf(0, {4}).clone();
                       return {x, x.slice(0, 0, 2)};
                     },
                     shrunk),
                 RunsInEager, Stage::kCompile, absl::StatusCode::kInvalidArgument,
                 "final view (as_strided_) does not contain elements of input 1, which is a view of it"});

  const ExecutedProgram head =
      COTAN_PROGRAM((Tensor x), Tensor head = x.slice(0, 0, 2); x.mul_(2), x.as_strided_({2}, {1}, 2); return head;);
  all.push_back(
      {head.code,
       CaseOf(
           "TheFinalViewDoesNotContainAResult", []() -> Tensors { return {leaf(0, {4}).clone().view({4})}; }, head),
       [](const ConfCase& c, const EagerRun& run) {
         const std::vector<double> tangent = ValuesOf(TangentOf(run.outputs[0], 0, c.tangent));
         const GradFacts found = BackwardEager(c, run);
         ASSERT_TRUE(found.root_grads[0].has_value());
         EXPECT_THAT(found.root_grads[0]->values, ElementsAre(2 * tangent[0], 2 * tangent[1], 0, 0));
       },
       Stage::kCompile, absl::StatusCode::kInvalidArgument,
       "is written, and its final view does not contain elements of a result that is a view of it"});

  const ExecutedProgram new_leaf = COTAN_PROGRAM((Tensor x), x.detach_(); x.requires_grad_(); return x * 2;);
  all.push_back({new_leaf.code,
                 CaseOf(
                     "AComputedArgumentBecomesALeaf", []() -> Tensors { return {leaf(0, {3}).clone()}; }, new_leaf),
                 [](const ConfCase& c, const EagerRun& run) {
                   EXPECT_TRUE(run.in.inputs[0].is_leaf());
                   EXPECT_TRUE(run.in.inputs[0].requires_grad());
                   EXPECT_EQ(BackwardEager(c, run).root_grads[0].has_value(), false);
                 },
                 Stage::kLoad, absl::StatusCode::kInvalidArgument,
                 "is NEW_LEAF, but the input requires grad at entry"});
}

void AddStorages(std::vector<KnownRefusal>& all) {
  const ExecutedProgram written = COTAN_PROGRAM((Tensor x, Tensor y, Tensor w), x.mul_(2); x.set_(w); return y + 1;);
  all.push_back({written.code,
                 CaseOf(
                     "SetAfterAWriteToAnotherInput",
                     []() -> Tensors {
                       const Tensor x = buf(0, {4});
                       return {x, x.slice(0, 0, 2), buf(1, {4})};
                     },
                     written),
                 [](const ConfCase&, const EagerRun& run) {
                   EXPECT_EQ(ValuesOf(run.in.inputs[1]), ValuesOf(buf(0, {4}).slice(0, 0, 2) * 2));
                 },
                 Stage::kCompile, absl::StatusCode::kInvalidArgument,
                 "Encountered a set_ on a graph input, but the input has other mutations"});

  const ExecutedProgram frozen = COTAN_PROGRAM((Tensor x, Tensor w), x.set_(w); x.mul_(2););
  all.push_back(
      {frozen.code,
       CaseOf(
           "AWriteAfterSet",
           []() -> Tensors {
             return {buf(0, {4}), buf(1, {4})};
           },
           frozen),
       [](const ConfCase&, const EagerRun& run) { EXPECT_EQ(ValuesOf(run.in.inputs[1]), ValuesOf(buf(1, {4}) * 2)); },
       Stage::kCompile, absl::StatusCode::kInvalidArgument,
       "Encountered a set_ on a graph input, but the input has other mutations"});

  const ExecutedProgram used = COTAN_PROGRAM((Tensor x, Tensor w), Tensor z = x * 2; {
    at::NoGradGuard guard;
    x.set_(w);
  } return {z, x * 3};);
  all.push_back({used.code,
                 CaseOf(
                     "ALeafIsUsedBeforeAndAfterSet",
                     []() -> Tensors {
                       return {leaf(0, {3}), buf(1, {3})};
                     },
                     used),
                 [](const ConfCase& c, const EagerRun& run) {
                   const GradFacts found = BackwardEager(c, run);
                   ASSERT_TRUE(found.root_grads[0].has_value());
                   EXPECT_EQ(found.root_grads[0]->values, ValuesOf(TangentOf(run.outputs[1], 1, c.tangent) * 3));
                 },
                 Stage::kCompile, absl::StatusCode::kUnimplemented,
                 "it has a gradient with respect to the storage that it had before set_"});
}

// Adds 1 to `counter` in its backward.
struct Counted : torch::autograd::Function<Counted> {
  static Tensor forward(torch::autograd::AutogradContext* context, Tensor x, Tensor counter) {
    context->saved_data["counter"] = counter;
    return x * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    context->saved_data["counter"].toTensor().add_(1);
    return {gradients[0] * 2, Tensor()};
  }
};

void AddWritesInTheBackward(std::vector<KnownRefusal>& all) {
  const ExecutedProgram program =
      COTAN_PROGRAM((Tensor x, Tensor counter), counter.add_(1); return Counted::apply(x, counter););
  all.push_back({program.code,
                 AfterBackward(CaseOf(
                     "ForwardAndBackwardWriteToAnInput",
                     []() -> Tensors {
                       return {leaf(0, {3}), at::zeros({1})};
                     },
                     program)),
                 [](const ConfCase& c, const EagerRun& run) {
                   EXPECT_THAT(ValuesOf(run.in.inputs[1]), ElementsAre(1));
                   BackwardEager(c, run);
                   EXPECT_THAT(ValuesOf(run.in.inputs[1]), ElementsAre(2));
                 },
                 Stage::kCompile, absl::StatusCode::kUnimplemented, "both the function and its backward write to it"});
}

}  // namespace

std::vector<KnownRefusal> KnownRefusals() {
  std::vector<KnownRefusal> all;
  AddBackwardOfAResult(all);
  AddViewsOfMemory(all);
  AddDTypes(all);
  AddArgumentsThatShareMemory(all);
  AddMetadataMutations(all);
  AddStorages(all);
  AddWritesInTheBackward(all);
  return all;
}

}  // namespace cotan::conformance
