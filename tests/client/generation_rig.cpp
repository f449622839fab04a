#include "tests/client/generation_rig.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "netsim/lab/cut_link.h"
#include "shared/drafting/eagle/eagle_kind.h"
#include "shared/drafting/medusa/medusa_kind.h"
#include "tests/support/driven_answer.h"

namespace edgedraft::testing {
namespace {

AnswerEnd to_end(Finish finish) {
  if (finish == Finish::none) return AnswerEnd::tokens_max;
  return finish == Finish::end_token ? AnswerEnd::end_token : AnswerEnd::context;
}

// Whether `sent` stands in `known` from `first` on.
bool stands_at(std::span<const std::uint32_t> known, std::uint32_t first,
               std::span<const std::uint32_t> sent) {
  return first + sent.size() <= known.size() &&
         std::ranges::equal(known.subspan(first, sent.size()), sent);
}

}  // namespace

std::string name_of(ToyDrafter drafter) {
  // In the order of ToyDrafter.
  constexpr const char* kNames[] = {"none",          "moa_tli0",    "moa_tli1",     "moa_tli3",
                                    "moa_projected", "eagle",       "medusa",       "medusa_tree",
                                    "independent",   "moa_reduced", "twin_reduced", "twin",
                                    "hashed",        "noisy",       "lookup",       "moa_merged"};
  return kNames[static_cast<std::size_t>(drafter)];
}

Tokens reduced_tokens() {
  Tokens tokens{kToyEndToken};
  for (std::uint32_t token = kToyEndToken + 1; token < kToyVocabulary; token += 3) {
    tokens.push_back(token);
  }
  return tokens;
}

bool NoisyDrafter::grow(TreeGrowth& growth, const GrowthBudget&) {
  const DraftTree right = twin_.draft(growth.shape());
  growth.clear();
  growth.finish();
  std::vector<std::uint32_t> moved{0};
  for (std::uint32_t row = 1; row <= right.node_count(); ++row) {
    if (growth.candidate_count() + 3 > growth.shape().nodes) break;
    const std::uint32_t parent = moved[right.parent(row)];
    growth.add(static_cast<std::uint32_t>(random_.below(kToyVocabulary)), parent, 0.0f);
    if (random_.below(2) == 0) growth.add(right.token(row), parent, 0.0f);
    moved.push_back(growth.add(right.token(row), parent, 0.0f));
  }
  return true;
}

void Listener::on_token(std::uint32_t token, Provenance from) {
  tokens.push_back(token);
  provenance.push_back(from);
  if (also) also->on_token(token, from);
}

void Listener::on_confirmed(std::uint32_t first, std::uint32_t end) {
  ASSERT_LE(first, end);
  ASSERT_LE(end, tokens.size());
  for (std::uint32_t i = first; i < end; ++i) {
    if (provenance[i] == Provenance::offline) provenance[i] = Provenance::verified;
  }
  if (also) also->on_confirmed(first, end);
}

void Listener::on_kept(std::uint32_t count) {
  ASSERT_LE(count, tokens.size());
  kept = count;
  if (also) also->on_kept(count);
}

void Listener::on_rewrite(std::uint32_t index) {
  ASSERT_LE(index, tokens.size());
  ASSERT_GE(index, kept);
  tokens.resize(index);
  provenance.resize(index);
  if (also) also->on_rewrite(index);
}

void Listener::on_state(ClientState state, const std::string& reason) {
  EXPECT_FALSE(reason.empty());
  states.push_back(state);
  why = reason;
  if (also) also->on_state(state, reason);
}

std::uint32_t Answer::count(Provenance wanted) const {
  return static_cast<std::uint32_t>(std::ranges::count(provenance, wanted));
}

void expect_same(const Answer& answer, const Answer& plain) {
  EXPECT_EQ(answer.tokens, plain.tokens);
  EXPECT_EQ(answer.provenance, plain.provenance);
  EXPECT_EQ(answer.end, plain.end);
}

GenerationRig::GenerationRig(const Options& options) : options_(options) {
  drafter_ = options.device_fault ? make_fallback_drafter() : make_drafter(*backend_);
  const auto states = tap_ ? tap_->states() : std::span<const std::uint32_t>();
  decoder_ = std::make_unique<Decoder>(*backend_, toy_.config, toy_.tensors, kRigContext,
                                       std::vector<std::uint32_t>(states.begin(), states.end()));
  target_.emplace(LocalTarget::Parts{
      .decoder = *decoder_, .tap = tap_.get(), .context_count = kRigContext, .is_end = is_toy_end});
  auto link = std::make_unique<LocalLink>(LocalLink::Options{
      .target = *target_,
      .now = now_,
      .nodes_max = options.nodes_max,
      .holds_rows_back = options.holds_rows_back,
      .rows_after_calls = options.rows_after_calls,
      .faults = options.faults,
      .on_request = [this](const SeenRequest& request) { check_request(request); }});
  link_ = link.get();
  way_ = std::move(link);
  if (options.offline_after) {
    way_ = std::make_unique<CutLink>(std::move(way_), *options.offline_after, "cut off");
  }
  generation_.emplace(
      Generation::Parts{.link = *way_,
                        .drafter = drafter_.get(),
                        .writer = options.twin_writes ? &writer_ : nullptr,
                        .observer = listener_,
                        .is_end = is_toy_end,
                        .now = [this] { return now_; },
                        .on_cycle = [this](const CycleRecord& cycle) { cycles_.push_back(cycle); }},
      GenerationOptions{.tree = options.tree,
                        .tokens_max = options.tokens_max,
                        .context_count = options.drafter_context,
                        .sampling = options.sampling,
                        .deadline = std::chrono::milliseconds(40),
                        .resync = options.resync,
                        .resync_wait = options.resync_wait});
}

std::unique_ptr<Drafter> GenerationRig::make_moa(Backend& backend, std::uint32_t tli,
                                                 std::uint32_t ca_kv_heads) {
  if (!toy_moa_) {
    toy_moa_.emplace(toy_, 3, tli, ca_kv_heads);
    if (options_.drafter == ToyDrafter::moa_reduced) {
      reduce_vocabulary(*toy_moa_, reduced_tokens());
    }
    tap_ = std::make_unique<MoaTap>(*backend_, toy_moa_->config, toy_moa_->tensors);
  }
  return std::make_unique<MoaDrafter>(backend, toy_moa_->config, toy_moa_->tensors,
                                      options_.drafter_context);
}

std::unique_ptr<Drafter> GenerationRig::make_fed(Backend& backend, const DrafterModel& model) {
  if (!tap_) tap_ = model.make_tap(*backend_);
  return model.load(backend, options_.drafter_context)->make_drafter();
}

std::unique_ptr<Drafter> GenerationRig::make_drafter(Backend& backend) {
  const auto independent = [&](const ToyDecoder& toy) {
    return std::make_unique<IndependentDrafter>(backend, toy.config, toy.tensors,
                                                options_.drafter_context);
  };
  switch (options_.drafter) {
    case ToyDrafter::none:
      break;
    case ToyDrafter::moa_tli0:
      return make_moa(backend, 0, 2);
    case ToyDrafter::moa_tli1:
    case ToyDrafter::moa_reduced:
      return make_moa(backend, 1, 2);
    case ToyDrafter::moa_tli3:
      return make_moa(backend, 3, 2);
    case ToyDrafter::moa_projected:
      return make_moa(backend, 1, 1);
    case ToyDrafter::eagle: {
      static const ToyDecoder target(6);
      static const ToyEagle fed(target, 3);
      return make_fed(backend, *make_eagle_model({.config = fed.config, .tensors = fed.tensors}));
    }
    case ToyDrafter::medusa:
    case ToyDrafter::medusa_tree: {
      static const ToyDecoder target(6);
      static const ToyMedusa heads(target, 3, HeadOutputs::shared);
      MedusaModel model{.config = heads.config, .tensors = heads.tensors};
      if (options_.drafter == ToyDrafter::medusa_tree) {
        model.config.tree = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {3, 0}, {5, 0}};
      }
      return make_fed(backend, *make_medusa_model(std::move(model)));
    }
    case ToyDrafter::independent: {
      static const ToyDecoder other(11, 1);
      return independent(other);
    }
    case ToyDrafter::twin_reduced: {
      static const ToyDecoder reduced = [] {
        ToyDecoder toy(6);
        reduce_vocabulary(toy, reduced_tokens());
        return toy;
      }();
      return independent(reduced);
    }
    case ToyDrafter::twin:
      return independent(toy_);
    case ToyDrafter::hashed:
      return std::make_unique<HashedDrafter>();
    case ToyDrafter::noisy:
      twin_ = independent(toy_);
      return std::make_unique<NoisyDrafter>(*twin_, 17);
    case ToyDrafter::lookup:
      return std::make_unique<NgramDrafter>(lookup_tree, options_.drafter_context);
    case ToyDrafter::moa_merged: {
      std::vector<std::unique_ptr<Drafter>> drafters;
      drafters.push_back(make_moa(backend, 1, 2));
      drafters.push_back(std::make_unique<NgramDrafter>(adaptive_tree, options_.drafter_context));
      return std::make_unique<MergedDrafter>(std::move(drafters));
    }
  }
  return nullptr;
}

