#include "shared/protocol/channel.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "tests/protocol/session_support.h"
#include "tests/support/expect.h"

// An observer's view of a padded connection, and delivery over it.
namespace edgedraft {
namespace {

using namespace std::chrono_literals;

constexpr std::uint16_t kTickMs = 20;
constexpr Duration kDelay = 7ms;
constexpr std::uint32_t kContext = 4000;

// A server pass: its time since the request and the tokens it produces.
struct Pass {
  Duration at;
  std::uint32_t tokens;
};

// The traffic of one answer.
struct Talk {
  std::uint32_t prompt_tokens;
  std::vector<Pass> passes;
  // When the device sends hints, and how many.
  std::vector<std::pair<Duration, std::uint32_t>> hints;
};

// Packets observed in one direction: time and size.
using Seen = std::vector<std::pair<Duration, std::size_t>>;

// A client and a server protocol, a link of constant delay, and an observer.
class Connection {
 public:
  explicit Connection(bool pads)
      : client_({.hello = {.pad_tick_ms = pads ? kTickMs : std::uint16_t{0}}, .channel = {}}, now_),
        server_({}, now_) {
    step();
    while (!client_.ready()) step();
  }

  // Runs the answer for two seconds.
  void answer(const Talk& talk) {
    begin_ = now_;
    up_.clear();
    down_.clear();
    ASSERT_TRUE(client_.prefill(
        outgoing(wire::Prefill{.tokens = std::vector<std::uint32_t>(talk.prompt_tokens, 3),
                               .run = {.credit = kContext, .rows = true}})));
    std::size_t hints_sent = 0;
    std::uint32_t id = 1;
    talk_ = &talk;
    passes_done_ = 0;
    asked_.reset();
    while (now_ < begin_ + 2s) {
      if (hints_sent < talk.hints.size() && now_ - begin_ >= talk.hints[hints_sent].first) {
        const std::uint32_t count = talk.hints[hints_sent++].second;
        const wire::Hints hints{.credit = kContext,
                                .first = id,
                                .position = 1,
                                .nodes = std::vector<HintNode>(count, {.token = 5, .score = 1})};
        id += count;
        ASSERT_TRUE(client_.hints(outgoing(hints)));
      }
      step();
    }
  }

  const Seen& up() const { return up_; }
  const Seen& down() const { return down_; }
  std::uint32_t verdicts() const { return verdicts_; }
  std::uint32_t hints_seen() const { return hints_seen_; }
  const ClientProtocol& client() const { return client_; }
  const ServerProtocol& server() const { return server_; }
  ClientProtocol& client() { return client_; }
  bool over() const { return !client_.in_flight(); }
  void rest(Duration time) {
    up_.clear();
    down_.clear();
    begin_ = now_;
    while (now_ < begin_ + time) step();
  }

 private:
  // Advances everything by a millisecond.
  void step() {
    for (auto [due, bytes] : std::exchange(to_server_, {})) {
      if (due > now_) {
        to_server_.emplace(due, bytes);
      } else {
        ASSERT_TRUE(server_.receive(now_, bytes));
        while (auto event = server_.next_event()) on(*std::move(event));
      }
    }
    for (auto [due, bytes] : std::exchange(to_client_, {})) {
      if (due > now_) {
        to_client_.emplace(due, bytes);
      } else {
        ASSERT_TRUE(client_.receive(now_, bytes));
        while (auto event = client_.next_event()) {
          if (std::holds_alternative<VerdictReceived>(*event)) ++verdicts_;
        }
      }
    }
    while (asked_ && passes_done_ < talk_->passes.size() &&
           now_ - *asked_ >= talk_->passes[passes_done_].at) {
      say(talk_->passes[passes_done_++]);
    }
    if (now_ >= client_.next_deadline()) {
      ASSERT_TRUE(client_.tick(now_));
    }
    if (now_ >= server_.next_deadline()) {
      ASSERT_TRUE(server_.tick(now_));
    }
    if (client_.has_output()) send(client_.take_output(), to_server_, up_);
    if (server_.has_output()) send(server_.take_output(), to_client_, down_);
    now_ += 1ms;
  }

  void on(ServerEvent event) {
    if (std::holds_alternative<HelloReceived>(event)) {
      wire::Welcome welcome = small_welcome();
      welcome.context_count = kContext;
      welcome.hint_nodes_max = 100;
      server_.accept(welcome);
    } else if (const auto* prefill = std::get_if<PrefillRequested>(&event)) {
      asked_ = now_;
      round_ = prefill->request.round;
    } else if (const auto* hints = std::get_if<HintsReceived>(&event)) {
      hints_seen_ += static_cast<std::uint32_t>(hints->hints.nodes.size());
    }
  }

