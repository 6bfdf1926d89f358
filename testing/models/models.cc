// SPDX-License-Identifier: Apache-2.0

#include "testing/models/models.h"

#include "testing/models/networks.h"

namespace cotan::testing {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

torch::Tensor CrossEntropy(torch::Tensor output, torch::Tensor label) { return F::cross_entropy(output, label); }
torch::Tensor MeanSquaredError(torch::Tensor output, torch::Tensor label) { return F::mse_loss(output, label); }
torch::Tensor BinaryCrossEntropy(torch::Tensor output, torch::Tensor label) {
  return F::binary_cross_entropy(output, label);
}
torch::Tensor BinaryCrossEntropyWithLogits(torch::Tensor output, torch::Tensor label) {
  return F::binary_cross_entropy_with_logits(output, label);
}

using Draw = std::function<torch::Tensor(at::Generator)>;

Draw Normal(std::vector<int64_t> sizes) {
  return [sizes](at::Generator generator) { return torch::randn(sizes, generator); };
}
Draw Uniform(std::vector<int64_t> sizes) {
  return [sizes](at::Generator generator) { return torch::rand(sizes, generator); };
}
// Class or token ids in [0, classes).
Draw Ids(int64_t classes, std::vector<int64_t> sizes) {
  return [=](at::Generator generator) { return torch::randint(0, classes, sizes, generator, torch::kInt64); };
}
// 0 or 1, as floats.
Draw Bits(std::vector<int64_t> sizes) {
  return [sizes](at::Generator generator) { return torch::randint(0, 2, sizes, generator, torch::kFloat32); };
}

std::shared_ptr<Network> MakeChain(nn::Sequential layers) { return std::make_shared<Chain>(std::move(layers)); }

nn::Conv2d Conv(int64_t in_channels, int64_t out_channels, int64_t kernel, int64_t padding) {
  return nn::Conv2d(nn::Conv2dOptions(in_channels, out_channels, kernel).padding(padding));
}

std::shared_ptr<Network> MakeMlp() {
  return MakeChain(
      nn::Sequential(nn::Linear(784, 256), nn::ReLU(), nn::Linear(256, 128), nn::ReLU(), nn::Linear(128, 10)));
}

std::shared_ptr<Network> MakeCnn() {
  return MakeChain(nn::Sequential(Conv(1, 16, 3, 1), nn::BatchNorm2d(16), nn::ReLU(), nn::MaxPool2d(2),
                                  Conv(16, 32, 3, 1), nn::BatchNorm2d(32), nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(),
                                  nn::Linear(32 * 49, 10)));
}

std::shared_ptr<Network> MakeResnet() {
  nn::Sequential layers(nn::Conv2d(nn::Conv2dOptions(3, 32, 3).padding(1).bias(false)), nn::BatchNorm2d(32), nn::ReLU(),
                        ResidualBlock(32, 32, 1), ResidualBlock(32, 64, 2), ResidualBlock(64, 128, 2),
                        nn::AdaptiveAvgPool2d(1), nn::Flatten(), nn::Linear(128, 10));
  return MakeChain(std::move(layers));
}

std::shared_ptr<Network> MakeTransformer(TransformerOptions options) { return std::make_shared<Transformer>(options); }

std::shared_ptr<Network> MakeLenet() {
  return MakeChain(nn::Sequential(Conv(1, 6, 5, 2), nn::Tanh(), nn::AvgPool2d(2), Conv(6, 16, 5, 0), nn::Tanh(),
                                  nn::AvgPool2d(2), nn::Flatten(), nn::Linear(400, 120), nn::Tanh(),
                                  nn::Linear(120, 84), nn::Tanh(), nn::Linear(84, 10)));
}

std::shared_ptr<Network> MakeDropoutCnn() {
  return MakeChain(nn::Sequential(Conv(1, 8, 3, 1), nn::BatchNorm2d(8), nn::ReLU(), nn::MaxPool2d(2), Conv(8, 16, 3, 1),
                                  nn::BatchNorm2d(16), nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(), nn::Dropout(0.25),
                                  nn::Linear(16 * 49, 32), nn::ReLU(), nn::Dropout(0.5), nn::Linear(32, 10)));
}

std::shared_ptr<Network> MakeRegression() {
  return MakeChain(
      nn::Sequential(nn::Linear(13, 32), nn::SiLU(), nn::LayerNorm(nn::LayerNormOptions({32})), nn::Linear(32, 3)));
}

std::shared_ptr<Network> MakeBinary() {
  return MakeChain(nn::Sequential(nn::Linear(20, 16), nn::ELU(), nn::Linear(16, 1), nn::Sigmoid()));
}

std::shared_ptr<Network> MakeLogits() {
  return MakeChain(nn::Sequential(nn::Linear(20, 16), nn::LeakyReLU(), nn::BatchNorm1d(16), nn::Linear(16, 4)));
}

using LstmTagger = Tagger<nn::LSTM, nn::LSTMOptions>;
using GruTagger = Tagger<nn::GRU, nn::GRUOptions>;
using RnnTagger = Tagger<nn::RNN, nn::RNNOptions>;

std::vector<ModelCase> MakeModels() {
  const TaggerOptions tagger;
  TaggerOptions small;
  small.vocabulary = 32, small.width = 16, small.hidden = 12;
  TaggerOptions both_ways = small;
  both_ways.layers = 2, both_ways.bidirectional = true;
  const TransformerOptions gpt;
  TransformerOptions tied;
  tied.vocabulary = 96, tied.width = 32, tied.heads = 2, tied.layers = 2, tied.context = 16;
  tied.tie_embedding = true;
  TransformerOptions dropping = tied;
  dropping.dropout = 0.1, dropping.tie_embedding = false;
  return {
      {"mlp", "784-256-128-10 perceptron, batch 32", MakeMlp, CrossEntropy, Normal({32, 784}), Ids(10, {32})},
      {"cnn", "two conv + batch norm + ReLU + max pool, 28 x 28, batch 32", MakeCnn, CrossEntropy,
       Normal({32, 1, 28, 28}), Ids(10, {32})},
      {"gpt", "decoder-only transformer, 4 layers of width 128, 64 tokens, batch 8",
       [=] { return MakeTransformer(gpt); }, CrossEntropy, Ids(512, {8, 64}), Ids(512, {8 * 64})},
      {"resnet", "three residual blocks 32-64-128, 32 x 32, batch 16", MakeResnet, CrossEntropy,
       Normal({16, 3, 32, 32}), Ids(10, {16})},
      {"lstm", "LSTM of width 128 that tags 64 tokens, batch 16", [=] { return std::make_shared<LstmTagger>(tagger); },
       CrossEntropy, Ids(64, {16, 64}), Ids(64, {16 * 64})},
      {"gru", "GRU of width 128 that tags 64 tokens, batch 16", [=] { return std::make_shared<GruTagger>(tagger); },
       CrossEntropy, Ids(64, {16, 64}), Ids(64, {16 * 64})},
      {"lenet", "LeNet-5 with tanh and average pooling, batch 8", MakeLenet, CrossEntropy, Normal({8, 1, 28, 28}),
       Ids(10, {8})},
      {"dropout_cnn", "convolutions with batch norm and dropout, batch 8", MakeDropoutCnn, CrossEntropy,
       Normal({8, 1, 28, 28}), Ids(10, {8})},
      {"dropout_gpt", "small transformer with dropout, batch 4", [=] { return MakeTransformer(dropping); },
       CrossEntropy, Ids(96, {4, 16}), Ids(96, {4 * 16})},
      {"tied_gpt", "small transformer whose output layer is its embedding, batch 4",
       [=] { return MakeTransformer(tied); }, CrossEntropy, Ids(96, {4, 16}), Ids(96, {4 * 16})},
      {"deep_lstm", "two layers of LSTM in both directions, 16 tokens, batch 4",
       [=] { return std::make_shared<LstmTagger>(both_ways); }, CrossEntropy, Ids(32, {4, 16}), Ids(32, {4 * 16})},
      {"rnn", "plain recurrent network, 16 tokens, batch 4", [=] { return std::make_shared<RnnTagger>(small); },
       CrossEntropy, Ids(32, {4, 16}), Ids(32, {4 * 16})},
      {"tied_autoencoder", "encoder and decoder share a weight, squared error, batch 8",
       [] { return std::make_shared<TiedAutoencoder>(24, 8); }, MeanSquaredError, Normal({8, 24}), Normal({8, 24})},
      {"regression", "SiLU and layer norm, squared error, batch 16", MakeRegression, MeanSquaredError, Normal({16, 13}),
       Normal({16, 3})},
      {"binary", "sigmoid output, binary cross entropy, batch 16", MakeBinary, BinaryCrossEntropy, Normal({16, 20}),
       Uniform({16, 1})},
      {"logits", "batch norm, binary cross entropy with logits, batch 16", MakeLogits, BinaryCrossEntropyWithLogits,
       Normal({16, 20}), Bits({16, 4})},
  };
}

}  // namespace

const std::vector<ModelCase>& AllModels() {
  static const auto* models = new std::vector<ModelCase>(MakeModels());
  return *models;
}

std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  for (const ModelCase& model : AllModels()) names.push_back(model.name);
  return names;
}

const ModelCase* FindModel(const std::string& name) {
  for (const ModelCase& model : AllModels()) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

}  // namespace cotan::testing