std::unique_ptr<Drafter> GenerationRig::make_fallback_drafter() {
  const auto place = [this](std::unique_ptr<Backend> backend) {
    devices_.push_back(std::move(backend));
    return make_drafter(*devices_.back());
  };
  return std::make_unique<FallbackDrafter>(FallbackDrafter::Options{
      .first =
          [this, place] {
            return place(std::make_unique<FailingBackend>(
                options_.make_device ? options_.make_device() : make_cpu_backend({.threads = 1}),
                *options_.device_fault));
          },
      .second = [place] { return place(make_cpu_backend({.threads = 1})); },
      .on_failure = [this](const std::string& why) { device_failures_.push_back(why); }});
}

// Only what the ledger holds, and drafts behind all of it, may go up.
void GenerationRig::check_request(const SeenRequest& request) {
  const auto known = generation_->ledger().tokens();
  if (const auto* prefill = std::get_if<wire::Prefill>(&request)) {
    EXPECT_TRUE(stands_at(known, prefill->base_length, prefill->tokens));
  } else if (const auto* resume = std::get_if<wire::Resume>(&request)) {
    EXPECT_TRUE(stands_at(known, resume->verified_length, resume->tokens));
    EXPECT_EQ(resume->verified_hash, token_hash(known.first(resume->verified_length)));
  } else if (const auto* hints = std::get_if<wire::Hints>(&request)) {
    EXPECT_EQ(hints->position, known.size());
    EXPECT_TRUE(hints->complete);
    EXPECT_LE(hints->nodes.size(), options_.nodes_max);
    chunks_before_drafts_.push_back(link_->chunk_count());
  }
  requests_.push_back(request);
}

