// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/graph_text.h"

#include <complex>
#include <cstdint>
#include <optional>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/dtype.h"

namespace cotan::aot::pt2 {
namespace {

// Appends a number with all of its digits.
void AppendReal(double value, std::string& text) { absl::StrAppendFormat(&text, "%.17g", value); }

// Appends a text that ends where its length says.
void AppendText(const std::string& value, std::string& text) { absl::StrAppend(&text, value.size(), ":", value); }

}  // namespace

std::vector<std::string> NamesIn(const Argument& argument) {
  std::vector<std::string> names;
  if (const Name* name = std::get_if<Name>(&argument)) names.push_back(name->name);
  if (const Tensors* tensors = std::get_if<Tensors>(&argument)) {
    for (const std::optional<Name>& tensor : *tensors) {
      if (tensor.has_value()) names.push_back(tensor->name);
    }
  }
  if (const auto* numbers = std::get_if<std::vector<Number>>(&argument)) {
    for (const Number& number : *numbers) {
      if (const Name* name = std::get_if<Name>(&number)) names.push_back(name->name);
    }
  }
  return names;
}

std::vector<std::string> InputNames(const Node& node) {
  std::vector<std::string> names;
  for (const NamedArgument& input : node.inputs) {
    for (std::string& name : NamesIn(input.value)) names.push_back(std::move(name));
  }
  return names;
}

std::vector<std::string> OutputNames(const Node& node) {
  std::vector<std::string> names;
  for (const Argument& output : node.outputs) {
    for (std::string& name : NamesIn(output)) names.push_back(std::move(name));
  }
  return names;
}

// Appends an argument to the text; its kind is part of the text.
struct GraphText::Printer {
  GraphText& out;

  void operator()(NoValue) const { out.text_ += "none"; }
  void operator()(const Name& name) const { out.AddValue(name.name); }
  void operator()(const Tensors& tensors) const {
    out.text_ += "[";
    for (const std::optional<Name>& tensor : tensors) {
      if (tensor.has_value()) out.AddValue(tensor->name);
      out.text_ += ",";
    }
    out.text_ += "]";
  }
  void operator()(bool value) const { out.text_ += value ? "true" : "false"; }
  void operator()(int64_t value) const { absl::StrAppend(&out.text_, "i", value); }
  void operator()(double value) const { AppendReal(value, out.text_ += "f"); }
  void operator()(const std::complex<double>& value) const {
    AppendReal(value.real(), out.text_ += "c");
    AppendReal(value.imag(), out.text_ += ",");
  }
  void operator()(const std::string& value) const { AppendText(value, out.text_ += "s"); }
  void operator()(const std::vector<Number>& numbers) const {
    out.text_ += "(";
    for (const Number& number : numbers) {
      std::visit(*this, number);
      out.text_ += ",";
    }
    out.text_ += ")";
  }
  void operator()(const std::vector<std::string>& texts) const {
    for (const std::string& value : texts) AppendText(value, out.text_ += "l");
  }
  void operator()(DType dtype) const { absl::StrAppend(&out.text_, "dtype", static_cast<int>(dtype)); }
  void operator()(MemoryFormat format) const { absl::StrAppend(&out.text_, "format", format.code); }
  void operator()(Layout layout) const { absl::StrAppend(&out.text_, "layout", layout.code); }
  void operator()(const Device& device) const { AppendText(device.type, out.text_ += "device"); }
  void operator()(const Subgraph& subgraph) const {
    GraphText inner([](const std::string&) { return std::string(); });
    for (const Argument& input : subgraph.graph->inputs) inner.AddArgument(input);
    for (const Node& node : subgraph.graph->nodes) inner.Add(node);
    for (const Argument& output : subgraph.graph->outputs) inner.AddArgument(output);
    absl::StrAppend(&out.text_, "{", inner.text_, "}");
  }
  void operator()(const Unsupported& unsupported) const { AppendText(unsupported.kind, out.text_ += "unsupported"); }
};

void GraphText::AddValue(const std::string& name) {
  const auto [entry, is_new] = numbers_.try_emplace(name, static_cast<int>(numbers_.size()));
  absl::StrAppend(&text_, "%", entry->second);
  if (is_new) absl::StrAppend(&text_, "<", describe_(name), ">");
}

void GraphText::AddArgument(const Argument& argument) {
  std::visit(Printer{*this}, argument);
  text_ += ";";
}

void GraphText::Add(const Node& node) {
  absl::StrAppend(&text_, node.target, "(");
  for (const NamedArgument& input : node.inputs) {
    absl::StrAppend(&text_, input.name, "=");
    AddArgument(input.value);
  }
  text_ += ")";
  for (const Argument& output : node.outputs) {
    for (const std::string& name : NamesIn(output)) numbers_.try_emplace(name, static_cast<int>(numbers_.size()));
    AddArgument(output);
  }
  text_ += "\n";
}

void GraphText::AddResults(const std::vector<std::string>& names) {
  for (const std::string& name : names) AddValue(name);
}

}  // namespace cotan::aot::pt2
