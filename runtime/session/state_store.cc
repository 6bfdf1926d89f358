// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/state_store.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/tasks.h"
#include "runtime/tensor/scalar.h"
#include "serialization/schema/tensor_type.h"

namespace cotan {
namespace {

using serialization::State;

// A smaller initial value stays in memory: to read its pages again would take longer than to copy it.
constexpr size_t kReleasedBytes = 1 << 20;

// Returns true if the state is a constant that may stay in the program's memory: on the host, if it is
// aligned.
bool MayStayInPlace(const State& state, absl::string_view bytes, const Device& device) {
  return state.role() == State::CONSTANT && state.has_segment() && device.type() == DeviceType::kCpu &&
         reinterpret_cast<uintptr_t>(bytes.data()) % 64 == 0;
}

// The most bytes of an initial value that one thread copies at a time.
constexpr size_t kPieceBytes = 4 << 20;

// Fills the bytes [begin, end) of `storage` with copies of `element`, through a buffer that stays in cache.
absl::Status Fill(const Storage& storage, size_t begin, size_t end, absl::string_view element) {
  constexpr size_t kBufferBytes = 64 << 10;  // a multiple of every element's size
  std::string buffer;
  buffer.reserve(kBufferBytes);
  while (buffer.size() < std::min(kBufferBytes, end - begin)) buffer.append(element.data(), element.size());
  auto* const to = static_cast<char*>(storage.data());
  for (size_t at = begin; at < end; at += buffer.size()) {
    const size_t size = std::min(buffer.size(), end - at);
    COTAN_RETURN_IF_ERROR(storage.device().CopyFromHost(to + at, buffer.data(), size));
  }
  return absl::OkStatus();
}

}  // namespace

// The memory of small states of the host: one block, freed with the last of them, whose pages are allocated at once.
class StateStore::SmallStates {
 public:
  // Allocates the block. ResourceExhausted: the host has not enough memory.
  static absl::StatusOr<SmallStates> Allocate(const Program& program, const FrozenStates& frozen, Device& device) {
    SmallStates small;
    if (device.type() != DeviceType::kCpu) return small;
    size_t bytes = 0;
    for (int i = 0; i < program.artifact().states_size(); ++i) {
      if (frozen.contains(i)) continue;
      const State& state = program.state(i);
      COTAN_ASSIGN_OR_RETURN(const StridedLayout layout, DenseLayout(state.type(), {}));
      const size_t size = Bytes(state, layout);
      if (size <= kMaxBytes && state.role() != State::CONSTANT) bytes += RoundedUp(size);
    }
    if (bytes < kMinBlockBytes) return small;
    COTAN_ASSIGN_OR_RETURN(small.block_, Storage::Allocate(device, bytes));
    PopulatePages(small.block_->data(), bytes);
    return small;
  }

  // Returns memory for a state in the block, or null if it is to have its own.
  std::shared_ptr<Storage> Take(const State& state, const StridedLayout& layout) {
    const size_t size = Bytes(state, layout);
    if (block_ == nullptr || size > kMaxBytes || state.role() == State::CONSTANT) return nullptr;
    auto part = Storage::Borrow(block_->device(), static_cast<char*>(block_->data()) + used_, size);
    used_ += RoundedUp(size);
    Storage* const storage = part.get();
    return std::shared_ptr<Storage>(storage, [block = block_, part = std::move(part)](Storage*) {});
  }

 private:
  static constexpr size_t kMaxBytes = 1 << 20;
  static constexpr size_t kMinBlockBytes = 2 << 20;  // PopulatePages() does nothing for less

  static size_t Bytes(const State& state, const StridedLayout& layout) {
    return static_cast<size_t>(StorageExtent(layout)) * ByteSize(ToDType(state.type().dtype()));
  }
  static size_t RoundedUp(size_t bytes) { return (bytes + 63) / 64 * 64; }

