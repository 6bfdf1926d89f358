// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/archive_builder.h"

#include <gtest/gtest.h>
#include <zip.h>

#include <algorithm>
#include <cstring>

namespace cotan::aot::pt2 {
namespace {

constexpr char kProgram[] = R"JSON({
  "graph_module": {
    "graph": {
      "inputs": [{"as_tensor": {"name": "p_weight"}}, {"as_tensor": {"name": "b_count"}}, {"as_tensor": {"name": "x"}}],
      "outputs": [{"as_tensor": {"name": "relu"}}],
      "nodes": [
        {"target": "torch.ops.aten.add_.Tensor", "metadata": {},
         "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "b_count"}}, "kind": 1},
                    {"name": "other", "arg": {"as_int": 1}, "kind": 1}],
         "outputs": [{"as_tensor": {"name": "add_"}}]},
        {"target": "torch.ops.aten.linear.default",
         "metadata": {"nn_module_stack": "L__self__,,Net;L__self___fc,fc,torch.nn.Linear"},
         "inputs": [{"name": "input", "arg": {"as_tensor": {"name": "x"}}, "kind": 1},
                    {"name": "weight", "arg": {"as_tensor": {"name": "p_weight"}}, "kind": 1}],
         "outputs": [{"as_tensor": {"name": "linear"}}]},
        {"target": "torch.ops.aten.add.Tensor", "metadata": {},
         "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "linear"}}, "kind": 1},
                    {"name": "other", "arg": {"as_tensor": {"name": "add_"}}, "kind": 1}],
         "outputs": [{"as_tensor": {"name": "add"}}]},
        {"target": "torch.ops.aten.relu.default", "metadata": {},
         "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "add"}}, "kind": 1}],
         "outputs": [{"as_tensor": {"name": "relu"}}]}
      ],
      "tensor_values": {
        "p_weight": {"dtype": 7, "sizes": [{"as_int": 4}, {"as_int": 3}], "requires_grad": true,
                     "device": {"type": "cpu", "index": null}, "strides": [{"as_int": 3}, {"as_int": 1}],
                     "storage_offset": {"as_int": 0}, "layout": 7},
        "b_count": {"dtype": 7, "sizes": [], "requires_grad": false, "device": {"type": "cpu", "index": null},
                    "strides": [], "storage_offset": {"as_int": 0}, "layout": 7},
        "x": {"dtype": 7, "sizes": [{"as_expr": {"expr_str": "Symbol('s0', positive=True, integer=True)",
                                                 "hint": {"as_int": 2}}}, {"as_int": 3}],
              "requires_grad": false, "device": {"type": "cpu", "index": null},
              "strides": [{"as_int": 3}, {"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7},
        "relu": {"dtype": 7, "sizes": [{"as_expr": {"expr_str": "Symbol('s0', positive=True, integer=True)",
                                                    "hint": {"as_int": 2}}}, {"as_int": 4}],
                 "requires_grad": true, "device": {"type": "cpu", "index": null},
                 "strides": [{"as_int": 4}, {"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7}
      },
      "sym_int_values": {}, "sym_bool_values": {}, "is_single_tensor_return": false, "custom_obj_values": {}
    },
    "signature": {
      "input_specs": [
        {"parameter": {"arg": {"name": "p_weight"}, "parameter_name": "fc.weight"}},
        {"buffer": {"arg": {"name": "b_count"}, "buffer_name": "count", "persistent": false}},
        {"user_input": {"arg": {"as_tensor": {"name": "x"}}}}
      ],
      "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "relu"}}}}]
    },
    "module_call_graph": [{"fqn": "", "signature": {
      "inputs": [], "outputs": [],
      "in_spec": "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}]}, {\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []}]}]",
      "out_spec": "[1, {\"type\": null, \"context\": null, \"children_spec\": []}]",
      "forward_arg_names": ["x"]}}],
    "metadata": {}, "treespec_namedtuple_fields": {}
  },
  "opset_version": {"aten": 10},
  "range_constraints": {"s0": {"min_val": 2, "max_val": 64}},
  "schema_version": {"major": 8, "minor": 17},
  "verifiers": ["TRAINING"],
  "torch_version": "2.11.0"
})JSON";

constexpr char kWeights[] = R"({"config": {"fc.weight": {"path_name": "weight_0", "is_param": true, "use_pickle": false,
  "tensor_meta": {"dtype": 7, "sizes": [{"as_int": 4}, {"as_int": 3}], "requires_grad": true,
                  "device": {"type": "cpu", "index": null}, "strides": [{"as_int": 3}, {"as_int": 1}],
                  "storage_offset": {"as_int": 0}, "layout": 7}}}})";

