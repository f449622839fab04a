#include "client/generation/telemetry/cycle_record.h"

namespace edgedraft::client {

std::string_view to_string(CycleRecord::Kind kind) {
  switch (kind) {
    case CycleRecord::Kind::prompt:
      return "prompt";
    case CycleRecord::Kind::draft:
      return "draft";
    case CycleRecord::Kind::resync:
      return "resync";
    case CycleRecord::Kind::offline:
      return "offline";
    case CycleRecord::Kind::state:
      return "state";
  }
  return "unknown";
}

}  // namespace edgedraft::client
