// SPDX-License-Identifier: Apache-2.0

// Random graphs of compiled functions, views, user nodes and hooks of all kinds, run in LibTorch eager, node by node
// and captured: traces of hooks are those of eager, gradients of the last two equal bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/test_seed.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "testing/autograd/three_ways.h"

namespace cotan::testing {
namespace {

constexpr int kPrograms = 300;

// Each function is one operation, so that eager mode has as many nodes.
const CompiledFunction& Sine() {
  return Compiled("sine", [](const Tensors& in) -> Tensors { return {in[0].sin()}; }, {{2, 2}});
}
const CompiledFunction& Product() {
  return Compiled("product", [](const Tensors& in) -> Tensors { return {in[0] * in[1]}; }, {{2, 2}, {2, 2}});
}
const CompiledFunction& Sum() {
  return Compiled("sum", [](const Tensors& in) -> Tensors { return {in[0] + in[1]}; }, {{2, 2}, {2, 2}});
}

// A program that is drawn while it runs: equal seeds give equal programs in each world.
class RandomProgram {
 public:
  RandomProgram(World& world, uint64_t seed) : world_(world), random_(seed), has_undefined_(Draw(4) == 0) {}

  const std::string& text() const { return text_; }

  Tensors Run() {
    for (int i = 0; i < 2; ++i) AddLeaf();
    const int steps = 3 + Draw(8);
    for (int i = 0; i < steps; ++i) Step();
    const int backwards = 1 + Draw(2);
    std::vector<int> roots = {values_.back()};
    if (Draw(3) == 0) roots.push_back(Any());
    std::vector<int> inputs;
    if (Draw(4) == 0) inputs = ReachedInputs(roots[0], leaves_[static_cast<size_t>(Draw(NumLeaves()))]);
    Tensors all;
    for (int i = 1; i <= backwards; ++i) {
      world_.log.push_back("backward");
      if (Draw(4) == 0) {
        inputs = ReachedInputs(roots[0], Any());
        Note("grad", roots, inputs);
        Append(all, world_.Grad(roots, inputs));
        break;  // frees the graph
      }
      Note("backward", roots, inputs);
      world_.Backward(roots, /*retain_graph=*/i < backwards, inputs);
      Append(all, GradsOf(world_, leaves_));
      Append(all, GradsOf(world_, retained_));
    }
    return all;
  }

 private:
  int Draw(int below) { return static_cast<int>(random_() % static_cast<uint64_t>(below)); }
  int NumLeaves() const { return static_cast<int>(leaves_.size()); }
  // Returns both, the root once. Of one root that leads to no input LibTorch calls the hooks nevertheless.
  static std::vector<int> ReachedInputs(int root, int other) {
    return root == other ? std::vector<int>{root} : std::vector<int>{other, root};
  }
  int Any() { return values_[static_cast<size_t>(Draw(static_cast<int>(values_.size())))]; }

  void AddLeaf() {
    const int leaf = world_.Leaf(at::randn({2, 2}));
    leaves_.push_back(leaf);
    Note("leaf", {}, {leaf});
    if (Draw(3) == 0) world_.PostAccumulateHook(leaf, [this, leaf] { Log(absl::StrCat("accumulated ", leaf)); });
    Add(leaf);
  }

  void Step() {
    const int kind = Draw(8);
    if (kind == 0) return AddLeaf();
    const int x = Any(), y = Any();
    if (kind == 1) return Add("view", {x}, world_.View(x, view::Permute{.dims = {1, 0}}));
    if (kind == 2) return Add("sine", {x}, world_.Call(Sine(), {x})[0]);
    if (kind <= 4) return Add("product", {x, y}, world_.Call(Product(), {x, y})[0]);
    if (kind <= 6) return Add("sum", {x, y}, world_.Call(Sum(), {x, y})[0]);
    const int number = static_cast<int>(values_.size());
    const bool has_gradient = !has_undefined_ || Draw(2) == 0;
    const auto backward = [this, number, has_gradient](const at::Tensor& gradient) {
      Log(absl::StrCat("node ", number));
      if (!has_gradient) return at::Tensor();
      // LibTorch gives a torch::autograd::Function zeros for an undefined gradient, the runtime does not.
      return gradient.defined() ? gradient * 3 : at::zeros({2, 2});
    };
    const auto triple = [](const at::Tensor& given) { return given * 3; };
    Add(has_gradient ? "node" : "node without gradient", {x}, world_.Node("Tripled", x, triple, backward));
  }

