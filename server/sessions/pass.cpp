#include "server/sessions/pass.h"

#include <algorithm>
#include <vector>

namespace edgedraft::server {
namespace {

// Total per pass: the budget of four sessions that run alone.
constexpr std::size_t kSearchedPathsMax = 4 * std::size_t{TargetSession::kSearchedPathMax};

// Deciding rows of one session within the pass.
struct Deciding {
  PassShare* share;
  std::uint32_t first;
  std::uint32_t count;
};

// Adjacent deciding rows share one output projection and one argmax.
void decide(Decoder& decoder, std::span<const Deciding> neighbours) {
  const std::uint32_t first = neighbours.front().first;
  const std::uint32_t count = neighbours.back().first + neighbours.back().count - first;
  Matrix logits;
  std::vector<std::uint32_t> likeliest(count);
  if (count > 0) {
    logits = decoder.logits(first, count);
    bool any_greedy = false;
    for (const Deciding& d : neighbours) any_greedy |= d.share->session->greedy();
    if (any_greedy) decoder.backend().argmax({.logits = logits, .tokens = likeliest});
  }
  for (const Deciding& d : neighbours) {
    const std::uint32_t offset = d.first - first;
    try {
      d.share->outcome = d.share->session->finish_pass(
          d.count > 0 ? logits.row_range(offset, d.count) : Matrix{},
          std::span<const std::uint32_t>(likeliest).subspan(offset, d.count));
    } catch (const SessionFault& fault) {
      d.share->fault = fault;
    }
  }
}

}  // namespace

std::uint32_t searched_path_max(std::size_t searching_count) {
  const std::size_t part = kSearchedPathsMax / std::max<std::size_t>(searching_count, 1);
  return static_cast<std::uint32_t>(
      std::clamp<std::size_t>(part, 1, TargetSession::kSearchedPathMax));
}

std::uint32_t run_pass(Decoder& decoder, std::span<PassShare> shares) {
  const auto searching = std::count_if(shares.begin(), shares.end(), [](const PassShare& share) {
    return share.session->choosing_searches();
  });
  const std::uint32_t searched_max = searched_path_max(static_cast<std::size_t>(searching));
  std::vector<SequenceRows> sequences;
  std::vector<Deciding> deciding;
  std::uint32_t rows = 0;
  for (PassShare& share : shares) {
    share.outcome.reset();
    share.fault.reset();
    share.rows = 0;
    SequenceRows own;
    try {
      own = share.session->begin_pass(share.rows_max, searched_max);
    } catch (const SessionFault& fault) {
      share.fault = fault;
      continue;
    }
    const std::uint32_t skipped = share.session->first_deciding_row();
    deciding.push_back(
        {.share = &share, .first = rows + skipped, .count = own.batch.count() - skipped});
    share.rows = own.batch.count();
    rows += share.rows;
    sequences.push_back(own);
  }
  if (rows == 0) return 0;
  decoder.forward(sequences);
  for (std::size_t begin = 0, end = 1; begin < deciding.size(); begin = end++) {
    while (end < deciding.size() &&
           deciding[end].first == deciding[end - 1].first + deciding[end - 1].count) {
      ++end;
    }
    decide(decoder, std::span(deciding).subspan(begin, end - begin));
  }
  return rows;
}

}  // namespace edgedraft::server