constexpr char kConstants[] = R"({"config": {"count": {"path_name": "tensor_0", "is_param": false, "use_pickle": false,
  "tensor_meta": {"dtype": 7, "sizes": [], "requires_grad": false, "device": {"type": "cpu", "index": null},
                  "strides": [], "storage_offset": {"as_int": 0}, "layout": 7}}}})";

// Returns the bytes of the floats 0, 1, 2, ...
std::string Floats(int count) {
  std::string bytes(static_cast<size_t>(count) * sizeof(float), '\0');
  for (int i = 0; i < count; ++i) {
    const auto value = static_cast<float>(i);
    std::memcpy(&bytes[static_cast<size_t>(i) * sizeof(float)], &value, sizeof(float));
  }
  return bytes;
}

// Instructions of a pickle.
std::string PickledText(const std::string& text) {
  std::string out = "X";
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>((text.size() >> (8 * i)) & 0xff));
  return out + text;
}

std::string PickledInt(int value) { return {'K', static_cast<char>(value)}; }

std::string PickledTuple(const std::vector<int>& values) {
  std::string out = "(";
  for (const int value : values) out += PickledInt(value);
  return out + "t";
}

// Returns a pickled row-major tensor that fills the storage `key`.
std::string PickledTensor(const std::string& key, const std::vector<int>& sizes) {
  std::vector<int> strides(sizes.size());
  int count = 1;
  for (size_t d = sizes.size(); d-- > 0; count *= sizes[d]) strides[d] = count;
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + PickledText("storage") + "ctorch\nFloatStorage\n" +
         PickledText(key) + PickledText("cpu") + PickledInt(count) + "tQ" + PickledInt(0) + PickledTuple(sizes) +
         PickledTuple(strides) + "\x89" + "ccollections\nOrderedDict\n)R" + "tR";
}

}  // namespace

std::string WriteArchive(const std::string& name, const ArchiveFiles& files, bool compressed) {
  const std::string path = ::testing::TempDir() + "/" + name;
  int error = 0;
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
  EXPECT_NE(archive, nullptr) << error;
  for (const auto& [file, content] : files) {
    zip_source_t* source = zip_source_buffer(archive, content.data(), content.size(), 0);
    const zip_int64_t index = zip_file_add(archive, file.c_str(), source, ZIP_FL_ENC_UTF_8);
    EXPECT_GE(index, 0) << zip_strerror(archive);
    zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), compressed ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
  }
  EXPECT_EQ(zip_close(archive), 0) << zip_strerror(archive);
  return path;
}

ArchiveFiles SmallModel() {
  return {{"m/models/model.json", kProgram},
          {"m/data/weights/model_weights_config.json", kWeights},
          {"m/data/weights/weight_0", Floats(12)},
          {"m/data/constants/model_constants_config.json", kConstants},
          {"m/data/constants/tensor_0", Floats(1)},
          {"m/archive_format", "pt2"},
          {"m/byteorder", "little"}};
}

ArchiveFiles SavedTensors(const std::vector<std::pair<std::string, std::vector<int>>>& sizes_by_name) {
  ArchiveFiles files = {{"archive/data.pkl", ""}, {"archive/byteorder", "little"}};
  std::string pickle = std::string("\x80\x02}", 3) + "(";
  for (const auto& [name, sizes] : sizes_by_name) {
    const std::string key = std::to_string(files.size() - 2);
    pickle += PickledText(name) + PickledTensor(key, sizes);
    int count = 1;
    for (const int size : sizes) count *= size;
    files.emplace_back("archive/data/" + key, Floats(count));
  }
  files[0].second = pickle + "u.";
  return files;
}

void Replace(ArchiveFiles& files, const std::string& file, const std::string& from, const std::string& to) {
  const auto found = std::find_if(files.begin(), files.end(), [&](const auto& entry) { return entry.first == file; });
  ASSERT_NE(found, files.end()) << file;
  const size_t at = found->second.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  found->second.replace(at, from.size(), to);
}

}  // namespace cotan::aot::pt2
