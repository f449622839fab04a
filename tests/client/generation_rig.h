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
using namespace client;

// Follows an observer's events and checks that they always give the answer.
class Listener : public GenerationObserver {
 public:
  Listener() = default;
  // `also_told` receives the same events; may be null.
  explicit Listener(GenerationObserver* also_told) : also(also_told) {}

  void on_token(std::uint32_t token, Provenance provenance) override;
  void on_confirmed(std::uint32_t first, std::uint32_t end) override;
  void on_kept(std::uint32_t count) override;
  void on_rewrite(std::uint32_t index) override;
  void on_state(ClientState state, const std::string& reason) override;

  Tokens tokens;
  std::vector<Provenance> provenance;
  std::vector<ClientState> states;
  std::string why;         // the last reason
  std::uint32_t kept = 0;  // leading tokens promised to stay
  GenerationObserver* also = nullptr;
};

struct Answer {
  Tokens tokens;
  std::vector<Provenance> provenance;
  GenerationEnd end = GenerationEnd::cancelled;
  GenerationStats stats;

  std::uint32_t count(Provenance wanted) const;
};

// Checks that text, provenance and end are equal.
void expect_same(const Answer& answer, const Answer& plain);

inline constexpr std::uint32_t kRigContext = 96;
inline const Tokens kRigPrompt{5, 6, 7, 8, 9};

// A client and a server on toy models in one thread, and the target's own answers.
class GenerationRig {
 public:
  struct Options {
    ToyDrafter drafter = ToyDrafter::twin;
    std::optional<TreeShape> tree = TreeShape{};
    std::uint32_t tokens_max = 40;
    SamplingParams sampling = {};
    wire::ResyncPolicy resync = wire::ResyncPolicy::check;
    Duration resync_wait = std::chrono::minutes(10);
    bool twin_writes = false;  // the target itself writes offline, for any drafter
    std::vector<LinkFault> faults = {};
    bool holds_rows_back = false;
    std::uint32_t rows_after_calls = 0;  // see LocalLink
    std::optional<std::uint32_t> offline_after = {};
    std::uint32_t drafter_context = kRigContext;
    // Drafts on its own device with this fault, then on another.
    std::optional<DeviceFault> device_fault = {};
    // Makes that device's backend; the CPU's if empty.
    std::function<std::unique_ptr<Backend>()> make_device = {};
  };
  explicit GenerationRig(const Options& options);

  // The answer to the whole conversation `prompt`; the test fails on an error.
  Answer answer(const Tokens& prompt);
  Result<GenerationEnd> try_answer(const Tokens& prompt);
  std::optional<Answer> settle();
  Answer plain(const Tokens& prompt);
  // The target's own choice after the first `count` of `tokens`.
  std::uint32_t choice(const Tokens& tokens, std::uint32_t count);

  Generation& generation() { return *generation_; }
  LocalLink& link() { return *link_; }
  Listener& listener() { return listener_; }
  const std::vector<SeenRequest>& requests() const { return requests_; }
  const std::vector<CycleRecord>& cycles() const { return cycles_; }
  // Chunks of activations received before each draft of a run under lockstep.
  const std::vector<std::uint32_t>& chunks_before_drafts() const { return chunks_before_drafts_; }
  bool device_fault_fired() const { return options_.device_fault && options_.device_fault->fired; }
  const std::vector<std::string>& device_failures() const { return device_failures_; }

 private:
  std::unique_ptr<Drafter> make_fallback_drafter();
  void check_request(const SeenRequest& request);
  Result<GenerationEnd> drive_to_end();
  Answer collect(GenerationEnd end);

  Options options_;
  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 1});
  std::vector<std::unique_ptr<Backend>> devices_;  // devices of drafters that may fall back
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
  std::unique_ptr<TargetLink> way_;  // link_, or a version that cuts it
  Listener listener_;
  std::optional<Generation> generation_;
  std::vector<SeenRequest> requests_;
  std::vector<CycleRecord> cycles_;
  std::vector<std::uint32_t> chunks_before_drafts_;
  std::vector<std::string> device_failures_;
};

}  // namespace edgedraft::testing
