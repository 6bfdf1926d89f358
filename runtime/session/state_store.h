// The tensors that a session owns: parameters, buffers, optimizer slots,
// hyperparameters, the random generator.
#ifndef COTAN_RUNTIME_SESSION_STATE_STORE_H_
#define COTAN_RUNTIME_SESSION_STATE_STORE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/api/device.h"
#include "runtime/execution/program.h"
#include "runtime/tensor/tensor.h"

namespace cotan {

// A new content for a state.
struct StateValue {
  int state = 0;  // index
  Tensor value;
};

// States are numbered as in the artifact; every index is in range. Their memory
// is on one device and never moves. Movable; not thread-safe.
class StateStore {
 public:
  // States with their initial content. Constants on the host are not copied:
  // they stay in the program's memory.
  // ResourceExhausted: from the device. OutOfRange: a fill value that the
  // state's dtype cannot hold.
  static absl::StatusOr<StateStore> Create(std::shared_ptr<const Program> program, Device& device);

  const Program& program() const { return *program_; }
  // Addresses on the device, one per state.
  absl::Span<void* const> addresses() const { return addresses_; }
  // Total bytes of all states but constants.
  int64_t bytes() const { return bytes_; }

  // The state itself. Writing to it is to be told to BumpVersion().
  const Tensor& tensor(int state) const { return tensors_[static_cast<size_t>(state)]; }

  // A row-major copy on the host. ResourceExhausted, or errors of the device.
  absl::StatusOr<Tensor> Read(int state) const;
  // Whether Write() of a tensor like this would be accepted.
  // InvalidArgument: undefined, another dtype or other sizes, or the state is a
  // constant; the message names the state, what was found, what is expected.
  absl::Status CheckWritable(int state, const Tensor& value) const;
  // Copies `value` (any layout, any device) into the state. Errors as
  // CheckWritable() and Tensor::ToHost(); the state is unchanged then.
  absl::Status Write(int state, const Tensor& value) { return WriteAll({{state, value}}); }
  // All of them or, unless the device itself fails, none.
  absl::Status WriteAll(absl::Span<const StateValue> values);
  // The initial content again. Errors of the device.
  absl::Status Reset(int state);

  // Counts changes of a state, so that a backward can tell that what it was
  // going to read is gone.
  uint64_t version(int state) const { return versions_[static_cast<size_t>(state)]; }
  void BumpVersion(int state) { ++versions_[static_cast<size_t>(state)]; }

 private:
  explicit StateStore(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
  absl::Status Add(int state, Device& device);
  // `value` on the host, laid out as the state.
  absl::StatusOr<Tensor> Arranged(int state, const Tensor& value) const;

  std::shared_ptr<const Program> program_;
  std::vector<Tensor> tensors_;
  std::vector<void*> addresses_;
  std::vector<uint64_t> versions_;
  int64_t bytes_ = 0;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_SESSION_STATE_STORE_H_