bool GenerationRig::cancelled() {
  return looks_until_cancel_ > 0 && --looks_until_cancel_ == 0;
}

Result<AnswerEnd> GenerationRig::try_answer(const Tokens& prompt) {
  listener_ = Listener(listener_.also);
  generation_->begin(prompt);
  return drive_to_end();
}

Result<AnswerEnd> GenerationRig::drive_to_end() {
  return drive(
      *generation_, *way_, [this] { return now_; }, [this] { return cancelled(); });
}

Answer GenerationRig::answer(const Tokens& prompt) {
  const auto end = try_answer(prompt);
  if (!end) ADD_FAILURE() << end.error().message;
  return end ? collect(*end) : Answer();
}

std::optional<Answer> GenerationRig::settle() {
  if (!generation_->begin_check()) return std::nullopt;
  const auto end = drive_to_end();
  if (!end) ADD_FAILURE() << end.error().message;
  return end ? std::optional(collect(*end)) : std::nullopt;
}

Answer GenerationRig::collect(AnswerEnd end) {
  const TaintLedger& ledger = generation_->ledger();
  Answer answer{.tokens = {}, .provenance = {}, .end = end, .stats = generation_->stats()};
  for (std::uint32_t i = generation_->answer_first(); i < ledger.count(); ++i) {
    answer.tokens.push_back(ledger.tokens()[i]);
    answer.provenance.push_back(ledger.provenance(i));
  }
  EXPECT_EQ(answer.tokens, listener_.tokens);
  EXPECT_EQ(answer.provenance, listener_.provenance);
  EXPECT_EQ(answer.stats.tokens, answer.tokens.size());
  return answer;
}

Answer GenerationRig::plain(const Tokens& prompt) {
  TargetSession session(*decoder_, kRigContext, is_toy_end);
  const auto first =
      session.prefill({.base_count = 0, .tokens = prompt, .sampling = options_.sampling}).value();
  Answer answer;
  answer.tokens.push_back(first.next);
  Finish finish = first.finish;
  while (finish == Finish::none && answer.tokens.size() < options_.tokens_max) {
    const VerifiedPath path = session.verify(DraftTree()).value();
    answer.tokens.push_back(path.next);
    finish = path.finish;
  }
  answer.end = to_end(finish);
  answer.provenance.assign(answer.tokens.size(), Provenance::verified);
  return answer;
}

std::uint32_t GenerationRig::choice(const Tokens& tokens, std::uint32_t count) {
  TargetSession session(*decoder_, kRigContext, is_toy_end);
  return session
      .prefill({.base_count = 0,
                .tokens = std::span(tokens).first(count),
                .sampling = options_.sampling})
      ->next;
}

}  // namespace edgedraft::testing
