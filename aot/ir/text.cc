// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/text.h"

#include <cctype>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "aot/ir/expr_text.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

constexpr absl::string_view kInputKinds[] = {
    "parameter",      "buffer",         "user_input",           "tangent", "saved", "constant", "rng_state",
    "hyperparameter", "optimizer_slot", "gradient_accumulator", "token"};
constexpr absl::string_view kOutputKinds[] = {"user_output",    "mutated_input",     "gradient",     "saved_output",
                                              "state_update",   "intermediate_base", "input_update", "input_storage",
                                              "shared_storage", "backward_update",   "token_output"};

// Ends the line of an input or output.
constexpr char kWithoutVersionCheck[] = " without_version_check";

// Assigns numbers to values in the order of the calls of Name().
class Numbering {
 public:
  Numbering() = default;
  // Numbers the values of a graph by their ids.
  explicit Numbering(int num_values) : num_values_(num_values) {}

  void Define(ValueId id) { numbers_.emplace(id, static_cast<int>(numbers_.size())); }
  std::string Name(ValueId id) const {
    if (id == kNoValue) return "none";
    if (id >= 0 && id < num_values_) return absl::StrCat("%", id);
    const auto it = numbers_.find(id);
    return it == numbers_.end() ? absl::StrCat("%undefined", id) : absl::StrCat("%", it->second);
  }

 private:
  int num_values_ = 0;
  absl::flat_hash_map<ValueId, int> numbers_;
};

std::string Quote(absl::string_view text) { return absl::StrCat("\"", absl::CEscape(text), "\""); }

struct ArgumentPrinter {
  const Numbering& numbering;

  std::string operator()(None) const { return "none"; }
  std::string operator()(Use use) const { return numbering.Name(use.value); }
  std::string operator()(const std::vector<Use>& uses) const {
    return absl::StrCat(
        "{", absl::StrJoin(uses, ", ", [&](std::string* out, Use use) { *out += numbering.Name(use.value); }), "}");
  }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(const SymInt& value) const { return value.ToString(); }
  std::string operator()(double value) const { return PrintDouble(value); }
  std::string operator()(const std::string& value) const { return Quote(value); }
  std::string operator()(DType value) const { return std::string(DTypeName(value)); }
  std::string operator()(const std::vector<SymInt>& values) const {
    return absl::StrCat("[", absl::StrJoin(values, ", ", absl::StreamFormatter()), "]");
  }
  std::string operator()(const std::vector<double>& values) const {
    return absl::StrCat("floats[",
                        absl::StrJoin(values, ", ", [](std::string* out, double v) { *out += PrintDouble(v); }), "]");
  }
  std::string operator()(const std::vector<bool>& values) const {
    std::string text = "bools[";
    for (size_t i = 0; i < values.size(); ++i) absl::StrAppend(&text, i == 0 ? "" : ", ", values[i] ? "true" : "false");
    return text + "]";
  }
};

// `input_name`: name of the graph input, which is not repeated if the value has the same name.
std::string PrintDefinition(const Graph& graph, const Numbering& numbering, ValueId id,
                            absl::string_view input_name = "") {
  if (id == kNoValue) return "_";
  const Value& value = graph.value(id);
  std::string text = absl::StrCat(numbering.Name(id), ": ", PrintType(value.type));
  if (!value.name.empty() && value.name != input_name) absl::StrAppend(&text, " ", Quote(value.name));
  return text;
}

std::string PrintNodeWith(const Graph& graph, const Node& node, const Numbering& numbering) {
  std::string text;
  for (const ValueId output : node.outputs) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", PrintDefinition(graph, numbering, output));
  }
  absl::StrAppend(&text, text.empty() ? "" : " = ", node.op, "(");
  const ArgumentPrinter printer{numbering};
  absl::StrAppend(
      &text,
      absl::StrJoin(node.arguments, ", ",
                    [&](std::string* out, const Argument& argument) { *out += std::visit(printer, argument); }),
      ")");
  if (!node.source.empty()) absl::StrAppend(&text, " from ", Quote(node.source));
  if (node.expr != nullptr) absl::StrAppend(&text, " {\n", PrintExpr(*node.expr, "    "), "  }");
  return text;
}

