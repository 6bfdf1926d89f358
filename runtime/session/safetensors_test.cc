// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/safetensors.h"

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string FileOf(const std::string& header, const std::string& data = "") {
  const uint64_t size = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &size, 8);
  return bytes + header + data;
}

std::string Written(const SafetensorsFile& file) {
  absl::StatusOr<std::string> bytes = SafetensorsHeader(file);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  for (const SafetensorsEntry& entry : file.tensors) absl::StrAppend(&*bytes, entry.bytes);
  return *bytes;
}

TEST(SafetensorsTest, TensorsAndMetadataAreReadBack) {
  const SafetensorsFile file = {
      .tensors = {{"a \"quoted\"\n\\name", DType::kFloat32, {1, 2}, "12345678"},
                  {"größe", DType::kBool, {}, "x"},
                  {"none", DType::kInt64, {0, 4}, ""}},
      .metadata = {{"format", "pt"}},
  };
  const std::string bytes = Written(file);
  const absl::StatusOr<SafetensorsFile> read = ParseSafetensors(bytes);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->metadata, file.metadata);
  ASSERT_EQ(read->tensors.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read->tensors[i].name, file.tensors[i].name);
    EXPECT_EQ(read->tensors[i].dtype, file.tensors[i].dtype);
    EXPECT_EQ(read->tensors[i].sizes, file.tensors[i].sizes);
    EXPECT_EQ(read->tensors[i].bytes, file.tensors[i].bytes);
  }
  uint64_t header_size;
  std::memcpy(&header_size, bytes.data(), 8);
  EXPECT_EQ(header_size % 8, 0u);
}

TEST(SafetensorsTest, FilesOfOtherToolsAreRead) {
  const std::string file = FileOf(
      " {\"w\" : {\"shape\":[2 , 1],\n\"data_offsets\":[1,5],\"dtype\":\"BF16\"},"
      "\"\\u00e9\\ud83d\\ude00\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}   ",
      "abcde");
  const absl::StatusOr<SafetensorsFile> read = ParseSafetensors(file);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->tensors[0].name, "\u00e9\U0001F600");
  EXPECT_EQ(read->tensors[0].bytes, "a");
  EXPECT_EQ(read->tensors[1].dtype, DType::kBFloat16);
  EXPECT_THAT(read->tensors[1].sizes, ElementsAre(2, 1));
}

TEST(SafetensorsTest, MalformedHeadersAreRefused) {
  const std::string entry = "{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}";
  const std::vector<std::string> headers = {
      "",
      "{",
      "[]",
      "null",
      "{}x",
      "{\"a\":1}",
      "{\"a\":" + entry + ",}",
      "{\"a\":" + entry + ",\"a\":" + entry + "}",
      "{\"a\":" + entry,
      "{\"a\xff\":" + entry + "}",
      "{\"a\x01\":" + entry + "}",
      "{\"\\x61\":" + entry + "}",
      "{\"\\ud800\":" + entry + "}",
      "{\"\\ud800\\u0041\":" + entry + "}",
      "{\"\\udc00\":" + entry + "}",
      "{\"\\u12g4\":" + entry + "}",
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}",
      "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}",
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}",
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[01],\"data_offsets\":[0,1]}}",
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}}",
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[99999999999999999999],\"data_offsets\":[0,1]}}",
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,1]}}",
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]}}",
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,2]}}",
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}",
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"more\":[]}}",
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",  // leaves a byte
      "{\"a\":" + entry + ",\"b\":" + entry + "}",                        // overlap
      "{\"__metadata__\":{\"a\":1},\"a\":" + entry + "}",
  };
  ASSERT_TRUE(ParseSafetensors(FileOf("{\"a\":" + entry + "}", "x")).ok());
  for (const std::string& header : headers) {
    EXPECT_EQ(ParseSafetensors(FileOf(header, "x")).status().code(), absl::StatusCode::kInvalidArgument) << header;
  }
  EXPECT_EQ(
      ParseSafetensors(FileOf("{\"a\":{\"dtype\":\"F8\",\"shape\":[1],\"data_offsets\":[0,1]}}", "x")).status().code(),
      absl::StatusCode::kUnimplemented);
}

TEST(SafetensorsTest, SizesOfTheHeaderAreChecked) {
  EXPECT_EQ(ParseSafetensors("1234567").status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ParseSafetensors(std::string("\x10\0\0\0\0\0\0\0{}", 10)).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ParseSafetensors(std::string(16, '\xff')).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SafetensorsTest, EightBitFloatsHaveTheFormatsNames) {
  const std::string file = Written(
      {.tensors = {{"a", DType::kFloat8E4m3fn, {2}, "12"}, {"b", DType::kFloat8E5m2, {1}, "3"}}, .metadata = {}});
  EXPECT_NE(file.find("F8_E4M3"), std::string::npos);
  EXPECT_NE(file.find("F8_E5M2"), std::string::npos);
  const auto read = ParseSafetensors(file);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->tensors[0].dtype, DType::kFloat8E4m3fn);
  EXPECT_EQ(read->tensors[1].dtype, DType::kFloat8E5m2);
}

TEST(SafetensorsTest, WhatTheFormatCannotHoldIsRefused) {
  EXPECT_FALSE(
      SafetensorsHeader({.tensors = {{"a", DType::kComplex128, {}, "0123456789abcdef"}}, .metadata = {}}).ok());
  EXPECT_FALSE(SafetensorsHeader({.tensors = {{"a", DType::kFloat32, {2}, "1234"}}, .metadata = {}}).ok());
  EXPECT_FALSE(SafetensorsHeader({.tensors = {{"\xc0\x80", DType::kUInt8, {}, "1"}}, .metadata = {}}).ok());
}

TEST(SafetensorsTest, RandomDamageNeverCrashes) {
  std::mt19937_64 random(testing::TestSeed());
  const std::string whole =
      Written({.tensors = {{"first", DType::kFloat32, {1, 2}, "12345678"}, {"second", DType::kInt16, {3}, "abcdef"}},
               .metadata = {{"k", "v"}}});
  int refused = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    std::string bytes = whole;
    for (uint64_t i = 0; i <= random() % 4; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (!ParseSafetensors(bytes).ok()) ++refused;
  }
  EXPECT_GT(refused, 10000);
}

}  // namespace
}  // namespace cotan
