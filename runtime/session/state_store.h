// SPDX-License-Identifier: Apache-2.0

// The states of a session: parameters, buffers, optimizer slots, hyperparameters and the RNG state.
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
#include "runtime/session/frozen_states.h"
#include "runtime/tensor/tensor.h"

namespace cotan {

// A new value of a state.
struct StateValue {
  int state = 0;  // index
  Tensor value;
};

// Owns the states of a program, by their index in the artifact; every index passed is in range. The memory of
// states is on one device and never moves. Movable; not thread-safe.
class StateStore {
 public:
  // Creates the states with their initial values. With a rank, whenever the state of the random generator is set, the
  // rank is set in it (RngState in session.h): a checkpoint of one rank may be read by all. On the host, aligned
  // constants are not copied: they stay in the program's memory. On HostDevice(), frozen states (frozen_states.h) share
  // the pages of the program's file with other stores until they are written. ResourceExhausted: the device has not
  // enough memory. OutOfRange: a state's dtype cannot hold its fill value. Unavailable: the file cannot be read.
  static absl::StatusOr<StateStore> Create(std::shared_ptr<const Program> program, Device& device, int rank = -1);

  const Program& program() const { return *program_; }
  // Returns the addresses on the device, one per state.
  absl::Span<void* const> addresses() const { return addresses_; }
  // Returns the total bytes of all states except constants, frozen ones included.
  int64_t bytes() const { return bytes_; }

  // Returns the state itself. Call BumpVersion() after writing to it.
  const Tensor& tensor(int state) const { return tensors_[static_cast<size_t>(state)]; }

  // Returns a row-major copy on the host.
  // ResourceExhausted: the host has not enough memory. Errors of the device.
  absl::StatusOr<Tensor> Read(int state) const;
  // Returns OK if Write() accepts a value of this dtype and these sizes.
  // InvalidArgument: the value is undefined, has another dtype or other sizes, or the state is a constant;
  // the message names the state, the type found and the type expected.
  absl::Status CheckWritable(int state, const Tensor& value) const;
  // Copies `value`, which may have any layout and device, into the state. Pages of a frozen state whose bytes are those
  // of the value stay shared. Errors as CheckWritable() and Tensor::ToHost(), which leave the state unchanged; errors
  // of the device.
  absl::Status Write(int state, const Tensor& value) { return WriteAll({{state, value}}); }
  // Writes all values. On error no state has changed, unless the device itself failed. Errors as Write().
  absl::Status WriteAll(absl::Span<const StateValue> values);
  // Sets the state to its initial value, as Write() does. Errors of the device.
  absl::Status Reset(int state);

  // Returns the number of writes of a state. A backward compares it with the version at its forward to detect
  // that a value it reads was overwritten.
  uint64_t version(int state) const { return versions_[static_cast<size_t>(state)]; }
  void BumpVersion(int state) { ++versions_[static_cast<size_t>(state)]; }

 private:
  StateStore(std::shared_ptr<const Program> program, int rank) : program_(std::move(program)), rank_(rank) {}
  class SmallStates;

  // Returns memory that has the initial value of a state: of the program, or of its file. Null: there is none.
  std::shared_ptr<Storage> InitialMemory(int state, Device& device) const;
  // Allocates a state. Returns whether it has its initial value, by InitialMemory().
  absl::StatusOr<bool> Add(int state, SmallStates& small, Device& device);
  // Sets states to their initial values. Several threads copy to the host's memory.
  absl::Status InitializeAll(absl::Span<const int> states, const Device& device);
  // Writes the bytes [begin, end) of the initial value; `begin` is a multiple of the element's size. Thread-safe.
  absl::Status Initialize(int state, size_t begin, size_t end) const;
  // Lets the system take back the memory of a large initial value.
  void Release(int state) const;
  // Copies bytes of the host to the place `begin` in the state. Thread-safe.
  absl::Status Copy(int state, size_t begin, const void* from, size_t bytes) const;
  // Sets the rank in the offset of the random generator. Does nothing for other states.
  absl::Status SetRank(int state);
  // Returns `value` on the host in the layout of the state.
  absl::StatusOr<Tensor> Arranged(int state, const Tensor& value) const;

  std::shared_ptr<const Program> program_;
  int rank_;  // -1: none
  FrozenStates frozen_;
  std::vector<Tensor> tensors_;
  std::vector<void*> addresses_;
  std::vector<uint64_t> versions_;
  int64_t bytes_ = 0;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_SESSION_STATE_STORE_H_