// Reads one line from left to right.
class Cursor {
 public:
  explicit Cursor(absl::string_view text) : rest_(text) {}

  bool Consume(absl::string_view token) { return absl::ConsumePrefix(&rest_, token); }
  bool AtEnd() const { return rest_.empty(); }
  char Peek() const { return rest_.empty() ? '\0' : rest_[0]; }

  absl::Status Expect(absl::string_view token) {
    if (Consume(token)) return absl::OkStatus();
    return Error(absl::StrCat("expected '", token, "'"));
  }

  absl::Status Error(absl::string_view problem) const {
    return absl::InvalidArgumentError(absl::StrCat(problem, " at '", rest_.substr(0, 40), "'"));
  }

  // Reads letters, digits, '_', '.', '@', ':' and '-'.
  absl::string_view Word() {
    size_t n = 0;
    while (n < rest_.size() &&
           (std::isalnum(static_cast<unsigned char>(rest_[n])) || absl::StrContains("_.@:-+", rest_[n])))
      ++n;
    const absl::string_view word = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return word;
  }

  // Reads up to a ',' or closing bracket outside parentheses.
  absl::string_view Item() {
    int depth = 0;
    size_t n = 0;
    for (; n < rest_.size(); ++n) {
      const char c = rest_[n];
      if (c == '(') ++depth;
      if (depth == 0 && (c == ',' || c == ')' || c == ']' || c == '}')) break;
      if (c == ')') --depth;
    }
    const absl::string_view item = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return item;
  }

  absl::StatusOr<int> Int() {
    int value = 0;
    const absl::string_view before = rest_;
    if (!absl::SimpleAtoi(Word(), &value)) {
      rest_ = before;
      return Error("expected a number");
    }
    return value;
  }

  absl::StatusOr<SymInt> Size() { return SymInt::Parse(absl::StripAsciiWhitespace(Item())); }

  absl::StatusOr<std::string> String() {
    COTAN_RETURN_IF_ERROR(Expect("\""));
    size_t n = 0;
    while (n < rest_.size() && rest_[n] != '"') n += rest_[n] == '\\' ? 2 : 1;
    if (n >= rest_.size()) return Error("unterminated string");
    std::string text;
    if (!absl::CUnescape(rest_.substr(0, n), &text)) return Error("bad escape");
    rest_.remove_prefix(n + 1);
    return text;
  }

 private:
  absl::string_view rest_;
};

class GraphParser {
 public:
  explicit GraphParser(absl::string_view text) : lines_(absl::StrSplit(text, '\n')) {}

  absl::StatusOr<Graph> Parse() {
    const absl::Status status = ParseLines();
    if (status.ok()) return std::move(graph_);
    return absl::InvalidArgumentError(absl::StrCat("graph text, line ", line_, ": ", status.message()));
  }

 private:
  // Moves to the next line that is not blank or a comment; returns false at the end.
  bool NextLine() {
    while (line_ < lines_.size()) {
      current_ = absl::StripAsciiWhitespace(lines_[line_++]);
      if (!current_.empty() && current_[0] != '#') return true;
    }
    return false;
  }

  absl::Status ParseLines() {
    if (!NextLine()) return absl::InvalidArgumentError("the text is empty");
    Cursor header(current_);
    COTAN_RETURN_IF_ERROR(header.Expect("graph @"));
    graph_.name = std::string(header.Word());
    COTAN_RETURN_IF_ERROR(header.Expect(" {"));
    while (NextLine()) {
      if (current_ == "}") return absl::OkStatus();
      COTAN_RETURN_IF_ERROR(ParseLine());
    }
    return absl::InvalidArgumentError("expected '}'");
  }

