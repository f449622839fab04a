#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>

#include "tests/e2e/process.h"
#include "tests/e2e/programs.h"
#include "tests/support/demo_prompts.h"
#include "tests/support/expect.h"
#include "tests/support/skip.h"

namespace edgedraft::testing {
namespace {

const Options kAsking{"-p", kQuestion, "--bundle", demo_model("moa-tli0")};
const Options kTarget{"--model", demo_model("target"), "--listen", "127.0.0.1:0"};
const Options kLabServer{EDGEDRAFT_LAB, "server"};

// Invalid inputs are refused with an error message each, and the server continues to serve others.
class RejectionTest : public ::testing::Test {
 protected:
  void expect_refused(const Options& options, int status, const std::string& words) {
    const auto client = start_client(scratch_, "client", options);
    EXPECT_EQ(client->wait(), status) << client->err();
    EXPECT_TRUE(contains(client->err(), words)) << "stderr: " << client->err();
  }

  // As expect_refused(), for a question to this server about the bundle.
  void expect_question_refused(const Server& server, const Options& more, int status,
                               const std::string& words) {
    expect_refused(joined(joined(with_server(server), kAsking), more), status, words);
  }

  void expect_served(const Server& server, const Options& more = {}) {
    const auto answer =
        answer_from(server, scratch_, demo_model("moa-tli0"), joined({"-p", kQuestion}, more));
    for (const auto& mark : answer["provenance"]) EXPECT_EQ(mark, "verified");
  }

  void expect_no_start(const Options& options, const std::string& words, int status = 2) {
    EXPECT_TRUE(contains(refusal_of_server(scratch_, options, status), words));
  }

