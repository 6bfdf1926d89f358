// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/pickled_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <iterator>
#include <random>

#include "aot/frontend/pt2/archive_builder.h"

namespace cotan::aot::pt2 {
namespace {

using ::testing::HasSubstr;

std::string Text(const std::string& text) {
  std::string out = "X";
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>((text.size() >> (8 * i)) & 0xff));
  return out + text;
}
std::string Global(const std::string& module, const std::string& name) { return "c" + module + "\n" + name + "\n"; }
std::string Int(int value) { return {'K', static_cast<char>(value)}; }
std::string StorageId(const std::string& type, int count) {
  return "(" + Text("storage") + Global("torch", type) + Text("0") + Text("cpu") + Int(count) + "tQ";
}
// Returns a pickled tensor [2, 3] with an offset in a storage of `count` floats.
std::string Tensor(int count, int offset) {
  return Global("torch._utils", "_rebuild_tensor_v2") + "(" + StorageId("FloatStorage", count) + Int(offset) + Int(2) +
         Int(3) + "\x86" + Int(3) + Int(1) + "\x86" + "\x89" + Global("collections", "OrderedDict") + ")R" + "tR";
}
std::string DictOf(const std::string& key, const std::string& value) {
  return std::string("\x80\x02}", 3) + "(" + Text(key) + value + "u.";
}

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}
// Returns a file as torch.save writes it, with a storage of 8 floats.
std::string SavedFile(const std::string& pickle) {
  return BytesOf(WriteArchive(
      "saved.pt",
      {{"archive/data.pkl", pickle}, {"archive/byteorder", "little"}, {"archive/data/0", std::string(32, '\0')}}));
}
absl::StatusOr<StoredTensors> Read(const std::string& pickle) {
  return ReadPickledTensors(SavedFile(pickle), "saved.pt");
}

TEST(PickledTensorsTest, ReadsADictOfTensors) {
  const auto tensors = Read(DictOf("w", Tensor(8, 2)));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(tensors->at("w").tensor.sizes(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(tensors->at("w").tensor.storage_offset(), 2);
  EXPECT_FALSE(tensors->at("w").requires_grad);
}

TEST(PickledTensorsTest, ReadsParameters) {
  const auto tensors = Read(DictOf("w", Global("torch._utils", "_rebuild_parameter") + "(" + Tensor(8, 0) + "\x88" +
                                            Global("collections", "OrderedDict") + ")R" + "tR"));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_TRUE(tensors->at("w").requires_grad);
}

TEST(PickledTensorsTest, CallsNothing) {
  const absl::Status status = Read(DictOf("w", Global("os", "system") + Text("true") + "\x85R")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("calls os system, and nothing in a file is run here"));
  EXPECT_EQ(Read(DictOf("w", Global("os", "system") + Text("true") + "\x85\x81")).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(PickledTensorsTest, RefusesWhatIsNoDictOfTensors) {
  using Code = absl::StatusCode;
  EXPECT_THAT(std::string(Read(DictOf("w", Int(1))).status().message()), HasSubstr("'w' is not a tensor"));
  EXPECT_THAT(std::string(Read("\x80\x02K\x01.").status().message()), HasSubstr("not a dict of tensors"));
  EXPECT_EQ(Read(DictOf("w", Tensor(8, 3))).status().code(), Code::kInvalidArgument);  // beyond the storage
  EXPECT_EQ(Read("\x80\x02}").status().code(), Code::kInvalidArgument);                // no end
  EXPECT_EQ(Read(std::string(100000, ')') + ".").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Read(")" + std::string(100000, '\x85') + ".").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ReadPickledTensors("no zip", "saved.pt").status().code(), Code::kInvalidArgument);
}

// A text is kept once, however often the memo repeats it: these would be 100 GB.
TEST(PickledTensorsTest, RepeatedTextsShareTheirMemory) {
  std::string pickle = std::string("\x80\x02", 2) + Text(std::string(1 << 20, 'x')) + std::string("q\0", 2);
  for (int i = 0; i < 100000; ++i) pickle += std::string("h\0", 2);
  EXPECT_THAT(std::string(Read(pickle + ".").status().message()), HasSubstr("not a dict of tensors"));
  const std::string global = std::string("h\0h\0\x93", 5);
  EXPECT_THAT(std::string(Read(pickle + global + ".").status().message()), HasSubstr("a name that is too long"));
}

absl::StatusOr<std::vector<at::Tensor>> ReadLeaves(const std::string& pickle) {
  return ReadPickledLeaves(SavedFile(pickle), "saved.pt");
}

TEST(PickledTensorsTest, LeavesAreTheTensorsOfTuplesAndDictsInOrder) {
  // ((a, (1, b)), {"w": c})
  const std::string arguments = Tensor(8, 0) + Int(1) + Tensor(8, 1) + "\x86\x86";
  const std::string keywords = "}(" + Text("w") + Tensor(8, 2) + "u";
  const auto leaves = ReadLeaves(std::string("\x80\x02", 2) + arguments + keywords + "\x86.");
  ASSERT_TRUE(leaves.ok()) << leaves.status();
  ASSERT_EQ(leaves->size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ((*leaves)[i].storage_offset(), static_cast<int64_t>(i));
  EXPECT_TRUE(ReadLeaves("\x80\x02K\x01.")->empty());
  EXPECT_EQ(ReadLeaves(DictOf("w", Global("os", "system") + Text("true") + "\x85R")).status().code(),
            absl::StatusCode::kUnimplemented);
}

// Each tuple has the one before eight times: 8^7 values.
TEST(PickledTensorsTest, TuplesThatShareItemsAreRefused) {
  std::string pickle = std::string("\x80\x02)q\0", 5);
  for (int depth = 0; depth < 7; ++depth) {
    pickle += "(";
    for (int i = 0; i < 8; ++i) pickle += {'h', static_cast<char>(depth)};
    pickle += {'t', 'q', static_cast<char>(depth + 1)};
  }
  EXPECT_THAT(std::string(ReadLeaves(pickle + ".").status().message()), HasSubstr("too many values"));
}

TEST(PickledTensorsTest, GarbledPicklesAreRefusedOrRead) {
  const std::string pickle = DictOf("w", Tensor(8, 2));
  constexpr uint32_t kSeed = 20260102;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  for (int i = 0; i < 500; ++i) {
    std::string garbled = pickle;
    garbled[random() % garbled.size()] = static_cast<char>(random());
    const auto tensors = Read(garbled);
    if (!tensors.ok()) continue;
    for (const auto& [name, stored] : *tensors) EXPECT_LE(stored.tensor.sum().item<double>(), 0) << name;
  }
}

}  // namespace
}  // namespace cotan::aot::pt2