  absl::Status ParseLine() {
    for (size_t kind = 0; kind < std::size(kOutputKinds); ++kind) {
      Cursor cursor(current_);
      if (cursor.Consume(absl::StrCat(kOutputKinds[kind], " ")))
        return ParseOutput(cursor, static_cast<OutputKind>(kind));
    }
    Cursor cursor(current_);
    std::vector<ValueId> results;
    std::vector<std::string> names;
    if (cursor.Peek() == '%' || cursor.Peek() == '_') {
      do {
        COTAN_ASSIGN_OR_RETURN(const ValueId id, ParseDefinition(cursor, names));
        results.push_back(id);
      } while (cursor.Consume(", "));
      COTAN_RETURN_IF_ERROR(cursor.Expect(" = "));
    }
    const std::string word(cursor.Word());
    for (size_t kind = 0; kind < std::size(kInputKinds); ++kind) {
      if (word == kInputKinds[kind]) return ParseInput(cursor, static_cast<InputKind>(kind), results, names);
    }
    COTAN_RETURN_IF_ERROR(ParseNode(cursor, word, results));
    return Define(results, names);
  }

  absl::Status Define(const std::vector<ValueId>& results, const std::vector<std::string>& names) {
    size_t i = 0;
    for (const std::string& name : names) {
      while (results[i] == kNoValue) ++i;
      if (!values_.emplace(name, results[i++]).second) {
        return absl::InvalidArgumentError(absl::StrCat(name, " is defined twice"));
      }
    }
    return absl::OkStatus();
  }

  // Parses '%0: f32[2] "name"' or '_', and adds the %-name to `names`.
  absl::StatusOr<ValueId> ParseDefinition(Cursor& cursor, std::vector<std::string>& names) {
    if (cursor.Consume("_")) return kNoValue;
    COTAN_RETURN_IF_ERROR(cursor.Expect("%"));
    COTAN_ASSIGN_OR_RETURN(const std::string number, ParseNumberAndColon(cursor));
    COTAN_ASSIGN_OR_RETURN(TensorType type, ParseType(cursor));
    std::string value_name;
    if (cursor.Consume(" \"")) {
      COTAN_ASSIGN_OR_RETURN(value_name, ReopenedString(cursor));
    }
    names.push_back(absl::StrCat("%", number));
    return graph_.AddValue(std::move(type), std::move(value_name));
  }

  static absl::StatusOr<std::string> ParseNumberAndColon(Cursor& cursor) {
    std::string word(cursor.Word());  // "0:"
    if (word.empty() || word.back() != ':') return cursor.Error("expected ': TYPE'");
    word.pop_back();
    COTAN_RETURN_IF_ERROR(cursor.Expect(" "));
    return word;
  }

  // Parses the rest of a string whose opening quote is consumed.
  static absl::StatusOr<std::string> ReopenedString(Cursor& cursor) {
    std::string raw;
    while (!cursor.AtEnd() && cursor.Peek() != '"') {
      if (cursor.Consume("\\\"")) {
        raw += "\\\"";
        continue;
      }
      const char c = cursor.Peek();
      raw += c;
      (void)cursor.Consume(absl::string_view(&c, 1));
    }
    COTAN_RETURN_IF_ERROR(cursor.Expect("\""));
    std::string text;
    if (!absl::CUnescape(raw, &text)) return cursor.Error("bad escape");
    return text;
  }

  static absl::StatusOr<TensorType> ParseType(Cursor& cursor) {
    TensorType type;
    COTAN_ASSIGN_OR_RETURN(type.dtype, ParseDType(cursor.Word()));
    COTAN_RETURN_IF_ERROR(cursor.Expect("["));
    if (!cursor.Consume("]")) {
      do {
        COTAN_ASSIGN_OR_RETURN(SymInt size, cursor.Size());
        type.sizes.push_back(std::move(size));
      } while (cursor.Consume(","));
      COTAN_RETURN_IF_ERROR(cursor.Expect("]"));
    }
    if (cursor.Consume("{")) {
      do {
        COTAN_ASSIGN_OR_RETURN(const int dim, cursor.Int());
        type.dim_order.push_back(dim);
      } while (cursor.Consume(","));
      COTAN_RETURN_IF_ERROR(cursor.Expect("}"));
    }
    return type;
  }

