#include "shared/model/gguf_writer.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <numeric>

#include "shared/model/fingerprint.h"
#include "shared/model/gguf.h"
#include "tests/support/expect.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft {
namespace {

using test::TemporaryDirectory;

Bytes counting_bytes(std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7);
  return bytes;
}

GgufMetadata some_metadata() {
  GgufMetadata metadata;
  metadata.set_string("general.architecture", "test");
  metadata.set_u32("test.count", 5);
  metadata.set_f32("test.number", 0.25f);
  metadata.set_bool("test.flag", true);
  metadata.set_strings("test.texts", std::vector<std::string>{"x", "", "yz"});
  metadata.set_f32s("test.numbers", std::vector<float>{1, 2});
  metadata.set_i32s("test.integers", std::vector<std::int32_t>{-1, 7});
  return metadata;
}

// Tensors whose sizes are not multiples of the alignment.
std::vector<GgufTensorInfo> some_tensors() {
  return {{"a", DType::f32, {3}}, {"b", DType::f16, {5, 7}}, {"c", DType::q8_0, {64, 3}}};
}

Result<void> write_file(const std::filesystem::path& path, std::size_t piece_bytes) {
  auto writer = GgufWriter::create(path, some_metadata(), some_tensors());
  if (!writer) return writer.error();
  for (const GgufTensorInfo& tensor : some_tensors()) {
    const Bytes bytes = counting_bytes(tensor.byte_count());
    for (std::size_t at = 0; at < bytes.size(); at += piece_bytes) {
      const auto piece = ByteView(bytes).subspan(at, std::min(piece_bytes, bytes.size() - at));
      if (auto written = writer->write(piece); !written) return written.error();
    }
  }
  return writer->finish();
}

TEST(GgufWriterTest, RoundTripsThroughReader) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(write_file(directory / "m.gguf", 11));
  const auto file = GgufFile::open(directory / "m.gguf");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(*file->get_u32("test.count"), 5u);
  EXPECT_EQ(*file->get_f32("test.number"), 0.25f);
  EXPECT_TRUE(*file->get_bool("test.flag"));
  EXPECT_EQ(*file->get_strings("test.texts"), (std::vector<std::string_view>{"x", "", "yz"}));
  EXPECT_EQ(*file->get_f32s("test.numbers"), (std::vector<float>{1, 2}));
  EXPECT_EQ(*file->get_i32s("test.integers"), (std::vector<std::int32_t>{-1, 7}));
  for (const GgufTensorInfo& info : some_tensors()) {
    const GgufTensor* tensor = file->find_tensor(info.name);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->type, info.type);
    EXPECT_EQ(tensor->dims, info.dims);
    const Bytes expected = counting_bytes(info.byte_count());
    EXPECT_TRUE(
        std::equal(expected.begin(), expected.end(), tensor->bytes.begin(), tensor->bytes.end()));
  }
}

TEST(GgufWriterTest, CopiesForeignValuesUnchanged) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(write_file(directory / "first.gguf", 1000));
  const auto first = GgufFile::open(directory / "first.gguf");
  ASSERT_TRUE(first);
  GgufMetadata copied;
  for (const auto& [key, value] : first->metadata()) copied.set(std::string(key), value);
  auto writer = GgufWriter::create(directory / "second.gguf", copied, {});
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->finish());
  const auto second = GgufFile::open(directory / "second.gguf");
  ASSERT_TRUE(second);
  for (const auto& [key, value] : first->metadata()) {
    if (key == kFingerprintKey || key == kLayoutKey) continue;
    const GgufValue* copy = second->find_value(key);
    ASSERT_NE(copy, nullptr) << key;
    EXPECT_EQ(copy->type, value.type);
    EXPECT_TRUE(
        std::equal(copy->bytes.begin(), copy->bytes.end(), value.bytes.begin(), value.bytes.end()));
  }
}

