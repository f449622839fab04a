// Back-pressure: if a client requests much and does not read, the producer waits.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <optional>
#include <thread>

#include "tests/net/net_support.h"
#include "tests/net/raw_peer.h"

namespace edgedraft {
namespace {

constexpr std::uint32_t kStream = kContextCountMax - 8;
constexpr std::uint32_t kTokensAVerdict = 256;
// 32 MiB, more than the socket buffers hold.
constexpr std::uint32_t kPromptTokens = 2048;
constexpr std::uint32_t kRowValues = 16u << 10;
constexpr std::uint32_t kRowsAChunk = 4;
// All verdicts of a run together stay below the backlog's limit.
constexpr std::uint32_t kRowsAVerdict = 64;
constexpr std::uint32_t kRunVerdicts = 48;
// A backlog just below its limit, plus one verdict's rows.
const std::uint64_t kHeldMax =
    ReplyHandle::kBacklogBytesFull + kRowsAVerdict * ActivationLayout({kRowValues}).row_bytes();

// Produces like a scheduler: one thread sends while there is room, and waits for a notice of more.
class GivingApplication final : public ServerApplication {
 public:
  ~GivingApplication() override {
    if (compute_.joinable()) compute_.join();
  }

  void handle(const ReplyHandle& reply, const PeerInfo&, ServerEvent event) override {
    if (std::holds_alternative<HelloReceived>(event)) {
      {
        const std::scoped_lock lock(mutex_);
        reply_ = reply;
      }
      reply.accept(
          {.model = "toy", .context_count = kContextCountMax, .scale_groups = {kRowValues}});
    } else if (const auto* prefill = std::get_if<PrefillRequested>(&event)) {
      const std::uint32_t round = prefill->request.round;
      const auto count = static_cast<std::uint32_t>(prefill->request.tokens.size());
      reply.verdict({.round = round, .next = 7});
      if (prefill->request.run.credit > 0) {
        if (prefill->request.run.credit == kContextCountMax) return;
        const bool gives_rows = prefill->request.run.rows;
        compute_ = std::thread([this, reply, round, count, gives_rows] {
          gives_rows ? run(reply, round, count) : stream(reply, round);
        });
        return;
      }
      if (prefill->request.activations_from == count) return;
      compute_ = std::thread([this, reply, round, count] { give_rows(reply, round, count); });
    }
  }
  void drained(std::uint64_t) override {
    const std::scoped_lock lock(mutex_);
    changed_.notify_all();
  }
  void ended(std::uint64_t, const PeerInfo&, const Error&, const TrafficStats&) override {
    const std::scoped_lock lock(mutex_);
    gone_ = true;
    changed_.notify_all();
  }

  // The reply handle of the only connection.
  ReplyHandle client() {
    const std::scoped_lock lock(mutex_);
    return reply_.value();
  }
  // True if the producer stopped because the client does not read.
  bool wait_for_pause() {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, soon(), [&] { return paused_ || done_; }) && paused_;
  }
  std::uint32_t most_behind() const { return most_behind_; }
  std::uint32_t most_bytes_behind() const { return most_bytes_behind_; }
  // Bytes of a run's rows.
  std::uint64_t given_bytes() const { return given_bytes_; }

