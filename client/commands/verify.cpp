#include <CLI/CLI.hpp>
#include <iostream>
#include <random>
#include <string>
#include <utility>

#include "client/commands/commands.h"
#include "client/receipts/answer_check.h"
#include "client/receipts/receipt_file.h"
#include "client/version.h"
#include "shared/base/text_file.h"
#include "shared/net/certificate.h"
#include "shared/net/client_link.h"
#include "shared/net/receipt_signature.h"
#include "shared/program/validators.h"

namespace edgedraft::client {
namespace {

// Longest silence of a server that replays an answer.
constexpr Duration kReplayPatience = std::chrono::seconds(60);

constexpr int kYes = 0;
constexpr int kNo = 1;
constexpr int kUndecided = 2;

Result<Receipt> read_receipt(const std::filesystem::path& file) {
  const auto text = read_text(file, kReceiptFileBytesMax);
  if (!text) return text.error();
  auto receipt = parse_receipt(*text);
  if (!receipt) return Error{receipt.error().code, file.string() + ": " + receipt.error().message};
  return receipt;
}

Result<CheckedAnswer> replay(const ClientSettings& config, const Receipt& receipt) {
  wire::Hello hello{.agent = kVersion, .token = config.token, .target = receipt.target};
  const auto link = ClientLink::open({.host = config.host,
                                      .port = config.port,
                                      .tls = config.trust.tls,
                                      .protocol = {.hello = std::move(hello), .channel = {}},
                                      .connects_later = true,
                                      .back_off = {},
                                      .jitter_seed = std::random_device{}()});
  if (!link) return link.error();
  return check_answer(**link, receipt, false, kReplayPatience);
}

int tell(const Receipt& receipt, const CheckedAnswer& checked, const std::string& server) {
  const bool is_alike = checked.welcome.arithmetic == receipt.arithmetic;
  if (!checked.difference) {
    std::cout << "yes: " << server << " chooses the same " << receipt.answer.size() << " tokens\n";
    return kYes;
  }
  const Difference& difference = *checked.difference;
  std::cout << (is_alike ? "no" : "undecided") << ": differs first at token "
            << difference.index + 1 << " of " << receipt.answer.size() << ": the receipt has "
            << receipt.answer[difference.index] << ", " << server << " chooses "
            << difference.chosen << '\n';
  if (is_alike) return kNo;
  std::cout << "the servers compute differently, so that decides nothing: the receipt is from '"
            << receipt.arithmetic << "', the replay from '" << checked.welcome.arithmetic << "'\n";
  return kUndecided;
}

}  // namespace

void declare_verify(CLI::App& app, VerifyOptions& options) {
  app.add_option("file", options.file, "Receipt written by --receipt; - reads standard input")
      ->type_name("FILE");
  declare_server_options(app, options.config);
  app.add_option("--signer", options.signer,
                 "Pin of the server that must have signed the receipt [any; printed]")
      ->type_name("sha256:HEX")
      ->check(accepted_by(parse_pin));
  app.add_flag("--signature-only", options.signature_only,
               "Check only the signature, without a server");
  app.footer(
      "Checks the signature, then has the server choose the answer's tokens again, which sends it\n"
      "the prompt and the answer. Use a server with the same model, build and kind of device.\n"
      "Example:\n"
      "  edgedraft verify answer.json --signer sha256:... --server other:7420 --pin sha256:...\n"
      "Exit status:\n"
      "  0    yes: the receipt is right\n"
      "  1    no: it was changed, has another signer, or the server chooses another token\n"
      "  2    undecided: the server has another model, build or kind of device; invalid options\n"
      "  3    server unreachable\n"
      "  4    server not trusted, or access denied\n"
      "  5    not a receipt");
}

Result<int> run_verify(const VerifyOptions& options) {
  if (options.file.empty()) return Error{Errc::usage, "the receipt is missing: give its FILE"};
  ClientSettings config = options.config;
  if (auto right = check_server_options(config); !right) return right.error();
  const auto receipt = read_receipt(options.file);
  if (!receipt) return receipt.error();
  const auto pin =
      check_receipt(receipt->certificate, as_byte_view(receipt->statement()), receipt->signature);
  if (!pin) {
    std::cout << "no: " << pin.error().message << std::endl;
    return kNo;
  }
  std::cout << "signed by " << *pin << std::endl;
  if (!options.signer.empty() && parse_pin(options.signer).value() != *pin) {
    std::cout << "no: --signer is another key" << std::endl;
    return kNo;
  }
  if (options.signature_only) return kYes;
  const auto checked = replay(config, *receipt);
  if (!checked && checked.error().code == Errc::mismatch) {
    std::cout << "undecided: " << checked.error().message << std::endl;
    return kUndecided;
  }
  if (!checked) return checked.error();
  return tell(*receipt, *checked, config.server);
}

}  // namespace edgedraft::client
