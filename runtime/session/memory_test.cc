// SPDX-License-Identifier: Apache-2.0

// Tests that repeated calls of a session allocate nothing, and that a failed allocation leaves the session
// usable.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/api/registry.h"
#include "runtime/session/session.h"
#include "runtime/testing/limited_device.h"
#include "runtime/testing/program_builder.h"

namespace {

int g_allocations = 0;
size_t g_largest_bytes = 0;  // of one allocation

void* Allocate(size_t bytes, size_t alignment) {
  ++g_allocations;
  g_largest_bytes = std::max(g_largest_bytes, bytes);
  void* memory = nullptr;
  if (::posix_memalign(&memory, alignment < sizeof(void*) ? sizeof(void*) : alignment, bytes == 0 ? 1 : bytes) != 0) {
    return nullptr;
  }
  return memory;
}

// Not inlined: the compiler would warn that free() does not match operator new.
[[gnu::noinline]] void Free(void* memory) { std::free(memory); }

}  // namespace

void* operator new(size_t bytes) { return Allocate(bytes, alignof(std::max_align_t)); }
void* operator new[](size_t bytes) { return Allocate(bytes, alignof(std::max_align_t)); }
void* operator new(size_t bytes, std::align_val_t alignment) { return Allocate(bytes, static_cast<size_t>(alignment)); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes, alignof(std::max_align_t)); }
void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return Allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete[](void* memory) noexcept { Free(memory); }
void operator delete(void* memory, size_t) noexcept { Free(memory); }
void operator delete[](void* memory, size_t) noexcept { Free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { Free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { Free(memory); }

namespace cotan {
namespace {

using testing::LimitedDevice;
using testing::LinearRegression;
using testing::TestKernels;

Tensor OnDevice(const std::vector<float>& values, const DimVector& sizes, Device& device) {
  const Tensor tensor = *Tensor::Empty(DType::kFloat32, sizes, device);
  EXPECT_TRUE(device.CopyFromHost(tensor.address(), values.data(), values.size() * sizeof(float)).ok());
  return tensor;
}

// A kernel that computes and allocates nothing, so that all allocations are the runtime's.
class IdleKernel final : public Kernel {
 public:
  absl::Status Run(const KernelArgs&) override { return absl::OkStatus(); }
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeIdle(const KernelRequest&) { return std::make_unique<IdleKernel>(); }

const KernelRegistry& IdleKernels() {
  static const KernelRegistry& registry = *[] {
    auto* kernels = new KernelRegistry;
    for (OpKind kind : AllOpKinds()) {
      for (DType dtype : {DType::kFloat32, DType::kInt64}) {
        EXPECT_TRUE(kernels->Register(DeviceType::kCpu, kind, dtype, MakeIdle).ok());
      }
    }
    return kernels;
  }();
  return registry;
}

TEST(MemoryTest, CallsAllocateNothingAfterTheFirst) {
  absl::StatusOr<Session> session =
      Session::Create(LinearRegression().Load(), {.kernels = &IdleKernels(), .threads = 1});
  ASSERT_TRUE(session.ok());
  const std::vector<Tensor> arguments = {OnDevice({1, 2, 3, 4, 5, 6}, {2, 3}, HostDevice()),
                                         OnDevice({1, 0, 0, 1}, {2, 2}, HostDevice())};
  const std::vector<Tensor> tangents = {arguments[1]};
  const MethodHandle step = *session->FindMethod("train_step");
  const MethodHandle forward = *session->FindMethod("forward");
  const MethodHandle backward = *session->FindMethod("backward");
  std::vector<Tensor> loss(1);
  std::vector<Tensor> prediction(1);
  std::vector<Tensor> gradients(3);
  bool ok = true;
  const auto run_all = [&] {
    ok = ok && session->Run(step, arguments, absl::MakeSpan(loss)).ok();
    ok = ok && session->Run(forward, absl::MakeConstSpan(arguments).first(1), absl::MakeSpan(prediction)).ok();
    ok = ok && session->Run(backward, tangents, absl::MakeSpan(gradients)).ok();
  };
  for (int i = 0; i < 2; ++i) run_all();
  ASSERT_TRUE(ok);
  const int before = g_allocations;
  EXPECT_GT(before, 0);
  for (int i = 0; i < 10; ++i) run_all();
  EXPECT_EQ(g_allocations - before, 0);
  EXPECT_TRUE(ok);
}

// Runs all methods once. Stops at the first error.
absl::Status UseAll(Session& session, const std::vector<Tensor>& arguments) {
  absl::Status status = session.Run("train_step", arguments).status();
  if (status.ok()) status = session.Run("forward", {arguments[0]}).status();
  if (status.ok()) status = session.Run("backward", {arguments[1]}).status();
  return status;
}

TEST(MemoryTest, EveryFailedAllocationIsAnErrorAndChangesNothing) {
  const std::shared_ptr<const Program> program = LinearRegression().Load();
  int num_failures = 0;
  for (int fail_at = 0;; ++fail_at) {
    LimitedDevice device;
    const std::vector<Tensor> arguments = {OnDevice({1, 2, 3, 4, 5, 6}, {2, 3}, device),
                                           OnDevice({1, 0, 0, 1}, {2, 2}, device)};
    device.FailAfter(fail_at);
    absl::StatusOr<Session> session =
        Session::Create(program, {.kernels = &TestKernels(), .device = &device, .threads = 1});
    if (!session.ok()) {
      ASSERT_EQ(session.status().code(), absl::StatusCode::kResourceExhausted) << session.status();
      ++num_failures;
      continue;
    }
    const absl::Status status = UseAll(*session, arguments);
    if (!device.has_failed()) {
      EXPECT_TRUE(status.ok()) << status;
      break;
    }
    ++num_failures;
    ASSERT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    const int64_t steps = *session->State("step")->Item<int64_t>();
    ASSERT_EQ(*session->Rng(), (RngState{.seed = 0, .offset = 2 * steps}));
    // After the failure the session continues with correct results.
    const absl::Status again = UseAll(*session, arguments);
    ASSERT_TRUE(again.ok()) << again;
    ASSERT_EQ(*session->State("step")->Item<int64_t>(), steps + 1);
  }
  EXPECT_GE(num_failures, 10);
}

TEST(MemoryTest, LoadingACheckpointCopiesItsTensorsToTheStatesAlone) {
  constexpr int64_t kCount = 1 << 18;
  testing::ProgramBuilder program;
  program.AddState("weight", serialization::State::PARAMETER, DType::kFloat32, {absl::StrCat(kCount)}, 1);
  Session session = *Session::Create(program.Load(), {.kernels = &TestKernels(), .threads = 1});
  const std::string path = absl::StrCat(::testing::TempDir(), "/borrowed.safetensors");
  ASSERT_TRUE(session.SaveCheckpoint(path).ok());
  ASSERT_TRUE(session.SetState("weight", *Tensor::Zeros(DType::kFloat32, {kCount})).ok());
  g_largest_bytes = 0;
  ASSERT_TRUE(session.LoadCheckpoint(path).ok());
  EXPECT_LT(g_largest_bytes, kCount * sizeof(float));
  EXPECT_EQ(*session.State("weight")->ToVector<float>(), std::vector<float>(kCount, 1.0f));
}

TEST(MemoryTest, GrowingBatchesReuseOneArena) {
  absl::StatusOr<Session> session =
      Session::Create(LinearRegression().Load(), {.kernels = &TestKernels(), .threads = 1});
  ASSERT_TRUE(session.ok());
  const auto run = [&](int64_t batch) {
    const std::vector<float> input(static_cast<size_t>(batch) * 3, 1);
    const std::vector<float> target(static_cast<size_t>(batch) * 2, 1);
    const absl::Status status =
        session->Run("train_step", {*Tensor::From<float>(input, {batch, 3}), *Tensor::From<float>(target, {batch, 2})})
            .status();
    ASSERT_TRUE(status.ok()) << status;
  };
  run(2);
  const int64_t small = session->arena_bytes();
  run(64);
  const int64_t large = session->arena_bytes();
  EXPECT_GE(large, small);  // equal if the kernels' own memory is most of it
  run(2);
  EXPECT_EQ(session->arena_bytes(), large);
}

}  // namespace
}  // namespace cotan
