// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/pickle.h"

#include <algorithm>
#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "aot/capture/tensor_data.h"
#include "aot/frontend/pt2/strided_storage.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "base/status_macros.h"

namespace cotan::aot::pt2::pickle {
namespace {

constexpr int kMaxDepth = 8;
constexpr size_t kMaxName = 1000;  // bytes of the name of a global or of the key of a storage

Text NewText(std::string text) { return {std::make_shared<const std::string>(std::move(text))}; }
Dict NewDict() { return {std::make_shared<Items>()}; }

DType StorageDType(absl::string_view global) {
  const std::pair<absl::string_view, DType> kTypes[] = {{"torch FloatStorage", DType::kFloat32},
                                                        {"torch DoubleStorage", DType::kFloat64},
                                                        {"torch HalfStorage", DType::kFloat16},
                                                        {"torch BFloat16Storage", DType::kBFloat16},
                                                        {"torch LongStorage", DType::kInt64},
                                                        {"torch IntStorage", DType::kInt32},
                                                        {"torch ShortStorage", DType::kInt16},
                                                        {"torch CharStorage", DType::kInt8},
                                                        {"torch ByteStorage", DType::kUInt8},
                                                        {"torch BoolStorage", DType::kBool},
                                                        {"torch ComplexFloatStorage", DType::kComplex64},
                                                        {"torch ComplexDoubleStorage", DType::kComplex128}};
  for (const auto& [name, dtype] : kTypes) {
    if (name == global) return dtype;
  }
  return DType::kUndefined;
}

// The pickle machine with the instructions that dicts of tensors use.
class Reader {
 public:
  Reader(const Archive& files, absl::string_view pickle) : files_(files), pickle_(pickle) {}

  absl::StatusOr<Value> Run();

 private:
  absl::Status Damaged(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("the pickle is damaged: ", what, " at byte ", position_));
  }
  absl::Status Step(uint8_t opcode);
  absl::Status PushNumber(uint8_t opcode);
  absl::Status PushText(size_t length_bytes);
  absl::Status UseMemo(uint8_t opcode);
  absl::Status PushConstant(uint8_t opcode);
  absl::Status PushTuple(Values items);
  absl::Status PushTupleOf(uint8_t opcode);
  absl::Status FillDict(uint8_t opcode);
  absl::Status PushGlobal(uint8_t opcode);
  absl::Status LoadStorage();
  absl::Status Call();
  absl::Status RebuildTensor(const Values& arguments);
  absl::Status RebuildParameter(const Values& arguments);
  absl::Status IgnoreAttributes();

  absl::StatusOr<absl::string_view> Take(size_t count);
  absl::StatusOr<uint64_t> TakeInteger(size_t bytes);
  absl::StatusOr<std::string> TakeLine();
  absl::StatusOr<Value> Pop();
  absl::StatusOr<Values> PopToMark();
  template <typename T>
  absl::StatusOr<T> PopAs(absl::string_view what);
  void Push(Value value) { stack_.push_back(std::move(value)); }

