// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/program_builder.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace cotan::aot::pt2 {
namespace {

bool IsNumber(const std::string& text) {
  return !text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])) != 0 || text[0] == '-');
}

// Returns the code of a dtype in torch/_export/serde/schema.py.
int CodeOf(DType dtype) { return dtype == DType::kInt64 ? 5 : dtype == DType::kBool ? 12 : 7; }

int64_t NumElements(const std::vector<int64_t>& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

std::string BytesOf(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

SizeTexts Texts(const std::vector<int64_t>& sizes) {
  SizeTexts texts;
  for (const int64_t size : sizes) texts.push_back(absl::StrCat(size));
  return texts;
}

// Returns a tuple of leaves as it is written in JSON, within a text in JSON.
std::string Tree(size_t leaves) {
  const std::vector<std::string> children(leaves, R"({\"type\": null, \"context\": null, \"children_spec\": []})");
  return absl::StrCat(R"({\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [)",
                      absl::StrJoin(children, ", "), "]}");
}

std::string Expression(const std::string& text, int64_t hint) {
  return absl::StrCat(R"({"as_expr": {"expr_str": ")", text, R"(", "hint": {"as_int": )", hint, "}}}");
}

}  // namespace

std::string Value(const std::string& name) { return absl::StrCat(R"({"as_tensor": {"name": ")", name, R"("}})"); }

std::string Values(const std::vector<std::string>& names) {
  const auto append = [](std::string* out, const std::string& name) {
    absl::StrAppend(out, R"({"name": ")", name, R"("})");
  };
  return absl::StrCat(R"({"as_tensors": [)", absl::StrJoin(names, ", ", append), "]}");
}

std::string Sizes(const std::vector<std::string>& sizes) {
  const auto append = [](std::string* out, const std::string& size) {
    absl::StrAppend(out, IsNumber(size) ? absl::StrCat(R"({"as_int": )", size, "}")
                                        : absl::StrCat(R"({"as_name": ")", size, R"("})"));
  };
  return absl::StrCat(R"({"as_sym_ints": [)", absl::StrJoin(sizes, ", ", append), "]}");
}

std::string Size(const std::string& size) {
  return IsNumber(size) ? absl::StrCat(R"({"as_int": )", size, "}")
                        : absl::StrCat(R"({"as_sym_int": {"as_name": ")", size, R"("}})");
}

std::string Int(int64_t value) { return absl::StrCat(R"({"as_int": )", value, "}"); }
std::string Float(double value) { return absl::StrFormat(R"({"as_float": %.17g})", value); }
std::string Bool(bool value) { return absl::StrCat(R"({"as_bool": )", value ? "true" : "false", "}"); }
std::string None() { return R"({"as_none": true})"; }

std::string ProgramBuilder::Symbol(const std::string& name, int64_t hint, int64_t min, int64_t max) {
  hints_[name] = hint;
  ranges_.push_back(absl::StrCat("\"", name, R"(": {"min_val": )", min, R"(, "max_val": )", max, "}"));
  return name;
}

std::string ProgramBuilder::NewName(const std::string& target) {
  const std::vector<std::string> parts = absl::StrSplit(target, '.');
  const std::string& base = parts.size() > 1 ? parts[1] : parts[0];
  const int count = counts_[base]++;
  return count == 0 ? base : absl::StrCat(base, "_", count);
}

std::string ProgramBuilder::SizeOf(const std::string& text) const {
  if (IsNumber(text)) return absl::StrCat(R"({"as_int": )", text, "}");
  return Expression(text, hints_.at(text));
}

std::string ProgramBuilder::TensorMeta(DType dtype, const SizeTexts& sizes, bool requires_grad) const {
  std::vector<std::string> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = absl::StrCat(R"({"as_int": )", stride, "}");
    stride *= IsNumber(sizes[i]) ? std::stoll(sizes[i]) : hints_.at(sizes[i]);
  }
  const auto append = [this](std::string* out, const std::string& size) { out->append(SizeOf(size)); };
  return absl::StrCat(R"({"dtype": )", CodeOf(dtype), R"(, "sizes": [)", absl::StrJoin(sizes, ", ", append),
                      R"(], "requires_grad": )", requires_grad ? "true" : "false",
                      R"(, "device": {"type": "cpu", "index": null}, "strides": [)", absl::StrJoin(strides, ", "),
                      R"(], "storage_offset": {"as_int": 0}, "layout": 7})");
}

void ProgramBuilder::Describe(const std::string& name, DType dtype, const SizeTexts& sizes) {
  tensor_values_[name] = TensorMeta(dtype, sizes, /*requires_grad=*/false);
}

std::string ProgramBuilder::AddState(const Stored& stored, const std::string& prefix) {
  const bool is_parameter = stored.role == "parameter";
  const std::string value = absl::StrCat(prefix, absl::StrReplaceAll(stored.name, {{".", "_"}}));
  states_.push_back(stored);
  tensor_values_[value] = TensorMeta(DType::kFloat32, Texts(stored.sizes), is_parameter);
  inputs_.push_back(
      {is_parameter ? 0 : 1, Value(value),
       absl::StrCat(R"({")", stored.role, R"(": {"arg": {"name": ")", value, R"("}, ")", stored.role, R"(_name": ")",
                    stored.name, R"(")", is_parameter ? "" : R"(, "persistent": true)", "}}")});
  return value;
}

