#include "tests/client/generation_rig.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "netsim/lab/cut_link.h"
#include "tests/support/driven_answer.h"

namespace edgedraft::testing {
namespace {

GenerationEnd to_end(Finish finish) {
  if (finish == Finish::none) return GenerationEnd::tokens_max;
  return finish == Finish::end_token ? GenerationEnd::end_token : GenerationEnd::context;
}

// True if `known` contains `sent` from `first` on.
bool stands_at(std::span<const std::uint32_t> known, std::uint32_t first,
               std::span<const std::uint32_t> sent) {
  return first + sent.size() <= known.size() &&
         std::ranges::equal(known.subspan(first, sent.size()), sent);
}

}  // namespace

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
  drafter_ = options.device_fault ? make_fallback_drafter() : drafters_.make(*backend_);
  auto link = std::make_unique<LocalLink>(LocalLink::Options{
      .target = target_,
      .now = now_,
      .holds_rows_back = options.holds_rows_back,
      .rows_after_calls = options.rows_after_calls,
      .faults = options.faults,
      .on_request = [this](const SeenRequest& request) { check_request(request); }});
  link_ = link.get();
  way_ = std::move(link);
  if (options.offline_after) {
    way_ = std::make_unique<lab::CutLink>(std::move(way_), *options.offline_after, "cut off");
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

std::unique_ptr<Drafter> GenerationRig::make_fallback_drafter() {
  const auto place = [this](std::unique_ptr<Backend> backend) {
    devices_.push_back(std::move(backend));
    return drafters_.make(*devices_.back());
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

// Only tokens in the ledger, and drafts after all of them, may go up.
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
    EXPECT_LE(hints->nodes.size(), kDraftNodesMax);
    chunks_before_drafts_.push_back(link_->chunk_count());
  }
  requests_.push_back(request);
}

Result<GenerationEnd> GenerationRig::try_answer(const Tokens& prompt) {
  listener_ = Listener(listener_.also);
  generation_->begin(prompt);
  return drive_to_end();
}

Result<GenerationEnd> GenerationRig::drive_to_end() {
  return drive(*generation_, *way_, [this] { return now_; });
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

Answer GenerationRig::collect(GenerationEnd end) {
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
  TargetSession session(decoder_, kRigContext, is_toy_end);
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
  TargetSession session(decoder_, kRigContext, is_toy_end);
  return session
      .prefill({.base_count = 0,
                .tokens = std::span(tokens).first(count),
                .sampling = options_.sampling})
      ->next;
}

}  // namespace edgedraft::testing