  void say(const Pass& pass) {
    const bool first = passes_done_ == 1;
    const bool last = passes_done_ == talk_->passes.size();
    wire::Verdict verdict{
        .round = round_, .next = 4, .ending = last ? wire::Ending::end_token : wire::Ending::none};
    if (!first) verdict.tokens.assign(pass.tokens - 1, 4);
    ASSERT_TRUE(server_.verdict(verdict));
    const std::uint32_t count = first ? talk_->prompt_tokens : pass.tokens;
    ASSERT_TRUE(server_.activations(compress_activations(round_, server_.length() - 1 - count,
                                                         count, quantize_rows(layout_, rows(count)),
                                                         wire::Codec::none)));
  }

  std::vector<float> rows(std::uint32_t count) {
    return random_rows(random_, std::size_t{count} * layout_.cols());
  }

  void send(Bytes bytes, std::multimap<Instant, Bytes>& to, Seen& seen) {
    seen.emplace_back(now_ - begin_, bytes.size());
    to.emplace(now_ + kDelay, std::move(bytes));
  }

  Instant now_{1h};
  Instant begin_ = now_;
  Random random_{5};
  const ActivationLayout layout_{small_welcome().scale_groups};
  ClientProtocol client_;
  ServerProtocol server_;
  std::multimap<Instant, Bytes> to_server_;
  std::multimap<Instant, Bytes> to_client_;
  Seen up_;
  Seen down_;
  const Talk* talk_ = nullptr;
  std::optional<Instant> asked_;
  std::uint32_t round_ = 0;
  std::size_t passes_done_ = 0;
  std::uint32_t verdicts_ = 0;
  std::uint32_t hints_seen_ = 0;
};

// One answer with accepted drafts, one of another length with rejected drafts and a resync.
const Talk kEasy{.prompt_tokens = 20,
                 .passes = {{5ms, 1}, {40ms, 8}, {80ms, 9}, {120ms, 8}, {160ms, 7}},
                 .hints = {{60ms, 8}, {100ms, 8}, {140ms, 8}}};
const Talk kHard{.prompt_tokens = 90,
                 .passes = {{9ms, 1}, {33ms, 1}, {71ms, 2}, {95ms, 1}, {180ms, 1}, {260ms, 1}},
                 .hints = {{50ms, 30}, {72ms, 30}, {90ms, 30}, {111ms, 25}, {130ms, 30}}};

TEST(ConstantRateTest, TrafficIsIndependentOfContent) {
  Connection easy(true);
  easy.answer(kEasy);
  Connection hard(true);
  hard.answer(kHard);
  EXPECT_EQ(easy.up(), hard.up());
  EXPECT_EQ(easy.down(), hard.down());
  // Half a second of blocks, then silence.
  EXPECT_EQ(easy.up().size(), 25u);
  EXPECT_EQ(easy.up().back().first - easy.up().front().first, 480ms);
  EXPECT_TRUE(easy.over());

  Connection bare(false);
  bare.answer(kEasy);
  Connection other(false);
  other.answer(kHard);
  EXPECT_NE(bare.up(), other.up());
  EXPECT_NE(bare.down(), other.down());
}

TEST(ConstantRateTest, DeliversAllMessages) {
  for (const Talk& talk : {kEasy, kHard}) {
    Connection padded(true);
    padded.answer(talk);
    EXPECT_TRUE(padded.over());
    EXPECT_EQ(padded.verdicts(), talk.passes.size());
    std::uint32_t hints = 0;
    for (const auto& [at, count] : talk.hints) hints += count;
    EXPECT_EQ(padded.hints_seen(), hints);
    EXPECT_GT(padded.client().traffic().pad_bytes_out, 0u);
    EXPECT_EQ(padded.client().traffic().pad_bytes_out, padded.server().traffic().pad_bytes_in);
  }
}

TEST(ConstantRateTest, ExtendsTrafficByHalfSecondsForLongAnswer) {
  Talk talk = kEasy;
  for (Duration at = 200ms; at < 700ms; at += 40ms) talk.passes.push_back({at, 3});
  Connection padded(true);
  padded.answer(talk);
  EXPECT_EQ(padded.up().size(), 50u);
  const Seen first = padded.down();
  padded.rest(1s);
  EXPECT_TRUE(padded.up().empty());
  EXPECT_TRUE(padded.down().empty());
}

// An idle connection sends only pings.
TEST(ConstantRateTest, IdleConnectionSendsOnlyPings) {
  Connection padded(true);
  padded.answer(kEasy);
  padded.rest(1min);
  EXPECT_GE(padded.up().size() + padded.down().size(), 10u);
  for (const Seen* seen : {&padded.up(), &padded.down()}) {
    for (const auto& [at, bytes] : *seen) EXPECT_LT(bytes, 64u);
  }
}

TEST(ConstantRateTest, SendsLastMessageInFullBlock) {
  Connection padded(true);
  padded.answer(kEasy);
  ASSERT_TRUE(padded.client().prefill(outgoing(wire::Prefill{.tokens = {1, 2}})));
  padded.rest(100ms);
  EXPECT_TRUE(padded.client().paces_output());
  padded.client().cancel();
  padded.rest(1s);
  for (const auto& [at, bytes] : padded.up()) EXPECT_EQ(bytes, padded.up().front().second);
  EXPECT_FALSE(padded.client().paces_output());
}

// Including messages that leave less room in a block than a frame header takes.
TEST(ConstantRateTest, CarriesMessagesOfEverySize) {
  Instant now = kStart;
  Channel from({}, now);
  Channel to({}, now);
  for (Channel* channel : {&from, &to}) {
    channel->open(kFramePayloadBytesMax);
    channel->pad({.tick = 20ms, .bytes = 256}, 0ms);
  }
  for (std::size_t length = 0; length < 600; ++length) {
    const wire::ErrorReport said{
        .round = 1, .code = Errc::refused, .message = std::string(length, 'x')};
    from.send(said);
    while (from.paces_output()) {
      now += 20ms;
      from.receive(now, {});  // the peer is present, so no ping is sent
      ASSERT_TRUE(from.tick(now, false));
      if (!from.has_output()) continue;
      const Bytes block = from.take_output();
      ASSERT_EQ(block.size(), 256u);
      to.receive(now, block);
    }
    const auto heard = to.next_message();
    ASSERT_TRUE(heard && *heard) << length;
    EXPECT_EQ(std::get<wire::ErrorReport>(**heard), said);
    const auto rest = to.next_message();
    ASSERT_TRUE(rest);
    EXPECT_FALSE(*rest);
  }
}

// Limits count queued bytes, which are not reported as delivered before they are sent.
TEST(ConstantRateTest, CountsQueuedBytesAsBacklog) {
  Instant now = kStart;
  Channel channel({}, now);
  channel.open(kFramePayloadBytesMax);
  channel.pad({.tick = 20ms, .bytes = 256}, 0ms);
  for (int i = 0; i < 100; ++i) {
    channel.send(
        wire::ErrorReport{.round = 1, .code = Errc::refused, .message = std::string(100, 'x')});
  }
  const std::uint64_t said = channel.urgent_bytes();
  ASSERT_GT(said, 10'000u);
  std::uint64_t left = 0;
  for (int ticks = 0; channel.urgent_bytes() > 0 && ticks < 1000; ++ticks) {
    now += 20ms;
    channel.receive(now, {});  // the peer is present, so no ping is sent
    ASSERT_TRUE(channel.tick(now, false));
    if (!channel.has_output()) continue;
    left += channel.take_output().size();
    EXPECT_GE(channel.urgent_bytes() + left, said);
    EXPECT_EQ(channel.is_behind(), channel.urgent_bytes() >= 256);
  }
  EXPECT_GE(left, said);
}

TEST(ConstantRateTest, RejectsServerWithoutPadding) {
  ClientProtocol client({.hello = {.pad_tick_ms = kTickMs}, .channel = {}}, Instant{});
  const Result<void> received = client.receive(Instant{}, wire::encode(small_welcome()));
  ASSERT_TRUE(fails_with(received, Errc::mismatch, "--pad"));
}

TEST(ConstantRateTest, RejectsPadsBeforeSignIn) {
  Bytes pad(kFrameHeaderBytes);
  encode_frame_header({.kind = static_cast<std::uint16_t>(wire::Kind::pad)},
                      std::span(pad).first<kFrameHeaderBytes>());
  ServerProtocol server({}, Instant{});
  const Result<void> received = server.receive(Instant{}, pad);
  EXPECT_TRUE(fails_with(received, Errc::protocol));
}

// Catching up after a stalled socket would be a visible burst.
TEST(ConstantRateTest, DoesNotCatchUpLateBlocks) {
  ConstantRate rate({.tick = 20ms, .bytes = 300, .together = 1});
  Instant now{};
  const auto block = [&] {
    rate.tick(now, true);
    if (!rate.due()) return false;
    rate.append(Bytes(rate.room()));
    EXPECT_EQ(rate.take_block().size(), 300u);
    return true;
  };
  EXPECT_EQ(rate.next_deadline(true), Instant::min());
  EXPECT_EQ(rate.next_deadline(false), Instant::max());
  EXPECT_TRUE(block());
  EXPECT_FALSE(block());
  EXPECT_EQ(rate.next_deadline(true), now + 20ms);
  now += 500ms;
  EXPECT_TRUE(block());
  EXPECT_TRUE(block()) << "the next block is due";
  EXPECT_FALSE(block());
}

}  // namespace
}  // namespace edgedraft