std::string ProgramBuilder::Parameter(const std::string& name, const std::vector<int64_t>& sizes) {
  std::minstd_rand generator(static_cast<unsigned>(states_.size() + 1));
  std::vector<float> values(static_cast<size_t>(NumElements(sizes)));
  for (float& value : values) value = static_cast<float>(generator() % 4096) / 8192.0F - 0.25F;
  return AddState({name, "parameter", sizes, absl::StrCat("weight_", states_.size()), BytesOf(values)}, "p_");
}

std::string ProgramBuilder::Buffer(const std::string& name, const std::vector<int64_t>& sizes, float fill) {
  const std::vector<float> values(static_cast<size_t>(NumElements(sizes)), fill);
  return AddState({name, "buffer", sizes, absl::StrCat("weight_", states_.size()), BytesOf(values)}, "b_");
}

std::string ProgramBuilder::Tie(const std::string& name, const std::string& parameter) {
  const auto found =
      std::find_if(states_.begin(), states_.end(), [&](const Stored& stored) { return stored.name == parameter; });
  Stored tied = *found;
  tied.name = name;
  tied.bytes.clear();  // of the same file
  return AddState(tied, "p_");
}

std::string ProgramBuilder::Input(const std::string& name, DType dtype, const SizeTexts& sizes) {
  ++num_inputs_;
  Describe(name, dtype, sizes);
  inputs_.push_back({2, Value(name), absl::StrCat(R"({"user_input": {"arg": )", Value(name), "}}")});
  return name;
}

void ProgramBuilder::Enter(const std::string& path, const std::string& type) {
  modules_.push_back(absl::StrCat("L__self___", path, ",", path, ",", type));
}

void ProgramBuilder::AddNode(const std::string& target, const OpArguments& arguments, const std::string& outputs) {
  const auto append = [](std::string* out, const std::pair<std::string, std::string>& argument) {
    absl::StrAppend(out, R"({"name": ")", argument.first, R"(", "arg": )", argument.second, R"(, "kind": 1})");
  };
  const std::string full = target[0] == '_' ? target : absl::StrCat("torch.ops.", target);
  std::vector<std::string> stack = {"L__self__,,Net"};
  stack.insert(stack.end(), modules_.begin(), modules_.end());
  const std::string metadata =
      has_module_stacks_ ? absl::StrCat(R"("nn_module_stack": ")", absl::StrJoin(stack, ";"), "\"") : "";
  nodes_.push_back(absl::StrCat(R"({"target": ")", full, R"(", "metadata": {)", metadata, R"(}, "inputs": [)",
                                absl::StrJoin(arguments, ", ", append), R"(], "outputs": [)", outputs, "]}"));
}

std::string ProgramBuilder::Op(const std::string& target, const OpArguments& arguments) {
  const std::string name = NewName(target);
  AddNode(target, arguments, Value(name));
  return name;
}

std::vector<std::string> ProgramBuilder::ListOp(const std::string& target, const OpArguments& arguments, int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(NewName("_.getitem"));
  AddNode(target, arguments, Values(names));
  return names;
}