  void Add(const char* operation, const std::vector<int>& arguments, int value) {
    Note(operation, arguments, {value});
    Add(value);
  }

  void Note(const char* operation, const std::vector<int>& from, const std::vector<int>& to) {
    absl::StrAppend(&text_, operation, " ", absl::StrJoin(from, " "), " -> ", absl::StrJoin(to, " "), "\n");
  }

  // Adds the value and perhaps hooks.
  void Add(int value) {
    const std::string name = absl::StrCat(values_.size());
    values_.push_back(value);
    for (int i = Draw(3); i > 0; --i) AddHook(value, absl::StrCat(name, ".", i));
  }

  void AddHook(int value, const std::string& name) {
    const auto note = [this, name](const char* kind) {
      return [this, text = absl::StrCat(kind, name)](const Tensors&, const Tensors& incoming) {
        std::string defined;
        for (const at::Tensor& gradient : incoming) defined += gradient.defined() ? " 1" : " 0";
        Log(text + defined);
      };
    };
    const int kind = Draw(5);
    absl::StrAppend(&text_, "  hook ", name, " of kind ", kind, "\n");
    switch (kind) {
      case 0:
        return world_.PreHook(value, note("pre "));
      case 1:
        return world_.PostHook(value, note("post "));
      case 2:
        if (std::find(retained_.begin(), retained_.end(), value) == retained_.end()) retained_.push_back(value);
        return world_.RetainGrad(value);
      default:
        break;
    }
    const bool replaces = Draw(2) == 0;
    world_.TensorHook(value, [this, name, replaces](const at::Tensor& gradient) {
      Log(absl::StrCat("tensor ", name, gradient.defined() ? "" : " undefined"));
      return replaces && gradient.defined() ? gradient * 2 : at::Tensor();
    });
  }

  void Log(std::string text) { world_.log.push_back(std::move(text)); }

  World& world_;
  std::mt19937_64 random_;
  const bool has_undefined_;
  std::vector<int> values_, leaves_, retained_;
  std::string text_;
};

Outcome RunIn(Mode mode, uint64_t seed, std::string* text = nullptr) {
  torch::manual_seed(seed);
  const std::unique_ptr<World> world = World::Make(mode);
  Outcome outcome;
  RandomProgram program(*world, seed);
  outcome.gradients = program.Run();
  if (text != nullptr) *text = program.text();
  outcome.log = world->log;
  return outcome;
}

TEST(RandomHooksTest, TracesAndGradientsAreThoseOfEager) {
  const uint64_t first = TestSeed();
  ASSERT_TRUE(CompiledAutograd::Reset().ok());
  for (const auto function : {Sine, Product, Sum}) function();  // compiling draws random numbers
  size_t calls = 0;
  for (uint64_t seed = first; seed < first + kPrograms && !HasFailure(); ++seed) {
    std::string text;
    const Outcome eager = RunIn(Mode::kEager, seed, &text);
    SCOPED_TRACE(absl::StrCat("COTAN_TEST_SEED=", seed, "\n", text));
    const Outcome walked = RunIn(Mode::kWalked, seed);
    const Outcome captured = RunIn(Mode::kCaptured, seed);
    EXPECT_EQ(walked.log, eager.log);
    EXPECT_EQ(captured.log, eager.log);
    ASSERT_EQ(walked.gradients.size(), eager.gradients.size());
    ASSERT_EQ(captured.gradients.size(), eager.gradients.size());
    for (size_t i = 0; i < eager.gradients.size(); ++i) {
      const at::Tensor& expected = eager.gradients[i];
      EXPECT_TRUE(SameBits(walked.gradients[i], captured.gradients[i])) << "gradient " << i;
      ASSERT_EQ(walked.gradients[i].defined(), expected.defined()) << "gradient " << i;
      if (!expected.defined()) continue;
      EXPECT_TRUE(at::allclose(walked.gradients[i], expected.detach(), 1e-4, 1e-4)) << "gradient " << i;
    }
    calls += eager.log.size();
  }
  const CaptureStats& stats = CompiledAutograd::Stats();
  EXPECT_GT(calls, 5u * kPrograms);
  EXPECT_GT(stats.segments, kPrograms);
  EXPECT_EQ(stats.walked_segments, 0) << ::testing::PrintToString(CompiledAutograd::Messages());
}

}  // namespace
}  // namespace cotan::testing
