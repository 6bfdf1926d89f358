// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/threading/pipeline.h"

#include <omp.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "gtest/gtest.h"

namespace cotan::cpu {
namespace {

// Computes output = input + amount through its own scratch.
class AddKernel final : public Kernel {
 public:
  explicit AddKernel(int amount) : amount_(amount) { scratch_bytes_ = sizeof(int); }
  absl::Status Run(const KernelArgs& args) override {
    threads_ = omp_get_max_threads();
    auto* scratch = static_cast<int*>(args.scratch);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(scratch) % 64, 0U);
    *scratch = *static_cast<int*>(args.inputs[0]) + amount_;
    *static_cast<int*>(args.outputs[0]) = *scratch;
    return absl::OkStatus();
  }
  static inline int threads_ = 0;

 private:
  int amount_;
};

class FailingKernel final : public Kernel {
 public:
  absl::Status Run(const KernelArgs&) override { return absl::InternalError("no"); }
};

TEST(PipelineTest, StepsPassValuesThroughScratch) {
  Pipeline pipeline(3);
  const Slot middle = pipeline.AddScratch(3);
  const Slot second = pipeline.AddScratch(4);
  pipeline.Add(std::make_unique<AddKernel>(1), {Slot::Input(0)}, {middle});
  pipeline.Add(std::make_unique<AddKernel>(10), {middle}, {second});
  pipeline.Add(std::make_unique<AddKernel>(100), {second}, {Slot::Output(0, sizeof(int))});
  ASSERT_EQ(pipeline.scratch_bytes(), 64 + 64 + sizeof(int));
  alignas(64) char scratch[256];
  int input = 5;
  int output[2] = {-1, -1};
  void* in = &input;
  void* out = output;
  ASSERT_TRUE(pipeline.Run({&in, &out, scratch}).ok());
  EXPECT_EQ(output[0], -1);
  EXPECT_EQ(output[1], 116);
  EXPECT_EQ(AddKernel::threads_, 3);
}

TEST(PipelineTest, FirstErrorEndsTheRun) {
  Pipeline pipeline(1);
  pipeline.Add(std::make_unique<FailingKernel>(), {}, {});
  pipeline.Add(std::make_unique<AddKernel>(1), {Slot::Input(0)}, {Slot::Output(0)});
  alignas(64) char scratch[64];
  int value = 5;
  void* pointer = &value;
  EXPECT_EQ(pipeline.Run({&pointer, &pointer, scratch}).message(), "no");
  EXPECT_EQ(value, 5);
}

}  // namespace
}  // namespace cotan::cpu
