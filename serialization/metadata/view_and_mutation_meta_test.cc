// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/view_and_mutation_meta.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

using ProtoMeta = serialization::ViewAndMutationMeta;

// Makes facts that are valid by construction.
class Generator {
 public:
  explicit Generator(uint64_t seed) : engine_(seed) {}

  ViewAndMutationMetaFields Facts(bool with_wrappers) {
    ViewAndMutationMetaFields facts;
    facts.keep_input_mutations = Coin();
    facts.is_train = Coin();
    const int num_inputs = Below(6);
    for (int i = 0; i < num_inputs; ++i) facts.input_info.push_back(Input(facts));
    AddOutputs(facts, Below(6));
    if (Coin()) facts.grad_enabled_mutation = Coin();
    if (Coin()) facts.deterministic = Coin();
    facts.static_input_indices = Subset(num_inputs);
    facts.backward_mutated_inputs = Subset(num_inputs);
    for (int i : Subset(num_inputs)) {
      const InputAliasInfo& info = facts.input_info[static_cast<size_t>(i)];
      if (info.requires_grad && !info.is_leaf) facts.indices_of_inputs_to_detach.push_back(i);
    }
    if (facts.is_train) facts.saved = Saved();
    if (Coin()) facts.tokens = {"ordered", "print"};
    facts.num_backward_tokens = Below(3);
    if (Coin()) AddTangents(facts);
    if (with_wrappers) AddWrappers(facts);
    return facts;
  }

  int Below(int limit) { return limit <= 0 ? 0 : static_cast<int>(engine_() % static_cast<uint32_t>(limit)); }
  bool Coin() { return Below(2) == 1; }

 private:
  SymInt Size() { return Coin() ? SymInt(Below(9)) : SymInt::Symbol(Below(3)) * SymInt(Below(4)); }

  std::vector<int> Subset(int count) {
    std::vector<int> indexes;
    for (int i = 0; i < count; ++i) {
      if (Coin()) indexes.push_back(i);
    }
    return indexes;
  }

  TensorGeometry Geometry(bool with_offset) {
    TensorGeometry geometry;
    geometry.dtype = Coin() ? DType::kFloat32 : DType::kComplex64;
    for (int i = Below(4); i > 0; --i) {
      geometry.sizes.push_back(Size());
      geometry.strides.push_back(Size());
    }
    if (with_offset) geometry.offset = Size();
    return geometry;
  }

  InputAliasInfo Input(const ViewAndMutationMetaFields& facts) {
    InputAliasInfo info;
    info.keep_input_mutations = facts.keep_input_mutations;
    info.is_leaf = Coin();
    info.requires_grad = Coin();
    info.mutates_data = Coin();
    info.mutates_metadata = Below(4) == 0;
    info.mutations_hidden_from_autograd = !info.mutates_data || Coin();
    info.mutations_under_no_grad_or_inference_mode = info.mutates_data && Coin();
    if (info.keep_input_mutations && info.mutations_hidden_from_autograd && Coin()) {
      info.mutates_metadata = true;
      info.mutates_storage_metadata = true;
      info.mutation_is_shallow_copy_data = Coin();
      info.mutation_inductor_storage_resize = Coin();
      info.new_storage = {NewStorage::Owner::kProgram, -1, Geometry(/*with_offset=*/true)};
      if (Coin()) info.new_storage = {NewStorage::Owner::kInput, 0, Geometry(/*with_offset=*/true)};
    }
    return info;
  }

  ViewStep View() {
    const std::vector<ViewStep> steps = {view::View{{Size(), Size()}},
                                         view::Permute{{2, 0, 1}},
                                         view::Slice{Below(3), Size(), Size(), 1 + Below(3)},
                                         view::Select{Below(3), Size()},
                                         view::AsStrided{{Size()}, {Size()}, Size()},
                                         view::Squeeze{{0, 1 + Below(3)}},
                                         view::Diagonal{0, 1, Below(5) - 2},
                                         view::DTypeView{DType::kInt8},
                                         view::Conjugate{}};
    return steps[static_cast<size_t>(Below(static_cast<int>(steps.size())))];
  }

  OutputAliasInfo Tensor(OutputType type, std::optional<int> base) {
    OutputAliasInfo info;
    info.output_type = type;
    info.base_index = base;
    info.requires_grad = Coin();
    info.requires_grad_for_backward = info.requires_grad && Coin();
    if (Coin()) info.geometry = Geometry(/*with_offset=*/true);
    info.dynamic_dims = Subset(info.geometry.has_value() ? info.geometry->rank() : 3);
    if (!IsFreshMemory(type) && type != OutputType::kIsInput) {
      for (int i = Below(3); i > 0; --i) info.view_steps.push_back(View());
    }
    return info;
  }

  OutputAliasInfo Scalar() {
    const std::vector<ScalarOutput> values = {NoneValue(),         Coin(), int64_t{Below(100)}, 0.25,
                                              std::string("text"), Size()};
    OutputAliasInfo info;
    info.scalar = values[static_cast<size_t>(Below(static_cast<int>(values.size())))];
    return info;
  }

