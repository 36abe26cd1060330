#include "checkpoint/async_checkpointer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "checkpoint/reader.h"
#include "testing/example_state.h"
#include "testing/faulty_file_layer.h"
#include "testing/temporary_directory.h"

namespace maxtext {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using testing::ExampleState;
using testing::Fault;
using testing::FaultyFileLayer;
using ::testing::HasSubstr;
using testing::TemporaryDirectory;

/// Calls a function before each write and before each sync of a file: to make the disk slow, or to hold it.
class HookedFileLayer final : public FileLayer {
 public:
  using Hook = std::function<void()>;
  HookedFileLayer(Hook on_write, Hook on_sync) : on_write_(std::move(on_write)), on_sync_(std::move(on_sync)) {}

  void create_directory(const std::filesystem::path& path) override { files_.create_directory(path); }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override { files_.rename(from, to); }
  void sync_directory(const std::filesystem::path& path) override { files_.sync_directory(path); }
  void remove_tree(const std::filesystem::path& path) override { files_.remove_tree(path); }
  std::unique_ptr<OutputFile> create_file(const std::filesystem::path& path) override {
    return std::make_unique<HookedFile>(*this, files_.create_file(path));
  }

 private:
  class HookedFile final : public OutputFile {
   public:
    HookedFile(HookedFileLayer& layer, std::unique_ptr<OutputFile> file) : layer_(layer), file_(std::move(file)) {}
    void write(std::span<const std::byte> bytes) override {
      layer_.on_write_();
      file_->write(bytes);
    }
    void finish() override {
      layer_.on_sync_();
      file_->finish();
    }

   private:
    HookedFileLayer& layer_;
    std::unique_ptr<OutputFile> file_;
  };

  PosixFileLayer files_;
  Hook on_write_;
  Hook on_sync_;
};

void nothing() {}

class AsyncCheckpointerTest : public ::testing::Test {
 protected:
  SaveOptions options(std::shared_ptr<FileLayer> files, int keep = 0) const {
    SaveOptions options;
    options.run_directory = run();
    options.device_count = 2;
    options.keep = keep;
    options.files = std::move(files);
    return options;
  }
  std::filesystem::path run() const { return directory_.path() / "run"; }

 private:
  TemporaryDirectory directory_;
};

TEST_F(AsyncCheckpointerTest, UpdatesBehindTheGateDoNotReachTheCheckpoint) {
  ExampleState training(1);
  AsyncCheckpointer checkpointer(options(std::make_shared<HookedFileLayer>(
      [] { std::this_thread::sleep_for(milliseconds(2)); }, [] { std::this_thread::sleep_for(milliseconds(2)); })));
  checkpointer.save(training.info(), training.owned_by(2));
  checkpointer.wait_before_update();
  training.update();
  const std::optional<SaveResult> result = checkpointer.wait();
  ASSERT_TRUE(result && result->ok()) << result->error;
  EXPECT_EQ(result->bytes, 3 * 4 * (17 * 8 + 12 * 8 + 3));
  ExampleState(1).expect_equal(CheckpointReader(latest_checkpoint(run())), 3);
}

/// Each of the writes of tensors' bytes in turn is the one that the disk holds.
TEST_F(AsyncCheckpointerTest, TheGateStaysClosedWhileAnyWriteIsOutstanding) {
  const ExampleState training(1);
  std::int64_t writes = 0;
  {
    AsyncCheckpointer counting(options(std::make_shared<HookedFileLayer>([&] { ++writes; }, nothing)));
    counting.save(training.info(), training.owned_by(2));
  }
  constexpr std::int64_t kManifestAndMarker = 2;
  for (std::int64_t held = 1; held <= writes - kManifestAndMarker; ++held) {
    std::filesystem::remove_all(run());
    std::latch arrived(1);
    std::latch let_go(1);
    std::int64_t write = 0;
    const auto hold = [&] {
      if (++write != held) return;
      arrived.count_down();
      let_go.wait();
    };
    AsyncCheckpointer checkpointer(options(std::make_shared<HookedFileLayer>(hold, nothing)));
    checkpointer.save(training.info(), training.owned_by(2));
    auto gate = std::async(std::launch::async, [&] { checkpointer.wait_before_update(); });
    arrived.wait();
    EXPECT_EQ(gate.wait_for(milliseconds(5)), std::future_status::timeout) << held;
    let_go.count_down();
    gate.get();
    EXPECT_TRUE(checkpointer.wait()->ok());
  }
}

TEST_F(AsyncCheckpointerTest, SaveReturnsAtOnceAndTheGateOpensBeforeTheDiskHasSynced) {
  const ExampleState training(1);
  std::latch let_go(1);
  AsyncCheckpointer checkpointer(options(std::make_shared<HookedFileLayer>(nothing, [&] { let_go.wait(); })));
  checkpointer.wait_before_update();
  EXPECT_FALSE(checkpointer.busy());
  checkpointer.save(training.info(), training.owned_by(2));
  checkpointer.wait_before_update();
  EXPECT_TRUE(checkpointer.busy());
  EXPECT_EQ(latest_checkpoint(run()), "");
  let_go.count_down();
  ASSERT_TRUE(checkpointer.wait()->ok());
  EXPECT_FALSE(checkpointer.busy());
  training.expect_equal(CheckpointReader(latest_checkpoint(run())), 1);
}

TEST_F(AsyncCheckpointerTest, AFailedSaveIsReportedAndTrainingGoesOn) {
  std::vector<SaveResult> results;
  const auto files = std::make_shared<FaultyFileLayer>(Fault::fail_once, 60);
  {
    ExampleState state(0);
    AsyncCheckpointer checkpointer(options(files, 1), [&](const SaveResult& result) { results.push_back(result); });
    for (std::int64_t step = 1; step <= 4; ++step) {
      checkpointer.wait_before_update();
      state = ExampleState(step);
      checkpointer.save(state.info(), state.owned_by(2));
    }
  }
  ASSERT_EQ(results.size(), 4U);
  EXPECT_TRUE(results[0].ok());
  EXPECT_THAT(results[1].error, HasSubstr("step 2 was not saved"));
  EXPECT_EQ(results[1].step, 2);
  EXPECT_TRUE(results[2].ok()) << results[2].error;
  EXPECT_TRUE(results[3].ok());
  EXPECT_THAT(complete_steps(run()), ElementsAre(4));
  ExampleState(4).expect_equal(CheckpointReader(latest_checkpoint(run())), 2);
}

TEST_F(AsyncCheckpointerTest, AFailureOpensTheGate) {
  const ExampleState state(1);
  AsyncCheckpointer checkpointer(options(std::make_shared<FaultyFileLayer>(Fault::disk_full, 1)));
  checkpointer.save(state.info(), state.owned_by(2));
  checkpointer.wait_before_update();
  EXPECT_FALSE(checkpointer.wait()->ok());
}

/// While it lives the system refuses new threads: no address space has room for their stacks.
class NoNewThreads {
 public:
  NoNewThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 47U);
    EXPECT_EQ(pthread_setattr_default_np(&huge), 0);
    pthread_attr_destroy(&huge);
  }
  ~NoNewThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoNewThreads(const NoNewThreads&) = delete;
  NoNewThreads& operator=(const NoNewThreads&) = delete;

 private:
  pthread_attr_t before_{};
};

