#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shared/drafting/bundle_config.h"
#include "shared/drafting/draft_network.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/drafting/network_drafter.h"
#include "shared/model/config.h"
#include "shared/model/decoder_tensors.h"
#include "shared/runtime/kv_cache.h"
#include "shared/runtime/layer.h"
#include "shared/runtime/weight_store.h"

namespace edgedraft {

// A network of one decoder layer over the target's features. Absent norms are not computed.
struct FeatureModel {
  BundleConfig sizes;
  LayerPlan plan;   // attention of its own; width of the target's residual stream
  RopeConfig rope;  // position = index of the input
  // Whether the first token is an input, too, with a feature of zeros. An input's index is then
  // its token's position, else its feature's.
  bool has_first = false;
  // Whether the layer's queries, keys and values read embedding and feature side by side, without
  // fc; the residual stream then starts with the feature. The head reads outputs of the layer
  // alone, since the target's features are of another space.
  bool is_joined = false;
  bool starts_normed = false;  // is_joined: the residual stream starts with the normed feature

  TensorView token_embd;             // [vocabulary, dim]
  std::optional<TensorView> output;  // [head_rows, dim]; absent if the head is the embedding
  TensorView embedding_norm;         // [1, dim]
  TensorView feature_norm;           // [1, dim]
  TensorView fc_embedding;           // [dim, dim]: multiplies the token's embedding
  TensorView fc_feature;             // [dim, dim]: multiplies the feature
  TensorView fc_bias;                // [1, dim] or absent
  LayerTensors layer;
  TensorView output_norm;  // [1, dim]: turns the layer's output into a feature
  TensorView head_norm;    // [1, dim]: of what the head reads
};

// Weights, tables and scratch shared by all sequences of a drafter. One sequence computes at a
// time.
class FeatureWeights {
 public:
  // Requires  the bytes of the tensors outlive the object
  FeatureWeights(Backend& backend, const FeatureModel& model, std::uint32_t positions_max);

  // Bytes per sequence: keys and values, and features.
  std::uint64_t sequence_bytes() const;

 private:
  friend class FeatureNetwork;

  std::uint32_t input_count() const { return positions_max_ + first_; }

  Backend& backend_;
  BundleConfig sizes_;
  std::uint32_t dim_;
  std::uint32_t first_;  // 1 if the first token is an input, else 0
  bool is_joined_;
  bool starts_normed_;
  std::uint32_t positions_max_;
  WeightStore store_;
  OwnedMatrix cos_sin_;
  Weight embedding_;
  Weight head_;
  Weight embedding_norm_;
  Weight feature_norm_;
  Weight fc_embedding_;
  Weight fc_feature_;
  Weight fc_bias_;
  Weight output_norm_;
  Weight head_norm_;
  Layer layer_;
  LayerScratch scratch_;
  HeadShape gather_heads_;  // the columns of a feature, as heads
  OwnedMatrix x_;
  OwnedMatrix embedded_;
  OwnedMatrix joined_;  // [embedding; feature]; one column if not is_joined_
  OwnedMatrix parents_;
  OwnedMatrix zeros_;
  std::unique_ptr<OwnedMatrix> logits_memory_;
};

// A network that continues the target's features. Input i is the feature of position i and the
// token after it, z_i = fc [norm(emb(x_{i+1})); norm(f_i)]. One layer turns it into the next
// feature, and the head turns that into logits.
//
// A feature is the target's own if it has arrived, else predicted. Positions after the newest true
// feature are predicted one after another, as drafts are. A true feature replaces the predicted one
// and everything derived from it. Older positions without a feature have no input: a long prompt's
// features arrive newest first. There is only one layer, so keys and values of an input with a true
// feature depend on that input alone. Inputs may arrive in any order.
//
// If no feature has arrived at all, prediction starts from a feature of zeros, some hundred tokens
// back (kOwnWindow): each costs a pass.
//
// If the first token is an input, positions inside the network are one greater: position 0 has a
// feature of zeros, which is always there, and a token that is never read.
//
// Joined (is_joined), the layer reads [norm(emb(x_{i+1})); norm(f_i)] and its output is both the
// predicted feature and, normed, what the head reads. The last token's output is computed even if
// its true feature has arrived.
//
// Source    EAGLE, section 4.1, and EAGLE-2; DeepSeek-V3 (2024), section 2.2; EAGLE-3, section 3.1
class FeatureNetwork : public DraftNetwork {
 public:
  // Requires  the bytes of the tensors outlive the network
  FeatureNetwork(Backend& backend, const FeatureModel& model, std::uint32_t positions_max);
  // One of several sequences; its logits are valid until any of them computes again.
  explicit FeatureNetwork(std::shared_ptr<FeatureWeights> weights);

