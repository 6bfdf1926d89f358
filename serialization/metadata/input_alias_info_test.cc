// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/input_alias_info.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace cotan {
namespace {

// Returns the info of an input whose data the program may mutate itself.
InputAliasInfo Mutated() {
  InputAliasInfo info;
  info.mutates_data = true;
  info.mutations_hidden_from_autograd = false;
  info.keep_input_mutations = true;
  return info;
}

TEST(InputAliasInfo, UntouchedInputIsNotMutated) {
  EXPECT_EQ(MutationTypeOf(InputAliasInfo()), MutationType::kNotMutated);
}

TEST(InputAliasInfo, DataOfInputWithoutGradIsWrittenByTheProgram) {
  EXPECT_EQ(MutationTypeOf(Mutated()), MutationType::kMutatedInGraph);
}

TEST(InputAliasInfo, NothingIsWrittenByTheProgramUnlessMutationsAreKept) {
  InputAliasInfo info = Mutated();
  info.keep_input_mutations = false;
  EXPECT_EQ(MutationTypeOf(info), MutationType::kMutatedOutGraph);
}

TEST(InputAliasInfo, MutationThatAutogradSeesIsWrittenBack) {
  InputAliasInfo info = Mutated();
  info.requires_grad = true;
  EXPECT_EQ(MutationTypeOf(info), MutationType::kMutatedOutGraph);
  info.mutations_under_no_grad_or_inference_mode = true;
  EXPECT_EQ(MutationTypeOf(info), MutationType::kMutatedInGraph);
  info.mutations_under_no_grad_or_inference_mode = false;
  info.mutations_hidden_from_autograd = true;
  EXPECT_EQ(MutationTypeOf(info), MutationType::kMutatedInGraph);
}

TEST(InputAliasInfo, ContentThatHasAHistoryOrAnotherGeometryIsWrittenBack) {
  InputAliasInfo info = Mutated();
  info.requires_grad = true;
  info.mutations_under_no_grad_or_inference_mode = true;
  info.history = GradFnChange::kKept;
  EXPECT_EQ(MutationTypeOf(info), MutationType::kMutatedInGraph);
  info.history = GradFnChange::kNew;
  EXPECT_EQ(MutationTypeOf(info), MutationType::kMutatedOutGraph);
  info.history = GradFnChange::kKept;
  info.mutates_metadata = true;
  EXPECT_EQ(MutationTypeOf(info), MutationType::kMutatedOutGraph);
}

TEST(InputAliasInfo, HistoryRoundTripsAndNeedsAGradient) {
  for (int i = 1; i <= 3; ++i) {
    InputAliasInfo info;
    info.requires_grad = true;
    info.history = static_cast<GradFnChange>(i);
    const auto read = InputAliasInfo::FromProto(info.ToProto(), "i");
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, info);
  }
  InputAliasInfo info;
  info.history = GradFnChange::kNew;
  EXPECT_EQ(info.Validate("i").message(), "i.history: must not be set, as the input does not require grad at exit");
  serialization::InputAliasInfo proto;
  proto.set_history(static_cast<serialization::InputAliasInfo::History>(9));
  EXPECT_FALSE(InputAliasInfo::FromProto(proto, "i").ok());
}

TEST(InputAliasInfo, OnlyAnInputThatRequiresGradRetainsItsGradient) {
  InputAliasInfo info;
  info.retains_grad = true;
  EXPECT_EQ(info.Validate("i").message(), "i.retains_grad: must be false, as the input does not require grad at exit");
  info.requires_grad = true;
  const auto read = InputAliasInfo::FromProto(info.ToProto(), "i");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, info);
  EXPECT_EQ(info.ToString(), "requires grad, retains its gradient, not mutated");
}

TEST(InputAliasInfo, NewGeometryIsGivenByTheRuntime) {
  InputAliasInfo info;
  info.keep_input_mutations = true;
  info.mutates_metadata = true;
  EXPECT_EQ(MutationTypeOf(info), MutationType::kMutatedOutGraph);
}

TEST(InputAliasInfo, ReplacedStorageIsSetByTheProgram) {
  InputAliasInfo info;
  info.keep_input_mutations = true;
  info.mutates_metadata = true;
  info.mutates_storage_metadata = true;
  EXPECT_TRUE(info.Validate("i").ok());
  EXPECT_EQ(MutationTypeOf(info), MutationType::kMutatedInGraph);
}

