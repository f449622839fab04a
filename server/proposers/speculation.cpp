#include "server/proposers/speculation.h"

#include <algorithm>
#include <utility>

#include "server/program/model_host.h"
#include "shared/base/check.h"
#include "shared/drafting/independent/independent_network.h"

namespace edgedraft {
namespace {

constexpr Duration kMakeAgainAfter = std::chrono::seconds(1);

std::uint64_t cache_bytes(const DecoderConfig& config, std::uint32_t positions) {
  return std::uint64_t{2 * sizeof(float)} * config.layer_count * config.layer.heads.kv_cols() *
         (positions + kMaskRowsMax);
}

}  // namespace

Result<std::unique_ptr<Speculation>> Speculation::make(Backend& backend, HostedDrafter& drafter,
                                                       const SpeculationOptions& options) {
  if (drafter.kind == DrafterKind::moa) {
    const auto read = read_moa(drafter.file);
    if (!read) return read.error();
    const auto positions = std::min(options.context_count, read->config.context_length);
    const auto weights =
        std::make_shared<MoaWeights>(backend, read->config, read->tensors, positions);
    return std::make_unique<Speculation>(
        DrafterSource{.make =
                          [weights, tap = drafter.tap.get()](std::shared_ptr<std::uint32_t> count) {
                            return std::make_unique<SessionDrafter>(
                                std::make_unique<MoaNetwork>(weights), *tap, std::move(count));
                          },
                      .drafter_bytes = weights->sequence_bytes()},
        options);
  }
  const auto read = read_draft_decoder(drafter.file);
  if (!read) return read.error();
  const auto positions = std::min(options.context_count, read->config.context_length);
  const auto decoder = std::make_shared<Decoder>(backend, read->config, read->tensors, positions);
  return std::make_unique<Speculation>(
      DrafterSource{.make =
                        [decoder](std::shared_ptr<std::uint32_t> count) {
                          return std::make_unique<SessionDrafter>(
                              std::make_unique<IndependentNetwork>(decoder), std::move(count));
                        },
                    .drafter_bytes = cache_bytes(read->config, positions)},
      options);
}

Speculation::Speculation(DrafterSource source, const SpeculationOptions& options)
    : source_(std::move(source)), options_(options), budget_(options.tree.nodes + 1) {
  EDGEDRAFT_CHECK(valid(options.tree));
}

Drafted Speculation::draft(const TargetSession& session, std::unique_ptr<SessionDrafter>& drafter,
                           const Step& step) {
  const std::uint32_t rows = budget_.next_rows(step.sessions);
  TreeShape shape = options_.tree;
  shape.nodes = std::min(shape.nodes, rows - 1);
  shape.depth = std::min({shape.depth, shape.nodes, step.tokens_left - 1});
  if (shape.depth == 0) return {};
  const Instant started = options_.now();
  if (!drafter && !may_make_drafter(started)) return {};
  Drafted drafted{.tree = grow(session, drafter, shape)};
  if (!drafted.tree.empty() && options_.step_pace > Duration::zero()) {
    options_.wait_until(started + options_.step_pace * shape.depth);
  }
  drafted.time = options_.now() - started;
  if (!drafted.tree.empty()) budget_.observe_drafting(drafted.tree.row_count(), drafted.time);
  return drafted;
}

bool Speculation::may_make_drafter(Instant now) const {
  const bool room = !bytes_max_ || bytes() + drafter_bytes() <= *bytes_max_;
  return room && now >= make_again_;
}

DraftTree Speculation::grow(const TargetSession& session, std::unique_ptr<SessionDrafter>& drafter,
                            const TreeShape& shape) {
  try {
    if (!drafter) drafter = source_.make(count_);
    return drafter->draft(session, shape);
  } catch (const DeviceError& error) {
    drafter.reset();
    make_again_ = options_.now() + kMakeAgainAfter;
    options_.on_failure(error.what());
    return {};
  }
}

}  // namespace edgedraft
