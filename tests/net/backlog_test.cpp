// A client that asks for much and does not read it: what makes it waits for its reader.
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "tests/net/net_support.h"
#include "tests/net/raw_peer.h"

namespace edgedraft {
namespace {

constexpr std::uint32_t kStream = kContextCountMax - 8;
constexpr std::uint32_t kTokensAVerdict = 256;
// 32 MiB, more than sockets hold.
constexpr std::uint32_t kPromptTokens = 2048;
constexpr std::uint32_t kRowValues = 16u << 10;
constexpr std::uint32_t kRowsAChunk = 4;
// A run's verdicts, of which all together are fewer than a backlog takes.
constexpr std::uint32_t kRowsAVerdict = 64;
constexpr std::uint32_t kRunVerdicts = 32;

// Gives as a scheduler does: one thread gives while there is room, and waits to be told of more.
class GivingApplication final : public ServerApplication {
 public:
  ~GivingApplication() override {
    if (compute_.joinable()) compute_.join();
  }

  void handle(const ReplyHandle& reply, const PeerInfo&, ServerEvent event) override {
    if (std::holds_alternative<HelloReceived>(event)) {
      reply.accept({.model = "toy",
                    .context_count = kContextCountMax,
                    .scale_groups = {kRowValues},
                    .stream_tokens_max = kContextCountMax});
    } else if (const auto* prefill = std::get_if<PrefillRequested>(&event)) {
      const std::uint32_t round = prefill->request.round;
      const auto count = static_cast<std::uint32_t>(prefill->request.tokens.size());
      reply.verdict({.round = round, .next = 7});
      if (prefill->request.run.credit > 0) {
        compute_ = std::thread([this, reply, round, count] { run(reply, round, count); });
        return;
      }
      if (prefill->request.activations_from == count) return;
      compute_ = std::thread([this, reply, round, count] { give_rows(reply, round, count); });
    } else if (const auto* draft = std::get_if<DraftRequested>(&event)) {
      compute_ = std::thread([this, reply, round = draft->request.round] { stream(reply, round); });
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

  // Whether the giving came to a halt for want of a reader.
  bool wait_for_pause() {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, soon(), [&] { return paused_ || done_; }) && paused_;
  }
  std::uint32_t most_behind() const { return most_behind_; }
  std::uint32_t most_bytes_behind() const { return most_bytes_behind_; }

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
        reply.activations({.round = round,
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

  // False if the connection is gone.
  bool give_with_room(const std::function<std::uint32_t()>& backlog, std::uint32_t full,
                      const std::function<void()>& give) {
    {
      std::unique_lock lock(mutex_);
      const auto room = [&] { return backlog() < full; };
      if (!room()) {
        paused_ = true;
        changed_.notify_all();
        changed_.wait_until(lock, soon(), [&] { return room() || gone_; });
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
  bool paused_ = false;
  bool done_ = false;
  bool gone_ = false;
  std::uint32_t most_behind_ = 0;
  std::uint32_t most_bytes_behind_ = 0;
  std::thread compute_;
};

// A client that reads when it is told to.
class BacklogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(peer_.shake_hands());
    send();
    ASSERT_TRUE(read_until([&] { return session_.ready(); }));
  }
  void send() { peer_.write(session_.take_output()); }
  bool read_until(const std::function<bool()>& enough) {
    while (!enough()) {
      const Bytes bytes = peer_.read_some();
      if (bytes.empty() || !session_.receive(Clock::now(), bytes)) return false;
      while (auto event = session_.next_event()) {
        if (const auto* verdict = std::get_if<VerdictReceived>(&*event)) {
          streamed_ += verdict->verdict.tokens.size();
          streamed_ += verdict->to == VerdictReceived::To::draft ? 1 : 0;
        } else if (const auto* chunk = std::get_if<ActivationsReceived>(&*event)) {
          rows_ += chunk->count;
        }
      }
    }
    return true;
  }

  test::TemporaryDirectory directory_;
  TlsIdentity identity_ = make_identity(directory_.path(), "server", {});
  GivingApplication application_;
  Listener listener_{on_loopback(),
                     make_server_context({.certificate_file = identity_.certificate_file,
                                          .key_file = identity_.key_file})
                         .value(),
                     application_};
  RawTlsPeer peer_{listener_.port(), {}};
  ClientSession session_{{.hello = {}, .channel = {}}, Clock::now()};
  std::uint64_t streamed_ = 0;
  std::uint32_t rows_ = 0;
};

TEST_F(BacklogTest, AStreamWaitsForItsReader) {
  wire::Prefill prompt = small_prompt();
  prompt.activations_from = static_cast<std::uint32_t>(prompt.tokens.size());
  ASSERT_TRUE(session_.prefill(outgoing(prompt)));
  send();
  ASSERT_TRUE(read_until([&] { return session_.length() > 0; }));
  ASSERT_TRUE(session_.draft(
      outgoing(wire::Draft{.base_length = session_.length(), .stream_tokens = kStream})));
  send();

  EXPECT_TRUE(application_.wait_for_pause());
  ASSERT_TRUE(read_until([&] { return !session_.in_flight(); }));
  EXPECT_EQ(streamed_, kStream);
  EXPECT_LE(application_.most_behind(), ReplyHandle::kBacklogFull);
}

// Each of few verdicts may have the rows of many tokens.
TEST_F(BacklogTest, ARunWaitsForTheReaderOfItsRows) {
  wire::Prefill prompt = small_prompt();
  const auto count = static_cast<std::uint32_t>(prompt.tokens.size());
  prompt.activations_from = count;
  prompt.run = {.credit = count + 1 + kRunVerdicts * kRowsAVerdict, .rows = true};
  ASSERT_TRUE(session_.prefill(outgoing(prompt)));
  send();

  EXPECT_TRUE(application_.wait_for_pause());
  ASSERT_TRUE(read_until([&] { return rows_ == kRunVerdicts * kRowsAVerdict; }));
  const std::size_t verdict_bytes = kRowsAVerdict * ActivationLayout({kRowValues}).row_bytes();
  EXPECT_LE(application_.most_bytes_behind(), ReplyHandle::kBacklogBytesFull + verdict_bytes);
}

TEST_F(BacklogTest, APromptsRowsWaitForTheirReader) {
  ASSERT_TRUE(session_.prefill(
      outgoing(wire::Prefill{.tokens = std::vector<std::uint32_t>(kPromptTokens, 5)})));
  send();

  EXPECT_TRUE(application_.wait_for_pause());
  ASSERT_TRUE(read_until([&] { return rows_ == kPromptTokens; }));
  EXPECT_LE(application_.most_behind(), ReplyHandle::kChunkBacklogFull);
}

}  // namespace
}  // namespace edgedraft
