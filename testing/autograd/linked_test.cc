// SPDX-License-Identifier: Apache-2.0

// Trains three compiled programs by a backward that was recorded, fused by `cotan link` and loaded again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "aot/compile.h"
#include "runtime/autograd/engine.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "runtime/execution/program.h"
#include "testing/autograd/loaded.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

// Compiles a function and returns the path of its file.
std::string Artifact(const std::string& name, Tensors (*function)(const Tensors&), const Tensors& examples) {
  Tensors leaves;
  for (const at::Tensor& example : examples) leaves.push_back(example.clone().requires_grad_());
  return WriteArtifact(name, aot::CompileFunction(function, leaves, {.dynamic_dims = {{0, 0, "batch", 2, 64}}}));
}

Tensors Backbone(const Tensors& in) {
  const at::Tensor image = at::relu(at::conv2d(in[0], in[1], in[2], 1, 1));
  return {at::max_pool2d(image, 2).flatten(1)};
}
Tensors Head(const Tensors& in) { return {at::linear(at::layer_norm(in[0], {32}, in[1], in[2]), in[3], in[4])}; }
Tensors Loss(const Tensors& in) { return {-at::log_softmax(in[0], 1).select(1, 0).mean()}; }

Tensors Exponential(const Tensors& in) { return {in[0].exp()}; }
Tensors SumOfSines(const Tensors& in) { return {in[0].sin().sum()}; }

// The leaves: the image, weights of the backbone, weights of the head.
Tensors Values(int64_t batch) {
  torch::manual_seed(7);
  const Tensors weights = {at::randn({2, 3, 3, 3}), at::randn({2}),     at::randn({32}),
                           at::randn({32}),         at::randn({5, 32}), at::randn({5})};
  Tensors values = {at::randn({batch, 3, 8, 8})};
  values.insert(values.end(), weights.begin(), weights.end());
  return values;
}

Variable Leaf(const at::Tensor& value) {
  const absl::Span<const float> elements(value.data_ptr<float>(), static_cast<size_t>(value.numel()));
  return *Variable::Leaf(*cotan::Tensor::From<float>(elements, value.sizes().vec()));
}

// Returns the elements.
at::Tensor GradOf(const Variable& leaf) {
  const std::vector<float> elements = *leaf.grad().tensor().ToVector<float>();
  return at::tensor(elements);
}

int64_t NumKernels(const serialization::Method& method) {
  return std::count_if(method.ops().begin(), method.ops().end(), [](const auto& op) { return !op.has_view(); });
}

int64_t NumExpressions(const serialization::Method& method) {
  return std::count_if(method.ops().begin(), method.ops().end(), [](const auto& op) { return op.has_expr(); });
}

// Returns the gradient of x after a backward through both programs, one after the other. `options`: null to walk.
at::Tensor GradThroughBoth(const std::string& first_path, const std::string& second_path, const at::Tensor& x,
                           const CompiledAutogradOptions* options) {
  Loaded first(first_path), second(second_path);
  const Variable leaf = Leaf(x);
  const Variable total = second({first({leaf})});
  const auto scope = options == nullptr ? nullptr : std::make_unique<CompiledAutograd>(*options);
  const absl::Status status = autograd::Backward({total}, {}, second.session.ops());
  EXPECT_TRUE(status.ok()) << status;
  return GradOf(leaf);
}

class LinkedTest : public ::testing::Test {
 protected:
  LinkedTest()
      : backbone_(Artifact("backbone", Backbone, {Values(6)[0], Values(6)[1], Values(6)[2]})),
        head_(Artifact("head", Head, {at::randn({6, 32}), Values(6)[3], Values(6)[4], Values(6)[5], Values(6)[6]})),
        loss_(Artifact("loss", Loss, {at::randn({6, 5})})) {
    EXPECT_TRUE(CompiledAutograd::Reset().ok());
  }
  ~LinkedTest() override { EXPECT_TRUE(CompiledAutograd::Reset().ok()); }

  // Returns the gradients after two backwards. `options`: null to walk.
  Tensors Train(int64_t batch, const CompiledAutogradOptions* options) const {
    Loaded backbone(backbone_), head(head_), loss(loss_);
    std::vector<Variable> leaves;
    for (const at::Tensor& value : Values(batch)) leaves.push_back(Leaf(value));
    for (int round = 0; round < 2; ++round) {
      const Variable features = backbone({leaves[0], leaves[1], leaves[2]});
      const Variable scores = head({features, leaves[3], leaves[4], leaves[5], leaves[6]});
      const Variable total = loss({scores});
      const auto scope = options == nullptr ? nullptr : std::make_unique<CompiledAutograd>(*options);
      const absl::Status status = autograd::Backward({total}, {}, loss.session.ops());
      EXPECT_TRUE(status.ok()) << status;
    }
    Tensors gradients;
    for (const Variable& leaf : leaves) gradients.push_back(GradOf(leaf));
    return gradients;
  }

  std::string Save() const {
    const CompiledAutogradOptions options;
    Train(6, &options);
    Train(9, &options);
    std::string path = ::testing::TempDir() + "/captures.cotan";
    const absl::Status saved = CompiledAutograd::SaveCaptures(path);
    EXPECT_TRUE(saved.ok()) << saved;
    EXPECT_TRUE(CompiledAutograd::Reset().ok());
    return path;
  }

