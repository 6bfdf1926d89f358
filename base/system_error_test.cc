// SPDX-License-Identifier: Apache-2.0

#include "base/system_error.h"

#include <cerrno>

#include "gtest/gtest.h"

namespace cotan {
namespace {

TEST(SystemErrorTest, NamesTheCallAndThePath) {
  const absl::Status status = SystemError("open", "a/b", ENOENT);
  EXPECT_EQ(status.message(), "cannot open 'a/b': No such file or directory");
}

TEST(SystemErrorTest, CodesTellWhatToDo) {
  EXPECT_TRUE(absl::IsAlreadyExists(SystemError("create", "f", EEXIST)));
  EXPECT_TRUE(absl::IsNotFound(SystemError("open", "f", ENOTDIR)));
  EXPECT_TRUE(absl::IsPermissionDenied(SystemError("write", "f", EROFS)));
  EXPECT_TRUE(absl::IsPermissionDenied(SystemError("write", "f", EISDIR)));
  EXPECT_TRUE(absl::IsResourceExhausted(SystemError("write", "f", ENOSPC)));
  EXPECT_TRUE(absl::IsResourceExhausted(SystemError("write", "f", EDQUOT)));
  EXPECT_TRUE(absl::IsUnavailable(SystemError("write", "f", EIO)));
}

}  // namespace
}  // namespace cotan