  // Columns of a feature.
  std::uint32_t activation_cols() const { return m_->dim_; }
  // Adds the target's features of positions first, first + 1, ..., which may be ahead of the
  // tokens. Drops positions from position_count_max() on.
  // Shapes    rows [n * activation_cols()]
  void extend_memory(std::uint32_t first_position, std::span<const float> rows);
  // Drops the target's features from `position` on.
  void truncate_memory(std::uint32_t position);

  std::uint32_t vocabulary_count() const override { return m_->sizes_.vocabulary_count; }
  std::span<const std::uint32_t> draft_tokens() const override { return m_->sizes_.draft_tokens; }
  std::uint32_t committed_count() const override { return input_end() - m_->first_; }
  std::uint32_t position_count_max() const override { return m_->positions_max_; }
  void commit(std::span<const std::uint32_t> tokens) override;
  void truncate(std::uint32_t count) override;
  void expand(std::span<const GrowthNode> nodes, Leave leave = Leave::logits) override;
  Matrix logits() const override { return logits_; }
  Backend& backend() override { return backend_; }

 private:
  static constexpr std::uint32_t kOwnWindow = 128;

  // Positions below count those of the network, which has_first moves by one.

  std::uint32_t memory_count() const { return cache_.length(); }
  // Position after the last token.
  std::uint32_t input_end() const { return static_cast<std::uint32_t>(tokens_.size()); }
  // Position after the newest true feature that the tokens reach; 0 without any.
  std::uint32_t true_end() const;
  // Drops the inputs from `position` on.
  void drop_inputs(std::uint32_t position);
  // Adds inputs for features whose next token is now known.
  void add_inputs();
  void add_inputs(std::uint32_t first_position, std::uint32_t count);
  // Predicts the features up to the last token.
  void predict_features();
  // The layer's output for the input before `position`, in scratch memory.
  Matrix predict_feature(std::uint32_t position);
  // Slots after the memory that hold inputs with predicted features.
  std::uint32_t own_inputs() const { return own_end_ > own_first_ ? own_end_ - own_first_ - 1 : 0; }
  // Start of the residual stream, and what the layer's attention reads: the same unless joined.
  struct Inputs {
    Matrix x;         // [tokens, dim]
    Matrix attended;  // x, or [tokens, 2 * dim]
  };
  // fc [norm(emb(tokens)); norm(features)], or both side by side. Shapes    features [tokens, dim]
  Inputs fuse(std::span<const std::uint32_t> tokens, const Matrix& features);
  Inputs join(std::span<const std::uint32_t> tokens, const Matrix& features);
  // Turns inputs.x into features.
  void run_layer(const Inputs& inputs, const RowBatch& batch);
  // y = RMSNorm(x) if the model has this norm.
  void norm(const Weight& weight, const Matrix& x, const Matrix& y);
  void leave_logits(const Matrix& features);

  std::shared_ptr<FeatureWeights> m_;
  Backend& backend_;

  std::vector<std::uint32_t> tokens_;
  // By position: true if `is_true_`, else predicted up to own_end_.
  OwnedMatrix features_;
  std::vector<bool> is_true_;
  std::vector<bool> has_input_;  // its keys and values are in the memory
  // Slots: the memory, i.e. inputs with true features in order of arrival; inputs with predicted
  // features; draft rows.
  KvCache cache_;
  std::vector<std::uint32_t> input_positions_;  // positions of the memory's slots
  // Positions own_first_..own_end_ - 1 have predicted features.
  std::uint32_t own_first_ = 0;
  std::uint32_t own_end_ = 0;
  OwnedMatrix tree_features_;  // features of the last token, then of each draft row
  std::uint32_t draft_rows_ = 0;
  Matrix logits_;
};

// Members of kinds whose drafters are this network.
DrafterFacts feature_facts(const FeatureModel& model, std::string pace_name);
std::unique_ptr<DrafterWeights> load_feature_drafters(Backend& backend, const FeatureModel& model,
                                                      std::uint32_t positions_max);
std::unique_ptr<Tap> make_feature_tap(Backend& backend, const FeatureModel& model);

}  // namespace edgedraft
