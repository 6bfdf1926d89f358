// SPDX-License-Identifier: Apache-2.0

#include "aot/saved_tensor_hooks/saved_tensor_hooks.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace cotan::aot {
namespace {

// Packs and unpacks 1, 2, 3.
template <typename Pack, typename Unpack>
at::Tensor RoundTrip(const Pack& pack, const Unpack& unpack, size_t tensors) {
  const SavedTensorHooks hooks = MakeSavedTensorHooks(pack, unpack);
  const PackedValue packed = hooks.pack(at::tensor({1.0f, 2.0f, 3.0f}));
  EXPECT_EQ(packed.tensors.size(), tensors);
  return hooks.unpack(packed);
}

TEST(SavedTensorHooksTest, UnpackGetsWhatPackReturnedInItsStructure) {
  const at::Tensor value = at::tensor({1.0f, 2.0f, 3.0f});
  EXPECT_TRUE(
      RoundTrip([](const at::Tensor& x) { return 2 * x; }, [](const at::Tensor& x) { return x / 2; }, 1).equal(value));
  using List = std::vector<at::Tensor>;
  EXPECT_TRUE(RoundTrip(
                  [](const at::Tensor& x) {
                    return List{x + 1, at::ones({})};
                  },
                  [](const List& packed) { return packed.at(0) - packed.at(1); }, 2)
                  .equal(value));
  using Map = std::map<std::string, at::Tensor>;
  EXPECT_TRUE(RoundTrip(
                  [](const at::Tensor& x) {
                    return Map{{"more", x + 1}, {"one", at::ones({})}};
                  },
                  [](const Map& packed) { return packed.at("more") - packed.at("one"); }, 2)
                  .equal(value));
  using Nested = std::pair<std::tuple<at::Tensor, double>, std::optional<at::Tensor>>;
  EXPECT_TRUE(RoundTrip(
                  [](const at::Tensor& x) {
                    return Nested({x * 4, 4.0}, std::nullopt);
                  },
                  [](const Nested& packed) {
                    EXPECT_FALSE(packed.second.has_value());
                    return std::get<0>(packed.first) / std::get<1>(packed.first);
                  },
                  1)
                  .equal(value));
}

TEST(SavedTensorHooksTest, DataThatIsNoTensorComesBackAsItWas) {
  using Packed = std::tuple<at::Tensor, at::ScalarType, at::Device, std::string, std::vector<int64_t>, int64_t>;
  const at::Tensor value = RoundTrip(
      [](const at::Tensor& x) {
        return Packed(x.to(at::kBFloat16), x.scalar_type(), x.device(), "saved", x.sizes().vec(), x.size(0));
      },
      [](const Packed& packed) {
        const auto& [values, dtype, device, text, sizes, width] = packed;
        EXPECT_EQ(text, "saved");
        EXPECT_THAT(sizes, ::testing::ElementsAre(3));
        EXPECT_EQ(width, 3);
        return values.to(dtype).to(device);
      },
      1);
  EXPECT_EQ(value.scalar_type(), at::kFloat);
}

TEST(SavedTensorHooksTest, AreUnsetByDefault) {
  EXPECT_FALSE(SavedTensorHooks().is_set());
  SavedTensorHooks half;
  half.unpack = [](const PackedValue& packed) { return packed.tensors[0]; };
  EXPECT_TRUE(half.is_set());
}

}  // namespace
}  // namespace cotan::aot
