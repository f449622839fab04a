#include "client/conformance/suite.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>
#include <regex>
#include <string_view>
#include <utility>
#include <vector>

#include "client/conformance/check.h"
#include "client/conformance/subject.h"
#include "client/json_line.h"
#include "shared/base/printable.h"
#include "shared/program/endpoint.h"

namespace edgedraft::conformance {
namespace {

constexpr const char* kUsualPort = ":7420";

struct Outcome {
  const char* result;  // PASS, FAIL or SKIP
  std::string detail{};
};

Result<Endpoint> endpoint_of(const std::string& server) {
  const bool has_port = !server.ends_with(']') && server.find(':') != std::string::npos;
  auto endpoint = parse_endpoint(has_port ? server : server + kUsualPort, EndpointUse::connect);
  if (!endpoint) return usage_error("HOST: " + endpoint.error().message);
  return endpoint;
}

std::vector<Check> chosen_checks(const std::regex& pattern) {
  std::vector<Check> chosen;
  for (const auto checks : {sign_in_checks(), request_checks(), draft_checks(), fault_checks()}) {
    for (const Check& check : checks) {
      if (std::regex_search(check.name, pattern)) chosen.push_back(check);
    }
  }
  return chosen;
}

Outcome outcome_of(const Check& check, Subject& subject) {
  try {
    check.run(subject);
    return {.result = "PASS"};
  } catch (const CheckSkipped& skipped) {
    return {.result = "SKIP", .detail = skipped.what()};
  } catch (const CheckFailed& failed) {
    return {.result = "FAIL", .detail = failed.what()};
  }
}

// Fails if the checks cannot run, for example because the server refuses the token.
Result<wire::Welcome> sign_in(const ServerAddress& address) {
  auto connection = Connection::open(address);
  if (!connection) return connection.error();
  try {
    return Session(address).welcome();
  } catch (const CheckFailed& failed) {
    return Error{Errc::protocol, failed.what()};
  }
}

}  // namespace

void declare_suite(CLI::App& app, SuiteOptions& options) {
  app.add_option("HOST", options.server, "The server: HOST or HOST:PORT [port 7420]");
  client::declare_trust(app, options.trust);
  app.add_option("-R", options.pattern, "Run only checks whose name matches")->type_name("REGEX");
  app.add_flag("--list", options.lists, "Print the names of the checks and what they expect");
  app.add_flag("--json", options.json, "Print one JSON object");
  app.footer(
      "Checks whether a server keeps the protocol (docs/protocol.md). It needs two free "
      "sessions;\nother clients may be connected.\n\n"
      "Exit status: 0 no check failed, 1 a check failed, 2 wrong usage or no server.\n\n"
      "  edgedraft-conformance 127.0.0.1:7420 --pin sha256:HEX\n"
      "  edgedraft-conformance 127.0.0.1:7420 --pin sha256:HEX -R '^drafts-'");
}

Result<int> run_suite(const SuiteOptions& options) {
  std::regex pattern;
  try {
    pattern = std::regex(options.pattern);
  } catch (const std::regex_error& error) {
    return usage_error("-R '" + options.pattern + "': " + error.what());
  }
  const std::vector<Check> checks = chosen_checks(pattern);
  if (checks.empty()) {
    return usage_error("-R '" + options.pattern + "': no check has such a name; see --list");
  }
  if (options.lists) {
    for (const Check& check : checks) std::cout << check.name << ": " << check.expected << '\n';
    return 0;
  }
  if (options.server.empty()) {
    return usage_error("the server is missing: give HOST or HOST:PORT (see --help)");
  }
  auto endpoint = endpoint_of(options.server);
  if (!endpoint) return endpoint.error();
  auto token = client::check_trust(options.trust);
  if (!token) return token.error();
  Subject subject({.host = endpoint->host,
                   .port = std::to_string(endpoint->port),
                   .tls = options.trust.tls,
                   .token = *std::move(token)});
  const auto welcome = sign_in(subject.address());
  if (!welcome) {
    std::cerr << "edgedraft-conformance: " << printable(welcome.error().message, Lines::one)
              << std::endl;
    return 2;
  }

  bool has_failed = false;
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const Check& check : checks) {
    const Outcome outcome = outcome_of(check, subject);
    has_failed = has_failed || std::string_view(outcome.result) == "FAIL";
    if (options.json) {
      nlohmann::ordered_json one{
          {"name", check.name}, {"result", outcome.result}, {"expected", check.expected}};
      if (!outcome.detail.empty()) one["detail"] = outcome.detail;
      results.push_back(std::move(one));
      continue;
    }
    std::cout << outcome.result << ' ' << check.name << ": " << check.expected;
    if (!outcome.detail.empty()) std::cout << " (" << printable(outcome.detail, Lines::one) << ')';
    std::cout << std::endl;
  }
  if (options.json) {
    std::cout << client::json_line({{"server", options.server},
                                    {"agent", welcome->agent},
                                    {"model", welcome->model},
                                    {"passed", !has_failed},
                                    {"checks", results}})
              << std::endl;
  }
  return has_failed ? 1 : 0;
}

}  // namespace edgedraft::conformance