  void AddOutputs(ViewAndMutationMetaFields& facts, int count) {
    const int num_inputs = static_cast<int>(facts.input_info.size());
    for (int i = 0; i < count; ++i) {
      switch (Below(7)) {
        case 0:
          facts.output_info.push_back(Scalar());
          break;
        case 1:
          if (num_inputs == 0) break;
          facts.output_info.push_back(
              Tensor(Coin() ? OutputType::kAliasOfInput : OutputType::kIsInput, Below(num_inputs)));
          break;
        case 2:
          facts.output_info.push_back(
              Tensor(OutputType::kAliasOfIntermediateSaveAsOutput, facts.num_intermediate_bases++));
          break;
        case 3:
          if (facts.num_intermediate_bases == 0) break;
          facts.output_info.push_back(Tensor(OutputType::kAliasOfIntermediate, Below(facts.num_intermediate_bases)));
          break;
        case 4:
          facts.output_info.push_back(Tensor(OutputType::kNonAlias, std::nullopt));
          facts.output_info.push_back(
              Tensor(OutputType::kAliasOfIntermediateBaseIsUserOutput, static_cast<int>(facts.output_info.size()) - 1));
          break;
        default:
          facts.output_info.push_back(
              Tensor(Coin() ? OutputType::kUnsafeViewAlias : OutputType::kCustomFunctionView, std::nullopt));
      }
    }
  }

  SavedForBackward Saved() {
    SavedForBackward saved;
    saved.num_tensors = Below(6);
    saved.num_tensors_without_version_check = Below(saved.num_tensors + 1);
    saved.donated = Subset(saved.num_tensors);
    if (Coin()) {
      saved.is_input.assign(static_cast<size_t>(saved.num_tensors), true);
      for (int i : saved.donated) saved.is_input[static_cast<size_t>(i)] = false;
    }
    for (int i : Subset(saved.num_tensors)) saved.dynamic_tensors.push_back({i, {0, 1 + Below(3)}});
    return saved;
  }

  void AddTangents(ViewAndMutationMetaFields& facts) {
    for (const ForwardTensor& source : DerivedMetadata::Of(facts).tangent_sources) {
      facts.tangents.push_back({source, Geometry(/*with_offset=*/false)});
    }
  }

  WrapperMeta Wrapper(int start, int depth) {
    WrapperMeta meta;
    meta.type_name = "type";
    meta.flat_start = start;
    for (int i = 0; i < 3; ++i) {
      const std::string name = std::string(1, static_cast<char>('a' + i));
      const int next = start + meta.flat_count;
      if (depth < 3 && Below(4) == 0) {
        WrapperMeta inner = Wrapper(next, depth + 1);
        meta.flat_count += inner.flat_count;
        meta.attributes.push_back({name, std::move(inner)});
      } else if (Below(4) == 0) {
        meta.attributes.push_back({name, OpaqueMeta{"opaque", "content"}});
      } else {
        meta.flat_count += 1;
        meta.attributes.push_back({name, PlainTensorMeta{next, {}}});
      }
    }
    meta.outer_sizes = {Size()};
    meta.outer_strides = {Size()};
    meta.metadata = "metadata";
    return meta;
  }

  // Returns `count` metas, at least the first of which is a wrapper.
  std::vector<FlatMeta> Wrappers(int count) {
    std::vector<FlatMeta> metas;
    int next = 0;
    for (int i = 0; i < count; ++i) {
      if (i == 0 || Coin()) {
        metas.push_back(Wrapper(next, 0));
      } else {
        metas.push_back(PlainTensorMeta{next, Geometry(/*with_offset=*/false)});
      }
      next += FlatCount(metas.back());
    }
    return metas;
  }

  void AddWrappers(ViewAndMutationMetaFields& facts) {
    if (facts.input_info.empty()) return;
    facts.input_wrappers = Wrappers(static_cast<int>(facts.input_info.size()));
    ViewAndMutationMetaFields dense;
    dense.input_info.resize(static_cast<size_t>(FlatCount(facts.input_wrappers)));
    dense.output_info.resize(facts.output_info.size());
    SubclassMeta meta;
    meta.fw_metadata = std::make_shared<const ViewAndMutationMeta>(*ViewAndMutationMeta::Create(dense));
    if (Coin()) meta.grad_inputs = facts.input_wrappers;
    facts.subclass_meta = std::move(meta);
  }

  std::mt19937_64 engine_;
};

