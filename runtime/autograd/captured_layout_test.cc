// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/captured_layout.h"

#include "runtime/autograd/test_support.h"

namespace cotan::autograd {
namespace {

using ::testing::ElementsAre;

// Has the sizes 10, 11, 12, ...
class Emitter final : public CaptureEmitter {
 public:
  Emitter() {
    for (int64_t i = 0; i < 8; ++i) sizes_.emplace_back(10 + i);
  }
  LinkBuilder& link() override { return link_; }
  const SymInt& Size(int index) const override { return sizes_[static_cast<size_t>(index)]; }
  LinkBuilder::Value Input(int, serialization::TensorType, absl::string_view) override { return 0; }
  void Update(int, LinkBuilder::Value) override {}
  void Output(int, LinkBuilder::Value) override {}

 private:
  LinkBuilder link_ = LinkBuilder("backward", {});
  std::vector<SymInt> sizes_;
};

TEST(CapturedLayoutTest, LayoutsFollowOneAnother) {
  const Emitter emitter;
  int next = 0;
  const view::AsStrided matrix = ReadLayout(emitter, 2, next);
  EXPECT_THAT(matrix.sizes, ElementsAre(10, 11));
  EXPECT_THAT(matrix.strides, ElementsAre(12, 13));
  EXPECT_EQ(matrix.offset, 14);
  const view::AsStrided vector = ReadLayout(emitter, 1, next);
  EXPECT_THAT(vector.sizes, ElementsAre(15));
  EXPECT_THAT(vector.strides, ElementsAre(16));
  EXPECT_EQ(vector.offset, 17);
  EXPECT_EQ(next, 8);
}

}  // namespace
}  // namespace cotan::autograd
