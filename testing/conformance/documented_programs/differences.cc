// SPDX-License-Identifier: Apache-2.0

// Section "Known differences".
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "testing/conformance/documented_programs/programs.h"
#include "testing/conformance/harness/mirror.h"

namespace cotan::conformance {
namespace {

using at::Tensor;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

using Doubles = std::vector<double>;

// Returns an expectation of a member of eager's or Cotan's facts about a call.
template <typename Expect>
ExpectEager OfEager(Expect expect) {
  return [expect](const ConfCase&, const EagerRun& run) { expect(run.facts); };
}
template <typename Expect>
std::function<void(const DifferentCall&)> OfCotan(Expect expect) {
  return [expect](const DifferentCall& call) { expect(call.run.facts); };
}

void ExpectShared(const CallFacts& facts, const char* a, const char* b) {
  EXPECT_THAT(facts.storage_alias_pairs, Contains(Pair(a, b)));
}
void ExpectSeparate(const CallFacts& facts, const char* a, const char* b) {
  EXPECT_THAT(facts.storage_alias_pairs, Not(Contains(Pair(a, b))));
}

void AddMemoryOfResults(std::vector<KnownDifference>& all) {
  const ExecutedProgram split = COTAN_PROGRAM((Tensor x), return at::unsafe_split(x * 2, 1););
  all.push_back({split.code,
                 CaseOf(
                     "TheResultOfUnsafeSplitIsPartsInMemoryOfTheirOwn",
                     []() -> Tensors {
                       return {buf(0, {2, 3})};
                     },
                     split),
                 OfEager([](const CallFacts& facts) { ExpectShared(facts, "out0", "out1"); }),
                 OfCotan([](const CallFacts& facts) { ExpectSeparate(facts, "out0", "out1"); })});

  const ExecutedProgram offset = COTAN_PROGRAM((Tensor x), Tensor z = x * 2; z.as_strided_({2}, {1}, 1); return z;);
  all.push_back(
      {offset.code,
       CaseOf(
           "AnIntermediateLosesTheOffsetThatAsStridedGaveIt", []() -> Tensors { return {buf(0, {4})}; }, offset),
       OfEager([](const CallFacts& facts) { EXPECT_EQ(facts.outputs[0].offset, 1); }),
       OfCotan([](const CallFacts& facts) {
         EXPECT_EQ(facts.outputs[0].offset, 0);
         EXPECT_EQ(facts.outputs[0].values, ValuesOf(buf(0, {4}).slice(0, 1, 3) * 2));
       })});

  const ExecutedProgram set = COTAN_PROGRAM((Tensor x, Tensor w), Tensor z = x * 2; z.set_(w); return z;);
  all.push_back({set.code,
                 WithoutGrad(CaseOf(
                     "SetOfAnIntermediateDoesNotShowASharedStorage",
                     []() -> Tensors {
                       return {buf(0, {3}), buf(1, {3})};
                     },
                     set)),
                 OfEager([](const CallFacts& facts) { ExpectShared(facts, "in1", "out0"); }),
                 OfCotan([](const CallFacts& facts) {
                   ExpectSeparate(facts, "in1", "out0");
                   EXPECT_EQ(facts.outputs[0].values, ValuesOf(buf(1, {3})));
                 })});
}

// Inputs x and y, and as a root a view of x that is not passed.
Tensors WithAViewThatIsNotPassed() {
  const Tensor x = buf(0, {4});
  g_roots.push_back(x.slice(0, 0, 2));
  return {x, buf(1, {4})};
}

void AddVersionsAndViews(std::vector<KnownDifference>& all) {
  const ExecutedProgram data = COTAN_PROGRAM((Tensor x), x.data().mul_(2););
  all.push_back({data.code,
                 CaseOf(
                     "AWriteToDataIsAWriteToTheTensor", []() -> Tensors { return {buf(0, {3})}; }, data),
                 OfEager([](const CallFacts& facts) { EXPECT_THAT(facts.version_bumped, ElementsAre(false)); }),
                 OfCotan([](const CallFacts& facts) {
                   EXPECT_THAT(facts.version_bumped, ElementsAre(true));
                   EXPECT_EQ(facts.inputs_after[0].values, ValuesOf(buf(0, {3}) * 2));
                 })});

  const ExecutedProgram set = COTAN_PROGRAM((Tensor x, Tensor y), x.mul_(2); x.set_(y););
  all.push_back({set.code, CaseOf("AWriteBeforeSetDoesNotReachOtherTensors", WithAViewThatIsNotPassed, set),
                 [](const ConfCase&, const EagerRun& run) {
                   EXPECT_EQ(ValuesOf(run.in.roots[0]), ValuesOf(buf(0, {4}).slice(0, 0, 2) * 2));
                 },
                 [](const DifferentCall& call) {
                   EXPECT_EQ(ValuesOf(*ToTorch(call.run.in.roots[0].tensor())), ValuesOf(buf(0, {4}).slice(0, 0, 2)));
                   EXPECT_EQ(call.run.facts.inputs_after[0].values, ValuesOf(buf(1, {4})));
                 }});
}

// Returns the elements of the first root's gradient; zeros if it is undefined.
Doubles FirstGradient(const GradFacts& facts, size_t count) {
  return facts.root_grads[0].has_value() ? facts.root_grads[0]->values : Doubles(count, 0);
}

void AddGradients(std::vector<KnownDifference>& all) {
  const ExecutedProgram shrunk =
      COTAN_PROGRAM((Tensor x), Tensor head = x.slice(0, 0, 2); x.as_strided_({2}, {1}, 2); return head * 2;);
  all.push_back({shrunk.code,
                 CaseOf(
                     "AnOlderViewOfAnArgumentThatShrinksGivesNoGradientToTheExcludedElements",
                     []() -> Tensors { return {leaf(0, {4}).clone().view({4})}; }, shrunk),
                 [](const ConfCase& c, const EagerRun& run) {
                   const Doubles tangent = ValuesOf(TangentOf(run.outputs[0], 0, c.tangent));
                   EXPECT_THAT(FirstGradient(BackwardEager(c, run), 4),
                               ElementsAre(2 * tangent[0], 2 * tangent[1], 0, 0));
                 },
                 [](const DifferentCall& call) {
                   const absl::StatusOr<GradFacts> found = call.compiled.Backward(call.c, call.run, call.eager, {0});
                   ASSERT_TRUE(found.ok()) << found.status();
                   EXPECT_THAT(FirstGradient(*found, 4), ElementsAre(0, 0, 0, 0));
                 }});
}

}  // namespace

std::vector<KnownDifference> KnownDifferences() {
  std::vector<KnownDifference> all;
  AddMemoryOfResults(all);
  AddVersionsAndViews(all);
  AddGradients(all);
  return all;
}

}  // namespace cotan::conformance
