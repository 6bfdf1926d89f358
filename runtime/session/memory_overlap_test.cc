// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/memory_overlap.h"

#include <vector>

#include "gtest/gtest.h"
#include "runtime/testing/program_builder.h"

namespace cotan {
namespace {

using testing::MethodBuilder;
using testing::ProgramBuilder;

Tensor Part(const std::shared_ptr<Storage>& storage, DType dtype, int64_t size, int64_t stride, int64_t offset) {
  return *Tensor::InStorage(storage, dtype, {.sizes = {size}, .strides = {stride}, .offset = offset});
}

bool Overlap(const Tensor& a, const Tensor& b) {
  const bool found = Overlap(MemoryRegion::Of(a), MemoryRegion::Of(b));
  EXPECT_EQ(found, Overlap(MemoryRegion::Of(b), MemoryRegion::Of(a)));
  return found;
}

TEST(MemoryOverlapTest, PartsOfOneStorage) {
  const auto storage = *Storage::Allocate(HostDevice(), 32);
  const Tensor even = Part(storage, DType::kFloat32, 4, 2, 0);
  EXPECT_FALSE(Overlap(even, Part(storage, DType::kFloat32, 4, 2, 1)));
  EXPECT_TRUE(Overlap(even, Part(storage, DType::kFloat32, 2, 1, 1)));
  EXPECT_FALSE(Overlap(even, Part(storage, DType::kFloat32, 0, 1, 0)));
  EXPECT_TRUE(Overlap(even, Part(storage, DType::kFloat64, 1, 1, 3)));
  EXPECT_FALSE(Overlap(even, *Tensor::Zeros(DType::kFloat32, {8})));
}

TEST(MemoryOverlapTest, StoragesThatBorrowTheSameMemory) {
  alignas(8) char memory[32] = {};
  const auto from = [&memory](int64_t begin, size_t bytes) {
    return Storage::Borrow(HostDevice(), memory + begin, bytes);
  };
  const auto all = from(0, 32);
  const auto second_half = from(16, 16);
  const Tensor whole = Part(all, DType::kFloat32, 8, 1, 0);
  const Tensor even = Part(all, DType::kFloat32, 4, 2, 0);
  EXPECT_TRUE(Overlap(whole, Part(second_half, DType::kFloat32, 4, 1, 0)));
  EXPECT_TRUE(Overlap(even, Part(second_half, DType::kFloat32, 2, 2, 0)));
  EXPECT_FALSE(Overlap(even, Part(second_half, DType::kFloat32, 2, 2, 1)));
  EXPECT_FALSE(Overlap(Part(all, DType::kFloat32, 4, 1, 0), Part(second_half, DType::kFloat32, 4, 1, 0)));
  const Tensor wide = Part(from(8, 16), DType::kFloat64, 1, 1, 0);  // bytes 8 to 15
  EXPECT_FALSE(Overlap(wide, Part(from(4, 28), DType::kInt32, 1, 1, 0)));
  EXPECT_TRUE(Overlap(wide, Part(from(4, 28), DType::kInt32, 1, 1, 1)));
  EXPECT_TRUE(Overlap(wide, Part(from(4, 28), DType::kInt32, 1, 1, 2)));
  EXPECT_FALSE(Overlap(wide, Part(from(4, 28), DType::kInt32, 1, 1, 3)));
  EXPECT_TRUE(Overlap(*all, *second_half));
  EXPECT_FALSE(Overlap(*from(0, 16), *second_half));
}

TEST(MemoryOverlapTest, RegionMayEndBehindItsStorage) {
  const auto storage = *Storage::Allocate(HostDevice(), 16);
  const StridedLayout grown = {.sizes = {8}, .strides = {1}, .offset = 2};
  const MemoryRegion region = {storage.get(), &grown, DType::kFloat32};
  EXPECT_TRUE(Overlap(region, MemoryRegion::Of(Part(storage, DType::kFloat32, 1, 1, 3))));
  EXPECT_FALSE(Overlap(region, MemoryRegion::Of(Part(storage, DType::kFloat32, 2, 1, 0))));
}

TEST(MemoryOverlapTest, StatesAreFoundByAddress) {
  ProgramBuilder builder;
  for (const char* name : {"a", "b", "c", "d"}) {
    builder.AddState(name, serialization::State::BUFFER, DType::kFloat32, {"4"}, 0);
  }
  builder.AddState("empty", serialization::State::BUFFER, DType::kFloat32, {"0"}, 0);
  builder.AddMethod("f");
  const StateStore store = *StateStore::Create(builder.Load(), HostDevice());
  const StateIntervals found(store, {3, 0, 2, 0, 4});
  EXPECT_FALSE(found.empty());
  EXPECT_TRUE(StateIntervals(store, {4}).empty()) << "a state without memory overlaps nothing";
  for (int state : {0, 2, 3}) {
    const Tensor& tensor = store.tensor(state);
    EXPECT_EQ(found.FindOverlap(MemoryRegion::Of(tensor)), state);
    EXPECT_EQ(found.FindOverlap(*tensor.storage()), state);
    EXPECT_EQ(found.FindOverlap(MemoryRegion::Of(Part(tensor.storage(), DType::kFloat32, 1, 1, 3))), state);
    const auto borrowed = Storage::Borrow(HostDevice(), tensor.address(), 4);
    EXPECT_EQ(found.FindOverlap(MemoryRegion::Of(Part(borrowed, DType::kFloat32, 1, 1, 0))), state);
  }
  EXPECT_EQ(found.FindOverlap(MemoryRegion::Of(store.tensor(1))), -1) << "not one of those asked for";
  EXPECT_EQ(found.FindOverlap(MemoryRegion::Of(*Tensor::Zeros(DType::kFloat32, {4}))), -1);
}

}  // namespace
}  // namespace cotan
