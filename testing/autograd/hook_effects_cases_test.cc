// SPDX-License-Identifier: Apache-2.0

// Hooks of compiled functions that are removed, that run backwards and that see several gradients, and when saved
// values are unpacked, beside LibTorch eager. Each backward is walked and captured. Rows C4 and C5 of cases.txt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/generated/Functions.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/hooks.h"
#include "runtime/autograd/multi_grad_hook.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/saved_tensor_hooks.h"
#include "testing/autograd/walked_and_captured.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

using ::testing::ElementsAre;

Compiled Compile(const aot::TensorFunction& function, const Tensors& examples) {
  auto compiled = Compiled::Function(function, examples, /*order=*/1);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

Tensors Double(const Tensors& in) { return {in[0] * 2}; }
Tensors Square(const Tensors& in) { return {in[0] * in[0]}; }
Tensors Product(const Tensors& in) { return {in[0] * in[1]}; }
Tensors Sine(const Tensors& in) { return {in[0].sin()}; }
Tensors TotalOfLine(const Tensors& in) { return {(2 * in[0] + 5).sum()}; }

at::Tensor Ones() { return torch::ones({3}, torch::kDouble); }
absl::Status BackwardOf(const Variables& roots, Compiled& f, const autograd::BackwardOptions& options = {}) {
  return autograd::Backward(roots, {ToCotan(Ones())}, f.ops(), options);
}
void ExpectGrad(const Variable& variable, const at::Tensor& expected) {
  ASSERT_TRUE(variable.grad().defined());
  ExpectNear(ToTorch(variable.grad().tensor()), expected);
}

// AG-025.
TEST(HookEffectsTest, OfTwoEqualHooksTheRemovedOneDoesNotRun) {
  const at::Tensor x = Leaf(0, {3}), y = Double({x})[0];
  int eager_calls = 0;
  const auto hook_of_eager = [&eager_calls](const at::Tensor& gradient) {
    ++eager_calls;
    return gradient * 2;
  };
  const unsigned first_of_eager = y.register_hook(hook_of_eager);
  y.register_hook(hook_of_eager);
  y.remove_hook(first_of_eager);
  y.backward(Ones());
  EXPECT_EQ(eager_calls, 1);

  Compiled f = Compile(Double, {Leaf(0, {3})});
  WalkedAndCaptured([&] {
    const Variable ours = ToVariable(Leaf(0, {3}));
    Variable result = f({ours})[0];
    int calls = 0;
    const auto hook = [&calls](const Tensor& gradient) -> absl::StatusOr<Tensor> {
      ++calls;
      return ToCotan(2 * ToTorch(gradient));
    };
    const autograd::HookId first = *result.AddHook(hook);
    ASSERT_TRUE(result.AddHook(hook).ok());
    EXPECT_TRUE(result.RemoveHook(first));
    const absl::Status ran = BackwardOf({result}, f);
    ASSERT_TRUE(ran.ok()) << ran;
    EXPECT_EQ(calls, 1);
    ExpectGrad(ours, x.grad());
  });
}

// AG-025. LibTorch has no handles of the hooks of a node in C++.
TEST(HookEffectsTest, AHookThatIsRemovedByAnotherOneRunsOnceMore) {
  Compiled f = Compile(Double, {Leaf(0, {3})});
  WalkedAndCaptured([&] {
    const Variables end = f(f({ToVariable(Leaf(0, {3}))}));
    autograd::Hooks& hooks = (*end[0].grad_fn())->MutableHooks();
    std::string log;
    const auto note = [&log](const std::string& name) {
      return [&log, name](absl::Span<Tensor>) {
        log += name;
        return absl::OkStatus();
      };
    };
    const autograd::HookId gone = hooks.AddPreHook(note("gone "));
    EXPECT_TRUE(hooks.Remove(gone));
    autograd::HookId later = 0;
    hooks.AddPreHook([&](absl::Span<Tensor>) {
      EXPECT_EQ(hooks.Remove(later), log.empty());
      EXPECT_FALSE(hooks.Remove(gone));
      log += "first ";
      return absl::OkStatus();
    });
    later = hooks.AddPreHook(note("later "));
    ASSERT_TRUE(BackwardOf(end, f, {.retain_graph = true}).ok());
    EXPECT_EQ(log, "first later ");
    ASSERT_TRUE(BackwardOf(end, f).ok());
    EXPECT_EQ(log, "first later first ");
  });
}

// AG-033. LibTorch has hooks of several gradients in Python only; the gradients are those of eager.
TEST(HookEffectsTest, AHookOfSeveralGradientsRunsIfABackwardReachesOne) {
  const Tensors leaves = {Leaf(0, {3}), Leaf(1, {3}), Leaf(2, {3}), Leaf(3, {3})};
  const Tensors expected = torch::autograd::grad(Product({leaves[1], leaves[2]}), {leaves[1], leaves[2]}, {Ones()});
  Compiled f = Compile(Product, {leaves[1], leaves[2]});
  WalkedAndCaptured([&] {
    const Variables t = ToVariables(leaves);
    std::vector<std::string> seen;
    const auto hook = [&](const autograd::Gradients& gradients) {
      std::string& defined = seen.emplace_back();
      for (size_t i = 0; i < gradients.size(); ++i) {
        defined += gradients[i].defined() ? '1' : '0';
        if (gradients[i].defined()) ExpectNear(ToTorch(gradients[i]), expected[i - 1]);
      }
      return absl::OkStatus();
    };
    auto handle = autograd::AddMultiGradHook(t, autograd::MultiGradMode::kAll, hook);
    ASSERT_TRUE(handle.ok()) << handle.status();
    bool fails = false;
    const auto inner = [&fails] { return fails ? absl::AbortedError("stop") : absl::OkStatus(); };
    const Variables end = f({WithInner(t[1], inner), t[2]});
    const auto run = [&](Variables inputs) {
      return BackwardOf(end, f, {.retain_graph = true, .inputs = std::move(inputs)});
    };
    ASSERT_TRUE(run({t[1], t[2]}).ok());
    EXPECT_THAT(seen, ElementsAre("0110"));
    ASSERT_TRUE(run({t[0], t[3]}).ok());
    EXPECT_THAT(seen, ElementsAre("0110"));
    ASSERT_TRUE(run({t[0], t[2]}).ok());
    EXPECT_THAT(seen, ElementsAre("0110", "0010"));
    fails = true;
    EXPECT_EQ(run({t[1], t[2]}).code(), absl::StatusCode::kAborted);
    fails = false;
    handle->Remove();
    ASSERT_TRUE(run({t[1], t[2]}).ok());
    EXPECT_THAT(seen, ElementsAre("0110", "0010"));
  });
}

// AG-040.
TEST(HookEffectsTest, AHookAddsTheGradientOfABackwardOfItsOwn) {
  const at::Tensor p = Leaf(0, {3}), square = Square({p})[0];
  square.register_hook([](const at::Tensor& gradient) {
    const at::AutoGradMode grad(true);
    const at::Tensor q = Leaf(1, {3});
    TotalOfLine({q})[0].backward();
    return gradient + q.grad();
  });
  square.backward(Ones());
  ExpectNear(p.grad(), 6 * p.detach());

  Compiled f = Compile(Square, {Leaf(0, {3})}), line = Compile(TotalOfLine, {Leaf(0, {3})});
  WalkedAndCaptured([&] {
    const Variable ours = ToVariable(Leaf(0, {3}));
    Variable result = f({ours})[0];
    const auto hook = [&](const Tensor& gradient) -> absl::StatusOr<Tensor> {
      const GradModeGuard grad(true);
      const Variable q = ToVariable(Leaf(1, {3}));
      const absl::Status ran = autograd::Backward(line({q}), {}, line.ops());
      if (!ran.ok()) return ran;
      return f.ops().Add(gradient, q.grad().tensor());
    };
    ASSERT_TRUE(result.AddHook(hook).ok());
    const absl::Status ran = BackwardOf({result}, f);
    ASSERT_TRUE(ran.ok()) << ran;
    ExpectGrad(ours, p.grad());
  });
}

// Notes when a saved value is unpacked.
class UnpackIsNoted final : public torch::autograd::SavedVariableHooks {
 public:
  UnpackIsNoted(int number, std::vector<std::string>& log) : number_(number), log_(log) {}
  void call_pack_hook(const at::Tensor& tensor) override { value_ = tensor.detach(); }
  at::Tensor call_unpack_hook() override {
    log_.push_back(absl::StrCat("unpack ", number_));
    return value_;
  }

 private:
  const int number_;
  std::vector<std::string>& log_;
  at::Tensor value_;
};

void NoteUnpack(const at::Tensor& sine, int number, std::vector<std::string>& log) {
  static_cast<torch::autograd::generated::SinBackward0*>(sine.grad_fn().get())
      ->self_.register_hooks(std::make_unique<UnpackIsNoted>(number, log));
}

// CA-046: directly before its node, behind the hook in front of it.
TEST(HookEffectsTest, ASavedValueIsUnpackedBehindTheHooksOfItsNode) {
  const at::Tensor x = Leaf(0, {3}), y = Sine({x})[0], z = Sine({y})[0];
  std::vector<std::string> log_of_eager;
  NoteUnpack(y, 0, log_of_eager);
  NoteUnpack(z, 1, log_of_eager);
  y.register_hook([&log_of_eager](const at::Tensor& gradient) {
    log_of_eager.emplace_back("hook");
    return gradient;
  });
  z.backward(Ones());

  Compiled f = Compile(Sine, {Leaf(0, {3})});
  WalkedAndCaptured([&] {
    using Packed = std::pair<int, Tensor>;
    std::vector<std::string> log;
    int packed = 0;
    const autograd::SavedTensorHooks hooks = {
        .pack = [&](const Tensor& value) -> absl::StatusOr<autograd::PackedData> {
          return std::make_shared<Packed>(packed++, *value.Clone());
        },
        .unpack = [&](const autograd::PackedData& data) -> absl::StatusOr<Tensor> {
          const auto& value = *static_cast<const Packed*>(data.get());
          log.push_back(absl::StrCat("unpack ", value.first));
          return value.second;
        }};
    const Variable ours = ToVariable(Leaf(0, {3}));
    Variables end;
    {
      const autograd::SavedTensorHooksScope scope(hooks);
      Variables middle = f({ours});
      const auto hook = [&log](const Tensor& gradient) -> absl::StatusOr<Tensor> {
        log.emplace_back("hook");
        return gradient;
      };
      ASSERT_TRUE(middle[0].AddHook(hook).ok());
      end = f(middle);
    }
    EXPECT_EQ(packed, 2);
    const absl::Status ran = BackwardOf(end, f);
    ASSERT_TRUE(ran.ok()) << ran;
    EXPECT_THAT(log, ElementsAre("unpack 1", "hook", "unpack 0"));
    EXPECT_EQ(log, log_of_eager);
    ExpectGrad(ours, x.grad());
  });
}

}  // namespace
}  // namespace cotan::testing
