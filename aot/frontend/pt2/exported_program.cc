// SPDX-License-Identifier: Apache-2.0

// Adds the JSON path to error messages of nlohmann::json.
#define JSON_DIAGNOSTICS 1

#include "aot/frontend/pt2/exported_program.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "aot/frontend/pt2/data_size_nodes.h"
#include "aot/frontend/pt2/symbolic.h"

namespace cotan::aot::pt2 {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 16;

// Error of the functions below, which throw as nlohmann::json does. It is converted to a status at
// the public functions.
struct ParseError {
  absl::Status status;
};

[[noreturn]] void Invalid(const Json& at, absl::string_view what) {
  throw Json::other_error::create(601, std::string(what), &at);
}
[[noreturn]] void Unsupportable(absl::string_view what) { throw ParseError{absl::UnimplementedError(what)}; }

// Returns an optional member; null if it is absent or null.
const Json* Find(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

int64_t ToInt(const Json& json) {
  if (!json.is_number_integer()) Invalid(json, "an integer was expected");
  if (json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    Invalid(json, "an integer that is too large");
  }
  return json.get<int64_t>();
}

// Returns a bound of a size; the largest int64_t for the bound that torch.export computes of unbounded sizes.
int64_t ToBound(const Json& json) {
  constexpr auto kLargest = std::numeric_limits<int64_t>::max();
  const bool is_larger = json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(kLargest);
  return is_larger ? kLargest : ToInt(json);
}

bool ToBool(const Json& json) {
  if (!json.is_boolean()) Invalid(json, "true or false was expected");
  return json.get<bool>();
}

const std::string& ToText(const Json& json) { return json.get_ref<const std::string&>(); }

// JSON has no infinities and NaN; the schema has their names as text.
double ToDouble(const Json& json) {
  if (json.is_number()) return json.get<double>();
  const std::string text = json.is_string() ? json.get<std::string>() : "";
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  Invalid(json, "a number was expected");
}

const Json::array_t& ToArray(const Json& json) { return json.get_ref<const Json::array_t&>(); }
const Json::object_t& ToObject(const Json& json) { return json.get_ref<const Json::object_t&>(); }

// Returns name and value of a union: an object with one member, the one that is set.
std::pair<const std::string&, const Json&> ToUnion(const Json& json) {
  const Json::object_t& members = ToObject(json);
  const auto set = [](const auto& member) { return !member.second.is_null(); };
  const auto first = std::find_if(members.begin(), members.end(), set);
  if (first == members.end() || std::count_if(members.begin(), members.end(), set) != 1) {
    if (members.size() != 1) Invalid(json, "exactly one member was expected");
    return {members.begin()->first, members.begin()->second};
  }
  return {first->first, first->second};
}

DType ToDType(const Json& json) {
  static constexpr std::pair<int64_t, DType> kDTypes[] = {
      {1, DType::kUInt8},         {2, DType::kInt8},        {3, DType::kInt16},   {4, DType::kInt32},
      {5, DType::kInt64},         {6, DType::kFloat16},     {7, DType::kFloat32}, {8, DType::kFloat64},
      {10, DType::kComplex64},    {11, DType::kComplex128}, {12, DType::kBool},   {13, DType::kBFloat16},
      {29, DType::kFloat8E4m3fn}, {30, DType::kFloat8E5m2},
  };
  const int64_t code = ToInt(json);
  for (const auto& [number, dtype] : kDTypes) {
    if (number == code) return dtype;
  }
  Unsupportable(absl::StrCat(
      "the dtype with number ", code,
      " of the export schema (half complex, unsigned 16 to 64 bit, float8 except e4m3fn and e5m2) is not supported"));
}

class ProgramParser {
 public:
  ExportedProgram Parse(const Json& json);

 private:
  int SymbolIndex(absl::string_view name);
  SymInt ParseSymInt(const Json& json);
  SymIntVector ParseSymInts(const Json& json);
  TensorMeta ParseTensorMeta(const Json& json);
  Argument ParseArgument(const Json& json);
  Node ParseNode(const Json& json);
  Graph ParseGraph(const Json& json);
  void ParseRanges(const Json& json);
  void ParseCallSpec(const Json& graph_module);

  friend std::vector<PayloadMeta> ParsePayloads(const Json& json);

  ExportedProgram program_;
  absl::flat_hash_map<std::string, int> symbol_index_;
  int depth_ = 0;
  // Whether a size may be a function that programs do not have, such as a rounded product with a fraction. It becomes
  // a symbol of its own: the traces of a model find the sizes within its graph again.
  bool may_be_unknown_ = false;
};

int ProgramParser::SymbolIndex(absl::string_view name) {
  const auto [found, is_new] = symbol_index_.try_emplace(name, static_cast<int>(program_.symbols.size()));
  if (is_new) program_.symbols.push_back({.name = std::string(name)});
  return found->second;
}

SymInt ProgramParser::ParseSymInt(const Json& json) {
  const auto [kind, value] = ToUnion(json);
  if (kind == "as_int") return ToInt(value);
  if (kind != "as_expr") Invalid(json, "as_int or as_expr was expected");
  const std::string& text = ToText(value.at("expr_str"));
  absl::StatusOr<SymInt> parsed = ParseSymbolic(text, [this](absl::string_view name) { return SymbolIndex(name); });
  if (may_be_unknown_ && absl::IsUnimplemented(parsed.status())) {
    parsed = SymInt::Symbol(SymbolIndex(absl::StrCat("(", text, ")")));
  }
  if (!parsed.ok()) throw ParseError{parsed.status()};
  const Json* hint = Find(value, "hint");
  const Json* number = hint == nullptr ? nullptr : Find(*hint, "as_int");
  if (number != nullptr && parsed->kind() == SymInt::Kind::kSymbol) {
    program_.symbols[static_cast<size_t>(parsed->symbol())].hint = ToInt(*number);
  }
  return *std::move(parsed);
}

SymIntVector ProgramParser::ParseSymInts(const Json& json) {
  SymIntVector result;
  for (const Json& element : ToArray(json)) result.push_back(ParseSymInt(element));
  return result;
}

TensorMeta ProgramParser::ParseTensorMeta(const Json& json) {
  TensorMeta meta;
  meta.dtype = ToDType(json.at("dtype"));
  meta.sizes = ParseSymInts(json.at("sizes"));
  meta.strides = ParseSymInts(json.at("strides"));
  meta.storage_offset = ParseSymInt(json.at("storage_offset"));
  meta.requires_grad = ToBool(json.at("requires_grad"));
  meta.device = ToText(json.at("device").at("type"));
  if (meta.strides.size() != meta.sizes.size()) Invalid(json, "as many strides as sizes were expected");
  constexpr int64_t kStrided = 7;
  if (const int64_t layout = ToInt(json.at("layout")); layout != kStrided) {
    Unsupportable("a tensor with a sparse layout is not supported");
  }
  return meta;
}

Name ToName(const Json& json) { return {ToText(json.at("name"))}; }

std::optional<Name> ToOptionalName(const Json& json) {
  const auto [kind, value] = ToUnion(json);
  if (kind == "as_none") return std::nullopt;
  if (kind != "as_tensor") Invalid(json, "as_tensor or as_none was expected");
  return ToName(value);
}

// Parses a number, or the name of one.
Number ToNumber(const Json& json) {
  const auto [kind, value] = ToUnion(json);
  if (kind == "as_name") return Name{ToText(value)};
  if (kind == "as_int") return ToInt(value);
  if (kind == "as_float") return ToDouble(value);
  if (kind == "as_bool") return ToBool(value);
  Invalid(json, "as_name, as_int, as_float or as_bool was expected");
}

Argument AsArgument(const Number& number) {
  return std::visit([](const auto& value) { return Argument(value); }, number);
}

template <typename Convert>
auto ToList(const Json& json, Convert convert) {
  std::vector<decltype(convert(json))> list;
  for (const Json& element : ToArray(json)) list.push_back(convert(element));
  return list;
}

Argument ProgramParser::ParseArgument(const Json& json) {
  const auto [kind, value] = ToUnion(json);
  const auto named = [](const Json& j) { return std::optional<Name>(ToName(j)); };
  if (kind == "as_none") return NoValue();
  if (kind == "as_tensor") return ToName(value);
  if (kind == "as_tensors") return ToList(value, named);
  if (kind == "as_optional_tensors") return ToList(value, ToOptionalName);
  if (kind == "as_optional_tensor") {
    const std::optional<Name> name = ToOptionalName(value);
    return name.has_value() ? Argument(*name) : Argument(NoValue());
  }
  if (kind == "as_int") return ToInt(value);
  if (kind == "as_float") return ToDouble(value);
  if (kind == "as_bool") return ToBool(value);
  if (kind == "as_string" || kind == "as_operator") return ToText(value);
  if (kind == "as_complex") return std::complex<double>(ToDouble(value.at("real")), ToDouble(value.at("imag")));
  if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") return AsArgument(ToNumber(value));
  if (kind == "as_ints") return ToList(value, [](const Json& j) { return Number(ToInt(j)); });
  if (kind == "as_floats") return ToList(value, [](const Json& j) { return Number(ToDouble(j)); });
  if (kind == "as_bools") return ToList(value, [](const Json& j) { return Number(ToBool(j)); });
  if (kind == "as_sym_ints" || kind == "as_sym_floats" || kind == "as_sym_bools") return ToList(value, ToNumber);
  if (kind == "as_strings") return ToList(value, [](const Json& j) { return ToText(j); });
  if (kind == "as_scalar_type") return ToDType(value);
  if (kind == "as_memory_format") return MemoryFormat{ToInt(value)};
  if (kind == "as_layout") return Layout{ToInt(value)};
  if (kind == "as_device") return Device{ToText(value.at("type"))};
  if (kind == "as_graph") {
    return Subgraph{ToText(value.at("name")), std::make_shared<const Graph>(ParseGraph(value.at("graph")))};
  }
  return Unsupported{kind};
}

// Returns the stack of modules that a node was called in, "L__self__,,Net;L__self___fc,fc,torch.nn.Linear".
std::string ModuleStack(const Json& metadata) {
  const Json* stack = Find(metadata, "nn_module_stack");
  return stack == nullptr || !stack->is_string() ? "" : ToText(*stack);
}

// Returns the path of the last module of a stack: "fc".
std::string ModulePath(absl::string_view stack) {
  const size_t last = stack.rfind(';');
  if (last != absl::string_view::npos) stack.remove_prefix(last + 1);
  const std::vector<std::string> fields = absl::StrSplit(stack, ',');
  return fields.size() > 1 ? fields[1] : "";
}

Node ProgramParser::ParseNode(const Json& json) {
  Node node;
  node.target = ToText(json.at("target"));
  const bool compares = ComparesNumbers(node.target);
  for (const Json& input : ToArray(json.at("inputs"))) {
    const Json* bound = compares ? Find(input.at("arg"), "as_int") : nullptr;
    node.inputs.push_back(
        {ToText(input.at("name")), bound == nullptr ? ParseArgument(input.at("arg")) : Argument(ToBound(*bound))});
  }
  for (const Json& output : ToArray(json.at("outputs"))) node.outputs.push_back(ParseArgument(output));
  if (const Json* metadata = Find(json, "metadata")) node.module_stack = ModuleStack(*metadata);
  node.module_path = ModulePath(node.module_stack);
  return node;
}

absl::flat_hash_set<std::string> NamesOf(const std::vector<Argument>& arguments) {
  absl::flat_hash_set<std::string> names;
  for (const Argument& argument : arguments) {
    if (const Name* name = std::get_if<Name>(&argument)) names.insert(name->name);
  }
  return names;
}

Graph ProgramParser::ParseGraph(const Json& json) {
  if (++depth_ > kMaxDepth) Unsupportable(absl::StrCat("graphs nested deeper than ", kMaxDepth));
  Graph graph;
  for (const Json& input : ToArray(json.at("inputs"))) graph.inputs.push_back(ParseArgument(input));
  for (const Json& output : ToArray(json.at("outputs"))) graph.outputs.push_back(ParseArgument(output));
  for (const Json& node : ToArray(json.at("nodes"))) graph.nodes.push_back(ParseNode(node));
  const absl::flat_hash_set<std::string> inputs = NamesOf(graph.inputs);
  for (const auto& [name, meta] : ToObject(json.at("tensor_values"))) {
    may_be_unknown_ = !inputs.contains(name);
    graph.tensor_values.emplace(name, ParseTensorMeta(meta));
  }
  for (const auto& [name, value] : ToObject(json.at("sym_int_values"))) {
    may_be_unknown_ = !inputs.contains(name);
    graph.sym_int_values.emplace(name, ParseSymInt(value));
  }
  may_be_unknown_ = false;
  if (const Json* floats = Find(json, "sym_float_values")) {
    for (const auto& [name, value] : ToObject(*floats)) graph.sym_floats.insert(name);
  }
  --depth_;
  FindDataSizes(program_.symbols, graph);
  RemoveRangeAssertions(program_.symbols, graph);
  return graph;
}

void ProgramParser::ParseRanges(const Json& json) {
  for (const auto& [name, range] : ToObject(json)) {
    Symbol& symbol = program_.symbols[static_cast<size_t>(SymbolIndex(name))];
    if (const Json* min = Find(range, "min_val")) symbol.min = ToInt(*min);
    if (const Json* max = Find(range, "max_val")) symbol.max = ToBound(*max);
  }
}

InputSpec ToInputSpec(const Json& json, const Argument& graph_input) {
  using Kind = InputSpec::Kind;
  const auto [kind, value] = ToUnion(json);
  InputSpec spec;
  spec.arg = graph_input;
  if (kind == "user_input") {
    spec.kind = std::holds_alternative<Name>(graph_input) ? Kind::kUserInput : Kind::kConstant;
    if (const Name* name = std::get_if<Name>(&graph_input)) spec.name = name->name;
  } else if (kind == "parameter") {
    spec.kind = Kind::kParameter;
    spec.name = ToText(value.at("parameter_name"));
  } else if (kind == "buffer") {
    spec.kind = Kind::kBuffer;
    spec.name = ToText(value.at("buffer_name"));
    if (const Json* persistent = Find(value, "persistent")) spec.persistent = ToBool(*persistent);
  } else if (kind == "tensor_constant") {
    spec.kind = Kind::kTensorConstant;
    spec.name = ToText(value.at("tensor_constant_name"));
  } else if (kind == "constant_input") {
    spec.kind = Kind::kConstant;
    spec.name = ToText(value.at("name"));
  } else if (kind == "token") {
    spec.kind = Kind::kToken;
  } else {
    Unsupportable(absl::StrCat("an input of kind '", kind, "' cannot be compiled"));
  }
  return spec;
}

OutputSpec ToOutputSpec(const Json& json, const Argument& graph_output) {
  using Kind = OutputSpec::Kind;
  const auto [kind, value] = ToUnion(json);
  OutputSpec spec;
  spec.arg = graph_output;
  if (kind == "user_output") {
    spec.kind = Kind::kUserOutput;
  } else if (kind == "loss_output") {
    spec.kind = Kind::kLoss;
  } else if (kind == "buffer_mutation") {
    spec.kind = Kind::kBufferMutation;
    spec.target = ToText(value.at("buffer_name"));
  } else if (kind == "parameter_mutation") {
    spec.kind = Kind::kParameterMutation;
    spec.target = ToText(value.at("parameter_name"));
  } else if (kind == "user_input_mutation") {
    spec.kind = Kind::kUserInputMutation;
    spec.target = ToText(value.at("user_input_name"));
  } else if (kind == "gradient_to_parameter" || kind == "gradient_to_user_input") {
    Unsupportable("the program already holds a backward pass; export the forward alone (torch.export.export)");
  } else if (kind == "token") {
    spec.kind = Kind::kToken;
  } else {
    Unsupportable(absl::StrCat("an output of kind '", kind, "' cannot be compiled"));
  }
  return spec;
}

// Returns the text of a key that is not a string: a number, or a tuple. json::dump() recurses.
std::string KeyText(const Json& key, int depth) {
  if (depth > kMaxDepth) Unsupportable(absl::StrCat("keys nested deeper than ", kMaxDepth));
  if (!key.is_structured()) return key.dump();
  if (!key.is_array()) Invalid(key, "a string, a number or a tuple was expected as a key");
  std::vector<std::string> items;
  for (const Json& item : key) items.push_back(KeyText(item, depth + 1));
  return absl::StrCat("[", absl::StrJoin(items, ","), "]");
}

// Returns the keys of a dict from its context, a JSON text.
std::vector<std::string> ToKeys(const Json& context) {
  const Json keys = Json::parse(ToText(context));
  std::vector<std::string> names;
  for (const Json& key : ToArray(keys)) names.push_back(key.is_string() ? ToText(key) : KeyText(key, 0));
  return names;
}

TreeSpec ToTreeSpec(const Json& json, int depth) {
  if (depth > kMaxDepth) Unsupportable(absl::StrCat("arguments nested deeper than ", kMaxDepth));
  TreeSpec spec;
  const Json* type = Find(json, "type");
  if (type == nullptr) return spec;
  for (const Json& child : ToArray(json.at("children_spec"))) spec.children.push_back(ToTreeSpec(child, depth + 1));
  const std::string& name = ToText(*type);
  spec.kind = TreeSpec::Kind::kTuple;  // also for registered Python classes
  if (name == "builtins.list") spec.kind = TreeSpec::Kind::kList;
  if (name == "builtins.dict" || name == "collections.OrderedDict") {
    spec.keys = ToKeys(json.at("context"));
    if (spec.keys.size() != spec.children.size()) Invalid(json, "as many keys as children were expected");
    spec.kind = TreeSpec::Kind::kDict;
  }
  return spec;
}

// Parses "[1, {...}]": the version of the format, and the tree.
TreeSpec ToTreeSpec(const Json& text) {
  const Json json = Json::parse(ToText(text));
  if (!json.is_array() || json.size() != 2) Invalid(json, "a version and a tree were expected");
  if (const int64_t version = ToInt(json[0]); version != 1) {
    Unsupportable(absl::StrCat("version ", version, " of the tree format (in_spec, out_spec) is not known"));
  }
  return ToTreeSpec(json[1], 0);
}

void ProgramParser::ParseCallSpec(const Json& graph_module) {
  const auto root = [](const Json& entry) { return ToText(entry.at("fqn")).empty(); };
  const Json::array_t& modules = ToArray(graph_module.at("module_call_graph"));
  const auto found = std::find_if(modules.begin(), modules.end(), root);
  const Json* signature = found == modules.end() ? nullptr : Find(*found, "signature");
  if (signature == nullptr)
    Invalid(graph_module, "module_call_graph has no entry with the signature of the whole model");
  program_.in_spec = ToTreeSpec(signature->at("in_spec"));
  program_.out_spec = ToTreeSpec(signature->at("out_spec"));
  if (const Json* names = Find(*signature, "forward_arg_names")) {
    program_.argument_names = ToList(*names, [](const Json& j) { return ToText(j); });
  }
}

void CheckVersion(const Json& json) {
  const Json& version = json.at("schema_version");
  const int64_t major = ToInt(version.at("major"));
  if (major == kSchemaMajor) return;
  const Json* torch = Find(json, "torch_version");
  Unsupportable(absl::StrCat("it is written in version ", major, ".", ToInt(version.at("minor")),
                             " of the export schema (torch ", torch != nullptr ? ToText(*torch) : "?",
                             "); this build reads version ", kSchemaMajor, ", which torch 2.6 and later write"));
}

ExportedProgram ProgramParser::Parse(const Json& json) {
  CheckVersion(json);
  ParseRanges(json.at("range_constraints"));
  const Json& module = json.at("graph_module");
  program_.graph = ParseGraph(module.at("graph"));
  const Json& signature = module.at("signature");
  const Json::array_t& inputs = ToArray(signature.at("input_specs"));
  const Json::array_t& outputs = ToArray(signature.at("output_specs"));
  if (inputs.size() != program_.graph.inputs.size()) Invalid(signature, "one input spec for each input was expected");
  if (outputs.size() != program_.graph.outputs.size())
    Invalid(signature, "one output spec for each output was expected");
  for (size_t i = 0; i < inputs.size(); ++i) {
    program_.inputs.push_back(ToInputSpec(inputs[i], program_.graph.inputs[i]));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    program_.outputs.push_back(ToOutputSpec(outputs[i], program_.graph.outputs[i]));
  }
  ParseCallSpec(module);
  if (const Json* torch = Find(json, "torch_version")) program_.torch_version = ToText(*torch);
  return std::move(program_);
}

std::vector<PayloadMeta> ParsePayloads(const Json& json) {
  ProgramParser parser;
  std::vector<PayloadMeta> payloads;
  for (const auto& [name, meta] : ToObject(json.at("config"))) {
    PayloadMeta& payload = payloads.emplace_back();
    payload.name = name;
    payload.path_name = ToText(meta.at("path_name"));
    payload.use_pickle = ToBool(meta.at("use_pickle"));
    if (const Json* tensor = Find(meta, "tensor_meta")) payload.tensor_meta = parser.ParseTensorMeta(*tensor);
  }
  return payloads;
}

// Calls `parse` on the parsed text and converts exceptions to a status.
template <typename Parse>
auto Guarded(absl::string_view text, absl::string_view file, Parse parse) -> absl::StatusOr<decltype(parse(Json()))> {
  try {
    return parse(Json::parse(text.begin(), text.end()));
  } catch (const ParseError& error) {
    return absl::Status(error.status.code(), absl::StrCat(file, ": ", error.status.message()));
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(file, " is damaged: ", error.what()));
  }
}

}  // namespace

absl::StatusOr<ExportedProgram> ParseExportedProgram(absl::string_view json, absl::string_view file) {
  return Guarded(json, file, [](const Json& parsed) { return ProgramParser().Parse(parsed); });
}

absl::StatusOr<std::vector<PayloadMeta>> ParsePayloadConfig(absl::string_view json, absl::string_view file) {
  return Guarded(json, file, ParsePayloads);
}

}  // namespace cotan::aot::pt2