 private:
  void stream(const ReplyHandle& reply, std::uint32_t round) {
    const auto backlog = [&] { return reply.backlog(); };
    for (std::uint32_t left = kStream; left > 0;) {
      const std::uint32_t count = std::min(left, kTokensAVerdict);
      const auto give = [&] {
        reply.verdict(
            {.round = round, .next = 7, .tokens = std::vector<std::uint32_t>(count - 1, 7)});
      };
      if (!give_with_room(backlog, ReplyHandle::kBacklogFull, give)) return;
      left -= count;
    }
    note_done();
  }
  // Verdicts with the rows from `first` on.
  void run(const ReplyHandle& reply, std::uint32_t round, std::uint32_t first) {
    const std::size_t row_bytes = ActivationLayout({kRowValues}).row_bytes();
    const auto is_full = [&] { return reply.full() ? 1u : 0u; };
    for (std::uint32_t i = 0; i < kRunVerdicts; ++i, first += kRowsAVerdict) {
      const auto give = [&] {
        reply.verdict({.round = round,
                       .next = 7,
                       .tokens = std::vector<std::uint32_t>(kRowsAVerdict - 1, 7)});
        given_bytes_ += kRowsAVerdict * row_bytes;
        reply.run_activations({.round = round,
                               .first = first,
                               .count = kRowsAVerdict,
                               .data = Bytes(kRowsAVerdict * row_bytes)});
      };
      if (!give_with_room(is_full, 1, give)) return;
      most_bytes_behind_ = std::max(most_bytes_behind_, reply.backlog_bytes());
    }
    note_done();
  }
  void give_rows(const ReplyHandle& reply, std::uint32_t round, std::uint32_t end) {
    const std::size_t row_bytes = ActivationLayout({kRowValues}).row_bytes();
    const auto backlog = [&] { return reply.chunk_backlog(); };
    while (end > 0) {
      const std::uint32_t count = std::min(end, kRowsAChunk);
      end -= count;
      const auto give = [&] {
        reply.activations(
            {.round = round, .first = end, .count = count, .data = Bytes(count * row_bytes)});
      };
      if (!give_with_room(backlog, ReplyHandle::kChunkBacklogFull, give)) return;
    }
    note_done();
  }

  // False if the connection is closed.
  bool give_with_room(const std::function<std::uint32_t()>& backlog, std::uint32_t full,
                      const std::function<void()>& give) {
    {
      std::unique_lock lock(mutex_);
      const auto room = [&] { return backlog() < full; };
      if (!room()) {
        paused_ = true;
        changed_.notify_all();
        changed_.wait_until(lock, soon(), [&] { return room() || gone_; });
        paused_ = false;
      }
      if (gone_) return false;
    }
    give();
    most_behind_ = std::max(most_behind_, backlog());
    return true;
  }
  void note_done() {
    const std::scoped_lock lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<ReplyHandle> reply_;
  bool paused_ = false;
  bool done_ = false;
  bool gone_ = false;
  std::uint32_t most_behind_ = 0;
  std::uint32_t most_bytes_behind_ = 0;
  std::atomic<std::uint64_t> given_bytes_ = 0;
  std::thread compute_;
};

// A client that reads only on request.
class BacklogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(peer_.shake_hands());
    send();
    ASSERT_TRUE(read_until([&] { return protocol_.ready(); }));
  }
  void send() { peer_.write(protocol_.take_output()); }
  void begin_run() {
    wire::Prefill prompt = small_prompt();
    const auto count = static_cast<std::uint32_t>(prompt.tokens.size());
    prompt.activations_from = count;
    prompt.run = {.credit = count + 1 + kRunVerdicts * kRowsAVerdict, .rows = true};
    ASSERT_TRUE(protocol_.prefill(outgoing(prompt)));
    send();
  }
  // Bytes accepted by the server's sockets so far. The counter is updated after a read, so only the
  // first of two readings is certain to be complete.
  std::uint64_t bytes_at_sockets() {
    for (const std::uint64_t nonce : {1, 2}) {
      const std::uint64_t before = server_.listener->stats().bytes_in;
      peer_.write(wire::encode(wire::Ping{nonce}));
      const Instant deadline = soon();
      while (server_.listener->stats().bytes_in == before && Clock::now() < deadline) {
        std::this_thread::sleep_for(1ms);
      }
    }
    return server_.listener->stats().bytes_out;
  }
  bool read_until(const std::function<bool()>& enough) {
    while (!enough()) {
      const Bytes bytes = peer_.read_some();
      if (bytes.empty() || !protocol_.receive(Clock::now(), bytes)) return false;
      while (auto event = protocol_.next_event()) {
        if (const auto* verdict = std::get_if<VerdictReceived>(&*event)) {
          streamed_ += verdict->verdict.tokens.size();
          streamed_ += verdict->to == VerdictReceived::To::run ? 1 : 0;
        } else if (const auto* chunk = std::get_if<ActivationsReceived>(&*event)) {
          rows_ += chunk->count;
        }
      }
    }
    return true;
  }

