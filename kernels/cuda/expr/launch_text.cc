// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/expr/launch_text.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/cuda/expr/text_writer.h"

namespace cotan::cuda::expr {
namespace {

absl::string_view IndexType(const KernelPart& part) { return part.wide ? "uint64" : "uint32"; }

std::string IndexLiteral(const KernelPart& part, int64_t value) { return absl::StrCat(value, part.wide ? "ull" : "u"); }

std::string IncludesOf(absl::Span<const KernelPart* const> parts) {
  std::set<std::string> headers;
  for (const KernelPart* part : parts) headers.insert(part->headers.begin(), part->headers.end());
  std::string text;
  for (const std::string& header : headers) absl::StrAppend(&text, "#include \"cotan/", header, ".cuh\"\n");
  return absl::StrCat(text, "\nusing namespace cotan;\n\n");
}

constexpr char kWords[] = "words";

// Returns the declaration of words. A module belongs to one device, which runs its launches one after another.
std::string WordsText(int64_t count) {
  return count == 0 ? "" : absl::StrCat("__device__ uint64 ", kWords, "[", count, "];\n\n");
}

// Returns the head of a kernel, up to its first statement. If `resident` is not 0, so many blocks have registers on a
// multiprocessor at the same time, and ptxas does not spill for the sake of more.
std::string HeadOf(int threads, int resident, absl::string_view entry, absl::Span<const std::string> parameters) {
  const std::string bound = resident == 0 ? "" : absl::StrCat(", ", resident);
  return absl::StrCat("extern \"C\" __global__ void __launch_bounds__(", threads, bound, ") ", entry, "(\n    ",
                      absl::StrJoin(parameters, ",\n    "), ") {\n  WaitForEarlierWork();\n");
}

constexpr absl::string_view kRecordParameter = "const ErrorRecord* record";

// Parts with the same statements.
struct Family {
  std::vector<const KernelPart*> members;
  std::vector<size_t> first_parameter;  // per member, in the launch
  std::vector<int64_t> end_block;       // per member
  std::vector<int64_t> first_word;      // per member, in the launch
};

bool AreAlike(const KernelPart& a, const KernelPart& b) {
  const auto same_parameter = [](const KernelParameter& x, const KernelParameter& y) {
    return x.type == y.type && x.name == y.name;
  };
  return a.body == b.body && a.wide == b.wide && a.guarded == b.guarded && (a.elements != 0) == (b.elements != 0) &&
         a.words == b.words &&
         std::equal(a.parameters.begin(), a.parameters.end(), b.parameters.begin(), b.parameters.end(), same_parameter);
}

class GroupWriter {
 public:
  explicit GroupWriter(absl::Span<const KernelPart* const> parts) {
    for (const KernelPart* part : parts) {
      auto family = std::find_if(families_.begin(), families_.end(),
                                 [&](const Family& f) { return AreAlike(*f.members[0], *part); });
      if (family == families_.end()) family = families_.insert(family, Family{});
      family->members.push_back(part);
      guarded_ |= part->guarded;
      if (part->resident != 0) resident_ = resident_ == 0 ? part->resident : std::min(resident_, part->resident);
    }
    for (Family& family : families_) {
      for (const KernelPart* part : family.members) {
        family.first_parameter.push_back(arguments_.size());
        for (const KernelParameter& parameter : part->parameters) AddParameter(parameter);
        blocks_ += part->blocks;
        family.end_block.push_back(blocks_);
        family.first_word.push_back(words_);
        words_ += part->words;
      }
    }
    if (guarded_) {
      parameters_.emplace_back(kRecordParameter);
      arguments_.push_back(ErrorRecordArgument());
    }
    text_ = IncludesOf(parts);
    threads_ = parts[0]->threads;
  }

  KernelLaunch Write() {
    absl::StrAppend(&text_, WordsText(words_));
    for (size_t f = 0; f < families_.size(); ++f) WriteFunction(f);
    absl::StrAppend(&text_, HeadOf(threads_, resident_, "expr_group", parameters_));
    TextWriter body(1);
    body.Line("const uint32 block = blockIdx.x;");
    WriteDispatch(0, families_.size(), body);
    absl::StrAppend(&text_, body.Take(), "}\n");
    KernelLaunch launch;
    launch.source = {std::move(text_), "expr_group"};
    launch.grid[0] = static_cast<unsigned>(blocks_);
    launch.block[0] = static_cast<unsigned>(threads_);
    launch.arguments = std::move(arguments_);
    if (words_ > 0) launch.shared_variable = kWords;
    return launch;
  }

 private:
  void AddParameter(const KernelParameter& parameter) {
    parameters_.push_back(absl::StrCat(parameter.type, " p", arguments_.size()));
    arguments_.push_back(parameter.argument);
  }

