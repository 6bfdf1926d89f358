// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/frozen_states.h"

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/session/state_store.h"
#include "runtime/testing/mapping_memory.h"
#include "runtime/testing/program_builder.h"

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::State;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using testing::ExprBuilder;
using testing::MappingMemory;
using testing::MappingMemoryAt;
using testing::MethodBuilder;
using testing::ProgramBuilder;

// --- which states are frozen ---------------------------------------------------

State& AddState(Artifact& artifact, uint32_t segment, State::Role role = State::PARAMETER) {
  State& state = *artifact.add_states();
  state.set_role(role);
  state.set_segment(segment);
  return state;
}

Artifact WithSegments(const std::vector<uint64_t>& sizes) {
  Artifact artifact;
  for (const uint64_t size : sizes) artifact.add_segments()->set_size(size);
  return artifact;
}

TEST(FindFrozenStatesTest, LargeStatesThatNoMethodUpdatesAreFrozen) {
  Artifact artifact = WithSegments({kMinFrozenBytes, kMinFrozenBytes, kMinFrozenBytes - 1, kMinFrozenBytes});
  AddState(artifact, 0);
  AddState(artifact, 1, State::BUFFER);
  AddState(artifact, 2);
  AddState(artifact, 3, State::CONSTANT);
  artifact.add_states()->set_fill(1);
  EXPECT_THAT(FindFrozenStates(artifact), ElementsAre(0, 1));
  artifact.add_methods();
  artifact.add_methods()->add_state_updates()->set_state(1);
  EXPECT_THAT(FindFrozenStates(artifact), ElementsAre(0));
}

TEST(FindFrozenStatesTest, ParametersWhoseGradientsAreReturnedAreNotFrozen) {
  Artifact artifact = WithSegments({kMinFrozenBytes, kMinFrozenBytes});
  AddState(artifact, 0).set_requires_grad(true);
  AddState(artifact, 1);
  artifact.add_methods()->set_name("forward");
  EXPECT_THAT(FindFrozenStates(artifact), ElementsAre(0, 1));
  artifact.mutable_methods(0)->set_backward_method("backward");
  EXPECT_THAT(FindFrozenStates(artifact), ElementsAre(1));
}

TEST(FindFrozenStatesTest, OfStatesWithOneSegmentTheFirstIsFrozen) {
  Artifact artifact = WithSegments({kMinFrozenBytes});
  AddState(artifact, 0);
  AddState(artifact, 0);
  EXPECT_THAT(FindFrozenStates(artifact), ElementsAre(0));
}

// --- their memory --------------------------------------------------------------

constexpr int kCount = 1 << 16;  // elements of a state
constexpr int64_t kBytes = int64_t{4} * kCount;
enum : int { kTrained, kFrozen, kEqual };

std::vector<float> Values(float first) {
  std::vector<float> values(kCount);
  std::iota(values.begin(), values.end(), first);
  return values;
}

// f32[kCount]: "trained", which a method doubles, and "frozen" and "equal", which have the same initial value.
std::string ProgramBytes() {
  ProgramBuilder program;
  const testing::Sizes sizes = {absl::StrCat(kCount)};
  program.AddState("trained", State::PARAMETER, sizes, Values(0.5f));
  program.AddState("frozen", State::PARAMETER, sizes, Values(1));
  program.AddState("equal", State::PARAMETER, sizes, Values(1));
  MethodBuilder step = program.AddMethod("step");
  const uint32_t trained = step.Read(kTrained, DType::kFloat32, sizes);
  step.Update(kTrained, step.Pointwise(sizes, {trained}, [](ExprBuilder& b) { return b.Add(0, 0); }));
  return program.Bytes();
}

class FrozenStatesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(WriteFileAtomically(path_, {bytes_}).ok());
    const auto program = Program::Load(path_);
    ASSERT_TRUE(program.ok()) << program.status();
    program_ = *program;
  }

  StateStore NewStore() { return *StateStore::Create(program_, HostDevice()); }
  static MappingMemory MemoryOf(const StateStore& store, int state) {
    return MappingMemoryAt(store.addresses()[static_cast<size_t>(state)]);
  }
  static std::vector<float> Read(const StateStore& store, int state) { return *store.Read(state)->ToVector<float>(); }
  static Tensor TensorOf(const std::vector<float>& values) {
    return *Tensor::From<float>(values, {static_cast<int64_t>(values.size())});
  }

  const std::string path_ = absl::StrCat(::testing::TempDir(), "/frozen_states.cotan");
  const std::string bytes_ = ProgramBytes();
  std::shared_ptr<const Program> program_;
};

TEST_F(FrozenStatesTest, StoresOfOneFileShareItsPages) {
  const StateStore a = NewStore(), b = NewStore();
  EXPECT_NE(a.addresses()[kFrozen], b.addresses()[kFrozen]);
  for (const StateStore* store : {&a, &b}) {
    EXPECT_EQ(Read(*store, kTrained), Values(0.5f));
    EXPECT_EQ(Read(*store, kFrozen), Values(1));
    EXPECT_EQ(Read(*store, kEqual), Values(1));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(store->addresses()[kFrozen]) % 64, 0);
    EXPECT_THAT(MemoryOf(*store, kFrozen).file, EndsWith("/frozen_states.cotan"));
    EXPECT_EQ(MemoryOf(*store, kFrozen).private_bytes, 0);
    EXPECT_THAT(MemoryOf(*store, kTrained).file, ::testing::Not(EndsWith(".cotan")));
    EXPECT_EQ(store->bytes(), 3 * kBytes);
  }
}

TEST_F(FrozenStatesTest, AWriteChangesOneStoreAndNotTheFile) {
  StateStore a = NewStore();
  const StateStore b = NewStore();
  std::vector<float> changed = Values(1);
  changed[kCount / 2] = -1;
  ASSERT_TRUE(a.Write(kFrozen, TensorOf(changed)).ok());
  EXPECT_EQ(Read(a, kFrozen), changed);
  EXPECT_EQ(Read(a, kEqual), Values(1));
  EXPECT_EQ(Read(b, kFrozen), Values(1));
  EXPECT_EQ(Read(NewStore(), kFrozen), Values(1));
  EXPECT_EQ(MappedFile::Open(path_)->bytes(), bytes_);
  EXPECT_LE(MemoryOf(a, kFrozen).private_bytes, ::sysconf(_SC_PAGESIZE));  // the rest is shared still
  EXPECT_EQ(MemoryOf(b, kFrozen).private_bytes, 0);
  ASSERT_TRUE(a.Reset(kFrozen).ok());
  EXPECT_EQ(Read(a, kFrozen), Values(1));
}

TEST_F(FrozenStatesTest, AValueOfEqualBytesLeavesPagesShared) {
  StateStore store = NewStore();
  const uint64_t version = store.version(kFrozen);
  ASSERT_TRUE(store.WriteAll({{kTrained, TensorOf(Values(3))}, {kFrozen, TensorOf(Values(1))}}).ok());
  ASSERT_TRUE(store.Reset(kFrozen).ok());
  EXPECT_EQ(Read(store, kTrained), Values(3));
  EXPECT_EQ(MemoryOf(store, kFrozen).private_bytes, 0);
  EXPECT_EQ(store.version(kFrozen), version + 2);
}

TEST_F(FrozenStatesTest, TheirMemoryOutlivesStoreProgramAndFile) {
  const Tensor kept = NewStore().tensor(kFrozen);
  program_ = nullptr;
  ASSERT_TRUE(WriteFileAtomically(path_, {"another file"}).ok());
  EXPECT_EQ(*kept.ToVector<float>(), Values(1));
}

TEST_F(FrozenStatesTest, ProgramsInMemoryAreCopied) {
  program_ = *Program::LoadBytes(bytes_);
  const StateStore store = NewStore();
  EXPECT_EQ(Read(store, kFrozen), Values(1));
  EXPECT_THAT(MemoryOf(store, kFrozen).file, ::testing::Not(EndsWith(".cotan")));
}

}  // namespace
}  // namespace cotan
