// SPDX-License-Identifier: Apache-2.0

#include "aot/dynamic/size_fields.h"

#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

using serialization::Method;

TEST(SizeFieldsTest, FindsTheSizesOfAMethod) {
  Method method;
  method.add_values()->mutable_type()->add_sizes("1");
  serialization::Op& expr = *method.add_ops();
  expr.set_source("aten.add layer1");
  expr.mutable_expr()->add_domain_sizes("2");
  serialization::ExprInstruction& size = *expr.mutable_expr()->add_instructions();
  size.set_fn(serialization::FN_SIZE);
  size.set_size("3");
  serialization::ExprInstruction& random = *expr.mutable_expr()->add_instructions();
  random.set_fn(serialization::FN_RANDOM_UNIFORM);
  random.set_slice("4");
  serialization::ViewOp& view = *method.add_ops()->mutable_view();
  view.add_steps()->mutable_view()->add_sizes("5");
  view.add_steps()->mutable_expand()->add_sizes("6");
  serialization::ViewStep::Slice& slice = *view.add_steps()->mutable_slice();
  slice.set_start("7");
  slice.set_end("8");
  slice.set_step("9");
  view.add_steps()->mutable_select()->set_index("10");
  view.add_steps()->mutable_permute()->add_dims(0);
  serialization::ViewStep::AsStrided& strided = *view.add_steps()->mutable_as_strided();
  strided.add_sizes("11");
  strided.add_strides("12");
  strided.set_offset("13");
  method.add_ops()->mutable_checked_index()->set_size("13b");
  method.mutable_metadata()->add_output_info()->mutable_geometry()->add_sizes("14");
  method.mutable_metadata()->mutable_output_info(0)->mutable_geometry()->set_offset("15");
  serialization::TensorGeometry& hidden =
      *method.mutable_metadata()->mutable_output_info(0)->mutable_non_alias_view()->mutable_hidden_geometry();
  hidden.add_sizes("15b");
  hidden.set_offset("15c");
  method.mutable_metadata()->add_tangents()->mutable_expected()->add_strides("16");
  method.mutable_metadata()->mutable_tangents(0)->mutable_expected()->set_offset("17");
  method.mutable_input_binding()->add_bases()->mutable_geometry()->set_offset("18");

  std::string all;
  for (const SizeField& field : SizeFieldsOf(method)) all += *field.text + " ";
  EXPECT_EQ(all, "1 2 3 4 5 6 7 8 9 10 11 12 13 13b 14 15 15b 15c 16 17 18 ");
  EXPECT_EQ(SizeFieldsOf(method)[1].where, "op 0 (expr) from aten.add layer1");
}

TEST(SizeFieldsTest, FieldsMayBeChanged) {
  Method method;
  method.set_rng_blocks("40");
  *SizeFieldsOf(method)[0].text = "(s0 * 10)";
  EXPECT_EQ(method.rng_blocks(), "(s0 * 10)");
}

}  // namespace
}  // namespace cotan::aot
