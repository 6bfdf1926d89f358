// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/compiler/kernel_cache.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace cotan::cuda {
namespace {

constexpr nvrtc::CompileTarget kHopper = {nvrtc::ImageKind::kCubin, 90};

std::string NewFolder(const std::string& name) {
  const std::string folder = ::testing::TempDir() + "/" + name;
  std::filesystem::remove_all(folder);
  return folder + "/a/b";
}

TEST(KernelCacheTest, FindsWhatWasStoredForTheSameTextAndTarget) {
  const KernelCache cache(NewFolder("same"));
  EXPECT_FALSE(cache.Find("text", kHopper).has_value());
  ASSERT_TRUE(cache.Store("text", kHopper, std::string("\0image", 6)).ok());
  EXPECT_EQ(cache.Find("text", kHopper), std::string("\0image", 6));
  EXPECT_FALSE(cache.Find("other", kHopper).has_value());
  EXPECT_FALSE(cache.Find("text", {nvrtc::ImageKind::kPtx, 90}).has_value());
  EXPECT_FALSE(cache.Find("text", {nvrtc::ImageKind::kCubin, 100}).has_value());
}

TEST(KernelCacheTest, DamagedFilesAreMisses) {
  const std::string folder = NewFolder("damaged");
  const KernelCache cache(folder);
  ASSERT_TRUE(cache.Store("text", kHopper, "image").ok());
  std::filesystem::path path;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) path = entry.path();
  std::ifstream in(path);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  for (size_t size = 0; size < whole.size(); ++size) {
    std::ofstream(path, std::ios::trunc) << whole.substr(0, size);
    EXPECT_FALSE(cache.Find("text", kHopper).has_value()) << size;
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] ^= 1;
    std::ofstream(path, std::ios::trunc) << changed;
    EXPECT_FALSE(cache.Find("text", kHopper).has_value()) << i;
  }
}

TEST(KernelCacheTest, WithoutAFolderNothingIsKept) {
  const KernelCache cache("");
  EXPECT_TRUE(cache.Store("text", kHopper, "image").ok());
  EXPECT_FALSE(cache.Find("text", kHopper).has_value());
}

TEST(KernelCacheTest, AFolderThatCannotBeMadeIsAnError) {
  const KernelCache cache("/proc/none/kernels");
  const absl::Status status = cache.Store("text", kHopper, "image");
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("/proc/none"), std::string::npos) << status;
}

}  // namespace
}  // namespace cotan::cuda
