#pragma once

#include <string>

#include "client/commands/client_options.h"

namespace edgedraft::client {

struct ChatOptions {
  OptionValues answer;
  std::string system;  // empty: no system prompt
};

void declare_chat(CLI::App& app, ChatOptions& options);

// Answers each line of standard input as the next turn of a conversation. Returns the exit status.
Result<int> run_chat(const ChatOptions& options);

}  // namespace edgedraft::client
