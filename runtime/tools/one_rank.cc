// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/one_rank.h"

#include <algorithm>
#include <utility>

namespace cotan::tools {
namespace {

bool HasCollectives(const serialization::Method& method) {
  return std::any_of(method.ops().begin(), method.ops().end(), [](const auto& op) { return op.has_collective(); });
}

}  // namespace

SessionOptions WithOneRank(const Program& program, SessionOptions options, SingleRank& rank) {
  const auto& methods = program.artifact().methods();
  if (std::any_of(methods.begin(), methods.end(), HasCollectives)) options.communicator = &rank;
  return options;
}

}  // namespace cotan::tools
