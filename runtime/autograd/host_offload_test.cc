// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/host_offload.h"

#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "runtime/autograd/test_support.h"

namespace cotan::autograd {
namespace {

using ::testing::ElementsAre;

// Host memory in place of a device's, whose copies are made at once.
class FakePinnedMemory final : public PinnedMemory {
 public:
  Device& device() override { return HostDevice(); }
  absl::StatusOr<void*> AllocateHost(size_t bytes) override {
    if (is_full) return absl::ResourceExhaustedError("no memory to pin");
    auto block = std::make_unique<char[]>(bytes);
    void* const address = block.get();
    blocks[address] = std::move(block);
    return address;
  }
  void FreeHost(void* memory) override { blocks.erase(memory); }
  absl::Status QueueCopyToHost(void* to, const void* from, size_t bytes) override {
    copied_bytes += bytes;
    return HostDevice().Copy(to, from, bytes);
  }
  absl::Status QueueCopyToDevice(void* to, const void* from, size_t bytes) override {
    return HostDevice().Copy(to, from, bytes);
  }

  std::map<void*, std::unique_ptr<char[]>> blocks;
  size_t copied_bytes = 0;
  bool is_full = false;
};

TEST(HostOffloadTest, AValueComesBackInOtherMemoryAndTheHostsIsFreed) {
  FakePinnedMemory memory;
  Tensor value = Vector({1, 2, 3});
  {
    auto packed = PackedTensor::Pack(OffloadToHost(memory), value);
    ASSERT_TRUE(packed.ok());
    EXPECT_EQ(value.storage().use_count(), 1);
    EXPECT_EQ(memory.blocks.size(), 1u);
    std::memset(value.address(), 0, 3 * sizeof(float));
    for (int i = 0; i < 2; ++i) {  // as with a retained graph
      const auto unpacked = packed->Unpack();
      ASSERT_TRUE(unpacked.ok());
      EXPECT_THAT(ToVector(*unpacked), ElementsAre(1, 2, 3));
    }
  }
  EXPECT_TRUE(memory.blocks.empty());
}

TEST(HostOffloadTest, StridesAndGapsAreKept) {
  FakePinnedMemory memory;
  const Tensor whole = Vector({0, 1, 2, 3, 4, 5, 6, 7});
  const Tensor view = *Tensor::InStorage(whole.storage(), DType::kFloat32, {{2, 2}, {1, 4}, 2});
  const auto packed = PackedTensor::Pack(OffloadToHost(memory), view);
  ASSERT_TRUE(packed.ok());
  EXPECT_EQ(memory.copied_bytes, 6 * sizeof(float));
  const auto unpacked = packed->Unpack();
  ASSERT_TRUE(unpacked.ok());
  EXPECT_THAT(unpacked->layout().strides, ElementsAre(1, 4));
  EXPECT_THAT(ToVector(*unpacked), ElementsAre(2, 6, 3, 7));
}

TEST(HostOffloadTest, SmallValuesAreKept) {
  FakePinnedMemory memory;
  const Tensor value = Vector({1, 2, 3});
  const auto packed = PackedTensor::Pack(OffloadToHost(memory, {.min_bytes = 13}), value);
  ASSERT_TRUE(packed.ok());
  EXPECT_EQ(packed->Unpack()->storage(), value.storage());
  EXPECT_TRUE(memory.blocks.empty());
}

TEST(HostOffloadTest, NoMemoryToPinIsAnError) {
  FakePinnedMemory memory;
  memory.is_full = true;
  EXPECT_THAT(PackedTensor::Pack(OffloadToHost(memory), Vector({1})).status(),
              Fails(absl::StatusCode::kResourceExhausted, "no memory to pin"));
}

}  // namespace
}  // namespace cotan::autograd