  std::shared_ptr<Storage> block_;
  size_t used_ = 0;
};

absl::StatusOr<StateStore> StateStore::Create(std::shared_ptr<const Program> program, Device& device, int rank) {
  COTAN_ASSIGN_OR_RETURN(FrozenStates frozen, FrozenStates::Map(*program, device));
  COTAN_ASSIGN_OR_RETURN(SmallStates small, SmallStates::Allocate(*program, frozen, device));
  StateStore store(std::move(program), rank);
  store.frozen_ = std::move(frozen);
  std::vector<int> uninitialized;
  for (int i = 0; i < store.program_->artifact().states_size(); ++i) {
    COTAN_ASSIGN_OR_RETURN(const bool is_initialized, store.Add(i, small, device));
    if (!is_initialized) uninitialized.push_back(i);
  }
  COTAN_RETURN_IF_ERROR(store.InitializeAll(uninitialized, device));
  return store;
}

std::shared_ptr<Storage> StateStore::InitialMemory(int state, Device& device) const {
  const State& proto = program_->state(state);
  if (!proto.has_segment()) return nullptr;
  if (frozen_.contains(state)) return frozen_.StorageOf(state, *program_, device);
  const absl::string_view bytes = program_->segment(proto.segment());
  if (!MayStayInPlace(proto, bytes, device)) return nullptr;
  // Kernels only read it: VerifyArtifact() allows no updates of constants.
  return Storage::Borrow(device, const_cast<char*>(bytes.data()), bytes.size());
}

absl::StatusOr<bool> StateStore::Add(int state, SmallStates& small, Device& device) {
  const State& proto = program_->state(state);
  COTAN_ASSIGN_OR_RETURN(StridedLayout layout, DenseLayout(proto.type(), {}));
  const DType dtype = ToDType(proto.type().dtype());
  std::shared_ptr<Storage> storage = InitialMemory(state, device);
  const bool is_initialized = storage != nullptr;
  if (!is_initialized) storage = small.Take(proto, layout);
  Tensor tensor;
  if (storage == nullptr) {
    COTAN_ASSIGN_OR_RETURN(tensor, Tensor::EmptyStrided(dtype, std::move(layout), device));
  } else {
    COTAN_ASSIGN_OR_RETURN(tensor, Tensor::InStorage(std::move(storage), dtype, std::move(layout)));
  }
  const bool is_constant_in_place = is_initialized && proto.role() == State::CONSTANT;
  if (!is_constant_in_place) bytes_ += static_cast<int64_t>(tensor.storage()->bytes());
  addresses_.push_back(tensor.address());
  tensors_.push_back(std::move(tensor));
  versions_.push_back(0);
  return is_initialized;
}

absl::Status StateStore::InitializeAll(absl::Span<const int> states, const Device& device) {
  constexpr size_t kBytesPerThread = 1 << 20, kMaxThreads = 8;  // more do not copy faster
  struct Piece {
    int state;
    size_t begin, end;
  };
  std::vector<Piece> pieces;
  std::vector<std::atomic<size_t>> pieces_left(tensors_.size());
  size_t total = 0;
  for (const int state : states) {
    const size_t bytes = tensor(state).storage()->bytes();
    total += bytes;
    for (size_t begin = 0; begin < bytes; begin += kPieceBytes) {
      pieces.push_back({state, begin, std::min(bytes, begin + kPieceBytes)});
      pieces_left[static_cast<size_t>(state)].fetch_add(1, std::memory_order_relaxed);
    }
  }
  const size_t wanted = std::clamp<size_t>(total / kBytesPerThread, 1, kMaxThreads);
  const int threads = device.type() == DeviceType::kCpu ? std::min(static_cast<int>(wanted), UsableProcessors()) : 1;
  std::vector<absl::Status> statuses(pieces.size());
  RunTasks(threads, pieces.size(), [&](size_t i) {
    const Piece& piece = pieces[i];
    statuses[i] = Initialize(piece.state, piece.begin, piece.end);
    // Otherwise large states would be in memory twice.
    if (pieces_left[static_cast<size_t>(piece.state)].fetch_sub(1) == 1) Release(piece.state);
  });
  for (absl::Status& status : statuses) COTAN_RETURN_IF_ERROR(std::move(status));
  for (const int state : states) {
    BumpVersion(state);
    COTAN_RETURN_IF_ERROR(SetRank(state));
  }
  return absl::OkStatus();
}

absl::Status StateStore::Initialize(int state, size_t begin, size_t end) const {
  const State& proto = program_->state(state);
  const Storage& storage = *tensor(state).storage();
  if (proto.has_segment()) {
    const absl::string_view bytes = program_->segment(proto.segment());
    return Copy(state, begin, bytes.data() + begin, end - begin);
  }
  COTAN_ASSIGN_OR_RETURN(const std::string element, EncodeScalar(proto.fill(), tensor(state).dtype()));
  return Fill(storage, begin, end, element);
}

absl::Status StateStore::Copy(int state, size_t begin, const void* from, size_t bytes) const {
  const Storage& storage = *tensor(state).storage();
  char* const to = static_cast<char*>(storage.data()) + begin;
  if (!frozen_.contains(state)) return storage.device().CopyFromHost(to, from, bytes);
  constexpr size_t kPageBytes = 4 << 10;  // the usual page, which a write makes private as a whole
  for (size_t at = 0, size = 0; at < bytes; at += size) {
    const char* const block = static_cast<const char*>(from) + at;
    size = std::min(kPageBytes - reinterpret_cast<uintptr_t>(to + at) % kPageBytes, bytes - at);
    if (std::memcmp(to + at, block, size) != 0) std::memcpy(to + at, block, size);  // in memory of the host
  }
  return absl::OkStatus();
}

void StateStore::Release(int state) const {
  const State& proto = program_->state(state);
  if (proto.has_segment() && program_->segment(proto.segment()).size() >= kReleasedBytes) {
    program_->ReleaseSegment(proto.segment());
  }
}

absl::Status StateStore::Reset(int state) {
  BumpVersion(state);
  const size_t bytes = tensor(state).storage()->bytes();
  if (bytes == 0) return absl::OkStatus();
  COTAN_RETURN_IF_ERROR(Initialize(state, 0, bytes));
  Release(state);
  return SetRank(state);
}

absl::Status StateStore::SetRank(int state) {
  if (rank_ < 0 || program_->state(state).role() != State::RNG) return absl::OkStatus();
  const Storage& storage = *tensor(state).storage();
  std::array<int64_t, 2> numbers;  // VerifyArtifact(): i64[2]
  COTAN_RETURN_IF_ERROR(storage.device().CopyToHost(numbers.data(), storage.data(), sizeof(numbers)));
  constexpr int64_t kBlocks = int64_t{1} << 46;
  numbers[1] = (numbers[1] & (kBlocks - 1)) + rank_ * kBlocks;
  return storage.device().CopyFromHost(storage.data(), numbers.data(), sizeof(numbers));
}

absl::StatusOr<Tensor> StateStore::Read(int state) const {
  const Tensor& source = tensor(state);
  COTAN_ASSIGN_OR_RETURN(Tensor host, Tensor::EmptyStrided(source.dtype(), source.layout()));
  if (host.storage()->bytes() != 0) {
    COTAN_RETURN_IF_ERROR(source.device().CopyToHost(host.address(), source.address(), host.storage()->bytes()));
  }
  return host.Contiguous();
}

absl::Status StateStore::CheckWritable(int state, const Tensor& value) const {
  const State& proto = program_->state(state);
  const Tensor& target = tensor(state);
  if (proto.role() == State::CONSTANT) {
    return absl::InvalidArgumentError(absl::StrCat("state '", proto.name(), "' is a constant of the program"));
  }
  if (value.defined() && value.dtype() == target.dtype() && value.sizes() == target.sizes()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("state '", proto.name(), "' is ", target.ToString(), ", got ", value.ToString()));
}

absl::StatusOr<Tensor> StateStore::Arranged(int state, const Tensor& value) const {
  const Tensor& target = tensor(state);
  COTAN_ASSIGN_OR_RETURN(Tensor host, value.ToHost());
  if (target.is_contiguous()) return host;
  COTAN_ASSIGN_OR_RETURN(Tensor arranged, Tensor::EmptyStrided(target.dtype(), target.layout()));
  CopyStrided(host.address(), host.layout(), arranged.address(), arranged.layout(), ByteSize(target.dtype()));
  return arranged;
}

absl::Status StateStore::WriteAll(absl::Span<const StateValue> values) {
  std::vector<Tensor> arranged;
  for (const auto& [state, value] : values) {
    COTAN_RETURN_IF_ERROR(CheckWritable(state, value));
    COTAN_ASSIGN_OR_RETURN(Tensor host, Arranged(state, value));
    arranged.push_back(std::move(host));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    BumpVersion(values[i].state);
    const auto bytes = static_cast<size_t>(arranged[i].num_elements()) * ByteSize(arranged[i].dtype());
    if (bytes == 0) continue;
    COTAN_RETURN_IF_ERROR(Copy(values[i].state, 0, arranged[i].address(), bytes));
    COTAN_RETURN_IF_ERROR(SetRank(values[i].state));
  }
  return absl::OkStatus();
}

}  // namespace cotan