  void WriteFunction(size_t f) {
    const Family& family = families_[f];
    const KernelPart& part = *family.members[0];
    std::vector<std::string> parameters = {"uint32 block"};
    if (part.elements != 0) parameters.push_back(absl::StrCat(IndexType(part), " elements"));
    if (part.words != 0) parameters.emplace_back("uint64* words");
    for (const KernelParameter& parameter : part.parameters) {
      parameters.push_back(absl::StrCat(parameter.type, " ", parameter.name));
    }
    absl::StrAppend(&text_, "// ", part.entry, "\n__device__ __forceinline__ void Part", f, "(",
                    absl::StrJoin(parameters, ", "), ") {\n  using Index = ", IndexType(part), ";\n", part.body,
                    "}\n\n");
  }

  // Writes the choice of one of the families [first, end).
  void WriteDispatch(size_t first, size_t end, TextWriter& body) {
    if (end - first == 1) return WriteCall(first, body);
    const size_t middle = (first + end) / 2;
    body.Open("if (block < ", families_[middle - 1].end_block.back(), "u)");
    WriteDispatch(first, middle, body);
    body.Close();
    body.Open("else");
    WriteDispatch(middle, end, body);
    body.Close();
  }

  void WriteCall(size_t f, TextWriter& body) {
    const Family& family = families_[f];
    const KernelPart& part = *family.members[0];
    if (part.guarded) body.Line("COTAN_RETURN_ON_ERROR(record);");
    body.Line("uint32 first;");
    std::vector<std::string> arguments = {"block - first"};
    if (part.elements != 0) {
      body.Line(IndexType(part), " elements;");
      arguments.emplace_back("elements");
    }
    if (part.words != 0) {
      body.Line("uint64* own_words;");
      arguments.emplace_back("own_words");
    }
    for (const KernelParameter& parameter : part.parameters) {
      body.Line(parameter.type, " ", parameter.name, ";");
      arguments.push_back(parameter.name);
    }
    WriteMembers(family, 0, family.members.size(), body);
    body.Line("Part", f, "(", absl::StrJoin(arguments, ", "), ");");
  }

  // Writes the choice of one of the members [first, end).
  void WriteMembers(const Family& family, size_t first, size_t end, TextWriter& body) {
    if (end - first > 1) {
      const size_t middle = (first + end) / 2;
      body.Open("if (block < ", family.end_block[middle - 1], "u)");
      WriteMembers(family, first, middle, body);
      body.Close();
      body.Open("else");
      WriteMembers(family, middle, end, body);
      body.Close();
      return;
    }
    const KernelPart& part = *family.members[first];
    body.Line("first = ", family.end_block[first] - part.blocks, "u;");
    if (part.elements != 0) body.Line("elements = ", IndexLiteral(part, part.elements), ";");
    if (part.words != 0) body.Line("own_words = words + ", family.first_word[first], "u;");
    for (size_t i = 0; i < part.parameters.size(); ++i) {
      body.Line(part.parameters[i].name, " = p", family.first_parameter[first] + i, ";");
    }
  }

  std::vector<Family> families_;
  std::vector<std::string> parameters_;
  std::vector<KernelArgument> arguments_;
  bool guarded_ = false;
  int64_t blocks_ = 0;
  int64_t words_ = 0;
  int threads_ = 0;
  int resident_ = 0;
  std::string text_;
};

}  // namespace

absl::StatusOr<KernelLaunch> LaunchOf(const KernelPart& part) {
  if (part.blocks > std::numeric_limits<int32_t>::max()) {
    return absl::UnimplementedError(
        absl::StrCat("an expression of ", part.blocks, " blocks: CUDA allows ", std::numeric_limits<int32_t>::max()));
  }
  KernelLaunch launch;
  std::vector<std::string> parameters;
  for (const KernelParameter& parameter : part.parameters) {
    parameters.push_back(absl::StrCat(parameter.type, " ", parameter.name));
    launch.arguments.push_back(parameter.argument);
  }
  if (part.guarded) {
    parameters.emplace_back(kRecordParameter);
    launch.arguments.push_back(ErrorRecordArgument());
  }
  TextWriter start(1);
  if (part.guarded) start.Line("COTAN_RETURN_ON_ERROR(record);");
  start.Line("using Index = ", IndexType(part), ";");
  start.Line("const uint32 block = blockIdx.x;");
  if (part.elements != 0) start.Line("constexpr Index elements = ", IndexLiteral(part, part.elements), ";");
  const KernelPart* const parts[] = {&part};
  launch.source.text =
      absl::StrCat(IncludesOf(parts), WordsText(part.words),
                   HeadOf(part.threads, part.resident, part.entry, parameters), start.Take(), part.body, "}\n");
  launch.source.entry = part.entry;
  launch.grid[0] = static_cast<unsigned>(part.blocks);
  launch.block[0] = static_cast<unsigned>(part.threads);
  if (part.words > 0) launch.shared_variable = kWords;
  return launch;
}

KernelLaunch LaunchOfAll(absl::Span<const KernelPart* const> parts) { return GroupWriter(parts).Write(); }

}  // namespace cotan::cuda::expr