  // Runs the tool; returns what it prints.
  static std::string Link(const std::string& arguments, int expected) {
    const std::string log = ::testing::TempDir() + "/link.txt";
    const int status = std::system(
        absl::StrCat("PATH=aot/linking:$PATH runtime/tools/cotan link ", arguments, " > ", log, " 2>&1").c_str());
    EXPECT_EQ(status == 0 ? 0 : 1, expected);
    std::stringstream text;
    text << std::ifstream(log).rdbuf();
    return text.str();
  }

  const std::string backbone_, head_, loss_;
};

TEST_F(LinkedTest, FusedBackwardsAreFoundAndHaveTheBitsOfTheWalk) {
  const std::string captures = Save();
  const std::string fused = ::testing::TempDir() + "/step.cotan";
  const std::string text = Link(absl::StrCat(captures, " ", backbone_, " ", head_, " ", loss_, " --out=", fused), 0);
  EXPECT_THAT(text, HasSubstr("2 linked methods"));
  const auto linked = LinkedMethods::Load(*Program::Load(fused));
  ASSERT_TRUE(linked.ok()) << linked.status();
  const CompiledAutogradOptions options = {.linked = *linked, .capture = false};
  for (const int64_t batch : {6, 9, 13, 2}) {
    const Tensors expected = Train(batch, nullptr);
    const Tensors gradients = Train(batch, &options);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(at::equal(gradients[i], expected[i])) << "gradient " << i << " at batch " << batch << ", difference "
                                                        << (gradients[i] - expected[i]).abs().max().item<float>();
    }
  }
  EXPECT_EQ(CompiledAutograd::Stats().captures, 0);
  EXPECT_EQ(CompiledAutograd::Stats().hits, 8);
  EXPECT_EQ(CompiledAutograd::Stats().walked_segments, 0) << ::testing::PrintToString(CompiledAutograd::Messages());
}

TEST_F(LinkedTest, FusedBackwardsHaveFewerKernels) {
  const auto before = Program::Load(Save());
  ASSERT_TRUE(before.ok()) << before.status();
  const std::string fused = ::testing::TempDir() + "/step.cotan";
  Link(absl::StrCat(::testing::TempDir(), "/captures.cotan ", backbone_, " ", head_, " ", loss_, " --out=", fused), 0);
  const auto after = Program::Load(fused);
  ASSERT_TRUE(after.ok()) << after.status();
  for (int i = 0; i < (*before)->artifact().methods_size(); ++i) {
    const serialization::Method& method = (*before)->method(i);
    // An accumulation of a sum over the batch becomes part of the sum.
    const int64_t fused = method.input_updates_size() == 0 ? 0 : 5;
    EXPECT_LE(NumKernels((*after)->method(i)), NumKernels(method) - fused);
  }
}

// The leaf has no gradient before, so that nothing is accumulated: the only two expressions are those of the programs.
TEST_F(LinkedTest, ExpressionsOfTwoProgramsBecomeOneKernel) {
  const at::Tensor x = at::randn({6, 5});
  const std::string first = Artifact("exponential", Exponential, {x}), second = Artifact("sines", SumOfSines, {x});
  const at::Tensor walked = GradThroughBoth(first, second, x, nullptr);
  const CompiledAutogradOptions capturing;
  EXPECT_TRUE(at::equal(GradThroughBoth(first, second, x, &capturing), walked));
  const std::string captures = ::testing::TempDir() + "/two.cotan", fused = ::testing::TempDir() + "/one.cotan";
  ASSERT_TRUE(CompiledAutograd::SaveCaptures(captures).ok());
  ASSERT_TRUE(CompiledAutograd::Reset().ok());
  EXPECT_THAT(Link(absl::StrCat(captures, " ", first, " ", second, " --out=", fused), 0), HasSubstr("1 linked method"));

  const auto before = Program::Load(captures), after = Program::Load(fused);
  ASSERT_TRUE(before.ok() && after.ok()) << before.status() << after.status();
  ASSERT_EQ((*before)->artifact().methods_size(), 1);
  ASSERT_EQ((*after)->artifact().methods_size(), 1);
  EXPECT_EQ(NumExpressions((*before)->method(0)), 2) << (*before)->method(0).DebugString();
  EXPECT_EQ(NumExpressions((*after)->method(0)), 1) << (*after)->method(0).DebugString();
  EXPECT_LT(NumKernels((*after)->method(0)), NumKernels((*before)->method(0)));

  const auto linked = LinkedMethods::Load(*after);
  ASSERT_TRUE(linked.ok()) << linked.status();
  const CompiledAutogradOptions options = {.linked = *linked, .capture = false};
  EXPECT_TRUE(at::equal(GradThroughBoth(first, second, x, &options), walked));
  EXPECT_EQ(CompiledAutograd::Stats().hits, 1);
}

TEST_F(LinkedTest, CapturesOfOtherArtifactsAreRefused) {
  const std::string captures = Save();
  const std::string out = ::testing::TempDir() + "/refused.cotan";
  EXPECT_THAT(Link(absl::StrCat(captures, " ", backbone_, " ", head_, " --out=", out), 1),
              HasSubstr("no given artifact has these methods: 'backward' in 'backward.0'"));
  EXPECT_FALSE(Program::Load(out).ok());
  EXPECT_THAT(Link(absl::StrCat(captures, " --out=", out), 1), HasSubstr("give the captures"));
}

}  // namespace
}  // namespace cotan::testing