TEST(InputAliasInfo, TellsThatItsHistoryWasCut) {
  InputAliasInfo info;
  info.requires_grad_at_entry = true;
  const auto read = InputAliasInfo::FromProto(info.ToProto(), "i");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, info);
  EXPECT_EQ(info.ToString(), "required grad at entry, not mutated");
}

TEST(InputAliasInfo, KeepsTheNewGeometry) {
  InputAliasInfo info;
  info.mutates_metadata = true;
  info.geometry_after = TensorGeometry{DType::kFloat32, {SymInt(3), SymInt(2)}, {SymInt(1), SymInt(3)}, SymInt(0)};
  const auto read = InputAliasInfo::FromProto(info.ToProto(), "i");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, info);
  EXPECT_EQ(info.ToString(), "mutates metadata to f32[3, 2]{1, 3}, hidden from autograd, written back by the runtime");
  info.mutates_metadata = false;
  EXPECT_FALSE(info.Validate("i").ok());
}

TEST(InputAliasInfo, KeepsTheStepsToTheNewGeometry) {
  InputAliasInfo info;
  info.mutates_metadata = true;
  info.geometry_after = TensorGeometry{DType::kFloat32, {SymInt(3), SymInt(2)}, {SymInt(1), SymInt(3)}, SymInt(0)};
  info.view_steps_after = {view::Permute{{1, 0}}};
  const auto read = InputAliasInfo::FromProto(info.ToProto(), "i");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, info);
  EXPECT_EQ(info.ToString(),
            "mutates metadata to f32[3, 2]{1, 3} by permute(1, 0), hidden from autograd, written back by the runtime");
  info.geometry_at_entry = info.geometry_after;
  EXPECT_EQ(info.Validate("i"),
            absl::InvalidArgumentError("i.view_steps_after: must not be set together with geometry_at_entry"));
  info.view_steps_after.clear();
  EXPECT_TRUE(info.Validate("i").ok());
  EXPECT_EQ(*InputAliasInfo::FromProto(info.ToProto(), "i"), info);
  info.geometry_after.reset();
  EXPECT_EQ(info.Validate("i"),
            absl::InvalidArgumentError("i.geometry_at_entry: must not be set, as geometry_after is not"));
}

TEST(InputAliasInfo, KeepsTheSizesOfItsGradient) {
  InputAliasInfo info;
  info.is_leaf = info.requires_grad = info.mutates_metadata = true;
  info.geometry_after = TensorGeometry{DType::kFloat32, {SymInt(1), SymInt(3)}, {SymInt(3), SymInt(1)}, SymInt(0)};
  info.gradient_sizes = SymIntVector{SymInt(3)};
  const auto read = InputAliasInfo::FromProto(info.ToProto(), "i");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, info);
  EXPECT_EQ(info.ToString(),
            "leaf, requires grad, mutates metadata to f32[1, 3]{3, 1}, its gradient is [3], hidden from autograd, "
            "written back by the runtime");
  info.requires_grad = false;
  EXPECT_FALSE(info.Validate("i").ok());
}

TEST(InputAliasInfo, KeepsWhoseItsNewStorageIs) {
  using Owner = NewStorage::Owner;
  const TensorGeometry geometry = {DType::kFloat32, {SymInt(3)}, {SymInt(1)}, SymInt(2)};
  InputAliasInfo info;
  info.keep_input_mutations = info.mutates_metadata = info.mutates_storage_metadata = true;
  info.geometry_after = geometry;
  const std::vector<std::pair<NewStorage, std::string>> cases = {
      {{Owner::kProgram, -1, geometry}, "a new one with f32[3]{1}+2"},
      {{Owner::kInput, 4, geometry}, "that of input 4"},
      {{Owner::kUpdatedInput, 1}, "the storage at exit of input 1"}};
  for (const auto& [storage, text] : cases) {
    info.new_storage = storage;
    const auto read = InputAliasInfo::FromProto(info.ToProto(), "i");
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, info);
    EXPECT_EQ(info.ToString(),
              "mutates storage (set_) to f32[3]{1}+2 in " + text + ", hidden from autograd, written by the program");
    info.new_storage->geometry = storage.geometry.has_value() ? std::nullopt : std::make_optional(geometry);
    EXPECT_FALSE(info.Validate("i").ok());
  }
  info.new_storage = cases[0].first;
  info.mutates_storage_metadata = false;
  EXPECT_EQ(info.Validate("i"),
            absl::InvalidArgumentError("i.new_storage: must not be set, as the storage stays the same"));
}