std::string ProgramBuilder::NumberOp(const std::string& target, const OpArguments& arguments, const std::string& value,
                                     int64_t hint) {
  const std::string name = NewName(target);
  AddNode(target, arguments, absl::StrCat(R"({"as_sym_int": {"as_name": ")", name, R"("}})"));
  number_values_[name] = value.empty() ? absl::StrCat(R"({"as_int": )", hint, "}") : Expression(value, hint);
  return name;
}

void ProgramBuilder::Check(const std::string& target, const OpArguments& arguments) { AddNode(target, arguments, ""); }

void ProgramBuilder::Output(const std::string& name) {
  if (!tensor_values_.contains(name)) Describe(name, DType::kFloat32, {});
  outputs_.push_back(Value(name));
  output_specs_.push_back(absl::StrCat(R"({"user_output": {"arg": )", Value(name), "}}"));
}

// Returns the table of the stored tensors of a role.
std::string ProgramBuilder::Config(const std::string& role) const {
  std::vector<std::string> entries;
  for (const Stored& stored : states_) {
    if (stored.role != role) continue;
    const bool is_parameter = role == "parameter";
    entries.push_back(absl::StrCat("\"", stored.name, R"(": {"path_name": ")", stored.file, R"(", "is_param": )",
                                   is_parameter ? "true" : "false", R"(, "use_pickle": false, "tensor_meta": )",
                                   TensorMeta(DType::kFloat32, Texts(stored.sizes), is_parameter), "}"));
  }
  return absl::StrJoin(entries, ", ");
}

std::string ProgramBuilder::Program() const {
  std::vector<GraphInput> inputs = inputs_;
  std::stable_sort(inputs.begin(), inputs.end(),
                   [](const GraphInput& a, const GraphInput& b) { return a.rank < b.rank; });
  const auto value_of = [](std::string* out, const GraphInput& input) { out->append(input.value); };
  const auto spec_of = [](std::string* out, const GraphInput& input) { out->append(input.spec); };
  const auto entry = [](std::string* out, const std::pair<const std::string, std::string>& value) {
    absl::StrAppend(out, "\"", value.first, "\": ", value.second);
  };
  const std::string in_spec = absl::StrCat(
      R"([1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [)", Tree(num_inputs_),
      R"(, {\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []}]}])");
  return absl::StrCat(
      R"({"graph_module": {"graph": {"inputs": [)", absl::StrJoin(inputs, ", ", value_of), R"(], "outputs": [)",
      absl::StrJoin(outputs_, ", "), R"(], "nodes": [)", absl::StrJoin(nodes_, ",\n"), R"(], "tensor_values": {)",
      absl::StrJoin(tensor_values_, ",\n", entry), R"(}, "sym_int_values": {)",
      absl::StrJoin(number_values_, ", ", entry),
      R"(}, "sym_bool_values": {}, "is_single_tensor_return": false, "custom_obj_values": {}},
      "signature": {"input_specs": [)",
      absl::StrJoin(inputs, ",\n", spec_of), R"(], "output_specs": [)", absl::StrJoin(output_specs_, ", "),
      R"(]}, "module_call_graph": [{"fqn": "", "signature": {"inputs": [], "outputs": [], "in_spec": ")", in_spec,
      R"(", "out_spec": "[1, )", Tree(outputs_.size()), R"(]", "forward_arg_names": []}}],
      "metadata": {}, "treespec_namedtuple_fields": {}}, "opset_version": {"aten": 10}, "range_constraints": {)",
      absl::StrJoin(ranges_, ", "),
      R"(}, "schema_version": {"major": 8, "minor": 17}, "verifiers": ["TRAINING"], "torch_version": "2.11.0"})");
}

ArchiveFiles ProgramBuilder::Files() const {
  ArchiveFiles files = {
      {"m/models/model.json", Program()},
      {"m/data/weights/model_weights_config.json",
       absl::StrCat(R"({"config": {)", Config("parameter"),
                    Config("parameter").empty() || Config("buffer").empty() ? "" : ", ", Config("buffer"), "}}")},
      {"m/data/constants/model_constants_config.json", R"({"config": {}})"},
      {"m/archive_format", "pt2"},
      {"m/byteorder", "little"}};
  for (const Stored& stored : states_) {
    if (!stored.bytes.empty()) files.emplace_back(absl::StrCat("m/data/weights/", stored.file), stored.bytes);
  }
  return files;
}

}  // namespace cotan::aot::pt2
