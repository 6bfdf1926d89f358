// SPDX-License-Identifier: Apache-2.0

#include "planning/schedule_text.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "serialization/schema/op_kind.h"

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::Method;

std::string Quoted(const std::string& name) { return name.empty() ? "" : absl::StrCat(" \"", name, "\""); }

std::string BufferText(const Artifact& artifact, const Method& method, const Buffer& buffer) {
  switch (buffer.kind) {
    case BufferKind::kArena:
      return buffer.on_host ? "arena on the host" : "arena";
    case BufferKind::kInput:
      return absl::StrCat("input ", buffer.index,
                          buffer.index < method.input_names_size() ? Quoted(method.input_names(buffer.index)) : "",
                          buffer.on_host ? " on the host" : "");
    case BufferKind::kOutput:
      return absl::StrCat("result ", buffer.index,
                          buffer.index < method.output_names_size() ? Quoted(method.output_names(buffer.index)) : "",
                          buffer.on_host ? " on the host" : "");
    case BufferKind::kState:
      return absl::StrCat("state", Quoted(artifact.states(buffer.index).name()));
  }
  return "";
}

std::string OperandsText(const std::vector<Operand>& operands) {
  const auto append = [](std::string* out, const Operand& operand) {
    absl::StrAppend(out, operand.buffer, " ", DTypeName(operand.geometry.dtype), ToString(operand.geometry.layout));
  };
  return absl::StrCat("(", absl::StrJoin(operands, ", ", append), ")");
}

}  // namespace

std::string ScheduleText(const Artifact& artifact, const Method& method, const Schedule& schedule) {
  std::string text = "buffers\n";
  for (size_t i = 0; i < schedule.buffers.size(); ++i) {
    const Buffer& buffer = schedule.buffers[i];
    absl::StrAppend(&text, "  ", i, ": ", BufferText(artifact, method, buffer), ", ", buffer.bytes, " bytes\n");
  }
  absl::StrAppend(&text, "steps\n");
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    const ScheduledStep& step = schedule.steps[i];
    const serialization::Op& op = OpOf(method, step);
    absl::StrAppend(&text, "  ", i, ": ", OpKindName(op.kind_case()), op.source().empty() ? "" : " ", op.source(), " ",
                    OperandsText(step.inputs), " -> ", OperandsText(step.outputs), "\n");
  }
  return text;
}

}  // namespace cotan
