#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/serve/json/api_error.h"
#include "shared/base/clock.h"
#include "shared/net/http/http_message.h"
#include "shared/net/http/http_reply.h"

namespace edgedraft::client {

// Backlog of events beyond which a client is disconnected.
inline constexpr std::size_t kStreamBacklogMax = 4u << 20;

// How a stream is sent, and what keeps a silent one open (empty: nothing).
struct StreamForm {
  const char* content_type = "text/event-stream";
  const char* filler = ": keep-alive\n\n";
};

// Output of an answer. If it is kept, it outlives the connection of its request: clients that know
// its name can read the events from any byte on, while it runs and for a while after.
//
// Threads   the io_context's, as all of the local API except its guard
class AnswerStream {
 public:
  // Bounds a kept answer; beyond it, the answer is ended.
  static constexpr std::size_t kBytesMax = 16u << 20;

  // The requesting client is its first reader; `headers` belong to its answer. `bytes_max` bounds
  // the kept events; 0: none are kept.
  AnswerStream(HttpReply reply, HttpHeaders headers, std::size_t bytes_max = kBytesMax);

  // Sends an answer instead of events. Requires  nothing was sent
  void answer(HttpAnswer answer);
  // Begins events, with `headers` added to the stream's own. Requires  nothing was sent; the
  // default form if they are kept
  void begin(const HttpHeaders& headers = {}, StreamForm form = {});
  void write(std::string events);
  void end();
  // True if kept events are over their limit, or if none are kept and the reader's backlog is.
  bool is_stuck() const;
  // Ends an incomplete stream and reports why to its readers. Requires  not ended
  void break_off(const ApiError& why);

  // Adds a reader of a kept stream from that byte on. Requires  from <= size()
  void attach(HttpReply reply, const HttpHeaders& headers, std::size_t from);

  std::size_t size() const { return bytes_.size(); }
  bool ended() const { return ended_.has_value(); }
  // True if a reader is connected.
  bool is_read() const;
  // Wall-clock time in milliseconds since 1970.
  std::int64_t started_ms() const { return started_ms_; }
  std::int64_t ended_ms() const { return ended_.value_or(0); }

 private:
  struct Reader {
    HttpReply reply;
    std::size_t joined_at;  // stream size at that time, sent to it at once
  };
  // Bytes that arrived after it joined and that it has not taken.
  std::size_t lag_of(const Reader& reader) const;

  std::optional<HttpReply> asking_;  // the requesting client, until the stream begins
  HttpHeaders headers_;
  std::size_t bytes_max_;
  std::string bytes_;  // kept events
  std::vector<Reader> readers_;
  std::int64_t started_ms_;
  std::optional<std::int64_t> ended_;
};

// Kept streams by name. Clients choose the names.
class KeptStreams {
 public:
  // Length of an unguessable name: 128 random bits take 22 characters of base64url, 32 of hex, or a
  // UUID.
  static constexpr std::size_t kNameMin = 22;
  static constexpr std::size_t kNameMax = 128;
  static bool is_name(std::string_view name);

  struct Options {
    std::size_t count_max = 64;
    std::size_t unread_max = 8;                    // streams still being written
    Duration kept_for = std::chrono::minutes(10);  // after the end
  };
  // Streams expire on the thread of `io`, which must outlive this.
  KeptStreams(boost::asio::io_context& io, Options options) : options_(options), oldest_(io) {}

  // Stores the stream. `stop` ends its writer; it is called at most once, before the end. An
  // existing stream of that name is stopped and dropped, and its readers are informed. If there are
  // too many streams, the one that ended first is dropped; if none has ended, returns false.
  bool put(const std::string& name, std::shared_ptr<AnswerStream> stream,
           std::function<void()> stop, Instant now);
  std::shared_ptr<AnswerStream> find(const std::string& name, Instant now);
  // Ends streams without a reader, oldest first, down to `unread_max`, because they hold
  // conversations and server sessions. Their events stay.
  void end_unread();
  // Call after the stream has ended.
  void ended(const AnswerStream& stream, Instant now);
  // Stops and drops the stream, and informs its readers; false if there is none.
  bool remove(const std::string& name);

 private:
  struct Entry {
    std::shared_ptr<AnswerStream> stream;
    std::function<void()> stop;
    Instant begun;
    Instant ended = Instant::max();
  };
  static void end(Entry& entry, const ApiError& why);
  bool remove(const std::string& name, const ApiError& why);
  void sweep(Instant now);
  void sweep_later();

  Options options_;
  boost::asio::steady_timer oldest_;  // until the next stream expires
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace edgedraft::client
