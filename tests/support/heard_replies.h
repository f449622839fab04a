#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "server/passes/request.h"

namespace edgedraft::testing {
using namespace server;

// Counts a session's length as its client does: the position of complete hints. Not for `keep`.
class HeldLength {
 public:
  void asked(const wire::Prefill& request) {
    value_ = request.base_length + static_cast<std::uint32_t>(request.tokens.size()) -
             request.provisional_count;
  }
  void asked(const wire::Resume& request) { value_ = request.verified_length; }
  void heard(const wire::Verdict& verdict) {
    value_ += verdict.accepted_count + 1 + static_cast<std::uint32_t>(verdict.tokens.size());
  }
  std::uint32_t value() const { return value_; }

 private:
  std::uint32_t value_ = 0;
};

// Records all replies to one connection.
class HeardReplies : public Replies {
 public:
  // A client without a tap receives no activations.
  explicit HeardReplies(bool has_tap = false) : has_tap_(has_tap) {}

  void verdict(wire::Verdict verdict) override {
    length.heard(verdict);
    verdicts.push_back(std::move(verdict));
  }
  void activations(wire::Activations chunk) override {
    EXPECT_TRUE(has_tap_) << "activations without a tap";
    chunks.push_back(std::move(chunk));
  }
  void refuse(std::uint32_t, Error error) override { refusals.push_back(std::move(error)); }

  HeldLength length;  // if the test reports its requests to it
  std::vector<wire::Verdict> verdicts;
  std::vector<wire::Activations> chunks;
  std::vector<Error> refusals;

 private:
  bool has_tap_;
};

}  // namespace edgedraft::testing
