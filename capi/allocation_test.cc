// SPDX-License-Identifier: Apache-2.0

// Replaces operator new to test that failing allocations become COTAN_RESOURCE_EXHAUSTED.
#include <cstdlib>
#include <functional>
#include <new>
#include <string>

#include "capi/test_handles.h"
#include "gtest/gtest.h"
#include "include/cotan.h"

namespace {

// Number of allocations of this thread that still succeed; negative: all.
thread_local int allocations_left = -1;

void* Allocate(size_t bytes) {
  if (allocations_left == 0) return nullptr;
  if (allocations_left > 0) --allocations_left;
  return std::malloc(bytes == 0 ? 1 : bytes);
}

}  // namespace

void* operator new(size_t bytes) {
  void* const memory = Allocate(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace cotan::capi {
namespace {

// Calls `call` with room for 0, 1, 2, ... allocations until it succeeds. Returns how often it failed.
int FailEachAllocation(const std::function<cotan_status()>& call) {
  for (int allowed = 0; allowed < 10000; ++allowed) {
    allocations_left = allowed;
    const cotan_status status = call();
    allocations_left = -1;
    if (status == COTAN_OK) return allowed;
    EXPECT_EQ(status, COTAN_RESOURCE_EXHAUSTED) << cotan_last_error();
    EXPECT_STRNE(cotan_last_error(), "");
  }
  ADD_FAILURE() << "did not succeed";
  return 0;
}

TEST(AllocationTest, TensorsAndStatesReportThatMemoryIsShort) {
  const ProgramHandle program = LoadLinearRegression();
  const SessionHandle session = MakeSession(program.get());
  const int64_t sizes[] = {2};
  const float values[] = {1, 2};
  cotan_tensor* out = nullptr;
  EXPECT_GT(FailEachAllocation([&] { return cotan_tensor_create(COTAN_F32, 1, sizes, values, 8, &out); }), 0);
  const TensorHandle tensor(out);
  EXPECT_GT(FailEachAllocation([&] { return cotan_session_get_state(session.get(), "bias", &out); }), 0);
  const TensorHandle state(out);
  EXPECT_EQ(Floats(state.get()), (std::vector<float>{0.25f, -0.25f}));
}

TEST(AllocationTest, ATextThatCannotBeStoredIsReplaced) {
  cotan_program* program = nullptr;
  allocations_left = 0;
  const cotan_status status = cotan_program_load(nullptr, &program);
  allocations_left = -1;
  EXPECT_EQ(status, COTAN_RESOURCE_EXHAUSTED);
  EXPECT_STREQ(cotan_last_error(), "not enough memory");
}

}  // namespace
}  // namespace cotan::capi
