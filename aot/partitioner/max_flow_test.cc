// SPDX-License-Identifier: Apache-2.0

#include "aot/partitioner/max_flow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace cotan::aot {
namespace {

struct TestEdge {
  int from, to;
  int64_t capacity;
};

FlowNetwork NetworkOf(int num_nodes, const std::vector<TestEdge>& edges) {
  FlowNetwork network(num_nodes);
  for (const TestEdge& edge : edges) network.AddEdge(edge.from, edge.to, edge.capacity);
  return network;
}

// Returns the capacity of the edges that enter a set of nodes, given as bits.
int64_t CapacityInto(uint32_t set, const std::vector<TestEdge>& edges) {
  int64_t sum = 0;
  for (const TestEdge& edge : edges) {
    if ((set >> edge.from & 1) == 0 && (set >> edge.to & 1) == 1) {
      sum = std::min(sum + edge.capacity, FlowNetwork::kInfinite);
    }
  }
  return sum;
}

uint32_t Bits(const std::vector<bool>& set) {
  uint32_t bits = 0;
  for (size_t i = 0; i < set.size(); ++i) bits |= set[i] ? 1u << i : 0;
  return bits;
}

TEST(FlowNetworkTest, AnUnconnectedSinkGetsNothing) {
  FlowNetwork network = NetworkOf(3, {{0, 1, 5}});
  EXPECT_EQ(network.Maximize(0, 2), 0);
  EXPECT_EQ(network.SinkSide(), (std::vector<bool>{false, false, true}));
}

TEST(FlowNetworkTest, FlowMayBeTakenBack) {
  // The shortest path 0-1-4-5 blocks both others unless its flow returns over 4-1.
  FlowNetwork network = NetworkOf(6, {{0, 1, 1}, {1, 4, 1}, {4, 5, 1}, {0, 2, 1}, {2, 4, 1}, {1, 3, 1}, {3, 5, 1}});
  EXPECT_EQ(network.Maximize(0, 5), 2);
}

TEST(FlowNetworkTest, OfEqualCutsTheOneNextToTheSinkIsTaken) {
  FlowNetwork network = NetworkOf(4, {{0, 1, 3}, {1, 2, 3}, {2, 3, 3}});
  EXPECT_EQ(network.Maximize(0, 3), 3);
  EXPECT_EQ(network.SinkSide(), (std::vector<bool>{false, false, false, true}));
}

TEST(FlowNetworkTest, APathOfInfiniteEdgesIsInfinite) {
  FlowNetwork network = NetworkOf(3, {{0, 1, FlowNetwork::kInfinite}, {1, 2, FlowNetwork::kInfinite}, {0, 2, 4}});
  EXPECT_EQ(network.Maximize(0, 2), FlowNetwork::kInfinite);
}

TEST(FlowNetworkTest, InfiniteEdgesAreNeverCut) {
  FlowNetwork network = NetworkOf(4, {{0, 1, 7}, {0, 2, 8}, {1, 3, FlowNetwork::kInfinite}, {2, 3, 3}});
  EXPECT_EQ(network.Maximize(0, 3), 10);
  EXPECT_EQ(network.SinkSide(), (std::vector<bool>{false, true, false, true}));
}

// Compares with the smallest of all cuts.
TEST(FlowNetworkTest, RandomNetworksHaveTheFlowOfTheirSmallestCut) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 2000; ++trial) {
    const int num_nodes = 2 + static_cast<int>(random() % 8);
    std::vector<TestEdge> edges;
    const int num_edges = static_cast<int>(random() % 24);
    for (int i = 0; i < num_edges; ++i) {
      const int from = static_cast<int>(random() % num_nodes);
      const int to = static_cast<int>(random() % num_nodes);
      const int64_t capacity = random() % 10 == 0 ? FlowNetwork::kInfinite : static_cast<int64_t>(random() % 6);
      if (from != to) edges.push_back({from, to, capacity});
    }
    const int sink = num_nodes - 1;
    int64_t smallest = FlowNetwork::kInfinite;
    uint32_t next_to_sink = 0;  // the intersection of the sink sides of all smallest cuts
    for (uint32_t set = 0; set < 1u << num_nodes; ++set) {
      if ((set & 1) == 1 || (set >> sink & 1) == 0) continue;
      const int64_t capacity = CapacityInto(set, edges);
      if (capacity < smallest) {
        smallest = capacity;
        next_to_sink = set;
      } else if (capacity == smallest) {
        next_to_sink &= set;
      }
    }
    FlowNetwork network = NetworkOf(num_nodes, edges);
    ASSERT_EQ(network.Maximize(0, sink), smallest) << trial;
    if (smallest < FlowNetwork::kInfinite) {
      ASSERT_EQ(Bits(network.SinkSide()), next_to_sink) << trial;
    }
  }
}

// A layered network as deep as a large model, to bound time and stack.
TEST(FlowNetworkTest, DeepNetworksAreSolved) {
  constexpr int kLayers = 20000;
  FlowNetwork network(2 * kLayers + 2);
  network.AddEdge(2 * kLayers, 0, FlowNetwork::kInfinite);
  for (int i = 0; i < kLayers; ++i) {
    network.AddEdge(2 * i, 2 * i + 1, 100 + i % 7);
    network.AddEdge(2 * i + 1, i + 1 < kLayers ? 2 * i + 2 : 2 * kLayers + 1, FlowNetwork::kInfinite);
  }
  EXPECT_EQ(network.Maximize(2 * kLayers, 2 * kLayers + 1), 100);
}

}  // namespace
}  // namespace cotan::aot
