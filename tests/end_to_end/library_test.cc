// Training through the library, where devices and disks can be made to fail.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "config/load.h"
#include "end_to_end/training_runs.h"
#include "engines/cpu/cpu_engine.h"
#include "mesh/device_program.h"
#include "mesh/thread_transport.h"
#include "testing/faulty_file_layer.h"
#include "train/device_state.h"
#include "train/run_setup.h"
#include "train/trainer.h"

namespace maxtext::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Whether a device dies when it starts its collective number `call`, from 1.
using Dies = std::function<bool(int call)>;

Dies at(int call) {
  return [call](int now) { return now == call; };
}

/// Passes collectives on until the one where this device dies.
class MortalCommunicator final : public Communicator {
 public:
  MortalCommunicator(Communicator& inner, Dies dies) : inner_(inner), dies_(std::move(dies)) {}
  const Mesh& mesh() const override { return inner_.mesh(); }
  int device() const override { return inner_.device(); }
  std::unique_ptr<PendingCollective> start(CollectiveRequest request) override {
    if (dies_(++calls_)) fail("its memory module caught fire");
    return inner_.start(std::move(request));
  }
  void abort(const std::string& reason) override { inner_.abort(reason); }
  const CollectiveCounters& counters() const override { return inner_.counters(); }
  bool shares_memory() const override { return inner_.shares_memory(); }
  GroupMemory allocate_shared(AxisSet axes, std::int64_t bytes_per_rank) override {
    return inner_.allocate_shared(axes, bytes_per_rank);
  }

 private:
  Communicator& inner_;
  Dies dies_;
  int calls_ = 0;
};

/// A disk that takes long for each piece, and tells when the first one comes.
class SlowDisk final : public FileLayer {
 public:
  explicit SlowDisk(std::chrono::milliseconds per_piece) : per_piece_(per_piece) {}
  bool writes() const { return writes_; }
  void create_directory(const fs::path& path) override { files_.create_directory(path); }
  std::unique_ptr<OutputFile> create_file(const fs::path& path) override {
    return std::make_unique<File>(files_.create_file(path), *this);
  }
  void rename(const fs::path& from, const fs::path& to) override { files_.rename(from, to); }
  void sync_directory(const fs::path& path) override { files_.sync_directory(path); }
  void remove_tree(const fs::path& path) override { files_.remove_tree(path); }

 private:
  class File final : public OutputFile {
   public:
    File(std::unique_ptr<OutputFile> file, SlowDisk& disk) : file_(std::move(file)), disk_(disk) {}
    void write(std::span<const std::byte> bytes) override {
      disk_.writes_ = true;
      std::this_thread::sleep_for(disk_.per_piece_);
      file_->write(bytes);
    }
    void finish() override { file_->finish(); }

   private:
    std::unique_ptr<OutputFile> file_;
    SlowDisk& disk_;
  };

  PosixFileLayer files_;
  std::chrono::milliseconds per_piece_;
  std::atomic<bool> writes_ = false;
};

class Library : public TrainingRuns {
 protected:
  Config config(const std::string& run, const std::string& overrides) const {
    const std::vector<std::string> words = command(run, overrides);
    ConfigRequest request;
    request.file = fs::path(__FILE__).parent_path().parent_path().parent_path() / words[2];
    request.overrides.assign(words.begin() + 3, words.end());
    return load_config(request);
  }

  /// Engines of one thread each; device `victim` dies when `dies` says so.
  TrainEnvironment environment(int victim = -1, const Dies& dies = {}) {
    TrainEnvironment result;
    result.make_engine = [this, victim, dies](Communicator& communicator, int /*threads*/) {
      const CpuEngineOptions options{.threads = 1};
      if (communicator.device() != victim) return std::make_unique<CpuEngine>(options, communicator);
      const std::lock_guard lock(mutex_);
      mortals_.push_back(std::make_unique<MortalCommunicator>(communicator, dies));
      return std::make_unique<CpuEngine>(options, *mortals_.back());
    };
    return result;
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<MortalCommunicator>> mortals_;
};

TEST_F(Library, ADeviceThatDiesEndsTheRunWithItsReason) {
  for (const int at_call : {1, 2, 5, 20, 60, 150}) {
    const Config dying = config("dying",
                                "steps=100000 ici_context_parallelism=2 ici_fsdp_parallelism=2 "
                                "checkpoint_period=1");
    const auto begin = std::chrono::steady_clock::now();
    try {
      maxtext::train(dying, environment(1, at(at_call)));
      ADD_FAILURE() << "it went on";
    } catch (const PeerFailure& error) {
      ADD_FAILURE() << "a consequence instead of the cause: " << error.what();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "its memory module caught fire");
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5)) << at_call;
  }
  // Whatever was saved before is whole.
  for (const std::int64_t step : complete_steps(path("dying"))) {
    CheckpointReader(step_directory(path("dying"), step)).verify();
  }
}