  GivingApplication application_;
  ServerOf server_{application_};
  RawTlsPeer peer_{server_.listener->port(), {}};
  ClientProtocol protocol_{{.hello = {}, .channel = {}}, Clock::now()};
  std::uint64_t streamed_ = 0;
  std::uint32_t rows_ = 0;
};

TEST_F(BacklogTest, RunWaitsForSlowReader) {
  wire::Prefill prompt = small_prompt();
  prompt.activations_from = static_cast<std::uint32_t>(prompt.tokens.size());
  prompt.run.credit = static_cast<std::uint32_t>(prompt.tokens.size()) + 1 + kStream;
  ASSERT_TRUE(protocol_.prefill(outgoing(prompt)));
  send();

  EXPECT_TRUE(application_.wait_for_pause());
  ASSERT_TRUE(read_until([&] { return streamed_ == kStream; }));
  EXPECT_LE(application_.most_behind(), ReplyHandle::kBacklogFull);
}

// A few verdicts may carry the rows of many tokens.
TEST_F(BacklogTest, RunWaitsForSlowReaderOfRows) {
  begin_run();
  EXPECT_TRUE(application_.wait_for_pause());
  ASSERT_TRUE(read_until([&] { return rows_ == kRunVerdicts * kRowsAVerdict; }));
  EXPECT_LE(application_.most_bytes_behind(), kHeldMax);
}

// Bytes being written count until the socket accepts them. A second pause holds as many as the
// first.
TEST_F(BacklogTest, QueuedRowsOfRunStayWithinBacklogLimit) {
  begin_run();
  ASSERT_TRUE(application_.wait_for_pause());
  ASSERT_TRUE(read_until([&] { return rows_ >= kRunVerdicts * kRowsAVerdict / 2; }));
  ASSERT_TRUE(application_.wait_for_pause());
  const std::uint64_t given = application_.given_bytes();
  EXPECT_LE(given, bytes_at_sockets() + kHeldMax);
}

// Chunks have a separate limit.
TEST_F(BacklogTest, PromptRowsDoNotFillBacklogOfRun) {
  constexpr std::uint32_t kRows = kPromptTokens / ReplyHandle::kChunkBacklogFull;
  wire::Prefill prompt{.tokens = std::vector<std::uint32_t>(kPromptTokens, 5)};
  prompt.run = {.credit = kContextCountMax};
  ASSERT_TRUE(protocol_.prefill(outgoing(prompt)));
  send();
  ASSERT_TRUE(read_until([&] { return protocol_.length() > 0; }));

  const ReplyHandle reply = application_.client();
  const std::size_t row_bytes = ActivationLayout({kRowValues}).row_bytes();
  for (std::uint32_t first = kPromptTokens; first > 0;) {
    first -= kRows;
    reply.activations(
        {.round = 1, .first = first, .count = kRows, .data = Bytes(kRows * row_bytes)});
  }
  EXPECT_GT(reply.chunk_backlog(), 1u) << "the sockets cannot buffer all chunks";
  EXPECT_FALSE(reply.full());
}

TEST_F(BacklogTest, PromptRowsWaitForSlowReader) {
  ASSERT_TRUE(protocol_.prefill(
      outgoing(wire::Prefill{.tokens = std::vector<std::uint32_t>(kPromptTokens, 5)})));
  send();

  EXPECT_TRUE(application_.wait_for_pause());
  ASSERT_TRUE(read_until([&] { return rows_ == kPromptTokens; }));
  EXPECT_LE(application_.most_behind(), ReplyHandle::kChunkBacklogFull);
}

}  // namespace
}  // namespace edgedraft
