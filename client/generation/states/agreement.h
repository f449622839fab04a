#pragma once

#include <string>

#include "client/generation/offline/device_writing.h"
#include "client/generation/online/requests.h"
#include "client/generation/telemetry/cycle_notes.h"
#include "client/generation/telemetry/observer.h"
#include "client/generation/token_writer.h"

namespace edgedraft::client {

// States of an answer, which states.h implements.
enum class Phase : std::uint8_t {
  opening,         // the server reads the prefix before private text and returns its activations
  online,          // the server answers, or checks text written offline
  offline,         // the device writes alone, or waits for the server
  awaiting_check,  // the text is complete offline; the server may return and check it
  over,
};

// How far device and server agree, and the events that change it. Errors of its functions end the
// answer.
class Agreement : GenerationContext {
 public:
  // Requires  the references outlive it
  Agreement(const GenerationContext& context, CycleNotes& notes, TokenWriter& text,
            Requests& requests, DeviceWriting& device)
      : GenerationContext(context),
        notes_(notes),
        text_(text),
        requests_(requests),
        device_(device) {}

  ClientState state() const { return state_; }
  void enter(ClientState state, const std::string& why);

  // Begins an answer whose prompt is complete. Call begin() first, once per answer.
  void begin() { state_ = ClientState::online; }
  Phase begin_writing();
  Phase go_offline(const std::string& why);
  Phase resync();
  bool may_resync() const { return !device_.device_writes() && requests_.may_ask(); }

  // Handles an error of the link, or the refusal of a request, while the server was to answer.
  Result<Phase> lost(const Error& error);
  Result<Phase> refused(const Error& error);
  // Takes in an event while the server is away. Errors    also the link's, once it is closed
  Result<void> hear(const Result<ClientEvent>& told);

  // Tokens that the server can hold; 0: no limit, as for an answer that stays on the device.
  std::uint32_t server_room() const {
    return terms_.route == WritingSide::device ? 0 : server_.context_count;
  }

 private:
  CycleNotes& notes_;
  TokenWriter& text_;
  Requests& requests_;
  DeviceWriting& device_;
  ClientState state_ = ClientState::online;
};

}  // namespace edgedraft::client