TEST_F(Library, ADeviceThatDiesDuringASaveDoesNotWaitForTheDisk) {
  // The model has far more than 50 tensors and moments, so that its save takes 10 seconds at least.
  const auto disk = std::make_shared<SlowDisk>(std::chrono::milliseconds(200));
  TrainEnvironment slow = environment(1, [disk](int) { return disk->writes(); });
  slow.files = disk;
  const Config config_of_run = config("slow", "steps=100 checkpoint_period=2 ici_context_parallelism=2");
  ::testing::internal::CaptureStderr();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT([&] { maxtext::train(config_of_run, slow); },
              ::testing::ThrowsMessage<Error>(HasSubstr("its memory module caught fire")));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_THAT(lines_with(::testing::internal::GetCapturedStderr(), "device 1 failed: its memory module caught fire"),
              ::testing::SizeIs(1));
  EXPECT_THAT(complete_steps(path("slow")), IsEmpty());
  EXPECT_TRUE(fs::is_empty(path("slow") / "checkpoints")) << "leftovers";
}

TEST_F(Library, AFullDiskFailsTheSaveAndNothingElse) {
  maxtext::train(config("whole", "steps=9 ici_context_parallelism=2"), environment());
  for (const std::string async : {"true", "false"}) {
    const std::string run = "full" + async;
    const std::string settings = "ici_context_parallelism=2 checkpoint_period=3 async_checkpointing=" + async;
    maxtext::train(config(run, settings + " steps=3"), environment());
    TrainEnvironment full = environment();
    full.files = std::make_shared<FaultyFileLayer>(Fault::disk_full, 4);
    try {
      maxtext::train(config(run, settings + " steps=9"), full);
      ADD_FAILURE() << "nobody is told that the last checkpoint is missing";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("the last checkpoint, of step 9, could not be saved"));
    }
    EXPECT_EQ(numbers(metrics(run)), numbers(metrics("whole"))) << "training went on to its end";
    EXPECT_THAT(complete_steps(path(run)), ElementsAre(3)) << "the previous checkpoint stays";
    maxtext::train(config(run, settings + " steps=9"), environment());
    EXPECT_TRUE(same_checkpoint(checkpoint(run, 9), checkpoint("whole", 9)));
  }
}

TEST_F(Library, AFailedSaveIsMadeUpForByTheNext) {
  TrainEnvironment once = environment();
  once.files = std::make_shared<FaultyFileLayer>(Fault::fail_once, 8);
  maxtext::train(config("run", "steps=6 checkpoint_period=2 ici_context_parallelism=2"), once);
  EXPECT_THAT(complete_steps(path("run")), ElementsAre(4, 6));
}

/// Restores a checkpoint on the mesh of `config` and saves it again without a step in between.
void copy_through_devices(const Config& config, const fs::path& from, const fs::path& run_directory) {
  const RunSetup setup = run_setup(config, std::nullopt);
  const CheckpointReader reader(from);
  ThreadTransport transport(setup.mesh, {});
  std::mutex mutex;
  std::vector<DeviceState> states;
  std::atomic<int> contributed = 0;
  std::atomic<bool> saved = false;
  const auto program = [&](int device) {
    const auto communicator = transport.communicator(device);
    CpuEngine engine({.threads = 1}, *communicator);
    ParameterShards parameters(engine, model_layout(setup.shape, setup.mesh, engine.device()));
    Optimizer optimizer(parameters, setup.optimizer);
    restore_state(reader, parameters, optimizer);
    {
      const std::lock_guard lock(mutex);
      states.push_back(device_state(parameters, optimizer));
    }
    if (++contributed == setup.mesh.device_count()) {
      SaveOptions options;
      options.run_directory = run_directory;
      options.device_count = setup.mesh.device_count();
      save_checkpoint(options, reader.info(), states);
      saved = true;
      saved.notify_all();
    }
    saved.wait(false);
  };
  run_devices(transport.local_devices(), program, [&](int device, const std::string& reason) {
    transport.abort(device, reason);
    saved = true;
    saved.notify_all();
  });
}

TEST_F(Library, WeightsAndMomentsPassThroughAnyMeshBitForBit) {
  maxtext::train(config("original", "steps=3 ici_context_parallelism=2"), environment());
  fs::path from = checkpoint("original", 3);
  const std::vector<std::string> meshes = {"ici_fsdp_parallelism=2",
                                           "ici_context_parallelism=4",
                                           "ici_context_parallelism=3 ici_fsdp_parallelism=2 global_batch_size=2",
                                           "ici_data_parallelism=2 ici_context_parallelism=2",
                                           "ici_tensor_parallelism=2",
                                           "ici_tensor_parallelism=4 ici_context_parallelism=2",
                                           "ici_tensor_parallelism=2 ici_fsdp_parallelism=3 global_batch_size=3",
                                           "steps=3"};
  for (std::size_t i = 0; i < meshes.size(); ++i) {
    const std::string run = "copy" + std::to_string(i);
    copy_through_devices(config(run, meshes[i]), from, path(run));
    EXPECT_TRUE(same_checkpoint(checkpoint(run, 3), checkpoint("original", 3))) << meshes[i];
    from = checkpoint(run, 3);
  }
}

}  // namespace
}  // namespace maxtext::testing
