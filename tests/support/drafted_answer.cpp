#include "tests/support/drafted_answer.h"

#include "tests/support/driven_answer.h"
#include "tests/support/local_link.h"

namespace edgedraft::testing {
namespace {

class Silent final : public GenerationObserver {
 public:
  void on_token(std::uint32_t, Provenance) override {}
  void on_confirmed(std::uint32_t, std::uint32_t) override {}
  void on_kept(std::uint32_t) override {}
  void on_rewrite(std::uint32_t) override {}
  void on_state(ClientState, const std::string&) override {}
};

}  // namespace

Result<DraftedAnswer> drafted_answer(ModelHost& host, const AnswerRequest& request) {
  const auto is_end = [&host](std::uint32_t t) { return host.tokenizer().is_end(t); };
  LocalTarget target({.decoder = host.decoder(),
                      .tap = request.tap,
                      .context_count = host.context_count(),
                      .is_end = is_end,
                      .kv_type = request.kv_type});
  Instant now{};
  LocalLink link({.target = target, .now = now, .rows_a_chunk = 256});
  Silent silent;
  Generation generation({.link = link,
                         .drafter = request.drafter,
                         .observer = silent,
                         .is_end = is_end,
                         .now = [&now] { return now; }},
                        {.tree = request.tree,
                         .tokens_max = request.tokens_max,
                         .context_count = 0,
                         .sampling = request.sampling,
                         .deadline = std::chrono::hours(1),
                         .resync = wire::ResyncPolicy::check,
                         .resync_wait = {}});
  generation.begin(request.prompt);
  const auto end = drive(generation, link, [&now] { return now; });
  if (!end) return end.error();
  const auto tokens = generation.ledger().tokens().subspan(generation.answer_first());
  return DraftedAnswer{.tokens = {tokens.begin(), tokens.end()}, .stats = generation.stats()};
}

}  // namespace edgedraft::testing
