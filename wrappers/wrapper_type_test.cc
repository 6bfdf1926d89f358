// SPDX-License-Identifier: Apache-2.0

#include "wrappers/wrapper_type.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wrappers/jagged.h"
#include "wrappers/low_rank.h"
#include "wrappers/quantized.h"

namespace cotan {
namespace {

using ::testing::ElementsAre;

// The members of a tensor that Wrap() uses.
class Handle {
 public:
  static Handle Of(std::vector<int64_t> sizes) {
    Handle handle;
    handle.defined_ = true;
    handle.sizes_ = std::move(sizes);
    return handle;
  }
  bool defined() const { return defined_; }
  const std::vector<int64_t>& sizes() const { return sizes_; }

 private:
  bool defined_ = false;
  std::vector<int64_t> sizes_;
};

using LowRankOfQuantized = LowRank<Handle, Quantized<Handle>>;

LowRankOfQuantized Nested() {
  return {.a = {.data = Handle::Of({4, 2}), .scale = Handle::Of({4}), .axis = 0},
          .b = {.data = Handle::Of({2, 6}), .scale = Handle::Of({}), .axis = -1}};
}

TEST(WrapperTypeTest, PartsMetadataAndOuterSizesSurviveWrapping) {
  const Wrapped<Handle> wrapped = Wrap(Nested());
  EXPECT_EQ(wrapped.StructureText(),
            "cotan.low_rank{a: cotan.quantized{data: plain, scale: plain}, "
            "b: cotan.quantized{data: plain, scale: plain}}");
  EXPECT_THAT(wrapped.outer_sizes(), ElementsAre(4, 6));
  const absl::StatusOr<LowRankOfQuantized> object = Unwrap<LowRankOfQuantized>(wrapped, "x");
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_EQ(object->a.axis, 0);
  EXPECT_EQ(object->b.axis, -1);
  EXPECT_THAT(object->a.scale.sizes(), ElementsAre(4));
  EXPECT_THAT(object->b.data.sizes(), ElementsAre(2, 6));
}

TEST(WrapperTypeTest, OuterSizesAreUnknownWithoutAllParts) {
  EXPECT_TRUE(Wrap(Quantized<Handle>{.data = {}, .scale = Handle::Of({})}).outer_sizes().empty());
  EXPECT_THAT(Wrap(Jagged<Handle>{.values = Handle::Of({7, 3}), .offsets = Handle::Of({3})}).outer_sizes(),
              ElementsAre(2, 7, 3));
}

std::string Refusal(const Wrapped<Handle>& value) {
  return std::string(Unwrap<Quantized<Handle>>(value, "argument 'q'").status().message());
}

TEST(WrapperTypeTest, WhatDoesNotFitIsNamed) {
  const Wrapped<Handle> plain(Handle::Of({2}));
  EXPECT_EQ(Refusal(plain), "argument 'q' is a plain tensor, not a cotan.quantized");
  EXPECT_EQ(Refusal(Wrap(Jagged<Handle>())), "argument 'q' is a cotan.jagged, not a cotan.quantized");
  EXPECT_EQ(Refusal(Wrapped<Handle>("cotan.quantized", {{"data", plain}}, "axis=0", {})),
            "argument 'q' has 1 parts, a cotan.quantized has 2: data, scale");
  EXPECT_EQ(Refusal(Wrapped<Handle>("cotan.quantized", {{"data", plain}, {"factor", plain}}, "axis=0", {})),
            "argument 'q' has the part 'factor' where a cotan.quantized has 'scale'");
  EXPECT_EQ(Refusal(Wrapped<Handle>("cotan.quantized", {{"data", plain}, {"scale", Wrap(Nested())}}, "axis=0", {})),
            "argument 'q'.scale is a cotan.low_rank, not a plain tensor");
  EXPECT_EQ(Refusal(Wrapped<Handle>("cotan.quantized", {{"data", plain}, {"scale", plain}}, "axis", {})),
            "argument 'q': metadata of cotan.quantized: 'axis' is not of the form axis=NUMBER");
}

TEST(WrapperTypeTest, TypesWithoutMetadataRefuseIt) {
  const Wrapped<Handle> plain(Handle::Of({2}));
  const Wrapped<Handle> jagged("cotan.jagged", {{"values", plain}, {"offsets", plain}}, "x", {});
  EXPECT_EQ(Unwrap<Jagged<Handle>>(jagged, "x").status().message(),
            "x: metadata of cotan.jagged: must be empty, got 'x'");
}

}  // namespace
}  // namespace cotan