TEST_F(AsyncCheckpointerTest, SavingNeedsNoNewThread) {
  const ExampleState state(1);
  AsyncCheckpointer checkpointer(options(std::make_shared<PosixFileLayer>()));
  {
    const NoNewThreads none;
    EXPECT_THROW(std::thread{nothing}, std::system_error);
    checkpointer.save(state.info(), state.owned_by(2));
  }
  checkpointer.wait_before_update();
  EXPECT_TRUE(checkpointer.wait()->ok());
  state.expect_equal(CheckpointReader(latest_checkpoint(run())), 1);
}

TEST_F(AsyncCheckpointerTest, ASystemWithoutThreadsIsAnErrorAtTheStart) {
  const NoNewThreads none;
  try {
    const AsyncCheckpointer checkpointer(options(std::make_shared<PosixFileLayer>()));
    FAIL() << "started";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot start the thread that saves checkpoints"));
  }
}

/// Processes as threads, each with one device.
class Processes {
 public:
  explicit Processes(int count) : count_(count), barrier_(count, [this]() noexcept { turn_over(); }) {}

  /// The result of each process's save.
  std::vector<SaveResult> save(const SaveOptions& base, const ExampleState& state,
                               const std::function<std::shared_ptr<FileLayer>(int)>& files) {
    std::vector<SaveResult> results(static_cast<std::size_t>(count_));
    std::vector<std::thread> threads;
    for (int process = 0; process < count_; ++process) {
      threads.emplace_back([&, process] {
        SaveOptions options = base;
        options.device_count = count_;
        options.process_index = process;
        options.process_count = count_;
        options.files = files(process);
        options.all_succeeded = [this](bool ok) { return agree(ok); };
        AsyncCheckpointer checkpointer(options);
        checkpointer.save(state.info(), {state.owned_by(count_)[static_cast<std::size_t>(process)]});
        results[static_cast<std::size_t>(process)] = *checkpointer.wait();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }

 private:
  bool agree(bool ok) {
    if (!ok) failed_ = true;
    barrier_.arrive_and_wait();
    return agreed_;
  }
  void turn_over() noexcept { agreed_ = !failed_.exchange(false); }

  int count_;
  std::atomic<bool> failed_ = false;
  std::atomic<bool> agreed_ = true;
  std::barrier<std::function<void()>> barrier_;
};

TEST_F(AsyncCheckpointerTest, SeveralProcessesMakeOneCheckpoint) {
  const ExampleState state(7);
  Processes processes(3);
  const auto real = [](int) { return std::make_shared<PosixFileLayer>(); };
  for (const SaveResult& result : processes.save(options(nullptr), state, real)) EXPECT_TRUE(result.ok());
  state.expect_equal(CheckpointReader(latest_checkpoint(run())), 5);
}

TEST_F(AsyncCheckpointerTest, OneFailingProcessFailsTheSaveOfAll) {
  Processes processes(3);
  for (int failing = 0; failing < 3; ++failing) {
    const auto files = [&](int process) -> std::shared_ptr<FileLayer> {
      if (process != failing) return std::make_shared<PosixFileLayer>();
      return std::make_shared<FaultyFileLayer>(Fault::fail_once, process == 0 ? 12 : 3);
    };
    for (const SaveResult& result : processes.save(options(nullptr), ExampleState(7), files)) {
      EXPECT_FALSE(result.ok());
    }
    EXPECT_TRUE(std::filesystem::is_empty(run() / "checkpoints"));
  }
}

}  // namespace
}  // namespace maxtext
