// SPDX-License-Identifier: Apache-2.0

// CompiledAutograd: a scope in which backwards are captured (torch/_dynamo/compiled_autograd.py).
//
//   {
//     CompiledAutograd scope;
//     COTAN_RETURN_IF_ERROR(autograd::Backward({loss}, {}, ops));
//   }
//
// The first backward of a graph links the backwards of all programs, the views and the accumulations into one method
// and plans it; later backwards of an equal graph run the plan. Results are those of the engine, bit for bit; hooks and
// user nodes are called in its order. docs/compiled_autograd.md describes keys, sizes, segments and refusals.
#ifndef COTAN_RUNTIME_COMPILED_AUTOGRAD_COMPILED_AUTOGRAD_H_
#define COTAN_RUNTIME_COMPILED_AUTOGRAD_COMPILED_AUTOGRAD_H_

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "runtime/autograd/backward_run.h"
#include "runtime/compiled_autograd/capture_cache.h"
#include "runtime/compiled_autograd/capture_run.h"

namespace cotan {

struct CompiledAutogradOptions {
  // Make symbols of sizes that change; false: capture again for each set of sizes.
  bool dynamic = true;
  // Record the steps of each backward (CompiledAutograd::Trace()).
  bool trace = false;
  // Refuse NaN: FailedPrecondition if a gradient that the backward increases is already NaN, or if the backward gives
  // NaN gradients. Reads all gradients. Backwards that the walk runs are not checked.
  bool check_nan = false;
  // Number of plans that each captured program keeps; at least 1.
  int max_plans = 8;
  // Methods that were linked ahead of time. A graph that one of them fits is not captured.
  std::shared_ptr<const LinkedMethods> linked = nullptr;
  // false: walk what no linked method fits; Messages() says so.
  bool capture = true;
  // Called inside of the backward for each segment that is captured, before it first runs, and for each one that is
  // walked, with the reason: "captured 3 nodes from NAME on: new node NAME (node call 0)". It must not use the
  // variables of the backward.
  CaptureLog log = nullptr;
};

// Applies to the backwards of the thread that created it, from its construction to Close() or the destructor. Scopes
// nest; the innermost one decides. What was captured stays with the thread when scopes end, until Reset().
class CompiledAutograd {
 public:
  // A scope in which backwards are walked.
  struct DisabledTag {};
  static constexpr DisabledTag kDisabled = {};

  explicit CompiledAutograd(CompiledAutogradOptions options = {});
  explicit CompiledAutograd(DisabledTag);
  // Closes the scope. Scopes inside of it that are still open lose their effect. A scope that is destroyed by another
  // thread stays open on its own.
  ~CompiledAutograd();
  CompiledAutograd(const CompiledAutograd&) = delete;
  CompiledAutograd& operator=(const CompiledAutograd&) = delete;

  // Ends the scope before its destructor. FailedPrecondition: a scope inside of it is open ("nested contexts must
  // return before their parent"); the scope belongs to another thread; a backward is running.
  absl::Status Close();

  // Returns whether backwards of this thread are captured.
  static bool IsEnabled();
  // Returns whether a captured backward is running on this thread.
  static bool IsRunning();
  // Drops everything that this thread has captured, its counters and messages, and switches all open scopes off. Call
  // it before a device is closed on which backwards were captured: plans and their memory belong to the device.
  // FailedPrecondition: a backward is running.
  static absl::Status Reset();

  static const CaptureStats& Stats();
  // Return why each capture was made, why segments were walked, and the steps of the last backward.
  static const std::vector<std::string>& Reasons();
  static const std::vector<std::string>& Messages();
  static const std::vector<std::string>& Trace();
  // Returns the linked methods of the last backward that was captured, as text.
  static const std::string& Text();
  // Returns the nodes of that backward in the order in which they were linked, a line each: "2 AccumulateGrad ->", with
  // the numbers of the nodes that its results go to.
  static const std::string& Steps();

  // Writes everything that this thread has captured to an artifact, for LinkedMethods and for //aot:link.
  // FailedPrecondition: nothing was captured. Errors of ArtifactWriter::Finish().
  static absl::Status SaveCaptures(const std::string& path);

 private:
  class Executor;
  struct Scope;

  static std::shared_ptr<Scope>& Innermost();  // of this thread; null: none
  // Closes scopes until `end` is the innermost one.
  static void CloseUpTo(const std::shared_ptr<Scope>& end);
  void Open(std::unique_ptr<Executor> executor);

  const std::thread::id thread_;
  std::shared_ptr<Scope> scope_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_COMPILED_AUTOGRAD_COMPILED_AUTOGRAD_H_
