#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/devices/fallback_drafter.h"
#include "client/generation/generation.h"
#include "shared/drafting/independent/independent_network.h"
#include "tests/client/toy_drafters.h"
#include "tests/support/failing_backend.h"
#include "tests/support/local_link.h"
#include "tests/support/toy_models.h"

namespace edgedraft::testing {

// Follows what an observer is told; at any time it has to know the answer.
class Listener final : public GenerationObserver {
 public:
  Listener() = default;
  // `also_told` is told the same; may be null.
  explicit Listener(GenerationObserver* also_told) : also(also_told) {}

  void on_token(std::uint32_t token, Provenance provenance) override;
  void on_confirmed(std::uint32_t first, std::uint32_t end) override;
  void on_kept(std::uint32_t count) override;
  void on_rewrite(std::uint32_t index) override;
  void on_state(ClientState state, const std::string& reason) override;

  Tokens tokens;
  std::vector<Provenance> provenance;
  std::vector<ClientState> states;
  std::string why;         // of the last one
  std::uint32_t kept = 0;  // leading tokens that were promised to stay
  GenerationObserver* also = nullptr;
};

// What an answer came to.
struct Answer {
  Tokens tokens;
  std::vector<Provenance> provenance;
  AnswerEnd end = AnswerEnd::cancelled;
  GenerationStats stats;

  std::uint32_t count(Provenance wanted) const;
};

// Both have to say the same, by the same, and end alike.
void expect_same(const Answer& answer, const Answer& plain);

inline constexpr std::uint32_t kRigContext = 96;
inline const Tokens kRigPrompt{5, 6, 7, 8, 9};

// A client and a server on toy models within one thread, and what the target alone would say.
class GenerationRig {
 public:
  struct Options {
    ToyDrafter drafter = ToyDrafter::twin;
    std::optional<TreeShape> tree = TreeShape{};
    std::uint32_t tokens_max = 40;
    SamplingParams sampling = {};
    wire::ResyncPolicy resync = wire::ResyncPolicy::check;
    Duration resync_wait = std::chrono::minutes(10);
    bool twin_writes = false;  // the target itself writes without the server, whoever drafts
    std::vector<LinkFault> faults = {};
    bool holds_rows_back = false;
    std::uint32_t rows_after_calls = 0;  // as LocalLink has it
    std::optional<std::uint32_t> offline_after = {};
    std::uint32_t drafter_context = kRigContext;
    // Drafts on a device of its own with this fault, and then on another.
    std::optional<DeviceFault> device_fault = {};
    // Makes that device's backend; where it is empty, the CPU's is taken.
    std::function<std::unique_ptr<Backend>()> make_device = {};
  };
  explicit GenerationRig(const Options& options);

  // The answer to the whole conversation `prompt`; the test fails on an error.
  Answer answer(const Tokens& prompt);
  Result<AnswerEnd> try_answer(const Tokens& prompt);
  std::optional<Answer> settle();
  // The target's answer by plain decoding.
  Answer plain(const Tokens& prompt);
  // The target's own choice behind the first `count` of `tokens`.
  std::uint32_t choice(const Tokens& tokens, std::uint32_t count);

  Generation& generation() { return *generation_; }
  LocalLink& link() { return *link_; }
  Listener& listener() { return listener_; }
  // Every request, as it was sent.
  const std::vector<SeenRequest>& requests() const { return requests_; }
  const std::vector<CycleRecord>& cycles() const { return cycles_; }
  // Chunks of activations that had come before each draft of a run under lockstep.
  const std::vector<std::uint32_t>& chunks_before_drafts() const { return chunks_before_drafts_; }
  bool device_fault_fired() const { return options_.device_fault && options_.device_fault->fired; }
  // What was told of it.
  const std::vector<std::string>& device_failures() const { return device_failures_; }

 private:
  std::unique_ptr<Drafter> make_fallback_drafter();
  void check_request(const SeenRequest& request);
  Result<AnswerEnd> drive_to_end();
  Answer collect(AnswerEnd end);

  Options options_;
  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 1});
  std::vector<std::unique_ptr<Backend>> devices_;  // of drafters that may fall back
  ToyDecoder toy_{6};
  ToyDrafters drafters_{options_.drafter, toy_, *backend_, options_.drafter_context};
  Decoder decoder_{*backend_, toy_.config, toy_.tensors, kRigContext, drafters_.states()};
  OfflineWriter writer_{[this] {
    return std::make_unique<IndependentDrafter>(*backend_, toy_.config, toy_.tensors, kRigContext);
  }};
  std::unique_ptr<Drafter> drafter_;
  LocalTarget target_{{.decoder = decoder_,
                       .tap = drafters_.tap(),
                       .context_count = kRigContext,
                       .is_end = is_toy_end}};
  Instant now_{};
  LocalLink* link_ = nullptr;
  std::unique_ptr<TargetLink> way_;  // link_, cut where that is asked for
  Listener listener_;
  std::optional<Generation> generation_;
  std::vector<SeenRequest> requests_;
  std::vector<CycleRecord> cycles_;
  std::vector<std::uint32_t> chunks_before_drafts_;
  std::vector<std::string> device_failures_;
};

}  // namespace edgedraft::testing
