#include "client/serve/answer/answer_stream.h"

#include <algorithm>
#include <boost/system/error_code.hpp>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/base/ascii.h"
#include "shared/base/check.h"

namespace edgedraft::client {
namespace {

std::int64_t wall_clock_ms() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count();
}

// Head of a stream, with additional `headers`.
HttpAnswer stream_head(const HttpHeaders& headers, StreamForm form) {
  // Asks proxies not to buffer the answer.
  HttpAnswer head{
      .content_type = form.content_type, .body = {}, .headers = {{"X-Accel-Buffering", "no"}}};
  head.add(headers);
  return head;
}

// Interval of fillers in a silent stream, so that proxies keep the connection open.
constexpr Duration kKeepAlive = std::chrono::seconds(10);

std::string error_event(const ApiError& error) {
  return "data: " + to_json(error) + "\n\n";
}

}  // namespace

AnswerStream::AnswerStream(HttpReply reply, HttpHeaders headers, std::size_t bytes_max)
    : asking_(std::move(reply)),
      headers_(std::move(headers)),
      bytes_max_(bytes_max),
      started_ms_(wall_clock_ms()) {}

void AnswerStream::answer(HttpAnswer answer) {
  // The requesting client receives the status; other readers receive this event.
  write("data: " + answer.body + "\n\n");
  answer.add(headers_);
  asking_->send(std::move(answer));
  asking_.reset();
  end();
}

void AnswerStream::begin(const HttpHeaders& headers, StreamForm form) {
  HttpAnswer head = stream_head(headers_, form);
  head.add(headers);
  const std::string filler = form.filler;
  asking_->begin(std::move(head), filler.empty() ? Duration::max() : kKeepAlive, filler);
  readers_.push_back({*std::exchange(asking_, std::nullopt), bytes_.size()});
}

// The latest bytes are taken last.
std::size_t AnswerStream::lag_of(const Reader& reader) const {
  return std::min(reader.reply.backlog_bytes(), bytes_.size() - reader.joined_at);
}

void AnswerStream::write(std::string events) {
  if (bytes_max_ > 0) {
    // Readers that do not drain are disconnected; they may reconnect.
    std::erase_if(readers_, [this](const Reader& reader) {
      return reader.reply.gone() || lag_of(reader) > kStreamBacklogMax;
    });
    bytes_ += events;
  }
  for (Reader& reader : readers_) reader.reply.write(events);
}

void AnswerStream::end() {
  ended_ = wall_clock_ms();
  for (Reader& reader : readers_) reader.reply.end();
  readers_.clear();
}

bool AnswerStream::is_stuck() const {
  if (bytes_max_ > 0) return bytes_.size() > bytes_max_;
  return !readers_.empty() && readers_.front().reply.backlog_bytes() > kStreamBacklogMax;
}

void AnswerStream::break_off(const ApiError& why) {
  if (asking_) return answer(answer_of(why));
  write(error_event(why));
  end();
}

bool AnswerStream::is_read() const {
  return (asking_ && !asking_->gone()) ||
         !std::ranges::all_of(readers_, [](const Reader& reader) { return reader.reply.gone(); });
}

void AnswerStream::attach(HttpReply reply, const HttpHeaders& headers, std::size_t from) {
  EDGEDRAFT_CHECK(from <= bytes_.size());
  constexpr StreamForm kForm;
  HttpAnswer head = stream_head(headers, kForm);
  head.body = bytes_.substr(from);
  reply.begin(std::move(head), kKeepAlive, kForm.filler);
  if (ended_) {
    reply.end();
  } else {
    readers_.push_back({std::move(reply), bytes_.size()});
  }
}

bool KeptStreams::is_name(std::string_view name) {
  return name.size() >= kNameMin && name.size() <= kNameMax &&
         std::ranges::all_of(name, [](char c) {
           return is_ascii_letter(c) || is_ascii_digit(c) ||
                  std::string_view("-_.:/").find(c) != std::string_view::npos;
         });
}

bool KeptStreams::put(const std::string& name, std::shared_ptr<AnswerStream> stream,
                      std::function<void()> stop, Instant now) {
  remove(name, {.status = 409,
                .message = "this stream was replaced by a new one of the same name",
                .code = "stream_replaced"});
  sweep(now);
  if (entries_.size() >= options_.count_max) {
    const auto oldest = std::ranges::min_element(
        entries_, {}, [](const auto& entry) { return entry.second.ended; });
    if (!oldest->second.stream->ended()) return false;
    entries_.erase(oldest);
  }
  entries_.emplace(name, Entry{.stream = std::move(stream), .stop = std::move(stop), .begun = now});
  return true;
}

std::shared_ptr<AnswerStream> KeptStreams::find(const std::string& name, Instant now) {
  sweep(now);
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : found->second.stream;
}

void KeptStreams::end_unread() {
  std::vector<Entry*> unread;
  for (auto& [name, entry] : entries_) {
    if (!entry.stream->ended() && !entry.stream->is_read()) unread.push_back(&entry);
  }
  std::ranges::sort(unread, std::greater(), &Entry::begun);
  for (std::size_t i = options_.unread_max; i < unread.size(); ++i) {
    end(*unread[i], {.status = 503,
                     .message = "this stream was ended: it had no reader when other streams began",
                     .code = "stream_unread"});
  }
}

void KeptStreams::end(Entry& entry, const ApiError& why) {
  entry.stop();
  // Otherwise it would look complete to its readers.
  if (!entry.stream->ended()) entry.stream->break_off(why);
}

void KeptStreams::ended(const AnswerStream& stream, Instant now) {
  for (auto& [name, entry] : entries_) {
    if (entry.stream.get() == &stream) entry.ended = now;
  }
  sweep_later();
}

bool KeptStreams::remove(const std::string& name) {
  return remove(name,
                {.status = 410, .message = "this stream was deleted", .code = "stream_deleted"});
}

bool KeptStreams::remove(const std::string& name, const ApiError& why) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return false;
  Entry entry = std::move(found->second);
  entries_.erase(found);
  if (!entry.stream->ended()) end(entry, why);
  return true;
}

void KeptStreams::sweep(Instant now) {
  std::erase_if(entries_, [&](const auto& entry) {
    return entry.second.ended != Instant::max() && now - entry.second.ended >= options_.kept_for;
  });
}

void KeptStreams::sweep_later() {
  const auto first =
      std::ranges::min_element(entries_, {}, [](const auto& entry) { return entry.second.ended; });
  if (first == entries_.end() || first->second.ended == Instant::max()) return;
  oldest_.expires_at(first->second.ended + options_.kept_for);
  oldest_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    sweep(Clock::now());
    sweep_later();
  });
}

}  // namespace edgedraft::client
