#include "server/speculation/speculation.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "server/model_host.h"
#include "shared/base/check.h"
#include "shared/drafting/independent_network.h"

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
  EDGEDRAFT_CHECK(valid(options.tree));
  std::unique_ptr<Speculation> made(new Speculation(options));
  const auto count = made->count_;
  if (drafter.kind == DrafterKind::moa) {
    const auto read = read_moa(drafter.file);
    if (!read) return read.error();
    const auto positions = std::min(options.context_count, read->config.context_length);
    const auto model = std::make_shared<MoaModel>(backend, read->config, read->tensors, positions);
    made->drafter_bytes_ = model->sequence_bytes();
    made->make_drafter_ = [model, count, tap = drafter.tap.get()] {
      return std::make_unique<SessionDrafter>(std::make_unique<MoaNetwork>(model), *tap, count);
    };
    return made;
  }
  const auto read = read_draft_decoder(drafter.file);
  if (!read) return read.error();
  const auto positions = std::min(options.context_count, read->config.context_length);
  const auto decoder = std::make_shared<Decoder>(backend, read->config, read->tensors, positions);
  made->drafter_bytes_ = cache_bytes(read->config, positions);
  made->make_drafter_ = [decoder, count] {
    return std::make_unique<SessionDrafter>(std::make_unique<IndependentNetwork>(decoder), count);
  };
  return made;
}

Drafted Speculation::draft(const TargetSession& session, std::unique_ptr<SessionDrafter>& drafter,
                           const Step& step) {
  const std::uint32_t rows = budget_.next_rows(step.sessions);
  TreeShape shape = options_.tree;
  shape.nodes = std::min(shape.nodes, rows - 1);
  shape.depth = std::min({shape.depth, shape.nodes, step.tokens_left - 1});
  if (shape.depth == 0) return {};
  const Instant started = Clock::now();
  if (!drafter && (!step.may_make || started < make_again_)) return {};
  Drafted drafted{.tree = grow(session, drafter, shape)};
  if (!drafted.tree.empty() && options_.step_pace > Duration::zero()) {
    std::this_thread::sleep_until(started + options_.step_pace * shape.depth);
  }
  drafted.time = Clock::now() - started;
  if (!drafted.tree.empty()) budget_.observe_drafting(drafted.tree.row_count(), drafted.time);
  return drafted;
}

DraftTree Speculation::grow(const TargetSession& session, std::unique_ptr<SessionDrafter>& drafter,
                            const TreeShape& shape) {
  try {
    if (!drafter) drafter = make_drafter_();
    return drafter->draft(session, shape);
  } catch (const DeviceError& error) {
    drafter.reset();
    make_again_ = Clock::now() + kMakeAgainAfter;
    options_.on_failure(error.what());
    return {};
  }
}

}  // namespace edgedraft