TEST(InputAliasInfo, RefusesReplacedStorageWithOldMetadata) {
  serialization::InputAliasInfo proto;
  proto.set_mutates_storage_metadata(true);
  proto.set_mutations_hidden_from_autograd(true);
  proto.set_keep_input_mutations(true);
  EXPECT_EQ(InputAliasInfo::FromProto(proto, "input_info[3]").status(),
            absl::InvalidArgumentError("input_info[3].mutates_metadata: must be true, as mutates_storage_metadata is: "
                                       "another storage is other metadata"));
}

TEST(InputAliasInfo, RefusesAssignedDataWithoutReplacedStorage) {
  InputAliasInfo info = Mutated();
  info.mutation_is_shallow_copy_data = true;
  EXPECT_EQ(info.Validate("i"),
            absl::InvalidArgumentError("i.mutates_storage_metadata: must be true, as mutation_is_shallow_copy_data is: "
                                       "assigning .data gives another storage"));
}

TEST(InputAliasInfo, RefusesMutationUnderNoGradOfAnUntouchedInput) {
  InputAliasInfo info;
  info.mutations_under_no_grad_or_inference_mode = true;
  EXPECT_EQ(info.Validate("i"), absl::InvalidArgumentError("i.mutations_under_no_grad_or_inference_mode: must be "
                                                           "false, as the input is not mutated"));
}

TEST(InputAliasInfo, RefusesStorageMutationsThatTheProgramCannotDo) {
  InputAliasInfo info;
  info.mutates_metadata = true;
  info.mutates_storage_metadata = true;
  EXPECT_EQ(info.Validate("i"), absl::InvalidArgumentError(
                                    "i: the storage of the input is replaced (set_), which only the program itself can "
                                    "do, but it may not: keep_input_mutations is false, and mutations must be hidden "
                                    "from autograd or made under no_grad"));
  InputAliasInfo resized = Mutated();
  resized.requires_grad = true;
  resized.mutation_inductor_storage_resize = true;
  EXPECT_EQ(
      resized.Validate("i"),
      absl::InvalidArgumentError("i: the storage of the input is resized (resize_), which only the program itself "
                                 "can do, but it may not: keep_input_mutations is true, and mutations must be "
                                 "hidden from autograd or made under no_grad"));
}

TEST(InputAliasInfo, EachFieldRoundTrips) {
  for (int bit = 0; bit < 10; ++bit) {
    serialization::InputAliasInfo proto;
    proto.set_keep_input_mutations(true);
    proto.set_mutations_hidden_from_autograd(bit != 3);
    if (bit == 0) proto.set_is_leaf(true);
    if (bit == 1 || bit == 4) proto.set_mutates_data(true);
    if (bit == 2 || bit == 5 || bit == 7) proto.set_mutates_metadata(true);
    if (bit == 4) proto.set_mutations_under_no_grad_or_inference_mode(true);
    if (bit == 5 || bit == 7) proto.set_mutates_storage_metadata(true);
    if (bit == 6) proto.set_mutation_inductor_storage_resize(true);
    if (bit == 7) proto.set_mutation_is_shallow_copy_data(true);
    if (bit == 8) proto.set_requires_grad(true);
    if (bit == 9) proto.set_keep_input_mutations(false);
    absl::StatusOr<InputAliasInfo> info = InputAliasInfo::FromProto(proto, "i");
    ASSERT_TRUE(info.ok()) << bit << ": " << info.status();
    EXPECT_EQ(info->ToProto().SerializeAsString(), proto.SerializeAsString()) << bit;
  }
}

TEST(InputAliasInfo, TextTellsWhatHappensAndWhoDoesIt) {
  InputAliasInfo info;
  info.is_leaf = true;
  EXPECT_EQ(info.ToString(), "leaf, not mutated");
  EXPECT_EQ(Mutated().ToString(), "mutates data, written by the program");
  info.requires_grad = true;
  info.mutates_data = true;
  info.mutates_metadata = true;
  EXPECT_EQ(info.ToString(),
            "leaf, requires grad, mutates data and metadata, hidden from autograd, written back by "
            "the runtime");
}

}  // namespace
}  // namespace cotan
