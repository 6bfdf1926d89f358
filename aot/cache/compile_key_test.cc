// SPDX-License-Identifier: Apache-2.0

#include "aot/cache/compile_key.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "aot/ir/text.h"

namespace cotan::aot {
namespace {

struct Compiled {
  std::string method = "train_step";
  TracedProgram traced;
  KeyedOptions options;

  std::string Key() const { return CompileKey({{method, &traced}}, options); }
};

Compiled Example() {
  Compiled compiled;
  compiled.traced.graph.AddInput({DType::kFloat32, {SymInt(2)}, {}}, InputKind::kUserInput, 0, "x");
  compiled.traced.states.push_back(
      {.name = "w", .initial = {DType::kFloat32, {1}, std::string(4, '\1')}, .aliases = {}});
  compiled.traced.reference.outputs.push_back({DType::kFloat32, {1}, std::string(4, '\2')});
  compiled.options.optimizer = OptimizerConfig{SgdOptions{.lr = 0.1}, {}, {}, {}};
  return compiled;
}

WrapperMeta LowRank() {
  WrapperMeta wrapper;
  wrapper.type_name = "low_rank";
  wrapper.flat_count = 2;
  return wrapper;
}

TEST(CompileKeyTest, EqualProgramsHaveEqualKeys) { EXPECT_EQ(Example().Key(), Example().Key()); }

TEST(CompileKeyTest, EverythingThatDecidesTheBytesDecidesTheKey) {
  const std::vector<std::function<void(Compiled&)>> changes = {
      [](Compiled&) {},
      [](Compiled& c) { c.method = "eval"; },
      [](Compiled& c) {
        c.traced.graph.AddInput({DType::kFloat32, {SymInt(3)}, {}}, InputKind::kUserInput, 1, "y");
      },
      [](Compiled& c) { c.traced.metadata.set_is_train(true); },
      [](Compiled& c) { c.traced.signature.set_loss_output("loss"); },
      [](Compiled& c) { c.traced.grad_enabled = false; },
      [](Compiled& c) { c.traced.no_grad_view_inputs = {0}; },
      [](Compiled& c) { c.traced.no_grad_view_inputs = {1}; },
      [](Compiled& c) { c.traced.states[0].name = "v"; },
      [](Compiled& c) { c.traced.states[0].initial.bytes[3] = '\3'; },
      [](Compiled& c) { c.traced.states[0].requires_grad = true; },
      [](Compiled& c) { c.traced.states[0].aliases = {"tied"}; },
      [](Compiled& c) { c.traced.reference.outputs[0].bytes[0] = '\3'; },
      [](Compiled& c) { c.traced.reference.inputs.swap(c.traced.reference.outputs); },
      [](Compiled& c) { c.options.seed = 1; },
      [](Compiled& c) { c.options.saved_tensor_hooks = "int8 donated 1024"; },
      [](Compiled& c) { c.options.saved_tensor_hooks = "int8 all 1024"; },
      [](Compiled& c) { c.options.compiler = "another digest"; },
      [](Compiled& c) { c.options.producer = "another version"; },
      [](Compiled& c) { c.options.usual_sizes = {{.traced = 2, .usual = 64}}; },
      [](Compiled& c) { c.options.usual_sizes = {{.traced = 2, .usual = 65}}; },
      [](Compiled& c) { c.options.store_references = false; },
      [](Compiled& c) { c.options.accumulate_gradients = true; },
      [](Compiled& c) { c.options.partitioner = Partitioner::kDefault; },
      [](Compiled& c) { c.options.activation_memory_budget = 0.5; },
      [](Compiled& c) { c.options.activation_memory_budget = 0.25; },
      [](Compiled& c) { c.options.input_wrappers = {LowRank()}; },
      [](Compiled& c) { c.options.output_wrappers = {LowRank()}; },
      [](Compiled& c) { c.options.optimizer.reset(); },
      [](Compiled& c) { c.options.optimizer->options = SgdOptions{.lr = 0.1 + 1e-16}; },
      [](Compiled& c) { c.options.optimizer->options = AdamW(); },
      [](Compiled& c) { c.options.optimizer->clip_norm = 1; },
      [](Compiled& c) { c.options.optimizer->clip_value = 1; },
      [](Compiled& c) {
        c.options.optimizer->groups = {{{"*.bias"}, SgdOptions{.lr = 0.1}}};
      },
  };
  std::set<std::string> keys;
  for (const auto& change : changes) {
    Compiled compiled = Example();
    change(compiled);
    keys.insert(compiled.Key());
  }
  EXPECT_EQ(keys.size(), changes.size());
}

}  // namespace
}  // namespace cotan::aot
