#include "client/generation/telemetry/observer.h"

namespace edgedraft::client {

std::string_view to_string(ClientState state) {
  switch (state) {
    case ClientState::online:
      return "online";
    case ClientState::offline:
      return "offline";
    case ClientState::resyncing:
      return "resyncing";
  }
  return "unknown";
}

}  // namespace edgedraft::client
