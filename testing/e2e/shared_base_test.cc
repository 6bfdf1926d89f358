// SPDX-License-Identifier: Apache-2.0

// Several sessions fine-tune adapters over one file: its frozen base is in memory once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "aot/compile.h"
#include "base/dtype.h"
#include "base/file.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/execution/program.h"
#include "runtime/session.h"
#include "runtime/session/session_access.h"
#include "runtime/testing/mapping_memory.h"
#include "runtime/testing/session_states.h"
#include "testing/e2e/compiled_trainer.h"

namespace cotan::testing {
namespace {

namespace nn = torch::nn;
using ::testing::EndsWith;

constexpr int64_t kWidth = 512;
constexpr int64_t kBaseBytes = 2 * kWidth * kWidth * 4;  // of both weights

struct Wide : nn::Module {
  Wide() : proj(register_module("proj", nn::Linear(kWidth, kWidth))) {
    out = register_module("out", nn::Linear(kWidth, kWidth));
  }
  torch::Tensor forward(torch::Tensor x) { return out(proj(x).tanh()); }

  nn::Linear proj, out{nullptr};
};

torch::Tensor Batch(int seed) {
  torch::manual_seed(static_cast<uint64_t>(seed));
  return torch::randn({4, kWidth});
}

absl::StatusOr<aot::CompiledModel> CompileWide() {
  aot::CompileOptions options;
  options.module.seed = 3;
  options.module.lora = {.modules = {"proj", "out"}, .rank = 4, .alpha = 8};
  options.loss.function = [](const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& targets) {
    return torch::mse_loss(outputs[0], targets[0]);
  };
  options.loss.targets = {Batch(0)};
  options.optimizer = aot::OptimizerConfig{aot::AdamW()};
  return aot::CompileModule(aot::AdaptFactory([] { return std::make_shared<Wide>(); }), {Batch(0)}, options);
}

class SharedBaseTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const absl::StatusOr<aot::CompiledModel> model = CompileWide();
    ASSERT_TRUE(model.ok()) << model.status();
    bytes_ = new std::string(model->bytes());
  }
  static void TearDownTestSuite() {
    delete bytes_;
    bytes_ = nullptr;
  }
  void SetUp() override {
    ASSERT_NE(bytes_, nullptr);
    ASSERT_TRUE(WriteFileAtomically(path_, {*bytes_}).ok());
    const auto program = Program::Load(path_);
    ASSERT_TRUE(program.ok()) << program.status();
    program_ = *program;
  }

  static Session NewSession(std::shared_ptr<const Program> program) {
    return *Session::Create(std::move(program), {.kernels = &CpuKernels(), .threads = 1});
  }
  static void Train(Session& session, int first_seed) {
    for (int seed = first_seed; seed < first_seed + 3; ++seed) {
      const absl::Status status =
          session.Run("train_step", {*ToCotan(Batch(seed)), *ToCotan(Batch(seed + 50))}).status();
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  static torch::Tensor StateOf(const Session& session, absl::string_view name) {
    return *ToTorch(*session.State(name));
  }
  // The mapping with the weight of "proj".
  static MappingMemory BaseMemory(const Session& session) {
    const int state = *session.program().FindState("proj.weight");
    return MappingMemoryAt(SessionCoreOf(session)->states().addresses()[static_cast<size_t>(state)]);
  }

  static std::string* bytes_;  // of the file
  const std::string path_ = absl::StrCat(::testing::TempDir(), "/shared_base.cotan");
  std::shared_ptr<const Program> program_;
};

std::string* SharedBaseTest::bytes_ = nullptr;

TEST_F(SharedBaseTest, TrainingSessionsHaveTheBaseInMemoryOnce) {
  Session first = NewSession(program_), second = NewSession(program_);
  Train(first, 1);
  Train(second, 20);
  for (const Session* session : {&first, &second}) {
    const MappingMemory memory = BaseMemory(*session);
    EXPECT_THAT(memory.file, EndsWith("/shared_base.cotan"));
    EXPECT_EQ(memory.private_bytes, 0);
    EXPECT_GT(session->state_bytes(), kBaseBytes);
  }
  EXPECT_FALSE(StateOf(first, "proj.lora_B.weight").equal(StateOf(second, "proj.lora_B.weight")));
  EXPECT_TRUE(StateOf(first, "proj.weight").equal(StateOf(second, "proj.weight")));
}

TEST_F(SharedBaseTest, TrainingHasTheBitsOfCopiedStates) {
  Session shared = NewSession(program_), copied = NewSession(*Program::LoadBytes(*bytes_));
  EXPECT_THAT(BaseMemory(shared).file, EndsWith("/shared_base.cotan"));
  EXPECT_THAT(BaseMemory(copied).file, ::testing::Not(EndsWith("/shared_base.cotan")));
  const std::string before = StateBytes(shared);
  Train(shared, 1);
  Train(copied, 1);
  EXPECT_NE(StateBytes(shared), before);
  EXPECT_EQ(StateBytes(shared), StateBytes(copied));
}

TEST_F(SharedBaseTest, AWriteToTheBaseStaysInItsSession) {
  Session first = NewSession(program_);
  const Session second = NewSession(program_);
  const torch::Tensor base = StateOf(second, "proj.weight");
  ASSERT_TRUE(first.SetState("proj.weight", *Tensor::Zeros(DType::kFloat32, {kWidth, kWidth})).ok());
  EXPECT_EQ(StateOf(first, "proj.weight").abs().max().item<double>(), 0);
  EXPECT_TRUE(StateOf(second, "proj.weight").equal(base));
  EXPECT_EQ(BaseMemory(second).private_bytes, 0);
  EXPECT_TRUE(StateOf(NewSession(program_), "proj.weight").equal(base));
  EXPECT_EQ(MappedFile::Open(path_)->bytes(), *bytes_);
}

TEST_F(SharedBaseTest, ACheckpointWithTheSameBaseLeavesItShared) {
  const std::string checkpoint = absl::StrCat(::testing::TempDir(), "/shared_base.safetensors");
  Session trained = NewSession(program_), resumed = NewSession(program_);
  Train(trained, 1);
  ASSERT_TRUE(trained.SaveCheckpoint(checkpoint).ok());
  ASSERT_TRUE(resumed.LoadCheckpoint(checkpoint).ok());
  EXPECT_EQ(StateBytes(resumed), StateBytes(trained));
  EXPECT_EQ(BaseMemory(resumed).private_bytes, 0);
}

}  // namespace
}  // namespace cotan::testing