TEST(GgufWriterTest, StoresFingerprintThatReaderComputes) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(write_file(directory / "m.gguf", 100));
  const auto file = GgufFile::open(directory / "m.gguf");
  ASSERT_TRUE(file);
  const auto stored = model_fingerprint(*file);
  ASSERT_TRUE(stored);
  EXPECT_EQ(*stored, compute_model_fingerprint(*file));
}

TEST(GgufWriterTest, LeavesNoFileIfUnfinished) {
  const TemporaryDirectory directory;
  {
    auto writer = GgufWriter::create(directory / "m.gguf", some_metadata(), some_tensors());
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->write(counting_bytes(12)));
    EXPECT_FALSE(std::filesystem::exists(directory / "m.gguf"));
  }
  EXPECT_EQ(directory.file_count(), 0u);
}

TEST(GgufWriterTest, ReplacesOldFileOnFinish) {
  const TemporaryDirectory directory;
  directory.write("m.gguf", "old");
  auto writer = GgufWriter::create(directory / "m.gguf", some_metadata(), {});
  ASSERT_TRUE(writer);
  EXPECT_EQ(std::filesystem::file_size(directory / "m.gguf"), 3u);
  ASSERT_TRUE(writer->finish());
  EXPECT_TRUE(GgufFile::open(directory / "m.gguf"));
  EXPECT_EQ(directory.file_count(), 1u);
}

TEST(GgufWriterTest, NamesUnwritablePath) {
  const TemporaryDirectory directory;
  for (const auto& path : {directory / "no/such/folder/m.gguf", directory.path(),
                           std::filesystem::path("/dev/full")}) {
    EXPECT_TRUE(fails_with(GgufWriter::create(path, some_metadata(), {}), Errc::io, path.string()));
  }
}

// The kernel refuses every byte after `limit` in a child process, as a full disk would.
int child_status(const std::filesystem::path& path, rlim_t limit) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit files{limit, limit};
    if (setrlimit(RLIMIT_FSIZE, &files) != 0) _exit(3);
    const auto written = write_file(path, 50);
    if (written) _exit(0);
    const bool clear = written.error().code == Errc::io &&
                       written.error().message.find(path.string()) != std::string::npos;
    _exit(clear ? 1 : 2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}

// A write fails after any number of bytes: in the header, the data, the patch or the flush.
TEST(GgufWriterTest, FailsCleanlyOnFullDiskAtEveryByte) {
  const TemporaryDirectory directory;
  ASSERT_EQ(child_status(directory / "whole.gguf", RLIM_INFINITY), 0);
  const auto total = std::filesystem::file_size(directory / "whole.gguf");
  for (rlim_t limit = 0; limit < total; limit += 13) {
    ASSERT_EQ(child_status(directory / "m.gguf", limit), 1) << limit;
    ASSERT_EQ(directory.file_count(), 1u) << "temporary file left at " << limit;
  }
  EXPECT_EQ(child_status(directory / "m.gguf", total), 0);
}

// A 64 KiB file system in a mount namespace of its own. Exit status 5: not permitted here.
int full_disk_status(const std::filesystem::path& folder) {
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) _exit(5);
    mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    if (mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=64k") != 0) _exit(5);
    auto writer = GgufWriter::create(folder / "m.gguf", {}, {{"a", DType::f32, {1u << 20}}});
    if (!writer) _exit(2);
    Result<void> written = writer->write(Bytes(4u << 20));
    if (written) written = writer->finish();
    const bool clear = !written && written.error().code == Errc::io &&
                       written.error().message.find("No space left") != std::string::npos &&
                       written.error().message.find("free some space") != std::string::npos;
    writer = Error{};
    _exit(clear && std::filesystem::is_empty(folder) ? 1 : 2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}

TEST(GgufWriterTest, ReportsFullDisk) {
  const TemporaryDirectory directory;
  const int status = full_disk_status(directory.path());
  if (status == 5) EDGEDRAFT_SKIP_WITHOUT("root", "mounting a small file system is not permitted");
  EXPECT_EQ(status, 1);
}

}  // namespace
}  // namespace edgedraft
