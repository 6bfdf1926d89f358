// SPDX-License-Identifier: Apache-2.0

// Headers that tests with modules of torch::nn include, precompiled. Each source still includes what it uses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/torch.h>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
