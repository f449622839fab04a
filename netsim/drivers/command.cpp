#include "netsim/drivers/command.h"

#include "netsim/drivers/process.h"

namespace edgedraft::netsim {

std::string shell_line(const std::vector<std::string>& argv) {
  std::string line;
  for (const std::string& word : argv) {
    if (!line.empty()) line += ' ';
    // A word that starts with $ is a variable of the generated script.
    const bool safe =
        !word.empty() && word.find_first_of(" '\"\\;&|<>*?#~`()[]{}") == std::string::npos;
    if (safe) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

Result<std::string> run_command(const std::vector<std::string>& argv, int network,
                                Instant deadline) {
  constexpr int kNoSuchProgram = 127;  // as reported by a program that runs others
  const TemporaryFolder folder;
  const auto output = folder.path() / "output";
  const auto errors = folder.path() / "errors";
  auto process =
      Process::start({.argv = argv, .output = output, .errors = errors, .network = network});
  const bool ended = process && process->wait_until(deadline);
  if (!process || (ended && process->status() == kNoSuchProgram)) {
    return Error{Errc::unsupported, "program not found: '" + argv.front() + "'"};
  }
  if (ended && process->status() == 0) return read_output(output);
  std::string why = ended ? read_output(errors) : "took too long";
  while (why.ends_with('\n')) why.pop_back();
  return Error{Errc::io, shell_line(argv) + ": " + why};
}

}  // namespace edgedraft::netsim
