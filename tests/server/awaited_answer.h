#pragma once

#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <utility>

#include "server/passes/request.h"

namespace edgedraft::testing {
using namespace server;

// Waits for the only answer to a connection without a tap.
class AwaitedAnswer : public Replies {
 public:
  void verdict(wire::Verdict) override { given_.set_value(std::nullopt); }
  void activations(wire::Activations) override { FAIL() << "activations without a tap"; }
  void refuse(std::uint32_t, Error error) override { given_.set_value(std::move(error)); }

  // Empty for a verdict.
  std::optional<Error> wait() { return given_.get_future().get(); }

 private:
  std::promise<std::optional<Error>> given_;
};

}  // namespace edgedraft::testing