  absl::Status ParseInput(Cursor& cursor, InputKind kind, const std::vector<ValueId>& results,
                          const std::vector<std::string>& names) {
    if (results.size() != 1 || results[0] == kNoValue) return absl::InvalidArgumentError("an input defines one value");
    GraphInput input{.value = results[0], .kind = kind, .name = ""};
    COTAN_RETURN_IF_ERROR(cursor.Expect(" "));
    COTAN_ASSIGN_OR_RETURN(input.index, cursor.Int());
    COTAN_RETURN_IF_ERROR(cursor.Expect(" "));
    COTAN_ASSIGN_OR_RETURN(input.name, cursor.String());
    input.without_version_check = cursor.Consume(kWithoutVersionCheck);
    if (graph_.value(input.value).name.empty()) graph_.value(input.value).name = input.name;
    graph_.inputs().push_back(std::move(input));
    return Define(results, names);
  }

  absl::Status ParseOutput(Cursor& cursor, OutputKind kind) {
    GraphOutput output{.kind = kind, .name = ""};
    COTAN_ASSIGN_OR_RETURN(output.index, cursor.Int());
    COTAN_RETURN_IF_ERROR(cursor.Expect(" "));
    COTAN_ASSIGN_OR_RETURN(output.name, cursor.String());
    COTAN_RETURN_IF_ERROR(cursor.Expect(" = "));
    COTAN_ASSIGN_OR_RETURN(output.value, ParseValueOrNone(cursor));
    output.without_version_check = cursor.Consume(kWithoutVersionCheck);
    graph_.outputs().push_back(std::move(output));
    return absl::OkStatus();
  }

  absl::StatusOr<ValueId> ParseValueOrNone(Cursor& cursor) {
    if (cursor.Consume("none")) return kNoValue;
    const std::string name = cursor.Consume("%") ? absl::StrCat("%", cursor.Word()) : "";
    const auto it = values_.find(name);
    if (it == values_.end()) return cursor.Error(absl::StrCat("value '", name, "' is not defined before"));
    return it->second;
  }

  absl::Status ParseNode(Cursor& cursor, std::string op, const std::vector<ValueId>& results) {
    Node node{std::move(op), {}, results, "", nullptr};
    COTAN_RETURN_IF_ERROR(cursor.Expect("("));
    if (!cursor.Consume(")")) {
      do {
        COTAN_ASSIGN_OR_RETURN(Argument argument, ParseArgument(cursor));
        node.arguments.push_back(std::move(argument));
      } while (cursor.Consume(", "));
      COTAN_RETURN_IF_ERROR(cursor.Expect(")"));
    }
    if (cursor.Consume(" from ")) {
      COTAN_ASSIGN_OR_RETURN(node.source, cursor.String());
    }
    if (cursor.Consume(" {")) COTAN_RETURN_IF_ERROR(ParseBody(node));
    if (!cursor.AtEnd()) return cursor.Error("unexpected text");
    graph_.nodes().push_back(std::move(node));
    return absl::OkStatus();
  }

  absl::Status ParseBody(Node& node) {
    std::vector<absl::string_view> body;
    while (NextLine() && current_ != "}") body.push_back(current_);
    COTAN_ASSIGN_OR_RETURN(serialization::Expr expr, ParseExpr(body));
    node.expr = std::make_shared<const serialization::Expr>(std::move(expr));
    return absl::OkStatus();
  }

  absl::StatusOr<Argument> ParseArgument(Cursor& cursor) {
    if (cursor.Consume("none")) return Argument(None{});
    if (cursor.Peek() == '%') {
      COTAN_ASSIGN_OR_RETURN(const ValueId id, ParseValueOrNone(cursor));
      return Argument(Use{id});
    }
    if (cursor.Peek() == '"') {
      COTAN_ASSIGN_OR_RETURN(std::string text, cursor.String());
      return Argument(std::move(text));
    }
    if (cursor.Consume("{")) return ParseItems<Use>(cursor, "}");
    if (cursor.Consume("floats[")) return ParseItems<double>(cursor, "]");
    if (cursor.Consume("bools[")) return ParseItems<bool>(cursor, "]");
    if (cursor.Consume("[")) return ParseItems<SymInt>(cursor, "]");
    return ParseScalar(absl::StripAsciiWhitespace(cursor.Item()));
  }