  test::TemporaryDirectory scratch_;
};

TEST_F(RejectionTest, RefusesWrongPinAndShowsServersPin) {
  Server server(scratch_);
  const std::string wrong = "sha256:" + std::string(64, 'a');
  expect_refused(joined(kAsking, {"--server", server.address(), "--pin", wrong}), 4, server.pin());
  expect_served(server);
}

TEST_F(RejectionTest, RefusesWrongOrMissingToken) {
  scratch_.write_secret("token", "right\n");
  scratch_.write_secret("other", "wrong\n");
  Server server(scratch_, {"--token-file", scratch_ / "token"});
  expect_question_refused(server, {}, 4, "--token-file");
  expect_question_refused(server, {"--token-file", scratch_ / "other"}, 4, "token");
  expect_served(server, {"--token-file", scratch_ / "token"});
}

TEST_F(RejectionTest, RefusesExpiredCertificateWithMatchingPin) {
  const std::string make =
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout " +
      (scratch_ / "key.pem").string() + " -out " + (scratch_ / "unused.pem").string() +
      " -subj /CN=localhost -days 1 2>/dev/null && openssl req -new -key " +
      (scratch_ / "key.pem").string() + " -subj /CN=localhost -out " +
      (scratch_ / "request.pem").string() + " && openssl x509 -req -in " +
      (scratch_ / "request.pem").string() + " -signkey " + (scratch_ / "key.pem").string() +
      " -days -1 -out " + (scratch_ / "cert.pem").string() + " 2>/dev/null";
  if (std::system(make.c_str()) != 0) EDGEDRAFT_SKIP_WITHOUT("openssl", "apt-get install openssl");
  Server server(scratch_, {"--tls-cert", scratch_ / "cert.pem", "--tls-key", scratch_ / "key.pem"});
  expect_question_refused(server, {}, 4, "expired");
}

TEST_F(RejectionTest, ReportsPlainTextPeer) {
  // A listener that answers everything with an HTTP error.
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  socklen_t size = sizeof address;
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  ASSERT_EQ(listen(listener, 8), 0);
  const pid_t child = fork();
  if (child == 0) {
    for (;;) {
      const int peer = accept(listener, nullptr, nullptr);
      const char text[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
      if (write(peer, text, sizeof text - 1) < 0) _exit(1);
      close(peer);
    }
  }
  expect_refused(joined(kAsking, {"--plain", "--server",
                                  "127.0.0.1:" + std::to_string(ntohs(address.sin_port)), "--pin",
                                  "sha256:" + std::string(64, 'a')}),
                 3, "TLS");
  kill(child, SIGKILL);
  close(listener);
}

TEST_F(RejectionTest, ReportsDrafterMissingOnServer) {
  Process server(joined({EDGEDRAFT_SERVER, "--state", scratch_ / "state"}, kTarget),
                 scratch_ / "server");
  ASSERT_TRUE(server.wait_for_output("\n"));
  std::istringstream line(server.out());
  std::string ready;
  std::string address;
  std::string word;
  std::string pin;
  line >> ready >> address >> word >> pin;
  expect_refused(joined(kAsking, {"--server", address, "--pin", pin}), 5, "--bundle");
}

TEST_F(RejectionTest, BothProgramsNameTruncatedModelFile) {
  std::string bytes = test::file_text(demo_model("moa-tli0"));
  const std::string cut = scratch_ / "cut.gguf";
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{3}, std::size_t{100}, bytes.size() / 2, bytes.size() - 1}) {
    std::ofstream(cut, std::ios::binary) << bytes.substr(0, length);
    expect_refused({"-p", kQuestion, "--server", "127.0.0.1:1", "--bundle", cut}, 5, "cut.gguf");
    expect_no_start(joined(kTarget, {"--bundle", cut}), "cut.gguf", 5);
  }
}

TEST_F(RejectionTest, RefusesSecondPaceFromAnySource) {
  const std::string config = scratch_ / "server.toml";
  std::ofstream(config) << "pace-ms = 30\n";
  const Options paces{"--config", config, "--pace-profile", "any.toml"};
  EXPECT_TRUE(
      contains(refusal_of_server(scratch_, joined(kTarget, paces), 2, kLabServer), "--pace-ms"));
}

// A drafter that the profile leaves out would be compared at its own speed and size.
TEST_F(RejectionTest, RefusesProfileThatListsOtherDrafters) {
  const auto profile =
      scratch_.write("other.toml",
                     "[draft.step_ms]\n\"moa-tli1\" = 1\n[beside_target.step_ms]\nmedusa = 1\n"
                     "[activation_bytes]\nmedusa = 2048\n");
  const auto expect_profile_refused = [&](const Options& more, const std::string& table) {
    const Options profiled =
        joined(kTarget, {"--bundle", demo_model("moa-tli0"), "--pace-profile", profile});
    const std::string said = refusal_of_server(scratch_, joined(profiled, more), 2, kLabServer);
    for (const char* word : {"'other'", table.c_str(), "moa-tli0"}) {
      EXPECT_TRUE(contains(said, word));
    }
  };
  expect_profile_refused({}, "[activation_bytes]");
  expect_profile_refused({"--no-payload-padding", "--speculate", "auto"},
                         "[beside_target.step_ms]");
  // Unpadded payloads need no entry, and a table drafter takes almost no time.
  Server server(scratch_, {"--pace-profile", profile, "--no-payload-padding"});
  expect_question_refused(server, {"--pace-profile", profile, "--max-tokens", "4"}, 2,
                          "[draft.step_ms]");
  expect_served(server, {"--pace-profile", profile, "--drafter", "ngram", "--max-tokens", "4"});
}

TEST_F(RejectionTest, RefusesTooLongPromptAndServesNext) {
  Server server(scratch_, {"--ctx", "64"});
  std::string text;
  for (int i = 0; i < 200; ++i) text += "seven words about a dog and a ball ";
  expect_refused(joined(with_server(server), {"-p", text, "--bundle", demo_model("moa-tli0")}), 1,
                 "context");
  expect_served(server);
}

TEST_F(RejectionTest, WarnsOfContextLongerThanModels) {
  Server longer(scratch_, {"--ctx", "2000"});
  EXPECT_TRUE(longer.process().wait_for_error("the model was trained for 1024 tokens"));
}

TEST_F(RejectionTest, UsageErrorsExitWithTwoAndNameOption) {
  const Options bundle{"--bundle", demo_model("moa-tli0")};
  expect_refused(joined(bundle, {"-p", "x", "--tree", "0,6,62"}), 2, "--tree");
  expect_refused(joined(bundle, {"-p", "x", "--drafter", "guess"}), 2, "pld");
  expect_refused(joined(bundle, {"-p", "x", "--drafter-merge", "ngram,guess"}), 2, "pld");
  expect_refused(joined(bundle, {"-p", "x", "--plain", "--drafter", "pld"}), 2, "--drafter");
  expect_refused(joined(bundle, {"-p", "x", "--temperature", "-1"}), 2, "--temperature");
  expect_refused(joined(bundle, {"-p", "x", "--top-p", "nan"}), 2, "--top-p");
  expect_refused(joined(bundle, {"-p", "x", "--oracle-seed", "2"}), 2, "--oracle");
  expect_refused(joined(bundle, {"-p", "x", "--pin", "md5:12"}), 2, "pin");
  expect_refused({"-p", "x"}, 2, "--bundle");
  expect_refused({"-p", "x", "--plain"}, 2, "--plain needs the tokenizer: give --bundle");
  expect_refused(joined(bundle, {"-p", " \n"}), 2, "the prompt is empty");
  expect_refused(joined(bundle, {"-p", "x", "--memory", "1KB"}), 5,
                 "--memory 1.0 KiB is too little");
  expect_refused(bundle, 2, "the prompt is missing");
}

// A resolver decides what a name means, even if it begins like a loopback address.
TEST_F(RejectionTest, RequiresSignInBeyondLoopback) {
  for (const char* listen : {"0.0.0.0:0", "127.example.org:0"}) {
    expect_no_start({"--model", demo_model("target"), "--listen", listen}, "--token-file");
  }
}

// Otherwise sign-in would be off, or weaker than the operator believes.
TEST_F(RejectionTest, RefusesEmptyOrWorldReadableTokenFile) {
  const auto expect_token_refused = [&](const std::string& token, const std::string& says) {
    const std::string said = refusal_of_server(scratch_, joined(kTarget, {"--token-file", token}));
    EXPECT_TRUE(contains(said, "--token-file"));
    EXPECT_TRUE(contains(said, says));
  };
  for (const char* text : {"\n", "\nsecret\n", "", " \t\r\n"}) {
    expect_token_refused(scratch_.write_secret("empty", text), "first line is empty");
  }
  const auto open_to_all = scratch_.write_secret("open", "secret\n");
  std::filesystem::permissions(open_to_all, std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  expect_token_refused(open_to_all, "chmod o=");
}

TEST_F(RejectionTest, RefusesExcessiveThreads) {
  for (const char* threads : {"1025", "4294967295", "-1"}) {
    expect_no_start(joined(kTarget, {"--threads", threads}), "--threads");
  }
}

// Loading a large model takes minutes.
TEST_F(RejectionTest, ReportsTakenAddressBeforeLoadingModel) {
  Server first(scratch_);
  expect_no_start({"--model", scratch_ / "none.gguf", "--listen", first.address()},
                  "--listen " + first.address() + ": the address is in use", 1);
}

TEST_F(RejectionTest, AutomaticSpeculationRequiresBundle) {
  expect_no_start(joined(kTarget, {"--speculate", "auto"}), "give --bundle FILE.gguf");
}

TEST_F(RejectionTest, RefusesInvalidMemorySize) {
  for (const std::string memory : {"-5", "1.5GB"}) {
    expect_no_start({"--model", scratch_ / "none.gguf", "--kv-memory", memory},
                    "--kv-memory: '" + memory + "': give a size");
  }
}

TEST_F(RejectionTest, InvalidNumbersReportAcceptedRange) {
  for (const Options& command : {Options{EDGEDRAFT_CLIENT, "devices", "--threads", "abc"},
                                 Options{EDGEDRAFT_CLIENT, "perplexity", "--window", "abc"},
                                 Options{EDGEDRAFT_CLIENT, "convert", "--draft-vocab", "abc"},
                                 Options{EDGEDRAFT_CLIENT, "index", "--seed", "abc"},
                                 Options{EDGEDRAFT_SERVER, "--max-queue", "abc"}}) {
    Process program(command, scratch_ / "program");
    EXPECT_EQ(program.wait(), 2) << command[0];
    EXPECT_TRUE(contains(program.err(), "'abc': give a number from "));
  }
}

TEST_F(RejectionTest, RefusesUnknownCommandDespiteHelp) {
  for (const Options& command :
       {Options{EDGEDRAFT_CLIENT, "NONSENSE", "--help"}, Options{EDGEDRAFT_CLIENT, "NONSENSE"},
        Options{EDGEDRAFT_SERVER, "NONSENSE", "--help"}, Options{EDGEDRAFT_SERVER, "NONSENSE"}}) {
    Process program(command, scratch_ / "program");
    EXPECT_EQ(program.wait(), 2) << command[0];
    EXPECT_TRUE(contains(program.err(), "'NONSENSE'"));
    const bool names_commands =
        program.err().find("run, chat, serve, verify, devices") != std::string::npos;
    EXPECT_EQ(names_commands, command[0] == EDGEDRAFT_CLIENT) << program.err();
  }
}

}  // namespace
}  // namespace edgedraft::testing
