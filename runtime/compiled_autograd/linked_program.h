// SPDX-License-Identifier: Apache-2.0

// LinkedProgram: a segment of a backward as a program of one method.
#ifndef COTAN_RUNTIME_COMPILED_AUTOGRAD_LINKED_PROGRAM_H_
#define COTAN_RUNTIME_COMPILED_AUTOGRAD_LINKED_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/sym_int.h"
#include "runtime/compiled_autograd/segment.h"
#include "runtime/execution/executable.h"
#include "runtime/execution/program.h"
#include "runtime/tensor/tensor.h"

namespace cotan {

// The numbers of a segment's record as constants and symbols.
struct SizePattern {
  std::vector<SymInt> sizes;     // by number of the record
  std::vector<int64_t> symbols;  // their values when the pattern was made

  // Returns a pattern in which a number is a symbol if it differs in `seen`, which are records of one key; numbers that
  // are equal in each record share a symbol. The symbols have the values of the last record.
  static SizePattern Of(absl::Span<const std::vector<int64_t>> seen);
  // Returns a pattern in which each number above 1 is a symbol of its own.
  static SizePattern OfSymbols(absl::Span<const int64_t> numbers);
  // Replaces a symbol by the constant or symbol that a guard says it is equal to. Returns whether it replaced any.
  // InvalidArgument: malformed guards.
  absl::StatusOr<bool> Unify(const serialization::LinkedBackward& linked);
  // Reads the pattern of a linked method; symbols have no values. InvalidArgument: a size is neither a constant nor a
  // symbol.
  static absl::StatusOr<SizePattern> Parse(const serialization::LinkedBackward& linked);
  // Returns whether the numbers are an instance, and sets the values of the symbols.
  bool Match(absl::Span<const int64_t> numbers, std::vector<int64_t>& values) const;
};

// Memory of the intermediate values of all linked programs of a thread.
class LinkedArena {
 public:
  // Binds the executable to the arena, which grows. ResourceExhausted: the device has not enough memory.
  absl::Status Begin(Device& device, Executable& executable);

 private:
  std::shared_ptr<Storage> memory_;
  uint64_t generation_ = 1;
};

// The message of LinkedProgram::MakePlan() if the numbers do not fit the pattern.
inline constexpr absl::string_view kOtherSizes = "other sizes";

// A method that links the nodes of a segment (Method.linked), with its plans. Not thread-safe.
class LinkedProgram {
 public:
  // Emits the nodes of the segment, whose portable key is `key`. Unimplemented, InvalidArgument: an op or a combination
  // of types that is not linked.
  static absl::StatusOr<std::unique_ptr<LinkedProgram>> Link(const Segment& segment, absl::Span<const uint64_t> key,
                                                             const SizePattern& pattern, absl::string_view name);
  // As Link(), with each size as a symbol that no decision of the link fixes: the method is linked until its guards fix
  // no more symbols.
  static absl::StatusOr<std::unique_ptr<LinkedProgram>> LinkDynamic(const Segment& segment,
                                                                    absl::Span<const uint64_t> key,
                                                                    absl::string_view name);
  // Uses a method of a program. InvalidArgument: it is not a linked method.
  static absl::StatusOr<std::unique_ptr<LinkedProgram>> Load(std::shared_ptr<const Program> program, int method);

  // A plan for one set of numbers.
  struct Plan {
    std::vector<int64_t> numbers;
    std::unique_ptr<Executable> executable;
    std::vector<Tensor> indices;  // by index input
  };

  // Returns the plan that was made for these numbers; null if there is none.
  Plan* FindPlan(absl::Span<const int64_t> numbers);
  // Makes a plan. InvalidArgument: the numbers do not fit the pattern or a guard; the method has other inputs or
  // outputs than the segment. Other errors: as Executable::Make().
  absl::StatusOr<Plan*> MakePlan(const Segment& segment, const ExecutionTarget& target, int max_plans);

  // Runs the plan for the tensors of the segment. `outputs`: those of the record, then Segment::outputs. Errors: as
  // Executable::Run().
  absl::Status Run(Plan& plan, LinkedArena& arena, const Segment& segment, Device& device,
                   std::vector<Tensor>& outputs) const;

  const serialization::Method& method() const { return program_->method(method_); }
  // Returns the text of the method.
  std::string ToString() const;

 private:
  LinkedProgram(std::shared_ptr<const Program> program, int method) : program_(std::move(program)), method_(method) {}
  const serialization::LinkedBackward& linked() const { return method().linked(); }
  absl::Status CheckTypes(const Segment& segment, const Executable& executable) const;

  const std::shared_ptr<const Program> program_;
  const int method_;
  SizePattern pattern_;
  std::vector<int> method_inputs_;  // by input of the record; -1: unused
  std::vector<int> index_inputs_;   // of the method
  std::vector<std::unique_ptr<Plan>> plans_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_COMPILED_AUTOGRAD_LINKED_PROGRAM_H_
