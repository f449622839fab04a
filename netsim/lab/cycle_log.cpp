#include "netsim/lab/cycle_log.h"

#include <nlohmann/json.hpp>

#include "client/json_line.h"
#include "shared/base/clock.h"

namespace edgedraft::lab {
namespace {

using nlohmann::ordered_json;

Error cannot_write(const std::filesystem::path& file, const char* how) {
  return {Errc::io, "--cycles " + file.string() + how};
}

void put(std::ofstream& out, const ordered_json& line) {
  out << client::json_line(line) << std::endl;
}

}  // namespace

Result<std::unique_ptr<CycleLog>> CycleLog::open(const std::filesystem::path& file,
                                                 const CycleLogHead& head) {
  auto log = std::make_unique<CycleLog>();
  log->file_ = file;
  log->out_.open(file, std::ios::trunc);
  if (!log->out_) return cannot_write(file, ": cannot be written");
  const std::string& profile = head.pace_profile;
  const auto& acceptance = head.synthetic_acceptance;
  put(log->out_,
      {{"kind", "answer"},
       {"drafter", head.drafter},
       {"bundle", head.bundle},
       {"pace_profile", profile.empty() ? ordered_json() : ordered_json(profile)},
       {"synthetic_acceptance", acceptance ? ordered_json(*acceptance) : ordered_json()}});
  return log;
}

void CycleLog::write(const client::CycleRecord& r) {
  ordered_json line{{"kind", to_string(r.kind)},
                    {"at_ms", milliseconds(r.at)},
                    {"tokens", r.tokens},
                    {"answer_tokens", r.answer_tokens}};
  if (r.kind == client::CycleRecord::Kind::state) {
    line["state"] = to_string(r.state);
    line["why"] = r.why;
    put(out_, line);
    return;
  }
  line["draft_ms"] = milliseconds(r.drafting);
  if (r.kind == client::CycleRecord::Kind::offline) {
    put(out_, line);
    return;
  }
  const double server_ms =
      (r.server.queue_us + r.server.verify_us + r.server.draft_us + r.server.held_us) / 1000.0;
  line["pack_ms"] = milliseconds(r.pack);
  line["round_trip_ms"] = milliseconds(r.round_trip);
  line["network_ms"] = milliseconds(r.round_trip) - server_ms;
  line["unpack_ms"] = milliseconds(r.unpack);
  line["server"] = {{"queue_ms", r.server.queue_us / 1000.0},
                    {"verify_ms", r.server.verify_us / 1000.0},
                    {"draft_ms", r.server.draft_us / 1000.0},
                    {"held_ms", r.server.held_us / 1000.0}};
  line["streamed"] = r.streamed;
  line["rows"] = r.rows;
  line["accepted"] = r.accepted;
  line["bytes_up"] = r.link.bytes_up;
  line["bytes_down"] = r.link.bytes_down;
  line["activation_bytes_raw"] = r.link.traffic.activation_bytes_raw;
  line["activation_bytes_sent"] = r.link.traffic.activation_bytes_sent;
  line["pad_bytes_down"] = r.link.traffic.pad_bytes_in;
  if (r.tcp) {
    line["tcp"] = {{"retransmits", r.tcp->retransmits},
                   {"round_trip_ms", r.tcp->round_trip_us / 1000.0},
                   {"congestion_window", r.tcp->congestion_window}};
  } else {
    line["tcp"] = nullptr;
  }
  put(out_, line);
}

Result<void> CycleLog::close(std::uint32_t late_drafts) {
  put(out_, {{"kind", "end"}, {"late_drafts", late_drafts}});
  // A failed stream stays failed and writes no more.
  out_.close();
  if (!out_) return cannot_write(file_, ": could not be written completely; is the disk full?");
  return boost::system::in_place_value;
}

}  // namespace edgedraft::lab
