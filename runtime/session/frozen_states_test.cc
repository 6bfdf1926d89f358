// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/frozen_states.h"

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"
#include "runtime/session/state_store.h"
#include "runtime/testing/limited_device.h"
#include "runtime/testing/mapping_memory.h"
#include "runtime/testing/program_builder.h"

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::State;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using testing::ExprBuilder;
using testing::LimitedDevice;
using testing::MappingMemory;
using testing::MappingMemoryAt;
using testing::MethodBuilder;
using ::testing::Not;
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
  Session NewSession() { return *Session::Create(program_, {.kernels = &testing::TestKernels(), .threads = 1}); }
  static MappingMemory MemoryOf(const StateStore& store, int state) {
    return MappingMemoryAt(store.addresses()[static_cast<size_t>(state)]);
  }
  static std::vector<float> Read(const StateStore& store, int state) { return *store.Read(state)->ToVector<float>(); }
  static std::vector<float> Read(const Session& session, absl::string_view state) {
    return *session.State(state)->ToVector<float>();
  }
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
    EXPECT_THAT(MemoryOf(*store, kTrained).file, Not(EndsWith(".cotan")));
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

TEST_F(FrozenStatesTest, AWriteToTheMemoryOfAParameterStaysInItsSession) {
  const Session a = NewSession(), b = NewSession();
  a.Parameter("frozen")->tensor().data<float>()[3] = -1;
  std::vector<float> changed = Values(1);
  changed[3] = -1;
  EXPECT_EQ(Read(a, "frozen"), changed);
  EXPECT_EQ(Read(b, "frozen"), Values(1));
  EXPECT_EQ(Read(NewSession(), "frozen"), Values(1));
  EXPECT_EQ(MappedFile::Open(path_)->bytes(), bytes_);
}

TEST_F(FrozenStatesTest, ACheckpointWithOtherValuesChangesOneSession) {
  const std::string checkpoint = absl::StrCat(::testing::TempDir(), "/frozen_states.safetensors");
  Session a = NewSession(), b = NewSession();
  const Session c = NewSession();
  ASSERT_TRUE(a.SetState("frozen", TensorOf(Values(7))).ok());
  ASSERT_TRUE(a.SaveCheckpoint(checkpoint).ok());
  const absl::Status loaded = b.LoadCheckpoint(checkpoint);
  ASSERT_TRUE(loaded.ok()) << loaded;
  EXPECT_EQ(Read(b, "frozen"), Values(7));
  EXPECT_EQ(Read(b, "equal"), Values(1));
  EXPECT_EQ(Read(c, "frozen"), Values(1));
  EXPECT_EQ(MappedFile::Open(path_)->bytes(), bytes_);
}

// What a device allocates, it may limit or place on a node of the memory.
TEST_F(FrozenStatesTest, AnotherDeviceOfTheHostAllocatesThem) {
  LimitedDevice device;
  const StateStore store = *StateStore::Create(program_, device);
  EXPECT_EQ(Read(store, kFrozen), Values(1));
  EXPECT_THAT(MemoryOf(store, kFrozen).file, Not(EndsWith(".cotan")));
  EXPECT_EQ(device.live_bytes(), 3 * kBytes);
  LimitedDevice small;
  small.LimitBytes(2 * kBytes);
  EXPECT_EQ(StateStore::Create(program_, small).status().code(), absl::StatusCode::kResourceExhausted);
}

// "a", f32[8] and "b", which share a mapping, 2 MiB that are trained, and "c".
TEST_F(FrozenStatesTest, LargeTrainedStatesBetweenThemAreNotMapped) {
  ProgramBuilder builder;
  const testing::Sizes sizes = {absl::StrCat(kCount)}, large = {absl::StrCat(8 * kCount)};
  builder.AddState("a", State::PARAMETER, sizes, Values(1));
  builder.AddState("bias", State::PARAMETER, {"8"}, std::vector<float>(8, 2));
  builder.AddState("b", State::PARAMETER, sizes, Values(3));
  builder.AddState("large", State::PARAMETER, large, std::vector<float>(size_t{8} * kCount, 4));
  builder.AddState("c", State::PARAMETER, sizes, Values(5));
  MethodBuilder step = builder.AddMethod("step");
  const uint32_t value = step.Read(3, DType::kFloat32, large);
  step.Update(3, step.Pointwise(large, {value}, [](ExprBuilder& b) { return b.Add(0, 0); }));
  ASSERT_TRUE(WriteFileAtomically(path_, {builder.Bytes()}).ok());
  program_ = *Program::Load(path_);
  StateStore store = NewStore();
  for (const auto& [state, first] : {std::pair(0, 1.0f), std::pair(2, 3.0f), std::pair(4, 5.0f)}) {
    EXPECT_EQ(Read(store, state), Values(first));
    EXPECT_THAT(MemoryOf(store, state).file, EndsWith("/frozen_states.cotan"));
    EXPECT_LT(MemoryOf(store, state).bytes, 3 * kBytes);
  }
  const auto* const a = static_cast<const char*>(store.addresses()[0]);
  EXPECT_EQ(static_cast<const char*>(store.addresses()[2]) - a,
            program_->segment(2).data() - program_->segment(0).data());
  EXPECT_THAT(MemoryOf(store, 3).file, Not(EndsWith(".cotan")));
  ASSERT_TRUE(store.Write(4, TensorOf(Values(6))).ok());
  EXPECT_EQ(Read(store, 4), Values(6));
  EXPECT_EQ(Read(store, 2), Values(3));
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
  EXPECT_THAT(MemoryOf(store, kFrozen).file, Not(EndsWith(".cotan")));
}

}  // namespace
}  // namespace cotan
