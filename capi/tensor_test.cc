// SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "capi/test_handles.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "include/cotan.h"

namespace cotan::capi {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

cotan_tensor_info InfoOf(const TensorHandle& tensor) {
  cotan_tensor_info info = COTAN_TENSOR_INFO_INIT;
  EXPECT_EQ(cotan_tensor_get_info(tensor.get(), &info), COTAN_OK) << cotan_last_error();
  return info;
}

void CountRelease(void* context) { ++*static_cast<int*>(context); }

TEST(CTensorTest, AnOwnedTensorHasACopyOfTheData) {
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const TensorHandle tensor = F32(values, {2, 3});
  values[0] = 9;
  EXPECT_THAT(Floats(tensor.get()), ElementsAre(1, 2, 3, 4, 5, 6));
  const cotan_tensor_info info = InfoOf(tensor);
  EXPECT_EQ(info.dtype, COTAN_F32);
  ASSERT_EQ(info.rank, 2);
  EXPECT_EQ(info.sizes[1], 3);
  EXPECT_EQ(info.strides[0], 3);
  EXPECT_EQ(info.num_elements, 6);
  EXPECT_EQ(info.is_contiguous, 1);
  EXPECT_EQ(static_cast<float*>(info.data)[5], 6);
}

TEST(CTensorTest, WithoutDataTheElementsAreZero) {
  const int64_t sizes[] = {2};
  cotan_tensor* tensor = nullptr;
  ASSERT_EQ(cotan_tensor_create(COTAN_I64, 1, sizes, nullptr, 0, &tensor), COTAN_OK) << cotan_last_error();
  const TensorHandle owner(tensor);
  int64_t values[] = {7, 7};
  ASSERT_EQ(cotan_tensor_read(tensor, values, sizeof(values)), COTAN_OK);
  EXPECT_THAT(values, ElementsAre(0, 0));
}

TEST(CTensorTest, ANumberHasRankZero) {
  const TensorHandle tensor = F32({2.5f}, {});
  EXPECT_EQ(InfoOf(tensor).rank, 0);
  EXPECT_EQ(InfoOf(tensor).num_elements, 1);
  EXPECT_THAT(Floats(tensor.get()), ElementsAre(2.5f));
}

TEST(CTensorTest, AnEmptyTensorHasNoData) {
  const TensorHandle tensor = F32({}, {0, 3});
  EXPECT_EQ(InfoOf(tensor).num_elements, 0);
  EXPECT_EQ(InfoOf(tensor).data, nullptr);
  EXPECT_EQ(cotan_tensor_read(tensor.get(), nullptr, 0), COTAN_OK);
}

TEST(CTensorTest, ABorrowedTensorReadsTheCallersMemoryThroughItsStrides) {
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const int64_t sizes[] = {3, 2};
  const int64_t strides[] = {1, 3};  // the transpose of [2, 3]
  int released = 0;
  cotan_tensor* tensor = nullptr;
  ASSERT_EQ(cotan_tensor_borrow(COTAN_F32, 2, sizes, strides, values.data(), 6 * sizeof(float), CountRelease, &released,
                                &tensor),
            COTAN_OK)
      << cotan_last_error();
  TensorHandle owner(tensor);
  values[1] = 20;
  EXPECT_THAT(Floats(tensor), ElementsAre(1, 4, 20, 5, 3, 6));
  EXPECT_EQ(InfoOf(owner).data, values.data());
  EXPECT_EQ(InfoOf(owner).is_contiguous, 0);
  EXPECT_EQ(released, 0);
  owner.reset();
  EXPECT_EQ(released, 1);
}

struct BadBorrow {
  std::string text;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  size_t bytes = 16;
  size_t shift = 0;
};

TEST(CTensorTest, MemoryThatTheElementsExceedIsRefusedAndNotReleased) {
  alignas(8) char memory[32] = {};
  int released = 0;
  const std::vector<BadBorrow> cases = {{"storage", {5}, {1}},
                                        {"storage", {2, 2}, {3, 1}},
                                        {"", {2}, {-1}},
                                        {"negative", {-1}, {1}},
                                        {"aligned", {2}, {1}, 16, 1}};
  for (const BadBorrow& bad : cases) {
    cotan_tensor* tensor = nullptr;
    EXPECT_EQ(cotan_tensor_borrow(COTAN_F32, static_cast<int32_t>(bad.sizes.size()), bad.sizes.data(),
                                  bad.strides.data(), memory + bad.shift, bad.bytes, CountRelease, &released, &tensor),
              COTAN_INVALID_ARGUMENT)
        << bad.text;
    EXPECT_THAT(cotan_last_error(), HasSubstr("cotan_tensor_borrow: "));
    EXPECT_THAT(cotan_last_error(), HasSubstr(bad.text));
    EXPECT_EQ(tensor, nullptr);
  }
  EXPECT_EQ(released, 0);
}

cotan_status Create(cotan_dtype dtype, int32_t rank, const std::vector<int64_t>& sizes, const void* data,
                    size_t bytes) {
  cotan_tensor* tensor = nullptr;
  const cotan_status status = cotan_tensor_create(dtype, rank, sizes.data(), data, bytes, &tensor);
  EXPECT_EQ(tensor == nullptr, status != COTAN_OK);
  cotan_tensor_free(tensor);
  return status;
}

TEST(CTensorTest, WrongDTypesRanksAndSizesAreNamed) {
  const float values[4] = {};
  EXPECT_EQ(Create(COTAN_UNDEFINED, 1, {4}, values, 16), COTAN_INVALID_ARGUMENT);
  EXPECT_THAT(cotan_last_error(), HasSubstr("dtype is 0"));
  EXPECT_EQ(Create(15, 1, {4}, values, 16), COTAN_INVALID_ARGUMENT);
  EXPECT_EQ(Create(COTAN_F32, -1, {4}, values, 16), COTAN_INVALID_ARGUMENT);
  EXPECT_THAT(cotan_last_error(), HasSubstr("rank is -1"));
  EXPECT_EQ(Create(COTAN_F32, 65, std::vector<int64_t>(65, 1), values, 4), COTAN_INVALID_ARGUMENT);
  EXPECT_EQ(Create(COTAN_F32, 1, {-4}, values, 16), COTAN_INVALID_ARGUMENT);
  EXPECT_EQ(Create(COTAN_F32, 2, {std::numeric_limits<int64_t>::max(), 2}, values, 16), COTAN_INVALID_ARGUMENT);
  EXPECT_EQ(Create(COTAN_F32, 1, {4}, values, 12), COTAN_INVALID_ARGUMENT);
  EXPECT_THAT(cotan_last_error(), HasSubstr("bytes is 12, but the elements have 16 bytes"));
  EXPECT_EQ(Create(COTAN_F32, 1, {4}, nullptr, 16), COTAN_INVALID_ARGUMENT);
  EXPECT_THAT(cotan_last_error(), HasSubstr("data is NULL"));
}

TEST(CTensorTest, ATensorThatIsTooLargeForTheMachineIsAnError) {
  const std::vector<int64_t> sizes = {int64_t{1} << 58};
  EXPECT_EQ(Create(COTAN_F32, 1, sizes, nullptr, 0), COTAN_RESOURCE_EXHAUSTED);
}

TEST(CTensorTest, ReadNeedsRoomForExactlyTheElements) {
  const TensorHandle tensor = F32({1, 2}, {2});
  float values[3] = {};
  EXPECT_EQ(cotan_tensor_read(tensor.get(), values, sizeof(values)), COTAN_INVALID_ARGUMENT);
  EXPECT_THAT(cotan_last_error(), HasSubstr("bytes is 12, but the elements have 8 bytes"));
}

}  // namespace
}  // namespace cotan::capi