TEST(ViewAndMutationMeta, RandomMetadataSurvivesTheRoundTrip) {
  Generator generator(testing::TestSeed());
  for (int i = 0; i < 500; ++i) {
    absl::StatusOr<ViewAndMutationMeta> meta =
        ViewAndMutationMeta::Create(generator.Facts(/*with_wrappers=*/i % 3 == 0));
    ASSERT_TRUE(meta.ok()) << meta.status();
    const std::string bytes = meta->ToProto().SerializeAsString();
    ProtoMeta proto;
    ASSERT_TRUE(proto.ParseFromString(bytes));
    absl::StatusOr<ViewAndMutationMeta> again = ViewAndMutationMeta::FromProto(proto);
    ASSERT_TRUE(again.ok()) << again.status();
    ASSERT_EQ(*again, *meta) << meta->ToString();
    EXPECT_EQ(again->derived(), meta->derived());
    EXPECT_EQ(again->ToProto().SerializeAsString(), bytes);
    EXPECT_EQ(again->ToString(), meta->ToString());
  }
}

TEST(ViewAndMutationMeta, DamagedBytesAreRefusedOrMeanSomethingValid) {
  Generator generator(testing::TestSeed());
  int num_refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes =
        ViewAndMutationMeta::Create(generator.Facts(/*with_wrappers=*/i % 3 == 0))->ToProto().SerializeAsString();
    if (bytes.empty()) continue;
    bytes[static_cast<size_t>(generator.Below(static_cast<int>(bytes.size())))] =
        static_cast<char>(generator.Below(256));
    ProtoMeta proto;
    if (!proto.ParseFromString(bytes)) continue;
    absl::StatusOr<ViewAndMutationMeta> meta = ViewAndMutationMeta::FromProto(proto);
    if (meta.ok()) {
      EXPECT_TRUE(meta->facts().Validate().ok());
      EXPECT_EQ(*ViewAndMutationMeta::FromProto(meta->ToProto()), *meta);
    } else {
      EXPECT_TRUE(absl::IsInvalidArgument(meta.status()) || absl::IsUnimplemented(meta.status())) << meta.status();
      ++num_refused;
    }
  }
  EXPECT_GT(num_refused, 100);
}

TEST(ViewAndMutationMeta, RefusalNamesTheFieldOfTheMessage) {
  ProtoMeta proto;
  proto.add_output_info()->set_output_type(serialization::NON_ALIAS);
  proto.add_output_info()->set_output_type(serialization::IS_INPUT);
  proto.mutable_output_info(1)->set_base_index(4);
  EXPECT_EQ(ViewAndMutationMeta::FromProto(proto).status(),
            absl::InvalidArgumentError("output_info[1].base_index: 4 is out of range: there are 0 inputs"));
}

TEST(ViewAndMutationMeta, RefusesTangentsWithoutSource) {
  ProtoMeta proto;
  proto.add_tangents();
  EXPECT_EQ(ViewAndMutationMeta::FromProto(proto).status().message(), "tangents[0].source: is not set");
}

TEST(ViewAndMutationMeta, RefusesNestedProgramsOnFlatValues) {
  ProtoMeta proto;
  proto.mutable_subclass_meta()->mutable_fw_metadata()->mutable_subclass_meta();
  EXPECT_EQ(ViewAndMutationMeta::FromProto(proto).status().message(),
            "subclass_meta.fw_metadata.subclass_meta: must not be set: flat values cannot be wrappers");
}

TEST(ViewAndMutationMeta, RefusalInTheProgramOnFlatValuesNamesItsPlace) {
  ProtoMeta proto;
  proto.mutable_subclass_meta()->mutable_fw_metadata()->add_tokens("");
  EXPECT_EQ(ViewAndMutationMeta::FromProto(proto).status().message(), "subclass_meta.fw_metadata.tokens[0]: is empty");
}

TEST(ViewAndMutationMeta, VerifyComparesCounts) {
  ViewAndMutationMetaFields facts;
  facts.input_info.resize(2);
  facts.output_info.resize(1);
  const ViewAndMutationMeta meta = *ViewAndMutationMeta::Create(facts);
  EXPECT_TRUE(meta.Verify(2, 1).ok());
  EXPECT_EQ(meta.Verify(3, 1), absl::InvalidArgumentError("input_info: 2 entries, but the function has 3 inputs"));
  EXPECT_EQ(meta.Verify(2, 0), absl::InvalidArgumentError("output_info: 1 entries, but the function has 0 outputs"));
}

TEST(ViewAndMutationMeta, EachFieldTakesPartInEquality) {
  const ViewAndMutationMeta empty;
  ViewAndMutationMetaFields facts;
  facts.num_backward_tokens = 1;
  EXPECT_FALSE(*ViewAndMutationMeta::Create(facts) == empty);
  facts = ViewAndMutationMetaFields();
  facts.deterministic = false;
  EXPECT_FALSE(*ViewAndMutationMeta::Create(facts) == empty);
  facts = ViewAndMutationMetaFields();
  facts.is_train = true;
  EXPECT_FALSE(*ViewAndMutationMeta::Create(facts) == empty);
  facts.saved.emplace();
  ViewAndMutationMetaFields more = facts;
  more.saved->num_tensors = 1;
  EXPECT_FALSE(*ViewAndMutationMeta::Create(facts) == *ViewAndMutationMeta::Create(more));
}

}  // namespace
}  // namespace cotan