  static absl::StatusOr<Argument> ParseScalar(absl::string_view item) {
    if (item == "true" || item == "false") return Argument(item == "true");
    if (const absl::StatusOr<SymInt> size = SymInt::Parse(item); size.ok()) return Argument(*size);
    if (const absl::StatusOr<DType> dtype = ParseDType(item); dtype.ok()) return Argument(*dtype);
    double number = 0;
    if (absl::SimpleAtod(item, &number)) return Argument(number);
    return absl::InvalidArgumentError(absl::StrCat("'", item, "' is not an argument"));
  }

  template <typename T>
  absl::StatusOr<Argument> ParseItems(Cursor& cursor, absl::string_view close) {
    std::vector<T> items;
    if (cursor.Consume(close)) return Argument(std::move(items));
    do {
      COTAN_ASSIGN_OR_RETURN(T item, ParseItem(cursor, T()));
      items.push_back(std::move(item));
    } while (cursor.Consume(", "));
    COTAN_RETURN_IF_ERROR(cursor.Expect(close));
    return Argument(std::move(items));
  }

  absl::StatusOr<Use> ParseItem(Cursor& cursor, Use) {
    COTAN_ASSIGN_OR_RETURN(const ValueId id, ParseValueOrNone(cursor));
    return Use{id};
  }
  absl::StatusOr<SymInt> ParseItem(Cursor& cursor, SymInt) { return cursor.Size(); }
  absl::StatusOr<double> ParseItem(Cursor& cursor, double) {
    double number = 0;
    if (!absl::SimpleAtod(cursor.Item(), &number)) return cursor.Error("expected a number before");
    return number;
  }
  absl::StatusOr<bool> ParseItem(Cursor& cursor, bool) {
    const absl::string_view item = cursor.Item();
    if (item != "true" && item != "false") return cursor.Error("expected true or false before");
    return item == "true";
  }

  std::vector<absl::string_view> lines_;
  size_t line_ = 0;  // number of the current line, from 1
  absl::string_view current_;
  Graph graph_;
  absl::flat_hash_map<std::string, ValueId> values_;  // "%0" -> id
};

}  // namespace

absl::string_view InputKindName(InputKind kind) { return kInputKinds[static_cast<size_t>(kind)]; }
absl::string_view OutputKindName(OutputKind kind) { return kOutputKinds[static_cast<size_t>(kind)]; }

std::string PrintType(const TensorType& type) {
  std::string text =
      absl::StrCat(DTypeName(type.dtype), "[", absl::StrJoin(type.sizes, ",", absl::StreamFormatter()), "]");
  if (!type.dim_order.empty()) absl::StrAppend(&text, "{", absl::StrJoin(type.dim_order, ","), "}");
  return text;
}

std::string PrintNode(const Graph& graph, const Node& node) {
  return PrintNodeWith(graph, node, Numbering(graph.num_values()));
}

std::string PrintGraph(const Graph& graph) {
  Numbering numbering;
  std::string text = absl::StrCat("graph @", graph.name, " {\n");
  for (const GraphInput& input : graph.inputs()) {
    numbering.Define(input.value);
    absl::StrAppend(&text, "  ", PrintDefinition(graph, numbering, input.value, input.name), " = ",
                    InputKindName(input.kind), " ", input.index, " ", Quote(input.name),
                    input.without_version_check ? kWithoutVersionCheck : "", "\n");
  }
  for (const Node& node : graph.nodes()) {
    for (const ValueId output : node.outputs) {
      if (output != kNoValue) numbering.Define(output);
    }
    absl::StrAppend(&text, "  ", PrintNodeWith(graph, node, numbering), "\n");
  }
  for (const GraphOutput& output : graph.outputs()) {
    absl::StrAppend(&text, "  ", OutputKindName(output.kind), " ", output.index, " ", Quote(output.name), " = ",
                    numbering.Name(output.value), output.without_version_check ? kWithoutVersionCheck : "", "\n");
  }
  return text + "}\n";
}

absl::StatusOr<Graph> ParseGraph(absl::string_view text) { return GraphParser(text).Parse(); }

}  // namespace cotan::aot
