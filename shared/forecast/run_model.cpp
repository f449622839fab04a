#include "shared/forecast/run_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <optional>
#include <queue>
#include <utility>

#include "shared/base/check.h"
#include "shared/base/random.h"

namespace edgedraft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Same values as in client and server (client/generation/draft_ahead, server/passes/run; rows that
// a tree expands: shared/speculative/tree_growth).
constexpr std::uint32_t kStepsPerMessage = 2;
constexpr std::uint32_t kDepthMax = 32;
constexpr std::size_t kExpandedMax = 256;
constexpr std::uint32_t kNodesMax = 255;
constexpr std::uint32_t kHintlessPasses = 8;
constexpr double kLate = 2.0;
constexpr double kNextStep = 0.8;
constexpr double kNewest = 0.3;

class Mean {
 public:
  void add(double sample) {
    count_ = std::min(count_ + 1.0, 20.0);
    value_ += (sample - value_) / count_;
  }
  bool known() const { return count_ > 0.0; }
  double value() const { return value_; }

 private:
  double count_ = 0.0;
  double value_ = 0.0;
};

void smooth(std::optional<double>& before, double sample) {
  before = before ? kNewest * sample + (1.0 - kNewest) * *before : sample;
}

// A token proposed by the device.
struct Node {
  std::uint32_t position;  // in the answer, from 1
  std::uint32_t parent;    // index
  bool right;              // it and its ancestors match the answer
  double score;            // log probability of the path
  bool expanded = false;
  bool sent = false;
};

// One answer.
class Answer {
 public:
  // `start` is the simulated start time, for the links.
  Answer(const RunModel& model, RunKind kind, std::uint32_t tokens, std::uint64_t seed,
         double start)
      : model_(model), kind_(kind), tokens_(tokens), random_(seed), start_(start) {}

  RunForecast run() {
    draw_answer();
    const double prompt_left = model_.setup;
    up_came_ = prompt_left + model_.up(start_ + prompt_left);
    at(up_came_ + model_.pass(model_.prompt_rows), Event::pass_ended);
    while (known_ < tokens_) {
      EDGEDRAFT_CHECK(!events_.empty());
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      on(event);
    }
    const double n = tokens_;
    return {.seconds = now_ / n, .passes = passes_ / n, .rows = rows_ / n, .steps = steps_ / n};
  }

 private:
  struct Event {
    enum Kind : std::uint8_t { pass_ended, verdict_came, rows_came, step_ended, nodes_came, look };
    double time;
    std::uint64_t order;
    Kind kind;
    std::uint32_t value;  // the position, or index of a message
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };

  bool waits() const { return kind_ == RunKind::sequential; }
  bool hints() const { return kind_ == RunKind::overlap || kind_ == RunKind::economy; }

  void at(double time, Event::Kind kind, std::uint32_t value = 0) {
    events_.push({.time = time, .order = order_++, .kind = kind, .value = value});
  }

  // Draws which proposal of the drafter is right after each token.
  void draw_answer() {
    for (std::uint32_t i = 0; i <= tokens_; ++i) {
      double left = random_.uniform();
      std::uint32_t rank = 0;
      while (rank < model_.ranks.size() && left >= model_.ranks[rank]) left -= model_.ranks[rank++];
      right_rank_.push_back(rank);
    }
  }

  void on(const Event& event) {
    switch (event.kind) {
      case Event::pass_ended:
        return pass_ended();
      case Event::verdict_came:
        known_ = event.value;
        if (!ready_) {
          if (!std::exchange(rows_asked_, true)) at(now_ + model_.rows_delay, Event::rows_came);
          return;
        }
        if (!drafting_) follow();
        return;
      case Event::rows_came:
        ready_ = true;
        return follow();
      case Event::step_ended:
        drafting_ = false;
        step_ended();
        return follow();
      case Event::nodes_came:
        return nodes_came(messages_[event.value]);
      case Event::look:
        return look();
    }
  }

  // ---- the device

  // Continues after the known tokens.
  void follow() {
    if (kind_ == RunKind::stream || known_ >= tokens_) return;
    if (waits()) {
      if (followed_ == known_) return;
      followed_ = known_;
      draft_tree();
      return;
    }
    if (followed_ != known_) reroot();
    const std::vector<std::uint32_t> open = this->open();
    if (open.empty()) return;
    for (const std::uint32_t node : open) nodes_[node].expanded = true;
    expanding_ = open;
    drafting_ = true;
    steps_ += 1.0;
    at(now_ + model_.step, Event::step_ended);
  }

  void reroot() {
    std::optional<std::uint32_t> root;
    for (const std::uint32_t i : tree_) {
      if (nodes_[i].right && nodes_[i].position == known_) root = i;
    }
    followed_ = known_;
    if (!root) {
      nodes_.push_back({.position = known_, .parent = 0, .right = true, .score = 0.0});
      tree_.assign(1, static_cast<std::uint32_t>(nodes_.size() - 1));
    } else {
      std::vector<std::uint32_t> below{*root};
      for (const std::uint32_t i : tree_) {
        if (i != *root && std::ranges::binary_search(below, nodes_[i].parent)) below.push_back(i);
      }
      tree_ = std::move(below);
    }
    server_waits_ = tree_.size() == 1;
  }

  std::vector<std::uint32_t> open() const {
    const Node& root = nodes_[tree_.front()];
    std::vector<std::uint32_t> open;
    std::size_t expanded = 0;
    for (const std::uint32_t i : tree_) {
      const Node& n = nodes_[i];
      if (n.expanded) ++expanded;
      const bool deep = n.position - root.position >= kDepthMax || n.position >= tokens_;
      if (!n.expanded && !deep && n.score - root.score >= std::log(model_.floor)) open.push_back(i);
    }
    std::ranges::stable_sort(open, std::greater<>(),
                             [&](std::uint32_t i) { return nodes_[i].score; });
    const std::size_t room = kExpandedMax - std::min(kExpandedMax, expanded);
    open.resize(std::min({open.size(), room, std::size_t{model_.shape.breadth}}));
    return open;
  }

  void expand(std::uint32_t parent, std::vector<std::uint32_t>& into) {
    const std::size_t children = std::min<std::size_t>(model_.shape.breadth, model_.ranks.size());
    for (std::uint32_t rank = 0; rank < children; ++rank) {
      if (model_.ranks[rank] <= 0.0) continue;
      const Node above = nodes_[parent];
      into.push_back(static_cast<std::uint32_t>(nodes_.size()));
      nodes_.push_back({.position = above.position + 1,
                        .parent = parent,
                        .right = above.right && right_rank_[above.position] == rank,
                        .score = above.score + std::log(model_.ranks[rank])});
    }
  }

  void step_ended() {
    for (const std::uint32_t node : expanding_) expand(node, tree_);
    ++unsent_steps_;
    const bool done = open().empty();
    if (unsent_steps_ < kStepsPerMessage && !server_waits_ && !done) return;
    unsent_steps_ = 0;
    std::vector<std::uint32_t> news;
    const double least = nodes_[tree_.front()].score + std::log(model_.floor);
    for (const std::uint32_t i : tree_) {
      Node& n = nodes_[i];
      if (i == tree_.front() || n.sent || n.score < least) continue;
      n.sent = true;
      news.push_back(i);
    }
    if (news.empty()) return;
    server_waits_ = false;
    send(std::move(news));
  }

  // Drafts level by level, as a device that waits for verdicts.
  void draft_tree() {
    nodes_.push_back({.position = known_, .parent = 0, .right = true, .score = 0.0});
    std::vector<std::uint32_t> level{static_cast<std::uint32_t>(nodes_.size() - 1)};
    std::vector<std::uint32_t> all;
    const auto best = [&](std::vector<std::uint32_t>& nodes, std::size_t count) {
      std::ranges::stable_sort(nodes, std::greater<>(),
                               [&](std::uint32_t i) { return nodes_[i].score; });
      nodes.resize(std::min(nodes.size(), count));
    };
    const std::uint32_t depth = std::min(model_.shape.depth, tokens_ - known_);
    for (std::uint32_t i = 0; i < depth; ++i) {
      std::vector<std::uint32_t> next;
      for (const std::uint32_t node : level) expand(node, next);
      all.insert(all.end(), next.begin(), next.end());
      level = std::move(next);
      best(level, model_.shape.breadth);
    }
    best(all, model_.shape.nodes);
    steps_ += depth;
    sent_at_ = now_ + model_.step * depth;
    send(std::move(all));
  }

  void send(std::vector<std::uint32_t> nodes) {
    const double leaves = waits() ? sent_at_ : now_;
    up_came_ = std::max(up_came_, leaves + model_.up(start_ + leaves));
    messages_.push_back(std::move(nodes));
    at(up_came_, Event::nodes_came, static_cast<std::uint32_t>(messages_.size() - 1));
  }

  // ---- the server

  struct Hint {
    double probability;
    std::uint32_t node;
  };

  // Descendants of the root, likeliest first; others are dropped.
  std::vector<Hint> candidates() {
    std::vector<Hint> found;
    std::vector<std::uint32_t> left;
    for (const std::uint32_t i : arrived_) {
      const Node& n = nodes_[i];
      const Node& above = nodes_[n.parent];
      if (n.position <= decided_ || n.position > tokens_) continue;
      if (above.position == decided_ && above.right) {
        root_score_ = above.score;
      } else if (!std::ranges::binary_search(left, n.parent)) {
        continue;
      }
      left.push_back(i);
      found.push_back({.probability = std::exp(n.score - root_score_), .node = i});
    }
    arrived_ = std::move(left);
    std::ranges::stable_sort(found, std::greater<>(), &Hint::probability);
    if (found.size() > kNodesMax) found.resize(kNodesMax);
    return found;
  }

  static double worth(const std::vector<Hint>& hints) {
    return std::accumulate(hints.begin(), hints.end(), 0.0,
                           [](double sum, const Hint& hint) { return sum + hint.probability; });
  }

  void nodes_came(const std::vector<std::uint32_t>& nodes) {
    const std::vector<Hint> before = candidates();
    const double worth_before = worth(before);
    arrived_.insert(arrived_.end(), nodes.begin(), nodes.end());
    std::ranges::sort(arrived_);
    const std::vector<Hint> after = candidates();
    if (waits()) return pass(after);
    if (after.size() > before.size()) {
      passes_without_hints_ = 0;
      last_worth_ = worth(after) - worth_before;
      if (!before.empty()) {
        smooth(message_gap_, now_ - last_message_);
      } else if (emptied_) {
        smooth(hint_delay_, std::max(0.0, now_ - *emptied_));
        first_worth_.add(last_worth_);
        emptied_.reset();
      }
      last_message_ = now_;
    }
    held_until_ = 0.0;
    look();
  }

  void look() {
    if (passing_ || decided_ == 0 || decided_ >= tokens_ || waits()) return;
    const std::vector<Hint> found = hints() ? candidates() : std::vector<Hint>{};
    const double until = hints() ? wait_end(found) : 0.0;
    if (until > now_) {
      if (until != held_until_) at(until, Event::look);
      held_until_ = until;
      return;
    }
    pass(found);
  }

  double wait_end(const std::vector<Hint>& found) const {
    if (kind_ == RunKind::economy && found.empty() && passes_without_hints_ < kHintlessPasses) {
      const double longest = hint_delay_ ? std::min(1.5 * *hint_delay_ + 0.010, 1.0) : 0.3;
      if (told_ + longest > now_) return told_ + longest;
    }
    double by = kNever;
    double tokens = 0.0;
    if (!found.empty() && message_gap_ && last_message_ + kLate * *message_gap_ > now_) {
      by = last_message_ + kLate * *message_gap_;
      tokens = kNextStep * last_worth_;
    } else if (hint_delay_ && first_worth_.known() && told_ + kLate * *hint_delay_ > now_) {
      by = told_ + kLate * *hint_delay_;
      tokens = found.empty() ? first_worth_.value() : kNextStep * last_worth_;
    }
    if (by == kNever) return 0.0;
    const double pass_time = model_.pass(1);
    const double longest = pass_time * accepted_.value() / (2.0 + accepted_.value());
    if (by - told_ > longest) return 0.0;
    if (tokens / (1.0 + worth(found)) < (by - now_) / pass_time) return 0.0;
    return by;
  }

  void pass(const std::vector<Hint>& found) {
    std::size_t count = found.size();
    if (hints()) {
      double tokens = 1.0;
      double best = tokens / model_.pass(1);
      count = 0;
      for (std::size_t i = 0; i < found.size(); ++i) {
        tokens += found[i].probability;
        const double rate = tokens / model_.pass(static_cast<std::uint32_t>(i) + 2);
        if (rate > best) {
          best = rate;
          count = i + 1;
        }
      }
    }
    const auto rows = static_cast<std::uint32_t>(count) + 1;
    std::vector<std::uint32_t> right;
    for (std::size_t i = 0; i < count; ++i) {
      if (nodes_[found[i].node].right) right.push_back(nodes_[found[i].node].position);
    }
    std::ranges::sort(right);
    accepts_ = 0;
    for (const std::uint32_t position : right) {
      if (position == decided_ + accepts_ + 1) ++accepts_;
    }
    if (count > 0) accepted_.add(accepts_);
    had_hints_ = !found.empty();
    passes_ += 1.0;
    rows_ += rows;
    passing_ = true;
    at(now_ + model_.pass(rows), Event::pass_ended);
  }

  void pass_ended() {
    passing_ = false;
    const std::uint32_t brought = accepts_ + 1;
    decided_ = std::min(decided_ + brought, tokens_);
    accepts_ = 0;
    told_ = now_;
    const bool has_hints = hints() && !candidates().empty();
    if (!has_hints) {
      if (had_hints_) emptied_ = now_;
      ++passes_without_hints_;
    }
    down_came_ = std::max(down_came_, now_ + model_.down(start_ + now_, brought));
    at(down_came_, Event::verdict_came, decided_);
    held_until_ = 0.0;
    look();
  }

  const RunModel& model_;
  RunKind kind_;
  std::uint32_t tokens_;
  Random random_;
  double start_;
  std::vector<std::uint32_t> right_rank_;  // after token i
  std::vector<Node> nodes_{{.position = 0, .parent = 0, .right = true, .score = 0.0}};
  std::vector<std::vector<std::uint32_t>> messages_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t order_ = 0;
  double now_ = 0.0;
  double up_came_ = 0.0;
  double down_came_ = 0.0;
  double passes_ = 0.0;
  double rows_ = 0.0;
  double steps_ = 0.0;

  // State of the device.
  std::uint32_t known_ = 0;
  std::uint32_t followed_ = 0;  // root position of its tree
  bool ready_ = false;
  bool rows_asked_ = false;
  bool drafting_ = false;
  bool server_waits_ = true;
  std::uint32_t unsent_steps_ = 0;
  double sent_at_ = 0.0;
  std::vector<std::uint32_t> tree_;  // live nodes, ascending; the first is the root
  std::vector<std::uint32_t> expanding_;

  // State of the server.
  std::uint32_t decided_ = 0;
  std::uint32_t accepts_ = 0;
  bool passing_ = false;
  bool had_hints_ = false;
  std::vector<std::uint32_t> arrived_;
  double root_score_ = 0.0;
  double told_ = 0.0;
  double held_until_ = 0.0;
  double last_message_ = 0.0;
  double last_worth_ = 0.0;
  std::optional<double> emptied_;
  std::optional<double> message_gap_;
  std::optional<double> hint_delay_;
  std::uint32_t passes_without_hints_ = 0;
  Mean first_worth_;
  Mean accepted_;
};

}  // namespace

RunForecast forecast(const RunModel& model, RunKind kind, std::uint32_t tokens,
                     std::uint32_t answers, std::uint64_t seed) {
  EDGEDRAFT_CHECK(tokens > 1 && answers > 0);
  EDGEDRAFT_CHECK(kind == RunKind::stream || !model.ranks.empty());
  RunForecast sum;
  double start = 0.0;
  for (std::uint32_t i = 0; i < answers; ++i) {
    const RunForecast one = Answer(model, kind, tokens, mix64(seed + i), start).run();
    start += one.seconds * tokens;
    sum.seconds += one.seconds / answers;
    sum.passes += one.passes / answers;
    sum.rows += one.rows / answers;
    sum.steps += one.steps / answers;
  }
  return sum;
}

}  // namespace edgedraft
