// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/state_store.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/limited_device.h"
#include "runtime/testing/program_builder.h"

namespace cotan {
namespace {

using serialization::State;
using ::testing::ElementsAre;
using testing::LimitedDevice;
using testing::ProgramBuilder;

// "w" f32[2,3] 1..6; "ordered" the same in column order; "half" bf16[2] of 1.5; "c" a constant; "empty"
// f32[0].
std::shared_ptr<const Program> Load() {
  ProgramBuilder program;
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  program.AddState("w", State::PARAMETER, {"2", "3"}, values);
  const uint32_t ordered = program.AddState("ordered", State::PARAMETER, {"2", "3"}, values);
  auto& type = *program.artifact().mutable_states(static_cast<int>(ordered))->mutable_type();
  type.add_dim_order(1);
  type.add_dim_order(0);
  program.AddState("half", State::BUFFER, DType::kBFloat16, {"2"}, 1.5);
  program.AddState("c", State::CONSTANT, {"2", "3"}, values);
  program.AddState("empty", State::BUFFER, DType::kFloat32, {"0"}, 0);
  return program.Load();
}

StateStore Create(Device& device = HostDevice()) { return *StateStore::Create(Load(), device); }

TEST(StateStoreTest, StatesBeginWithTheirInitialContent) {
  const StateStore store = Create();
  EXPECT_THAT(*store.Read(0)->ToVector<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(*store.Read(1)->ToVector<float>(), ElementsAre(1, 3, 5, 2, 4, 6));
  EXPECT_EQ(static_cast<const uint16_t*>(store.Read(2)->address())[1], 0x3fc0);
  EXPECT_EQ(store.Read(4)->num_elements(), 0);
}

TEST(StateStoreTest, WrittenValuesAreReadBackInRowMajorOrder) {
  StateStore store = Create();
  const Tensor value = *Tensor::From<float>({6, 5, 4, 3, 2, 1}, {2, 3});
  const uint64_t version = store.version(1);
  ASSERT_TRUE(store.Write(1, value).ok());
  EXPECT_THAT(*store.Read(1)->ToVector<float>(), ElementsAre(6, 5, 4, 3, 2, 1));
  EXPECT_GT(store.version(1), version);
  // The elements in memory are in the order of the state's layout.
  EXPECT_EQ(static_cast<const float*>(store.addresses()[1])[1], 3);
  ASSERT_TRUE(store.Reset(1).ok());
  EXPECT_THAT(*store.Read(1)->ToVector<float>(), ElementsAre(1, 3, 5, 2, 4, 6));
}

TEST(StateStoreTest, WhatIsReadIsACopy) {
  StateStore store = Create();
  store.Read(0)->data<float>()[0] = 100;
  EXPECT_THAT(*store.Read(0)->ToVector<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(StateStoreTest, ConstantsCannotBeWritten) {
  StateStore store = Create();
  const absl::Status status = store.Write(3, *store.Read(3));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "state 'c' is a constant of the program");
}

TEST(StateStoreTest, AllOrNothingIsWritten) {
  StateStore store = Create();
  const Tensor good = *Tensor::From<float>({6, 5, 4, 3, 2, 1}, {2, 3});
  const Tensor bad = *Tensor::From<float>({6}, {1});
  EXPECT_FALSE(store.WriteAll({{0, good}, {1, bad}}).ok());
  EXPECT_THAT(*store.Read(0)->ToVector<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_FALSE(store.Write(0, Tensor()).ok());
}

TEST(StateStoreTest, BytesLeaveConstantsInPlaceOut) {
  LimitedDevice device;
  const StateStore store = Create(device);
  EXPECT_GE(store.bytes(), 2 * 24 + 4);
  EXPECT_LE(store.bytes(), 3 * 24 + 4);
}

TEST(StateStoreTest, ADeviceWithoutMemoryIsAnError) {
  LimitedDevice device;
  device.LimitBytes(30);
  EXPECT_EQ(StateStore::Create(Load(), device).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(StateStoreTest, EveryElementOfALargeStateIsFilled) {
  ProgramBuilder program;
  program.AddState("large", State::BUFFER, DType::kFloat64, {"30001"}, 1.5);
  const StateStore store = *StateStore::Create(program.Load(), HostDevice());
  EXPECT_EQ(*store.Read(0)->ToVector<double>(), std::vector<double>(30001, 1.5));
}

TEST(StateStoreTest, AFillThatDoesNotFitIsAnError) {
  ProgramBuilder program;
  program.AddState("n", State::BUFFER, DType::kUInt8, {"2"}, 300);
  EXPECT_EQ(StateStore::Create(program.Load(), HostDevice()).status().code(), absl::StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace cotan