  const Archive& files_;
  absl::string_view pickle_;
  size_t position_ = 0;
  Values stack_;
  Values memo_;
  absl::flat_hash_map<std::string, at::Tensor> storages_;
};

absl::StatusOr<absl::string_view> Reader::Take(size_t count) {
  if (count > pickle_.size() - position_) return Damaged("it ends too early");
  const absl::string_view taken = pickle_.substr(position_, count);
  position_ += count;
  return taken;
}

absl::StatusOr<uint64_t> Reader::TakeInteger(size_t bytes) {
  COTAN_ASSIGN_OR_RETURN(const absl::string_view taken, Take(bytes));
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(static_cast<uint8_t>(taken[i])) << (8 * i);
  return value;
}

absl::StatusOr<std::string> Reader::TakeLine() {
  const size_t end = pickle_.find('\n', position_);
  if (end == absl::string_view::npos) return Damaged("a line without end");
  const std::string line(pickle_.substr(position_, end - position_));
  position_ = end + 1;
  return line;
}

absl::StatusOr<Value> Reader::Pop() {
  if (stack_.empty()) return Damaged("an empty stack");
  Value value = std::move(stack_.back());
  stack_.pop_back();
  return value;
}

absl::StatusOr<Values> Reader::PopToMark() {
  size_t mark = stack_.size();
  while (mark > 0 && !std::holds_alternative<Mark>(stack_[mark - 1].v)) --mark;
  if (mark == 0) return Damaged("no mark");
  Values items(std::make_move_iterator(stack_.begin() + static_cast<std::ptrdiff_t>(mark)),
               std::make_move_iterator(stack_.end()));
  stack_.resize(mark - 1);
  return items;
}

template <typename T>
absl::StatusOr<T> Reader::PopAs(absl::string_view what) {
  COTAN_ASSIGN_OR_RETURN(Value value, Pop());
  if (T* typed = std::get_if<T>(&value.v)) return std::move(*typed);
  return Damaged(absl::StrCat("not ", what));
}

absl::Status Reader::PushNumber(uint8_t opcode) {
  switch (opcode) {
    case 'K': {
      COTAN_ASSIGN_OR_RETURN(const uint64_t value, TakeInteger(1));
      Push({static_cast<int64_t>(value)});
      return absl::OkStatus();
    }
    case 'M': {
      COTAN_ASSIGN_OR_RETURN(const uint64_t value, TakeInteger(2));
      Push({static_cast<int64_t>(value)});
      return absl::OkStatus();
    }
    case 'J': {
      COTAN_ASSIGN_OR_RETURN(const uint64_t value, TakeInteger(4));
      Push({static_cast<int64_t>(static_cast<int32_t>(value))});
      return absl::OkStatus();
    }
    case 'G': {
      COTAN_ASSIGN_OR_RETURN(uint64_t bits, TakeInteger(8));
      bits = __builtin_bswap64(bits);
      double value;
      std::memcpy(&value, &bits, sizeof(value));
      Push({value});
      return absl::OkStatus();
    }
    default: {  // 0x8a (LONG1): one byte with the size, then an integer
      COTAN_ASSIGN_OR_RETURN(const uint64_t bytes, TakeInteger(1));
      if (bytes > 8) return Damaged("an integer beyond 64 bits");
      COTAN_ASSIGN_OR_RETURN(const uint64_t value, TakeInteger(bytes));
      const int unused = static_cast<int>(64 - 8 * bytes);
      Push({bytes == 0 ? int64_t{0} : static_cast<int64_t>(value << unused) >> unused});
      return absl::OkStatus();
    }
  }
}

absl::Status Reader::PushText(size_t length_bytes) {
  COTAN_ASSIGN_OR_RETURN(const uint64_t length, TakeInteger(length_bytes));
  COTAN_ASSIGN_OR_RETURN(const absl::string_view text, Take(length));
  Push({NewText(std::string(text))});
  return absl::OkStatus();
}

absl::Status Reader::UseMemo(uint8_t opcode) {
  if (opcode == 'h' || opcode == 'j') {
    COTAN_ASSIGN_OR_RETURN(const uint64_t index, TakeInteger(opcode == 'h' ? 1 : 4));
    if (index >= memo_.size()) return Damaged("an unknown memo");
    Push(memo_[index]);
    return absl::OkStatus();
  }
  uint64_t index = memo_.size();
  if (opcode != 0x94) {
    COTAN_ASSIGN_OR_RETURN(index, TakeInteger(opcode == 'q' ? 1 : 4));
  }
  // Writers number memos consecutively from 0.
  if (index > memo_.size() || stack_.empty()) return Damaged("a memo out of order");
  if (index == memo_.size()) memo_.emplace_back();
  memo_[index] = stack_.back();
  return absl::OkStatus();
}

absl::Status Reader::PushConstant(uint8_t opcode) {
  switch (opcode) {
    case '}':
      Push({NewDict()});
      break;
    case '(':
      Push({Mark()});
      break;
    case 'N':
      Push({None()});
      break;
    default:  // 0x88 (NEWTRUE), 0x89 (NEWFALSE)
      Push({opcode == 0x88});
      break;
  }
  return absl::OkStatus();
}

absl::Status Reader::PushTuple(Values items) {
  int depth = 0;
  for (const Value& item : items) {
    if (const Tuple* tuple = std::get_if<Tuple>(&item.v)) depth = std::max(depth, tuple->depth + 1);
  }
  if (depth > kMaxDepth) return Damaged("tuples in tuples");
  Push({Tuple{std::make_shared<const Values>(std::move(items)), depth}});
  return absl::OkStatus();
}

// Pushes a tuple of the items that `opcode` takes from the stack.
absl::Status Reader::PushTupleOf(uint8_t opcode) {
  Values items;
  if (opcode == 't') {
    COTAN_ASSIGN_OR_RETURN(items, PopToMark());
    return PushTuple(std::move(items));
  }
  // ')' (EMPTY_TUPLE) or 0x85 to 0x87 (TUPLE1 to TUPLE3)
  for (int i = opcode == ')' ? 0 : opcode - 0x84; i > 0; --i) {
    COTAN_ASSIGN_OR_RETURN(Value item, Pop());
    items.insert(items.begin(), std::move(item));
  }
  return PushTuple(std::move(items));
}

absl::Status Reader::FillDict(uint8_t opcode) {
  Values items;
  if (opcode == 'u') {
    COTAN_ASSIGN_OR_RETURN(items, PopToMark());
  } else {
    items.resize(2);
    COTAN_ASSIGN_OR_RETURN(items[1], Pop());
    COTAN_ASSIGN_OR_RETURN(items[0], Pop());
  }
  Dict* dict = stack_.empty() ? nullptr : std::get_if<Dict>(&stack_.back().v);
  if (dict == nullptr || items.size() % 2 != 0) return Damaged("not a dict");
  for (size_t i = 0; i < items.size(); i += 2) {
    const Text* key = std::get_if<Text>(&items[i].v);
    if (key == nullptr) return Damaged("a key of the dict is not a string");
    const StoredTensor* tensor = std::get_if<StoredTensor>(&items[i + 1].v);
    dict->items->emplace_back(*key, tensor == nullptr ? std::nullopt : std::optional<StoredTensor>(*tensor));
  }
  return absl::OkStatus();
}

absl::Status Reader::PushGlobal(uint8_t opcode) {
  Text module, name;
  if (opcode == 'c') {
    COTAN_ASSIGN_OR_RETURN(std::string line, TakeLine());
    module = NewText(std::move(line));
    COTAN_ASSIGN_OR_RETURN(std::string next_line, TakeLine());
    name = NewText(std::move(next_line));
  } else {
    COTAN_ASSIGN_OR_RETURN(name, PopAs<Text>("a name"));
    COTAN_ASSIGN_OR_RETURN(module, PopAs<Text>("a name"));
  }
  if (module.text->size() + name.text->size() > kMaxName) return Damaged("a name that is too long");
  Push({Global{NewText(absl::StrCat(*module.text, " ", *name.text))}});
  return absl::OkStatus();
}

// ("storage", type, key, device, number of elements)
absl::Status Reader::LoadStorage() {
  COTAN_ASSIGN_OR_RETURN(const Tuple id, PopAs<Tuple>("the id of a storage"));
  const Values& fields = *id.items;
  const Text* kind = fields.size() == 5 ? std::get_if<Text>(&fields[0].v) : nullptr;
  const Global* type = kind != nullptr ? std::get_if<Global>(&fields[1].v) : nullptr;
  const Text* name = kind != nullptr ? std::get_if<Text>(&fields[2].v) : nullptr;
  if (kind == nullptr || *kind->text != "storage" || type == nullptr || name == nullptr ||
      name->text->size() > kMaxName) {
    return Damaged("not the id of a storage");
  }
  const std::string& key = *name->text;
  const DType dtype = StorageDType(*type->name.text);
  if (dtype == DType::kUndefined) {
    return absl::UnimplementedError(absl::StrCat("a storage of type ", *type->name.text, " is not supported"));
  }
  if (const auto found = storages_.find(key); found != storages_.end()) {
    if (found->second.scalar_type() != ToScalarType(dtype)) return Damaged("one storage with two dtypes");
    Push({Storage{found->second}});
    return absl::OkStatus();
  }
  COTAN_ASSIGN_OR_RETURN(const std::string bytes, files_.Read(absl::StrCat("data/", key)));
  COTAN_ASSIGN_OR_RETURN(const at::Tensor elements, StorageFromBytes(bytes, dtype));
  storages_.emplace(key, elements);
  Push({Storage{elements}});
  return absl::OkStatus();
}

absl::StatusOr<DimVector> ToDims(const Value& value) {
  const Tuple* tuple = std::get_if<Tuple>(&value.v);
  if (tuple == nullptr) return absl::InvalidArgumentError("the pickle is damaged: sizes or strides are not a tuple");
  DimVector dims;
  for (const Value& item : *tuple->items) {
    const int64_t* size = std::get_if<int64_t>(&item.v);
    if (size == nullptr || *size < 0)
      return absl::InvalidArgumentError("invalid pickle: size is not a non-negative integer");
    dims.push_back(*size);
  }
  return dims;
}

// (storage, offset, sizes, strides, requires_grad, hooks, ...)
absl::Status Reader::RebuildTensor(const Values& arguments) {
  const Storage* storage = arguments.size() >= 6 ? std::get_if<Storage>(&arguments[0].v) : nullptr;
  const int64_t* offset = storage != nullptr ? std::get_if<int64_t>(&arguments[1].v) : nullptr;
  const bool* requires_grad = storage != nullptr ? std::get_if<bool>(&arguments[4].v) : nullptr;
  if (offset == nullptr || *offset < 0 || requires_grad == nullptr) return Damaged("not a tensor");
  StridedLayout layout;
  layout.offset = *offset;
  COTAN_ASSIGN_OR_RETURN(layout.sizes, ToDims(arguments[2]));
  COTAN_ASSIGN_OR_RETURN(layout.strides, ToDims(arguments[3]));
  COTAN_ASSIGN_OR_RETURN(const at::Tensor tensor, ViewOfStorage(storage->elements, layout));
  Push({StoredTensor{tensor, *requires_grad}});
  return absl::OkStatus();
}

// (tensor, requires_grad, hooks)
absl::Status Reader::RebuildParameter(const Values& arguments) {
  const StoredTensor* data = arguments.size() == 3 ? std::get_if<StoredTensor>(&arguments[0].v) : nullptr;
  const bool* requires_grad = data != nullptr ? std::get_if<bool>(&arguments[1].v) : nullptr;
  if (requires_grad == nullptr) return Damaged("not a parameter");
  Push({StoredTensor{data->tensor, *requires_grad}});
  return absl::OkStatus();
}

absl::Status Reader::Call() {
  COTAN_ASSIGN_OR_RETURN(const Tuple arguments, PopAs<Tuple>("a tuple of arguments"));
  COTAN_ASSIGN_OR_RETURN(const Global function, PopAs<Global>("a function"));
  const std::string& name = *function.name.text;
  if (name == "torch._utils _rebuild_tensor_v2") return RebuildTensor(*arguments.items);
  if (name == "torch._utils _rebuild_parameter") return RebuildParameter(*arguments.items);
  if (name == "collections OrderedDict" && arguments.items->empty()) {
    Push({NewDict()});
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      absl::StrCat("it is a pickle that calls ", name,
                   ", and nothing in a file is run here. Save plain tensors, or export again with torch 2.9 or later"));
}

// Drops the attributes of the dict below them ("_metadata").
absl::Status Reader::IgnoreAttributes() {
  COTAN_RETURN_IF_ERROR(Pop().status());
  if (stack_.empty() || !std::holds_alternative<Dict>(stack_.back().v))
    return Damaged("attributes of an object that is not a dict");
  return absl::OkStatus();
}

absl::Status Reader::Step(uint8_t opcode) {
  switch (opcode) {
    case 0x80:
      return Take(1).status();  // version
    case 0x95:
      return Take(8).status();  // length of a frame
    case '}':
    case '(':
    case 'N':
    case 0x88:
    case 0x89:
      return PushConstant(opcode);
    case 'K':
    case 'M':
    case 'J':
    case 'G':
    case 0x8a:
      return PushNumber(opcode);
    case 'X':
      return PushText(4);
    case 0x8c:
      return PushText(1);
    case 'q':
    case 'r':
    case 0x94:
    case 'h':
    case 'j':
      return UseMemo(opcode);
    case ')':
    case 't':
    case 0x85:
    case 0x86:
    case 0x87:
      return PushTupleOf(opcode);
    case 's':
    case 'u':
      return FillDict(opcode);
    case 'c':
    case 0x93:
      return PushGlobal(opcode);
    case 'Q':
      return LoadStorage();
    case 'R':
      return Call();
    case 'b':
      return IgnoreAttributes();
    default:
      break;
  }
  return absl::UnimplementedError(absl::StrCat("the pickle has instruction ", static_cast<int>(opcode), " at byte ",
                                               position_, ", which dicts of tensors do not have"));
}

absl::StatusOr<Value> Reader::Run() {
  for (;;) {
    COTAN_ASSIGN_OR_RETURN(const uint64_t opcode, TakeInteger(1));
    if (opcode == '.') return Pop();
    COTAN_RETURN_IF_ERROR(Step(static_cast<uint8_t>(opcode)));
  }
}

}  // namespace

absl::StatusOr<Value> Read(const Archive& files, absl::string_view pickle) { return Reader(files, pickle).Run(); }

}  // namespace cotan::aot::pt2::pickle
