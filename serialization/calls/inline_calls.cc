// SPDX-License-Identifier: Apache-2.0

#include "serialization/calls/inline_calls.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "base/sym_int.h"
#include "serialization/schema/tensor_type.h"

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::Call;
using serialization::Expr;
using serialization::Method;
using serialization::Op;
using serialization::TensorType;

constexpr uint32_t kUnmapped = std::numeric_limits<uint32_t>::max();
constexpr absl::string_view kBackwardOf = "backward of ";

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

absl::Status At(absl::string_view where, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(where, ": ", status.message()));
}

bool SameType(const TensorType& a, const TensorType& b) {
  return a.dtype() == b.dtype() && a.sizes_size() == b.sizes_size() &&
         std::equal(a.sizes().begin(), a.sizes().end(), b.sizes().begin());
}

// Returns the origin of an op of a block that is called at `path`.
std::string SourceAt(const std::string& path, const std::string& source) {
  if (path.empty()) return source;
  if (source.empty()) return path;
  if (!absl::StartsWith(source, kBackwardOf)) return absl::StrCat(path, ".", source);
  return absl::StrCat(kBackwardOf, path, ".", source.substr(kBackwardOf.size()));
}

absl::Status AddSlice(const std::string& base, std::string& slice) {
  COTAN_ASSIGN_OR_RETURN(const SymInt start, SymInt::Parse(base));
  COTAN_ASSIGN_OR_RETURN(const SymInt own, SymInt::Parse(slice.empty() ? "0" : slice));
  slice = (start + own).ToString();
  return absl::OkStatus();
}

// Adds the first Philox block of a call to the random instructions of a program.
absl::Status MoveDraws(const std::string& base, Expr& expr) {
  for (serialization::ExprInstruction& instruction : *expr.mutable_instructions()) {
    if (instruction.fn() != serialization::FN_RANDOM_UNIFORM) continue;
    COTAN_RETURN_IF_ERROR(AddSlice(base, *instruction.mutable_slice()));
  }
  return absl::OkStatus();
}

absl::Status MoveDraws(const std::string& base, Op& op) {
  if (base.empty() || base == "0") return absl::OkStatus();
  if (op.has_expr()) return MoveDraws(base, *op.mutable_expr());
  if (op.matmul().has_epilogue()) return MoveDraws(base, *op.mutable_matmul()->mutable_epilogue());
  if (op.has_call()) return AddSlice(base, *op.mutable_call()->mutable_slice());
  return absl::OkStatus();
}

// Returns InvalidArgument if a block has more than values, ops, inputs and outputs.
absl::Status CheckBlock(const Method& block) {
  Method rest = block;
  rest.clear_name();
  rest.clear_values();
  rest.clear_ops();
  rest.clear_inputs();
  rest.clear_outputs();
  if (rest.ByteSizeLong() != 0) return Invalid("it has states, metadata or names, which only a method has");
  std::vector<bool> listed(static_cast<size_t>(block.values_size()), false);
  for (const auto* indexes : {&block.inputs(), &block.outputs()}) {
    for (const uint32_t value : *indexes) {
      if (value >= listed.size()) return Invalid("value ", value, " of ", listed.size());
      if (listed[value]) return Invalid("value ", value, " is listed twice among its inputs and outputs");
      listed[value] = true;
    }
  }
  return absl::OkStatus();
}

class Inliner {
 public:
  explicit Inliner(Artifact& artifact) : artifact_(artifact) {}

  absl::Status Run() {
    for (int i = 0; i < artifact_.blocks_size(); ++i) {
      const Method& block = artifact_.blocks(i);
      const std::string where = absl::StrCat("block ", i, " '", block.name(), "'");
      COTAN_RETURN_IF_ERROR(At(where, CheckBlock(block)));
      COTAN_RETURN_IF_ERROR(At(where, Measure(block, static_cast<uint32_t>(i))));
    }
    uint64_t total = 0;
    for (Method& method : *artifact_.mutable_methods()) {
      const std::string where = absl::StrCat("method '", method.name(), "'");
      const auto has_call = [](const Op& op) { return op.has_call(); };
      if (std::none_of(method.ops().begin(), method.ops().end(), has_call)) continue;
      COTAN_RETURN_IF_ERROR(At(where, Measure(method, static_cast<uint32_t>(artifact_.blocks_size()))));
      total += measured_.back().size;
      measured_.pop_back();
      if (total > kMaxInlinedBytes) return TooLarge();
      COTAN_RETURN_IF_ERROR(At(where, InlineInto(method)));
    }
    artifact_.clear_blocks();
    return absl::OkStatus();
  }

 private:
  static absl::Status TooLarge() {
    return Invalid("with the ops of the blocks that it calls, the program has more than ", kMaxInlinedBytes, " bytes");
  }

