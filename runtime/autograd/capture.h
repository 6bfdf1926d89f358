// SPDX-License-Identifier: Apache-2.0

// CaptureRecord, CaptureEmitter: how a node takes part in a captured backward (runtime/compiled_autograd).
//
// In each backward a node first describes itself: what its part of a captured program depends on (key words), its sizes
// and its tensors. If no program was captured for this description, the node then emits its ops. Both calls number
// the node's sizes, inputs and outputs in the same order, from 0 (SwapSavedVariables in
// torch/csrc/dynamo/compiled_autograd.h).
#ifndef COTAN_RUNTIME_AUTOGRAD_CAPTURE_H_
#define COTAN_RUNTIME_AUTOGRAD_CAPTURE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "base/sym_int.h"
#include "linking/fingerprint.h"
#include "linking/link_builder.h"
#include "runtime/autograd/node.h"
#include "runtime/tensor/tensor.h"

namespace cotan::autograd {

enum class InputUse : uint8_t {
  kRead,
  kDonated,  // may be overwritten: the memory is not used elsewhere
  kWritten,  // gets new elements (CaptureEmitter::Update())
};

// The description of a part of a backward. Its vectors keep their memory.
class CaptureRecord {
 public:
  struct Input {
    Tensor tensor;
    InputUse use = InputUse::kRead;
  };
  // A tensor that the program fills and the node gets (Node::CompleteCapture()).
  struct Output {
    DType dtype = DType::kUndefined;
    StridedLayout layout;
  };

  // Appends a word that the captured program depends on. Keys are kept in files: a word is the same in each process.
  void Key(uint64_t word) { key_.push_back(word); }
  void KeyText(absl::string_view text) { Key(Fingerprint(text)); }
  // Appends numbers that may change from backward to backward. Rank, zeros and ones are part of the key.
  void Sizes(absl::Span<const int64_t> values);
  void Size(int64_t value) { Sizes({&value, 1}); }
  // Appends the values of a program's dynamic dimensions, and makes all sizes of the record symbols where they can be.
  void DynamicSizes(absl::Span<const int64_t> values) {
    Sizes(values);
    has_dynamic_sizes_ = has_dynamic_sizes_ || !values.empty();
  }
  void AddInput(Tensor tensor, InputUse use = InputUse::kRead) { inputs_.push_back({std::move(tensor), use}); }
  void AddOutput(DType dtype, StridedLayout layout) { outputs_.push_back({dtype, std::move(layout)}); }

  const std::vector<uint64_t>& key() const { return key_; }
  const std::vector<int64_t>& sizes() const { return sizes_; }
  bool has_dynamic_sizes() const { return has_dynamic_sizes_; }
  std::vector<Input>& inputs() { return inputs_; }
  const std::vector<Input>& inputs() const { return inputs_; }
  const std::vector<Output>& outputs() const { return outputs_; }
  void Clear();

 private:
  std::vector<uint64_t> key_;
  std::vector<int64_t> sizes_;
  bool has_dynamic_sizes_ = false;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
};

// Gives a node what it needs to emit its ops. Indices are those of the node's own calls of CaptureRecord.
class CaptureEmitter {
 public:
  virtual ~CaptureEmitter() = default;

  virtual LinkBuilder& link() = 0;
  virtual const SymInt& Size(int index) const = 0;
  // Declares an input; called at most once for each.
  virtual LinkBuilder::Value Input(int index, serialization::TensorType type, absl::string_view name) = 0;
  // Makes `value` the new content of a kWritten input that has been declared.
  virtual void Update(int index, LinkBuilder::Value value) = 0;
  // Makes `value` the content of an output.
  virtual void Output(int index, LinkBuilder::Value value) = 0;

  // Returns sizes [first, first + count).
  SymIntVector Sizes(int first, int count) const {
    SymIntVector sizes;
    for (int i = first; i < first + count; ++i) sizes.push_back(Size(i));
    return sizes;
  }
};

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_CAPTURE_H_