  // Measures `caller`, which may call the first `num_blocks` blocks.
  absl::Status Measure(const Method& caller, uint32_t num_blocks) {
    Extent extent;
    for (const serialization::Value& value : caller.values()) extent.size += value.ByteSizeLong() + 1;
    for (int i = 0; i < caller.ops_size(); ++i) {
      const Op& op = caller.ops(i);
      extent.size += op.ByteSizeLong() + 1;
      ++extent.num_ops;
      if (!op.has_call()) continue;
      if (op.call().block() >= num_blocks) {
        return Invalid("op ", i, " calls block ", op.call().block(), ", and there are ", num_blocks, " before it");
      }
      const Extent& block = measured_[op.call().block()];
      extent.num_ops += block.num_ops;
      // Each op gets the path and the slice of the call.
      extent.size += block.size + block.num_ops * (op.call().path().size() + op.call().slice().size() + 1);
      extent.depth = std::max(extent.depth, block.depth + 1);
      if (extent.size > kMaxInlinedBytes) return TooLarge();
      if (extent.depth > kMaxCallDepth) return Invalid("op ", i, ": calls are nested deeper than ", kMaxCallDepth);
    }
    measured_.push_back(extent);
    return absl::OkStatus();
  }

  absl::Status InlineInto(Method& method) const {
    google::protobuf::RepeatedPtrField<Op> ops;
    ops.Swap(method.mutable_ops());
    for (int i = 0; i < ops.size(); ++i) {
      if (!ops.Get(i).has_call()) {
        method.add_ops()->Swap(ops.Mutable(i));
        continue;
      }
      COTAN_RETURN_IF_ERROR(At(absl::StrCat("op ", i), Inline(ops.Get(i), method)));
    }
    return absl::OkStatus();
  }

  // Binds values of the block, by index, to those of an op in the method.
  static absl::Status Bind(const char* what, const google::protobuf::RepeatedField<uint32_t>& formal,
                           const google::protobuf::RepeatedField<uint32_t>& actual, const Method& block,
                           const Method& method, std::vector<uint32_t>& values) {
    if (formal.size() != actual.size()) {
      return Invalid("it has ", actual.size(), " ", what, "s, block '", block.name(), "' has ", formal.size());
    }
    for (int i = 0; i < formal.size(); ++i) {
      if (actual.Get(i) >= static_cast<uint32_t>(method.values_size())) {
        return Invalid(what, " ", i, ": value ", actual.Get(i), " of ", method.values_size());
      }
      const TensorType& expected = block.values(static_cast<int>(formal.Get(i))).type();
      const TensorType& type = method.values(static_cast<int>(actual.Get(i))).type();
      if (!SameType(type, expected)) {
        return Invalid(what, " ", i, " is ", TensorTypeText(type), ", block '", block.name(), "' has ",
                       TensorTypeText(expected));
      }
      values[formal.Get(i)] = actual.Get(i);
    }
    return absl::OkStatus();
  }

  static absl::Status Rename(const std::vector<uint32_t>& values, google::protobuf::RepeatedField<uint32_t>& indexes) {
    for (uint32_t& index : indexes) {
      if (index >= values.size()) return Invalid("value ", index, " of ", values.size());
      index = values[index];
    }
    return absl::OkStatus();
  }

  // Appends the ops of the block that `op` calls. The depth of the recursion is at most kMaxCallDepth.
  absl::Status Inline(const Op& op, Method& method) const {
    const Call& call = op.call();
    const Method& block = artifact_.blocks(static_cast<int>(call.block()));
    std::vector<uint32_t> values(static_cast<size_t>(block.values_size()), kUnmapped);
    COTAN_RETURN_IF_ERROR(Bind("input", block.inputs(), op.inputs(), block, method, values));
    COTAN_RETURN_IF_ERROR(Bind("output", block.outputs(), op.outputs(), block, method, values));
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] != kUnmapped) continue;
      values[i] = static_cast<uint32_t>(method.values_size());
      *method.add_values() = block.values(static_cast<int>(i));
    }
    for (int i = 0; i < block.ops_size(); ++i) {
      Op inner = block.ops(i);
      absl::Status status = Rename(values, *inner.mutable_inputs());
      if (status.ok()) status = Rename(values, *inner.mutable_outputs());
      if (status.ok()) status = MoveDraws(call.slice(), inner);
      if (status.ok() && inner.has_call()) {
        inner.mutable_call()->set_path(SourceAt(call.path(), inner.call().path()));
        status = Inline(inner, method);
      } else {
        inner.set_source(SourceAt(call.path(), inner.source()));
        method.add_ops()->Swap(&inner);
      }
      if (!status.ok()) return At(absl::StrCat("block ", call.block(), ", op ", i), status);
    }
    return absl::OkStatus();
  }

  // A block, or a method, with the ops of all its calls.
  struct Extent {
    uint64_t size = 0;  // encoded, in bytes
    uint64_t num_ops = 0;
    int depth = 0;  // 0 = it has no calls
  };

  Artifact& artifact_;
  std::vector<Extent> measured_;  // by block
};

}  // namespace

absl::Status InlineCalls(Artifact& artifact) { return Inliner(artifact).Run(); }

}  // namespace cotan
